#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tests the output of symmcoll-info about GPUs, with a driver and an NVML of the test
# in place of the machine's.
. "${T_SRCDIR:-.}/t/tap.sh"

info=$builddir/bin/symmcoll-info
fakes=$builddir/t/devices/.libs
mkdir "$scratch/nvml" "$scratch/driver" "$scratch/no-nvml" "$scratch/no-driver"
cp "$fakes"/libnvidia-ml.so.1 "$scratch/nvml" &&
    cp "$fakes"/libcuda.so.1 "$scratch/driver" || exit 1
no_driver=$scratch/no-driver no_nvml=$scratch/no-nvml
echo 'no library' >"$no_driver/libcuda.so.1"
echo 'no library' >"$no_nvml/libnvidia-ml.so.1"

# show FOLDER:FOLDER [NCCL [CUBLASLT]]: with the libraries of these folders, and
# those
show()
{
    env LD_LIBRARY_PATH="$1" SYMMCOLL_MODULE_DIR="$scratch" \
        SYMMCOLL_CUDA_NCCL="${2-/nowhere/libnccl.so.2}" \
        SYMMCOLL_CUDA_CUBLASLT="${3-/nowhere/libcublasLt.so.13}" "$info" \
        >"$scratch/out" 2>"$scratch/err" || diag <"$scratch/err"
}

# table NAME: its rows, with one blank between two columns
table()
{
    awk -v name="$1" '$0 == name { on = 1; getline; next } /^$/ { on = 0 }
        on { gsub(/  +/, "  "); print }' "$scratch/out"
}

# detail PART: whether it is available, and what is said about it
detail()
{
    table gpu_support | sed -n "s/^  $1  //p"
}

# has TEXT PATTERN SENTENCE
has()
{
    case $1 in
    $2) ok 0 "$3" ;;
    *)
        diag "expected: $2"
        diag "found:    $1"
        ok 1 "$3"
        ;;
    esac
}

show "$no_driver:$no_nvml"
has "$(detail module)" 'no  module cuda: *symmcoll_cuda.so: *' \
    'a module that is not installed is told, with its path'
has "$(detail driver)" "no  no driver: *$no_driver/libcuda.so.1: *" \
    'a driver that cannot be loaded is told, with the reason of the loader'
is "$(detail devices)" 'no  there is no driver to ask' \
    'then nobody can be asked for devices'
has "$(detail nvml)" "no  no NVML: *$no_nvml/libnvidia-ml.so.1: *" \
    'so it is with NVML'
is "$(table gpus)$(table gpu_links)" '' 'no GPU is listed'

show "$scratch/nvml:$scratch/driver"
is "$(detail driver)" 'yes  CUDA 13.0' 'a driver has its version'
is "$(detail devices)" 'yes  2' 'and the number of devices'
is "$(detail nvml)" 'yes  libnvidia-ml.so.1' 'NVML is there'
is "$(table gpus)" \
    "  0  -  Fake GPU 0  85899345920  9.0  GPU-00000000-0000-0000-0000-000000000000  -  4  CUDA does not show it to this process
  1  -  Fake GPU 1  85899345921  9.0  GPU-00000000-0000-0000-0000-000000000001  -  4  CUDA does not show it to this process
  2  1  Driver's GPU 2  85899345918  9.0  GPU-00000000-0000-0000-0000-000000000002  no  6  -
  3  0  Driver's GPU 3  85899345917  9.0  GPU-00000000-0000-0000-0000-000000000003  yes  12  -" \
    'a GPU that the driver and NVML know is one, with what either tells'
is "$(table gpu_links)" '  0  1  4
  0  2  0
  0  3  0
  1  2  0
  1  3  0
  2  3  6' 'links between each two are counted'
is "$(table connectivity | grep nvlink)" '  nvlink  0  4
  nvlink  4  1
  nvlink  6  1' 'the table of connectivity has them'

show "$scratch/nvml:$no_driver"
is "$(table gpus | awk '{ print $2, $3, $4, $5, $NF }' | tail -n 1)" \
    '- Fake GPU 3 later' 'NVML alone lists GPUs; one that is too old is told'
show "$no_nvml:$scratch/driver"
is "$(table gpus)" \
    "  0  0  Driver's GPU 3  85899345917  9.0  GPU-00000000-0000-0000-0000-000000000003  yes  -  -
  1  1  Driver's GPU 2  85899345918  9.0  GPU-00000000-0000-0000-0000-000000000002  no  -  -" \
    'the driver alone lists them in its own order, without links'

# fault NAME: the driver with a fault
fault()
{
    FAKE_DRIVER=$1
    export FAKE_DRIVER
    show "$no_nvml:$scratch/driver"
    unset FAKE_DRIVER
}

fault none
has "$(detail devices)" 'no  *CUDA_ERROR_NO_DEVICE' \
    'where there is no device the error of the driver is told'
fault hidden
is "$(detail devices)" 'no  CUDA shows none to this process' \
    'so it is where all are hidden'
fault old
has "$(detail driver)" 'no  *too old: expected *12.4 or later, found 11.4' \
    'a driver that is too old is told, with both versions'
fault dull
has "$(detail devices)" 'no  too old: expected compute capability *' \
    'GPUs that are too old are none'
has "$(table gpus | head -n 1)" '*  7.0  *compute capability is not *' \
    'and have the reason'

nccl=$builddir/t/nccl/.libs/libnccl.so.2
old=$builddir/t/nccl/old/.libs/libnccl.so.2
show "$no_nvml:$no_driver" "$nccl"
is "$(detail nccl)" "yes  2.28.9, $nccl" 'NCCL has its version and its file'
is "$(table nccl | awk '{ print $2 }' | uniq)" yes 'and lacks nothing'
export NCCL_COMM_BLOCKING=1
show "$no_nvml:$no_driver" "$nccl"
has "$(detail nccl)" \
    'no  NCCL_COMM_BLOCKING: expected it unset or 0, found 1, *' \
    'where its calls would block it is not used, and the variable is named'
is "$(table nccl | awk '{ print $2 }' | uniq)" yes 'what it has is listed'
export NCCL_COMM_BLOCKING=0
show "$no_nvml:$no_driver" "$old"
unset NCCL_COMM_BLOCKING
is "$(detail nccl)" "yes  2.22.3, $old" \
    'cuda.nccl: so has the one that it names, which is older'
is "$(table nccl | sed 1,4d)" \
    '  ncclCommShrink  no  expected NCCL 2.27.0 or later, found 2.22.3
  ncclCommWindowRegister  no  expected NCCL 2.27.0 or later, found 2.22.3
  ncclCommWindowDeregister  no  expected NCCL 2.27.0 or later, found 2.22.3
  ncclAlltoAll  no  expected NCCL 2.28.0 or later, found 2.22.3
  ncclCommRevoke  no  expected NCCL 2.28.7 or later, found 2.22.3' \
    'and what it lacks is listed, with the version that has it'
show "$no_nvml:$no_driver"
has "$(detail nccl)" 'no  no NCCL: expected the library that cuda.nccl names, found none: /nowhere/libnccl.so.2: *' \
    'where there is none, the reason of the loader is told'
is "$(table nccl)" '' 'and nothing is listed'

has "$(detail cublaslt)" 'no  no cuBLASLt: expected the library that cuda.cublaslt names, found none: /nowhere/libcublasLt.so.13: *' \
    'where there is no cuBLASLt, the reason of the loader is told'
lt=$builddir/t/blas/stubs/.libs/libcublasLt.so.13
show "$no_nvml:$no_driver" "$nccl" "$lt"
is "$(detail cublaslt)" "yes  13.1.0, $lt" \
    'cuda.cublaslt: the one that it names has its version and its file'
export FAKE_CUBLASLT_VERSION=120901
show "$no_nvml:$no_driver" "$nccl" "$lt"
is "$(detail cublaslt)" "no  $lt: expected cuBLASLt 13, found 12.9.1" \
    'one of another version is none, with both versions'

export LD_LIBRARY_PATH="$scratch/nvml:$scratch/driver"
export SYMMCOLL_CUDA_CUBLASLT="$lt"
"$info" --json >"$scratch/json"
try 'all of it is JSON' env LC_ALL=C awk -f "$srcdir/t/bin/json.awk" \
    "$scratch/json"
is "$(awk '/"gpus":/ { on = 1 } on && /\]/ { on = 0 }
    on && /"cuda": 0, "name"/ && /"multicast": true, "nvlinks": 12/' \
    "$scratch/json" | wc -l)" 1 'with numbers and flags as such'
done_testing
