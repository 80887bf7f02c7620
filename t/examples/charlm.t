#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# train_charlm: the same bits however the work is spread, what it writes, and
# how it ends when something is wrong.  Short runs: what it learns is not looked
# at.
. "${T_SRCDIR:-.}/t/tap.sh"

run=$builddir/bin/symmcoll-run
train=$builddir/examples/train_charlm
[ -x "$train" ] || skip_all 'examples/train_charlm was not built (no CBLAS)'
[ -x "$run" ] || skip_all 'symmcoll-run was not built'

# A text of about 12 kB, the same everywhere.
awk 'BEGIN { for (i = 0; i < 600; i++)
        printf "%d times %d is %d, ", i % 7, i % 11, (i % 7) * (i % 11)
    print "" }' >"$scratch/text"

cd "$scratch" || exit 1

# All runs use one BLAS: of two that are about as fast each run might choose another.
same=$("$train" --blas | sed -n 's/^again: //p')

# trained NAME COMMAND...: a short run that saves; its output is in NAME.out.
trained()
{
    name=$1
    shift
    # shellcheck disable=SC2086
    timeout 600 "$@" --text text --steps 12 --batch 32 --save "$name" $same \
        >"$name.out" 2>&1 || diag <"$name.out"
}

trained n4 "$run" -n 4 "$train"
trained n1a4 "$run" -n 1 "$train" --accumulate 4
trained t4 "$train" --threads 4
trained n2 "$run" -n 2 "$train"
trained alone2 "$train" --accumulate 2
trained n2a2 "$run" -n 2 "$train" --accumulate 2
trained t2a2 "$train" --threads 2 --accumulate 2
trained seed "$run" -n 2 "$train" --seed 2
trained uneven "$run" -n 3 "$train" --uneven
trained even "$run" -n 3 "$train"
hooks='fp16_compress bf16_compress fp16_wrapper bf16_wrapper quantize_tensor
quantize_channel top_k one_bit powersgd'
same_hooks='none all_reduce post_local_sgd step'
for hook in noop $hooks $same_hooks; do
    trained hook_$hook "$run" -n 2 "$train" --hook $hook
done
for n in 2 4; do
    trained shard$n "$run" -n $n "$train" --shard
done
trained shard_threads "$train" --threads 4 --shard
trained shard_accumulate "$run" -n 2 "$train" --shard --accumulate 2
trained hook_threads "$train" --threads 2 --hook powersgd
for at in 0 5; do
    trained "lost1_$at" "$run" -n 3 --grace 600 "$train" --kill-rank 1 \
        --at-step $at
done
trained lost2_5 "$run" -n 3 --grace 600 "$train" --kill-rank 2 --at-step 5

# ---- the same bits ----

try 'four ranks and one with four micro-batches give the same bits' \
    cmp n4 n1a4
try 'four threads give the same bits as four processes' cmp n4 t4
try 'two ranks and one with two micro-batches give the same bits' cmp n2 alone2
try 'accumulating threads give the same bits as accumulating processes' \
    cmp n2a2 t2a2
! cmp -s n2 n4
ok $? 'other micro-batches give other parameters'
! cmp -s n2 seed
ok $? 'another seed gives other parameters'
try 'two ranks with slices of the parameters have the bits of two without' \
    cmp shard2 n2
try 'so have four' cmp shard4 n4
try 'so have threads' cmp shard_threads t4
try 'so have ranks that accumulate' cmp shard_accumulate n2a2
# losses NAME: what training and scoring have printed, without times.
losses()
{
    sed -n 's/^\[0\] \(step .* loss [0-9.]*\) .*/\1/p; /tenth kilobyte/p' "$1.out"
}
is "$(losses shard4)" "$(losses n4)" 'and the same losses'
# state NAME: the optimizer's memory, in MiB.
state()
{
    sed -n 's/^\[0\] optimizer  *\([0-9.]*\) MiB on each rank.*/\1/p' "$1.out"
}
whole=$(state n4)
part=$(state shard4)
[ -n "$part" ] &&
    awk "BEGIN { exit !($part >= $whole / 4 - 0.1 && $part <= $whole / 4 + 0.1) }"
ok $? "the optimizer of one of four ranks has a quarter of the memory: $part of $whole"
for hook in $same_hooks; do
    try "a run with the hook $hook has the bits of one without" \
        cmp hook_$hook n2
done
for hook in $hooks; do
    grep -q 'parameters identical on all ranks: yes' hook_$hook.out &&
        ! cmp -s hook_$hook n2
    ok $? "ranks with the hook $hook end with the same parameters, and others"
done
grep -q 'parameters identical on all ranks: no' hook_noop.out
ok $? 'ranks with the hook noop have other parameters'
try 'threads with the hook powersgd have the bits of processes' \
    cmp hook_threads hook_powersgd
grep -q 'parameters identical on all ranks: yes' uneven.out
ok $? 'ranks with uneven inputs end with the same parameters'
! cmp -s uneven even
ok $? 'and with others than those with even inputs'
try 'a run that loses a rank before its first step has the bits of one without it' \
    cmp lost1_0 n2
try 'the bits are the same whichever rank is lost' cmp lost1_5 lost2_5
! cmp -s lost1_5 n2 && ! cmp -s lost1_5 even
ok $? 'steps before the loss are those of all ranks'
grep -q '^.*rank 1 .*killed by SIGKILL' lost1_5.out
ok $? 'the rank was killed'
sum=$(sha256sum n4 | cut -d ' ' -f 1)
grep -q "parameters identical on all ranks: yes (sha256 $sum)" n4.out
ok $? 'the ranks compare the parameters, by the sum of the saved file'
is "$(sed '/^$/q' n4 | sed 's/ .*//' | tr '\n' ' ')" \
    "charlm embedding hidden1.weight hidden1.bias hidden2.weight \
hidden2.bias output.weight output.bias  " \
    'the saved file names the parameters in their order'
grep -q '^\[0\] step 12 of 12 .* characters/s ' n4.out &&
    grep -q 'every tenth kilobyte  *[1-9][0-9]* ' n4.out &&
    grep -q 'communication .* exposed' n4.out
ok $? 'progress, losses and times are shown'
is "$(grep -c '^\[0\] step ' n4.out)" 11 \
    'in a pipe progress comes at the start and with each tenth of the steps'
no_terminal=$(no_terminal)
if [ -z "$no_terminal" ]; then
    script -qec "'$run' -n 2 '$train' --text text --steps 12 --batch 32" \
        /dev/null </dev/null >terminal.out
    # A line that is written over another one clears it first: ESC [ K.
    is "$(grep 'step ' terminal.out | tr '\r' '\n' | tr -d '\033' |
        sed 's/^\[K//; /^$/d' | tail -n 1 | sed 's/ *loss.*left.*//')" \
        "[0] step 12 of 12" \
        'on a terminal it is there'
    is "$(grep -c 'step ' terminal.out)" 1 'as one line that is rewritten'
else
    skip 2 "$no_terminal"
fi
trained blank "$train"
# shellcheck disable=SC2086
timeout 600 "$train" --text="text" --steps 12 --batch 32 --save equals $same \
    >/dev/null
try 'a text may follow an equals sign' cmp equals blank

# ---- pictures ----

# plotted COMMAND...: a run that leaves loss.svg, a picture with a curve.
plotted()
{
    timeout 600 env "$@" "$train" --text text --steps 4 --batch 32 \
        --plot loss.svg >plot.out 2>&1 &&
        grep -q '<svg' loss.svg && grep -q '</svg>' loss.svg
}

try 'the loss is drawn, by gnuplot where there is one' plotted
mkdir bin && printf '#!/bin/sh\nexit 1\n' >bin/gnuplot && chmod +x bin/gnuplot
try 'the loss is drawn where gnuplot fails' plotted "PATH=$PWD/bin:$PATH"
grep -q '<polyline .* points=.[0-9.]*,[0-9.]* [0-9.]*,[0-9.]* ' loss.svg
ok $? 'the picture drawn by hand has the curve'

# ---- what must end well ----

: >empty
printf a >one
printf '%0200d' 0 >same
printf 'abcdefghijklmnopqrstuvwxyz%.0s' 1 2 3 >short

# refused TEXT ARGUMENT...: on $ranks ranks, one line with the text, status 2.
ranks=3
refused()
{
    text=$1
    shift
    timeout 600 "$run" -n $ranks "$train" --steps 2 "$@" >bad.out 2>&1
    status=$?
    [ $status -eq 2 ] && [ "$(grep -c 'train_charlm:' bad.out)" -eq 1 ] &&
        grep 'train_charlm:' bad.out | grep -qFe "$text"
    status=$?
    [ $status -eq 0 ] || diag <bad.out
    ok $status "refused with one line: $text"
}

refused 'cannot open absent: No such file' --text text absent
refused 'empty is empty' --text empty
refused 'more than 16 bytes' --text one
refused 'only one byte value, 0x30' --text same --batch 8
refused '3 ranks x 1 micro-batches x 32 characters wants 96' \
    --text short --batch 32
refused 'not a regular file' --text .
refused 'cannot write absent/loss.svg' --text text --plot absent/loss.svg
refused 'cannot write absent/model' --text text --save absent/model
refused '--steps: expected a number from 1' --steps 0
refused '--learning-rate: expected' --learning-rate 0
refused '--seed wants an argument' --text text --seed
refused 'no option --nonsense' --nonsense
refused '--kill-rank: expected a rank from 1 to 2, found 3' --text text \
    --batch 8 --kill-rank 3
ranks=1
refused '--kill-rank: expected at least 2 processes, found 1' --text text \
    --batch 8 --kill-rank 1
ranks=3
refused '--uneven or --kill-rank, found both' --uneven --kill-rank 1
refused '--hook: expected one of none, noop, all_reduce, fp16_compress, bf16_compress, fp16_wrapper, bf16_wrapper, step, post_local_sgd, quantize_tensor, quantize_channel, top_k, one_bit, powersgd, found "topk"' \
    --hook topk
refused '--hook powersgd or --kill-rank, found both' --hook powersgd --kill-rank 1
refused '--shard or --hook, found both' --shard --hook fp16_compress
refused '--shard or --uneven, found both' --shard --uneven
refused '--shard or --kill-rank, found both' --shard --kill-rank 1
refused '--at-step: expected --kill-rank with it, found none' --at-step 0
refused '--at-step: expected a step from 0 to 1, as --steps is 2, found 2' \
    --kill-rank 1 --at-step 2
refused '--use-blas: expected a path, found ""' --use-blas ''
refused 'no option -x' -xh
refused '--text: expected a path, found "--batch"' --text --batch 2
refused '--plot: expected a path, found "--batch"' --plot --batch 2
refused 'no argument "nonsense"' --steps 2 nonsense
refused '--threads: expected to be started alone' --threads 2

# Another number of bytes that occur makes a network of another shape.
tr '0-4' '3-7' <text >text1
cp text text0
# shellcheck disable=SC2016
timeout 600 "$run" -n 2 sh -c 'exec "$0" --steps 2 --batch 32 --text text$RANK' \
    "$train" >bad.out 2>&1
is "$?" 1 'ranks with networks of different shapes do not train'
is "$(grep 'train_charlm:' bad.out | grep -c \
    'parameter 0 (embedding): rank 1 has shape .*, rank 0 has')" 1 \
    'and one line names the parameter and both shapes'

timeout 600 "$train" --text empty --save new >bad.out 2>&1
[ ! -e new ]
ok $? 'a run that fails leaves no empty file'
echo kept >old
timeout 600 "$train" --text empty --save old >bad.out 2>&1
is "$(cat old)" kept 'a run that fails leaves an older file as it was'
if [ -c /dev/full ]; then
    timeout 600 "$train" --text text --steps 2 --batch 32 --save /dev/full \
        >bad.out 2>&1
    is "$?" 1 'a full disk fails the run'
    grep -q 'cannot write /dev/full: No space left' bad.out && [ -c /dev/full ]
    ok $? 'and is named'
    timeout 600 "$train" --text text --steps 2 --batch 32 2>bad.out >/dev/full
    is "$? $(tail -n 1 bad.out)" \
        '1 train_charlm: standard output: No space left on device' \
        'so does an output that is lost'
    timeout 600 "$train" --help 2>bad.out >/dev/full
    is "$?" 1 'even that of --help'
else
    skip 4 'no /dev/full'
fi

# ---- a rank killed in mid-training ----

ls /dev/shm >shm.before 2>/dev/null
"$run" -n 4 "$train" --text text --steps 1000000 --batch 32 >killed.out 2>&1 &
launcher=$!
tries=0
while ! grep -q ' step ' killed.out && [ $tries -lt 300 ]; do
    sleep 0.2
    tries=$((tries + 1))
done
pids=$(cat "/proc/$launcher/task/$launcher/children" 2>/dev/null ||
    ps -o pid= --ppid "$launcher")
# shellcheck disable=SC2086
set -- $pids
is $# 4 'four ranks train'
victim=${3:-0}
before=$(date +%s)
[ "$victim" -gt 0 ] && kill -9 "$victim"
# Then it has hung, on any machine.
(sleep 60 && kill -9 "$launcher") 2>/dev/null &
guard=$!
wait "$launcher"
status=$?
seconds=$(($(date +%s) - before))
kill "$guard" 2>/dev/null
is "$status" 137 'the launcher exits with 128 and the signal'
[ "$seconds" -lt 60 ]
ok $? 'the others end soon'
rank=$(grep "(pid $victim) killed by SIGKILL" killed.out |
    sed -n 's/^symmcoll-run: rank \([0-9]*\) .*/\1/p')
[ -n "$rank" ]
ok $? 'the launcher names rank, pid and signal'
for other in 0 1 2 3; do
    [ "$other" = "$rank" ] && continue
    is "$(grep "train_charlm: rank $other: " killed.out |
        grep "rank $rank (pid $victim)" | grep SIGKILL |
        grep -cE 'all_(reduce|gather)')" 1 \
        'another rank says in one line which rank died, how, and in what'
done
[ "$(grep 'train_charlm:' killed.out | grep -cv warning:)" -eq 3 ]
ok $? 'and nothing else'
left=
for pid in $pids; do
    [ -d "/proc/$pid" ] && left="$left $pid"
done
none "$left" 'no process is left'
ls /dev/shm 2>/dev/null | diff shm.before - >shm.diff
ok $? 'nothing is left in shared memory'
[ $tap_failed -eq 0 ] || diag <killed.out
done_testing
