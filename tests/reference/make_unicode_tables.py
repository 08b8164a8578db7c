#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes src/text/unicode-tables.c to standard output.

The classes are read off the regular expressions of the `tokenizers` package (0.23.3, whose engine
has the data of Unicode 16.0.0), because the token ids that Sluice must reproduce were made with
them. Usage: make_unicode_tables.py > src/text/unicode-tables.c
"""

import tokenizers
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

VERSION = "16.0.0"
BLOCK = 128
# One letter per class; its low five bits are the number of the class's bit in unicode.h.
CLASSES = [
    ("U", r"\p{Lu}"), ("L", r"\p{Ll}"), ("T", r"\p{Lt}"), ("D", r"\p{Lm}"), ("O", r"\p{Lo}"),
    ("M", r"\p{M}"), ("N", r"\p{N}"), ("P", r"\p{P}"), ("S", r"\p{S}"), ("W", r"\s"),
]


def members(pattern, chars):
    """The characters of the list that the pattern matches."""
    split = Split(Regex(pattern), "removed")
    found = set()
    for i in range(0, len(chars), 4096):
        part = chars[i:i + 4096]
        rest = {c for piece, _ in split.pre_tokenize_str("".join(part)) for c in piece}
        found.update(c for c in part if c not in rest)
    return found


def main():
    assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
    chars = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    table = ["_"] * 0x110000
    for letter, pattern in CLASSES:
        for c in members(pattern, chars):
            assert table[ord(c)] == "_", (letter, c)
            table[ord(c)] = letter
    blocks, index = [], []
    for i in range(0, 0x110000, BLOCK):
        block = "".join(table[i:i + BLOCK])
        if block not in blocks:
            blocks.append(block)
        index.append(blocks.index(block))
    assert len(blocks) <= 256
    print("/* SPDX-License-Identifier: MIT */")
    print("/*")
    print(f" * Character classes of Unicode {VERSION}; see unicode.h. Made by")
    print(f" * tests/reference/make_unicode_tables.py, from `tokenizers` {tokenizers.__version__}.")
    print(" */")
    print('#include "config.h"\n')
    print('#include "src/text/unicode.h"\n')
    print("/* clang-format off */")
    print("/* The block of each %d characters. */" % BLOCK)
    print("const uint8_t sluice_unicode_index[0x110000 / SLUICE_UNICODE_BLOCK] = {")
    for i in range(0, len(index), 24):
        print("    " + " ".join("%d," % b for b in index[i:i + 24]))
    print("};\n")
    print("const char sluice_unicode_blocks[%d][SLUICE_UNICODE_BLOCK + 1] = {" % len(blocks))
    for block in blocks:
        print('    "%s"' % block[:64])
        print('    "%s",' % block[64:])
    print("};")


main()
