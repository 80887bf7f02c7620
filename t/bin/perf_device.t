#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# symmcoll-perf --device: its command line, its results and its output, over a
# driver on the host.
. "${T_SRCDIR:-.}/t/tap.sh"

perf=$builddir/bin/symmcoll-perf
run=$builddir/bin/symmcoll-run
unset RANK WORLD_SIZE LOCAL_RANK OMPI_COMM_WORLD_RANK PMI_RANK PMIX_RANK \
    SLURM_PROCID

# says STATUS PATTERN SENTENCE COMMAND...: ends so, with that on standard error.
says()
{
    wanted=$1
    pattern=$2
    sentence=$3
    shift 3
    "$@" >"$scratch/out" 2>"$scratch/err"
    status=$?
    [ $status -eq "$wanted" ] && grep -q -e "$pattern" "$scratch/err"
    ok $? "$sentence" || {
        diag "status $status, wanted $wanted, and in the message: $pattern"
        diag <"$scratch/err"
    }
}

several='2 3' # ranks
dtypes='float16 bfloat16 float64 int8 int64 uint16 complex64 bool'
reductions='avg product max premul_sum'
# ThreadSanitizer makes minutes of what takes seconds: it has what threads do in other
# ways, not what is computed.  The loader's own lock, and what it frees with a thread,
# are not seen.
if [ "${T_SANITIZER:-no}" = thread ]; then
    several=2
    dtypes='bfloat16 int8'
    reductions=premul_sum
    printf 'race:look_at_object\nrace:_dl_deallocate_tls\n' >"$scratch/known"
    TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}suppressions=$scratch/known"
    export TSAN_OPTIONS
fi

# ---- what needs no driver ----

says 2 'expected cuda or cuda:N, found "foo"' 'another device is refused' \
    "$perf" --device foo
for text in cuda:x cuda: cuda:-1 cuda:1x cuda:99999999999999999999 cuda1 ''; do
    "$perf" --device "$text" >"$scratch/out" 2>"$scratch/err"
    [ $? -eq 2 ] && grep -q 'expected cuda or cuda:N' "$scratch/err" ||
        echo "$text"
done >"$scratch/wrong"
none "$(cat "$scratch/wrong")" 'so are numbers that are none'
says 2 '--share: expected --device too' '--share needs a device' \
    "$perf" --share
says 2 '--thresholds: expected --device too' '--thresholds needs one' \
    "$perf" --thresholds
says 2 'all_reduce.*found store' 'an operation of the host alone is refused' \
    "$perf" --device cuda --op all_reduce,store
says 2 'found --symmetric' 'symmetric buffers are refused' \
    "$perf" --device cuda --symmetric
says 2 'found --fused' 'products are refused' \
    "$perf" --device cuda --fused all_gather_matmul
says 2 'all_reduce alone' '--thresholds has an operation of its own' \
    "$perf" --device cuda --thresholds --op all_gather
mkdir "$scratch/empty" "$scratch/none"
says 1 'no CUDA driver: libcuda.so.1' 'without a driver that is said' \
    env LD_LIBRARY_PATH="$scratch/empty" "$perf" --device cuda --threads 2

whole=$builddir/t/cuda/whole/.libs
if [ ! -e "$whole/libcuda.so.1" ]; then
    skip 1 "${T_CUDA_MISSING:-built without CUDA}"
    done_testing
    exit
fi

# ---- with one ----

export LD_LIBRARY_PATH="$whole${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export SYMMCOLL_MODULE_DIR="$builddir/t/cuda/.libs"
export FAKE_CUDA='devices=4 memory=256M granularity=4K'
export SYMMCOLL_CUDA_STAGING=64KiB
export SYMMCOLL_CUDA_NCCL= # which would ask for a device that is there
small='--check-only --min 64 --max 32K --step 512'

says 2 'expected a number from 0 to 3, found cuda:99' \
    'a device that is not there is refused' "$perf" --device cuda:99
says 1 'CUDA_ERROR_NO_DEVICE' 'so is a machine without devices' \
    env FAKE_CUDA='devices=0' "$perf" --device cuda
says 1 'cuInit: error 2, CUDA_ERROR_OUT_OF_MEMORY' \
    'an error of the driver has its name' \
    env FAKE_CUDA='fail=cuInit:0:2' "$perf" --device cuda
says 1 'device 1: cuMemAlloc of [0-9]* bytes: error 2, CUDA_ERROR_OUT_OF_MEMORY' \
    'a device without memory is named' \
    env FAKE_CUDA='devices=4 memory=1M granularity=4K' "$perf" \
    --device cuda:1 --max 8M
says 1 'cuda.share_device; found rank 0 and rank 2 both on device 0' \
    'ranks that share a device without being told are refused' \
    env FAKE_CUDA='devices=2 memory=256M granularity=4K' "$perf" \
    --device cuda --threads 3 $small
says 1 'symmcoll-info says what is missing' \
    'without the module there is a hint' \
    env SYMMCOLL_MODULE_DIR="$scratch/none" "$perf" --device cuda \
    --threads 2 $small

for n in 1 $several; do
    try "$n threads have the results of the host" \
        "$perf" --device cuda --threads $n $small
done
for n in $several; do
    try "$n processes have the results of the host" \
        "$run" -n $n "$perf" --device cuda:1 $small
done
try 'ranks that share a device have them' \
    "$perf" --device cuda:2 --share --threads 2 $small
grep -q 'all on cuda:2' "$scratch/try.out"
ok $? 'the heading says so'
for dtype in $dtypes; do
    "$perf" --device cuda --threads 2 --check-only --min 64 --max 4K --step 64 \
        --dtype $dtype >"$scratch/out" 2>&1 || {
        echo "$dtype"
        diag <"$scratch/out"
    }
done >"$scratch/wrong"
none "$(cat "$scratch/wrong")" 'so do other element types'
for reduce in $reductions; do
    "$perf" --device cuda --threads 2 --check-only --min 64 --max 4K --step 64 \
        --reduce $reduce --op all_reduce,reduce_scatter,all_reduce_in_place \
        >"$scratch/out" 2>&1 || echo "$reduce"
done >"$scratch/wrong"
none "$(cat "$scratch/wrong")" 'and other reductions'
try 'messages of device memory are those of the host' "$perf" --device cuda \
    --threads 2 --op sendrecv,send_recv_both $small
try 'operations run in several groups in turn' "$perf" --device cuda \
    --threads 2 --groups 2 --op all_reduce,barrier $small

says 1 'all_reduce, .* elements of float32, device .*: got .*, want ' \
    'a result that differs from the host is reported' \
    env FAKE_SPOILED=1 "$perf" --device cuda --threads 2 --op all_reduce $small

# ---- measuring ----

"$perf" --device cuda --threads 2 --min 1K --max 8K --seconds 0.001 \
    --op all_reduce,all_reduce_in_place,all_gather_dirty,barrier \
    >"$scratch/out" 2>"$scratch/err" &&
    grep -q '^operation .*median us .*host us$' "$scratch/out" &&
    awk '$1 ~ /^(all_|barrier)/ { rows++; if ($6 <= 0 || $10 < $7) bad = 1 }
        END { exit bad || rows != 6 }' "$scratch/out"
ok $? 'rows have the time of the device, and of the host around it' ||
    diag <"$scratch/out"
"$run" -n 2 --no-prefix "$perf" --device cuda --min 1K --max 8K \
    --seconds 0.001 --op all_reduce --tsv >"$scratch/out" 2>"$scratch/err" &&
    awk -F '\t' 'NF != 11 || $1 != "symmcoll_cuda" || $11 < $7 { bad = 1 }
        END { exit bad || NR != 2 }' "$scratch/out"
ok $? 'with --tsv the host has a column of its own' || diag <"$scratch/out"
try 'which can be plotted' "$perf" --plot "$scratch/plot.svg" "$scratch/out"

# ---- thresholds ----

# is_conf FILE: the lines for the settings file are such.
is_conf()
{
    sed -n 's/^# \(cuda: {\|    .*;\|};\)$/\1/p; /^cuda: {$/,/^};$/p' "$1" \
        >"$scratch/conf" &&
        grep -q '^    packets_max = ' "$scratch/conf" || return 1
    "$builddir/bin/symmcoll-conf" check "$scratch/conf" >"$scratch/said" 2>&1
}

libconfig=yes
"$builddir/bin/symmcoll-info" | grep -q '^  libconfig  *no' && libconfig=no
for ranks in $several; do
    "$perf" --device cuda --threads $ranks --thresholds --max 32K \
        --seconds 0.001 >"$scratch/out" 2>"$scratch/err"
    ok $? "thresholds of $ranks ranks are measured" || diag <"$scratch/err"
    awk -v ranks=$ranks '
        $1 == 2 && /packets|one_shot|two_shot/ { two++ }
        $1 == 3 && /packets|one_shot|two_shot/ { three++ }
        END { exit two != 6 || three != (ranks == 3 ? 6 : 0) }' "$scratch/out"
    ok $? 'with a row for each number of ranks and size' ||
        diag <"$scratch/out"
    grep -q '^# By a switch: skipped: no multicast$' "$scratch/out"
    ok $? 'and nothing by a switch that is not there' || diag <"$scratch/out"
    if [ $libconfig = no ]; then
        skip 1 'built without libconfig'
    else
        is_conf "$scratch/out"
        ok $? 'and lines that a settings file may have' || {
            diag <"$scratch/out"
            diag <"$scratch/said"
        }
    fi
done
# With three ranks, operations of two are measured while one rank is idle.
for ranks in $several; do
    "$run" -n $ranks --no-prefix "$perf" --device cuda --thresholds --max 32K \
        --seconds 0.001 --tsv >"$scratch/out" 2>"$scratch/err" &&
        awk -v ranks=$ranks '
            /^symmcoll_cuda.all_reduce_one_shot.2/ { two++ }
            /^symmcoll_cuda.all_reduce_one_shot.3/ { three++ }
            /^#     one_shot_max_two = / { setting = 1 }
            /^#     one_shot_max = / { more = 1 }
            END { exit two != 6 || three != (ranks == 3 ? 6 : 0) ||
                !setting || more != (ranks == 3) }' "$scratch/out"
    ok $? "of $ranks processes as rows, with the settings in comments" || {
        diag <"$scratch/out"
        diag <"$scratch/err"
    }
done
SYMMCOLL_CUDA_NCCL="$builddir/t/nccl/.libs/libnccl.so.2" FAKE_NCCL_RESULT=3 \
    SYMMCOLL_CUDA_NCCL_MIN=0 "$perf" --device cuda --threads 2 --thresholds \
    --max 32K --dtype int32 --seconds 0.001 >"$scratch/out" 2>"$scratch/err"
ok $? 'ways of kernels are none of NCCL, whatever cuda.nccl_min is' ||
    diag <"$scratch/err"

# with_nccl COMMAND...: runs it with an NCCL that refuses calls with RESULT if that
# is not 0.
with_nccl()
{
    env SYMMCOLL_CUDA_NCCL="$builddir/t/nccl/.libs/libnccl.so.2" \
        FAKE_NCCL_RESULT="$result" "$@" --device cuda --threads 2 --thresholds \
        --seconds 0.001 >"$scratch/out" 2>"$scratch/err"
}

# skips_nccl REASON SENTENCE COMMAND...
skips_nccl()
{
    reason=$1
    sentence=$2
    shift 2
    result=0
    with_nccl "$@" --max 2K && grep -q "^# By NCCL: skipped: $reason" "$scratch/out"
    ok $? "$sentence" || diag <"$scratch/out"
}

skips_nccl 'no NCCL' 'nothing by NCCL is measured where there is none' \
    env SYMMCOLL_CUDA_NCCL= "$perf"
skips_nccl 'no NCCL' 'nor where its calls would block' \
    env NCCL_COMM_BLOCKING=1 "$perf"
skips_nccl 'NCCL wants a device for each rank' 'nor where ranks share a device' \
    "$perf" --share
skips_nccl 'NCCL does not do this' 'nor of a reduction that is never its' \
    "$perf" --reduce max
# Long sizes, of which kernels have no more blocks than there are multiprocessors: each
# of a block's threads takes the host a while.
few="FAKE_CUDA=$FAKE_CUDA sms=8"
if [ "${T_SANITIZER:-no}" = thread ]; then
    skip 2 'ThreadSanitizer has 8128 threads, fewer than 32 blocks of 2 ranks'
else
    result=3
    ! with_nccl env "$few" "$perf" --min 1M --max 1M &&
        grep -q 'ncclAllReduce' "$scratch/err"
    ok $? 'the way of NCCL is NCCL'\''s' || diag <"$scratch/err"
    result=0
    with_nccl env "$few" "$perf" --min 1M --max 1M --tsv &&
        awk '/^symmcoll_cuda.all_reduce_nccl.2/ { rows++ }
            /^#     nccl_min = "(1MiB|inf)"/ { setting = 1 }
            END { exit rows != 1 || !setting }' "$scratch/out"
    ok $? 'and is measured beside two shots' || {
        diag <"$scratch/out"
        diag <"$scratch/err"
    }
fi

# with_switch RANKS OPTION...: rows of two ranks and the settings in the output.
with_switch()
{
    ranks=$1
    shift
    env "$few multicast=1" "$perf" --device cuda \
        --threads "$ranks" --thresholds --seconds 0.001 "$@" \
        >"$scratch/out" 2>"$scratch/err" &&
        ! grep skipped "$scratch/out" | grep -qv 'By NCCL'
}

for ranks in $several; do
    with_switch $ranks --max 2K --tsv &&
        awk -v ranks=$ranks '
            /^symmcoll_cuda.all_reduce_switch_(one|two).2/ { two++ }
            /^symmcoll_cuda.all_reduce_switch_(one|two).3/ { three++ }
            /^#     multimem_one_shot_max = / { setting = 1 }
            END { exit two != 4 || three != (ranks == 3 ? 4 : 0) || !setting }
            ' "$scratch/out"
    ok $? "with multicast sums of $ranks ranks by a switch are measured" || {
        diag <"$scratch/out"
        diag <"$scratch/err"
    }
done
# ThreadSanitizer has 8128 threads, and each of a kernel's is one to it.
if [ "${T_SANITIZER:-no}" = thread ]; then
    skip 1 'ThreadSanitizer has 8128 threads, fewer than 32 blocks of 2 ranks'
else
    with_switch 2 --min 256K --max 256K &&
        grep -q '4 switch us.*8 switch us.*16 switch us.*32 switch us' \
            "$scratch/out" &&
        grep -q '^    multicast_blocks = ' "$scratch/out"
    ok $? 'on so many blocks, too' || {
        diag <"$scratch/out"
        diag <"$scratch/err"
    }
fi
says 1 'expected 2 ranks or more, found 1' 'one rank has none' \
    "$perf" --device cuda --thresholds --max 4K --seconds 0.001
done_testing
