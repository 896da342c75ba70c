/* The examples that commands show in their help work, as printed, one after another in one folder. */
#include "two_runs.h"

/* Runs the lines under "Examples:" of each command, as printed; the programs that they name do nothing, and the
 * snapshots are our own. */
static void the_examples_work(void **state)
{
    (void)state;
    const struct said *said =
        shell("PATH=$PWD:$PATH; ln -s \"$M\" memtrace; set -e;"
              " for program in python3 simulate torchrun; do echo '#!/bin/sh' >$program; chmod +x $program; done;"
              " for name in snapshot.pickle before.pickle.gz after.pickle.gz; do"
              "   memtrace export --run first --format pickle -o $name; done; echo '# none' >mine.rules;"
              " for c in $(memtrace help | sed -n 's/^  \\([a-z]*\\)  .*/\\1/p'); do"
              "   memtrace $c --help | sed '1,/^Examples:/d' >examples.sh; echo; echo $c $(wc -l <examples.sh);"
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
