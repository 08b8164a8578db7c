/* SPDX-License-Identifier: MIT */
/* What a tensor is: a name, a type and a shape. Its bytes belong to whoever placed them. */
#pragma once

#include <glib.h>

#include "src/core/types.h"

G_BEGIN_DECLS

/* Public figures of one element type. */
typedef struct {
    const char *name;   /* "Q4_K"; NULL for an id that no type has */
    int32_t block_len;  /* elements in a block */
    int32_t block_bytes;
    bool is_quantised;  /* matrix products take int8 activations */
} SluiceDtypeInfo;

const SluiceDtypeInfo *sluice_dtype_info(SluiceDtype dtype);
int sluice_dtype_from_name(const char *name);
gboolean sluice_dtype_row_bytes(SluiceDtype dtype, int64_t n, size_t *n_bytes);

G_END_DECLS
