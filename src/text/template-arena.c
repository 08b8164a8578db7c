/* SPDX-License-Identifier: MIT */
/*
 * Memory of a template and of a rendering, freed all at once, and the builder of texts on top of
 * it. A text keeps one flag per byte beside it that says whether the byte is untrusted.
 */
#include "config.h"

#include "src/text/template-private.h"

#include <stddef.h>
#include <string.h>

enum { CHUNK_BYTES = 16 << 10, TEXT_CHUNK_BYTES = 32 << 10 };

struct _SluiceTplChunk {
    SluiceTplChunk *next;
    gsize n_used;
    gsize n_cap;
    max_align_t memory[];
};

/* Bytes and flags share offsets: what begins at data[i] has its flags at taint[i]. */
struct _SluiceTplTextChunk {
    SluiceTplTextChunk *next;
    gsize n_used;
    gsize n_cap;
    uint8_t *taint;
    char data[];
};

void
sluice_tpl_arena_init(SluiceTplArena *arena, gsize n_max_bytes)
{
    *arena = (SluiceTplArena){.n_max_bytes = n_max_bytes};
}

void
sluice_tpl_arena_clear(SluiceTplArena *arena)
{
    for (SluiceTplChunk *chunk = arena->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        g_free(chunk);
    }
    for (SluiceTplTextChunk *chunk = arena->texts, *next; chunk; chunk = next) {
        next = chunk->next;
        g_free(chunk);
    }
    *arena = (SluiceTplArena){0};
}

/* Memory of the system, counted against the limit. */
static void *
take_bytes(SluiceTplArena *arena, gsize n_bytes)
{
    void *memory;

    if (n_bytes > arena->n_max_bytes - arena->n_bytes)
        return NULL;
    memory = g_try_malloc0(n_bytes);
    if (memory)
        arena->n_bytes += n_bytes;
    return memory;
}

void *
sluice_tpl_arena_alloc(SluiceTplArena *arena, gsize n_items, gsize n_item_bytes)
{
    SluiceTplChunk *chunk = arena->chunks;
    gsize n_bytes;
    void *memory;

    if (!g_size_checked_mul(&n_bytes, n_items, n_item_bytes) ||
        !g_size_checked_add(&n_bytes, n_bytes, sizeof(max_align_t) - 1))
        return NULL;
    n_bytes = n_bytes / sizeof(max_align_t) * sizeof(max_align_t);
    if (!chunk || n_bytes > chunk->n_cap - chunk->n_used) {
        gsize n_cap = MAX(n_bytes, CHUNK_BYTES);
        gsize n_total;

        if (!g_size_checked_add(&n_total, n_cap, sizeof *chunk) ||
            !(chunk = take_bytes(arena, n_total)))
            return NULL;
        chunk->n_cap = n_cap;
        chunk->next = arena->chunks;
        arena->chunks = chunk;
    }
    memory = (char *) chunk->memory + chunk->n_used;
    chunk->n_used += n_bytes;
    return memory;
}

void
sluice_tpl_builder_init(SluiceTplBuilder *b, SluiceTplArena *arena)
{
    *b = (SluiceTplBuilder){.arena = arena};
}

static gsize
count_tainted(const SluiceTplString *s)
{
    gsize n_tainted = 0;

    if (!s->taint)
        return s->is_tainted ? s->n : 0;
    for (gsize i = 0; i < s->n; i++)
        n_tainted += s->taint[i];
    return n_tainted;
}

void
sluice_tpl_builder_init_from(SluiceTplBuilder *b, SluiceTplArena *arena, const SluiceTplString *s)
{
    SluiceTplTextChunk *chunk = arena->texts;

    sluice_tpl_builder_init(b, arena);
    /* A loop that appends to one text would copy it every time. The newest text of the arena can
     * grow where it is: other views of it keep their own lengths. */
    if (chunk && s->n > 0 && s->data >= chunk->data && s->data < chunk->data + chunk->n_used &&
        s->data + s->n == chunk->data + chunk->n_used) {
        b->chunk = chunk;
        b->data = chunk->data + (s->data - chunk->data);
        b->taint = chunk->taint + (s->data - chunk->data);
        b->n = b->n_cap = s->n;
        b->n_tainted = count_tainted(s);
    } else {
        sluice_tpl_builder_string(b, s);
    }
    b->is_markup = s->is_markup;
}

/* Makes room for @n more bytes: where the text is, if nothing lies behind it, else elsewhere. */
static bool
reserve(SluiceTplBuilder *b, gsize n)
{
    SluiceTplTextChunk *chunk = b->chunk;
    gsize n_needed;
    gsize n_cap;
    gsize n_total;

    if (b->has_failed)
        return false;
    if (n <= b->n_cap - b->n)
        return true;
    b->has_failed = true;
    if (!g_size_checked_add(&n_needed, b->n, n))
        return false;
    if (chunk && b->data + b->n_cap == chunk->data + chunk->n_used &&
        n_needed - b->n_cap <= chunk->n_cap - chunk->n_used) {
        chunk->n_used += n_needed - b->n_cap;
        b->n_cap = n_needed;
        b->has_failed = false;
        return true;
    }
    n_cap = MAX(n_needed, 16);
    if (b->n_cap > 0 && !g_size_checked_add(&n_cap, n_needed, b->n_cap))
        return false;
    chunk = b->arena->texts;
    if (!chunk || n_cap > chunk->n_cap - chunk->n_used) {
        gsize n_chunk = MAX(n_cap, TEXT_CHUNK_BYTES);
        if (!g_size_checked_mul(&n_total, n_chunk, 2) ||
            !g_size_checked_add(&n_total, n_total, sizeof *chunk) ||
            !(chunk = take_bytes(b->arena, n_total)))
            return false;
        chunk->n_cap = n_chunk;
        chunk->taint = (uint8_t *) chunk->data + n_chunk;
        chunk->next = b->arena->texts;
        b->arena->texts = chunk;
    }
    if (b->n > 0) {
        memcpy(chunk->data + chunk->n_used, b->data, b->n);
        memcpy(chunk->taint + chunk->n_used, b->taint, b->n);
    }
    b->chunk = chunk;
    b->data = chunk->data + chunk->n_used;
    b->taint = chunk->taint + chunk->n_used;
    b->n_cap = n_cap;
    chunk->n_used += n_cap;
    b->has_failed = false;
    return true;
}

void
sluice_tpl_builder_bytes(SluiceTplBuilder *b, const char *data, gsize n, bool is_tainted)
{
    if (n == 0 || !reserve(b, n))
        return;
    memcpy(b->data + b->n, data, n);
    memset(b->taint + b->n, is_tainted, n);
    b->n += n;
    b->n_tainted += is_tainted ? n : 0;
}

void
sluice_tpl_builder_literal(SluiceTplBuilder *b, const char *text)
{
    sluice_tpl_builder_bytes(b, text, strlen(text), false);
}

void
sluice_tpl_builder_slice(SluiceTplBuilder *b, const SluiceTplString *s, gsize begin, gsize n)
{
    g_assert(begin <= s->n && n <= s->n - begin);
    if (!s->taint) {
        sluice_tpl_builder_bytes(b, s->data + begin, n, s->is_tainted);
        return;
    }
    if (n == 0 || !reserve(b, n))
        return;
    memcpy(b->data + b->n, s->data + begin, n);
    memcpy(b->taint + b->n, s->taint + begin, n);
    for (gsize i = 0; i < n; i++)
        b->n_tainted += s->taint[begin + i];
    b->n += n;
}

void
sluice_tpl_builder_string(SluiceTplBuilder *b, const SluiceTplString *s)
{
    sluice_tpl_builder_slice(b, s, 0, s->n);
}

/* Trusted text, @n_times over. */
void
sluice_tpl_builder_fill(SluiceTplBuilder *b, const char *piece, gsize n_times)
{
    gsize n_piece = strlen(piece);
    gsize n;

    if (!g_size_checked_mul(&n, n_piece, n_times)) {
        b->has_failed = true;
        return;
    }
    if (n == 0 || !reserve(b, n))
        return;
    for (gsize i = 0; i < n_times; i++)
        memcpy(b->data + b->n + i * n_piece, piece, n_piece);
    memset(b->taint + b->n, 0, n);
    b->n += n;
}

void
sluice_tpl_builder_unichar(SluiceTplBuilder *b, gunichar c, bool is_tainted)
{
    char bytes[6];
    int n = g_unichar_to_utf8(c, bytes);

    sluice_tpl_builder_bytes(b, bytes, (gsize) n, is_tainted);
}

/* The text, with the room behind it given back; NULL after a failure. */
const SluiceTplString *
sluice_tpl_builder_end(SluiceTplBuilder *b)
{
    SluiceTplString *s;

    if (b->has_failed || !(s = sluice_tpl_arena_alloc(b->arena, 1, sizeof *s)))
        return NULL;
    if (b->chunk && b->data + b->n_cap == b->chunk->data + b->chunk->n_used)
        b->chunk->n_used -= b->n_cap - b->n;
    s->data = b->data ? b->data : "";
    s->n = b->n;
    s->taint = b->n_tainted > 0 && b->n_tainted < b->n ? b->taint : NULL;
    s->is_tainted = b->n_tainted > 0;
    s->is_markup = b->is_markup;
    return s;
}
