#!/bin/sh
# Usage: floors.sh ROOT
# Checks the rules of the rooms: a room includes only rooms of lower floors and no private header of theirs, CUDA's and SQLite's headers stay where they
# belong, only src/cli prints to stdout or exits, and it starts no process and opens no recorder; without host memory the process ends where that is
# found. A test includes only the rooms that its line in tests/CMakeLists.txt links.
set -eu
cd "$1"
failures=0

# rooms: every room, and those that it may include beside itself.
rooms() {
    cat <<'END'
base
kernels             base
device              base
device/cuda         base device kernels
alloc               base device
operators           base device
operators/cudnn     base device operators
trace/store         base
trace/query         base trace/store
answer              base trace/store trace/query
trace/export        base trace/store trace/query answer
run                 base device alloc trace/store
producers/model     base alloc operators kernels trace/store run
producers/torch     base device operators run
producers/cuda      base device trace/store run
producers/file      base trace/store run
producers/program   base device trace/store trace/query run
analysis            base device alloc trace/query run producers/model producers/file producers/program
words               base answer trace/query producers/model analysis
page                base answer trace/query analysis
api                 base trace/query trace/export run producers/model producers/program analysis
study               base words device alloc trace/store trace/query run producers/model analysis answer
cli                 base answer words device alloc operators trace/store trace/query trace/export run producers/model producers/file producers/program analysis study page
END
}

# private: headers that show the inside of a room, which that room alone includes.
private() {
    cat <<'END'
alloc/block.h
alloc/follow.h
alloc/plan_parts.h
trace/query/query.h
trace/store/intake.h
trace/store/ring.h
trace/store/writer.h
END
}

# place ROOM: its folder.
place() {
    case $1 in
    kernels) echo kernels ;;
    study) echo apps/study ;;
    *) echo "src/$1" ;;
    esac
}

# fails TITLE LINES: reports lines that break a rule, if there are any.
fails() {
    [ -z "$2" ] && return
    printf '%s:\n%s\n' "$1" "$2"
    failures=$((failures + 1))
}

# matches PATTERN [FOLDER...]: the lines of the sources in there that match; everywhere unless folders are given.
matches() {
    pattern=$1
    shift
    [ $# -gt 0 ] || set -- src apps kernels
    sources "$@" | xargs -r grep -nHE "$pattern" || true
}

# sources FOLDER...: the C files in there, CUDA's too.
sources() {
    for folder in "$@"; do
        [ ! -d "$folder" ] || find "$folder" -name '*.[ch]' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh'
    done
}

# except PATTERN: the lines that come in, without those of files that match.
except() {
    grep -vE "^($1)" || true
}

# nested ROOM: the folders of rooms inside it, which have rules of their own.
nested() {
    rooms | awk -v room="$1/" 'index($1, room) == 1 { print "src/" $1 "/" } END { print "none/" }' | paste -sd '|'
}

# strangers ROOM...: the first is a room, the others what it may include: its includes of anything else of ours.
strangers() {
    matches "^#include \"($names|trace|bench|tests)/" "$(place "$1")" | except "$(nested "$1")" |
        grep -vE "#include \"($(echo "$@" | tr ' ' '|'))/" || true
}

# test_strangers: includes of tests, and of the headers in tests/ that they include, of rooms that they do not link: those
# after ROOMS in the line of the test, and what these link in turn.
test_strangers() {
    [ -f tests/CMakeLists.txt ] || return 0
    {
        sed -n 's/^mt_folder(mt_\([^)]*\)).*/folder \1/p' CMakeLists.txt
        sed -n 's/^mt_test(\([^)]*\)).*/test \1/p' tests/CMakeLists.txt
        find tests -maxdepth 1 \( -name '*.h' -o -name 'test_*.c' \) -exec grep -HE '^#include "[^"]*"' {} + |
            sed 's|^tests/\([^:]*\):#include "\(.*\)"|include \1 \2|'
    } | awk '
        $1 == "folder" {
            place = $3
            sub(/^(src|apps)\//, "", place)
            sub(/^kernels\/cpu$/, "kernels", place)
            room_at[place] = $2
            for (i = 4; i <= NF; i++)
                if (sub(/^mt_/, "", $i))
                    links[$2] = links[$2] " " $i
        }
        $1 == "test" {
            tests[$2 ".c"] = ""
            for (i = 4; i <= NF && $i != "NEEDS"; i++)
                tests[$2 ".c"] = tests[$2 ".c"] " " $i
        }
        $1 == "include" { includes[$2] = includes[$2] " " $3 }

        function link(rooms,    list, count, i) {
            count = split(rooms, list, " ")
            for (i = 1; i <= count; i++)
                if (!(list[i] in linked)) {
                    linked[list[i]] = 1
                    link(links[list[i]])
                }
        }
        function look(file, test,    list, count, i, place) {
            count = split(includes[file], list, " ")
            for (i = 1; i <= count; i++) {
                if (list[i] in seen)
                    continue
                seen[list[i]] = 1
                look(list[i], test)
                place = list[i]
                while (sub(/\/[^\/]*$/, "", place) && !(place in room_at))
                    ;
                if (place in room_at && !(room_at[place] in linked))
                    print "tests/" test ": " list[i] ", of the room " room_at[place]
            }
        }
        END {
            for (test in tests) {
                split("", linked)
                split("", seen)
                link(tests[test])
                look(test, test)
            }
        }'
}

names=$(rooms | awk '{ print $1 }' | paste -sd '|')
while read -r room allowed; do
    # shellcheck disable=SC2086 # a list of words
    fails "$(place "$room") may include only: $room $allowed" "$(strangers $room $allowed)"
done <<END
$(rooms)
END

while read -r header; do
    fails "${header%/*} alone includes $header" "$(matches "^#include \"$header\"" src | except "src/${header%/*}/")"
done <<END
$(private)
END

folders=$(rooms | while read -r room _; do place "$room"; done | paste -sd '|')
fails 'a source lies in no room' "$(sources src apps kernels | except "($folders)/")"

fails 'a test includes only rooms that its line in tests/CMakeLists.txt names' "$(test_strangers)"

fails 'includes name the folder, not the way to it' "$(matches '#include "\.')"
# Without its folder an include would escape the rules above; what CMake generates (mt_*.h) has none.
fails 'includes name the folder' "$(matches '#include "[^/"]*"' src apps | grep -vE '"mt_[a-z_]+\.h"' || true)"
fails "PyTorch's headers are for src/producers/torch/dry only" "$(matches '#include <(ATen|c10|torch)/' | except 'src/producers/torch/dry/')"
fails 'sqlite3.h is for src/trace only' "$(matches '#include [<"]sqlite3' | except 'src/trace/')"
fails 'CUDA headers are for src/device, folders called cuda or cupti, and kernels/cuda only' \
    "$(matches '#include [<"](cuda|cublas|cupti|nvtx)' | except 'src/device/|[^:]*/(cuda|cupti)/')"
fails 'only src/cli prints to stdout' "$(matches '[^a-z_](printf|puts|putchar) *\(|[^a-z_]stdout *[,)]' | except 'src/cli/')"
# A child of fork that could not become the program has nobody to return to.
fails 'only src/cli exits, what has no host memory, and a child' \
    "$(matches '[^a-z_](exit|_exit|_Exit|quick_exit) *\(' | except 'src/cli/|src/base/memory\.c|src/producers/program/child_program\.c')"

fails 'src/cli starts no process: src/producers/program does' \
    "$(matches '(^|[^a-z_])(v?fork|posix_spawnp?|exec(l|lp|le|v|vp|ve|vpe)|system|popen|mt_child(ren)?_[a-z_]+|mt_python_[a-z_]+) *\(' src/cli)"
fails 'src/cli opens no recorder' "$(matches 'mt_recorder_open *\(' src/cli)"

# Callers of a library may have no command line. Words are for people who have one. nsys and launchers are other programs.
fails 'only src/cli and src/words name options of the command line' \
    "$(matches '"([^"]*[^-"])?--[a-z]' src apps | except 'src/(cli|words)/|src/producers/program/([a-z]+_words\.c|launcher_options\.h)' | grep -vE 'nsys|cuda-memory-usage' || true)"

# A message that names one of two files with the same name would be ambiguous.
fails 'file names are unique in the tree' "$(sources src apps kernels | sed 's|.*/||' | sort | uniq -d)"

[ "$failures" -eq 0 ] || exit 1
echo "the floors hold"
