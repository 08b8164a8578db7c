# SPDX-License-Identifier: MIT
"""The pre-tokenizers as their models publish them, for the `tokenizers` package, and what the
scripts that make golden data share."""

import os

from tokenizers import Regex
from tokenizers.pre_tokenizers import Digits, Sequence, Split

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/tokenizer")

CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
CJK = r"[一-龥ࠀ-一가-퟿]+"
# Escaped, because some of the letters would not survive normalisation.
DEEPSEEK_LETTERS = (
    "[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-"
    "\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-"
    "\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-"
    "\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc"
    "\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-"
    "\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-"
    "\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-"
    "\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-"
    "\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-"
    "\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-"
    "\U000118df\U0001e900-\U0001e943]")


def llama3_like(digits, word=r"\p{L}", tail=r"[\r\n]*"):
    others = "" if tail else r"\r\n"
    return (CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[" + word + "]+|" + digits + r"| ?[^\s" + word +
            r"\p{N}" + others + "]+" + tail + "|" + TAIL)


# One entry per pre-tokenizer of src/text/pretokenizer.c, under one of its names.
FAMILIES = {
    "gpt-2": [GPT2],
    "llama-bpe": [llama3_like(r"\p{N}{1,3}")],
    "qwen2": [llama3_like(r"\p{N}")],
    "qwen35": [llama3_like(r"\p{N}", r"\p{L}\p{M}")],
    "seed-coder": [llama3_like(r"\p{N}{1}", tail="")],
    "bailingmoe": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                   r"|\s*[\r\n]|\s+(?!\S)|\s+"],
    "smollm": [None, GPT2],
    "deepseek-llm": [r"[\r\n]", r"\s?" + DEEPSEEK_LETTERS + "+",
                     r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", CJK, r"\p{N}+"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK, None],
    "deepseek-v3": [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+",
                    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
                    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|" + TAIL],
    "tekken": [r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + r"+|[^\r\n\p{L}\p{N}]?" + UPPER + "+" +
               LOWER + r"*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL],
    "gpt-4o": [r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+" + CONTRACTION + "?" +
               r"|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + "*" + CONTRACTION + "?" +
               r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]"],
    "bloom": [BLOOM],
    "viking": [BLOOM, None],
    "gemma4": [r"[^\n]+|[\n]+"],
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"],
}


def pre_tokenizer(name):
    """The splitter of a family; None among its expressions stands for single digits."""
    return Sequence([Digits(individual_digits=True) if e is None else Split(Regex(e), "isolated")
                     for e in FAMILIES[name]])


def strings():
    with open(os.path.join(DATA, "strings.dat"), "rb") as f:
        return [s.decode("utf-8") for s in f.read().split(b"\xff")[:-1]]


def digest(values):
    """FNV-1a over whole numbers instead of bytes; the tests' own is in tests/tokenizer_data.c."""
    h = 0x811C9DC5
    for v in values:
        h = ((h ^ v & 0xFFFFFFFF) * 0x01000193) & 0xFFFFFFFF
    return h
