/* SPDX-License-Identifier: MIT */
/* What `sluice inspect` says about a model file, as text for people and as JSON for programs. */
#pragma once

#include "src/cli/model-summary.h"

G_BEGIN_DECLS

/* Escape sequences, or "" each. */
typedef struct {
    const char *bold;
    const char *dim;
    const char *plain; /* ends the others */
} SluiceReportStyle;

typedef struct {
    const SluiceGguf *gguf;
    const SluiceModelSummary *summary;
    const char *problem; /* why it cannot be run; NULL: it can */
    bool has_tensors;    /* list them all */
    bool is_verified;    /* every weight was read and is a number */
} SluiceInspectReport;

/* (transfer full) both. */
char *sluice_inspect_report_text(const SluiceInspectReport *report, const SluiceReportStyle *style);
char *sluice_inspect_report_json(const SluiceInspectReport *report);

G_END_DECLS
