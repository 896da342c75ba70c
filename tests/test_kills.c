/* Commands that are killed at any moment: a file has its final name only once it is whole, the file that it would
 * replace stays until then, and the same command does its work afterwards. ATTACKS=… is the number of kills of each
 * command. */
#include "program.h"
#include "seed.h"

#include <dirent.h>
#include <sys/stat.h>
#include <time.h>

enum { KILLS = 6, TRACE_STEPS = 12 };

/* A command that writes `output`, a file of no trace. */
struct writing {
    const char *command, *output;
};

static const struct writing writings[] = {
    {"export blocks --trace trace.db -o new.csv", "new.csv"},
    {"export events --trace trace.db -o new.csv.gz", "new.csv.gz"},
    {"export --format torch --trace trace.db -o new.json", "new.json"},
    {"export --format pickle --trace trace.db -o new.pickle", "new.pickle"},
    {"export --format perfetto --trace trace.db -o new.json.gz", "new.json.gz"},
    {"export --format rmm --trace trace.db -o new.rmm.csv", "new.rmm.csv"},
    {"export --trace trace.db -o new.pb.gz", "new.pb.gz"},
    {"timeline --trace trace.db -o new.html", "new.html"},
    {"check --trace trace.db --largest \"Attn<=64GiB\" --junit new.xml", "new.xml"},
};

/* A command that writes a database. What it leaves under that name when it is killed must be whole. */
static const struct writing databases[] = {
    {"export --format nsys --trace trace.db -o new.sqlite", "new.sqlite"},
    {"verify --trace trace.db --salvage new.db", "new.db"},
    {"import run.pickle --trace new.db", "new.db"},
    {"run --device sim:h100 --model small --seq 64 --steps 12 --trace new.db", "new.db"},
};

static int set_up(void **state)
{
    *state = enter_folder("kills");
    char *temporary = realpath(".", NULL);
    assert_non_null(temporary);
    assert_int_equal(setenv("TMPDIR", temporary, 1), 0);
    free(temporary);
    const struct said *said =
        shell("mkdir in; cd in; \"$M\" run --device sim:h100 --model small --seq 64 --steps %d --trace"
              " trace.db && \"$M\" export --trace trace.db -o run.pickle && cp * ..",
              TRACE_STEPS);
    if (said->code != 0)
        fail_msg("%s", said->err);
    return 0;
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Runs the command to its end. Returns the seconds that it took. */
static double run_to_end(const struct writing *writing)
{
    const double begin = now_s();
    const struct said *said = shell("\"$M\" %s", writing->command);
    if (said->code != 0)
        fail_msg("%s: %s", writing->command, said->err);
    return now_s() - begin;
}

/* Kills the command somewhere in the seconds that it takes. True if it was killed, and had not ended before. */
static bool kill_within(const struct writing *writing, double seconds, uint64_t random)
{
    const double share = (double)(mt_splitmix64(random) % 1000) / 1000;
    return shell("timeout -s KILL %.4f \"$M\" %s", seconds * share + 0.001, writing->command)->code != 0;
}

/* Fails if the folder has a file that was not there: it begins with none of these names. */
static void check_nothing_is_left(const char *output)
{
    static const char *const known[] = {"in",      "trace.db", "run.pickle",    "out.txt",
                                        "err.txt", "whole",    "memtrace-job.", "."};
    DIR *folder = opendir(".");
    const struct dirent *entry;
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        bool is_known = strcmp(entry->d_name, output) == 0;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
            is_known = is_known || strncmp(entry->d_name, known[i], strlen(known[i])) == 0;
        if (!is_known)
            fail_msg("%s was left", entry->d_name);
    }
    closedir(folder);
}

static bool is_same(const char *a, const char *b)
{
    return shell("cmp %s %s", a, b)->code == 0;
}

/* The file is what it was before: absent, or the old one, unless it is whole. */
static void check_output(const struct writing *writing, bool had_file)
{
    const bool is_there = access(writing->output, F_OK) == 0;
    if (is_there && is_same(writing->output, "whole"))
        return;
    if (is_there != had_file || (is_there && !is_same(writing->output, "in/old")))
        fail_msg("%s: %s is neither what it was nor whole", writing->command, writing->output);
}

/* Returns the number of kills that found the command at work. */
static uint64_t attack_writing(const struct writing *writing)
{
    const double seconds = run_to_end(writing);
    uint64_t killed = 0;
    shell("mv %s whole", writing->output);
    for (uint64_t i = 0; i < attack_count(KILLS); i++) {
        const bool had_file = i % 2 == 1;
        shell(had_file ? "echo old | tee in/old >%s" : "rm -f %s", writing->output);
        killed += kill_within(writing, seconds, take_seed());
        check_output(writing, had_file);
        check_nothing_is_left(writing->output);
    }
    run_to_end(writing);
    assert_true(is_same(writing->output, "whole"));
    shell("rm %s", writing->output);
    return killed;
}

static void a_killed_export_leaves_the_file_that_was_there(void **state)
{
    uint64_t killed = 0;
    (void)state;
    for (size_t i = 0; i < sizeof writings / sizeof writings[0]; i++)
        killed += attack_writing(&writings[i]);
    assert_true(killed > 0);
}

/* A trace that a killed process was writing is made whole by the next command; there may be none yet. */
static void check_database(const struct writing *writing, bool was_killed)
{
    struct stat file;
    const bool is_nsys = strstr(writing->command, "nsys") != NULL;
    if (stat(writing->output, &file) != 0 || file.st_size == 0) {
        assert_true(was_killed);
        return;
    }
    const struct said *said = is_nsys ? shell("\"$M\" import %s --trace again.db", writing->output)
                                      : shell("\"$M\" verify --trace %s", writing->output);
    if (said->code != 0 && was_killed && strstr(said->err, "it is empty") != NULL)
        run_to_end(writing); /* before its tables were there: any command may still begin it */
    else if (said->code != 0)
        fail_msg("%s: %s", writing->command, said->err);
}

static void attack_database(const struct writing *writing)
{
    const double seconds = run_to_end(writing);
    for (uint64_t i = 0; i < attack_count(KILLS); i++) {
        shell("rm -rf new.* again.*");
        check_database(writing, kill_within(writing, seconds, take_seed()));
    }
    shell("rm -rf new.* again.*");
    run_to_end(writing);
    check_database(writing, false);
    shell("rm -rf new.* again.*");
}

static void a_killed_command_leaves_a_whole_database_or_none(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof databases / sizeof databases[0]; i++)
        attack_database(&databases[i]);
}

/* A folder of temporary files that a killed process left is removed after a day. */
static void temporary_files_of_killed_commands_are_removed_later(void **state)
{
    const struct writing *nsys = &databases[0];
    (void)state;
    const double seconds = run_to_end(nsys);
    do
        shell("rm -f new.*");
    while (!kill_within(nsys, seconds, take_seed()) || shell("ls -d memtrace-job.*")->code != 0);
    shell("rm -f new.*");
    run_to_end(nsys);
    assert_int_equal(shell("ls -d memtrace-job.*")->code, 0); /* a program that it started may still use it */
    shell("touch -d '2 days ago' memtrace-job.*; rm new.*");
    run_to_end(nsys);
    assert_int_equal(shell("ls -d memtrace-job.*")->code, 2);
}

/* Runs that a trace has already stay whole while another command adds one. */
static void a_killed_addition_leaves_the_runs_before(void **state)
{
    static const struct writing additions[] = {
        {"import run.pickle --trace new.db", "new.db"},
        {"run --device sim:h100 --model small --seq 64 --steps 12 --trace new.db", "new.db"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof additions / sizeof additions[0]; i++) {
        const double seconds = run_to_end(&additions[i]);
        shell("cp trace.db new.db; \"$M\" peak --trace new.db >whole");
        for (uint64_t kill = 0; kill < attack_count(KILLS); kill++) {
            kill_within(&additions[i], seconds, take_seed());
            const struct said *said =
                shell("\"$M\" verify --trace new.db && \"$M\" peak --run 1 --trace new.db >again");
            if (said->code != 0 || !is_same("again", "whole"))
                fail_msg("%s: %s%s", additions[i].command, said->out, said->err);
        }
        shell("rm new.*");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_killed_export_leaves_the_file_that_was_there, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(a_killed_command_leaves_a_whole_database_or_none, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(temporary_files_of_killed_commands_are_removed_later, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(a_killed_addition_leaves_the_runs_before, set_up, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
