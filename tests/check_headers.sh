#!/bin/sh
# SPDX-License-Identifier: MIT
# Every header compiles on its own; those that device code reads, as C++ too.
# SLUICE_TEST_CC is the compiler with its flags, SLUICE_TEST_CXX may be one for C++.
set -u

top=${SLUICE_TEST_TOP:-$(dirname "$0")/..}
cd "$top" || exit 1
: "${SLUICE_TEST_CC:=cc -std=gnu17 -I. $(pkg-config --cflags glib-2.0 hwloc jansson check)}"

status=0
for folder in src cpu offload tests; do
    for header in $(find "$folder" -name '*.h' -not -path '*/sim/*' | sort); do
        printf '#include "%s"\n' "$header" |
            eval "$SLUICE_TEST_CC -fsyntax-only -x c -" || { echo "$header does not compile alone"; status=1; }
    done
done
if [ -n "${SLUICE_TEST_CXX:-}" ]; then
    for header in src/core/types.h src/core/blocks.h src/core/backend.h src/core/placement.h; do
        [ -e "$header" ] || continue
        printf '#include "%s"\n' "$header" |
            eval "$SLUICE_TEST_CXX -I. -fsyntax-only -x c++ -" || { echo "$header is not C++"; status=1; }
    done
fi
exit $status
