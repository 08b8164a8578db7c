/* SPDX-License-Identifier: MIT */
/* The table of element types. */
#include "config.h"

#include "src/core/tensor.h"

/* Source: the GGUF format description, type table. */
static const SluiceDtypeInfo dtypes[SLUICE_DTYPE_COUNT] = {
    [SLUICE_DTYPE_F32] = {"F32", 1, 4, false},
    [SLUICE_DTYPE_F16] = {"F16", 1, 2, false},
    [SLUICE_DTYPE_Q4_0] = {"Q4_0", 32, 18, true},
    [SLUICE_DTYPE_Q4_1] = {"Q4_1", 32, 20, true},
    [SLUICE_DTYPE_Q5_0] = {"Q5_0", 32, 22, true},
    [SLUICE_DTYPE_Q5_1] = {"Q5_1", 32, 24, true},
    [SLUICE_DTYPE_Q8_0] = {"Q8_0", 32, 34, true},
    [SLUICE_DTYPE_Q2_K] = {"Q2_K", 256, 84, true},
    [SLUICE_DTYPE_Q3_K] = {"Q3_K", 256, 110, true},
    [SLUICE_DTYPE_Q4_K] = {"Q4_K", 256, 144, true},
    [SLUICE_DTYPE_Q5_K] = {"Q5_K", 256, 176, true},
    [SLUICE_DTYPE_Q6_K] = {"Q6_K", 256, 210, true},
    [SLUICE_DTYPE_IQ2_XXS] = {"IQ2_XXS", 256, 66, true},
    [SLUICE_DTYPE_IQ2_XS] = {"IQ2_XS", 256, 74, true},
    [SLUICE_DTYPE_IQ3_XXS] = {"IQ3_XXS", 256, 98, true},
    [SLUICE_DTYPE_IQ1_S] = {"IQ1_S", 256, 50, true},
    [SLUICE_DTYPE_IQ4_NL] = {"IQ4_NL", 32, 18, true},
    [SLUICE_DTYPE_IQ3_S] = {"IQ3_S", 256, 110, true},
    [SLUICE_DTYPE_IQ2_S] = {"IQ2_S", 256, 82, true},
    [SLUICE_DTYPE_IQ4_XS] = {"IQ4_XS", 256, 136, true},
    [SLUICE_DTYPE_I8] = {"I8", 1, 1, false},
    [SLUICE_DTYPE_I16] = {"I16", 1, 2, false},
    [SLUICE_DTYPE_I32] = {"I32", 1, 4, false},
    [SLUICE_DTYPE_I64] = {"I64", 1, 8, false},
    [SLUICE_DTYPE_F64] = {"F64", 1, 8, false},
    [SLUICE_DTYPE_IQ1_M] = {"IQ1_M", 256, 56, true},
    [SLUICE_DTYPE_BF16] = {"BF16", 1, 2, false},
    [SLUICE_DTYPE_TQ1_0] = {"TQ1_0", 256, 54, true},
    [SLUICE_DTYPE_TQ2_0] = {"TQ2_0", 256, 66, true},
    [SLUICE_DTYPE_MXFP4] = {"MXFP4", 32, 17, true},
    [SLUICE_DTYPE_NVFP4] = {"NVFP4", 64, 36, true},
    [SLUICE_DTYPE_Q1_0] = {"Q1_0", 128, 18, true},
    [SLUICE_DTYPE_Q2_0] = {"Q2_0", 64, 18, true},
};

/**
 * sluice_dtype_info:
 * @dtype: any value, also one read from a file
 *
 * Returns: (nullable): the figures of @dtype, or %NULL if no type has that id
 * Since: 0.1
 */
const SluiceDtypeInfo *
sluice_dtype_info(SluiceDtype dtype)
{
    if ((uint32_t) dtype >= SLUICE_DTYPE_COUNT || dtypes[dtype].name == NULL)
        return NULL;
    return &dtypes[dtype];
}

/**
 * sluice_dtype_from_name:
 * @name: a type's name in any case, such as `q4_k`
 *
 * Returns: the #SluiceDtype, or -1
 * Since: 0.1
 */
int
sluice_dtype_from_name(const char *name)
{
    for (int i = 0; i < SLUICE_DTYPE_COUNT; i++) {
        if (dtypes[i].name != NULL && g_ascii_strcasecmp(dtypes[i].name, name) == 0)
            return i;
    }
    return -1;
}

/**
 * sluice_dtype_row_bytes:
 * @dtype: a type
 * @n: elements in a row
 * @n_bytes: (out): the row's size in bytes
 *
 * Returns: %FALSE if @n is not a multiple of the block length, or the size overflows
 * Since: 0.1
 */
gboolean
sluice_dtype_row_bytes(SluiceDtype dtype, int64_t n, size_t *n_bytes)
{
    const SluiceDtypeInfo *info = sluice_dtype_info(dtype);
    size_t size;

    if (info == NULL || n < 0 || n % info->block_len != 0)
        return FALSE;
    if (__builtin_mul_overflow((size_t) (n / info->block_len), (size_t) info->block_bytes, &size))
        return FALSE;
    *n_bytes = size;
    return TRUE;
}
