/* SPDX-License-Identifier: MIT */
/* Reads the committed test data of the tokenizers. Data that cannot be read end the program. */
#include "config.h"

#include "tests/tokenizer_data.h"

#include <stdlib.h>
#include <string.h>

static char *
load_file(const char *name, size_t *n_bytes)
{
    const char *folder = g_getenv("SLUICE_TEST_DATA");
    g_autofree char *path =
        g_build_filename(folder != NULL ? folder : "tests/data", "tokenizer", name, NULL);
    g_autoptr(GError) error = NULL;
    char *text;
    gsize length;

    if (!g_file_get_contents(path, &text, &length, &error))
        g_error("%s", error->message);
    *n_bytes = length;
    return text;
}

void
test_strings_load(TestStrings *strings)
{
    size_t n_bytes, n = 0;
    char *pos;

    strings->buffer = load_file("strings.dat", &n_bytes);
    for (size_t i = 0; i < n_bytes; i++)
        n += (uint8_t) strings->buffer[i] == 0xFF;
    strings->n = n;
    strings->texts = g_new(const char *, n);
    strings->n_bytes = g_new(size_t, n);
    pos = strings->buffer;
    for (size_t i = 0; i < n; i++) {
        const char *end = memchr(pos, 0xFF, n_bytes - (size_t) (pos - strings->buffer));
        strings->texts[i] = pos;
        strings->n_bytes[i] = (size_t) (end - pos);
        pos += strings->n_bytes[i] + 1;
    }
}

void
test_strings_clear(TestStrings *strings)
{
    g_free(strings->buffer);
    g_free(strings->texts);
    g_free(strings->n_bytes);
}

/* One number in hexadecimal a line. */
uint32_t *
test_digests_load(const char *prefix, const char *name, size_t *n_digests)
{
    g_autofree char *file = g_strdup_printf("%s-%s.txt", prefix, name);
    size_t n_bytes;
    g_autofree char *text = load_file(file, &n_bytes);
    uint32_t *digests = g_new(uint32_t, n_bytes / 9);

    for (size_t i = 0; i < n_bytes / 9; i++)
        digests[i] = (uint32_t) strtoul(text + 9 * i, NULL, 16);
    *n_digests = n_bytes / 9;
    return digests;
}

/* FNV-1a over whole numbers. */
uint32_t
test_digest(uint32_t digest, const uint32_t *values, size_t n_values)
{
    for (size_t i = 0; i < n_values; i++)
        digest = (digest ^ values[i]) * 0x01000193u;
    return digest;
}

/* ---- vocabularies --------------------------------------------------------------------------- */

/* What grows while a vocabulary is read. Texts are kept one after the other in chunks that do not
 * move. */
typedef struct {
    GStringChunk *texts;
    GArray *tokens, *types, *scores, *merges;
    GHashTable *known; /* texts of tokens */
    bool has_scores;
} Builder;

static const char *const SPECIAL_NAMES[SLUICE_SPECIAL_COUNT] = {
    [SLUICE_SPECIAL_BOS] = "bos",
    [SLUICE_SPECIAL_EOS] = "eos",
    [SLUICE_SPECIAL_UNKNOWN] = "unknown",
    [SLUICE_SPECIAL_PAD] = "pad",
};

static GString *
unescape(const char *text)
{
    GString *out = g_string_new(NULL);

    while (*text != '\0') {
        if (text[0] == '\\' && text[1] == 'x' && g_ascii_isxdigit(text[2]) &&
            g_ascii_isxdigit(text[3])) {
            g_string_append_c(
                out, (char) (g_ascii_xdigit_value(text[2]) * 16 + g_ascii_xdigit_value(text[3])));
            text += 4;
        } else {
            g_string_append_c(out, *text++);
        }
    }
    return out;
}

static SluiceGgufString
keep(Builder *builder, const GString *text)
{
    return (SluiceGgufString){
        g_string_chunk_insert_len(builder->texts, text->str, (gssize) text->len), text->len};
}

static void
add_token(Builder *builder, const GString *text, int64_t type, float score)
{
    SluiceGgufString kept = keep(builder, text);

    g_array_append_val(builder->tokens, kept);
    g_array_append_val(builder->types, type);
    g_array_append_val(builder->scores, score);
    g_hash_table_add(builder->known, g_bytes_new(text->str, text->len));
}

static void
add_merge(Builder *builder, const char *left, const char *right, bool adds_token)
{
    GString *text = unescape(left);
    GString *second = unescape(right);
    gsize n_left = text->len;
    SluiceGgufString kept;
    g_autoptr(GBytes) bytes = NULL;

    g_string_append_c(text, ' ');
    g_string_append_len(text, second->str, (gssize) second->len);
    kept = keep(builder, text);
    g_array_append_val(builder->merges, kept);
    g_string_erase(text, (gssize) n_left, 1);
    bytes = g_bytes_new(text->str, text->len);
    if (adds_token && !g_hash_table_contains(builder->known, bytes))
        add_token(builder, text, SLUICE_TOKEN_NORMAL, 0);
    g_string_free(text, TRUE);
    g_string_free(second, TRUE);
}

static void
add_key(Builder *builder, SluiceVocabData *data, const char *key, const char *value)
{
    GString *text = unescape(value);
    SluiceGgufString kept = keep(builder, text);

    g_string_free(text, TRUE);
    if (strcmp(key, "model") == 0)
        data->model = kept;
    else if (strcmp(key, "pre") == 0)
        data->pre = kept;
    else if (strcmp(key, "name") == 0)
        data->name = kept;
    else if (strcmp(key, "add_bos") == 0)
        data->add_bos = atoi(value);
    else if (strcmp(key, "add_eos") == 0)
        data->add_eos = atoi(value);
    else if (strcmp(key, "add_space_prefix") == 0)
        data->add_space_prefix = atoi(value);
    for (int i = 0; i < SLUICE_SPECIAL_COUNT; i++)
        if (g_strcmp0(key, SPECIAL_NAMES[i]) == 0)
            data->special_ids[i] = g_ascii_strtoll(value, NULL, 10);
}

static void
parse_line(Builder *builder, SluiceVocabData *data, const char *line)
{
    g_auto(GStrv) parts = g_strsplit(line, " ", 3);
    guint n = g_strv_length(parts);

    if (n == 3 && strcmp(parts[0], "=") == 0) {
        add_key(builder, data, parts[1], parts[2]);
    } else if (n == 3 && strcmp(parts[0], "+") == 0) {
        add_merge(builder, parts[1], parts[2], true);
    } else if (n == 3 && strcmp(parts[0], "&") == 0) {
        add_merge(builder, parts[1], parts[2], false);
    } else if (n >= 2) {
        GString *text = unescape(parts[1]);
        add_token(builder, text, g_ascii_strtoll(parts[0], NULL, 10),
                  n == 3 ? (float) g_ascii_strtod(parts[2], NULL) : 0);
        builder->has_scores = builder->has_scores || n == 3;
        g_string_free(text, TRUE);
    }
}

/* Reads a vocabulary from text in the form of the committed ones; @data gets it. Any text will do:
 * lines that make no sense are left out. */
void
test_vocab_parse(const char *text, size_t n_bytes, SluiceVocabData *data)
{
    Builder builder = {
        .texts = g_string_chunk_new(1 << 16),
        .tokens = g_array_new(FALSE, FALSE, sizeof(SluiceGgufString)),
        .types = g_array_new(FALSE, FALSE, sizeof(int64_t)),
        .scores = g_array_new(FALSE, FALSE, sizeof(float)),
        .merges = g_array_new(FALSE, FALSE, sizeof(SluiceGgufString)),
        .known = g_hash_table_new_full(g_bytes_hash, g_bytes_equal, (GDestroyNotify) g_bytes_unref,
                                       NULL),
    };
    const char *end = text + n_bytes;

    sluice_vocab_data_init(data);
    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t) (end - text));
        g_autofree char *line = g_strndup(text, (gsize) ((stop != NULL ? stop : end) - text));
        parse_line(&builder, data, line);
        text = stop != NULL ? stop + 1 : end;
    }
    g_hash_table_destroy(builder.known);
    data->n_tokens = data->n_types = data->n_scores = builder.tokens->len;
    data->n_merges = builder.merges->len;
    data->tokens = (SluiceGgufString *) (gpointer) g_array_free(builder.tokens, FALSE);
    data->types = (int64_t *) (gpointer) g_array_free(builder.types, FALSE);
    data->merges = (SluiceGgufString *) (gpointer) g_array_free(builder.merges, FALSE);
    data->scores = (float *) (gpointer) g_array_free(builder.scores, !builder.has_scores);
    data->owner = builder.texts;
    data->owner_free = (GDestroyNotify) g_string_chunk_free;
}

void
test_vocab_load(const char *name, SluiceVocabData *data)
{
    g_autofree char *file = g_strdup_printf("vocab-%s.txt", name);
    size_t n_bytes;
    g_autofree char *text = load_file(file, &n_bytes);

    test_vocab_parse(text, n_bytes, data);
}
