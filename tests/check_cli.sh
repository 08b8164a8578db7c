#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The program as its user meets it: exit statuses, what goes to which stream, JSON, stop strings,
# Ctrl-C. Runs in the build folder over a tiny random model that make_model draws.
set -u

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_DATA_HOME=$work/data XDG_STATE_HOME=$work/state TERM=xterm LC_ALL=C.UTF-8
unset NO_COLOR G_MESSAGES_DEBUG
model=$work/tiny.gguf
n_failed=0

fail() {
    printf 'FAILED: %s\n' "$*"
    n_failed=$((n_failed + 1))
}

# status EXPECTED PATTERN WORDS...: sluice WORDS exits so, and says PATTERN on standard error.
status() {
    local expected=$1 pattern=$2 got
    shift 2
    ./sluice "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    [ "$got" = "$expected" ] || fail "sluice $*: status $got, expected $expected: $(<"$work/err")"
    [ -z "$pattern" ] || grep -q -- "$pattern" "$work/err" || fail "sluice $*: '$pattern' not in: $(<"$work/err")"
}

same() {
    [ "$2" = "$3" ] || fail "$1: '$2' is not '$3'"
}

answer() {
    ./sluice run -m "$model" -q --raw --temp 0 -n 24 --ignore-eos "$@"
}

./make_model "$model" --seed 7 >/dev/null || {
    echo 'FAILED: make_model drew no model'
    exit 1
}
head -c 2000 "$model" >"$work/short.gguf"
echo 'this is no model, though it is long enough for the header of one' >"$work/foreign.gguf"
printf '\xff\xfe' >"$work/latin"
mkdir "$work/folder.gguf"

# ---- statuses and messages ----
status 0 '' version
status 0 '' --help
status 0 '' run --help
status 2 'Usage: sluice' # no command
status 2 "'rnu' is not a command; did you mean 'run'?" rnu
status 2 "did you mean '--threads'?" run --treads 4 x
status 2 "option '--threads' is '99999999999', must be a whole number from 0 to 1024" run -t 99999999999 x
status 2 "option '--temp' is 'nan'" run --temp nan x
status 2 'there is no prompt' run -m "$model"
status 2 'the prompt is empty' run -m "$model" -p ''
status 2 '--interactive needs a terminal' run -m "$model" -i
status 2 'not UTF-8 text: byte 0xFF at offset 0' run -m "$model" -f "$work/latin"
status 1 "cannot read '$work/none': No such file" run -m "$model" -f "$work/none"
status 3 "there is no model '$work/none.gguf'" run -m "$work/none.gguf" x
status 3 "no model is named" run x
status 3 "folder.gguf" run "$work/folder.gguf" x
status 4 'short.gguf' run "$work/short.gguf" x
status 4 'not a GGUF file' run "$work/foreign.gguf" x
status 5 'the prompt has [0-9]* tokens, but the context holds 4' run -m "$model" --raw -c 4 -p 'abcdefghijklmnop'
status 2 "the text has [0-9]* tokens, but a chunk (--ctx-size) needs 512" perplexity -m "$model" -f "$work/foreign.gguf"
status 2 'the text to score is named with --file' perplexity -m "$model"
status 2 'there is no text' tokenize -m "$model"
status 0 'context holds 16 tokens' run -m "$model" --raw -c 16 --ignore-eos -p abc

# Control characters of what a user or a file says do not reach the terminal.
status 3 'no\\x1B\[31m' run -m "$(printf 'no\033[31m.gguf')" x

# ---- streams ----
whole=$(answer -p 'ab')
[ -n "$whole" ] || fail 'the answer is empty'
same 'quiet runs say nothing' "$(answer -p 'ab' 2>&1 >/dev/null)" ''
same 'greedy answers repeat' "$(answer -p 'ab')" "$whole"
./sluice run -m "$model" --raw --temp 0 -n 24 --ignore-eos -p ab >"$work/out" 2>"$work/err" </dev/null
same 'the answer alone is on standard output' "$(<"$work/out")" "$whole"
grep -q '^memory: .* MiB (weights' "$work/err" || fail "no sum of memory: $(<"$work/err")"
grep -q 't/s; memory .* MiB$' "$work/err" || fail "no summary: $(<"$work/err")"
grep -q $'\033' "$work/err" "$work/out" && fail 'escape sequences in a pipe'
same 'a prompt on standard input' "$(printf 'ab' | answer)" "$whole"
same 'a newline at its end does not count' "$(printf 'ab\n' | answer)" "$whole"
printf 'ab' >"$work/prompt"
same 'a prompt in a file' "$(answer -f "$work/prompt" </dev/null)" "$whole"
same 'standard input and argument' "$(printf 'a' | answer 'b')" "$(answer -p $'a\n\nb' </dev/null)"
same 'the first argument is the model' \
    "$(./sluice run "$model" -q --raw --temp 0 -n 24 --ignore-eos ab </dev/null)" "$whole"
mkdir -p "$XDG_DATA_HOME/sluice/models" && cp "$model" "$XDG_DATA_HOME/sluice/models/tiny.gguf"
same 'a name from the models folder' \
    "$(./sluice run tiny -q --raw --temp 0 -n 24 --ignore-eos ab </dev/null)" "$whole"
./sluice run -m "$model" --raw -n 1 --ignore-eos -p ab >/dev/null 2>"$work/err" </dev/null
grep -q '; answer 1 token; memory' "$work/err" || fail "the rate of one token: $(<"$work/err")"
same 'no tokens asked for' "$(answer -n 0 -p ab </dev/null)" ''

one=$(answer --temp 2 -s 11 -p 'ab' </dev/null)
same 'a seed repeats its answer' "$(answer --temp 2 --seed 11 -p 'ab' </dev/null)" "$one"
[ "$(answer --temp 2 --seed 12 -p 'ab' </dev/null)" != "$one" ] || fail 'another seed, the same answer'

iconv -f UTF-8 -t UTF-8 <<<"$(answer --temp 5 -s 3 -n 200 -p 'ab' </dev/null)" >/dev/null 2>&1 ||
    fail 'an answer is not UTF-8'

./sluice run -m "$model" -q --raw -n 5000 -c 8192 --ignore-eos -p ab </dev/null 2>"$work/err" | head -c 1 >/dev/null
same 'a reader that leaves is no failure' "${PIPESTATUS[0]} $(<"$work/err")" '0 '
./sluice run -m "$model" -q --raw -n 8 -p ab </dev/null >/dev/full 2>"$work/err"
same 'a full disk' "$? $(<"$work/err")" \
    '1 sluice: cannot write to standard output: No space left on device'
./sluice help run >/dev/full 2>"$work/err" && fail 'help into a full disk succeeded'

# ---- stop strings ----
stop=${whole:3:2}
same "stop string '$stop'" "$(answer -p ab --stop "$stop" </dev/null)" "${whole%%"$stop"*}"
same 'a stop string that does not come' "$(answer -p ab --stop 'zz#zz' </dev/null)" "$whole"

# ---- JSON ----
./sluice run -m "$model" --json --raw --temp 0 -n 24 --ignore-eos -s 5 -p ab >"$work/json" 2>/dev/null </dev/null
same 'answer in JSON' "$(./json_get answer <"$work/json")" "$whole"
same 'why it ended' "$(./json_get finish_reason <"$work/json")" length
same 'tokens in JSON' "$(./json_get n_generated <"$work/json")" 24
same 'seed in JSON' "$(./json_get seed <"$work/json")" 5
n=$(./sluice tokenize -m "$model" --count 'hello world' 2>/dev/null </dev/null)
same 'tokens in JSON and alone' "$(./sluice tokenize -m "$model" --json 'hello world' </dev/null | ./json_get n_tokens)" "$n"
same 'ids' "$(./sluice tokenize -q -m "$model" --ids 'hello world' </dev/null | wc -w)" "$n"
same 'pieces' "$(./sluice tokenize -q -m "$model" 'hello world' </dev/null | wc -l)" "$n"
# shellcheck disable=SC2054 # the commas belong to the lists
bench=(./sluice bench -q -m "$model" -p 8,16 -n 4 -pg 4,2 -d 0,5 -r 2)
"${bench[@]}" -o json >"$work/json" </dev/null || fail 'bench -o json'
same 'bench has all combinations' "$(./json_get 7.n_depth <"$work/json")" 5
./json_get 8 <"$work/json" >/dev/null 2>&1 && fail 'bench has more than all combinations'
same 'bench keeps its samples' "$(./json_get 1.samples_ns <"$work/json" | tr , '\n' | grep -c .)" 2
same 'bench -o jsonl' "$("${bench[@]}" -o jsonl </dev/null | while read -r line; do ./json_get n_gen <<<"$line"; echo; done | paste -sd' ')" '0 0 4 2 0 0 4 2'
"${bench[@]}" -o csv >"$work/csv" </dev/null
same 'bench -o csv lines' "$(wc -l <"$work/csv")" 9
same 'bench -o csv columns' "$(head -n 1 "$work/csv" | tr , '\n' | grep -c .)" 26
"${bench[@]}" >"$work/md" </dev/null
same 'bench table' "$(grep -c '^|' "$work/md")" 10
grep -q '| *pp4+tg2 @ d5 |' "$work/md" || fail "bench table: $(<"$work/md")"
same 'bench table is straight' "$(grep '^|' "$work/md" | while IFS= read -r line; do echo "${#line}"; done | sort -u | wc -l)" 1

# ---- perplexity ----
for i in 1 2 3 4 5 6 7 8; do echo "line $i of a text to score, and some more words"; done >"$work/text"
./sluice perplexity -q -m "$model" -f "$work/text" -c 32 --chunks 3 --logits "$work/l.npy" >"$work/ppl" </dev/null ||
    fail 'perplexity'
grep -q '^\[1\][0-9.]*,\[2\][0-9.]*,\[3\][0-9.]*,$' "$work/ppl" || fail "perplexity: $(<"$work/ppl")"
grep -q '^Final estimate: PPL = [0-9.]* +/- [0-9.]*$' "$work/ppl" || fail "perplexity: $(<"$work/ppl")"
./sluice perplexity -q --json -m "$model" -f "$work/text" -c 32 --chunks 3 >"$work/json" </dev/null
same 'perplexity in JSON' "$(printf '%.4f' "$(./json_get perplexity <"$work/json")")" \
    "$(sed -n 's/.*PPL = \([0-9.]*\) .*/\1/p' "$work/ppl")"
same 'scored positions' "$(./json_get n_scored <"$work/json")" 45
shape=$(head -c 128 "$work/l.npy" | tr -d '\0' | LC_ALL=C sed -n 's/.*shape.: (\([0-9]*, [0-9]*\)).*/\1/p')
same 'shape of the logits' "${shape%,*}" 45
same 'size of the logits' "$(stat -c %s "$work/l.npy")" $((45 * ${shape#*, } * 4 + 128))
./sluice perplexity -q -m "$model" -f "$work/text" -c 32 --logits "$work/none/l.npy" >/dev/null 2>"$work/err" </dev/null
same 'logits that cannot be written' "$?" 1

# ---- terminals ----
# More tokens than a terminal buffers: the answer cannot end before it is interrupted.
chat=(./sluice run -m "$model" -c 65536 --ignore-eos --temp 0)
./pty_run prompt '> ' key D -- "${chat[@]}" >"$work/out"
s=$?
if [ "$s" = 77 ]; then
    echo 'no terminals: chat not tested'
else
    same 'Ctrl-D leaves' "$s" 0
    grep -q $'\033\[2m' "$work/out" || fail 'no colours on a terminal'
    NO_COLOR=1 ./pty_run prompt '> ' key D -- "${chat[@]}" >"$work/out"
    grep -q $'\033\[[12]' "$work/out" && fail 'colours in spite of NO_COLOR'
    ./pty_run prompt '> ' key C -- "${chat[@]}" >"$work/out"
    same 'Ctrl-C at the prompt leaves' "$?" 130
    ./pty_run prompt '> ' send hello expect hello grow 20 key C expect stopped prompt '> ' \
        send /stats expect 'context: ' prompt '> ' send /clare expect "did you mean '/clear'" \
        prompt '> ' send /clear expect forgotten prompt '> ' send /exit \
        -- "${chat[@]}" -n 100000 >"$work/out"
    same 'Ctrl-C stops the answer, not the program' "$?" 0
    same 'the history is private' "$(stat -c %a "$XDG_STATE_HOME/sluice/history")" 600
    grep -q hello "$XDG_STATE_HOME/sluice/history" || fail 'the history forgets'
    ./pty_run prompt '> ' send "one\\" prompt '. ' send two prompt '> ' send /save\ "$work/chat" \
        expect saved prompt '> ' send /clear prompt '> ' send "/load $work/chat" \
        expect 'loaded; 2 messages' prompt '> ' key D -- "${chat[@]}" -n 3 >"$work/out"
    same 'a chat is saved and loaded' "$?" 0
    same 'lines are joined' "$(./json_get messages.0.content <"$work/chat.json")" $'one\ntwo'
    same 'an interrupted answer' "$(./pty_run expect 'memory:' grow 200 key C \
        -- ./sluice run -m "$model" --raw -c 65536 -n 100000 --ignore-eos -p ab >/dev/null; echo $?)" 130
fi

# ---- documents ----
for command in run bench perplexity tokenize inspect; do
    ./sluice "$command" --help | grep -o -- '\(^  \|, \)--\{0,1\}[a-z][a-z-]*' | grep -o -- '-.*' |
        sort -u >"$work/help"
    sed -n "s/^        $command) options='\(.*\)' ;;/\1/p" completion/sluice | tr ' ' '\n' |
        sort -u >"$work/completion"
    cmp -s "$work/help" "$work/completion" ||
        fail "$command: --help and completion differ: $(diff "$work/help" "$work/completion")"
    page=man/sluice-$command.1
    [ -f "$page" ] || continue
    sed -n '/^.SH OPTIONS/,/^.SH EXIT/p' "$page" | grep -- '^\\fB-\|^\\fB\\-' |
        sed 's/\\fB//g; s/\\f[IR]//g; s/\\-/-/g' | grep -o -- '\(^\|, \)--\{0,1\}[a-z][a-z-]*' |
        grep -o -- '-.*' | sort -u >"$work/man"
    cmp -s "$work/help" "$work/man" ||
        fail "$command: --help and manual differ: $(diff "$work/help" "$work/man")"
done

[ "$n_failed" = 0 ] || {
    echo "$n_failed failed"
    exit 1
}
