/* Ranks of a dry run on the command line. Shell scripts stand for the ranks. They allocate no memory, so all are equal,
 * and the exit code reports that no dry run took place. */
#include "base/status.h"
#include "program.h"

#define PRINT_RANK "sh -c 'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK'"

static void each_rank_is_run_with_its_place(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("dry-run --jobs 1 --ranks 4 --cards 2 -- " PRINT_RANK);
    assert_int_equal(said->code, MT_NO_DRY_RUN);
    assert_string_equal(said->out, "0/4 0/2 0\n1/4 1/2 0\n2/4 0/2 1\n3/4 1/2 1\n");
}

static void torchruns_words_say_how_many(void **state)
{
    (void)state;
    const struct said *said =
        MEMTRACE("dry-run --jobs 1 -- torchrun --nnodes=1:2 --nproc_per_node 2 --rdzv-id 7 --no-python " PRINT_RANK);
    assert_int_equal(said->code, MT_NO_DRY_RUN);
    assert_string_equal(said->out, "0/4 0/2 0\n1/4 1/2 0\n2/4 0/2 1\n3/4 1/2 1\n");
}

static void more_nodes_than_torchruns_words_say_can_be_asked_for(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE(
        "dry-run --jobs 1 --ranks 512 --only 0,510-511 -- torchrun --nproc-per-node 8 --no-python " PRINT_RANK);
    assert_int_equal(said->code, MT_NO_DRY_RUN);
    assert_string_equal(said->out, "0/512 0/8 0\n510/512 6/8 63\n511/512 7/8 63\n");
}

static void python_is_started_as_torchrun_would(void **state)
{
    (void)state;
    const struct said *said =
        shell("mkdir -p bin; printf '#!/bin/sh\\necho python \"$@\"\\n' >bin/python3; cp bin/python3 bin/torchrun; "
              "chmod +x bin/*;"
              "PATH=$PWD/bin:$PATH \"$M\" dry-run -- torchrun --nproc-per-node 1 train.py --lr 1;"
              "\"$M\" dry-run -- bin/torchrun --nproc-per-node 1 -m my.trainer;"
              "\"$M\" dry-run -- bin/python3 -m torch.distributed.run --standalone --nproc-per-node=1 train.py");
    assert_int_equal(said->code, MT_NO_DRY_RUN);
    assert_string_equal(said->out, "python -u train.py --lr 1\npython -u -m my.trainer\npython -u train.py\n");
}

static void of_many_alike_ranks_some_are_run(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("dry-run --jobs 1 --ranks 12 --cards 4 -- sh -c 'echo $RANK'");
    assert_int_equal(said->code, MT_NO_DRY_RUN);
    assert_string_equal(said->out, "0\n1\n2\n4\n8\n11\n"); /* 12 = 2 * 2 * 3 */
    assert_says(said->err, "rank 0 stands for 12 of 12 ranks");
}

/* Rank 0 waits until rank 1 has ended, and requests rank 3, which was not to be run. */
static void a_rank_that_waits_lets_the_next_begin(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("dry-run --jobs 1 --ranks 4 --only 0,1 -- sh -c '" READ_SETTING(
        "mail", "mail") "cd $mail;"
                        "if [ $RANK = 0 ]; then"
                        "  touch wanted.3 waits.0;"
                        "  until [ -e gone.1 ] && [ -e gone.3 ]; do sleep 0.01; done;"
                        "  rm waits.0;"
                        "fi;"
                        "echo $RANK'");
    assert_int_equal(said->code, MT_NO_DRY_RUN);
    assert_string_equal(said->out, "1\n3\n0\n");
}

/* Ranks 1 and 2 end once both have begun. */
static void ranks_run_side_by_side(void **state)
{
    (void)state;
    const struct said *said =
        MEMTRACE("dry-run --jobs 3 --ranks 3 -- sh -c '"
                 "touch began.$RANK; until [ $RANK = 0 ] || ([ -e began.1 ] && [ -e began.2 ]); do sleep 0.01; done'");
    assert_int_equal(said->code, MT_NO_DRY_RUN);
}

/* The last rank is the first to answer. */
static void ranks_are_reported_in_their_order(void **state)
{
    (void)state;
    const struct said *said = shell("cat >rank.sh <<'END'\n" READ_SETTING(
        "answers", "answers") "\n"
                              "[ $RANK != 1 ] || until [ -e done ]; do sleep 0.01; done\n"
                              "printf 'note\\t%%s\\t0\\tof %%s\\n' $$ $RANK >>\"$answers\"\n"
                              "[ $RANK != 2 ] || touch done\n"
                              "END\n"
                              "\"$M\" dry-run --jobs 2 --ranks 3 -- sh rank.sh");
    assert_int_equal(said->code, MT_NO_DRY_RUN);
    assert_string_equal(said->err, "memtrace: rank 0: of 0\n"
                                   "memtrace: rank 1: of 1\n"
                                   "memtrace: rank 2: of 2\n"
                                   "memtrace: no dry run took place: the program did not import PyTorch\n");
}

static void ranks_that_wait_for_each_other_are_told(void **state)
{
    (void)state;
    const struct said *said =
        MEMTRACE("dry-run --ranks 2 -- sh -c '" READ_SETTING("mail", "mail") "cd $mail; touch waits.$RANK;"
                                                                             "until [ -e stuck ]; do sleep 0.01; done;"
                                                                             "rm waits.$RANK; echo free'");
    assert_int_equal(said->code, MT_NO_DRY_RUN);
    assert_string_equal(said->out, "free\nfree\n");
}

static void after_a_rank_that_fails_no_other_begins(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("dry-run --jobs 1 --ranks 4 -- sh -c 'echo $RANK; exit $((RANK * 7))'");
    assert_int_equal(said->code, 7);
    assert_string_equal(said->out, "0\n1\n");
}

/* A line of src/run/handover.h, from the process that becomes a rank's, or from one that it has started. */
static void what_several_ranks_note_is_told_once(void **state)
{
    (void)state;
    const struct said *said = shell("cat >rank.sh <<'END'\n" READ_SETTING(
        "answers", "answers") "\n"
                              "note() { printf 'note\\t%%s\\t0\\t%%s\\n' \"$1\" \"$2\" >>\"$answers\"; }\n"
                              "note $$ 'all say this'\n"
                              "note $$ 'all say this'\n"
                              "[ $RANK = 1 ] || note $$ 'some say this'\n"
                              "[ $RANK != 3 ] || note $$ 'one says this'\n"
                              "[ $RANK != 5 ] || note 1 'a helper says this'\n"
                              "END\n"
                              "\"$M\" dry-run --ranks 6 -- sh rank.sh");
    assert_int_equal(said->code, MT_NO_DRY_RUN);
    assert_string_equal(said->err, "memtrace: process 1: a helper says this\n"
                                   "memtrace: ranks 0-5: all say this\n"
                                   "memtrace: ranks 0, 2-5: some say this\n"
                                   "memtrace: rank 3: one says this\n"
                                   "memtrace: no dry run took place: the program did not import PyTorch\n");
}

static void a_signal_ends_all(void **state)
{
    (void)state;
    const struct said *said =
        shell("\"$M\" dry-run --jobs 1 --ranks 4 -- sh -c 'echo $RANK; kill -TERM $PPID; exec sleep 20'");
    assert_int_equal(said->code, 128 + 15);
    assert_string_equal(said->out, "0\n");
}

static void the_mail_is_removed(void **state)
{
    (void)state;
    const struct said *said =
        shell("TMPDIR=$PWD/tmp; export TMPDIR; mkdir tmp; \"$M\" dry-run --ranks 2 -- true; ls tmp");
    assert_string_equal(said->out, "");
}

static void a_sweep_runs_the_ranks_of_each_cell_and_of_no_other_number(void **state)
{
    (void)state;
    const struct said *said = shell("\"$M\" sweep --jobs 1 --vary n=2,3 -- torchrun --nproc-per-node @n --no-python "
                                    "sh -c 'echo $RANK/$WORLD_SIZE >>seen; echo not told'");
    assert_int_equal(said->code, 0);
    assert_null(strstr(said->out, "not told"));
    assert_string_equal(shell("cat seen")->out, "0/2\n1/2\n0/3\n1/3\n2/3\n");
}

static void what_ranks_of_a_fit_note_is_told_once(void **state)
{
    (void)state;
    const struct said *said =
        shell("cat >rank.sh <<'END'\n"
              "echo $RANK >>seen\n" READ_SETTING(
                  "answers", "answers") "\n"
                                        "printf 'note\\t%%s\\t0\\tall say this\\n' $$ >>\"$answers\"\n"
                                        "END\n"
                                        "\"$M\" fit --jobs 1 --ranks 4 --only 0,2-3 -- sh rank.sh");
    assert_int_equal(said->code, 8);
    assert_says(said->err, "memtrace: ranks 0, 2-3: all say this\n");
    assert_says(said->err, "the program allocated nothing on a card");
    assert_string_equal(shell("cat seen")->out, "0\n2\n3\n");
}

static void wrong_words_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *words, *says;
    } cases[] = {
        {"--only 1 -- true", "give their number, or run torchrun; see --only and --ranks"},
        {"--ranks 4 --only 4 -- true", "there is no rank 4: there are 4, from 0"},
        {"--ranks 4 --only 1- -- true", "a list of ranks is such as 0,1,510-511"},
        {"--ranks 4 --only 3-1 -- true", "a list of ranks is such as 0,1,510-511"},
        {"--ranks 9 --cards 4 -- true", "9 ranks are no whole number of nodes with 4 each"},
        {"--ranks 9 -- torchrun --nproc-per-node 8 train.py", "9 ranks are no whole number of nodes with 8 each"},
        {"--ranks 8 -- torchrun --nnodes 2 --nproc-per-node 2 train.py",
         "2 nodes with 2 ranks each, and 8 ranks are requested; see --ranks"},
        {"-- torchrun --nproc-per-node gpu train.py", "torchrun --nproc-per-node gpu: a dry run needs a number"},
        {"-- torchrun --nproc-per-node 2", "torchrun: which script?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("\"$M\" dry-run %s", cases[i].words);
        assert_int_equal(said->code, 2);
        assert_says(said->err, cases[i].says);
        said = shell("\"$M\" fit %s", cases[i].words);
        assert_int_equal(said->code, 2);
        assert_says(said->err, cases[i].says);
    }
}

static int enter(void **state)
{
    *state = enter_folder("dry_ranks");
    return 0;
}

#define RANKS_TEST(test) cmocka_unit_test_setup_teardown(test, enter, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RANKS_TEST(each_rank_is_run_with_its_place),
        RANKS_TEST(torchruns_words_say_how_many),
        RANKS_TEST(more_nodes_than_torchruns_words_say_can_be_asked_for),
        RANKS_TEST(python_is_started_as_torchrun_would),
        RANKS_TEST(of_many_alike_ranks_some_are_run),
        RANKS_TEST(a_rank_that_waits_lets_the_next_begin),
        RANKS_TEST(ranks_run_side_by_side),
        RANKS_TEST(ranks_are_reported_in_their_order),
        RANKS_TEST(ranks_that_wait_for_each_other_are_told),
        RANKS_TEST(after_a_rank_that_fails_no_other_begins),
        RANKS_TEST(what_several_ranks_note_is_told_once),
        RANKS_TEST(a_signal_ends_all),
        RANKS_TEST(a_sweep_runs_the_ranks_of_each_cell_and_of_no_other_number),
        RANKS_TEST(what_ranks_of_a_fit_note_is_told_once),
        RANKS_TEST(the_mail_is_removed),
        RANKS_TEST(wrong_words_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
