# SPDX-License-Identifier: MIT
"""Writes golden logits in the form that tests/golden.c reads.

Little-endian: "SLUGOLD1"; n_tokens, n_vocab, n_rows, n_kept (uint32); the noise that the int8
activations of Sluice's definition make in the logits kept, as NMSE (float64; 0: none are rounded);
tokens, the argmax behind each token (int32 [n_tokens]), its margin to the runner-up (float32
[n_tokens]); the positions of which logits are kept (int32 [n_rows]); where n_kept is not 0, the
ids kept of each (int32 [n_rows, n_kept]); logits (float32 [n_rows, n_kept or n_vocab]).
"""

import struct

import numpy as np


def write(path, tokens, logits, rows, n_kept=0, rounded=None):
    """@rounded: the same logits where activations were rounded; returns the noise."""
    n_tokens, n_vocab = logits.shape
    assert len(tokens) == n_tokens
    top = np.argpartition(-logits, 1, axis=1)[:, :2]
    best = logits.argmax(1)
    values = np.sort(np.take_along_axis(logits, top, 1), axis=1)
    rows = np.asarray(rows)
    kept, noisy = logits[rows], (logits if rounded is None else rounded)[rows]
    ids = None
    if n_kept:
        # Half of them the largest, half spread over the vocabulary.
        spread = np.linspace(0, n_vocab - 1, n_kept // 2).astype(int)
        ids = np.stack([np.concatenate([np.argsort(-r, kind="stable")[:n_kept - len(spread)], spread])
                        for r in kept])
        kept, noisy = np.take_along_axis(kept, ids, 1), np.take_along_axis(noisy, ids, 1)
    exact = kept.astype(np.float64)
    noise = ((exact - noisy) ** 2).sum() / (exact ** 2).sum()
    with open(path, "wb") as f:
        f.write(b"SLUGOLD1" + struct.pack("<4Id", n_tokens, n_vocab, len(rows), n_kept, noise))
        f.write(np.asarray(tokens, "<i4").tobytes())
        f.write(best.astype("<i4").tobytes())
        f.write((values[:, 1] - values[:, 0]).astype("<f4").tobytes())
        f.write(rows.astype("<i4").tobytes())
        if n_kept:
            f.write(ids.astype("<i4").tobytes())
        f.write(kept.astype("<f4").tobytes())
    return noise


def read_tokens(path):
    data = open(path, "rb").read()
    assert data[:8] == b"SLUGOLD1", path
    return np.frombuffer(data, "<i4", struct.unpack_from("<I", data, 8)[0], 32)
