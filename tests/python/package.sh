#!/bin/sh
# Usage: package.sh PYTHON SOURCE FILE...
# Runs the tests of the package in the files. Exits with 77 (skipped) where that Python has no pytest or torch.
set -eu
python=$1
cd "$2/tests/python"
shift 2
export PYTHONDONTWRITEBYTECODE=1
"$python" -c 'import pytest, torch' 2>/dev/null || { echo "skipped: $python has no pytest, or no torch"; exit 77; }
exec "$python" -m pytest -q -p no:cacheprovider --durations=10 "$@"
