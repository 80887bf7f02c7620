#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The programs that need a GPU, on the host: the driver is t/gpu/rehearsal's, which
# runs the kernels here.  A short form; t/gpu/run --rehearse has all of it.  It
# shows that they would run, and that their checks pass here.
. "${T_SRCDIR:-.}/t/tap.sh"

[ -z "${T_CUDA_MISSING:-}" ] ||
    skip_all "built without CUDA: $T_CUDA_MISSING"

# ThreadSanitizer reports memory that the loader frees with a thread as a race.  It is
# slow, and checks the computations of a group of ranks in t/cuda, t/ddp, t/functional,
# t/fused, t/kernels and t/symm_mem, over the same driver, kernels and threads.
computing=
if [ "${T_SANITIZER:-no}" = thread ]; then
    computing='kernels collectives functional fused fused_times limits products
        ratios reducer symm_ops'
    echo 'race:_dl_deallocate_tls' >"$scratch/known"
    TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}suppressions=$scratch/known"
    export TSAN_OPTIONS
fi

plan 26
for program in kernels collectives faults functional fused fused_times process \
    limits messages own_memory products ratios reducer settings symm_access symm_ops \
    nccl nccl_groups nccl_one; do
    if echo "$computing" | grep -qw "$program"; then
        skip 1 "t/gpu/$program: too slow under ThreadSanitizer"
        continue
    fi
    T_GPU_REHEARSAL=short LD_LIBRARY_PATH=$builddir/t/gpu/rehearsal/.libs \
        "$builddir/t/gpu/$program.t" >"$scratch/out" 2>"$scratch/err"
    status=$?
    points=$(grep -c '^ok' "$scratch/out")
    [ $status -eq 0 ] && [ "$points" -gt 0 ] &&
        ! grep -q -e '^not ok' -e '^1\.\.0' "$scratch/out"
    ok $? "t/gpu/$program holds on the host" || {
        diag "status $status, $points points"
        grep '^not ok' "$scratch/out" | diag
        diag <"$scratch/err"
    }
done

# Internal errors and those of the system are refusals as well.
for program in nccl nccl_groups; do
    for result in 2 3; do
        T_GPU_REHEARSAL=short \
            LD_LIBRARY_PATH=$builddir/t/gpu/rehearsal/.libs \
            FAKE_NCCL_REFUSAL=$result "$builddir/t/gpu/$program.t" \
            >"$scratch/out" 2>"$scratch/err" &&
            grep -q "# SKIP NCCL does not connect two ranks of a device: .*NCCL error $result" \
                "$scratch/out"
        ok $? "$program: NCCL that refuses two ranks with error $result: skipped, with its reason"
    done
done

# Streams are destroyed where T_DEVICE_KEEPS has no word for them: where the driver
# cannot, a program fails then.
keeps()
{
    T_GPU_REHEARSAL=short LD_LIBRARY_PATH=$builddir/t/gpu/rehearsal/.libs \
        FAKE_CUDA=fail=cuStreamDestroy:0:$2 T_DEVICE_KEEPS=$1 \
        "$builddir/t/gpu/faults.t" >"$scratch/out" 2>"$scratch/err"
}
keeps 0 0 && keeps memory,streams 400
ok $? 'T_DEVICE_KEEPS: faults holds on the host where nothing is kept, or streams are'
! keeps memory 400 && grep -q 'cuStreamDestroy: error 400' "$scratch/err"
ok $? 'and destroys its streams where none are kept'

mkdir "$scratch/none"
echo 'no library' >"$scratch/none/libcuda.so.1"
LD_LIBRARY_PATH=$scratch/none "$builddir/t/gpu/kernels.t" \
    >"$scratch/out" 2>"$scratch/err" &&
    grep -q '^1\.\.0 # SKIP no CUDA driver: ' "$scratch/out"
ok $? 'without a driver they are skipped, with the reason'
done_testing
