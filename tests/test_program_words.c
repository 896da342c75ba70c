/* Scripts that are named alone, as `memtrace record train.py`: which interpreter runs them. Shell scripts play
 * Python. */
#include "base/status.h"
#include "program.h"

/* Makes an interpreter that prints its folder and its words. */
#define MAKE_PYTHON(folder, name)                                                                                      \
    "mkdir -p " folder " && printf '#!/bin/sh\\necho \"" folder "\" \"$@\"\\n' >" folder "/" name                      \
    " && chmod +x " folder "/" name " && "
#define MAKE_PYTHONS MAKE_PYTHON("found", "python3") MAKE_PYTHON("mine/bin", "python") "touch train.py && "
#define FOUND "PATH=\"$PWD/found:/usr/bin:/bin\" " /* without a torchrun of the machine */
#define ALONE "env -u VIRTUAL_ENV " FOUND

static void expect_code(const struct said *said, int code, const char *out)
{
    if (said->code != code)
        fail_msg("exit code %d: %s", said->code, said->err);
    assert_string_equal(said->out, out);
}

static void expect(const struct said *said, const char *out)
{
    expect_code(said, 0, out);
}

static void a_script_runs_under_the_python3_of_path(void **state)
{
    (void)state;
    expect(shell(MAKE_PYTHONS ALONE "\"$M\" record --no-torch train.py --lr 1"), "found train.py --lr 1\n");
}

static void an_active_environment_is_preferred(void **state)
{
    (void)state;
    expect(shell(MAKE_PYTHONS FOUND "VIRTUAL_ENV=$PWD/mine \"$M\" record --no-torch -- ./train.py --lr 1"),
           "mine/bin ./train.py --lr 1\n");
    expect(shell(FOUND "VIRTUAL_ENV=$PWD/none \"$M\" record --no-torch train.py"), "found train.py\n");
}

static void an_environment_in_the_folder_is_used(void **state)
{
    (void)state;
    expect(shell(MAKE_PYTHONS MAKE_PYTHON(".venv/bin", "python") ALONE "\"$M\" record --no-torch train.py"),
           ".venv/bin train.py\n");
    expect(shell(FOUND "VIRTUAL_ENV=$PWD/mine \"$M\" record --no-torch train.py"), "mine/bin train.py\n");
}

/* Options behind the script are the script's, also those that memtrace has, too. */
static void every_command_that_runs_programs_takes_a_script(void **state)
{
    (void)state;
    expect_code(shell(MAKE_PYTHONS ALONE "\"$M\" dry-run --device sim:h100 train.py --device 1 -h -- --lr"),
                MT_NO_DRY_RUN, "found train.py --device 1 -h -- --lr\n");
    expect_code(shell(ALONE "\"$M\" dry-run --ranks 2 train.py"), MT_NO_DRY_RUN, "found train.py\nfound train.py\n");
    expect(shell("printf '#!/bin/sh\\necho \"$@\" >>words.txt\\n' >found/python3;" ALONE
                 "\"$M\" sweep --vary lr=1,2 train.py --lr @lr >/dev/null && sort words.txt"),
           "train.py --lr 1\ntrain.py --lr 2\n");
    const struct said *said =
        shell("rm words.txt; " ALONE "\"$M\" fit --device sim:h100 train.py --batch 1; cat words.txt");
    assert_says(said->out, "train.py --batch 1\n");
}

static void what_a_shell_can_start_is_left_to_it(void **state)
{
    (void)state;
    expect(shell(MAKE_PYTHONS "printf '#!/bin/sh\\necho own $0 $@\\n' >tool.py && chmod +x tool.py && " ALONE
                              "\"$M\" record --no-torch ./tool.py 1"),
           "own ./tool.py 1\n");
    expect(shell(ALONE "\"$M\" record --no-torch tool.py 1"), "found tool.py 1\n"); /* not in PATH */
    expect(shell("chmod +x train.py; " ALONE "\"$M\" record --no-torch ./train.py"), "found ./train.py\n");
    expect(shell(ALONE "\"$M\" record --no-torch sh -c 'echo $0' train.py"), "train.py\n");
}

static void a_script_may_have_another_name(void **state)
{
    (void)state;
    expect(shell(MAKE_PYTHONS "printf '#!/usr/bin/env python3\\n' >train && " ALONE "\"$M\" record --no-torch train 1"),
           "found train 1\n");
}

static void the_interpreter_that_was_found_is_named(void **state)
{
    (void)state;
    const struct said *said = shell(MAKE_PYTHONS ALONE "\"$M\" record --no-torch train.py");
    assert_says(said->err, "memtrace: train.py runs under ");
    assert_says(said->err, "/found/python3 (PATH)\n");
    said = shell(FOUND "VIRTUAL_ENV=mine \"$M\" dry-run train.py");
    assert_says(said->err, "memtrace: train.py runs under mine/bin/python (VIRTUAL_ENV)\n");
    said = shell(FOUND "VIRTUAL_ENV=none \"$M\" dry-run train.py");
    assert_says(said->err, "/found/python3 (PATH, since VIRTUAL_ENV has no bin/python)\n");
    said = shell("PATH=/none VIRTUAL_ENV= \"$M\" dry-run train.py");
    assert_says(said->err,
                "memtrace: there is no python3 in PATH: name an interpreter that has PyTorch with --python FILE\n");
    said = shell(FOUND "VIRTUAL_ENV=none \"$M\" dry-run --python mine/bin/python train.py 1");
    assert_string_equal(said->out, "mine/bin train.py 1\n");
    assert_null(strstr(said->err, "runs under"));
    expect(shell(ALONE "\"$M\" record --no-torch --python mine/bin/python train.py"), "mine/bin train.py\n");
}

/* No card is to be found, also where there is one. */
static void a_program_alone_runs_dry_without_a_gpu(void **state)
{
    (void)state;
    static const char *const programs[] = {"train.py", "python3 train.py", "--device sim:l4 train.py",
                                           "--python=found/python3 train.py", "start train.py"};
    shell(MAKE_PYTHONS "true");
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        const struct said *said = shell("CUDA_VISIBLE_DEVICES= " ALONE "\"$M\" %s --lr 1", programs[i]);
        expect_code(said, MT_NO_DRY_RUN, "found train.py --lr 1\n");
        assert_true((strstr(said->err, "--device sim:CARD") == NULL) == (strncmp(programs[i], "--device", 8) == 0));
    }
    expect_code(shell("CUDA_VISIBLE_DEVICES= " ALONE "\"$M\" torchrun --nproc-per-node 2 train.py"), MT_NO_DRY_RUN,
                "found -u train.py\nfound -u train.py\n");
    expect_code(shell("printf '#!/bin/sh\\npython3 train.py\\n' >job; chmod +x job; CUDA_VISIBLE_DEVICES= " ALONE
                      "\"$M\" ./job"),
                MT_NO_DRY_RUN, "found train.py\n");
    expect_code(MEMTRACE("trian.py"), MT_USAGE, "");
    assert_says(MEMTRACE("./trian")->err, "memtrace: ./trian: No such file or directory\n");
    expect_code(MEMTRACE("start"), MT_USAGE, "");
}

static void what_is_no_file_is_not_found(void **state)
{
    (void)state;
    const struct said *said = shell(MAKE_PYTHONS "mkdir -p folder.py; " ALONE "\"$M\" record --no-torch trian.py");
    assert_int_equal(said->code, 127);
    assert_says(said->err, "trian.py: No such file or directory");
    assert_int_equal(shell(ALONE "\"$M\" record --no-torch ./folder.py")->code, 126);
}

static int enter(void **state)
{
    *state = enter_folder("words");
    return 0;
}

#define WORDS_TEST(test) cmocka_unit_test_setup_teardown(test, enter, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORDS_TEST(a_script_runs_under_the_python3_of_path),
        WORDS_TEST(an_active_environment_is_preferred),
        WORDS_TEST(an_environment_in_the_folder_is_used),
        WORDS_TEST(every_command_that_runs_programs_takes_a_script),
        WORDS_TEST(what_a_shell_can_start_is_left_to_it),
        WORDS_TEST(a_script_may_have_another_name),
        WORDS_TEST(the_interpreter_that_was_found_is_named),
        WORDS_TEST(a_program_alone_runs_dry_without_a_gpu),
        WORDS_TEST(what_is_no_file_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
