/* `memtrace record` when something prevents recording: it prints one line on stderr, and the program runs as if it had
 * been started alone. */
#include "record_fixture.h"

static void what_is_asked_wrongly_is_said(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("record");
    assert_int_equal(said->code, 2);
    assert_says(said->err, "which program?");
    said = MEMTRACE("record --stpe x true");
    assert_int_equal(said->code, 2);
    assert_says(said->err, "did you mean \"--step\"");
    assert_int_equal(MEMTRACE("record --device -1 true")->code, 2);
    assert_int_equal(MEMTRACE("record --help")->code, 0);
}

static void what_keeps_from_recording_is_one_line_and_the_program_runs(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"CUDA_INJECTION64_PATH=/other.so \"$M\" record --no-torch -- sh -c 'echo $CUDA_INJECTION64_PATH'",
         "another tool is there"},
        {"\"$M\" record --trace nowhere/x.db -- echo /other.so", "can't be written"},
        {"echo text >x.db; \"$M\" record --trace x.db -- echo /other.so && grep -q text x.db", "x.db is not a trace"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("%s", cases[i][0]);
        assert_int_equal(said->code, 0);
        assert_string_equal(said->out, "/other.so\n");
        assert_says(said->err, cases[i][1]);
        assert_ptr_equal(strchr(said->err, '\n') + 1, said->err + strlen(said->err));
    }
}

/* Runs a copy of the program without its library. */
static void a_library_that_is_not_there_is_one_line_and_the_program_runs(void **state)
{
    (void)state;
    const struct said *said =
        shell("mkdir -p a/b && cp \"$M\" a/b/alone && a/b/alone record -- sh -c 'echo ran; exit 3'");
    assert_int_equal(said->code, 3);
    assert_string_equal(said->out, "ran\n");
    assert_says(said->err, "libmemtrace_inject.so");
    assert_says(said->err, "; the program runs without being recorded\n");
    assert_ptr_equal(strchr(said->err, '\n') + 1, said->err + strlen(said->err));
}

static void a_python_package_that_is_not_there_is_said_and_the_program_runs(void **state)
{
    (void)state;
    const struct said *said = shell("mkdir -p a/b && cp \"$M\" a/b/alone && MEMTRACE_TORCH_LIBRARY=\"$M\" "
                                    "a/b/alone record -- sh -c 'echo ran'");
    assert_int_equal(said->code, 0);
    assert_string_equal(said->out, "ran\n");
    assert_says(said->err, "the Python package was not found with the program");
    assert_ptr_equal(strchr(said->err, '\n') + 1, said->err + strlen(said->err));
}

#ifdef MT_FAKE_CUDA

/* With a driver, and without one. */
static void a_program_without_cuda_is_told_so_in_one_line(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("record -- sh -c 'exit 9'");
    assert_int_equal(said->code, 9);
    assert_says(said->err, "so there was nothing to record\n");
    assert_ptr_equal(strchr(said->err, '\n') + 1, said->err + strlen(said->err));
    assert_int_not_equal(access("memtrace.db", F_OK), 0);
}

/* The system has a signal for this that ends a process. */
static void a_limit_of_file_sizes_ends_the_trace_and_not_the_program(void **state)
{
    (void)state;
    const struct said *said = shell("ulimit -f 2048; " RECORD "take 0 7 say x exit 3");
    assert_int_equal(said->code, 3);
    assert_string_equal(said->out, "x\n");
    assert_says(said->err, "File too large");
}

static int unmount(void **state)
{
    shell("umount full");
    return leave_folder(state);
}

/* Otherwise the program would seem to have used no CUDA. */
static void a_full_disk_for_answers_is_said_and_the_program_runs(void **state)
{
    (void)state;
    if (shell("mkdir full && mount -t tmpfs -o size=64k none full")->code != 0) {
        print_message("no permission to mount a small disk\n");
        skip();
    }
    shell("head -c 100000 /dev/zero >full/filler");
    const struct said *said = shell("TMPDIR=$PWD/full " RECORD "take 0 7 say x exit 3");
    assert_int_equal(said->code, 3);
    assert_string_equal(said->out, "x\n");
    assert_says(said->err, "No space left on device; the program runs without being recorded\n");
}

static void what_keeps_a_process_from_being_recorded_is_one_line(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"FAKE_CUPTI_VERSION=7 ", "CUPTI is of version 7, and this was built with"},
        {"FAKE_CUPTI_USER=Nsight ", "CUPTI is in use by Nsight; this process is not recorded"},
        {"FAKE_CUPTI_REFUSES=callbacks ", "cuptiEnableCallback: as the test says"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("%s" RECORD "take 0 1000 push a launch sum pop say x exit 6", cases[i][0]);
        assert_int_equal(said->code, 6);
        assert_string_equal(said->out, "x\n");
        assert_says(said->err, cases[i][1]);
        assert_ptr_equal(strchr(said->err, '\n') + 1, said->err + strlen(said->err));
        assert_int_not_equal(access("memtrace.db", F_OK), 0);
    }
}

/* The trace has become another file since `memtrace record` checked it. Then another tool may use CUPTI. */
static void a_trace_that_can_not_be_opened_is_one_line_and_cupti_is_free(void **state)
{
    (void)state;
    static const char *const options[] = {"", "--kernels "};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        const struct said *said =
            shell("rm -f memtrace.db; " SET_FAKE "\"$M\" record %s-- sh -c 'echo text >memtrace.db; exec \"$F\" "
                  "take 0 7 push a launch sum pop uses hears exit 6'",
                  options[i]);
        assert_int_equal(said->code, 6);
        assert_string_equal(said->out, "CUPTI is free\nlaunches are not heard\n");
        assert_says(said->err, "memtrace.db is not a trace (not an SQLite database); this process is not recorded\n");
        assert_ptr_equal(strchr(said->err, '\n') + 1, said->err + strlen(said->err));
        assert_string_equal(shell("cat memtrace.db")->out, "text\n");
    }
}

/* Another tool in the program may use it. */
static void cupti_is_free_where_it_can_not_be_listened_with(void **state)
{
    (void)state;
    assert_string_equal(shell("FAKE_CUPTI_REFUSES=callbacks " RECORD "take 0 7 uses")->out, "CUPTI is free\n");
    assert_string_equal(shell(RECORD "take 0 7 uses")->out, "CUPTI is in use\n");
}

static void where_kernels_can_not_be_had_memory_is_recorded(void **state)
{
    (void)state;
    const struct said *said =
        shell("FAKE_CUPTI_REFUSES=kernels \"$M\" record --kernels -- " FAKE "take 0 1000 launch sum exit 2");
    assert_int_equal(said->code, 2);
    assert_says(said->err, "; this process is recorded without its kernels\n");
    assert_peak("1", 1000, "Device");
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        RECORD_TEST(what_is_asked_wrongly_is_said),
        RECORD_TEST(what_keeps_from_recording_is_one_line_and_the_program_runs),
        RECORD_TEST(a_library_that_is_not_there_is_one_line_and_the_program_runs),
        RECORD_TEST(a_python_package_that_is_not_there_is_said_and_the_program_runs),
#ifdef MT_FAKE_CUDA
        RECORD_TEST(a_program_without_cuda_is_told_so_in_one_line),
        RECORD_TEST(a_limit_of_file_sizes_ends_the_trace_and_not_the_program),
        cmocka_unit_test_setup_teardown(a_full_disk_for_answers_is_said_and_the_program_runs, enter, unmount),
        RECORD_TEST(what_keeps_a_process_from_being_recorded_is_one_line),
        RECORD_TEST(a_trace_that_can_not_be_opened_is_one_line_and_cupti_is_free),
        RECORD_TEST(cupti_is_free_where_it_can_not_be_listened_with),
        RECORD_TEST(where_kernels_can_not_be_had_memory_is_recorded),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
