#!/bin/sh
# Usage: header.sh INCLUDE SOURCE
# The public header is C11 and C++ to every compiler that is there, without a warning, and alone; so are the samples.
set -eu
include=$1
samples=$2/samples
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cat >"$folder/use.cpp" <<'END'
#include <memtrace.h>
#include <memtrace.h>
int main()
{
    memtrace_run_options options = {};
    options.size = sizeof options;
    memtrace_label label = memtrace_label();
    label.size = sizeof label;
    label.role = MEMTRACE_ACTIVATION;
    label.role_source = MEMTRACE_OBSERVED;
    label.dtype = MEMTRACE_F8_E4M3FN;
    memtrace_run *run = nullptr;
    uint64_t address = 0;
    if (memtrace_run_open(&options, &run) != MEMTRACE_OK)
        return 1;
    label.span = memtrace_span(run, "model.layers.0");
    label.stack = memtrace_stack(run, 0, memtrace_frame(run, "main", "use.cpp", 1));
    memtrace_card card = {};
    card.size = sizeof card;
    memtrace_statistics statistics = {};
    statistics.size = sizeof statistics;
    if (memtrace_run_card(run, &card) != MEMTRACE_OK || memtrace_run_statistics(run, &statistics) != MEMTRACE_OK ||
        statistics.counters[MEMTRACE_COUNT_BLOCKS][MEMTRACE_BOTH_POOLS].current > card.memory_bytes)
        return 1;
    const char *const words[] = {"train.py", nullptr};
    memtrace_program_options program_options = {};
    program_options.size = sizeof program_options;
    program_options.words = words;
    const memtrace_program_row *const *rows = nullptr;
    size_t count = 0;
    int exit_code = 0;
    if (memtrace_program_run(&program_options, &exit_code, &rows, &count, nullptr) == MEMTRACE_OK)
        memtrace_free(rows);
    const memtrace_status status = memtrace_take(run, 512, 0, &label, &address);
    const memtrace_outcome outcome = status == MEMTRACE_OK ? MEMTRACE_RUN_DONE : MEMTRACE_RUN_FAILED;
    return memtrace_run_close(run, outcome) == MEMTRACE_OK ? 0 : 1;
}
END

checked=0
# check COMPILER FLAGS...: compiles without a warning, if there is such a compiler.
check() {
    command -v "$1" >/dev/null || return 0
    "$@" -fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -I "$include"
    checked=$((checked + 1))
}

for c in gcc clang; do
    check $c -std=c11 -Wstrict-prototypes "$samples/label.c"
    check $c -std=c11 -Wstrict-prototypes "$samples/ask.c"
done
for cxx in g++ clang++; do
    for standard in c++11 c++17 c++20; do
        check $cxx -std=$standard -Wold-style-cast "$folder/use.cpp"
    done
done
[ $checked -ge 5 ] || { echo "no compiler was found"; exit 1; }
if grep '#include' "$include/memtrace.h" | grep -vE '<(stddef|stdint)\.h>'; then
    echo "the header includes more than the standard's"
    exit 1
fi
echo "$checked compilations without a warning"
