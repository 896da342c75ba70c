#include "torch/torch_library.h"

#include "base/interner.h"
#include "base/memory.h"
#include "base/text.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Invariants: a card's memory, once there, stays; settings do not change while there is one. */
static struct library {
    pthread_mutex_t lock; /* of opening, settings, names of categories and steps */
    pthread_once_t once;
    struct mt_torch_memory *_Atomic cards[MT_TORCH_MOST_CARDS];
    atomic_int card_end; /* no card from this number on is in use */
    struct mt_torch_names names;
    char *alloc, *trace_path, *program;   /* NULL: as by themselves */
    double fraction[MT_TORCH_MOST_CARDS]; /* of the card's memory; 0: all */
    int64_t steps;                        /* that began */
    bool in_step;
    mt_phase phase;
    mt_span_id place; /* that the traces were told has begun, and not ended; 0: none */
    atomic_uint_fast64_t unknown_frees;
    atomic_bool is_child;
} library = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static void become_child(void)
{
    library.is_child = true;
}

static void start(void)
{
    mt_torch_names_start(&library.names);
    pthread_atfork(NULL, NULL, become_child);
}

bool mt_torch_is_child(void)
{
    return library.is_child;
}

static mt_status fail_child(void)
{
    return mt_fail(MT_NO_DEVICE, "this process was forked from one that uses the card, and CUDA does not survive that: "
                                 "start it with the method \"spawn\"");
}

/* The library, started. */
static struct library *enter(void)
{
    pthread_once(&library.once, start);
    pthread_mutex_lock(&library.lock);
    return &library;
}

static void leave(void)
{
    pthread_mutex_unlock(&library.lock);
}

struct mt_torch_names *mt_torch_names_of_all(void)
{
    pthread_once(&library.once, start);
    return &library.names;
}

struct mt_torch_memory *mt_torch_memory_of(int device)
{
    if (device < 0 || device >= MT_TORCH_MOST_CARDS || library.is_child)
        return NULL;
    return atomic_load_explicit(&library.cards[device], memory_order_acquire);
}

void mt_torch_each(void (*visit)(struct mt_torch_memory *memory, void *context), void *context)
{
    int end = atomic_load_explicit(&library.card_end, memory_order_acquire);
    for (int i = 0; i < end; i++) {
        struct mt_torch_memory *memory = mt_torch_memory_of(i);
        if (memory != NULL)
            visit(memory, context);
    }
}

/* ---- opening ---- */

/* "run.db" is "run-cuda1.db" for card 1. */
static void name_trace(struct mt_text *out, const char *path, int device)
{
    const char *file = strrchr(path, '/');
    const char *ending = strrchr(file != NULL ? file : path, '.');
    size_t length = ending != NULL ? (size_t)(ending - path) : strlen(path);
    if (device == 0)
        mt_text_add(out, "%s", path);
    else
        mt_text_add(out, "%.*s-cuda%d%s", (int)length, path, device, path + length);
}

/* What was said before the card was in use. */
static void tell_what_was(struct mt_torch_memory *memory, int device)
{
    uint32_t count = MT_CATEGORY_COUNT;
    const char *name;
    while (count < MT_MOST_CATEGORIES && (name = memtrace_torch_category_name((int)count)) != NULL) {
        mt_torch_memory_category(memory, name);
        count++;
    }
    if (library.fraction[device] > 0)
        mt_torch_memory_limit(memory, library.fraction[device]);
    if (library.in_step)
        mt_torch_memory_mark(memory, MT_EVENT_STEP_BEGIN, (uint64_t)library.steps - 1, 0);
    mt_torch_memory_mark(memory, MT_EVENT_PHASE, library.phase, 0);
}

static mt_status open_card(int device, struct mt_torch_memory **out)
{
    struct mt_text path = {0};
    struct mt_torch_memory_settings settings = {.program = library.program != NULL ? library.program : "PyTorch",
                                                .names = &library.names};
    mt_status status = mt_alloc_settings_parse(library.alloc != NULL ? library.alloc : "", &settings.alloc);
    if (status != MT_OK)
        return status;
    if (library.trace_path != NULL) {
        name_trace(&path, library.trace_path, device);
        settings.trace_path = path.data;
    }
    status = mt_torch_memory_open(device, &settings, out);
    mt_text_release(&path);
    return status;
}

/* The memory of a card, which is opened if it is not yet. */
static mt_status memory_for(int device, struct mt_torch_memory **out)
{
    if (device < 0 || device >= MT_TORCH_MOST_CARDS)
        return mt_fail(MT_NO_DEVICE, "memory was asked for on card %d; there are at most %d", device,
                       MT_TORCH_MOST_CARDS);
    if (library.is_child)
        return fail_child();
    *out = mt_torch_memory_of(device);
    if (*out != NULL)
        return MT_OK;
    mt_status status = MT_OK;
    (void)enter();
    *out = mt_torch_memory_of(device);
    if (*out == NULL && (status = open_card(device, out)) == MT_OK) {
        tell_what_was(*out, device);
        atomic_store_explicit(&library.cards[device], *out, memory_order_release);
        if (device >= library.card_end)
            library.card_end = device + 1;
    }
    leave();
    return status;
}

mt_status mt_torch_take(int64_t bytes, int device, mt_torch_stream stream, mt_addr *out)
{
    struct mt_torch_memory *memory = NULL;
    struct mt_torch_label label = mt_torch_label_now();
    *out = 0;
    if (bytes < 0)
        return mt_fail(MT_USAGE, "%" PRId64 " bytes were asked for", bytes);
    mt_status status = memory_for(device, &memory);
    return status == MT_OK ? mt_torch_memory_take(memory, (uint64_t)bytes, stream, &label, out) : status;
}

static char *copy(const char *text)
{
    return text != NULL ? mt_host_strdup(text) : NULL;
}

static void set_text(char **place, const char *text)
{
    free(*place);
    *place = copy(text);
}

int memtrace_torch_configure(const char *alloc, const char *trace_path, const char *program)
{
    struct mt_alloc_settings settings;
    mt_status status = library.is_child ? fail_child() : mt_alloc_settings_parse(alloc != NULL ? alloc : "", &settings);
    if (status != MT_OK)
        return status;
    (void)enter();
    if (library.card_end > 0)
        status = mt_fail(MT_USAGE, "memory was taken already: the allocator is set up before the first tensor");
    if (status == MT_OK) {
        set_text(&library.alloc, alloc);
        set_text(&library.trace_path, trace_path);
        set_text(&library.program, program);
    }
    leave();
    return status;
}

void mt_torch_forget(void)
{
    (void)enter();
    for (int i = 0; i < MT_TORCH_MOST_CARDS; i++) {
        mt_torch_memory_close(library.cards[i]);
        library.cards[i] = NULL;
        library.fraction[i] = 0;
    }
    library.card_end = 0;
    set_text(&library.alloc, NULL);
    set_text(&library.trace_path, NULL);
    set_text(&library.program, NULL);
    mt_torch_names_end(&library.names);
    mt_torch_names_start(&library.names);
    library.steps = 0;
    library.in_step = false;
    library.unknown_frees = 0;
    mt_torch_label_end(0);
    (void)mt_torch_label_phase(MT_PHASE_INIT, MT_CATEGORY_OTHER);
    library.phase = MT_PHASE_INIT;
    library.place = 0;
    leave();
}

void mt_torch_limit(int device, double fraction)
{
    if (device < 0 || device >= MT_TORCH_MOST_CARDS || library.is_child || !(fraction > 0))
        return;
    (void)enter();
    library.fraction[device] = fraction < 1 ? fraction : 1;
    struct mt_torch_memory *memory = mt_torch_memory_of(device);
    if (memory != NULL)
        mt_torch_memory_limit(memory, library.fraction[device]);
    leave();
}

void mt_torch_count_unknown_free(void)
{
    atomic_fetch_add_explicit(&library.unknown_frees, 1, memory_order_relaxed);
}

uint64_t mt_torch_unknown_frees(void)
{
    return atomic_load_explicit(&library.unknown_frees, memory_order_relaxed);
}

/* ---- categories, phases and steps, which cards that come later are told ---- */

static void tell_category(struct mt_torch_memory *memory, void *context)
{
    mt_torch_memory_category(memory, context);
}

/* Cards are told under the lock, so that all know names in one order, and by one number. */
int memtrace_torch_category(const char *name)
{
    bool is_new = false;
    mt_category category = MT_CATEGORY_OTHER;
    if (library.is_child)
        return category;
    (void)enter();
    category = mt_torch_names_category(&library.names, name, &is_new);
    if (is_new)
        mt_torch_each(tell_category, (void *)(uintptr_t)name);
    leave();
    return category;
}

struct mark {
    mt_event_kind kind;
    uint64_t value;
    mt_span_id span;
};

static void tell_mark(struct mt_torch_memory *memory, void *context)
{
    const struct mark *mark = context;
    mt_torch_memory_mark(memory, mark->kind, mark->value, mark->span);
}

/* The lock is held. */
static void mark_all(mt_event_kind kind, uint64_t value)
{
    struct mark mark = {.kind = kind, .value = value};
    mt_torch_each(tell_mark, &mark);
}

/* The lock is held: so every beginning has its end, whichever thread comes first. */
static void move_place(mt_span_id span)
{
    struct mark ended = {.kind = MT_EVENT_SPAN_END, .span = library.place};
    struct mark begun = {.kind = MT_EVENT_SPAN_BEGIN, .span = span};
    if (library.place == span)
        return;
    if (ended.span != 0)
        mt_torch_each(tell_mark, &ended);
    if (begun.span != 0)
        mt_torch_each(tell_mark, &begun);
    library.place = span;
}

static void look_for_trace(struct mt_torch_memory *memory, void *is_recorded)
{
    if (mt_torch_trace_is_open(mt_torch_memory_trace(memory)))
        *(bool *)is_recorded = true;
}

void mt_torch_mark_place(mt_span_id span)
{
    bool is_recorded = false;
    mt_torch_each(look_for_trace, &is_recorded); /* where nothing is, no thread waits for another */
    if (!is_recorded)
        return;
    (void)enter();
    move_place(span);
    leave();
}

void memtrace_torch_phase(int phase, int category)
{
    if (library.is_child || phase < 0 || phase >= MT_PHASE_COUNT || memtrace_torch_category_name(category) == NULL)
        return;
    (void)enter();
    library.phase = (mt_phase)phase;
    move_place(0);
    if (mt_torch_label_phase((mt_phase)phase, (mt_category)category))
        mark_all(MT_EVENT_PHASE, (uint64_t)phase);
    leave();
}

/* The lock is held. */
static void end_step(void)
{
    if (library.in_step)
        mark_all(MT_EVENT_STEP_END, (uint64_t)library.steps - 1);
    library.in_step = false;
}

int64_t memtrace_torch_step_begin(void)
{
    if (library.is_child)
        return MT_NO_STEP;
    (void)enter();
    end_step();
    int64_t step = library.steps++;
    library.in_step = true;
    mark_all(MT_EVENT_STEP_BEGIN, (uint64_t)step);
    leave();
    return step;
}

void memtrace_torch_step_end(void)
{
    if (library.is_child)
        return;
    (void)enter();
    end_step();
    leave();
}

/* ---- the traces ---- */

struct outcome {
    mt_run_state state;
    mt_status status;
};

static void end_trace(struct mt_torch_memory *memory, void *context)
{
    struct outcome *outcome = context;
    outcome->status =
        mt_status_keep(outcome->status, mt_torch_trace_end(mt_torch_memory_trace(memory), outcome->state));
}

static mt_run_state state_of(int outcome)
{
    if (outcome == MT_OUT_OF_MEMORY)
        return MT_RUN_OOM;
    return outcome == MT_OK ? MT_RUN_DONE : MT_RUN_FAILED;
}

int memtrace_torch_close(int outcome)
{
    struct outcome ended = {.state = state_of(outcome)};
    if (library.is_child)
        return MT_OK;
    (void)enter();
    move_place(0);
    end_step();
    mt_torch_each(end_trace, &ended);
    leave();
    return ended.status;
}

struct measure {
    const char *name;
    int64_t step;
    double value;
};

static void tell_measure(struct mt_torch_memory *memory, void *context)
{
    const struct measure *measure = context;
    mt_torch_trace_measure(mt_torch_memory_trace(memory), measure->name, measure->step, measure->value);
}

void memtrace_torch_measure(const char *name, double value)
{
    if (library.is_child)
        return;
    (void)enter();
    struct measure measure = {name, library.in_step ? library.steps - 1 : MT_NO_STEP, value};
    mt_torch_each(tell_measure, &measure);
    leave();
}
