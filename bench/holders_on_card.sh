#!/bin/sh
# Records programs that waste memory on a card, with --holders and without, and runs them dry with the same PyTorch: what
# advise says first of each, how a dry run differs from the recording, and the time of each run.
#   bench/holders_on_card.sh MEMTRACE FOLDER-OF-PROGRAMS OUT
# Writes OUT/answers.txt, OUT/times.txt and the traces, four programs at a time.
set -u
memtrace=$1 programs=$2 out=$3
mkdir -p "$out"
: >"$out/times.txt"

# timed RUN COMMAND...: runs it in the folder of the programs, and notes its time.
timed() {
    run=$1 begun=$(date +%s%N)
    shift
    (cd "$programs" && timeout 120 "$@") >"$out/$run.log" 2>&1
    code=$?
    echo "$run: $((($(date +%s%N) - begun) / 1000000)) ms, exit code $code" >>"$out/times.txt"
}

# answers TRACE: the first lines of advise.
answers() {
    echo "== $(basename "$1" .db)"
    "$memtrace" advise --trace "$1" 2>&1 | sed '/^run /,$d'
}

compare() {
    words=$1 name=${1%%.py*}
    base=$out/$name
    # shellcheck disable=SC2086 # a program and its arguments
    {
        timed "$name-card" "$memtrace" record --trace "$base-card.db" -- python3 $words
        timed "$name-holders" "$memtrace" record --holders --trace "$base-holders.db" -- python3 $words
        timed "$name-dry" env CUDA_VISIBLE_DEVICES= "$memtrace" dry-run --device sim:h200 --trace "$base-dry.db" -- python3 $words
    }
    {
        for run in card holders dry; do answers "$base-$run.db"; done
        echo "== $name: dry run and recording"
        "$memtrace" diff "$base-dry.db" "$base-card.db" 2>&1 | sed '/^A  run/,$d'
    } >"$base.txt"
}

# The library of dry runs is made once.
env CUDA_VISIBLE_DEVICES= "$memtrace" dry-run --trace "$out/first.db" -- python3 -c 'import torch' >/dev/null 2>&1
rm -f "$out/first.db"
count=0
for words in "p01_val_nograd.py" "p02_train_leak.py" "p03_ckpt_infer.py" "p08_ckpt_more.py one" "p07_amp.py amp" \
    "p09_trainer_eval.py 32" "p10_lora_llama.py lora 1024" "p12_7b.py loop" "p15_frag.py" "p18_kv.py" "p21_zero.py" \
    "p22_oop_opt.py" "p26_gc.py"; do
    compare "$words" &
    count=$((count + 1))
    [ $((count % 4)) -ne 0 ] || wait
done
wait
cat "$out"/p*.txt >"$out/answers.txt"
