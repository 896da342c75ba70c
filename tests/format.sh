#!/bin/sh
# Usage: format.sh CLANG_FORMAT ROOT
# Fails with the places where C or C++ of the tree is not as .clang-format has it. Versions of clang-format differ in
# what they make of the same settings, so the tree is written for one: 14. Exit 77 (skipped) without it.
set -eu
clang_format=$1
cd "$2"
version=$("$clang_format" --version 2>/dev/null || echo none)
case $version in
*'version 14.'*) ;;
*)
    echo "clang-format 14 is needed, found: $version"
    exit 77
    ;;
esac
find include src kernels samples tests bench \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) \
    -exec "$clang_format" --dry-run --Werror {} +
