#include "run/thread_spans.h"

#include "base/memory.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_LAYER_DIGITS = 9, USUAL_DEPTH = 128 };

/* The open spans of one thread, innermost last. The spans of all threads are freed at the end, so a program may end
 * before its threads. The struct of an ended thread is reused. Invariants: depth <= capacity; depth is 0 while is_idle;
 * `next` does not change once the struct is in the list. */
struct thread {
    struct mt_thread_spans *spans;
    struct thread *next;
    struct mt_place *places;
    size_t depth, capacity;
    atomic_bool is_idle; /* its thread has ended */
};

/* The list has no lock, since another thread might hold it at a fork. */
struct mt_thread_spans {
    void (*end)(void *context, mt_span_id span);
    void *context;
    pid_t process; /* that created it */
    pthread_key_t key;
    struct thread *_Atomic threads;
};

static void end_to(struct thread *thread, size_t depth)
{
    while (thread->depth > depth) {
        const mt_span_id span = thread->places[--thread->depth].span;
        thread->spans->end(thread->spans->context, span);
    }
}

/* Ends the spans of a thread that ends. In a forked child, only discards them. */
static void leave_thread(void *context)
{
    struct thread *thread = context;
    assert(!thread->is_idle);
    if (getpid() == thread->spans->process)
        end_to(thread, 0);
    thread->depth = 0;
    atomic_store_explicit(&thread->is_idle, true, memory_order_release);
}

mt_status mt_thread_spans_create(void (*end)(void *context, mt_span_id span), void *context,
                                 struct mt_thread_spans **out)
{
    pthread_key_t key;
    *out = NULL;
    if (pthread_key_create(&key, leave_thread) != 0)
        return mt_fail(MT_FAILED, "the process has no thread-specific key left: "
                                  "it opened too many runs, or libraries took all keys");
    *out = mt_host_alloc(sizeof **out);
    **out = (struct mt_thread_spans){.end = end, .context = context, .process = getpid(), .key = key};
    return MT_OK;
}

void mt_thread_spans_destroy(struct mt_thread_spans *spans)
{
    if (spans == NULL)
        return;
    pthread_key_delete(spans->key);
    for (struct thread *thread = spans->threads, *next; thread != NULL; thread = next) {
        next = thread->next;
        free(thread->places);
        free(thread);
    }
    free(spans);
}

static struct thread *add_thread(struct mt_thread_spans *spans)
{
    struct thread *thread = mt_host_alloc(sizeof *thread);
    thread->spans = spans;
    thread->next = spans->threads;
    while (!atomic_compare_exchange_weak(&spans->threads, &thread->next, thread))
        ;
    return thread;
}

/* Returns the struct of an ended thread for the caller's use; NULL if there is none. */
static struct thread *reuse_thread(struct mt_thread_spans *spans)
{
    struct thread *thread = spans->threads;
    while (thread != NULL && !atomic_exchange_explicit(&thread->is_idle, false, memory_order_acquire))
        thread = thread->next;
    return thread;
}

/* Returns the calling thread's spans; NULL if it has not begun any. */
static struct thread *find_thread(const struct mt_thread_spans *spans)
{
    return spans != NULL ? pthread_getspecific(spans->key) : NULL;
}

/* Returns the calling thread's spans. Reuses the struct of an ended thread, or adds one. */
static struct thread *enter_thread(struct mt_thread_spans *spans)
{
    struct thread *thread = find_thread(spans);
    if (thread != NULL)
        return thread;
    thread = reuse_thread(spans);
    if (thread == NULL)
        thread = add_thread(spans);
    assert(thread->depth == 0);
    pthread_setspecific(spans->key, thread);
    return thread;
}

uint32_t mt_thread_spans_begin(struct mt_thread_spans *spans, const struct mt_place *place)
{
    if (spans == NULL)
        return 0;
    struct thread *thread = enter_thread(spans);
    if (thread->depth == thread->capacity) {
        thread->capacity = thread->capacity > 0 ? 2 * thread->capacity : USUAL_DEPTH;
        thread->places = mt_host_resize(thread->places, thread->capacity, sizeof *thread->places);
    }
    thread->places[thread->depth] = *place;
    return (uint32_t)thread->depth++;
}

void mt_thread_spans_end(struct mt_thread_spans *spans, uint32_t depth)
{
    struct thread *thread = find_thread(spans);
    if (thread != NULL)
        end_to(thread, depth);
}

uint32_t mt_thread_spans_depth(const struct mt_thread_spans *spans)
{
    const struct thread *thread = find_thread(spans);
    return thread != NULL ? (uint32_t)thread->depth : 0;
}

const struct mt_place *mt_thread_spans_now(const struct mt_thread_spans *spans)
{
    const struct thread *thread = find_thread(spans);
    return thread != NULL && thread->depth > 0 ? &thread->places[thread->depth - 1] : NULL;
}

int mt_span_layer(const char *name, int outer)
{
    const char *dot = strrchr(name, '.');
    const char *last = dot != NULL ? dot + 1 : name;
    const size_t digits = strspn(last, "0123456789");
    if (outer >= 0 || digits == 0 || digits > MOST_LAYER_DIGITS || last[digits] != '\0')
        return outer;
    return atoi(last);
}
