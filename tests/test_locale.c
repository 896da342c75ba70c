/* A locale whose decimal point is a comma: what the program and the library read and write is the same as without. The
 * locale is made here, from the C library's sources; where there are none, this is skipped. */
#include "library_fixture.h"
#include "program.h"

#include <locale.h>
#include <memtrace.h>

#define COMMA "de_DE.UTF-8"

static bool has_locale;

/* Makes the locale in the test's folder, where LOCPATH has the C library look. */
static int set_up(void **state)
{
    char folder[512];
    *state = enter_folder("locale");
    has_locale = shell("localedef --no-archive -i de_DE -f UTF-8 ./" COMMA)->code <= 1 &&
                 shell("test -e " COMMA "/LC_NUMERIC")->code == 0;
    assert_non_null(getcwd(folder, sizeof folder));
    return setenv("LOCPATH", folder, 1);
}

static int tear_down(void **state)
{
    setlocale(LC_ALL, "C");
    return leave_folder(state);
}

static void need_locale(void)
{
    if (!has_locale)
        skip();
}

/* Enters the locale, as a program does that speaks its user's language. */
static void enter_locale(void)
{
    if (setlocale(LC_ALL, COMMA) == NULL)
        fail_msg("%s was made, and can't be entered", COMMA);
    assert_string_equal(localeconv()->decimal_point, ",");
}

#define SMALL "--model small --layers 1 --batch 1 --seq 64 "

static void the_program_reads_and_writes_points(void **state)
{
    (void)state;
    static const char *const commands[] = {
        "fit " SMALL "--device sim:24GiB --alloc policy=torch,gc_threshold=0.8 --json",
        "check --max-allocated 0.5GiB --json",
        "peak --json",
        "top --json",
        "events --json",
        "export --format perfetto -o -",
        "cards --json",
    };
    need_locale();
    assert_int_equal(shell("LC_ALL=" COMMA " locale decimal_point")->out[0], ',');
    const struct said *said =
        MEMTRACE("run " SMALL "--steps 1 --device sim:h100 --alloc policy=torch,gc_threshold=0.8 --trace memtrace.db");
    assert_int_equal(said->code, 0);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        char *plain = strdup(shell("LC_ALL=C \"$M\" %s", commands[i])->out);
        said = shell("LC_ALL=" COMMA " \"$M\" %s", commands[i]);
        assert_string_equal(said->err, "");
        assert_string_equal(said->out, plain);
        free(plain);
    }
    said =
        shell("LC_ALL=" COMMA " \"$M\" run " SMALL "--steps 1 --device sim:h100 --alloc policy=torch,gc_threshold=0.8");
    assert_int_equal(said->code, 0);
    assert_string_equal(MEMTRACE("sql --csv \"SELECT value FROM setting WHERE name = 'alloc' AND run = 2\"")->out,
                        MEMTRACE("sql --csv \"SELECT value FROM setting WHERE name = 'alloc' AND run = 1\"")->out);
}

/* Records a run with a fraction in its settings and its measurements. */
static void record(void)
{
    memtrace_run_options options = {
        .size = sizeof options, .trace = TRACE, .device = "sim:24GiB", .alloc = "policy=torch,gc_threshold=0.8"};
    memtrace_run *run = NULL;
    assert_ok(memtrace_run_open(&options, &run));
    memtrace_step_begin(run);
    take(run, 3 * MIB, "Param");
    take(run, MIB / 2, "Gradient");
    assert_ok(memtrace_measure(run, "loss", 0.25));
    memtrace_step_end(run);
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
}

static char *content_of(const char *path)
{
    static char text[OUTPUT_BYTES];
    read_file(path, text);
    return strdup(text);
}

static void a_library_in_a_program_with_a_locale_records_points(void **state)
{
    (void)state;
    need_locale();
    record();
    enter_locale();
    record();
    setlocale(LC_ALL, "C");
    static const char *const questions[] = {"SELECT value FROM setting WHERE name = 'alloc' AND run = ",
                                            "SELECT value FROM measurement WHERE name = 'loss' AND run = ",
                                            "SELECT group_concat(name || '=' || value) FROM setting WHERE run = "};
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        char *first = strdup(shell("\"$M\" sql --csv --trace " TRACE " \"%s1\"", questions[i])->out);
        assert_string_equal(shell("\"$M\" sql --csv --trace " TRACE " \"%s2\"", questions[i])->out, first);
        free(first);
    }
    assert_says(MEMTRACE("sql --trace " TRACE " \"SELECT value FROM setting WHERE name = 'alloc'\"")->out,
                "gc_threshold=0.8");
}

static void a_library_in_a_program_with_a_locale_writes_points(void **state)
{
    (void)state;
    static const memtrace_format formats[] = {MEMTRACE_BLOCKS_CSV, MEMTRACE_EVENTS_CSV, MEMTRACE_FOLDED,
                                              MEMTRACE_PERFETTO};
    const memtrace_run_row *row = NULL;
    need_locale();
    record();
    memtrace_trace *trace = open_trace(&row);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        assert_ok(memtrace_trace_export(trace, row, formats[i], "plain"));
        enter_locale();
        assert_ok(memtrace_trace_export(trace, row, formats[i], "comma"));
        setlocale(LC_ALL, "C");
        char *plain = content_of("plain"), *comma = content_of("comma");
        assert_true(plain[0] != '\0');
        assert_string_equal(comma, plain);
        free(plain);
        free(comma);
    }
    memtrace_trace_close(trace);
}

static void a_library_in_a_program_with_a_locale_says_points(void **state)
{
    (void)state;
    memtrace_run_options options = {.size = sizeof options, .trace = TRACE, .device = "sim:1GiB"};
    memtrace_run *run = NULL;
    memtrace_label label = label_of("Param");
    uint64_t address;
    need_locale();
    enter_locale();
    assert_ok(memtrace_run_open(&options, &run));
    assert_fails(memtrace_take(run, UINT64_C(2560) * MIB, 0, &label, &address), MEMTRACE_OUT_OF_MEMORY, "2.50 GiB");
    assert_fails(memtrace_set_memory_fraction(run, 1.5), MEMTRACE_USAGE, "a fraction of 1.5 of");
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
    assert_string_equal(localeconv()->decimal_point, ",");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_program_reads_and_writes_points, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_library_in_a_program_with_a_locale_records_points, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_library_in_a_program_with_a_locale_writes_points, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_library_in_a_program_with_a_locale_says_points, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
