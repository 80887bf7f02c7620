#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Tests the output and the effect of configure's options, with stand-ins for CUDA's
# compiler.  Not part of the suite, because each point runs configure; .ci/run starts it.
. "${T_SRCDIR:-.}/t/tap.sh"

mkdir "$scratch/build" "$scratch/path" && cd "$scratch/build" || exit 1
unset CUDA_HOME CUDA_PATH NVCCFLAGS CPATH C_INCLUDE_PATH
configure=$(cd "$srcdir" && pwd)/configure

# toolkit NAME VERSION COMMANDS: creates a CUDA with a compiler that runs the
# commands; its cuda.h has VERSION.
toolkit()
{
    home=$scratch/$1
    mkdir -p "$home/bin" "$home/include"
    printf '#!/bin/sh\necho "$*" >>"%s/calls"\n%s\n' "$home" "$3" \
        >"$home/bin/nvcc"
    chmod +x "$home/bin/nvcc"
    echo "#define CUDA_VERSION $2" >"$home/include/cuda.h"
    echo 'typedef int (*PFN_cuMemCreate_v10020)(void);' \
        >"$home/include/cudaTypedefs.h"
}

# configuring [VARIABLE=VALUE...] [OPTION...]: what it says is in "said".
configuring()
{
    "$configure" --quiet --cache-file="$scratch/cache" PKG_CONFIG=false \
        --without-blas "$@" >said 2>&1
}

# refused TEXT OPTION...: configure fails, and says that.
refused()
{
    text=$1
    shift
    if configuring "$@"; then
        echo "expected a failure, with '$text'"
        return 1
    fi
    grep -qF -e "$text" said && return
    echo "expected '$text', found:"
    tail -n 5 said
    return 1
}

# has_cuda NOTE OPTION...: configure succeeds, and its summary has that of CUDA.
has_cuda()
{
    note=$1
    shift
    # The summary is not said quietly.
    "$configure" --cache-file="$scratch/cache" PKG_CONFIG=false \
        --without-blas "$@" >said 2>&1 || {
        tail -n 5 said
        return 1
    }
    grep -F '  cuda  ' said | grep -qF -e "$note" && return
    echo "expected '$note', found:"
    grep -F '  cuda  ' said
    return 1
}

toolkit good 13000 'while [ $# -gt 1 ]; do
    [ "$1" = -o ] && echo image >"$2"
    shift
done'
toolkit broken 13000 'echo "nvcc fatal: Unsupported gpu architecture" >&2; exit 1'
toolkit old 12040 ''

for odd in 'a b' 'a:b' 'a,b'; do
    mkdir "$scratch/$odd"
    (cd "$scratch/$odd" && "$configure" >said 2>&1)
    is "$?:$(cat "$scratch/$odd/said")" "1:configure: error: expected a path that \
has no space and none of :;,()*?<>| (libtool cannot build there), found \
'$scratch/$odd'" "a build in a folder called '$odd' is refused at once"
done

try 'a toolkit that is named is used' \
    has_cuda "$scratch/good/bin/nvcc" --with-cuda="$scratch/good"
try 'so is that of CUDA_HOME' \
    has_cuda "$scratch/good/bin/nvcc" CUDA_HOME="$scratch/good"
try '--with-cuda-arch: code for each, and PTX for the last' sh -c '
    "$0" --quiet --cache-file="$1/cache" PKG_CONFIG=false --without-blas \
        --with-cuda="$1/good" --with-cuda-arch="75 90" &&
    tail -n 1 "$1/good/calls" | grep -F -e "-gencode arch=compute_75,code=sm_75 \
-gencode arch=compute_90,code=sm_90 -gencode arch=compute_90,code=compute_90"' \
    "$configure" "$scratch"

# chosen EXPECTED CAPABILITY...: of GPUs with these the kernels are compiled for the
# expected ones.
chosen()
{
    expected=$1
    shift
    mkdir -p "$scratch/gpus"
    printf '#!/bin/sh\nprintf "%%s\\n" %s\n' "$*" >"$scratch/gpus/nvidia-smi"
    chmod +x "$scratch/gpus/nvidia-smi"
    [ $# -gt 0 ] || printf '#!/bin/sh\nexit 9\n' >"$scratch/gpus/nvidia-smi"
    PATH=$scratch/gpus:$PATH has_cuda "(compute capabilities $expected," \
        --with-cuda="$scratch/listing"
}

toolkit listing 13000 '[ "$1" = --list-gpu-arch ] &&
    printf "%s\n" compute_75 compute_80 compute_90 compute_100
while [ $# -gt 1 ]; do
    [ "$1" = -o ] && echo image >"$2"
    shift
done'
try 'without it, code for the GPUs that are there' chosen '80 90' 9.0 8.0 9.0
try 'but not for those that the kernels do not run on' chosen 80 7.5 8.0
try 'nor for those that the compiler does not know' chosen 90 12.0
try 'and for 90 where there is no GPU' chosen 90

# compiles N ARCHS: after configuring for these, make runs the compiler N times for
# the image.
compiles()
{
    times=$1
    shift
    configuring --with-cuda="$scratch/kept" --with-cuda-arch="$1" || return
    : >"$scratch/kept/calls"
    ${T_MAKE:-make} kernels/all.fatbin >said 2>&1 || {
        tail -n 5 said
        return 1
    }
    found=$(grep -c 'kernels/all.cu' "$scratch/kept/calls")
    [ "$found" -eq "$times" ] && return
    echo "expected $times calls, found $found"
    return 1
}

toolkit kept 13000 'while [ $# -gt 1 ]; do
    case $2 in
    */image) echo image >"$2"; : >"${2%image}kept.ptx" ;;
    *.fatbin) echo image >"$2" ;;
    esac
    shift
done'
try 'the kernels are compiled' compiles 1 80
try 'and again for other architectures' compiles 1 '80 90'
try 'but not for being configured again' compiles 0 '80 90'
try 'a folder without one is refused' \
    refused "--with-cuda: no nvcc in $scratch/none/bin" \
    --with-cuda="$scratch/none"
try 'so is a compiler that fails, with what it said' \
    refused 'fails: nvcc fatal: Unsupported gpu architecture' \
    --with-cuda="$scratch/broken"
try 'a toolkit that is too old' \
    refused "no cuda.h of CUDA 12.8 or later in $scratch/old/include" \
    --with-cuda="$scratch/old"
try 'another value' \
    refused "--with-cuda takes yes, no, check or an absolute path, not 'maybe'" \
    --with-cuda=maybe
try 'architectures that are no numbers' \
    refused "--with-cuda-arch takes numbers such as \"80 90\", not 'sm_90'" \
    --with-cuda="$scratch/good" --with-cuda-arch='80 sm_90'
try 'no architecture' refused '--with-cuda-arch takes one number at least' \
    --with-cuda="$scratch/good" --with-cuda-arch=
try 'what is found and does not work is a note, where nothing was asked for' \
    has_cuda 'fails: nvcc fatal' CUDA_HOME="$scratch/broken"
: >"$scratch/good/calls"
try '--without-cuda looks for nothing' \
    has_cuda 'no (--without-cuda)' --without-cuda CUDA_HOME="$scratch/good"
ok "$(wc -l <"$scratch/good/calls")" 'and starts no compiler'
try 'other options: a value that is none' \
    refused "--enable-sanitizer takes address or thread, not 'everything'" \
    --enable-sanitizer=everything

done_testing
