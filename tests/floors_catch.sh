#!/bin/sh
# Usage: floors_catch.sh FLOORS_SH
# A check that never fails checks nothing: demands that FLOORS_SH accepts a small tree that keeps every rule, and that it
# reports, under the rule that is broken, each line of a tree that breaks them all.
set -eu
floors=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

# A tree that keeps every rule.
plant_tree() {
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
}

# plant FILE LINE [RULE]: adds the line to the file.
plant() {
    echo "$2" >>"$tree/$1"
}

# expect FILE LINE RULE: the line of that file must be reported under RULE; or the file, where a rule is about files.
expect() {
    awk -v file="${1##*/}" -v line="$2" -v rule="$3" '
        /:$/ { is_rule = index($0, rule) }
        is_rule && index($0, file) && (!/:[0-9]+:/ || index($0, line)) { is_reported = 1 }
        END { exit !is_reported }' "$tree/said" || { echo "not caught: $2 in $1"; is_missed=true; }
}

plant_tree
plant src/base/text.c '#include "base/text.h"'
plant src/trace/query/peak.c '#include "trace/store/store.h"'
plant src/trace/query/peak.c '#include "trace/query/query.h"'
plant src/producers/model/step.c '#include "kernels/kernels.h"'
plant src/device/gpu.c '#include <cuda_runtime.h>'
plant src/device/cuda/card.c '#include "kernels/kernels.h"'
plant src/words/hints.c 'char hint[] = "memtrace run --seq 128";'
plant tests/test_alloc.c '#include "rig.h"'
plant tests/test_none.c '#include "bench/report.h"'
plant src/producers/cuda/cupti/calls.c '#include <cupti.h>'
sh "$floors" "$tree" >"$tree/said" || { echo 'refused:'; cat "$tree/said"; exit 1; }

# broken_lines DO: does it with each FILE LINE RULE.
broken_lines() {
    "$1" src/base/text.c '#include "device/device.h"' 'src/base may include only'
    "$1" kernels/cpu/fill.c '#include "device/device.h"' 'kernels may include only'
    "$1" src/device/sim.c '#include "alloc/alloc.h"' 'src/device may include only'
    "$1" src/device/device.c '#include "kernels/kernels.h"' 'src/device may include only'
    "$1" src/device/cuda/card.c '#include "alloc/alloc.h"' 'src/device/cuda may include only'
    "$1" src/api/api_run.c '#include "kernels/kernels.h"' 'src/api may include only'
    "$1" src/alloc/block.c '#include "trace/store/recorder.h"' 'src/alloc may include only'
    "$1" src/trace/store/ring.c '#include "alloc/alloc.h"' 'may include only'
    "$1" src/trace/query/peak.c '#include "device/device.h"' 'may include only'
    "$1" src/trace/store/ring.h '#include "producers/model/config.h"' 'may include only'
    "$1" src/producers/model/step.c '#include "trace/query/trace.h"' 'src/producers/model may include only'
    "$1" src/producers/model/step.c '#include "cli/command.h"' 'src/producers/model may include only'
    "$1" src/cli/run.c '#include "kernels/kernels.h"' 'src/cli may include only'
    "$1" src/analysis/replay.c '#include "cli/command.h"' 'src/analysis may include only'
    "$1" src/trace/store/ring.c '#include "trace/query/trace.h"' 'src/trace/store may include only'
    "$1" src/trace/query/peak.c '#include "trace/export/stacks.h"' 'src/trace/query may include only'
    "$1" src/analysis/replay.c '#include "trace/query/query.h"' 'trace/query alone includes'
    "$1" src/producers/model/step.c '#include "alloc/block.h"' 'alloc alone includes'
    "$1" src/unknown/talk.c 'int talk;' 'lies in no room'
    "$1" src/page/page.c '#include "alloc/alloc.h"' 'src/page may include only'
    "$1" src/api/api_run.c '#include "cli/command.h"' 'src/api may include only'
    "$1" src/trace/store/ring.h '#include "api/joint_sink.h"' 'may include only'
    "$1" src/trace/store/ring.h '#include "producers/cuda/account.h"' 'may include only'
    "$1" src/analysis/replay.c '#include "producers/torch/torch_card.h"' 'src/analysis may include only'
    "$1" src/run/live_run.c '#include <cupti.h>' 'CUDA headers are for'
    "$1" src/run/live_run.c '#include "producers/torch/torch_card.h"' 'src/run may include only'
    "$1" src/producers/torch/torch_memory.c '#include <sqlite3.h>' 'sqlite3.h is for src/trace only'
    "$1" src/producers/torch/torch_memory.c 'void f(void) { puts("x"); }' 'only src/cli prints to stdout'
    "$1" src/producers/cuda/account_blocks.c 'void f(void) { exit(1); }' 'only src/cli exits'
    "$1" src/api/api_run.c 'void f(void) { exit(1); }' 'only src/cli exits'
    "$1" src/alloc/block.c '#include "../trace/store/ring.h"' 'not the way to it'
    "$1" src/cli/main.c '#include "command.h"' 'name the folder'
    "$1" src/producers/model/step.c '#include <sqlite3.h>' 'sqlite3.h is for'
    "$1" src/cli/sql.c '#include "sqlite3.h"' 'sqlite3.h is for'
    "$1" src/producers/model/step.c '#include <cuda_runtime.h>' 'CUDA headers'
    "$1" src/trace/store/ring.c '#include <cupti.h>' 'CUDA headers'
    "$1" kernels/cpu/fill.c '#include <cublas_v2.h>' 'CUDA headers'
    "$1" src/producers/model/step.c 'void g(void) { printf("x"); }' 'prints to stdout'
    "$1" src/trace/store/ring.c 'void g(void) { fprintf(stdout, "x"); }' 'prints to stdout'
    "$1" kernels/cuda/add.cu 'void g(void) { printf("x"); }' 'prints to stdout'
    "$1" src/alloc/block.c 'void g(void) { exit(1); }' 'only src/cli exits'
    "$1" src/trace/store/store.c 'void g(void) { _exit(1); }' 'only src/cli exits'
    "$1" src/device/cupti/name.cpp 'void g(void) { printf("x"); }' 'prints to stdout'
    "$1" src/trace/store/ring.c 'mt_fail(MT_FAILED, "no room; --trace FILE writes elsewhere");' 'name options'
    "$1" src/trace/store/ring.c '#define WAY_OUT "--trace FILE"' 'name options'
    "$1" src/cli/start.c 'int f(void) { return execvp(words[0], words); }' 'starts no process'
    "$1" src/cli/start.c 'void f(void) { if (fork() == 0) g(); }' 'starts no process'
    "$1" src/cli/start.c 'void f(void) { mt_children_begin(&children, -1); }' 'starts no process'
    "$1" src/cli/start.c 'void f(void) { MT_TRY(mt_python_start(&environment)); }' 'starts no process'
    "$1" src/cli/start.c 'void f(void) { MT_TRY(mt_recorder_open(path, &info, &recorder)); }' 'opens no recorder'
    "$1" src/base/main.c '/* the second of its name */' 'unique in the tree'
    "$1" tests/test_none.c '#include "rig.h"' 'a test includes only rooms'
    "$1" tests/test_alloc.c '#include "producers/torch/dry/dry.h"' 'a test includes only rooms'
}

plant_tree
broken_lines plant
! sh "$floors" "$tree" >"$tree/said" || { echo 'a tree that breaks every rule was accepted'; exit 1; }
is_missed=false
broken_lines expect
! $is_missed || { cat "$tree/said"; exit 1; }
echo "every broken floor is caught"
