#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden logits of models that tests/make_model draws: shapes with rows of 256, so every block type.

  pip install torch transformers gguf numpy
  tests/reference/make_drawn_logits.py --make-model build/make_model [NAME ...]

Each file is drawn by make_model, compared byte by byte with make_model_weights.py, dequantised by
the package `gguf` and computed by `transformers`; only the logits are kept, with the noise that
make_real_logits.py explains. check_golden draws the same models from the table it repeats.
"""

import argparse
import pathlib
import subprocess
import tempfile

import numpy as np

import gguf_hf
import golden_file
import make_model_weights

OUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "golden"
N_TOKENS, ROW_STEP, N_KEPT = 130, 8, 64

# The stock mix for each family; six layers, so that Gemma has one with full attention.
MODELS = {f"{arch}-q4_k_m": ["--arch", arch, "--layers", "6", "--mix", "q4_k_m"]
          for arch in ("llama", "qwen2", "qwen3", "gemma3")}
# Every type that a product can meet.
MODELS |= {f"llama-{t}": ["--arch", "llama", "--layers", "2", "--type", t] for t in (
    "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k",
    "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq1_s", "iq1_m", "iq4_nl", "iq4_xs",
    "tq1_0", "tq2_0", "mxfp4", "nvfp4")}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--make-model", required=True)
    p.add_argument("names", nargs="*")
    a = p.parse_args()
    for seed, (name, args) in enumerate(MODELS.items(), 1):
        if a.names and name not in a.names:
            continue
        with tempfile.TemporaryDirectory() as d:
            path = f"{d}/{name}.gguf"
            subprocess.run([a.make_model, *args, "--seed", str(seed), path], check=True)
            assert make_model_weights.verify(path, seed)
            file = gguf_hf.File(path)
        tokens = np.random.default_rng(seed).integers(0, file.tensors["token_embd.weight"].shape[0], N_TOKENS)
        exact = gguf_hf.logits(gguf_hf.load(file), tokens)
        rounded = gguf_hf.logits(gguf_hf.load(file, int8_activations=True), tokens)
        rows = range(1, N_TOKENS, ROW_STEP)
        noise = golden_file.write(OUT / f"{name}.gold", tokens, exact, rows, N_KEPT, rounded)
        print(f"{name}: noise {noise:.3g}, logits of size {exact.std():.2f}, "
              f"{len(set(exact.argmax(1)))} tokens chosen")


main()
