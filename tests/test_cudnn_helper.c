/* The process that queries cuDNN, with a cuDNN for tests (fake_cudnn.c): answers and failures. */
#include "folder.h"
#include "operators/cudnn/cudnn_answers.h"
#include "operators/cudnn/cudnn_asker.h"
#include "operators/cudnn/cudnn_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { SECONDS = 1, SIZES = 3 * (1 + 2 + 3 + 4) }; /* SIZES: the sum of a question's sizes */

static struct mt_convolution_question question_of(bool is_deterministic)
{
    struct mt_convolution_question question = {.dtype = MT_SCALAR_FLOAT, .dims = 4, .allows_tf32 = 1};
    struct mt_convolution_tensor tensor = {{1, 2, 3, 4}, {24, 12, 4, 1}, 32};
    question.is_deterministic = is_deterministic;
    question.x = question.w = question.y = tensor;
    return question;
}

static mt_status start(const char *told, struct mt_cudnn_asker **out)
{
    const struct mt_cudnn_start start = {MT_CUDNN_HELPER, MT_FAKE_CUDNN, "{}", SECONDS};
    setenv("FAKE_CUDNN", told, 1);
    return mt_cudnn_asker_start(&start, out);
}

static void the_first_plan_that_pytorch_keeps_is_the_answer(void **state)
{
    struct mt_cudnn_asker *asker;
    struct mt_cudnn_plans plans;
    (void)state;
    assert_int_equal(start("", &asker), MT_OK);
    assert_int_equal(mt_cudnn_asker_version(asker), 91900);
    for (int is_deterministic = 0; is_deterministic <= 1; is_deterministic++) {
        const struct mt_convolution_question question = question_of(is_deterministic);
        assert_int_equal(mt_cudnn_asker_ask(asker, &question, &plans), MT_OK);
        assert_int_equal(plans.plans[0].engine, 40 + is_deterministic);
        assert_int_equal(plans.plans[0].workspace_bytes, SIZES * 100 + 40 + is_deterministic);
        assert_int_equal(plans.rejected_count, 1);
        assert_int_equal(plans.rejected[0].engine, 3);
        assert_int_equal(plans.rejected[0].reason, MT_CUDNN_UNSUPPORTED);
    }
    mt_cudnn_asker_stop(asker);
}

static void all_plans_of_both_lists_are_the_answer_if_they_are_wanted(void **state)
{
    struct mt_convolution_question question = question_of(false);
    struct mt_cudnn_asker *asker;
    struct mt_cudnn_plans plans;
    (void)state;
    question.wants_all = 1;
    assert_int_equal(start("", &asker), MT_OK);
    assert_int_equal(mt_cudnn_asker_ask(asker, &question, &plans), MT_OK);
    assert_int_equal(plans.count, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(plans.plans[i].engine, 40 + i % 2);
    mt_cudnn_asker_stop(asker);
}

static void a_question_without_a_plan_is_answered(void **state)
{
    const struct mt_convolution_question question = question_of(false);
    struct mt_cudnn_asker *asker;
    struct mt_cudnn_plans plans;
    (void)state;
    assert_int_equal(start("none", &asker), MT_OK);
    assert_int_equal(mt_cudnn_asker_ask(asker, &question, &plans), MT_OK);
    assert_int_equal(plans.count, 0);
    mt_cudnn_asker_stop(asker);
}

/* A program may wait for all of its children, and must not wait for the helper. */
static void the_helper_is_no_child(void **state)
{
    struct mt_cudnn_asker *asker;
    (void)state;
    assert_int_equal(start("", &asker), MT_OK);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    mt_cudnn_asker_stop(asker);
}

static void assert_not_started(const char *told, const char *why)
{
    struct mt_cudnn_asker *asker;
    assert_int_equal(start(told, &asker), MT_FAILED);
    assert_non_null(strstr(mt_last_error(), why));
    assert_null(asker);
}

static void what_is_no_use_is_refused(void **state)
{
    (void)state;
    assert_not_started("old", "older than cuDNN 9.8");
    assert_not_started("picky", "cuDNN");
}

static void a_crash_or_a_hang_fails_the_question(void **state)
{
    static const char *const faults[] = {"crash", "hang"};
    const struct mt_convolution_question question = question_of(false);
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct mt_cudnn_asker *asker;
        struct mt_cudnn_plans plans;
        assert_int_equal(start(faults[i], &asker), MT_OK);
        assert_int_equal(mt_cudnn_asker_ask(asker, &question, &plans), MT_FAILED);
        mt_cudnn_asker_stop(asker);
    }
}

/* ---- answers that are kept ---- */

static const char ANSWERS[] = "cudnn-91900-";

/* Finds the file of answers in this folder. */
static void find_file(char out[256])
{
    FILE *list = popen("ls", "r");
    assert_non_null(fgets(out, 256, list));
    pclose(list);
    out[strcspn(out, "\n")] = '\0';
    assert_int_equal(strncmp(out, ANSWERS, sizeof ANSWERS - 1), 0);
}

static void add(int64_t dtype)
{
    struct mt_convolution_question question = question_of(false);
    const struct mt_cudnn_plans plans = {.count = 1, .plans = {{.engine = 1, .workspace_bytes = dtype}}};
    struct mt_cudnn_answers *answers = mt_cudnn_answers_open(".", 91900, "card");
    question.dtype = dtype;
    mt_cudnn_answers_add(answers, &question, &plans);
    mt_cudnn_answers_close(answers);
}

/* Returns the bytes of the answer that is kept; -1 if there is none. */
static int64_t kept(int64_t dtype)
{
    struct mt_convolution_question question = question_of(false);
    struct mt_cudnn_answers *answers = mt_cudnn_answers_open(".", 91900, "card");
    question.dtype = dtype;
    const struct mt_cudnn_plans *plans = mt_cudnn_answers_find(answers, &question);
    const int64_t bytes = plans != NULL ? plans->plans[0].workspace_bytes : -1;
    mt_cudnn_answers_close(answers);
    return bytes;
}

static int enter(void **state)
{
    *state = enter_folder("cudnn");
    return 0;
}

static void answers_are_kept_for_their_question(void **state)
{
    (void)state;
    add(5);
    add(6);
    assert_int_equal(kept(5), 5);
    assert_int_equal(kept(6), 6);
    assert_int_equal(kept(7), -1);
}

static void answers_of_processes_at_the_same_time_are_all_kept(void **state)
{
    enum { PROCESSES = 8 };
    (void)state;
    for (int64_t i = 0; i < PROCESSES; i++)
        if (fork() == 0) {
            add(i);
            _exit(0);
        }
    while (wait(NULL) > 0) {
    }
    for (int64_t i = 0; i < PROCESSES; i++)
        assert_int_equal(kept(i), i);
}

/* As a process leaves it that was killed while writing. */
static void an_unfinished_record_is_replaced(void **state)
{
    char name[256];
    struct stat status;
    (void)state;
    add(5);
    add(6);
    find_file(name);
    assert_int_equal(stat(name, &status), 0);
    assert_int_equal(truncate(name, status.st_size - 10), 0);
    assert_int_equal(kept(6), -1);
    add(7);
    assert_int_equal(kept(5), 5);
    assert_int_equal(kept(7), 7);
}

static void a_damaged_record_is_not_read(void **state)
{
    char name[256];
    (void)state;
    add(5);
    find_file(name);
    const int file = open(name, O_WRONLY);
    assert_int_equal(pwrite(file, "?", 1, 500), 1);
    close(file);
    assert_int_equal(kept(5), -1);
}

static void a_file_that_others_can_write_is_not_read(void **state)
{
    char name[256];
    (void)state;
    add(5);
    find_file(name);
    assert_int_equal(chmod(name, S_IRUSR | S_IWUSR | S_IWOTH), 0);
    assert_int_equal(kept(5), -1);
}

/* ---- the source ---- */

static bool ask(struct mt_cudnn_source *source, bool is_deterministic, struct mt_convolution_answer *out)
{
    const struct mt_card card = mt_card_reference();
    const struct mt_convolution_question question = question_of(is_deterministic);
    return mt_cudnn_source_ask(source, &card, &question, out);
}

/* The first helper answers; the second one would crash at the same question, and does at another. */
static void a_source_asks_once_and_survives_a_crash(void **state)
{
    struct mt_convolution_answer answer;
    (void)state;
    setenv("FAKE_CUDNN", "", 1);
    struct mt_cudnn_source *source = mt_cudnn_source_open(MT_CUDNN_HELPER, MT_FAKE_CUDNN, ".");
    assert_true(ask(source, false, &answer));
    assert_int_equal(answer.workspace_bytes[0], SIZES * 100 + 40);
    assert_false(answer.is_estimate);
    mt_cudnn_source_close(source);

    setenv("FAKE_CUDNN", "crash", 1);
    source = mt_cudnn_source_open(MT_CUDNN_HELPER, MT_FAKE_CUDNN, ".");
    assert_true(ask(source, false, &answer));
    assert_string_equal(mt_cudnn_source_error(source), "");
    assert_false(ask(source, true, &answer));
    assert_non_null(strstr(mt_cudnn_source_error(source), "ended"));
    assert_false(ask(source, false, &answer));
    mt_cudnn_source_close(source);
}

static void a_source_without_a_library_says_so(void **state)
{
    struct mt_convolution_answer answer;
    struct mt_cudnn_source *source = mt_cudnn_source_open(MT_CUDNN_HELPER, "/nowhere/libcudnn.so.9", NULL);
    (void)state;
    assert_false(ask(source, false, &answer));
    assert_non_null(strstr(mt_cudnn_source_error(source), "/nowhere/libcudnn.so.9"));
    mt_cudnn_source_close(source);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, enter, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_plan_that_pytorch_keeps_is_the_answer),
        cmocka_unit_test(all_plans_of_both_lists_are_the_answer_if_they_are_wanted),
        cmocka_unit_test(a_question_without_a_plan_is_answered),
        cmocka_unit_test(the_helper_is_no_child),
        cmocka_unit_test(what_is_no_use_is_refused),
        cmocka_unit_test(a_crash_or_a_hang_fails_the_question),
        IN_FOLDER(answers_are_kept_for_their_question),
        IN_FOLDER(answers_of_processes_at_the_same_time_are_all_kept),
        IN_FOLDER(an_unfinished_record_is_replaced),
        IN_FOLDER(a_damaged_record_is_not_read),
        IN_FOLDER(a_file_that_others_can_write_is_not_read),
        IN_FOLDER(a_source_asks_once_and_survives_a_crash),
        cmocka_unit_test(a_source_without_a_library_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
