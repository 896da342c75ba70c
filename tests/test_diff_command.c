/* memtrace diff on the command line: the published comparison of fp32 with autocast, against measurements of PyTorch
 * 2.11 on an H200 (tests/data/pytorch_h200.json); the runs it chooses; its output if there is nothing to compare. */
#include "base/status.h"
#include "trace_edit.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { OUTPUT_BYTES = 1 << 20 };

static const double GIB = 1024.0 * 1024 * 1024;

/* The exit code and the output of a command. */
struct said {
    int code;
    char out[OUTPUT_BYTES], err[OUTPUT_BYTES];
};

static void read_file(const char *path, char *text)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, OUTPUT_BYTES - 1, file)] = '\0';
    fclose(file);
}

/* Runs the program; the answer is valid until the next call. */
static const struct said *memtrace(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const struct said *memtrace(const char *format, ...)
{
    static struct said said;
    char arguments[1024], command[2048];
    va_list list;
    va_start(list, format);
    vsnprintf(arguments, sizeof arguments, format, list);
    va_end(list);
    snprintf(command, sizeof command, "'%s' %s >out.txt 2>err.txt </dev/null", MT_PROGRAM, arguments);
    int status = system(command);
    said.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    read_file("out.txt", said.out);
    read_file("err.txt", said.err);
    return &said;
}

static void run(const char *options)
{
    const struct said *said = memtrace("run --device sim %s", options);
    if (said->code != MT_OK)
        fail_msg("run %s: exit code %d: %s", options, said->code, said->err);
}

#define TINY "--vocab 64 --d-model 16 --d-ff 32 --layers 3 --heads 2 --batch 2 "

static json_t *diff_json(const char *arguments)
{
    json_error_t error;
    const struct said *said = memtrace("diff %s --json", arguments);
    if (said->code != MT_OK)
        fail_msg("diff %s: exit code %d: %s", arguments, said->code, said->err);
    json_t *json = json_loads(said->out, 0, &error);
    if (json == NULL)
        fail_msg("line %d: %s", error.line, error.text);
    return json;
}

static int64_t integer_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        fail_msg("%s is no integer", key);
    return json_integer_value(value);
}

static void assert_fails(const char *arguments, int code, const char *part)
{
    const struct said *said = memtrace("diff %s", arguments);
    assert_int_equal(said->code, code);
    assert_string_equal(said->out, "");
    if (strstr(said->err, part) == NULL)
        fail_msg("\"%s\" is not in: %s", part, said->err);
}

/* Every test has its own folder. */
static int set_up(void **state)
{
    char *folder = strdup("test_diff_command.XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    *state = folder;
    return 0;
}

static int tear_down(void **state)
{
    char *folder = *state, command[64];
    assert_int_equal(chdir(".."), 0);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    free(folder);
    return 0;
}

/* Autocast against fp32, as published and as measured. The first measured run (128, forward, fp32) held one workspace
 * of 32 MiB fewer than the others, since its process had not run backward yet: its difference is 0.03 GiB too large. */
static const struct comparison {
    const char *mode;
    int seq;
    double published_gib, measured_gib;
} comparisons[] = {{"fwd", 128, 4.26, 4.30},
                   {"fwd", 256, 2.16, 2.16},
                   {"fwd", 512, -4.95, -4.94},
                   {"fwd_bwd", 128, 4.21, 4.11},
                   {"fwd_bwd", 256, 0.62, 0.46}};

enum { COMPARISONS = sizeof comparisons / sizeof comparisons[0] };

/* The measured peak of reserved bytes. */
static int64_t measured_bytes(const json_t *measured, const struct comparison *comparison, const char *autocast)
{
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(measured, "cs336"), i, row)
    {
        if (integer_of(row, "seq") == comparison->seq &&
            strcmp(json_string_value(json_object_get(row, "mode")), comparison->mode) == 0 &&
            strcmp(json_string_value(json_object_get(row, "autocast")), autocast) == 0)
            return integer_of(row, "peak_reserved_bytes");
    }
    fail_msg("%s at %d was not measured", comparison->mode, comparison->seq);
    return 0;
}

static int64_t sum_of(const json_t *rows, const char *key)
{
    int64_t sum = 0;
    size_t i;
    const json_t *row;
    json_array_foreach(rows, i, row) sum += integer_of(row, key);
    return sum;
}

static bool is_named(const json_t *cause)
{
    const char *kind = json_string_value(json_object_get(cause, "kind"));
    return strcmp(kind, "rounding") != 0 && strcmp(kind, "cached") != 0;
}

/* The part of all bytes that came and went that belongs to tensors, and not to the allocator. */
static double named_part(const json_t *causes)
{
    int64_t named = 0, all = 0;
    size_t i;
    const json_t *cause;
    json_array_foreach(causes, i, cause)
    {
        int64_t bytes = llabs(integer_of(cause, "bytes"));
        all += bytes;
        named += is_named(cause) ? bytes : 0;
    }
    return (double)named / (double)all;
}

/* The row of a sequence length. */
static const json_t *length_of(const json_t *diff, int seq)
{
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(diff, "lengths"), i, row)
    {
        if (integer_of(row, "seq") == seq)
            return row;
    }
    fail_msg("there is no row of length %d", seq);
    return NULL;
}

static void check_published(const json_t *diff, const struct comparison *comparison)
{
    const json_t *published = json_object_get(length_of(diff, comparison->seq), "published");
    assert_true(fabs(json_number_value(json_object_get(published, "delta_gib")) - comparison->published_gib) < 1e-9);
    assert_true(fabs((double)integer_of(published, "delta_measured_bytes") / GIB - comparison->measured_gib) < 0.005);
}

static void check_comparison(const struct comparison *comparison, const json_t *measured, size_t place)
{
    char runs[32];
    snprintf(runs, sizeof runs, "%zu %zu", 2 * place + 1, 2 * place + 2);
    json_t *diff = diff_json(runs);
    int64_t delta = integer_of(diff, "reserved_delta_bytes");
    int64_t expected = measured_bytes(measured, comparison, "bf16") - measured_bytes(measured, comparison, "off");
    const json_t *causes = json_object_get(diff, "reserved_causes");
    print_message("%-7s %3d: %+.3f GiB reserved, PyTorch %+.3f, published %+.2f; %.1f %% of what moved is tensors\n",
                  comparison->mode, comparison->seq, (double)delta / GIB, (double)expected / GIB,
                  comparison->published_gib, 100 * named_part(causes));
    assert_true(fabs((double)expected / GIB - comparison->measured_gib) < 0.005);
    if (!(fabs((double)(delta - expected)) < 0.05 * GIB))
        fail_msg("reserved %+.3f GiB, measured %+.3f", (double)delta / GIB, (double)expected / GIB);
    assert_int_equal(sum_of(causes, "bytes"), delta);
    assert_int_equal(sum_of(json_object_get(diff, "reserved_rows"), "delta_bytes"), delta);
    assert_int_equal(sum_of(json_object_get(diff, "causes"), "bytes"), integer_of(diff, "allocated_delta_bytes"));
    check_published(diff, comparison);
    json_decref(diff);
}

static void the_published_comparison_is_as_measured_and_explained_to_the_byte(void **state)
{
    (void)state;
    json_error_t error;
    json_t *measured = json_load_file(MT_TEST_DATA "/pytorch_h200.json", 0, &error);
    assert_non_null(measured);
    for (size_t i = 0; i < COMPARISONS; i++) {
        for (int autocast = 0; autocast < 2; autocast++) {
            char options[256];
            snprintf(options, sizeof options,
                     "--model 2.7B --batch 4 --alloc policy=torch --steps 4 --mode %s --seq %d --autocast %s",
                     comparisons[i].mode, comparisons[i].seq, autocast ? "bf16" : "off");
            run(options);
        }
    }
    for (size_t i = 0; i < COMPARISONS; i++)
        check_comparison(&comparisons[i], measured, i);
    json_decref(measured);
}

static void assert_pair(const char *arguments, int64_t a, int64_t b)
{
    json_t *diff = diff_json(arguments);
    assert_int_equal(integer_of(json_object_get(diff, "a"), "run"), a);
    assert_int_equal(integer_of(json_object_get(diff, "b"), "run"), b);
    json_decref(diff);
}

static void the_newest_pair_that_differs_in_one_setting_is_chosen(void **state)
{
    (void)state;
    run(TINY "--seq 8");
    run(TINY "--seq 8 --autocast bf16");
    assert_pair("", 1, 2);
    run(TINY "--seq 8 --seed 7");         /* as the first: the seed changes no block */
    run(TINY "--seq 16 --autocast bf16"); /* differs from the second in its length */
    run(TINY "--seq 32 --steps 5");       /* differs from all in two or more */
    assert_pair("", 2, 4);
    run("--model small --seq 8");
    run("--model medium --seq 8"); /* a model's dimensions go with its name */
    assert_pair("", 6, 7);
}

static void runs_are_named_by_number_name_and_file(void **state)
{
    (void)state;
    run(TINY "--seq 8 --name short --trace one.db");
    run(TINY "--seq 16 --name long --trace other.db");
    assert_fails("short long --trace one.db", MT_USAGE, "there is no run \"long\"");
    assert_pair("one.db:short other.db:1", 1, 1);
    assert_pair("short other.db:long --trace one.db", 1, 1);
    run(TINY "--seq 32 --trace other.db");
    assert_pair("one.db other.db", 1, 2); /* the newest of each */
    assert_pair("one.db: other.db:long", 1, 1);
    assert_fails("one.db:short none.db:1 --trace one.db", MT_USAGE, "there is no file \"none.db\"");
}

static void what_cannot_be_compared_is_answered_with_what_to_do(void **state)
{
    (void)state;
    assert_fails("", MT_BAD_TRACE, "memtrace run --trace memtrace.db makes one");
    run(TINY "--seq 8");
    assert_fails("", MT_USAGE, "repeat one with one option changed");
    run(TINY "--seq 8");
    assert_fails("", MT_USAGE, "memtrace diff A B");
    assert_fails("1", MT_USAGE, "name two, memtrace diff A B");
    assert_fails("1 7", MT_USAGE, "there is no run \"7\"");
    assert_fails("1 2 3", MT_USAGE, "one argument too many");
}

static void the_answer_begins_with_the_reason(void **state)
{
    (void)state;
    run("--model small --seq 64 --mode fwd");
    run("--model small --seq 64 --mode fwd --autocast bf16");
    const struct said *said = memtrace("diff");
    assert_int_equal(said->code, MT_OK);
    assert_int_equal(strncmp(said->out, "With autocast bf16 the run needs ", 33), 0);
    assert_non_null(strstr(said->out, "weight casts cached for the autocast region"));
    assert_non_null(strstr(said->out, "They differ in autocast: off → bf16"));
    assert_string_equal(said->err, "");
    assert_non_null(strstr(memtrace("diff 1 1")->out, "needs as much as"));
}

static void a_run_that_is_still_being_written_is_compared_as_far_as_it_is(void **state)
{
    (void)state;
    run(TINY "--seq 8");
    const char *script =
        "'%s' run --device sim " TINY "--seq 8 --autocast bf16 --steps 1000000 >live.txt 2>&1 & live=$!;"
        " for i in $(seq 100); do '%s' diff 1 2 >out.txt 2>err.txt && break; sleep 0.05; done;"
        " kill $live; wait $live; grep -q 'run 2 is still running' err.txt";
    char command[2048];
    snprintf(command, sizeof command, script, MT_PROGRAM, MT_PROGRAM);
    assert_int_equal(system(command), 0);
}

/* Names a run's producer, like dry runs and recordings. */
static void set_recorded(int run, const char *value)
{
    char sql[128];
    snprintf(sql, sizeof sql, "INSERT INTO setting VALUES (%d, 'recorded', '%s')", run, value);
    edit_trace("memtrace.db", sql);
}

static void a_dry_run_and_a_recording_are_compared_by_operator(void **state)
{
    (void)state;
    run(TINY "--seq 16 --steps 2");
    run(TINY "--seq 24 --steps 2");
    set_recorded(1, "dry");
    set_recorded(2, "PyTorch");
    const struct said *said = memtrace("diff 1 2");
    assert_int_equal(strncmp(said->out, "The dry run predicts ", strlen("The dry run predicts ")), 0);
    assert_non_null(strstr(said->out, "% more. By operator, B\nhas +"));
    assert_non_null(strstr(said->out, "by op:"));
    json_t *diff = diff_json("2 1");
    assert_string_equal(json_string_value(json_object_get(diff, "predicted_by")), "b");
    assert_string_equal(json_string_value(json_object_get(diff, "by")), "op");
    json_decref(diff);
    run(TINY "--seq 16 --steps 2");
    set_recorded(3, "PyTorch");
    assert_non_null(strstr(memtrace("diff 1 3")->out, "the recording has as much, to the byte."));
    diff = diff_json("2 3");
    assert_true(json_is_null(json_object_get(diff, "predicted_by")));
    json_decref(diff);
}

/* A recording does not know the tensors that its blocks are for. */
static void a_block_of_an_unknown_tensor_equals_one_of_its_bytes(void **state)
{
    (void)state;
    run(TINY "--seq 16 --steps 2");
    run(TINY "--seq 16 --steps 2");
    /* All blocks are in one place, in one run scalars and matrices, in the other unknown. */
    edit_trace("memtrace.db",
               "UPDATE label SET op = 'x', category = (SELECT min(category) FROM label), role = (SELECT "
               "min(role) FROM label), phase = (SELECT min(phase) FROM label), dtype = 'none', shape = ''; "
               "UPDATE label SET dtype = 'int64' WHERE run = 1 AND id % 2 = 0; UPDATE label SET dtype = "
               "'bf16', shape = '2,2' WHERE run = 1 AND id % 2 = 1; UPDATE event SET span = 0");
    json_t *diff = diff_json("1 2");
    assert_int_equal(json_array_size(json_object_get(diff, "causes")), 0);
    assert_true(json_array_size(json_object_get(diff, "rows")) > 0);
    json_decref(diff);
}

static void doubts_are_noted(void **state)
{
    (void)state;
    run(TINY "--seq 8 --steps 1");
    run(TINY "--seq 8 --steps 2");
    assert_non_null(strstr(memtrace("diff 1 2")->err, "--steps 2"));
    assert_int_equal(memtrace("run --device sim:2GiB --model small --seq 512")->code, MT_OUT_OF_MEMORY);
    const struct said *said = memtrace("diff 2 3");
    assert_int_equal(said->code, MT_OK);
    assert_non_null(strstr(said->err, "run 3 ended out of memory"));
    assert_non_null(strstr(said->err, "settings, so no cause"));
}

/* Checks that a setting which an import does not know is no difference, and that settings of an allocator are compared
 * by their meaning, however they are spelled. */
static void what_one_run_says_nothing_of_is_unknown_and_no_difference(void **state)
{
    (void)state;
    FILE *log = fopen("log.csv", "w");
    assert_non_null(log);
    fputs("Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00:000001,allocate,0x1000,4096,0\n", log);
    assert_int_equal(fclose(log), 0);
    assert_int_equal(memtrace("import log.csv")->code, MT_OK);
    run(TINY "--seq 8 --alloc policy=torch,max_split=off");
    run(TINY "--seq 8 --alloc policy=torch");
    const struct said *said = memtrace("diff 1 2");
    assert_int_equal(said->code, MT_OK);
    assert_non_null(strstr(said->out, "They differ in no setting that both record."));
    assert_non_null(strstr(said->err, "run 1 does not store alloc, attention, autocast, "));
    assert_null(strstr(said->err, "so no cause"));
    json_t *diff = diff_json("1 2");
    assert_int_equal(json_array_size(json_object_get(diff, "settings")), 0);
    const json_t *unknown = json_object_get(diff, "unknown_settings"), *setting;
    size_t index;
    assert_true(json_array_size(unknown) > 10);
    json_array_foreach(unknown, index, setting)
        assert_true(json_is_null(json_object_get(setting, "a")) != json_is_null(json_object_get(setting, "b")));
    json_decref(diff);
    diff = diff_json("2 3");
    assert_int_equal(json_array_size(json_object_get(diff, "settings")), 0);
    assert_int_equal(json_array_size(json_object_get(diff, "unknown_settings")), 0);
    json_decref(diff);
    assert_fails("", MT_USAGE, "differ in one setting only");
}

/* For a run that ended early, only a bound is known. */
static void what_a_run_out_of_memory_needs_is_a_bound(void **state)
{
    (void)state;
    const char *small = "--model small --mode fwd --device sim:2GiB --json";
    assert_int_equal(memtrace("run %s --seq 64", small)->code, MT_OK);
    assert_int_equal(memtrace("run %s --seq 512", small)->code, MT_OUT_OF_MEMORY);
    assert_int_equal(memtrace("run %s --seq 1024", small)->code, MT_OUT_OF_MEMORY);
    const struct said *said = memtrace("diff 1 2");
    assert_non_null(strstr(said->out, "With seq 512 the run needs at least "));
    assert_null(strstr(said->err, "--steps"));
    assert_non_null(strstr(memtrace("diff 2 1")->out, "With seq 64 the run needs at least "));
    said = memtrace("diff 2 3"); /* both */
    assert_non_null(strstr(said->out, "With seq 1024 the run reached "));
    assert_null(strstr(said->out, "at least"));
}

/* Figures of another allocator appear only with its own runs, and not for two runs of one configuration. */
static void published_figures_stand_beside_runs_that_they_are_of(void **state)
{
    (void)state;
    const char *config = "--model 2.7B --batch 4 --mode fwd --seq 128 --steps 1";
    static const char *const rest[] = {"", "--autocast bf16", "--alloc policy=torch",
                                       "--alloc policy=torch --autocast bf16"};
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++)
        assert_int_equal(memtrace("run --device sim %s %s", config, rest[i])->code, MT_OK);
    static const char *const without[] = {"1 2", "1 3", "3 3"};
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++)
        assert_null(strstr(memtrace("diff %s", without[i])->out, "published"));
    assert_non_null(strstr(memtrace("diff 3 4")->out, "18.51 GiB    22.76 GiB"));
    assert_non_null(strstr(memtrace("diff 1 3")->out, "alloc: policy=tight → policy=torch"));
}

/* Checks that a trace is refused as damaged if its events do not add up. */
static void a_damaged_trace_is_refused(void **state)
{
    (void)state;
    static const char *const damages[] = {
        "update event set kind = 99 where id % 7 = 0",
        "update event set kind = 99 where kind = 3",
        "update event set block_bytes = 2 * block_bytes",
        "update summary_peak set bytes = bytes + 512",
    };
    run(TINY "--seq 8 --trace whole.db");
    run(TINY "--seq 16 --trace whole.db");
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        sqlite3 *handle;
        assert_int_equal(system("cp whole.db memtrace.db"), 0);
        assert_int_equal(sqlite3_open("memtrace.db", &handle), SQLITE_OK);
        assert_int_equal(sqlite3_exec(handle, damages[i], NULL, NULL, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_close(handle), SQLITE_OK);
        assert_fails("1 2", MT_BAD_TRACE, "damaged");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_published_comparison_is_as_measured_and_explained_to_the_byte, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_newest_pair_that_differs_in_one_setting_is_chosen, set_up, tear_down),
        cmocka_unit_test_setup_teardown(runs_are_named_by_number_name_and_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_compared_is_answered_with_what_to_do, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_answer_begins_with_the_reason, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_run_that_is_still_being_written_is_compared_as_far_as_it_is, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_dry_run_and_a_recording_are_compared_by_operator, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_block_of_an_unknown_tensor_equals_one_of_its_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(doubts_are_noted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_one_run_says_nothing_of_is_unknown_and_no_difference, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_a_run_out_of_memory_needs_is_a_bound, set_up, tear_down),
        cmocka_unit_test_setup_teardown(published_figures_stand_beside_runs_that_they_are_of, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_trace_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
