#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The layers of the tree: a module includes and calls only modules of lower
# layers, so there can be no arrow up and no circle; nor is there a circle of
# calls between the files of one module.  Calls are read from the object files.
. "${T_SRCDIR:-.}/t/tap.sh"

# Layers, the lowest first.  Modules of one line do not include each other.
layers='
base kernels
config
store segment
bootstrap rendezvous
devices
trace
backend
host fake message cuda
registry
world
run
group
coll symm_mem
pair symm_ops
object
ddp functional threads
fused
bin examples
'

nm=${T_NM:-nm}
cd "$srcdir" || exit 1

# "FILE MODULE INCLUDED-MODULE INCLUDED-FILE" for every include with quotes.
arrows()
{
    find lib/*/ bin examples -name '*.[ch]' | LC_ALL=C sort |
        xargs awk '
            /^[ \t]*#[ \t]*include[ \t]*"/ {
                split($0, quoted, "\"")
                print FILENAME, module(FILENAME), target(quoted[2]), quoted[2]
            }
            function module(path,    part) {
                split(path, part, "/")
                return part[1] == "lib" ? part[2] : part[1]
            }
            function target(header,    part) {
                if (split(header, part, "/") < 2) return module(FILENAME)
                return part[1]
            }'
}

# "FILE MODULE CALLED-MODULE CALLED-FILE:SYMBOL" for every symbol that an object
# of the library or a tool takes from another one.
calls()
{
    find lib/*/ bin -name '*.c' | LC_ALL=C sort >"$scratch/sources"
    cd "$builddir" || exit 1
    while read -r source; do
        name=${source##*/}
        name=${name%.c}
        for object in "${source%/*}/.libs/$name.o" \
            "${source%/*}/.libs/libsymc_cuda_la-$name.o" "${source%.c}.o"; do
            [ ! -e "$object" ] || break
        done
        [ ! -e "$object" ] || echo "$object $source"
    done <"$scratch/sources" >"$scratch/objects"
    # shellcheck disable=SC2086
    cut -d ' ' -f 1 "$scratch/objects" | xargs $nm -gA | sed 's/:/ /' | awk '
        NR == FNR { source[$1] = $2; next }
        $NF !~ /^(symc|symmcoll|info|perf|run)_/ { next }
        { $1 = source[$1] }
        $2 == "U" { from[++n] = $1; wants[n] = $3; next }
        { home[$4] = $1 }
        END {
            for (i = 1; i <= n; i++) {
                to = home[wants[i]]
                if (to != "" && to != from[i])
                    print from[i], module(from[i]), module(to), to ":" wants[i]
            }
        }
        function module(path,    part) {
            split(path, part, "/")
            return part[1] == "lib" ? part[2] : part[1]
        }' "$scratch/objects" -
    cd "$srcdir" || exit 1
}

# The lines of arrows() or calls() that break a rule, with the rule.
# judge includes | judge calls
judge()
{
    awk -v verb="$1" -v layers="$layers" '
        BEGIN {
            n = split(layers, line, "\n")
            for (i = 1; i <= n; i++) {
                modules = split(line[i], name, " ")
                for (j = 1; j <= modules; j++) layer[name[j]] = i
            }
        }
        !($2 in layer) { print $1 ": no layer is known for module " $2; next }
        !($3 in layer) { print $1 ": " verb " " $4 ", of no known module"; next }
        $2 == $3 { next }
        layer[$3] == layer[$2] {
            print $1 ": " $2 " " verb " " $4 ", of a module beside it"
        }
        layer[$3] > layer[$2] {
            print $1 ": " $2 " " verb " " $4 " above it"
        }'
}

# Files without an extension of the above: modules in lib/ that have no layer.
unknown_modules()
{
    for dir in lib/*/; do
        module=$(basename "$dir")
        [ "$module" = symmcoll ] || echo "$layers" | tr ' ' '\n' |
            grep -qx "$module" || echo "lib/$module has no layer"
    done
}

# Source files that Makefile.am, the file, does not name: nothing builds them.
unbuilt()
{
    tr -s ' \t\\' '\n' <"$1" | LC_ALL=C sort -u >"$scratch/named"
    find lib bin examples kernels -name '*.[ch]' | LC_ALL=C sort |
        grep -vxF -f "$scratch/named"
}

# Internal headers in public ones would not be found by users.
leaking()
{
    grep -nE '^[ \t]*#[ \t]*include[ \t]*"' lib/symmcoll.h lib/symmcoll/*.h
    grep -nE '^[ \t]*#[ \t]*include[ \t]*<' lib/symmcoll.h lib/symmcoll/*.h |
        grep -vE '<(symmcoll/[a-z_]+\.h|std(def|int)\.h)>'
}

# Reads of the members of struct symmcoll_group above lib/group, which has functions
# for them.
members()
{
    echo "$layers" | sed '1,/^group$/d' | tr ' ' '\n' | while read -r module; do
        [ ! -d "lib/$module" ] ||
            find_reads "lib/$module"/*.[ch]
    done
}

# Reads of a group's members in files, whatever the variable's name: those of the
# runner are read through any.
find_reads()
{
    grep -nE '(^|[^[:alnum:]_])group->|->runner[.]' /dev/null "$@"
}

# "FILE INCLUDED-FILE" for every header that a header includes.
headers()
{
    find lib -name '*.h' | LC_ALL=C sort | xargs awk '
        /^[ \t]*#[ \t]*include[ \t]*["<]/ {
            split($0, part, /["<>]/)
            header = part[2]
            if (header !~ /\//) {
                from = FILENAME; sub(/[^\/]*$/, "", from)
                header = from header
            } else header = "lib/" header
            print FILENAME, header
        }'
}

# Circles in a list of "FROM TO" on standard input, each with its way.
circles()
{
    awk '
        { edges[$1] = edges[$1] " " $2 }
        END { for (file in edges) if (!state[file]) visit(file, file) }
        function visit(file, path,    n, i, next_files) {
            state[file] = 1
            n = split(edges[file], next_files, " ")
            for (i = 1; i <= n; i++) {
                if (state[next_files[i]] == 1)
                    print "circle: " path " > " next_files[i]
                else if (!state[next_files[i]])
                    visit(next_files[i], path " > " next_files[i])
            }
            state[file] = 2
        }'
}

# Like calls(), between files of one module; prints the called functions.
call_circles()
{
    sed 's/:[^:]*$//' | awk '$2 == $3 { print $1, $4 }' | LC_ALL=C sort -u |
        circles
}

plan 16
arrows >"$scratch/arrows"
[ "$(wc -l <"$scratch/arrows")" -gt 20 ]
ok $? 'the includes of all modules are found'
none "$(judge includes <"$scratch/arrows")" \
    'no module includes one above it or beside it'
none "$(unknown_modules)" 'every module has its layer'
none "$(unbuilt Makefile.am)" 'every source file is built'
none "$(leaking)" 'public headers include public and standard ones alone'
none "$(members)" 'no module above group reads the members of a group'
none "$(headers | circles)" 'no header includes itself by a detour'

calls >"$scratch/calls"
for dir in lib/*/; do
    module=$(basename "$dir")
    [ "$module" = cuda ] && [ -n "${T_CUDA_MISSING:-}" ] && continue
    [ "$module" = symmcoll ] || grep -q " $module " "$scratch/calls" ||
        echo "no call from or to $module is known"
done >"$scratch/silent"
none "$(cat "$scratch/silent")" 'the calls of all modules are found'
none "$(judge calls <"$scratch/calls")" \
    'no module calls one above it or beside it'
none "$(call_circles <"$scratch/calls")" \
    'no file calls itself by way of others of its module'

# The test itself must be able to fail.
found=$(printf '%s\n' 'lib/base/x.c base config config/config.h' |
    judge includes)
[ -n "$found" ]
ok $? 'an arrow from the lowest layer upwards would be noticed'
found=$(printf '%s\n' 'lib/host/x.c host fake fake/fake.h' | judge includes)
[ -n "$found" ]
ok $? 'an arrow from one backend to another would be noticed'
found=$(printf '%s\n' \
    'lib/run/x.c run group lib/group/group.c:symc_group_run' | judge calls)
[ -n "$found" ]
ok $? 'a call of a module above would be noticed'
found=$(printf 'lib/run/%s\n' 'x.c run run lib/run/y.c:symc_y' \
    'y.c run run lib/run/z.c:symc_z' 'z.c run run lib/run/x.c:symc_x' |
    call_circles)
[ -n "$found" ]
ok $? 'a circle of calls between three files would be noticed'
sed 's| lib/run/pool[.]c||' Makefile.am >"$scratch/makefile"
is "$(unbuilt "$scratch/makefile")" lib/run/pool.c \
    'a source file that nothing builds would be noticed'
printf '%s\n' 'x = group->rank;' 'y = parent->runner.rank;' 'z = a_group->rank;' \
    'a->runners = 0;' >"$scratch/reads.c"
is "$(find_reads "$scratch/reads.c" | wc -l)" 2 \
    'reads of members would be noticed, whatever the name of the group'
done_testing
