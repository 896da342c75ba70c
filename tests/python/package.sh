#!/bin/sh
# Usage: package.sh PYTHON SOURCE dry|other
# Runs half of the tests of the package, the dry runs or the others, so that both run at the same time. Exits with 77
# (skipped) where that Python has no pytest or torch.
set -eu
python=$1
cd "$2/tests/python"
export PYTHONDONTWRITEBYTECODE=1
"$python" -c 'import pytest, torch' 2>/dev/null || { echo "skipped: $python has no pytest, or no torch"; exit 77; }
set -- "$3" test_dry_*.py test_many_dry_runs.py test_import_hook.py
half=$1
shift
if [ "$half" = other ]; then
    for file; do
        set -- "$@" "--ignore=$file"
        shift
    done
    set -- "$@" .
fi
exec "$python" -m pytest -q -p no:cacheprovider --durations=10 "$@"
