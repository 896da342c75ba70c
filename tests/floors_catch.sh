#!/bin/sh
# Usage: floors_catch.sh FLOORS_SH
# A check that never fails checks nothing: makes small trees that break one rule each, and demands that FLOORS_SH
# refuses each of them for that rule, and accepts the tree that breaks none.
set -eu
floors=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

# put FILE LINE: a tree that keeps every rule, and FILE with that line in it.
put() {
    rm -rf "$tree/src" "$tree/kernels" "$tree/tests"
    mkdir -p "$tree/src/base" "$tree/src/device/cupti" "$tree/src/device/cuda" "$tree/src/alloc" "$tree/src/trace/store" \
        "$tree/src/trace/query" "$tree/src/producers/model" "$tree/src/analysis" "$tree/src/page" "$tree/src/api" "$tree/src/run" "$tree/src/producers/cuda/cupti" "$tree/src/producers/torch" "$tree/src/cli" "$tree/src/words" "$tree/src/unknown" "$tree/kernels/cpu" \
        "$tree/kernels/cuda" "$tree/tests"
    echo '#include "base/status.h"' >"$tree/src/alloc/alloc.c"
    echo '#include <sqlite3.h>' >"$tree/src/trace/store/store.c"
    echo '#include <cuda_runtime.h>' >"$tree/kernels/cuda/fill.cu"
    printf '#include "trace/query/trace.h"\nint main(void) { printf("x"); exit(0); }\n' >"$tree/src/cli/main.c"
    echo 'void f(void) { fprintf(stderr, "x"); snprintf(0, 0, "x"); at_exit(); }' >"$tree/src/producers/model/model.c"
    printf 'mt_folder(mt_%s)\n' 'base src/base' 'device src/device mt_base' 'alloc src/alloc mt_device' \
        'torch src/producers/torch mt_base' >"$tree/CMakeLists.txt"
    printf 'mt_test(test_%s)\n' 'alloc ROOMS alloc NEEDS tsan' 'none NEEDS program' >"$tree/tests/CMakeLists.txt"
    echo '#include "device/device.h"' >"$tree/tests/rig.h"
    echo "$2" >>"$tree/$1"
}

accepts() {
    put "$1" "$2"
    sh "$floors" "$tree" >"$tree/said" || { echo "refused: $2 in $1"; cat "$tree/said"; exit 1; }
}

# refuses FILE LINE RULE: the floors' words must name RULE and FILE.
refuses() {
    put "$1" "$2"
    if sh "$floors" "$tree" >"$tree/said"; then
        echo "not caught: $2 in $1"
        exit 1
    fi
    grep -q "$3" "$tree/said" && grep -q "${1##*/}" "$tree/said" && return
    echo "caught for another reason: $2 in $1"
    cat "$tree/said"
    exit 1
}

accepts src/base/text.c '#include "base/text.h"'
accepts src/trace/query/peak.c '#include "trace/store/store.h"'
accepts src/trace/query/peak.c '#include "trace/query/query.h"'
accepts src/producers/model/step.c '#include "kernels/kernels.h"'
accepts src/device/gpu.c '#include <cuda_runtime.h>'
accepts src/device/cuda/card.c '#include "kernels/kernels.h"'
accepts src/words/hints.c 'char hint[] = "memtrace run --seq 128";'
accepts tests/test_alloc.c '#include "rig.h"'
accepts tests/test_none.c '#include "bench/report.h"'
accepts src/producers/cuda/cupti/calls.c '#include <cupti.h>'

refuses src/base/text.c '#include "device/device.h"' 'src/base may include only'
refuses kernels/cpu/fill.c '#include "device/device.h"' 'kernels may include only'
refuses src/device/sim.c '#include "alloc/alloc.h"' 'src/device may include only'
refuses src/device/device.c '#include "kernels/kernels.h"' 'src/device may include only'
refuses src/device/cuda/card.c '#include "alloc/alloc.h"' 'src/device/cuda may include only'
refuses src/api/api_run.c '#include "kernels/kernels.h"' 'src/api may include only'
refuses src/alloc/block.c '#include "trace/store/recorder.h"' 'src/alloc may include only'
refuses src/trace/store/ring.c '#include "alloc/alloc.h"' 'may include only'
refuses src/trace/query/peak.c '#include "device/device.h"' 'may include only'
refuses src/trace/store/ring.h '#include "producers/model/config.h"' 'may include only'
refuses src/producers/model/step.c '#include "trace/query/trace.h"' 'src/producers/model may include only'
refuses src/producers/model/step.c '#include "cli/command.h"' 'src/producers/model may include only'
refuses src/cli/run.c '#include "kernels/kernels.h"' 'src/cli may include only'
refuses src/analysis/replay.c '#include "cli/command.h"' 'src/analysis may include only'
refuses src/trace/store/ring.c '#include "trace/query/trace.h"' 'src/trace/store may include only'
refuses src/trace/query/peak.c '#include "trace/export/stacks.h"' 'src/trace/query may include only'
refuses src/analysis/replay.c '#include "trace/query/query.h"' 'trace/query alone includes'
refuses src/producers/model/step.c '#include "alloc/block.h"' 'alloc alone includes'
refuses src/unknown/talk.c 'int talk;' 'lies in no room'
refuses src/page/page.c '#include "alloc/alloc.h"' 'src/page may include only'
refuses src/api/api_run.c '#include "cli/command.h"' 'src/api may include only'
refuses src/trace/store/ring.h '#include "api/joint_sink.h"' 'may include only'
refuses src/trace/store/ring.h '#include "producers/cuda/account.h"' 'may include only'
refuses src/analysis/replay.c '#include "producers/torch/torch_card.h"' 'src/analysis may include only'
refuses src/run/live_run.c '#include <cupti.h>' 'CUDA headers are for'
refuses src/run/live_run.c '#include "producers/torch/torch_card.h"' 'src/run may include only'
refuses src/producers/torch/torch_memory.c '#include <sqlite3.h>' 'sqlite3.h is for src/trace only'
refuses src/producers/torch/torch_memory.c 'void f(void) { puts("x"); }' 'only src/cli prints to stdout'
refuses src/producers/cuda/account_blocks.c 'void f(void) { exit(1); }' 'only src/cli exits'
refuses src/api/api_run.c 'void f(void) { exit(1); }' 'only src/cli exits'
refuses src/alloc/block.c '#include "../trace/store/ring.h"' 'not the way to it'
refuses src/cli/main.c '#include "command.h"' 'name the folder'
refuses src/producers/model/step.c '#include <sqlite3.h>' 'sqlite3.h is for'
refuses src/cli/sql.c '#include "sqlite3.h"' 'sqlite3.h is for'
refuses src/producers/model/step.c '#include <cuda_runtime.h>' 'CUDA headers'
refuses src/trace/store/ring.c '#include <cupti.h>' 'CUDA headers'
refuses kernels/cpu/fill.c '#include <cublas_v2.h>' 'CUDA headers'
refuses src/producers/model/step.c 'void g(void) { printf("x"); }' 'prints to stdout'
refuses src/trace/store/ring.c 'void g(void) { fprintf(stdout, "x"); }' 'prints to stdout'
refuses kernels/cuda/add.cu 'void g(void) { printf("x"); }' 'prints to stdout'
refuses src/alloc/block.c 'void g(void) { exit(1); }' 'only src/cli exits'
refuses src/trace/store/store.c 'void g(void) { _exit(1); }' 'only src/cli exits'
refuses src/device/cupti/name.cpp 'void g(void) { printf("x"); }' 'prints to stdout'
refuses src/trace/store/ring.c 'mt_fail(MT_FAILED, "no room; --trace FILE writes elsewhere");' 'name options'
refuses src/trace/store/ring.c '#define WAY_OUT "--trace FILE"' 'name options'
refuses src/cli/start.c 'int f(void) { return execvp(words[0], words); }' 'starts no process'
refuses src/cli/start.c 'void f(void) { if (fork() == 0) g(); }' 'starts no process'
refuses src/cli/start.c 'void f(void) { mt_children_begin(&children, -1); }' 'starts no process'
refuses src/cli/start.c 'void f(void) { MT_TRY(mt_python_start(&environment)); }' 'starts no process'
refuses src/cli/start.c 'void f(void) { MT_TRY(mt_recorder_open(path, &info, &recorder)); }' 'opens no recorder'
refuses src/base/main.c '/* the second of its name */' 'unique in the tree'
refuses tests/test_none.c '#include "rig.h"' 'a test includes only rooms'
refuses tests/test_alloc.c '#include "producers/torch/dry/dry.h"' 'a test includes only rooms'
echo "every broken floor is caught"
