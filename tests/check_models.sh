#!/bin/sh
# SPDX-License-Identifier: MIT
# Real models against independent code, where their files are: logits against `transformers`,
# choices against llama.cpp, perplexity against llama.cpp's figures. Run by `make check-models`.
#
# SLUICE_MODELS, or the first argument, is a folder with smollm2.gguf and gemma3.gguf, one of which
# may be missing; without it SmolLM2 is looked for where ./setup puts it. 77: nothing to check.
set -u

build=${SLUICE_TEST_BUILD:-.}
top=${SLUICE_TEST_TOP:-$(dirname "$0")/..}
models=${1:-${SLUICE_MODELS:-}}
data=${XDG_DATA_HOME:-$HOME/.local/share}/sluice
text=/usr/share/common-licenses/GPL-3
status=77

failed() {
    echo "FAIL: $1"
    status=1
}

# find_model NAME FILE: the path of a model, or nothing.
find_model() {
    for file in "$models/$1.gguf" "$data/models/$2" "$data/$2"; do
        [ -r "$file" ] && { echo "$file"; return; }
    done
}

# check NAME FILE PERPLEXITY: PERPLEXITY is llama.cpp's after 8 chunks of 512 of $text.
check() {
    model=$(find_model "$1" "$2")
    [ -n "$model" ] || { echo "$1: no file, not checked"; return; }
    [ "$status" = 77 ] && status=0
    echo "$1: logits of transformers"
    "$build/compare_model" logits "$model" "$top/tests/data/golden/$1.gold" || failed "$1: logits"
    echo "$1: choices of llama.cpp"
    "$build/compare_model" greedy "$model" "$top/tests/data/golden/llama-cpp-$1.txt" ||
        failed "$1: choices"
    if [ -x "$build/sluice" ] && [ -r "$text" ]; then
        found=$("$build/sluice" perplexity -m "$model" -f "$text" -c 512 --chunks 8 2>&1 |
            sed -n 's/.*PPL = \([0-9.]*\).*/\1/p')
        echo "$1: perplexity ${found:-missing}, llama.cpp $3"
        awk -v x="${found:-0}" -v y="$3" 'BEGIN { d = x / y - 1; exit !(d < 0.005 && d > -0.005) }' ||
            failed "$1: perplexity"
    fi
}

# llama.cpp d32676d built for AVX2; its AVX-512 build says 18.4942 and 14.9381, exact float32 arithmetic
# says 18.3418 for SmolLM2.
check smollm2 SmolLM2-135M-Instruct.Q4_1.gguf 18.3800
check gemma3 gemma-3-270m-q4_k_m.gguf 14.9387
exit "$status"
