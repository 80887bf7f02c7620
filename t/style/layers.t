#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The layers of the tree: a module includes only modules of lower layers, so
# there can be no arrow up and no circle.
. "${T_SRCDIR:-.}/t/tap.sh"

# Layers, the lowest first.  Modules of one line do not include each other.
layers='
base
config
store
segment
trace
backend
host fake
registry
work
world
group
coll
ddp
bin examples
'

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

# The lines of arrows() that break a rule, with the rule.
judge()
{
    awk -v layers="$layers" '
        BEGIN {
            n = split(layers, line, "\n")
            for (i = 1; i <= n; i++) {
                modules = split(line[i], name, " ")
                for (j = 1; j <= modules; j++) layer[name[j]] = i
            }
        }
        !($2 in layer) { print $1 ": no layer is known for module " $2; next }
        !($3 in layer) { print $1 ": includes " $4 ", of no known module"; next }
        $2 == $3 { next }
        layer[$3] == layer[$2] {
            print $1 ": " $2 " includes " $4 ", of a module beside it"
        }
        layer[$3] > layer[$2] { print $1 ": " $2 " includes " $4 " above it" }'
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

# Internal headers in public ones would not be found by users.
leaking()
{
    grep -nE '^[ \t]*#[ \t]*include[ \t]*"' lib/symmcoll.h lib/symmcoll/*.h
    grep -nE '^[ \t]*#[ \t]*include[ \t]*<' lib/symmcoll.h lib/symmcoll/*.h |
        grep -vE '<(symmcoll/[a-z_]+\.h|std(def|int)\.h)>'
}

# cycles among files: follow quoted includes of headers, depth first.
circles()
{
    find lib -name '*.h' | LC_ALL=C sort | xargs awk '
        /^[ \t]*#[ \t]*include[ \t]*["<]/ {
            split($0, part, /["<>]/)
            header = part[2]
            if (header !~ /\//) {
                from = FILENAME; sub(/[^\/]*$/, "", from)
                to = from header
            } else to = "lib/" header
            edges[FILENAME] = edges[FILENAME] " " to
        }
        { seen[FILENAME] = 1 }
        END { for (file in seen) if (!state[file]) visit(file, file) }
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

plan 7
arrows >"$scratch/arrows"
[ "$(wc -l <"$scratch/arrows")" -gt 20 ]
ok $? 'the includes of all modules are found'
none "$(judge <"$scratch/arrows")" \
    'no module includes one above it or beside it'
none "$(unknown_modules)" 'every module has its layer'
none "$(leaking)" 'public headers include public and standard ones alone'
none "$(circles)" 'no header includes itself by a detour'

# The test itself must be able to fail.
found=$(printf '%s\n' 'lib/base/x.c base config config/config.h' | judge)
[ -n "$found" ]
ok $? 'an arrow from the lowest layer upwards would be noticed'
found=$(printf '%s\n' 'lib/host/x.c host fake fake/fake.h' | judge)
[ -n "$found" ]
ok $? 'an arrow from one backend to another would be noticed'
done_testing
