#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The tests that take too long for every day. Runs in the source tree:
#
#   tests/check_long.sh [STEP...]
#
#   address   all suites, built with the address and undefined behaviour sanitizers
#   thread    the suites with threads in them, built with the thread sanitizer
#   fuzz      every fuzz target under libFuzzer, SLUICE_FUZZ_SECONDS each (default 600), from its
#             corpus; SLUICE_FUZZ_TARGETS names some of them
#
# Without a step, all. Each builds in a folder of its own: build-address, build-thread, build-fuzz.
# Ends with the first step that fails.
set -eu

cd "$(dirname "$0")/.."
[ -f configure ] || autoreconf -fi

# configure_in FOLDER ARGUMENTS...: once.
configure_in() {
    local folder=$1
    shift
    mkdir -p "$folder"
    [ -f "$folder/Makefile" ] || (cd "$folder" && ../configure "$@" >configure.log 2>&1) || {
        tail -n 20 "$folder/configure.log"
        return 1
    }
}

# GLib's own slices and OpenBLAS's and hwloc's tables live until the process ends.
export G_SLICE=always-malloc
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:detect_stack_use_after_return=1
export UBSAN_OPTIONS=print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
# A suite that forks for each test is slow under a sanitizer, and its limits are for plain builds.
export CK_TIMEOUT_MULTIPLIER=20

address() {
    configure_in build-address --enable-sanitizers --enable-debug CFLAGS='-O1 -g'
    make -C build-address -j "$(nproc)" check
}

thread() {
    configure_in build-thread --enable-sanitizers=thread CFLAGS='-O1 -g'
    local suite suites='check_team check_backend check_session'
    # shellcheck disable=SC2086 # a list of names
    make -C build-thread -j "$(nproc)" $suites
    for suite in $suites; do
        (cd build-thread && SLUICE_TEST_DATA=../tests/data "./$suite")
    done
}

fuzz() {
    local target corpus
    command -v clang-14 >/dev/null || {
        echo 'fuzzing needs clang-14 and libclang-rt-14-dev'
        return 1
    }
    configure_in build-fuzz CC=clang-14 --disable-tests --disable-shared \
        CFLAGS='-O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined'
    for target in ${SLUICE_FUZZ_TARGETS:-gguf tokenizer session}; do
        make -C build-fuzz -j "$(nproc)" "libfuzzer_$target"
        corpus=build-fuzz/corpus-$target
        mkdir -p "$corpus"
        (
            cd build-fuzz
            ./libfuzzer_"$target" -max_total_time="${SLUICE_FUZZ_SECONDS:-600}" -timeout=10 \
                -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="found-$target-" \
                "corpus-$target" "../tests/data/fuzz-$target"
        )
    done
}

for step in "${@:-all}"; do
    case $step in
    all)
        address
        thread
        fuzz
        ;;
    address | thread | fuzz) "$step" ;;
    *)
        echo "check_long.sh: no step is called '$step'" >&2
        exit 2
        ;;
    esac
done
