#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the codebooks of the IQ types as C, from the PyPI package `gguf` (MIT).

    make_iq_tables.py > cpu/iq-tables.c
"""
import numpy as np
from gguf import quants

HEAD = """/* SPDX-License-Identifier: MIT */
/*
 * Codebooks of the IQ types: one code per entry, whose digits (2 bits each for vectors of eight,
 * 3 bits for vectors of four, first element lowest) select the values.
 * Copyright (c) 2023 Georgi Gerganov, see COPYING. Written by tests/reference/make_iq_tables.py.
 */
#include "config.h"

#include "cpu/iq-tables.h"
"""

TABLES = [
    ("iq2_xxs", quants.IQ2_XXS, 2),
    ("iq2_xs", quants.IQ2_XS, 2),
    ("iq2_s", quants.IQ2_S, 2),
    ("iq1", quants.IQ1_S, 2),
    ("iq3_xxs", quants.IQ3_XXS, 3),
    ("iq3_s", quants.IQ3_S, 3),
]

print(HEAD)
print("/* clang-format off */")
for name, cls, width in TABLES:
    cls.init_grid()
    grid = cls.grid.reshape(cls.grid_shape)
    digits = np.array([[cls.grid_map.index(v) for v in row] for row in grid.tolist()])
    codes = (digits << (width * np.arange(digits.shape[1]))).sum(axis=1)
    assert (np.diff(codes) > 0).all() and codes.max() < 65536
    print(f"const uint16_t sluice_cpu_codes_{name}[{len(codes)}] = {{")
    for i in range(0, len(codes), 12):
        print("    " + " ".join(f"0x{c:04x}," for c in codes[i:i + 12]))
    print("};")
print("/* clang-format on */")
