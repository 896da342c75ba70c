#include "run/thread_spans.h"

#include "base/lock.h"
#include "base/memory.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_LAYER_DIGITS = 9, USUAL_DEPTH = 128 };

/* The open spans of one thread, innermost last. All threads' are freed at the end, so a program's end may come before its
 * threads' ends. The struct of a thread that has ended is reused. Invariants: depth <= capacity; depth is 0 while is_idle. */
struct thread {
    struct mt_thread_spans *spans;
    struct thread *next;
    struct mt_place *places;
    size_t depth, capacity;
    bool is_idle; /* its thread has ended */
};

struct mt_thread_spans {
    void (*end)(void *context, mt_span_id span);
    void *context;
    pid_t process; /* the one that created it */
    pthread_key_t key;
    struct mt_lock lock; /* guards the list */
    struct thread *threads;
};

static void end_to(struct thread *thread, size_t depth)
{
    while (thread->depth > depth) {
        const mt_span_id span = thread->places[--thread->depth].span;
        thread->spans->end(thread->spans->context, span);
    }
}

/* Ends the spans of a thread that ends. */
static void leave_thread(void *context)
{
    struct thread *thread = context;
    if (getpid() != thread->spans->process)
        return;
    assert(!thread->is_idle);
    end_to(thread, 0);
    mt_lock_take(&thread->spans->lock);
    thread->is_idle = true;
    mt_lock_give(&thread->spans->lock);
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
    while (spans->threads != NULL) {
        struct thread *thread = spans->threads;
        spans->threads = thread->next;
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
    return spans->threads = thread;
}

/* Returns the calling thread's spans. Reuses those of a thread that has ended, or adds some. */
static struct thread *enter_thread(struct mt_thread_spans *spans)
{
    struct thread *thread = pthread_getspecific(spans->key);
    if (thread != NULL)
        return thread;
    mt_lock_take(&spans->lock);
    for (thread = spans->threads; thread != NULL && !thread->is_idle;)
        thread = thread->next;
    if (thread == NULL)
        thread = add_thread(spans);
    assert(thread->depth == 0);
    thread->is_idle = false;
    mt_lock_give(&spans->lock);
    pthread_setspecific(spans->key, thread);
    return thread;
}

uint32_t mt_thread_spans_begin(struct mt_thread_spans *spans, const struct mt_place *place)
{
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
    struct thread *thread = pthread_getspecific(spans->key);
    if (thread != NULL)
        end_to(thread, depth);
}

uint32_t mt_thread_spans_depth(const struct mt_thread_spans *spans)
{
    const struct thread *thread = pthread_getspecific(spans->key);
    return thread != NULL ? (uint32_t)thread->depth : 0;
}

const struct mt_place *mt_thread_spans_now(const struct mt_thread_spans *spans)
{
    const struct thread *thread = pthread_getspecific(spans->key);
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
