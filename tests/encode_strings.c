/* SPDX-License-Identifier: MIT */
/*
 * Writes what a model file's tokenizer makes of strings: a helper of
 * reference/compare_tokenizer.py.
 *
 * Usage: encode_strings MODEL STRINGS [parse]
 * STRINGS holds texts that end in the byte FF each; every line of the output has the ids of one.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "src/text/tokenizer.h"

int
main(int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(SluiceGguf) gguf = NULL;
    g_autoptr(SluiceTokenizer) tokenizer = NULL;
    g_autoptr(GArray) ids = g_array_new(FALSE, FALSE, sizeof(int32_t));
    g_autofree char *strings = NULL;
    SluiceEncodeFlags flags = argc > 3 ? SLUICE_ENCODE_PARSE_SPECIAL : SLUICE_ENCODE_PLAIN;
    gsize n_bytes, pos = 0;

    if (argc < 3) {
        fprintf(stderr, "usage: %s MODEL STRINGS [parse]\n", argv[0]);
        return 2;
    }
    if ((gguf = sluice_gguf_open(argv[1], &error)) == NULL ||
        (tokenizer = sluice_tokenizer_new(gguf, &error)) == NULL ||
        !g_file_get_contents(argv[2], &strings, &n_bytes, &error))
        goto fail;
    while (pos < n_bytes) {
        const char *end = memchr(strings + pos, 0xFF, n_bytes - pos);
        gsize length = end != NULL ? (gsize) (end - strings) - pos : n_bytes - pos;
        g_array_set_size(ids, 0);
        if (!sluice_tokenizer_encode(tokenizer, strings + pos, length, flags, NULL, 0, ids, &error))
            goto fail;
        for (guint i = 0; i < ids->len; i++)
            printf("%s%d", i > 0 ? " " : "", g_array_index(ids, int32_t, i));
        putchar('\n');
        pos += length + 1;
    }
    return 0;

fail:
    fprintf(stderr, "%s\n", error->message);
    return 1;
}
