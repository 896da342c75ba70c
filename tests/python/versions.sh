#!/bin/sh
# Usage: versions.sh PYTHON BUILD [VERSION...]
# Runs a short dry run and a short watched run under other versions of PyTorch: the newest that pip finds, and 2.6. Makes an
# environment for each with PYTHON, which takes some GB in TMPDIR at a time. BUILD is a folder with the program, its libraries and
# tests/pytorch. Prints a line for each version, and exits with 1 if one failed, with 77 (skipped) if none could be installed.
set -u
python=$1 build=$(cd "$2" && pwd)
shift 2
[ $# -gt 0 ] || set -- newest 2.6.0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$(dirname "$0")" || exit 1
export MEMTRACE="$build/memtrace" MEMTRACE_TORCH_LIBRARY="$build/tests/pytorch/libfake_torch_library.so"
export PYTHONPATH="$build/python" PYTHONDONTWRITEBYTECODE=1 XDG_CACHE_HOME="$folder/cache"

# Tries one version in an environment of its own. Returns 77 if it can't be installed.
try() {
    torch=torch==$1
    [ "$1" != newest ] || torch=torch
    "$python" -m venv "$folder/venv" || return 77
    "$folder/venv/bin/python" -m pip install -q "$torch" numpy pytest >"$folder/log" 2>&1 || {
        echo "skipped: $torch can't be installed: $(tail -n 1 "$folder/log")"
        return 77
    }
    found=$("$folder/venv/bin/python" -c 'import torch; print(torch.__version__)')
    if "$folder/venv/bin/python" -m pytest -q -p no:cacheprovider test_versions.py test_private_names.py test_labels.py test_stacks.py \
        >"$folder/log" 2>&1; then
        echo "passed: PyTorch $found: $(tail -n 1 "$folder/log")"
        return 0
    fi
    cat "$folder/log"
    echo "failed: PyTorch $found"
    return 1
}

result=77
for version; do
    try "$version"
    code=$?
    rm -rf "$folder/venv"
    [ $code -ne 1 ] || result=1
    [ $code -ne 0 ] || [ $result -eq 1 ] || result=0
done
exit $result
