#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Lays Sluice beside llama.cpp: the tokens each would choose, and the perplexity of a text.

  tests/reference/compare_llama_cpp.py --llama-cpp DIR --build DIR MODEL.gguf NAME [--write]

--llama-cpp is a source tree of llama.cpp with a build in build/, --build a build of Sluice. With
--write llama.cpp's choices become tests/data/golden/llama-cpp-NAME.txt, which check_models.sh reads.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TEXT = "/usr/share/common-licenses/GPL-3"
PROMPTS = [
    "The sun rises in the", "My favourite book is", "A recipe for bread:", "import numpy as np\n",
    "2 + 2 =", "It was a dark and stormy night", "Der schnelle braune Fuchs",
    "Q: Who wrote Hamlet?\nA:", "{\"name\": \"", "The mitochondria",
]


def choices(tree, model):
    """One line for each prompt, see llama_cpp_greedy.cc."""
    with tempfile.TemporaryDirectory() as d:
        libs = f"{tree}/build/bin"
        subprocess.run(["g++", "-O1", "-std=c++17", f"-I{tree}/include", f"-I{tree}/ggml/include",
                        str(HERE / "llama_cpp_greedy.cc"), "-o", f"{d}/greedy", f"-L{libs}", "-lllama",
                        "-lggml", "-lggml-base", f"-Wl,-rpath,{libs}"], check=True)
        return subprocess.run([f"{d}/greedy", model, "32"], input="\0".join(PROMPTS).encode(),
                              stdout=subprocess.PIPE, check=True).stdout.decode()


def perplexity(command):
    out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True).stdout
    return float(re.search(r"PPL = ([0-9.]+)", out.decode(errors="replace"))[1])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--llama-cpp", required=True)
    p.add_argument("--build", required=True)
    p.add_argument("--write", action="store_true")
    p.add_argument("model")
    p.add_argument("name")
    a = p.parse_args()
    tree = pathlib.Path(a.llama_cpp).resolve()

    commit = subprocess.run(["git", "-C", str(tree), "rev-parse", "--short=7", "HEAD"],
                            stdout=subprocess.PIPE, check=True).stdout.decode().strip()
    text = (f"# llama.cpp {commit}, greedy: tokens in the prompt, then the prompt's tokens and the 32 that follow\n"
            "# made by tests/reference/compare_llama_cpp.py\n" + choices(tree, a.model))
    with tempfile.TemporaryDirectory() as d:
        path = HERE.parent / "data/golden" / f"llama-cpp-{a.name}.txt" if a.write else pathlib.Path(d) / "choices"
        path.write_text(text)
        status = subprocess.run([f"{a.build}/compare_model", "greedy", a.model, str(path)]).returncode

    args = ["-m", a.model, "-f", TEXT, "-c", "512", "--chunks", "8"]
    theirs = perplexity([f"{tree}/build/bin/llama-perplexity", *args])
    ours = perplexity([f"{a.build}/sluice", "perplexity", *args])
    print(f"perplexity {ours:.4f}, llama.cpp {theirs:.4f}: {100 * (ours / theirs - 1):+.2f} %")
    sys.exit(status or abs(ours / theirs - 1) > 0.005)


main()
