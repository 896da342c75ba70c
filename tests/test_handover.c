/* The answers of recorded processes to `memtrace record`: they arrive whole, with any text. */
#include "folder.h"
#include "run/handover.h"

#include <pthread.h>
#include <sys/stat.h>

#define ANSWERS "./answers"

enum { THREADS = 4, EACH = 200, MOST = THREADS * EACH };

/* The answers that were read, with copies of the texts. */
static struct {
    struct mt_record_answer answers[MOST];
    char texts[MOST][64];
    size_t count;
} heard;

static void hear(void *context, const struct mt_record_answer *answer)
{
    (void)context;
    assert_true(heard.count < MOST);
    snprintf(heard.texts[heard.count], sizeof heard.texts[0], "%s", answer->text);
    heard.answers[heard.count++] = *answer;
}

static void listen_to_all(void)
{
    heard.count = 0;
    assert_int_equal(mt_record_answers_read(ANSWERS, hear, NULL), MT_OK);
}

static int enter(void **state)
{
    *state = enter_folder("test_handover");
    FILE *file = fopen(ANSWERS, "w");
    fclose(file);
    return 0;
}

static void give(mt_record_answer_kind kind, const char *text)
{
    const struct mt_record_answer answer = {.kind = kind, .pid = 4711, .number = 7, .text = text};
    mt_record_answer_give(ANSWERS, &answer);
}

/* Gives an answer to a file of such a folder, which another user may have made. */
static void give_late(const char *path)
{
    const struct mt_record_answer answer = {.kind = MT_RECORD_NOTE, .pid = 4711, .text = "late"};
    mt_record_answer_give(path, &answer);
}

/* The command has ended, and its folder is gone: what is in its place is not written to. */
static void late_answers_follow_no_link_and_make_no_file(void **state)
{
    (void)state;
    struct stat about;
    assert_int_equal(mkdir("own", S_IRWXU), 0);
    assert_int_equal(symlink("own", "link"), 0);
    assert_int_equal(rename(ANSWERS, "own/answers"), 0);
    give_late("link/answers");
    give_late("own/none");
    give_late("gone/answers");
    assert_int_equal(symlink("answers", "own/linked"), 0);
    give_late("own/linked");
    assert_int_equal(chmod("own", S_IRWXU | S_IRWXG | S_IRWXO), 0); /* what others can change */
    give_late("own/answers");
    assert_int_equal(stat("own/answers", &about), 0);
    assert_int_equal(about.st_size, 0);
    assert_int_equal(access("own/none", F_OK), -1);
    assert_int_equal(access("gone", F_OK), -1);
    assert_int_equal(chmod("own", S_IRWXU), 0);
    give_late("own/answers");
    assert_int_equal(stat("own/answers", &about), 0);
    assert_true(about.st_size > 0);
}

static void answers_are_heard_as_they_were_given(void **state)
{
    (void)state;
    static const char *const texts[] = {"/tmp/a.db", "tab\there", "two\nlines\n", "back\\slash\\n", "\xff", ""};
    enum { TEXTS = sizeof texts / sizeof texts[0] };
    for (int i = 0; i < TEXTS; i++)
        give((mt_record_answer_kind)(i % 3), texts[i]);
    listen_to_all();
    assert_int_equal(heard.count, TEXTS);
    for (int i = 0; i < TEXTS; i++) {
        assert_int_equal(heard.answers[i].kind, i % 3);
        assert_int_equal(heard.answers[i].pid, 4711);
        assert_int_equal(heard.answers[i].number, 7);
        assert_string_equal(heard.texts[i], texts[i]);
    }
}

static void *give_many(void *context)
{
    (void)context;
    for (int i = 0; i < EACH; i++)
        give(MT_RECORD_NOTE, "a note of some length, so that one in another would show");
    return NULL;
}

static void answers_at_once_are_whole(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, give_many, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    listen_to_all();
    assert_int_equal(heard.count, MOST);
}

static void what_is_no_answer_is_passed_over(void **state)
{
    (void)state;
    FILE *file = fopen(ANSWERS, "w");
    fputs("\nrun\nrun\t1\nrun\tx\t1\ta\nrun\t-1\t1\ta\nrun\t1\t99999999999999999999\ta\nsong\t1\t2\ta\nlost\t1\t2\tb",
          file);
    fclose(file);
    listen_to_all();
    assert_int_equal(heard.count, 1);
    assert_string_equal(heard.texts[0], "b");
}

static void a_file_that_can_not_be_read_is_a_failure(void **state)
{
    (void)state;
    assert_int_equal(mt_record_answers_read("nothing", hear, NULL), MT_FAILED);
    assert_int_equal(mt_record_answers_read(".", hear, NULL), MT_FAILED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, enter, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(answers_are_heard_as_they_were_given),         TEST(answers_at_once_are_whole),
        TEST(late_answers_follow_no_link_and_make_no_file), TEST(what_is_no_answer_is_passed_over),
        TEST(a_file_that_can_not_be_read_is_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
