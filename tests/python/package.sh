#!/bin/sh
# Usage: package.sh PYTHON SOURCE
# Runs the tests of the package. Exits with 77 (skipped) where that Python has no pytest or torch.
set -eu
python=$1
cd "$2/tests/python"
export PYTHONDONTWRITEBYTECODE=1
"$python" -c 'import pytest, torch' 2>/dev/null || { echo "skipped: $python has no pytest, or no torch"; exit 77; }
exec "$python" -m pytest -q -p no:cacheprovider .
