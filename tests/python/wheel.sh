#!/bin/sh
# Usage: wheel.sh PYTHON SOURCE
# Builds the wheel, without optimization and without what nvcc compiles, installs it into an empty environment, and does there
# what the README does: imports a snapshot of PyTorch, asks for advice, and asks in Python. pytest finds its plugin there, and a
# recorded program the package. Exits with 77 (skipped) where PYTHON has no scikit-build-core.
set -eu
python=$1 source=$2
"$python" -c 'import scikit_build_core' 2>/dev/null || { echo "skipped: $python has no scikit-build-core"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

die() {
    echo "$*"
    exit 1
}

"$python" -m pip wheel -q --no-build-isolation --no-deps --no-index -w . -Ccmake.define.MT_CUDA_KERNELS=OFF \
    -Ccmake.define.MT_LINK_TIME_OPTIMIZATION=OFF -Ccmake.define.CMAKE_C_FLAGS_RELEASE=-O0 \
    -Ccmake.define.CMAKE_CXX_FLAGS_RELEASE=-O0 "$source/python" >log 2>&1 || { tail -n 40 log; die "no wheel was built"; }
wheel=$(echo memtrace_gpu-*-py3-none-linux_*.whl)
[ -f "$wheel" ] || die "the wheel is not for every Python 3: $(ls)"

"$python" -m venv empty
unset PYTHONPATH LD_LIBRARY_PATH
empty/bin/python -m pip install -q --no-index "$wheel"
snapshot=$source/tests/data/import/pytorch_h200_2.7B_seq256_fp32.pickle.gz
env -i empty/bin/memtrace import "$snapshot" --name fp32 >said
grep -q '^optimizer state *25.38 GiB' said || { cat said; die "the snapshot was not imported"; }
env -i empty/bin/python -m memtrace advise >said
grep -q 'zero_grad' said || { cat said; die "there is no advice"; }
env -i empty/bin/python -c 'import memtrace; print(memtrace.open("memtrace.db").peak().bytes)' >said
[ "$(cat said)" -gt 60000000000 ] || die "the peak in Python is $(cat said)"
PYTHONPATH=$(echo empty/lib/python3*/site-packages) "$python" -m pytest --markers >said
grep -q 'memtrace_limit_memory' said || die "pytest does not find the plugin"

# Where there is the library for PyTorch, the program finds the package's way into other interpreters.
native=$(echo empty/lib/python3*/site-packages/memtrace/native)
if [ -f "$native/libmemtrace_torch.so" ]; then
    env -i PATH="$PATH" empty/bin/memtrace record -- python3 -c 'import os; print(os.environ["PYTHONPATH"])' >said 2>log
    [ -f "$(cat said)/sitecustomize.py" ] || { cat said log; die "recorded programs do not find the package"; }
fi

# Of the system it needs the C library and the C++ one alone; CUDA's, where modules need them, come with CUDA.
needs=$(objdump -p "$native"/* | awk '$1 == "NEEDED" { print $2 }' | sort -u |
    grep -vE '^(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|jansson)|ld-linux-x86-64|lib(cublas|cublasLt|cupti))\.so\.[0-9.]+$' || true)
[ -z "$needs" ] || die "the wheel needs these libraries: $needs"
echo "built, installed and used: $(du -h "$wheel" | cut -f 1)"
