#!/bin/sh
# Usage: package.sh PYTHON SOURCE FILE
#        package.sh PYTHON SOURCE except FILE...
# Runs the tests of the package in FILE, or in all files except some. Exits with 77 (skipped) where that Python has no
# pytest or torch.
set -eu
python=$1
cd "$2/tests/python"
shift 2
export PYTHONDONTWRITEBYTECODE=1
"$python" -c 'import pytest, torch' 2>/dev/null || { echo "skipped: $python has no pytest, or no torch"; exit 77; }
if [ "$1" = except ]; then
    shift
    for file; do
        set -- "$@" "--ignore=$file"
        shift
    done
    set -- "$@" .
fi
exec "$python" -m pytest -q -p no:cacheprovider --durations=10 "$@"
