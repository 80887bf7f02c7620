#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tests how t/gpu/run reports programs that do not run and stages without enough
# time: neither may look like a success.  The device is an nvidia-smi that
# lists one, with a driver that cannot be loaded.
. "${T_SRCDIR:-.}/t/tap.sh"

[ -z "${T_CUDA_MISSING:-}" ] ||
    skip_all "built without CUDA: $T_CUDA_MISSING"

mkdir "$scratch/none" "$scratch/bin" "$scratch/results"
echo 'no library' >"$scratch/none/libcuda.so.1"
cat >"$scratch/bin/nvidia-smi" <<'END'
#!/bin/sh
[ -z "$SLOW" ] || sleep 30
echo 'GPU 0: a device that no program can use'
END
chmod +x "$scratch/bin/nvidia-smi"
ln -s "$(cd "$builddir" && pwd)" "$scratch/results/build"

# stages SECONDS STAGE...: the last lines to out.
stages()
{
    seconds=$1
    shift
    T_GPU_SECONDS=$seconds PATH=$scratch/bin:$PATH \
        LD_LIBRARY_PATH=$scratch/none \
        "$srcdir/t/gpu/run" --results "$scratch/results" "$@" \
        >"$scratch/out" 2>&1
}

says()
{
    ok "$1" "$2" || diag <"$scratch/out"
}

plan 4
stages 480 processes
status=$?
[ $status -eq 1 ] && grep -q '^not ok 1 - processes$' "$scratch/out" &&
    grep -q 'not ok - t/gpu/process.t runs where there is a device' \
        "$scratch/out"
says $? 'a program that skips itself fails its stage where there is a device'

stages 0 machine
status=$?
[ $status -eq 1 ] && grep -q '^not ok 1 - machine$' "$scratch/out" &&
    grep -q 'not reached within 0 s' "$scratch/out"
says $? 'a stage that was not reached is no success'

SLOW=yes stages 2 machine
status=$?
[ $status -eq 1 ] && grep -q '^not ok 1 - machine$' "$scratch/out" &&
    grep -q '^machine .* not done *not reached within 2 s' "$scratch/out"
says $? 'nor is one that all time ended in'

stages 60 machine
status=$?
[ $status -eq 0 ] && grep -q '^ok 1 - machine$' "$scratch/out"
says $? 'and the next start runs it'
done_testing
