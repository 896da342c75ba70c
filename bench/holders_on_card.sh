#!/bin/sh
# Records programs that keep memory, with --holders and without, on a card: holders, observations and the time of a step.
#   bench/holders_on_card.sh MEMTRACE FOLDER-OF-PROGRAMS OUT
set -u
memtrace=$1 programs=$2 out=$3
for words in "p01_val_nograd.py" "p02_train_leak.py" "p18_kv.py" "p09_trainer_eval.py 32" "p03_ckpt_infer.py"; do
    name=${words%%.py*}
    for option in "" --holders; do
        trace=$out/$name${option:+-holders}.db
        begun=$(date +%s%N)
        (cd "$programs" && timeout 90 "$memtrace" record $option --trace "$trace" -- python3 $words >"$trace.log" 2>&1)
        echo "$name $option: $((($(date +%s%N) - begun) / 1000000)) ms, exit code $?" >>"$out/times.txt"
        "$memtrace" peak --json --trace "$trace" >"$trace.json" 2>&1
    done
    rm -f "$out/$name.db" "$out/$name-holders.db"
done
