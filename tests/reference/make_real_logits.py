#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden logits of a real model file, from `transformers` over its dequantised weights.

  pip install torch transformers gguf numpy
  tests/reference/make_real_logits.py MODEL.gguf NAME [TOKENS.txt]

writes tests/data/golden/NAME.gold, computed in float32 throughout, and into it the noise of Sluice's
definition of a product: the NMSE of a second computation in which every product with a quantised
weight reads its input rounded to int8. (Two such computations differ from each other about as much:
where a value lies near the middle of two steps its last bit of float32 decides, the steps that went
the other way disturb the next layer, and after a few layers the roundings are unrelated.)
TOKENS.txt holds token ids (decimal, by white space; the golden files here have the first 640 of the GNU GPL version
3 as Debian installs it, from llama-tokenize --ids); without it those of the existing file are used.
"""

import pathlib
import sys

import numpy as np

import gguf_hf
import golden_file

OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "golden"
ROW_STEP, N_KEPT = 16, 64


def main():
    model_path, name = sys.argv[1:3]
    path = OUT / f"{name}.gold"
    if len(sys.argv) > 3:
        tokens = np.array(open(sys.argv[3]).read().split(), dtype=np.int32)[:640]
    else:
        tokens = golden_file.read_tokens(path)
    file = gguf_hf.File(model_path)
    exact = gguf_hf.logits(gguf_hf.load(file), tokens)
    rounded = gguf_hf.logits(gguf_hf.load(file, int8_activations=True), tokens)
    OUT.mkdir(parents=True, exist_ok=True)
    noise = golden_file.write(path, tokens, exact, range(0, len(tokens), ROW_STEP), N_KEPT, rounded)
    same = (exact.argmax(1) == rounded.argmax(1)).mean()
    print(f"{name}: noise of int8 activations {noise:.3g}, same argmax {same:.4f}")


main()
