#!/bin/sh
# Usage: format.sh CLANG_FORMAT ROOT
# Fails with the places where C or C++ of the tree is not as .clang-format has it. Versions of clang-format differ in
# what they make of the same settings, so the tree is written for one: 14.
set -eu
clang_format=$1
cd "$2"
find src kernels tests bench \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.cu' \) \
    -exec "$clang_format" --dry-run --Werror {} +
