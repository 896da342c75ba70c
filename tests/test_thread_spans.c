/* The open spans of threads, and the layers that their names tell. */
#include "run/thread_spans.h"

#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST_ENDS = 16 };

/* The spans that have ended, in order. */
struct ends {
    mt_span_id spans[MOST_ENDS];
    int count;
};

static void end(void *context, mt_span_id span)
{
    struct ends *ends = context;
    assert_true(ends->count < MOST_ENDS);
    ends->spans[ends->count++] = span;
}

static uint32_t begin(struct mt_thread_spans *spans, mt_span_id span)
{
    return mt_thread_spans_begin(spans, &(struct mt_place){.span = span, .layer = -1});
}

static void an_end_ends_what_is_inside_first(void **state)
{
    (void)state;
    struct ends ends = {0};
    struct mt_thread_spans *spans;
    assert_int_equal(mt_thread_spans_create(end, &ends, &spans), MT_OK);
    assert_null(mt_thread_spans_now(spans));
    assert_int_equal(begin(spans, 1), 0);
    assert_int_equal(begin(spans, 2), 1);
    assert_int_equal(begin(spans, 3), 2);
    assert_int_equal(mt_thread_spans_now(spans)->span, 3);
    mt_thread_spans_end(spans, 1);
    assert_int_equal(ends.count, 2);
    assert_int_equal(ends.spans[0], 3);
    assert_int_equal(ends.spans[1], 2);
    assert_int_equal(mt_thread_spans_depth(spans), 1);
    mt_thread_spans_end(spans, 5);
    assert_int_equal(mt_thread_spans_now(spans)->span, 1);
    mt_thread_spans_destroy(spans);
    assert_int_equal(ends.count, 2);
}

static void *begin_two(void *spans)
{
    assert_int_equal(mt_thread_spans_depth(spans), 0);
    begin(spans, 8);
    begin(spans, 9);
    return NULL;
}

static void the_end_of_a_thread_ends_its_spans(void **state)
{
    (void)state;
    struct ends ends = {0};
    struct mt_thread_spans *spans;
    assert_int_equal(mt_thread_spans_create(end, &ends, &spans), MT_OK);
    begin(spans, 1);
    for (int round = 1; round <= 2; round++) { /* the second thread gets what the first has left */
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, begin_two, spans), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(ends.count, 2 * round);
        assert_int_equal(ends.spans[2 * round - 1], 8);
        assert_int_equal(mt_thread_spans_depth(spans), 1);
    }
    mt_thread_spans_destroy(spans);
}

static void ignore(void *context, mt_span_id span)
{
    (void)context;
    (void)span;
}

/* A program may have taken all thread-specific keys. */
static void a_program_without_a_key_has_no_spans(void **state)
{
    pthread_key_t keys[PTHREAD_KEYS_MAX];
    struct mt_thread_spans *spans;
    int count = 0;
    (void)state;
    while (count < PTHREAD_KEYS_MAX && pthread_key_create(&keys[count], NULL) == 0)
        count++;
    assert_int_equal(mt_thread_spans_create(ignore, NULL, &spans), MT_FAILED);
    assert_null(spans);
    assert_int_equal(begin(spans, 1), 0);
    assert_null(mt_thread_spans_now(spans));
    assert_int_equal(mt_thread_spans_depth(spans), 0);
    mt_thread_spans_end(spans, 0);
    mt_thread_spans_destroy(spans);
    while (count > 0)
        assert_int_equal(pthread_key_delete(keys[--count]), 0);
}

/* Begins spans in new threads until is_over. */
struct churn {
    struct mt_thread_spans *spans;
    atomic_bool is_over;
};

static void *begin_one(void *spans)
{
    begin(spans, 1);
    return NULL;
}

static void *churn(void *given)
{
    struct churn *churn = given;
    while (!churn->is_over) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, begin_one, churn->spans), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
    return NULL;
}

/* The other threads may be anywhere in these functions at the fork. */
static void a_forked_child_has_spans_of_its_own(void **state)
{
    enum { THREADS = 3, FORKS = 300, SECONDS = 5 };
    (void)state;
    struct churn shared = {.is_over = false};
    assert_int_equal(mt_thread_spans_create(ignore, NULL, &shared.spans), MT_OK);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &shared), 0);
    for (int i = 0, code; i < FORKS; i++) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(SECONDS); /* else it could wait for ever */
            begin(shared.spans, 2);
            _exit(mt_thread_spans_now(shared.spans)->span != 2 || mt_thread_spans_depth(shared.spans) != 1);
        }
        assert_int_equal(waitpid(child, &code, 0), child);
        assert_int_equal(code, 0);
    }
    shared.is_over = true;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(mt_thread_spans_depth(shared.spans), 0);
    mt_thread_spans_destroy(shared.spans);
}

static void the_outermost_number_is_the_layer(void **state)
{
    (void)state;
    assert_int_equal(mt_span_layer("7", -1), 7);
    assert_int_equal(mt_span_layer("layers.7", -1), 7);
    assert_int_equal(mt_span_layer("3", 7), 7);
    assert_int_equal(mt_span_layer("experts.3", 7), 7);
    assert_int_equal(mt_span_layer("ffn", 7), 7);
    assert_int_equal(mt_span_layer("ffn", -1), -1);
    assert_int_equal(mt_span_layer("7.ffn", -1), -1);
    assert_int_equal(mt_span_layer("7a", -1), -1);
    assert_int_equal(mt_span_layer("1234567890", -1), -1);
    assert_int_equal(mt_span_layer("", -1), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_ends_what_is_inside_first),     cmocka_unit_test(the_end_of_a_thread_ends_its_spans),
        cmocka_unit_test(a_program_without_a_key_has_no_spans), cmocka_unit_test(a_forked_child_has_spans_of_its_own),
        cmocka_unit_test(the_outermost_number_is_the_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
