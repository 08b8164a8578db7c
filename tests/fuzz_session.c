/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target of saved sessions: parses the input for a small model with a full and a windowed
 * table, and reads everything that a restored session would. The checksum of every input is made
 * right first, so that the fields are reached.
 */
#include "config.h"

#include "src/engine/session-file.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static volatile uint64_t sink;

static const SluiceSessionFileLimits limits = {
    .fingerprint = 0x0123456789abcdef,
    .n_vocab = 16,
    .n_ctx = 512,
    .n_tables = 2,
    .page_bytes = {96, 64},
    .windows = {0, 40},
    .max_held = {8, 3},
};

static void
read_bytes(const uint8_t *data, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += data[i];
    sink += sum;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    g_autofree uint8_t *copy = g_memdup2(data, n_bytes);
    g_autoptr(GError) error = NULL;
    SluiceSessionFileView view;

    if (n_bytes >= 8) {
        SluiceSessionFileSum sum = {0};
        uint64_t end;

        sluice_session_file_sum_add(&sum, copy, n_bytes - 8);
        end = GUINT64_TO_LE(sluice_session_file_sum_end(&sum));
        memcpy(copy + n_bytes - 8, &end, 8);
    }
    if (!sluice_session_file_parse(&view, copy, n_bytes, &limits, &error)) {
        g_assert(error != NULL && g_utf8_validate(error->message, -1, NULL));
        return 0;
    }
    g_assert(view.file.n_tokens <= limits.n_ctx && view.file.n_cached <= view.file.n_tokens);
    g_assert(n_bytes <= sluice_session_file_max_bytes(&limits));
    read_bytes(view.tokens, (size_t) view.file.n_tokens * 4);
    if (view.logits != NULL)
        read_bytes(view.logits, (size_t) limits.n_vocab * 4);
    for (int32_t t = 0; t < limits.n_tables; t++)
        read_bytes(view.pages[t], (size_t) (view.file.tables[t].end - view.file.tables[t].begin) *
                                      (size_t) limits.page_bytes[t]);
    return 0;
}
