/* SPDX-License-Identifier: MIT */
/* Writes the seeds of fuzz_gguf into a folder: small files that between them hold every feature. */
#include "config.h"

#include "tests/gguf_writer.h"

#include <stdio.h>
#include <string.h>

static void
save(GgufWriter *w, const char *folder, const char *name)
{
    g_autofree char *path = g_build_filename(folder, name, NULL);

    gguf_writer_save(w, path);
    gguf_writer_free(w);
}

static void
save_scalars(const char *folder)
{
    GgufWriter *w = gguf_writer_new();

    gguf_writer_u8(w, "u8", 200);
    gguf_writer_i8(w, "i8", -100);
    gguf_writer_u16(w, "u16", 60000);
    gguf_writer_i16(w, "i16", -30000);
    gguf_writer_u32(w, "u32", 4000000000u);
    gguf_writer_i32(w, "i32", -2000000000);
    gguf_writer_u64(w, "u64", UINT64_MAX);
    gguf_writer_i64(w, "i64", INT64_MIN);
    gguf_writer_f32(w, "f32", 1.5f);
    gguf_writer_f64(w, "f64", 1e-300);
    gguf_writer_bool(w, "bool", true);
    gguf_writer_string(w, "s", "text");
    save(w, folder, "scalars");
}

static void
save_arrays(const char *folder)
{
    static const uint8_t zeros[64];
    GgufWriter *w = gguf_writer_new();

    for (int type = 0; type <= SLUICE_GGUF_F64; type++) {
        static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
        char key[8];
        if (sizes[type] == 0)
            continue;
        g_snprintf(key, sizeof key, "a%d", type);
        gguf_writer_array(w, key, (SluiceGgufType) type, 3, zeros, 3u * sizes[type]);
    }
    gguf_writer_strings(w, "as", 3);
    gguf_writer_item(w, "x", -1);
    gguf_writer_item(w, "", -1);
    gguf_writer_item(w, "\xff\x1b", -1);
    save(w, folder, "arrays");
}

static void
save_tensors(const char *folder)
{
    GgufWriter *w = gguf_writer_new();

    gguf_writer_alignment(w, 64);
    gguf_writer_tensor(w, "a", SLUICE_DTYPE_F32, 1, (const int64_t[]){3});
    gguf_writer_tensor(w, "b", SLUICE_DTYPE_Q4_K, 2, (const int64_t[]){256, 2});
    gguf_writer_tensor(w, "c", SLUICE_DTYPE_Q8_0, 3, (const int64_t[]){32, 2, 2});
    gguf_writer_tensor(w, "d", SLUICE_DTYPE_BF16, 4, (const int64_t[]){1, 2, 1, 2});
    save(w, folder, "tensors");
}

static void
save_packed(const char *folder)
{
    GgufWriter *w = gguf_writer_new();

    for (int type = 0; type < SLUICE_DTYPE_COUNT; type++) {
        const SluiceDtypeInfo *info = sluice_dtype_info((SluiceDtype) type);
        if (info != NULL)
            gguf_writer_tensor(w, info->name, (uint32_t) type, 1,
                               (const int64_t[]){info->block_len});
    }
    save(w, folder, "types");
}

int
main(int argc, char **argv)
{
    GgufWriter *w;

    if (argc != 2) {
        fprintf(stderr, "usage: make_gguf_seeds FOLDER\n");
        return 2;
    }
    save(gguf_writer_new(), argv[1], "empty");
    save_scalars(argv[1]);
    save_arrays(argv[1]);
    save_tensors(argv[1]);
    save_packed(argv[1]);
    w = gguf_writer_new();
    w->version = 2;
    gguf_writer_string(w, "general.architecture", "llama");
    gguf_writer_tensor(w, "t", SLUICE_DTYPE_I8, 1, (const int64_t[]){1});
    save(w, argv[1], "version-2");
    w = gguf_writer_new();
    gguf_writer_u16(w, "split.no", 0);
    gguf_writer_u16(w, "split.count", 2);
    gguf_writer_i32(w, "split.tensors.count", 0);
    save(w, argv[1], "split");
    return 0;
}
