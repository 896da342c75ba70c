#!/bin/sh
# Usage: peers.sh ROOT MEMTRACE
#
# Opens exports of a run in the programs that they are for, and compares their peaks with memtrace's: _memory_viz.py of
# PyTorch and Mosaic, where the Python TORCH_PYTHON, that of build/venv or python3 has them, and pprof of Go. Exits with
# 77 (skipped) where none of them is installed.
set -eu
root=$1 memtrace=$2
python=${TORCH_PYTHON:-$root/build/venv/bin/python}
[ -x "$python" ] || python=python3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
opened=''

# place MODULE: prints the folder of a module of Python; fails if it is not installed.
place() {
    "$python" -c 'import importlib.util, sys
found = importlib.util.find_spec(sys.argv[1])
print(found.submodule_search_locations[0] if found else sys.exit(1))' "$1" 2>/dev/null
}

"$memtrace" run --vocab 64 --d-model 64 --d-ff 128 --layers 3 --heads 2 --seq 64 --batch 8 --steps 2 --device sim \
    --alloc policy=torch >/dev/null 2>&1
"$memtrace" peak --json >peak.json
"$memtrace" export -o run.pickle 2>/dev/null
"$memtrace" export --at peak -o peak.pickle 2>/dev/null
"$memtrace" export -o run.pb.gz 2>/dev/null

if torch=$(place torch) && [ -f "$torch/cuda/_memory_viz.py" ]; then
    "$python" "$root/tests/peer_sums.py" "$torch/cuda/_memory_viz.py" run.pickle peak.pickle peak.json
    for view in stats trace; do
        "$python" "$torch/cuda/_memory_viz.py" $view run.pickle >/dev/null
    done
    opened="$opened _memory_viz.py"
fi
if mosaic=$(place mosaic) && [ -d "$mosaic/libmosaic" ]; then
    "$python" "$root/tests/peer_sums.py" mosaic run.pickle peak.pickle peak.json
    opened="$opened mosaic"
fi
if command -v go >/dev/null && go tool pprof -top -unit B run.pb.gz >top 2>/dev/null; then
    allocated=$(sed -n 's/.*"allocated_bytes": \([0-9]*\).*/\1/p' peak.json | head -n 1)
    grep -q " of ${allocated}B total" top || { cat top && exit 1; }
    opened="$opened pprof"
fi
[ -n "$opened" ] || { echo 'skipped: there is no PyTorch, no Mosaic and no Go' && exit 77; }
echo "opened in:$opened"
