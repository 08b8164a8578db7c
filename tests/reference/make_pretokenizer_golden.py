#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/data/tokenizer/pieces-<name>.txt: a digest of where the real regular expressions,
run by `tokenizers`, cut each of the shared strings. Usage: make_pretokenizer_golden.py"""

import os

from tokenizer_families import DATA, FAMILIES, digest, pre_tokenizer, strings


def ends(splitter, text):
    """Byte offsets of the ends of the pieces."""
    pos, result = 0, []
    for piece, _ in splitter.pre_tokenize_str(text):
        pos += len(piece.encode("utf-8"))
        result.append(pos)
    return result


def main():
    texts = strings()
    for name in FAMILIES:
        splitter = pre_tokenizer(name)
        with open(os.path.join(DATA, f"pieces-{name}.txt"), "w", encoding="ascii") as f:
            for text in texts:
                f.write("%08x\n" % digest(ends(splitter, text)))


if __name__ == "__main__":
    main()
