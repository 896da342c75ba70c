/* The examples in the commands' help work as printed, one after another in one folder. */
#include "two_runs.h"

/* Runs the lines under "Examples:" of each command, as printed. The programs in them do nothing. So fit and sweep are
 * not tested with a program, which must allocate memory (tests/python/test_many_dry_runs.py), nor is check
 * (tests/python/test_program_budgets.py), and Parquet is tested in tests/python/test_fleet.py. The snapshots are our
 * own, also the two ranks' snapshots. The runs `small` and `large` are for fit, and the newest run is one of ours. */
static void the_examples_work(void **state)
{
    (void)state;
    const struct said *said = shell(
        "set -e; python3 \"$D\"/import/nccl.py log nccl_memory.Rank_0.scribe;"
        " PATH=$PWD:$PATH; ln -s \"$M\" memtrace;"
        " touch train.py; for program in python3 simulate torchrun; do echo '#!/bin/sh' >$program; chmod +x $program; "
        "done;"
        " for name in snapshot.pickle before.pickle.gz after.pickle.gz; do"
        "   memtrace export --run first --format pickle -o $name; done; echo '# none' >mine.rules;"
        " for rank in 0 1; do cp snapshot.pickle rank$rank.pickle; done;"
        " memtrace import rank0.pickle rank1.pickle --trace ranks.db >ranks.txt;"
        " cp \"$D\"/import/profile_cpu.pt.trace.json.gz step.pt.trace.json.gz;"
        " memtrace import \"$D\"/import/program_expandable_llama.pickle.gz --name small >small.txt;"
        " memtrace import \"$D\"/import/program_hf_trainer_llama.pickle.gz --name large >large.txt;"
        " memtrace " TINY "--device sim --steps 2 --name newest >newest.txt;"
        " for c in $(memtrace help | sed -n 's/^  \\([a-z]*\\)  .*/\\1/p'); do"
        "   memtrace $c --help | sed -e '1,/^Examples:/d' -e '/^ *memtrace fit .*train.py/d' -e '/^ *memtrace sweep "
        ".*train.py/d' -e '/^ *memtrace fleet /d' -e '/memtrace.toml/d' -e '/^ *memtrace "
        "\\(train\\|--device\\|torchrun\\)/d' -e '/--format "
        "parquet/d'"
        "     >examples.sh; echo; echo $c $(wc -l <examples.sh);"
        "   sh -e examples.sh >examples.txt;"
        " done");
    if (said->code != 0)
        fail_msg("%s\n%s", said->out, said->err);
    assert_says(said->out, "categories 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_WITH_TWO_RUNS(the_examples_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
