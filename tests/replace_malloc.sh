#!/bin/sh
# Usage: replace_malloc.sh SAMPLE PROGRAM
# The sample on a card: what it took there is in its trace. Exit 77 (skipped) without one.
set -eu
[ -e /dev/nvidia0 ] || { echo "skipped: there is no card"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$1"
"$2" peak --trace replace_malloc.db >said
cat said
grep -q 'Buffer.*20\.00 MiB.*100\.0 %' said
