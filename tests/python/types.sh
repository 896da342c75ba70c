#!/bin/sh
# Usage: types.sh PYTHON SOURCE
# Checks the types of the package, and of a program that uses it, strictly: what is ignored there must be wrong. Exits with 77
# (skipped) where that Python has no mypy or torch.
set -eu
python=$1
cd "$2/python"
"$python" -c 'import mypy, torch' 2>/dev/null || { echo "skipped: $python has no mypy, or no torch"; exit 77; }
exec "$python" -m mypy --config-file ../pyproject.toml --cache-dir "$(dirname "$python")/../mypy" memtrace ../tests/python/typed_program.py
