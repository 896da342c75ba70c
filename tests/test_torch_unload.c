/* The library for PyTorch, closed while a thread is in a span: what ends with the thread must still be there. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static uint32_t (*begin_span)(uint32_t span, int category);
static pthread_barrier_t begun, closed;

static void *stay_in_a_span(void *span)
{
    (void)begin_span(*(const uint32_t *)span, 0);
    pthread_barrier_wait(&begun);
    pthread_barrier_wait(&closed);
    return NULL;
}

static void a_thread_may_end_after_the_library_was_closed(void **state)
{
    pthread_t thread;
    (void)state;
    void *library = dlopen(MT_TORCH_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        fail_msg("%s", dlerror());
    uint32_t (*make_span)(uint32_t, const char *, const char *);
    *(void **)&make_span = dlsym(library, "memtrace_torch_span");
    *(void **)&begin_span = dlsym(library, "memtrace_torch_span_begin");
    assert_true(make_span != NULL && begin_span != NULL);
    uint32_t span = make_span(0, "model", "Model");
    pthread_barrier_init(&begun, NULL, 2);
    pthread_barrier_init(&closed, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, stay_in_a_span, &span), 0);
    pthread_barrier_wait(&begun);
    assert_int_equal(dlclose(library), 0);
    pthread_barrier_wait(&closed);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_may_end_after_the_library_was_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
