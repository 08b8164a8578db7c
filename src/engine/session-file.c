/* SPDX-License-Identifier: MIT */
/* The layout of a saved session: composing and, above all, checking it. */
#include "config.h"

#include "src/engine/session-file.h"

#include <string.h>

#include "src/core/backend.h"
#include "src/core/error.h"

#define FILE_VERSION 1
#define HEAD_BYTES 56
#define TABLE_BYTES 16
#define SUM_BYTES 8

static const char magic[8] = "SLUSESS";

/* ---- checksum ------------------------------------------------------------------------------- */

static uint64_t
mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

/**
 * sluice_session_file_sum_add:
 * @sum: a running checksum; all zero at first
 * @data: bytes
 * @n_bytes: their number
 *
 * Takes words of eight bytes: it guards against damage, not against malice.
 */
void
sluice_session_file_sum_add(SluiceSessionFileSum *sum, const void *data, size_t n_bytes)
{
    const uint8_t *p = data;

    while (n_bytes > 0) {
        unsigned at = (unsigned) (sum->n_bytes % 8);

        if (at == 0 && n_bytes >= 8) {
            uint64_t word;

            memcpy(&word, p, 8);
            sum->hash = mix(sum->hash, GUINT64_FROM_LE(word));
            p += 8;
            n_bytes -= 8;
            sum->n_bytes += 8;
            continue;
        }
        sum->word |= (uint64_t) *p++ << (8 * at);
        n_bytes--;
        sum->n_bytes++;
        if (at == 7) {
            sum->hash = mix(sum->hash, sum->word);
            sum->word = 0;
        }
    }
}

uint64_t
sluice_session_file_sum_end(const SluiceSessionFileSum *sum)
{
    return mix(mix(sum->hash, sum->word), sum->n_bytes);
}

/* ---- writing -------------------------------------------------------------------------------- */

static void
put_u32(GByteArray *out, uint32_t value)
{
    value = GUINT32_TO_LE(value);
    g_byte_array_append(out, (const guint8 *) &value, 4);
}

static void
put_u64(GByteArray *out, uint64_t value)
{
    value = GUINT64_TO_LE(value);
    g_byte_array_append(out, (const guint8 *) &value, 8);
}

/**
 * sluice_session_file_head:
 * @file: what the file shall say
 *
 * Returns: (transfer full): its fields
 */
GByteArray *
sluice_session_file_head(const SluiceSessionFile *file)
{
    GByteArray *out = g_byte_array_new();

    g_byte_array_append(out, (const guint8 *) magic, sizeof magic);
    put_u32(out, FILE_VERSION);
    put_u32(out, SLUICE_PAGE_TOKENS);
    put_u64(out, file->fingerprint);
    put_u32(out, (uint32_t) file->n_vocab);
    put_u32(out, (uint32_t) file->n_tables);
    put_u32(out, (uint32_t) file->k_type);
    put_u32(out, (uint32_t) file->v_type);
    put_u32(out, (uint32_t) file->n_tokens);
    put_u32(out, (uint32_t) file->n_cached);
    put_u32(out, file->has_logits);
    put_u32(out, 0);
    g_assert(out->len == HEAD_BYTES);
    for (int32_t t = 0; t < file->n_tables; t++) {
        put_u32(out, (uint32_t) file->tables[t].begin);
        put_u32(out, (uint32_t) file->tables[t].end);
        put_u64(out, file->tables[t].page_bytes);
    }
    return out;
}

/* All counts are non-negative and pages are bounded by a context: this cannot wrap. */
uint64_t
sluice_session_file_bytes(const SluiceSessionFile *file)
{
    uint64_t n = HEAD_BYTES + (uint64_t) file->n_tables * TABLE_BYTES +
                 (uint64_t) file->n_tokens * 4 +
                 (file->has_logits ? (uint64_t) file->n_vocab * 4 : 0) + SUM_BYTES;

    for (int32_t t = 0; t < file->n_tables; t++)
        n += (uint64_t) (file->tables[t].end - file->tables[t].begin) * file->tables[t].page_bytes;
    return n;
}

uint64_t
sluice_session_file_max_bytes(const SluiceSessionFileLimits *limits)
{
    SluiceSessionFile file = {.n_vocab = limits->n_vocab,
                              .n_tables = limits->n_tables,
                              .n_tokens = limits->n_ctx,
                              .has_logits = true};

    for (int32_t t = 0; t < limits->n_tables; t++)
        file.tables[t] = (SluiceSessionFileTable){0, limits->max_held[t], limits->page_bytes[t]};
    return sluice_session_file_bytes(&file);
}

/* ---- reading -------------------------------------------------------------------------------- */

static uint32_t
get_u32(const uint8_t *p)
{
    uint32_t value;

    memcpy(&value, p, 4);
    return GUINT32_FROM_LE(value);
}

static uint64_t
get_u64(const uint8_t *p)
{
    uint64_t value;

    memcpy(&value, p, 8);
    return GUINT64_FROM_LE(value);
}

static gboolean fail(GError **error, int code, const char *format, ...) G_GNUC_PRINTF(3, 4);

static gboolean
fail(GError **error, int code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (error != NULL)
        *error = g_error_new_valist(SLUICE_ERROR, code, format, args);
    va_end(args);
    return FALSE;
}

static gboolean
parse_identity(const uint8_t *p, size_t n_bytes, const SluiceSessionFileLimits *limits,
               GError **error)
{
    if (n_bytes < HEAD_BYTES + SUM_BYTES)
        return fail(error, SLUICE_ERROR_FORMAT,
                    "a session has at least %d bytes, this file has %zu", HEAD_BYTES + SUM_BYTES,
                    n_bytes);
    if (memcmp(p, magic, sizeof magic) != 0)
        return fail(error, SLUICE_ERROR_FORMAT, "not a saved session");
    if (get_u32(p + 8) != FILE_VERSION)
        return fail(error, SLUICE_ERROR_FORMAT, "session of version %u, expected %d",
                    get_u32(p + 8), FILE_VERSION);
    if (get_u32(p + 12) != SLUICE_PAGE_TOKENS)
        return fail(error, SLUICE_ERROR_FORMAT, "session with pages of %u tokens, expected %d",
                    get_u32(p + 12), SLUICE_PAGE_TOKENS);
    if (get_u64(p + 16) != limits->fingerprint || get_u32(p + 24) != (uint32_t) limits->n_vocab ||
        get_u32(p + 28) != (uint32_t) limits->n_tables)
        return fail(error, SLUICE_ERROR_FORMAT, "session of another model");
    if (get_u32(p + 32) != (uint32_t) limits->k_type ||
        get_u32(p + 36) != (uint32_t) limits->v_type)
        return fail(error, SLUICE_ERROR_FORMAT,
                    "session with KV cache types %u and %u, this engine has %d and %d",
                    get_u32(p + 32), get_u32(p + 36), limits->k_type, limits->v_type);
    return TRUE;
}

static gboolean
parse_counts(SluiceSessionFile *file, const uint8_t *p, const SluiceSessionFileLimits *limits,
             GError **error)
{
    uint32_t n_tokens = get_u32(p + 40), n_cached = get_u32(p + 44), has_logits = get_u32(p + 48);

    if (n_tokens > (uint32_t) limits->n_ctx)
        return fail(error, SLUICE_ERROR_CONTEXT,
                    "a session of %u tokens does not fit the context of %d tokens", n_tokens,
                    limits->n_ctx);
    if (n_cached > n_tokens || has_logits > 1 || get_u32(p + 52) != 0 ||
        (has_logits == 1 && (n_tokens == 0 || n_cached != n_tokens)))
        return fail(error, SLUICE_ERROR_FORMAT,
                    "damaged session: %u of %u tokens in the cache, logits %u", n_cached, n_tokens,
                    has_logits);
    *file = (SluiceSessionFile){.fingerprint = limits->fingerprint,
                                .n_vocab = limits->n_vocab,
                                .n_tables = limits->n_tables,
                                .k_type = limits->k_type,
                                .v_type = limits->v_type,
                                .n_tokens = (int32_t) n_tokens,
                                .n_cached = (int32_t) n_cached,
                                .has_logits = has_logits == 1};
    return TRUE;
}

/* Table t must hold what a row behind the last cached token reads. */
static gboolean
parse_table(SluiceSessionFile *file, int32_t t, const uint8_t *p,
            const SluiceSessionFileLimits *limits, GError **error)
{
    uint32_t begin = get_u32(p), end = get_u32(p + 4);
    uint32_t n_pages = ((uint32_t) file->n_cached + SLUICE_PAGE_TOKENS - 1) / SLUICE_PAGE_TOKENS;
    int32_t first = limits->windows[t] > 0 ? MAX(0, file->n_cached - limits->windows[t] + 1) : 0;
    bool is_needed = first < file->n_cached;

    if (get_u64(p + 8) != limits->page_bytes[t])
        return fail(error, SLUICE_ERROR_FORMAT,
                    "damaged session: pages of %" G_GUINT64_FORMAT
                    " bytes, expected %" G_GUINT64_FORMAT,
                    get_u64(p + 8), limits->page_bytes[t]);
    if (begin > end || end > n_pages || end - begin > (uint32_t) limits->max_held[t] ||
        (is_needed && (end != n_pages || begin > (uint32_t) (first / SLUICE_PAGE_TOKENS))))
        return fail(error, SLUICE_ERROR_FORMAT,
                    "damaged session: pages %u to %u for %d tokens, a context's limit is %d", begin,
                    end, file->n_cached, limits->max_held[t]);
    file->tables[t] =
        (SluiceSessionFileTable){(int32_t) begin, (int32_t) end, limits->page_bytes[t]};
    return TRUE;
}

static gboolean
check_tokens(const SluiceSessionFileView *view, GError **error)
{
    for (int32_t i = 0; i < view->file.n_tokens; i++) {
        uint32_t token = get_u32(view->tokens + (size_t) i * 4);

        if (token >= (uint32_t) view->file.n_vocab)
            return fail(error, SLUICE_ERROR_FORMAT,
                        "damaged session: token id %u is outside the vocabulary of %d", token,
                        view->file.n_vocab);
    }
    return TRUE;
}

static gboolean
check_sum(const uint8_t *data, size_t n_bytes, GError **error)
{
    SluiceSessionFileSum sum = {0};

    sluice_session_file_sum_add(&sum, data, n_bytes - SUM_BYTES);
    if (sluice_session_file_sum_end(&sum) != get_u64(data + n_bytes - SUM_BYTES))
        return fail(error, SLUICE_ERROR_FORMAT, "damaged session: the checksum does not match");
    return TRUE;
}

/**
 * sluice_session_file_parse:
 * @view: (out): where things lie in @data
 * @data: a whole file
 * @n_bytes: its length
 * @limits: what it must agree with
 * @error: return location, or %NULL
 *
 * Checks every field, and that the file is exactly as long as they say.
 *
 * Returns: false with %SLUICE_ERROR_FORMAT, or %SLUICE_ERROR_CONTEXT if it is too long for the
 *   context
 */
gboolean
sluice_session_file_parse(SluiceSessionFileView *view, const uint8_t *data, size_t n_bytes,
                          const SluiceSessionFileLimits *limits, GError **error)
{
    size_t at = HEAD_BYTES;
    uint64_t n_expected;

    memset(view, 0, sizeof *view);
    if (!parse_identity(data, n_bytes, limits, error) ||
        !parse_counts(&view->file, data, limits, error))
        return FALSE;
    for (int32_t t = 0; t < limits->n_tables; t++, at += TABLE_BYTES) {
        if (n_bytes - at < TABLE_BYTES + SUM_BYTES)
            return fail(error, SLUICE_ERROR_FORMAT, "session is truncated at %zu bytes", n_bytes);
        if (!parse_table(&view->file, t, data + at, limits, error))
            return FALSE;
    }
    n_expected = sluice_session_file_bytes(&view->file);
    if (n_expected != n_bytes)
        return fail(error, SLUICE_ERROR_FORMAT,
                    "session has %zu bytes, expected %" G_GUINT64_FORMAT, n_bytes, n_expected);
    view->tokens = data + at;
    at += (size_t) view->file.n_tokens * 4;
    if (view->file.has_logits) {
        view->logits = data + at;
        at += (size_t) view->file.n_vocab * 4;
    }
    for (int32_t t = 0; t < limits->n_tables; t++) {
        const SluiceSessionFileTable *table = &view->file.tables[t];

        view->pages[t] = data + at;
        at += (size_t) (table->end - table->begin) * (size_t) table->page_bytes;
    }
    return check_tokens(view, error) && check_sum(data, n_bytes, error);
}
