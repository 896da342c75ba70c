#!/bin/sh
# Usage: wheel.sh PYTHON SOURCE
# Builds the wheel, without optimization and without what nvcc compiles, installs it into an empty environment, and does there what
# the README does: runs GPT-2 dry without a compiler, imports a snapshot of PyTorch, asks for advice, and asks in Python. pytest finds
# its plugin there, and a recorded program the package. Exits with 77 (skipped) where PYTHON has no scikit-build-core or transformers.
set -eu
python=$1 source=$2
"$python" -c 'import scikit_build_core, transformers' 2>/dev/null ||
    { echo "skipped: $python has no scikit-build-core, or no transformers"; exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

die() {
    echo "$*"
    exit 1
}

"$python" "$source/tools/dry-libraries" dry --torch "$("$python" -c 'import torch; print(torch.__path__[0])')"
"$python" -m pip wheel -q --no-build-isolation --no-deps --no-index -w . -Ccmake.define.MT_CUDA_KERNELS=OFF \
    -Ccmake.define.MT_LINK_TIME_OPTIMIZATION=OFF -Ccmake.define.CMAKE_C_FLAGS_RELEASE=-O0 \
    -Ccmake.define.CMAKE_CXX_FLAGS_RELEASE=-O0 -Ccmake.define.MT_DRY_LIBRARIES="$folder/dry" "$source" >log 2>&1 || { tail -n 40 log; die "no wheel was built"; }
wheel=$(echo memtrace_gpu-*-py3-none-linux_*.whl)
[ -f "$wheel" ] || die "the wheel is not for every Python 3: $(ls)"

"$python" -m venv empty
unset PYTHONPATH LD_LIBRARY_PATH

# The first five minutes: from the wheel to the page of GPT-2's dry run. It runs under the user's own Python, finds no compiler, and no
# library that was compiled before. That takes 7 to 12 s of processor; it may take 60.
cat >gpt2.py <<'END'
import torch, transformers
model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).cuda()
optimizer = torch.optim.AdamW(model.parameters())
while True:
    tokens = torch.randint(50257, (8, 1024), device="cuda")
    model(tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
END
"$python" - "$wheel" "$python" 2>said <<'END' || { cat said; die "the first dry run failed, or took too long"; }
import os, subprocess, sys
wheel, python = sys.argv[1:]
subprocess.run(["empty/bin/python", "-m", "pip", "install", "-q", "--no-index", wheel], check=True)
environment = {"HOME": os.getcwd(), "PATH": "/none", "CUDA_VISIBLE_DEVICES": ""}
subprocess.run(["empty/bin/memtrace-gpu", "--python", python, "gpt2.py"], env=environment, check=True)
seconds = os.times().children_user + os.times().children_system
print(f"from the wheel to the page: {seconds:.0f} s of processor")
sys.exit(seconds > 60)
END
grep -q ': fits, ' said || { cat said; die "there is no verdict"; }
[ -s memtrace.html ] && grep -q 'wrote memtrace.html' said || { cat said; die "there is no page"; }
! ls .cache/memtrace/dry-* >/dev/null 2>&1 || die "a library was compiled, though the wheel has one"
rm memtrace.db

snapshot=$source/tests/data/import/pytorch_h200_2.7B_seq256_fp32.pickle.gz
env -i empty/bin/memtrace import "$snapshot" --name fp32 >said
grep -q '^optimizer state *25.38 GiB' said || { cat said; die "the snapshot was not imported"; }
env -i empty/bin/python -m memtrace advise >said
grep -q 'zero_grad' said || { cat said; die "there is no advice"; }
env -i empty/bin/python -c 'import memtrace; print(memtrace.open("memtrace.db").peak().bytes)' >said
[ "$(cat said)" -gt 60000000000 ] || die "the peak in Python is $(cat said)"
env -i empty/bin/memtrace mcp --skill >said
grep -q '^name: memtrace' "$(cat said)" || die "agents find no SKILL.md"
PYTHONPATH=$(echo empty/lib/python3*/site-packages) "$python" -m pytest --markers >said
grep -q 'memtrace_limit_memory' said || die "pytest does not find the plugin"

# Where there is the library for PyTorch, the program finds the package's way into other interpreters.
native=$(echo empty/lib/python3*/site-packages/memtrace/native)
if [ -f "$native/libmemtrace_torch.so" ]; then
    env -i PATH="$PATH" empty/bin/memtrace record -- python3 -c 'import os; print(os.environ["PYTHONPATH"])' >said 2>log
    [ -f "$(cat said)/sitecustomize.py" ] || { cat said log; die "recorded programs do not find the package"; }
fi

# Of the system it needs the C library and the C++ one alone; CUDA's, where modules need them, come with CUDA.
needs=$(objdump -p "$native"/memtrace* "$native"/lib* | awk '$1 == "NEEDED" { print $2 }' | sort -u |
    grep -vE '^(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+|jansson)|ld-linux-x86-64|lib(cublas|cublasLt|cupti))\.so\.[0-9.]+$' || true)
[ -z "$needs" ] || die "the wheel needs these libraries: $needs"
echo "built, installed and used: $(du -h "$wheel" | cut -f 1)"
