#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The random weights of tests/make_model, drawn again with numpy (see tests/model_weights.h).

  make_model_weights.py --checksums OUT   write the checksums that tests/check_make_model compares
  make_model_weights.py --verify GGUF [--seed N]   compare a file's bytes with what is drawn here
  make_model_weights.py --deviations      print the deviation of each type (needs package gguf)

As a module: weights(name, dtype, ne, tied, seed) gives the packed bytes of one tensor.
"""
import argparse
import math
import sys

import numpy as np

# id: (name, block length, block bytes)
DTYPES = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210), 16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36), 41: ("Q1_0", 128, 18), 42: ("Q2_0", 64, 18),
}
# name: (offset of d, offset of the minimum, minimum in units of d, rms at d = 1, signed)
PACKED = {
    "Q4_0": (0, None, 0, 4.64, True), "Q4_1": (0, 2, -7.5, 4.61, False),
    "Q5_0": (0, None, 0, 9.24, True), "Q5_1": (0, 2, -15.5, 9.23, False),
    "Q8_0": (0, None, 0, 73.9, True), "Q2_K": (80, 82, 1.5, 13.96, False),
    "Q3_K": (108, None, 0, 43.5, True), "Q4_K": (0, 2, 7.5, 243.7, False),
    "Q5_K": (0, 2, 15.5, 490.2, False), "Q6_K": (208, None, 0, 1367.0, True),
    "IQ2_XXS": (0, None, 0, 53.5, False), "IQ2_XS": (0, None, 0, 55.9, False),
    "IQ2_S": (0, None, 0, 56.4, False), "IQ3_XXS": (0, None, 0, 142.2, False),
    "IQ3_S": (0, None, 0, 140.4, False), "IQ1_S": (0, None, 0, 7.22, False),
    "IQ1_M": (None, None, 0, 7.2, False), "IQ4_NL": (0, None, 0, 67.5, True),
    "IQ4_XS": (0, None, 0, 1245.0, True), "TQ1_0": (52, None, 0, 0.817, False),
    "TQ2_0": (64, None, 0, 1.224, True), "MXFP4": (None, None, 0, 5.85, False),
    "NVFP4": (None, None, 0, 5.85, False), "Q1_0": (0, None, 0, 1.0, False),
    "Q2_0": (0, None, 0, 1.224, True),
}
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
NORMAL, ONES, DECAY, RAMP = range(4)


def fnv1a(data):
    h = 0xCBF29CE484222325
    for b in data:
        h = ((h ^ b) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


def words(state, n, first=0):
    with np.errstate(over="ignore"):
        z = np.uint64(state) + (np.arange(first + 1, first + n + 1, dtype=np.uint64)) * GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def kind_and_std(name, row_len, tied):
    if name.endswith("norm.weight"):
        return ONES, 0.1
    std = 1 / math.sqrt(row_len)
    if name.endswith("ssm_a"):
        return DECAY, std
    if name.startswith("rope_"):
        return RAMP, std
    if name.endswith("ssm_dt.bias"):
        return NORMAL, 0.5
    if name.endswith(".bias"):
        return NORMAL, 0.1
    if name.endswith("ssm_conv1d.weight"):
        return NORMAL, 0.3
    if name.endswith("attn_sinks.weight"):
        return NORMAL, 1.0
    if name == "token_embd.weight" and not tied:
        return NORMAL, 0.5
    if name in ("token_embd.weight", "output.weight"):
        return NORMAL, 3 / math.sqrt(row_len)
    return NORMAL, std


def floats(state, n, kind, std):
    w = words(state, n)
    m = np.uint64(0xFFFF)
    parts = sum(((w >> np.uint64(s)) & m).astype(np.int64) for s in (0, 16, 32, 48))
    step = (parts - 131070).astype(np.float32) * np.float32(std / 37837.22)
    if kind == NORMAL:
        return step
    if kind == ONES:
        return np.float32(1) + step
    if kind == DECAY:
        return -(np.float32(0.25) + (w & m).astype(np.float32) * np.float32(2.0 / 65536))
    if n == 1:
        return np.ones(1, np.float32)
    return (1.0 + 7.0 * np.arange(n, dtype=np.float64) / (n - 1)).astype(np.float32)


def to_bf16(x):
    b = x.view(np.uint32)
    return ((b + np.uint32(0x7FFF) + ((b >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def half_bits(x):
    return int(np.float16(np.float32(x)).view(np.uint16))


def ue4m3(x):
    e, m = x >> 3 & 15, x & 7
    return 0.5 * (math.ldexp(m, -9) if e == 0 else math.ldexp(8 + m, e - 10))


def fix_blocks(a, name, std):
    d_at, min_at, min_d, rms, signed = PACKED[name]
    scales = [std / rms * f for f in (0.75, 0.875, 1.125, 1.25)]
    d_bits = np.array([half_bits(s) for s in scales], np.uint16)
    min_bits = np.array([half_bits(s * min_d) for s in scales], np.uint16)
    if name == "IQ1_M":
        d = d_bits[a[:, 49] >> 4 & 3]
        for i in range(4):
            a[:, 49 + 2 * i] = (a[:, 49 + 2 * i] & 15) | ((d >> np.uint16(4 * i)) & 15).astype(np.uint8) << 4
    elif name == "MXFP4":
        a[:, 0] = 128 + math.frexp(std / rms)[1] - 1 + (a[:, 0] & 1)
    elif name == "NVFP4":
        code = 1
        while code < 0x7D and ue4m3(code + 1) * rms <= std:
            code += 1
        a[:, 0:4] = code + (a[:, 0:4] & 1)
    else:
        choice = a[:, d_at] & 3
        d = d_bits[choice]
        if signed:
            d = d | (a[:, d_at + 1] & 0x80).astype(np.uint16) << np.uint16(8)
        a[:, d_at], a[:, d_at + 1] = d & 255, d >> 8
        if min_at is not None:
            a[:, min_at], a[:, min_at + 1] = min_bits[choice] & 255, min_bits[choice] >> 8
        if name == "Q2_K":
            a[:, 0:16] |= 0x88
        elif name in ("Q4_K", "Q5_K"):
            a[:, 4:12] |= 0xA0
        elif name == "Q8_0":
            a[:, 2:34][a[:, 2:34] == 0x80] = 0x81


def weights(name, dtype, ne, tied, seed):
    """The bytes of the tensor called name: dtype is a GGUF type id, ne its shape in file order."""
    type_name, block_len, block_bytes = DTYPES[dtype]
    n = int(np.prod([int(d) for d in ne]))
    state = fnv1a(name.encode()) ^ seed
    kind, std = kind_and_std(name, int(ne[0]), tied)
    if type_name in ("F32", "F16", "BF16", "F64"):
        x = floats(state, n, kind, std)
        if type_name == "BF16":
            x = to_bf16(x)
        elif type_name != "F32":
            x = x.astype(np.float16 if type_name == "F16" else np.float64)
        return x.view(np.uint8)
    n_bytes = n // block_len * block_bytes
    a = words(state, (n_bytes + 7) // 8).view(np.uint8)[:n_bytes].copy()
    if type_name in PACKED:
        fix_blocks(a.reshape(-1, block_bytes), type_name, std)
    return a


def checksum_cases():
    names = ["blk.3.ffn_down.weight", "token_embd.weight", "output.weight"]
    for dtype in DTYPES:
        for name in names:
            for row_len in (256, 5120):
                yield name, dtype, (row_len, 21), False, 1
    for name in ("blk.0.attn_norm.weight", "blk.7.ssm_a", "rope_freqs.weight", "blk.1.attn_q.bias",
                 "blk.1.ssm_dt.bias", "blk.2.ssm_conv1d.weight", "blk.1.attn_sinks.weight"):
        yield name, 0, (96, 3), False, 0xFFFFFFFFFFFFFFFF
    yield "rope_freqs.weight", 0, (1, 1), False, 2
    yield "token_embd.weight", 12, (2048, 9), True, 12345


def write_checksums(path):
    with open(path, "w") as f:
        f.write("# made by tests/reference/make_model_weights.py --checksums\n")
        f.write("# name dtype ne0 ne1 tied seed, then FNV-1a-64 of the bytes\n")
        for name, dtype, ne, tied, seed in checksum_cases():
            data = weights(name, dtype, ne, tied, seed)
            f.write(f"{name} {DTYPES[dtype][0]} {ne[0]} {ne[1]} {int(tied)} {seed} {fnv1a(data.tobytes()):016x}\n")


def verify(path, seed):
    import gguf
    reader = gguf.GGUFReader(path)
    tied = not any(t.name == "output.weight" for t in reader.tensors)
    n_bad = 0
    for t in reader.tensors:
        got = np.asarray(t.data).reshape(-1).view(np.uint8)
        if not np.array_equal(got, weights(t.name, int(t.tensor_type), t.shape, tied, seed)):
            print("differs:", t.name)
            n_bad += 1
    print(f"{len(reader.tensors)} tensors, {n_bad} differ")
    return n_bad == 0


def deviations():
    import gguf
    for dtype, (name, block_len, _) in DTYPES.items():
        ne = (4096, 64)
        data = weights("blk.0.x.weight", dtype, ne, False, 1)
        try:
            y = gguf.quants.dequantize(data.reshape(64, -1), gguf.GGMLQuantizationType(dtype))
        except (NotImplementedError, ValueError) as e:
            print(f"{name:8} {e}")
            continue
        print(f"{name:8} deviation {y.std() * 64:.3f} of 1/sqrt(fan-in), mean {y.mean() * 64:+.3f}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--checksums")
    p.add_argument("--verify")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--deviations", action="store_true")
    a = p.parse_args()
    if a.checksums:
        write_checksums(a.checksums)
    if a.verify:
        sys.exit(0 if verify(a.verify, a.seed) else 1)
    if a.deviations:
        deviations()


if __name__ == "__main__":
    main()
