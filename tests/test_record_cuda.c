/* `memtrace record` on a card, with the driver's own injection and the installed CUPTI: the trace has the memory that
 * card_words.c takes. Both programs are found beside this one, since a build may have been copied here. */
#undef MT_PROGRAM
#define MT_PROGRAM program_path()
static const char *program_path(void);

#include "gpu.h"
#include "program.h"
#include "sql_answer.h"

#include <limits.h>
#include <signal.h>

/* Returns the path of a file in the folder of this test. */
static const char *path_beside(char *path, const char *name)
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    snprintf(slash != NULL ? slash + 1 : path, 64, "%s", name);
    return path;
}

static const char *program_path(void)
{
    static char path[PATH_MAX + 64];
    return path_beside(path, "../memtrace");
}

static int enter(void **state)
{
    char path[PATH_MAX + 64];
    setenv("CARD", path_beside(path, "card_words"), 1);
    *state = enter_folder("test_record_cuda");
    return 0;
}

#define RECORD "\"$M\" record -- \"$CARD\" "

/* Fails with the program's stderr unless its exit code is `code`. */
static const struct said *expect_code(const struct said *said, int code)
{
    if (said->code != code)
        fail_msg("exit code %d and not %d: %s", said->code, code, said->err);
    return said;
}

/* Requests by function, in order, and the bytes live at the end. Static memory is left out, since it depends on
 * modules. */
#define REQUESTS                                                                                                       \
    "SELECT group_concat(op || ' ' || bytes, ', ') FROM (SELECT l.op AS op, e.requested_bytes AS bytes FROM event AS " \
    "e"                                                                                                                \
    " JOIN event_kind AS k ON k.id = e.kind JOIN label AS l ON l.id = e.label"                                         \
    " WHERE k.name = 'alloc' AND l.category <> 'Static' ORDER BY e.id)"
#define LIVE                                                                                                           \
    "SELECT sum(CASE k.name WHEN 'alloc' THEN e.requested_bytes ELSE -e.requested_bytes END) FROM event AS e"          \
    " JOIN event_kind AS k ON k.id = e.kind LEFT JOIN event AS a ON a.id = e.allocation"                               \
    " JOIN label AS l ON l.id = coalesce(e.label, a.label)"                                                            \
    " WHERE k.name IN ('alloc', 'free') AND l.category <> 'Static'"

static void bytes_are_those_that_the_program_took(void **state)
{
    (void)state;
    const struct said *said = expect_code(shell(RECORD "take 0 1048576 take 1 3000000 give 0 pool 2 2097152 managed 3 "
                                                       "4194304 make 4 2097152 unpool 2 drop 4 say done exit 4"),
                                          4);
    assert_string_equal(said->out, "done\n");
    assert_says(said->err, "memtrace: run 1 of memtrace.db: peak ");
    assert_says(said->err, "(failed)");
    assert_string_equal(ask_trace(REQUESTS), "cudaMalloc 1048576, cudaMalloc 3000000, cudaMallocAsync 2097152,"
                                             " cudaMallocManaged 4194304, cuMemCreate 2097152");
    assert_string_equal(ask_trace(LIVE), "7194304");
    assert_string_equal(ask_trace("SELECT count(*) FROM measurement WHERE name = 'records:told' AND value > 0"), "1");
    assert_string_equal(ask_trace("SELECT device LIKE 'NVIDIA%%' AND capacity_bytes > 0 FROM run"), "1");
}

static void output_and_exit_code_are_the_programs_own(void **state)
{
    (void)state;
    expect_code(shell("\"$CARD\" take 0 1048576 say alone exit 7"), 7);
    const struct said *said = expect_code(shell(RECORD "take 0 1048576 say alone exit 7"), 7);
    assert_string_equal(said->out, "alone\n");
    expect_code(shell(RECORD "take 0 1048576"), 0);
    assert_string_equal(ask_trace("SELECT state FROM run WHERE id = 2"), "done");
}

static void what_a_program_did_before_it_died_is_there(void **state)
{
    (void)state;
    static const char *const ends[] = {"die 15", "die 9", "leave 3"};
    static const int codes[] = {128 + SIGTERM, 128 + SIGKILL, 3};
    for (int i = 0; i < 3; i++) {
        expect_code(shell("rm -f memtrace.db*; " RECORD "take 0 1048576 take 1 3000000 %s", ends[i]), codes[i]);
        assert_string_equal(ask_trace("SELECT state FROM run"), "interrupted");
        assert_string_equal(ask_trace(REQUESTS), "cudaMalloc 1048576, cudaMalloc 3000000");
    }
}

static void a_refused_request_is_the_end_of_memory(void **state)
{
    (void)state;
    expect_code(shell(RECORD "take 0 1048576 refuse 1125899906842624 exit 1"), 1);
    assert_string_equal(ask_trace("SELECT state FROM run"), "oom");
    expect_code(MEMTRACE("oom"), 0);
}

/* One launch before the program uses NVTX, and two in a range and a step. */
static void kernels_belong_to_their_range_and_step(void **state)
{
    (void)state;
    expect_code(
        shell("\"$M\" record --kernels --step it -- \"$CARD\" take 0 1048576 launch nothing push it0 push model "
              "launch nothing launch nothing pop pop launch nothing"),
        0);
    assert_string_equal(ask_trace("SELECT count(*) FROM kernel AS k JOIN kernel_name AS n ON n.id = k.name"
                                  " WHERE n.name = 'nothing'"),
                        "4");
    assert_string_equal(ask_trace("SELECT count(*) FROM kernel AS k JOIN label AS l ON l.id = k.label"
                                  " JOIN span AS s ON s.id = l.span WHERE s.path = 'model' AND k.step = 0"),
                        "2");
    assert_string_equal(ask_trace("SELECT count(*) FROM kernel AS k JOIN label AS l ON l.id = k.label"
                                  " WHERE l.span = 0 AND k.step IS NULL"),
                        "2");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes_are_those_that_the_program_took),      TEST(output_and_exit_code_are_the_programs_own),
        TEST(what_a_program_did_before_it_died_is_there), TEST(a_refused_request_is_the_end_of_memory),
        TEST(kernels_belong_to_their_range_and_step),
    };
    if (!gpu_is_there())
        return SKIPPED;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
