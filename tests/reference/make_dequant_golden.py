#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/data/dequant.bin: random blocks of every quantised type and what they mean.

The meaning comes from the PyPI package `gguf`; for Q1_0 and Q2_0, which it lacks, from the
formulas of the format written out with numpy. Needs numpy and gguf.

    make_dequant_golden.py > tests/data/dequant.bin

Per type, all little-endian: u32 type id, u32 number of blocks, u32 block bytes, u32 block length,
the blocks, and per block the float32 values' bits as u64 FNV-1a hash of their bytes; the first
block's values follow in full.
"""
import struct
import sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T, quants

N_BLOCKS = 24
# Where halfs lie in a block: kept finite, as a quantiser would write them.
HALFS = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82],
    "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ2_XXS": [0], "IQ2_XS": [0],
    "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0], "IQ1_S": [0], "IQ4_NL": [0], "IQ4_XS": [0],
    "TQ1_0": [52], "TQ2_0": [64], "Q1_0": [0], "Q2_0": [0], "IQ1_M": [], "MXFP4": [], "NVFP4": [],
}
# The package may not know these: id, length, bytes.
EXTRA = {"Q1_0": (41, 128, 18), "Q2_0": (42, 64, 18)}


def fnv1a(data):
    h = 0xcbf29ce484222325
    for byte in data:
        h = ((h ^ byte) * 0x100000001b3) & 0xffffffffffffffff
    return h


def meaning(name, blocks):
    d = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    if name == "Q1_0":
        bits = np.unpackbits(blocks[:, 2:], axis=1, bitorder="little")
        return np.where(bits == 1, d, -d)
    if name == "Q2_0":
        shifts = np.arange(0, 8, 2, dtype=np.uint8)
        q = ((blocks[:, 2:, None] >> shifts) & 3).reshape(len(blocks), 64)
        return d * (q.astype(np.float32) - 1)
    return quants.dequantize(blocks, T[name])


rng = np.random.default_rng(20261130)
for name, halfs in HALFS.items():
    if name in EXTRA:
        type_id, length, size = EXTRA[name]
    else:
        type_id = int(T[name])
        length, size = GGML_QUANT_SIZES[T[name]]
    blocks = rng.integers(0, 256, (N_BLOCKS, size), dtype=np.uint8)
    blocks[1] = 255
    blocks[2] = 0
    for at in halfs:
        values = (rng.standard_normal(N_BLOCKS) * 0.1).astype(np.float16)
        values[1], values[3], values[4] = 65504, -2.0 ** -24, 0
        blocks[:, at:at + 2] = values.view(np.uint8).reshape(-1, 2)
    if name == "IQ1_M":
        blocks[:, 55] &= 0xbf  # the exponent's top bit: no infinity
    if name == "MXFP4":
        blocks[:, 0] = rng.integers(100, 140, N_BLOCKS)
        blocks[:3, 0] = [250, 0, 1]
    with np.errstate(all="ignore"):
        values = meaning(name, blocks).astype("<f4").reshape(N_BLOCKS, length)
    assert np.isfinite(values).all(), name
    values = values + np.float32(0)  # one zero
    out = struct.pack("<4I", type_id, N_BLOCKS, size, length) + blocks.tobytes()
    out += b"".join(struct.pack("<Q", fnv1a(row.tobytes())) for row in values)
    out += values[0].tobytes()
    sys.stdout.buffer.write(out)
