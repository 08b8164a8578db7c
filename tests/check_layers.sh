#!/bin/sh
# SPDX-License-Identifier: MIT
# Who may include whom, what the library may not call, and what every file must carry: the rules
# of layering as greps. Prints every breach and fails if there is one.
set -u

top=${1:-${SLUICE_TEST_TOP:-$(dirname "$0")/..}}
cd "$top" || exit 1
LC_ALL=C
export LC_ALL

n_breaches=0
# breach RULE LINES: reports the lines, if there are any.
breach() {
    if [ -n "$2" ]; then
        printf '%s\n' "$2" | sed "s|^|$1: |"
        n_breaches=$((n_breaches + $(printf '%s\n' "$2" | wc -l)))
    fi
}

folders=
for folder in src cpu cuda offload tests examples; do
    [ -d "$folder" ] && folders="$folders $folder"
done
# shellcheck disable=SC2086
sources=$(find $folders -type f \( -name '*.c' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) | sort)
[ -n "$sources" ] || { echo "no sources under $top"; exit 1; }

# "file target" for every include of one of our own headers.
# shellcheck disable=SC2086
includes=$(grep -H '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' $sources |
    sed 's/^\([^:]*\):[^"]*"\([^"]*\)".*/\1 \2/')

# only FILES ALLOWED: includes of files that match FILES and do not match ALLOWED.
only() {
    printf '%s\n' "$includes" | awk -v files="^($1)" -v allowed="^($2)" \
        '$1 ~ files && $2 != "config.h" && $2 !~ allowed { print $1 " includes " $2 }'
}

# An include is written from the top, and the file is there.
breach 'include from the top' "$(printf '%s\n' "$includes" |
    awk '$2 != "config.h" && $2 !~ "/" { print $1 " includes " $2 }')"
breach 'no such header' "$(printf '%s\n' "$includes" | while read -r file target; do
    # A header may be made by the build; then its folder's list says so.
    [ "$target" = config.h ] || [ -e "$target" ] ||
        grep -q "^BUILT_SOURCES.*$target" ./*/Makefile.inc ./*/*/Makefile.inc || echo "$file includes $target"
done)"

# Downwards inside src/. The public header speaks of models, so it is above format; it includes
# nothing of ours, and the error codes that everybody sets are in it.
breach 'src/core looks down only' "$(only 'src/core/' 'src/core/' |
    grep -v '^src/core/error.h includes src/sluice.h$')"
breach 'src/format looks down only' "$(only 'src/format/' 'src/(core|format)/')"
breach 'src/text looks down only' "$(only 'src/text/' 'src/(core|format|text)/|src/sluice\.h')"
breach 'src/model looks down only' "$(only 'src/model/' 'src/(core|format|text|model)/|src/sluice\.h')"
breach 'src/engine looks down only' "$(only 'src/engine/' \
    'src/(core|format|text|model|engine)/|src/sluice\.h|cpu/|cuda/|offload/')"
breach 'src/serve looks down only' "$(only 'src/serve/' \
    'src/(core|format|text|model|engine|serve)/|src/sluice\.h')"
breach 'src/cli looks down only' "$(only 'src/cli/' \
    'src/(core|format|text|model|engine|serve|cli)/|src/sluice\.h')"
breach 'the public header stands alone' "$(only 'src/sluice\.h' '$.')"

# One file of src/ knows the executors, and it knows their front doors.
breach 'executors are known to src/engine/backends.c alone' "$(printf '%s\n' "$includes" |
    awk '$1 ~ "^src/" && $2 ~ "^(cpu|cuda|offload)/" && $1 != "src/engine/backends.c" \
         { print $1 " includes " $2 }')"
breach 'front doors only' "$(printf '%s\n' "$includes" |
    awk '$1 ~ "^(src|offload)/" && $2 ~ "^(cpu|cuda)/" && $2 !~ "^(cpu/sluice-cpu|cuda/sluice-cuda)\\.h$" \
         { print $1 " includes " $2 }
         $1 ~ "^src/" && $2 ~ "^offload/" && $2 != "offload/sluice-offload.h" { print $1 " includes " $2 }')"
breach 'cpu/ sees itself and src/core' "$(only 'cpu/' 'cpu/|src/core/')"
breach 'cuda/ sees itself and src/core' "$(only 'cuda/' 'cuda/|src/core/')"
breach 'offload/ sees itself, front doors and src/core' "$(only 'offload/' \
    'offload/|cpu/sluice-cpu\.h|cuda/sluice-cuda\.h|src/core/')"
breach 'planning runs anywhere' "$(only 'offload/(plan|meter)[-.]' 'offload/|src/core/')"
breach 'a .cu file sees plain headers' "$(only 'cuda/.*\.cuh?$' \
    'cuda/|src/core/(types|blocks)\.h$')"
breach 'nothing stands on the tests' "$(printf '%s\n' "$includes" |
    awk '$1 !~ "^tests/" && $2 ~ "^tests/" { print $1 " includes " $2 }')"
breach 'the simulation shares nothing with what it judges' "$(printf '%s\n' "$includes" |
    awk '$1 ~ "^tests/sim/" && $2 ~ "^offload/" { print $1 " includes " $2 }')"
breach 'examples use the public header' "$(only 'examples/' 'src/sluice\.h')"

# Headers that the device compiler reads too.
for header in src/core/types.h src/core/blocks.h src/core/backend.h src/core/placement.h; do
    [ -e "$header" ] && breach 'free of GLib' \
        "$(grep -Hn '#include <glib\|G_BEGIN_DECLS\|\<g[a-z]*int[0-9]*\>' "$header")"
done

# The library neither prints nor ends the process; the program does.
library=$(printf '%s\n' "$sources" | grep -E '^(src|cpu|cuda|offload)/' | grep -v '^src/cli/')
# shellcheck disable=SC2086
breach 'the library does not print or exit' "$(grep -nHE \
    '(^|[^[:alnum:]_>."])(printf|fprintf|vfprintf|puts|putchar|perror|exit|_exit|abort|g_print|g_printerr|g_error) *\(' \
    $library | grep -vE '^[^:]*:[0-9]+: *(/\*| \*)')"

# Instruction sets are asked for where the levels are built and nowhere else.
breach 'instruction set flags' "$(grep -nHE '(^|[[:space:]])-m(avx|fma|f16c|arch|tune|amx|bmi|sse)' \
    Makefile.am configure.ac ./*/Makefile.inc 2> /dev/null | grep -v '^\./cpu/Makefile\.inc:')"

# What every file carries.
for file in $sources; do
    case $(head -n 1 "$file") in
    *'SPDX-License-Identifier: MIT'*) ;;
    *) breach 'first line names the licence' "$file" ;;
    esac
    case $file in
    *.h | *.cuh) grep -q '^#pragma once$' "$file" || breach 'once' "$file" ;;
    esac
done
breach 'config.h first' "$(printf '%s\n' "$includes" |
    awk '$1 ~ "^(src|cpu|offload)/.*\\.c$" && !seen[$1]++ && $2 != "config.h" { print $1 " includes " $2 }')"
# shellcheck disable=SC2086
breach 'unfinished' "$(grep -nHwE 'TODO|FIXME|XXX|HACK' $sources)"

[ "$n_breaches" -eq 0 ] || { echo "$n_breaches breaches of the layering"; exit 1; }
