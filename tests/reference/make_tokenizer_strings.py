#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/data/tokenizer/strings.dat: the strings that every tokenizer test reads.

2,500 strings in many scripts, each followed by the byte FF. A fixed generator (SplitMix64) mixes
whole sentences and pieces of them (tests/data/tokenizer/sentences.txt) with what breaks
tokenizers: runs of white space and newlines, digits, contractions, marks without a letter,
unassigned and private characters, emoji, special tokens spelt out, long runs of one character.
Usage: make_tokenizer_strings.py > tests/data/tokenizer/strings.dat
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
N_STRINGS = 2500


class Random:
    """SplitMix64, so that no version of Python changes the strings."""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & (2**64 - 1)
        z = self.state
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & (2**64 - 1)
        return z ^ z >> 31

    def below(self, n):
        return self.next() % n

    def pick(self, items):
        return items[self.below(len(items))]


SPACES = [" ", " ", " ", "  ", "   ", "    ", "\t", "\n", "\n", "\n\n", "\r\n", "\r", " \n", "\n ",
          "\t\t", "        ", "\u00a0", "\u2003", "\u3000", "\u2028", "\x0b", "\x0c", "\x85",
          "\u200b", "\n\n\n", " \n \n", "\u1680 ", "\ufeff"]
SMALL = ["'s", "'S", "'t", "'re", "'RE", "'ve", "'Ve", "'m", "'ll", "'LL", "'d", "'D", "'", "''",
         "'\u017f", "'x", "\u2019s", "'l", "'r", "!", "?", "...", "\u2026", "!!!!!!", "//", "/",
         "--", "_", "__init__", "@", "#", "$", "^", "`", "```", "|", "||", "~", "\\", "\\n", "(",
         ")", "[", "]", "{", "}", "<", ">", "+", "=", "==", "%", "&", "*", ",", ".", ";", ":", "\"",
         "\u3002", "\uff0c", "\u3001", "\u0964", "\u06d4", "\u060c", "\u2581", "\u0120", "\u010a",
         "<|im_start|>", "<|im_end|>", "<s>", "</s>", "<0x0A>", "<unk>", "<|eot_id|>",
         "<|begin_of_text|>", "[INST]", "<tool_call>", "<bos>"]
DIGITS = ["0", "1", "7", "42", "123", "1234", "12345", "33333333", "3.14", "1,000", "0x1F", "1e9",
          "\u0661\u0662\u0663\u0664", "\u0967\u0968\u0969", "\u00b2", "\u00bd", "\u2167", "\u2460",
          "\uff11\uff12\uff13\uff14", "\U0001d7d8\U0001d7d9", "\u3007", "10\u00b2"]
# Ranges to draw single characters from, over the planes.
RANGES = [(0x20, 0x7E), (0xA0, 0xFF), (0x100, 0x24F), (0x250, 0x2AF), (0x2B0, 0x36F),
          (0x370, 0x3FF), (0x400, 0x52F), (0x531, 0x58F), (0x591, 0x5F4), (0x600, 0x6FF),
          (0x700, 0x7FF), (0x800, 0x8FF), (0x900, 0xDFF), (0xE00, 0xEFF), (0xF00, 0xFFF),
          (0x1000, 0x109F), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x13FF), (0x1400, 0x17FF),
          (0x1800, 0x1CFF), (0x1D00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x20CF), (0x20D0, 0x218F),
          (0x2190, 0x23FF), (0x2460, 0x27BF), (0x2C00, 0x2DFF), (0x2E00, 0x2FFF), (0x3000, 0x30FF),
          (0x3100, 0x4DBF), (0x4E00, 0x9FFF), (0xA000, 0xABFF), (0xAC00, 0xD7FF), (0xE000, 0xF8FF),
          (0xF900, 0xFAFF), (0xFB00, 0xFDFF), (0xFE00, 0xFFFF), (0x10000, 0x10FFF),
          (0x11000, 0x11FFF), (0x12000, 0x16FFF), (0x1B000, 0x1D7FF), (0x1E000, 0x1FAFF),
          (0x20000, 0x323AF), (0xE0000, 0xE01EF)]


def part(r, sentences):
    kind = r.below(16)
    if kind < 5:
        words = r.pick(sentences).split(" ")
        begin = r.below(len(words))
        return " ".join(words[begin:begin + 1 + r.below(6)])
    if kind < 8:
        return r.pick(SPACES)
    if kind < 10:
        return r.pick(SMALL)
    if kind < 12:
        return r.pick(DIGITS)
    if kind == 12:
        low, high = r.pick(RANGES)
        return "".join(chr(low + r.below(high - low + 1)) for _ in range(1 + r.below(5)))
    if kind == 13:
        return "".join(r.pick("aAbBzZ\u00e9\u00c9\u01c5\u02b0\u4e00\u0301") for _ in range(1 + r.below(9)))
    if kind == 14:
        return "".join(r.pick(" \t\n\r'a1.\u0301\u4e00") for _ in range(1 + r.below(9)))
    return r.pick(["a", "A", " ", "\n", "1", "!", "\u4e00", "\u0301", "-", "="]) * (1 + r.below(40))


def main():
    with open(os.path.join(HERE, "../data/tokenizer/sentences.txt"), encoding="utf-8") as f:
        sentences = f.read().split("\n")[:-1]
    r = Random(20261130)
    strings = [""] + sentences
    while len(strings) < N_STRINGS:
        strings.append("".join(part(r, sentences) for _ in range(1 + r.below(7))))
    for s in strings:
        sys.stdout.buffer.write(s.encode("utf-8") + b"\xff")


main()
