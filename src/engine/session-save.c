/* SPDX-License-Identifier: MIT */
/*
 * Saving and restoring a session. A file appears under its name only when it is whole and on the
 * disk; a session changes only when the whole file has been checked.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/core/error.h"
#include "src/engine/session-file.h"
#include "src/engine/session.h"

/* Pages that are copied out between two synchronisations. */
#define PAGES_AT_ONCE 16
/* Bytes of each tensor that make a fine-tune differ from its base. */
#define SAMPLE_BYTES 64

/* ---- identity ------------------------------------------------------------------------------- */

/* Numbers of the family's metadata, and of every tensor its name, type, shape and first bytes,
 * read from the file. */
static uint64_t
fingerprint(const SluiceModel *model)
{
    const SluiceGguf *gguf = model->gguf;
    SluiceSessionFileSum sum = {0};
    size_t n_prefix = strlen(model->family->name);

    sluice_session_file_sum_add(&sum, model->family->name, n_prefix);
    for (size_t i = 0; i < sluice_gguf_n_entries(gguf); i++) {
        const SluiceGgufEntry *e = sluice_gguf_entry(gguf, i);
        double value = 0.0;

        if (e->key.n_bytes <= n_prefix || memcmp(e->key.data, model->family->name, n_prefix) != 0)
            continue;
        g_autofree char *key = g_strndup(e->key.data, e->key.n_bytes);

        if (e->type != SLUICE_GGUF_ARRAY && e->type != SLUICE_GGUF_STRING)
            sluice_gguf_float(gguf, key, &value, NULL);
        sluice_session_file_sum_add(&sum, key, e->key.n_bytes);
        sluice_session_file_sum_add(&sum, &value, sizeof value);
    }
    for (size_t i = 0; i < sluice_gguf_n_tensors(gguf); i++) {
        const SluiceGgufTensor *t = sluice_gguf_tensor(gguf, i);
        uint8_t sample[SAMPLE_BYTES] = {0};
        uint32_t dtype = (uint32_t) t->dtype;

        if (pread(sluice_gguf_file_fd(gguf, t->file_idx), sample, MIN(SAMPLE_BYTES, t->n_bytes),
                  (off_t) t->offset) < 0)
            memset(sample, 0, sizeof sample);
        sluice_session_file_sum_add(&sum, t->name, strlen(t->name) + 1);
        sluice_session_file_sum_add(&sum, &dtype, sizeof dtype);
        sluice_session_file_sum_add(&sum, t->ne, sizeof t->ne);
        sluice_session_file_sum_add(&sum, sample, sizeof sample);
    }
    return sluice_session_file_sum_end(&sum);
}

static SluiceSessionFileLimits
limits_of(const SluiceEngine *e)
{
    SluiceSessionFileLimits limits = {.fingerprint = fingerprint(e->model),
                                      .n_vocab = e->model->params.n_vocab,
                                      .n_ctx = e->params.n_ctx,
                                      .n_tables = e->cache.n_tables,
                                      .k_type = (int32_t) e->params.type_k,
                                      .v_type = (int32_t) e->params.type_v};

    g_assert(limits.n_tables <= SLUICE_SESSION_FILE_MAX_TABLES);
    for (int32_t t = 0; t < limits.n_tables; t++) {
        limits.page_bytes[t] = e->backend->ops->page_bytes(e->backend, t);
        limits.windows[t] = e->cache.pools[t].window;
        limits.max_held[t] = e->cache.pools[t].n_max_held;
    }
    return limits;
}

/* ---- saving --------------------------------------------------------------------------------- */

typedef struct {
    int fd;
    const char *path;
    SluiceSessionFileSum sum;
} Output;

static gboolean
set_file_error(GError **error, const char *verb, const char *path, int code)
{
    g_autofree char *shown = sluice_error_printable(path, -1);

    g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FILE, "cannot %s '%s': %s", verb, shown,
                g_strerror(code));
    return FALSE;
}

static gboolean
write_bytes(Output *out, const void *data, size_t n_bytes, GError **error)
{
    const uint8_t *p = data;

    sluice_session_file_sum_add(&out->sum, data, n_bytes);
    while (n_bytes > 0) {
        ssize_t n = write(out->fd, p, n_bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return set_file_error(error, "write", out->path, n < 0 ? errno : ENOSPC);
        p += n;
        n_bytes -= (size_t) n;
    }
    return TRUE;
}

/* Numbers of four bytes, as the file has them. */
static gboolean
write_words(Output *out, const void *data, size_t n, GError **error)
{
    const uint32_t *words = data;
    uint32_t chunk[1024];

    for (size_t at = 0; at < n; at += G_N_ELEMENTS(chunk)) {
        size_t n_chunk = MIN(n - at, G_N_ELEMENTS(chunk));

        for (size_t i = 0; i < n_chunk; i++)
            chunk[i] = GUINT32_TO_LE(words[at + i]);
        if (!write_bytes(out, chunk, n_chunk * 4, error))
            return FALSE;
    }
    return TRUE;
}

static gboolean
sync_backend(SluiceEngine *e, GError **error)
{
    char text[256] = "";

    if (e->backend->ops->sync(e->backend, text, sizeof text) == SLUICE_STATUS_OK)
        return TRUE;
    g_set_error_literal(error, SLUICE_ERROR, SLUICE_ERROR_DEVICE, text);
    return FALSE;
}

static gboolean
write_table(Output *out, const SluiceSession *s, int32_t table, uint8_t *buffer, GError **error)
{
    SluiceEngine *e = s->engine;
    const SluiceKvSeq *row = &s->kv[table];
    size_t n_page = e->backend->ops->page_bytes(e->backend, table);

    for (int32_t at = row->begin; at < row->end; at += PAGES_AT_ONCE) {
        int32_t n = MIN(row->end - at, PAGES_AT_ONCE);

        for (int32_t i = 0; i < n; i++)
            e->backend->ops->state_copy(
                e->backend, &(SluiceStateCopyArgs){.tag = {.layer = -1},
                                                   .kind = SLUICE_STATE_PAGE,
                                                   .table = table,
                                                   .src = row->pages[at + i],
                                                   .dst = -1,
                                                   .host = buffer + (size_t) i * n_page});
        if (!sync_backend(e, error) || !write_bytes(out, buffer, (size_t) n * n_page, error))
            return FALSE;
    }
    return TRUE;
}

static SluiceSessionFile
describe(const SluiceSession *s, const SluiceSessionFileLimits *limits)
{
    SluiceSessionFile file = {.fingerprint = limits->fingerprint,
                              .n_vocab = limits->n_vocab,
                              .n_tables = limits->n_tables,
                              .k_type = limits->k_type,
                              .v_type = limits->v_type,
                              .n_tokens = s->n_tokens,
                              .n_cached = s->n_cached,
                              .has_logits = s->has_logits};

    for (int32_t t = 0; t < limits->n_tables; t++)
        file.tables[t] =
            (SluiceSessionFileTable){s->kv[t].begin, s->kv[t].end, limits->page_bytes[t]};
    return file;
}

static gboolean
write_session(Output *out, const SluiceSession *s, GError **error)
{
    SluiceSessionFileLimits limits = limits_of(s->engine);
    SluiceSessionFile file = describe(s, &limits);
    g_autoptr(GByteArray) head = sluice_session_file_head(&file);
    g_autofree uint8_t *buffer = NULL;
    size_t n_page = 0;
    uint64_t sum;

    for (int32_t t = 0; t < limits.n_tables; t++)
        n_page = MAX(n_page, (size_t) limits.page_bytes[t]);
    buffer = g_try_malloc_n(PAGES_AT_ONCE, n_page);
    if (buffer == NULL) {
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY,
                    "cannot allocate %d pages of %zu bytes", PAGES_AT_ONCE, n_page);
        return FALSE;
    }
    if (!write_bytes(out, head->data, head->len, error) ||
        !write_words(out, s->tokens, (size_t) s->n_tokens, error) ||
        (s->has_logits && !write_words(out, s->logits, (size_t) file.n_vocab, error)))
        return FALSE;
    for (int32_t t = 0; t < limits.n_tables; t++) {
        if (!write_table(out, s, t, buffer, error))
            return FALSE;
    }
    sum = GUINT64_TO_LE(sluice_session_file_sum_end(&out->sum));
    return write_bytes(out, &sum, sizeof sum, error);
}

/* So that the new name itself survives a power cut. */
static void
sync_folder(const char *path)
{
    g_autofree char *folder = g_path_get_dirname(path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

/**
 * sluice_session_save:
 * @session: a session
 * @path: where to; replaced in one step when the new file is whole
 * @error: return location, or %NULL
 *
 * Writes tokens, cache and logits.
 *
 * Returns: false with %SLUICE_ERROR_FILE; @path is then as it was
 * Since: 0.1
 */
gboolean
sluice_session_save(SluiceSession *session, const char *path, GError **error)
{
    g_autofree char *temporary = NULL;
    Output out = {.path = path};
    gboolean is_done;

    g_return_val_if_fail(session != NULL && path != NULL, FALSE);
    temporary = g_strconcat(path, ".XXXXXX", NULL);
    out.fd = g_mkstemp_full(temporary, O_RDWR | O_CLOEXEC, 0600);
    if (out.fd < 0)
        return set_file_error(error, "create", path, errno);
    is_done = write_session(&out, session, error);
    if (is_done && fsync(out.fd) != 0)
        is_done = set_file_error(error, "write", path, errno);
    if (close(out.fd) != 0 && is_done)
        is_done = set_file_error(error, "write", path, errno);
    if (is_done && g_rename(temporary, path) != 0)
        is_done = set_file_error(error, "replace", path, errno);
    if (is_done)
        sync_folder(path);
    else
        g_unlink(temporary);
    return is_done;
}

/* ---- restoring ------------------------------------------------------------------------------ */

/* (transfer full): the whole file; of one that is longer than any session of this engine, so much
 * that its fields can say why. */
static uint8_t *
read_file(const char *path, uint64_t n_max, size_t *n_bytes, GError **error)
{
    g_autofree uint8_t *data = NULL;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t n_wanted, n = 0;
    ssize_t got = 1;

    if (fd < 0) {
        set_file_error(error, "open", path, errno);
        return NULL;
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        g_autofree char *shown = sluice_error_printable(path, -1);

        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FILE, "'%s' is not a regular file", shown);
        close(fd);
        return NULL;
    }
    n_wanted = (size_t) MIN((uint64_t) st.st_size, n_max + 1);
    data = g_try_malloc(n_wanted + 1);
    if (data == NULL)
        g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_MEMORY,
                    "cannot allocate %zu bytes for a session", n_wanted);
    while (data != NULL && n < n_wanted && got != 0) {
        got = read(fd, data + n, n_wanted - n);
        if (got < 0 && errno != EINTR) {
            set_file_error(error, "read", path, errno);
            g_clear_pointer(&data, g_free);
        }
        n += (size_t) MAX(0, got);
    }
    close(fd);
    *n_bytes = n;
    return g_steal_pointer(&data);
}

static gboolean
restore_pages(SluiceSession *s, const SluiceSessionFileView *view, GError **error)
{
    SluiceEngine *e = s->engine;

    for (int32_t t = 0; t < e->cache.n_tables; t++) {
        const SluiceSessionFileTable *table = &view->file.tables[t];

        if (!sluice_kv_cache_take(&e->cache, s->kv, t, table->begin, table->end)) {
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_CONTEXT,
                        "no KV page is left for %d tokens", view->file.n_cached);
            return FALSE;
        }
        for (int32_t p = table->begin; p < table->end; p++)
            e->backend->ops->state_copy(
                e->backend, &(SluiceStateCopyArgs){.tag = {.layer = -1},
                                                   .kind = SLUICE_STATE_PAGE,
                                                   .table = t,
                                                   .src = -1,
                                                   .dst = s->kv[t].pages[p],
                                                   .host = (uint8_t *) view->pages[t] +
                                                           (size_t) (p - table->begin) *
                                                               (size_t) table->page_bytes});
    }
    return sync_backend(e, error);
}

static void
copy_words(void *to, const uint8_t *from, size_t n)
{
    uint32_t *words = to;

    memcpy(words, from, n * 4);
    for (size_t i = 0; i < n; i++)
        words[i] = GUINT32_FROM_LE(words[i]);
}

/**
 * sluice_session_load:
 * @session: a session; what it held is forgotten
 * @path: a file of sluice_session_save(), by the same model and cache types
 * @error: return location, or %NULL
 *
 * Returns: false with %SLUICE_ERROR_FILE, %SLUICE_ERROR_FORMAT or %SLUICE_ERROR_CONTEXT: then the
 *   session is as it was; with %SLUICE_ERROR_DEVICE it is empty
 * Since: 0.1
 */
gboolean
sluice_session_load(SluiceSession *session, const char *path, GError **error)
{
    SluiceSessionFileLimits limits;
    SluiceSessionFileView view;
    g_autofree uint8_t *data = NULL;
    size_t n_bytes = 0;
    SluiceSession *s = session;

    g_return_val_if_fail(session != NULL && path != NULL, FALSE);
    limits = limits_of(s->engine);
    data = read_file(path, sluice_session_file_max_bytes(&limits), &n_bytes, error);
    if (data == NULL)
        return FALSE;
    if (!sluice_session_file_parse(&view, data, n_bytes, &limits, error)) {
        g_autofree char *shown = sluice_error_printable(path, -1);

        g_prefix_error(error, "'%s': ", shown);
        return FALSE;
    }
    sluice_kv_cache_truncate(&s->engine->cache, s->kv, 0);
    s->n_tokens = s->n_cached = 0;
    s->has_logits = false;
    if (!restore_pages(s, &view, error)) {
        sluice_kv_cache_truncate(&s->engine->cache, s->kv, 0);
        return FALSE;
    }
    copy_words(s->tokens, view.tokens, (size_t) view.file.n_tokens);
    if (view.file.has_logits)
        copy_words(s->logits, view.logits, (size_t) view.file.n_vocab);
    s->n_tokens = view.file.n_tokens;
    s->n_cached = view.file.n_cached;
    s->has_logits = view.file.has_logits;
    return TRUE;
}
