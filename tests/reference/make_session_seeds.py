#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the seeds of tests/fuzz_session.c into the folder given: sessions of its small model.

The layout is written out here a second time, from the description in src/engine/session-file.h.
The checksum is left 0: the target puts the right one in.
"""
import struct
import sys
from pathlib import Path

N_VOCAB, PAGES, WINDOW = 16, (96, 64), 40


def session(n_tokens, n_cached, has_logits, tables, version=1, page=64, fingerprint=0x0123456789ABCDEF):
    out = b"SLUSESS\0" + struct.pack("<2IQ8I", version, page, fingerprint, N_VOCAB, 2, 0, 0, n_tokens,
                                     n_cached, has_logits, 0)
    for (begin, end), size in zip(tables, PAGES):
        out += struct.pack("<2IQ", begin, end, size)
    out += b"".join(struct.pack("<i", i % N_VOCAB) for i in range(min(n_tokens, 512)))
    if has_logits == 1:
        out += struct.pack("<16f", *range(N_VOCAB))
    for (begin, end), size in zip(tables, PAGES):
        out += bytes((i * 7) & 255 for i in range(min(max(end - begin, 0), 8) * size))
    return out + bytes(8)


SEEDS = {
    "empty": session(0, 0, 0, [(0, 0), (0, 0)]),
    "one": session(1, 1, 1, [(0, 1), (0, 1)]),
    "page": session(64, 64, 1, [(0, 1), (0, 1)]),
    "window": session(300, 300, 1, [(0, 5), (3, 5)]),
    "window-short": session(300, 300, 1, [(0, 5), (4, 5)]),
    "full": session(512, 512, 1, [(0, 8), (5, 8)]),
    "too-long": session(513, 513, 1, [(0, 9), (6, 9)]),
    "pending": session(300, 0, 0, [(0, 0), (0, 0)]),
    "lying-cache": session(10, 11, 0, [(0, 1), (0, 1)]),
    "wrapped-pages": session(64, 64, 0, [(0xFFFFFFFF, 1), (0, 0xFFFFFFFF)]),
    "foreign": session(1, 1, 1, [(0, 1), (0, 1)], fingerprint=1),
    "version": session(1, 1, 1, [(0, 1), (0, 1)], version=2),
    "short": b"SLUSESS\0",
    "nothing": b"",
}

folder = Path(sys.argv[1])
folder.mkdir(exist_ok=True)
for name, data in SEEDS.items():
    (folder / name).write_bytes(data)
