/* SPDX-License-Identifier: MIT */
/*
 * Reads every byte of a tensor and looks for numbers that are none: a NaN or an infinity in a
 * scale makes whole blocks of weights useless, and one such weight every answer. Types are taken
 * apart only as far as that needs; what their fields mean is cpu/'s.
 * Source: the block layouts of src/core/blocks.h.
 */
#include "config.h"

#include "src/format/gguf-private.h"

#include "src/core/blocks.h"
#include "src/core/error.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* Blocks read at a time: at most 1.2 MB of any type. */
enum { CHUNK_BLOCKS = 4096 };

static uint16_t
load_u16(const uint8_t *p)
{
    return (uint16_t) (p[0] | p[1] << 8);
}

static bool
is_finite_f16(const uint8_t *p)
{
    return (load_u16(p) & 0x7c00) != 0x7c00;
}

static bool
is_finite_bf16(const uint8_t *p)
{
    return (load_u16(p) & 0x7f80) != 0x7f80;
}

static bool
is_finite_f32(const uint8_t *p)
{
    return (sluice_gguf_load_u32(p) & 0x7f800000) != 0x7f800000;
}

static bool
is_finite_f64(const uint8_t *p)
{
    return (sluice_gguf_load_u64(p) & 0x7ff0000000000000) != 0x7ff0000000000000;
}

/* The half lies in the top nibbles of the last four 16-bit words, lowest nibble first. */
static bool
is_finite_iq1_m(const uint8_t *block)
{
    const uint8_t *words = block + sizeof(SluiceBlockIQ1_M) - 8;
    uint16_t d = 0;

    for (int i = 0; i < 4; i++)
        d |= (uint16_t) ((words[2 * i + 1] >> 4) << (4 * i));
    return (d & 0x7c00) != 0x7c00;
}

/* The largest exponent byte is NaN by the standard; the next ones overflow with large levels. */
static bool
is_finite_mxfp4(const uint8_t *block)
{
    static const uint8_t levels[8] = {0, 1, 2, 3, 4, 6, 8, 12};

    if (block[0] == 0xff)
        return false;
    for (int i = 1; i < (int) sizeof(SluiceBlockMXFP4) && block[0] >= 253; i++) {
        int level = MAX(levels[block[i] & 7], levels[block[i] >> 4 & 7]);
        if (isinf((float) ldexp(level, block[0] - 128)))
            return false;
    }
    return true;
}

/* Offsets of the halfs in a block; the second one is -1 where there is none. The products of a
 * finite half with a block's small integers are finite in float32. */
static const struct {
    int first;
    int second;
} half_fields[SLUICE_DTYPE_COUNT] = {
    [SLUICE_DTYPE_F16] = {0, -1},
    [SLUICE_DTYPE_Q4_0] = {offsetof(SluiceBlockQ4_0, d), -1},
    [SLUICE_DTYPE_Q4_1] = {offsetof(SluiceBlockQ4_1, d), offsetof(SluiceBlockQ4_1, m)},
    [SLUICE_DTYPE_Q5_0] = {offsetof(SluiceBlockQ5_0, d), -1},
    [SLUICE_DTYPE_Q5_1] = {offsetof(SluiceBlockQ5_1, d), offsetof(SluiceBlockQ5_1, m)},
    [SLUICE_DTYPE_Q8_0] = {offsetof(SluiceBlockQ8_0, d), -1},
    [SLUICE_DTYPE_Q2_K] = {offsetof(SluiceBlockQ2_K, d), offsetof(SluiceBlockQ2_K, dmin)},
    [SLUICE_DTYPE_Q3_K] = {offsetof(SluiceBlockQ3_K, d), -1},
    [SLUICE_DTYPE_Q4_K] = {offsetof(SluiceBlockQ4_K, d), offsetof(SluiceBlockQ4_K, dmin)},
    [SLUICE_DTYPE_Q5_K] = {offsetof(SluiceBlockQ5_K, d), offsetof(SluiceBlockQ5_K, dmin)},
    [SLUICE_DTYPE_Q6_K] = {offsetof(SluiceBlockQ6_K, d), -1},
    [SLUICE_DTYPE_IQ2_XXS] = {offsetof(SluiceBlockIQ2_XXS, d), -1},
    [SLUICE_DTYPE_IQ2_XS] = {offsetof(SluiceBlockIQ2_XS, d), -1},
    [SLUICE_DTYPE_IQ3_XXS] = {offsetof(SluiceBlockIQ3_XXS, d), -1},
    [SLUICE_DTYPE_IQ1_S] = {offsetof(SluiceBlockIQ1_S, d), -1},
    [SLUICE_DTYPE_IQ4_NL] = {offsetof(SluiceBlockIQ4_NL, d), -1},
    [SLUICE_DTYPE_IQ3_S] = {offsetof(SluiceBlockIQ3_S, d), -1},
    [SLUICE_DTYPE_IQ2_S] = {offsetof(SluiceBlockIQ2_S, d), -1},
    [SLUICE_DTYPE_IQ4_XS] = {offsetof(SluiceBlockIQ4_XS, d), -1},
    [SLUICE_DTYPE_TQ1_0] = {offsetof(SluiceBlockTQ1_0, d), -1},
    [SLUICE_DTYPE_TQ2_0] = {offsetof(SluiceBlockTQ2_0, d), -1},
    [SLUICE_DTYPE_Q1_0] = {offsetof(SluiceBlockQ1_0, d), -1},
    [SLUICE_DTYPE_Q2_0] = {offsetof(SluiceBlockQ2_0, d), -1},
};

static bool
is_finite_block(SluiceDtype dtype, const uint8_t *block)
{
    switch (dtype) {
    case SLUICE_DTYPE_F32:
        return is_finite_f32(block);
    case SLUICE_DTYPE_F64:
        return is_finite_f64(block);
    case SLUICE_DTYPE_BF16:
        return is_finite_bf16(block);
    case SLUICE_DTYPE_IQ1_M:
        return is_finite_iq1_m(block);
    case SLUICE_DTYPE_MXFP4:
        return is_finite_mxfp4(block);
    case SLUICE_DTYPE_NVFP4: /* every scale byte has a finite value */
    case SLUICE_DTYPE_I8:
    case SLUICE_DTYPE_I16:
    case SLUICE_DTYPE_I32:
    case SLUICE_DTYPE_I64:
        return true;
    default:
        return is_finite_f16(block + half_fields[dtype].first) &&
               (half_fields[dtype].second < 0 || is_finite_f16(block + half_fields[dtype].second));
    }
}

/* The first block of @n that holds no number, or @n. */
static size_t
find_bad_block(SluiceDtype dtype, const uint8_t *blocks, size_t n_blocks)
{
    size_t block_bytes = (size_t) sluice_dtype_info(dtype)->block_bytes;

    for (size_t i = 0; i < n_blocks; i++) {
        if (!is_finite_block(dtype, blocks + i * block_bytes))
            return i;
    }
    return n_blocks;
}

/* Through the descriptor, not the mapping: a disk that fails is an error then, no signal. */
static gboolean
read_bytes(const SluiceGgufFile *file, uint64_t offset, size_t n_bytes, uint8_t *out,
           GError **error)
{
    while (n_bytes > 0) {
        ssize_t n =
            file->fd >= 0 ? pread(file->fd, out, n_bytes, (off_t) offset) : (ssize_t) n_bytes;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            g_set_error(error, SLUICE_ERROR, SLUICE_ERROR_FILE,
                        "cannot read %zu bytes at offset %" PRIu64 ": %s", n_bytes, offset,
                        n < 0 ? g_strerror(errno) : "the file ends there");
            return FALSE;
        }
        if (file->fd < 0)
            memcpy(out, file->data + offset, n_bytes);
        out += n;
        offset += (uint64_t) n;
        n_bytes -= (size_t) n;
    }
    return TRUE;
}

static gboolean
verify_tensor(const SluiceGgufFile *file, const SluiceGgufTensor *tensor, GError **error)
{
    const SluiceDtypeInfo *info = sluice_dtype_info(tensor->dtype);
    size_t block_bytes = (size_t) info->block_bytes;
    size_t n_blocks = tensor->n_bytes / block_bytes;
    size_t row_blocks = (size_t) (tensor->ne[0] / info->block_len);
    g_autofree uint8_t *buffer = g_malloc(MIN(n_blocks, CHUNK_BLOCKS) * block_bytes);

    for (size_t done = 0; done < n_blocks; done += CHUNK_BLOCKS) {
        size_t n = MIN(n_blocks - done, CHUNK_BLOCKS);
        if (!read_bytes(file, tensor->offset + done * block_bytes, n * block_bytes, buffer, error))
            return FALSE;
        size_t bad = find_bad_block(tensor->dtype, buffer, n);
        if (bad == n)
            continue;
        bad += done;
        g_set_error(
            error, SLUICE_ERROR, SLUICE_ERROR_FORMAT,
            "a weight in row %zu, elements %zu to %zu of %" PRId64 " (%s), is not a finite number",
            bad / row_blocks, bad % row_blocks * (size_t) info->block_len,
            (bad % row_blocks + 1) * (size_t) info->block_len - 1, tensor->ne[0], info->name);
        return FALSE;
    }
    return TRUE;
}

/**
 * sluice_gguf_verify_tensor:
 * @gguf: a model
 * @tensor_idx: below sluice_gguf_n_tensors()
 * @error: return location, or %NULL
 *
 * Reads a tensor from its file, every byte of it, and checks that each of its weights is a finite
 * number. Needs about a megabyte, whatever the tensor's size.
 * Cost: the tensor's bytes. Threads: any.
 *
 * Returns: %TRUE, or %FALSE with %SLUICE_ERROR_FILE (it cannot be read) or %SLUICE_ERROR_FORMAT
 * Since: 0.1
 */
gboolean
sluice_gguf_verify_tensor(const SluiceGguf *gguf, size_t tensor_idx, GError **error)
{
    g_return_val_if_fail(tensor_idx < gguf->n_tensors, FALSE);

    const SluiceGgufTensor *tensor = &gguf->tensors[tensor_idx];
    const SluiceGgufFile *file = g_ptr_array_index(gguf->files, (guint) tensor->file_idx);
    if (verify_tensor(file, tensor, error))
        return TRUE;
    g_autofree char *path = sluice_error_printable(file->path, -1);
    g_autofree char *name = sluice_error_printable(tensor->name, -1);
    g_prefix_error(error, "%s: tensor '%s': ", path, name);
    return FALSE;
}
