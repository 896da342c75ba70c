#!/bin/sh
# Usage: cycles.sh ROOT
# Checks that no two files of the tree include each other, directly or by others: a file is a source with its header. First
# makes a small tree with such a cycle, and one without, to see that the check tells them apart. Exits with 77 if there is no
# python3.
set -eu
figures=$1/tools/source-figures
command -v python3 >/dev/null || exit 77
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/src/base" "$tree/kernels" "$tree/include"
echo '#include "base/b.h"' >"$tree/src/base/a.c"
echo '#include "base/c.h"' >"$tree/src/base/b.h"
echo '#include "base/c.h"' >"$tree/src/base/c.c"
touch "$tree/src/base/a.h" "$tree/src/base/c.h"
python3 "$figures" --only-cycles "$tree" || { echo 'a cycle is found where there is none'; exit 1; }
echo '#include "base/a.h"' >"$tree/src/base/c.c"
if python3 "$figures" --only-cycles "$tree" >/dev/null; then
    echo 'a cycle of three files is not found'
    exit 1
fi
python3 "$figures" --only-cycles "$1"
