/* SPDX-License-Identifier: MIT */
/*
 * The bytes of a model in the host's places: in memory of our own with huge pages when they fit in
 * what is available, in the file's mapping otherwise. Answers views by (handle, axis, part).
 */
#pragma once

#include <glib.h>

#include "src/core/backend.h"

G_BEGIN_DECLS

/* A file that holds tensors, open for reading. */
typedef struct {
    const char *path;
    int fd;
    uint64_t n_bytes;
} SluiceResidencyFile;

/* One tensor; handle i + 1 is tensors[i]. The shape is in the file's order, ne[0] contiguous. */
typedef struct {
    SluiceDtype dtype;
    int n_dims;
    int64_t ne[4];
    size_t n_bytes;
    int file_idx;
    uint64_t offset;    /* in that file */
    const void *mapped; /* its bytes in the mapping */
    bool is_used;       /* others are never loaded and have no view */
} SluiceResidencyTensor;

typedef enum {
    SLUICE_RESIDENCY_AUTO,   /* memory when it fits, the mapping otherwise */
    SLUICE_RESIDENCY_MEMORY, /* memory, or an error */
    SLUICE_RESIDENCY_MAP,    /* the mapping */
} SluiceResidencyMode;

typedef struct {
    const SluiceResidencyFile *files;
    int n_files;
    const SluiceResidencyTensor *tensors;
    size_t n_tensors;
    SluiceResidencyMode mode;
    bool lock_memory;
    int n_threads;        /* readers; 0: two, or as many as there are processors up to eight */
    uint64_t other_bytes; /* that the caller will allocate besides: caches, scratch */
    void (*progress)(uint64_t n_bytes_done, uint64_t n_bytes, gpointer user_data);
    gpointer progress_data;
} SluiceResidencySpec;

/* Where the bytes go, or went, and why. */
typedef struct {
    bool is_mapped;
    uint64_t n_bytes;     /* of the tensors in use, with padding, and whole huge pages in memory */
    uint64_t n_available; /* when it was decided; 0: not known */
    const char *reason;   /* in words, static */
} SluiceResidencyPlan;

/* What of its own memory the residency takes: the address tables. */
size_t sluice_residency_table_bytes(const SluiceResidencySpec *spec);
gboolean sluice_residency_plan(const SluiceResidencySpec *spec, SluiceResidencyPlan *plan,
                               GError **error);
SluiceResidency *sluice_residency_new(const SluiceResidencySpec *spec,
                                      const SluiceResidencyPlan *plan, GError **error);
void sluice_residency_free(SluiceResidency *residency);
uint64_t sluice_residency_available_bytes(void);

G_END_DECLS
