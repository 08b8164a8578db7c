/* SPDX-License-Identifier: MIT */
/*
 * json_get PATH: reads JSON from standard input and prints the value at PATH, keys and indices
 * joined by dots; "." is the whole. Fails if the input is no JSON or has nothing there.
 */
#include "config.h"

#include <glib.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int
main(int argc, char **argv)
{
    g_auto(GStrv) keys = g_strsplit(argc > 1 ? argv[1] : ".", ".", -1);
    json_error_t error;
    json_t *all = json_loadf(stdin, 0, &error);
    const json_t *at = all;

    if (all == NULL) {
        fprintf(stderr, "json_get: line %d: %s\n", error.line, error.text);
        return EXIT_FAILURE;
    }
    for (char **key = keys; *key != NULL && at != NULL; key++)
        if ((*key)[0] != '\0')
            at = json_is_array(at) ? json_array_get(at, (size_t) atoi(*key))
                                   : json_object_get(at, *key);
    if (at == NULL) {
        fprintf(stderr, "json_get: nothing at '%s'\n", argv[1]);
        json_decref(all);
        return EXIT_FAILURE;
    }
    if (json_is_string(at))
        puts(json_string_value(at));
    else
        json_dumpf(at, stdout, JSON_ENCODE_ANY | JSON_COMPACT);
    json_decref(all);
    return EXIT_SUCCESS;
}
