/* SPDX-License-Identifier: MIT */
/*
 * Replays files, and all files of folders, through a fuzz target; without arguments the target's
 * own corpus, $SLUICE_TEST_DATA/fuzz-<name> for fuzz_<name>. It stands in for libFuzzer in
 * `make check`, where every compiler must do; a crash names the file it came from.
 */
#include "config.h"

#include <glib.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static int
replay_file(const char *path)
{
    g_autofree char *data = NULL;
    g_autoptr(GError) error = NULL;
    gsize n_bytes;

    if (!g_file_get_contents(path, &data, &n_bytes, &error)) {
        fprintf(stderr, "%s\n", error->message);
        return -1;
    }
    /* Said before, and at once: if the target dies, the last line names the culprit. */
    printf("%s\n", path);
    fflush(stdout);
    /* A copy of the exact size, so that a sanitizer sees the end: GLib adds a byte. */
    g_autofree uint8_t *exact = g_memdup2(data, n_bytes);
    LLVMFuzzerTestOneInput(exact, n_bytes);
    return 1;
}

static int
replay_folder(const char *path)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GDir) dir = g_dir_open(path, 0, &error);
    const char *name;
    int n = 0;

    if (dir == NULL) {
        fprintf(stderr, "%s\n", error->message);
        return -1;
    }
    while ((name = g_dir_read_name(dir)) != NULL) {
        g_autofree char *file = g_build_filename(path, name, NULL);
        if (replay_file(file) < 0)
            return -1;
        n++;
    }
    return n;
}

static char *
find_corpus(const char *program)
{
    g_autofree char *name = g_path_get_basename(program);
    const char *folder = g_getenv("SLUICE_TEST_DATA");
    const char *target = strstr(name, "fuzz_"); /* libtool may put "lt-" before it */

    if (folder == NULL || target == NULL)
        return NULL;
    g_autofree char *corpus = g_strdelimit(g_strdup(target), "_", '-');
    return g_build_filename(folder, corpus, NULL);
}

int
main(int argc, char **argv)
{
    g_autofree char *corpus = find_corpus(argv[0]);
    int n_all = argc == 1 && corpus != NULL ? replay_folder(corpus) : 0;

    for (int i = 1; i < argc; i++) {
        int n = g_file_test(argv[i], G_FILE_TEST_IS_DIR) ? replay_folder(argv[i])
                                                         : replay_file(argv[i]);
        if (n < 0)
            return 2;
        n_all += n;
    }
    /* An empty corpus would pass without testing anything. */
    if (n_all <= 0) {
        fprintf(stderr, "%s: no inputs\n", argv[0]);
        return 2;
    }
    printf("%d inputs\n", n_all);
    return 0;
}
