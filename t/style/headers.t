#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Each public header compiles alone, for every user's language and compiler.
. "${T_SRCDIR:-.}/t/tap.sh"

warnings='-Wall -Wextra -pedantic -Werror'
# shellcheck disable=SC2086
set -- ${T_CC:-cc}
cc=$*
command -v "$1" >/dev/null 2>&1 || skip_all "no compiler: $cc"
cxx=
for name in "$(echo "$1" | sed 's/gcc/g++/; s/clang/clang++/')" c++ g++; do
    if [ "$name" != "$1" ] && command -v "$name" >/dev/null 2>&1; then
        cxx=$name
        break
    fi
done

# compile COMPILER LANGUAGE STANDARD HEADER
compile()
{
    extension=c
    [ "$2" = c++ ] && extension=cc
    # Twice: the second time its guard has to hold.
    printf '#include <%s>\n#include <%s>\n' "$4" "$4" >"$scratch/one.$extension"
    # shellcheck disable=SC2086
    $1 -x "$2" "-std=$3" $warnings -I"$srcdir/lib" -fsyntax-only \
        "$scratch/one.$extension"
}

cd "$srcdir/lib" || exit 1
for header in symmcoll.h symmcoll/*.h; do
    try "$header compiles alone as C11" compile "$cc" c c11 "$header"
    if [ -n "$cxx" ]; then
        try "$header compiles alone as C++11" compile "$cxx" c++ c++11 "$header"
    else
        skip 1 'no C++ compiler'
    fi
done

# The initialisers, in the language of the file; as members of an array, too.
cat >"$scratch/init.c" <<'END'
#include <symmcoll.h>

int main(void)
{
    float memory[6] = {0};
    unsigned long count = 6;
    struct symmcoll_call call = SYMMCOLL_CALL_INIT;
    struct symmcoll_group_args group = SYMMCOLL_GROUP_ARGS_INIT;
    struct symmcoll_shrink_args shrink = SYMMCOLL_SHRINK_ARGS_INIT;
    struct symmcoll_group_info info = SYMMCOLL_GROUP_INFO_INIT;
    struct symmcoll_mesh mesh = SYMMCOLL_MESH_INIT;
    struct symmcoll_designator designator = SYMMCOLL_DESIGNATOR_INIT;
    struct symmcoll_init_args init = SYMMCOLL_INIT_ARGS_INIT;
    struct symmcoll_reducer_args args = SYMMCOLL_REDUCER_ARGS_INIT;
    struct symmcoll_reducer_times times = SYMMCOLL_REDUCER_TIMES_INIT;
    struct symmcoll_bucket bucket = SYMMCOLL_BUCKET_INIT;
    struct symmcoll_hook_wrapped wrapped = SYMMCOLL_HOOK_WRAPPED_INIT;
    struct symmcoll_pair_op pair = SYMMCOLL_PAIR_OP_INIT;
    struct symmcoll_tensor none = SYMMCOLL_TENSOR_INIT;
    struct symmcoll_scaled_matrix scaled = SYMMCOLL_SCALED_MATRIX_INIT;
    struct symmcoll_tensor tensors[] = {
        SYMMCOLL_TENSOR_FLAT(memory, count, SYMMCOLL_FLOAT32),
        SYMMCOLL_TENSOR_SHAPE(memory, SYMMCOLL_FLOAT32, 2, count / 2),
        SYMMCOLL_TENSOR_SHAPE(memory, SYMMCOLL_INT8, 2, 3, 4, 5, 6, 7, 8, 9)};

    return !(call.size == sizeof(call) && group.size == sizeof(group) &&
             info.size == sizeof(info) && mesh.size == sizeof(mesh) &&
             designator.dim == -1 &&
             shrink.size == sizeof(shrink) && info.size == sizeof(info) &&
             init.size == sizeof(init) && pair.size == sizeof(pair) &&
             args.size == sizeof(args) && times.size == sizeof(times) &&
             bucket.size == sizeof(bucket) && wrapped.size == sizeof(wrapped) &&
             none.ndim == 0 &&
             scaled.size == sizeof(scaled) &&
             tensors[0].shape[0] == 6 && tensors[1].strides[0] == 3 &&
             tensors[1].size == sizeof(none) && tensors[2].ndim == 8 && tensors[2].strides[6] == 9);
}
END
cp "$scratch/init.c" "$scratch/init.cc"

# initialise COMPILER LANGUAGE STANDARD SOURCE
initialise()
{
    # shellcheck disable=SC2086
    $1 -x "$2" "-std=$3" $warnings -I"$srcdir/lib" -o "$scratch/init" \
        "$scratch/$4" && "$scratch/init"
}

try 'initialisers do what they say in C11' initialise "$cc" c c11 init.c
if [ -n "$cxx" ]; then
    try 'and in C++11' initialise "$cxx" c++ c++11 init.cc
else
    skip 1 'no C++ compiler'
fi

# A struct with a size is passed by programs built against other headers.
sized=$(sed -n 's/.*size_t size; .*sizeof(struct symmcoll_\([a-z_]*\)).*/\1/p' \
    symmcoll/*.h)
is "$(echo "$sized" | wc -w)" "$(grep -c 'size_t size;' symmcoll/*.h |
    awk -F: '{ n += $2 } END { print n }')" 'a size says whose it is'
none "$(for name in $sized; do
    grep -q "STRUCT($name," "$srcdir/t/abi/structs.c" || echo "$name"
done)" 't/abi/structs.c tries every struct that has a size'

missing=$(for header in symmcoll/*.h; do
    grep -q "<$header>" symmcoll.h || echo "$header"
done)
none "$missing" 'symmcoll.h includes every public header'
done_testing
