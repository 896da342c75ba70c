#!/bin/sh
# Usage: floors.sh ROOT
# Checks the rules of the folders: a folder includes only folders of lower floors, CUDA's and SQLite's headers stay
# where they belong, and only src/cli prints to stdout, exits or names options.
set -eu
cd "$1"
failures=0

# fails TITLE LINES: reports lines that break a rule, if there are any.
fails() {
    [ -z "$2" ] && return
    printf '%s:\n%s\n' "$1" "$2"
    failures=$((failures + 1))
}

# sources FOLDER...: the C files in there, CUDA's too.
sources() {
    for folder in "$@"; do
        [ ! -d "$folder" ] || find "$folder" -name '*.[ch]' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh'
    done
}

# matches PATTERN FOLDER...: the lines of those folders that match.
matches() {
    pattern=$1
    shift
    sources "$@" | xargs -r grep -nHE "$pattern" || true
}

# may_include FOLDER ALLOWED: includes of project folders in FOLDER that are not its own nor match ALLOWED.
may_include() {
    lines=$(matches '^#include "(base|device|alloc|trace|model|whatif|page|api|record|torch|cli|kernels|bench|tests)/' "$1" | grep -vE "#include \"($2)/" || true)
    fails "$1 may include only: $2" "$lines"
}

may_include src/base 'base'
may_include kernels 'kernels|base'
may_include src/device 'device|base|kernels'
may_include src/alloc 'alloc|base|device'
may_include src/trace 'trace|base'
may_include src/model 'model|base|device|alloc|kernels'
may_include src/torch 'torch|base|device|alloc|trace'
may_include src/whatif 'whatif|base|device|alloc|trace'
may_include src/page 'page|base|trace'
may_include src/api 'api|base|device|alloc|trace|kernels'
may_include src/record 'record|base|device|trace'
may_include src/cli 'cli|base|device|alloc|trace|model|whatif|page|record'

fails 'includes name the folder, not the way to it' "$(matches '#include "\.' src kernels)"
# Without its folder an include would escape the rules above; what CMake generates (mt_*.h) has none.
fails 'includes name the folder' "$(matches '#include "[^/"]*"' src | grep -vE '"mt_[a-z_]+\.h"' || true)"
fails 'sqlite3.h is for src/trace only' \
    "$(matches '#include [<"]sqlite3' src/base src/device src/alloc src/model src/whatif src/page src/api src/record src/torch src/cli kernels)"
fails 'CUDA headers are for src/device, folders called cuda or cupti, and kernels/cuda only' \
    "$(matches '#include [<"](cuda|cublas|cupti|nvtx)' src/base src/alloc src/trace src/model src/whatif src/page src/api src/record src/torch \
        src/cli kernels/cpu | grep -vE '^[^:]*/(cuda|cupti)/' || true)"
fails 'only src/cli prints to stdout' \
    "$(matches '[^a-z_](printf|puts|putchar) *\(|stdout' src/base src/device src/alloc src/trace src/model src/whatif src/page src/api src/record src/torch kernels)"
fails 'only src/cli exits' \
    "$(matches '[^a-z_](exit|_exit|_Exit|quick_exit) *\(' src/base src/device src/alloc src/trace src/model src/whatif src/page src/api src/record src/torch kernels)"

# What calls a library may have no command line. Advice is data; nsys is another program.
fails 'only src/cli names options of the command line' \
    "$(matches '"([^"]*[^-"])?--[a-z]' src | grep -vE '^src/cli/|^src/whatif/hints.c:|nsys|cuda-memory-usage' || true)"

# Two files of one name make a message that names one ambiguous.
fails 'file names are unique in the tree' "$(sources src kernels | sed 's|.*/||' | sort | uniq -d)"

[ "$failures" -eq 0 ] || exit 1
echo "the floors hold"
