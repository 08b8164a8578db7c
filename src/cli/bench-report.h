/* SPDX-License-Identifier: MIT */
/*
 * What one timed test of "sluice bench" found, and the four forms in which it is written. Names
 * and columns are those of llama-bench where the meaning is the same.
 */
#pragma once

#include "src/cli/options.h"

G_BEGIN_DECLS

typedef struct {
    const char *model_filename;
    const char *model_type;
    uint64_t model_size;
    uint64_t model_n_params;
    int32_t n_batch;
    int32_t n_ubatch;
    int n_threads;
    int n_threads_batch;
    SluiceKvType type_k;
    SluiceKvType type_v;
    bool use_mmap;
    int32_t n_prompt;
    int32_t n_gen;
    int32_t n_depth;
    gint64 test_time;   /* seconds since 1970 */
    GArray *samples_ns; /* double, one per repetition, at least one */
} SluiceBenchResult;

/* Which of the optional columns the table has: those that are not at their default everywhere. */
typedef struct {
    SluiceOutputFormat format;
    bool has_batch;
    bool has_ubatch;
    bool has_threads_batch;
    bool has_type_k;
    bool has_type_v;
    bool has_mmap;
    guint n_written;
    char *cpu_info;
} SluiceBenchReport;

void sluice_bench_report_init(SluiceBenchReport *report, const SluiceOptions *options);
void sluice_bench_report_clear(SluiceBenchReport *report);
void sluice_bench_report_begin(SluiceBenchReport *report, GString *out);
void sluice_bench_report_add(SluiceBenchReport *report, const SluiceBenchResult *result,
                             GString *out);
void sluice_bench_report_end(SluiceBenchReport *report, GString *out);

G_END_DECLS
