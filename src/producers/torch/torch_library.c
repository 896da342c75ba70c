#include "producers/torch/torch_library.h"
#include "producers/torch/torch_backward.h"
#include "producers/torch/torch_generated.h"
#include "producers/torch/torch_label.h"
#include "producers/torch/torch_memory.h"
#include "producers/torch/torch_operator.h"
#include "producers/torch/torch_stack.h"

#include "base/interner.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/text.h"
#include "run/process_trace.h"
#include "run/shown_words.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Invariants: the memory of a card, once there, stays; settings do not change while there is one; no card at or above
 * card_end is in use; in_step implies steps > 0. */
static struct library {
    struct mt_mutex lock; /* guards opening of cards, settings, categories, steps and phase */
    pthread_once_t once;
    struct mt_torch_memory *_Atomic cards[MT_TORCH_MOST_CARDS];
    atomic_int card_end;
    struct mt_torch_names names;
    char *alloc, *trace_path, *program;   /* NULL: the default */
    char *simulated;                      /* the device that replaces each card; NULL: real cards */
    double fraction[MT_TORCH_MOST_CARDS]; /* of the card's memory; 0: all */
    int64_t steps;                        /* number of steps that began */
    bool in_step;
    mt_phase phase;
    mt_program_phase program_phase;
    atomic_uint_fast64_t unknown_frees, differences;
    atomic_bool is_child;

    /* of a process whose own allocator is watched */
    atomic_bool is_watching, is_ended; /* is_ended: a watch has ended, and its cards are still in `cards` */
    struct mt_record_request request;  /* its texts are owned */
    struct watched_card {
        char *name; /* NULL: not known */
        uint64_t capacity_bytes;
    } watched[MT_TORCH_MOST_CARDS];
    struct mt_torch_memory **abandoned; /* cards of earlier watches: PyTorch's threads may still use them */
    size_t abandoned_count;
} library = {.lock = MT_MUTEX(MT_RANK_LIBRARY), .once = PTHREAD_ONCE_INIT};

/* A child may use a simulated card that its parent had not used before the fork. CUDA allows the same. */
static void become_child(void)
{
    const bool is_unused = library.simulated != NULL && library.card_end == 0;
    struct mt_live_run *run;
    for (int i = 0; (run = mt_torch_next_run(&i)) != NULL;)
        mt_live_run_disown(run);
    library.is_child = library.is_child || !is_unused;
}

static void mark_span_end(mt_span_id span)
{
    mt_torch_mark(MT_EVENT_SPAN_END, 0, span);
}

static void start(void)
{
    mt_torch_names_start(&library.names);
    mt_torch_label_on_end(mark_span_end);
    pthread_atfork(NULL, NULL, become_child);
}

bool mt_torch_is_child(void)
{
    return library.is_child;
}

static mt_status fail_child(void)
{
    return mt_fail(MT_NO_DEVICE, "this process was forked from one that uses the card, which CUDA does not allow: "
                                 "start it with the method \"spawn\"");
}

/* Starts the library if need be, and takes the lock. */
static void enter(void)
{
    pthread_once(&library.once, start);
    mt_mutex_take(&library.lock);
    assert(library.steps >= 0 && (!library.in_step || library.steps > 0));
}

static void leave(void)
{
    mt_mutex_give(&library.lock);
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

struct mt_live_run *mt_torch_run_of(int device)
{
    struct mt_torch_memory *memory = mt_torch_memory_of(device);
    return memory != NULL ? mt_torch_memory_run(memory) : NULL;
}

struct mt_alloc *mt_torch_alloc_of(int device)
{
    const struct mt_live_run *run = mt_torch_run_of(device);
    return run != NULL ? mt_live_run_alloc(run) : NULL;
}

struct mt_torch_memory *mt_torch_next(int *device)
{
    struct mt_torch_memory *memory = NULL;
    int end = atomic_load_explicit(&library.card_end, memory_order_acquire);
    assert(*device >= 0 && end <= MT_TORCH_MOST_CARDS);
    while (memory == NULL && *device < end)
        memory = mt_torch_memory_of((*device)++);
    return memory;
}

struct mt_live_run *mt_torch_next_run(int *device)
{
    struct mt_torch_memory *memory = mt_torch_next(device);
    return memory != NULL ? mt_torch_memory_run(memory) : NULL;
}

/* ---- opening ---- */

/* Limits the memory of a card that is simulated or served by our allocator. The lock is held. */
static void limit(const struct mt_live_run *run, int device)
{
    struct mt_device *card = mt_live_run_device(run);
    assert(library.fraction[device] >= 0 && library.fraction[device] <= 1);
    if (card != NULL && library.fraction[device] > 0)
        mt_device_limit(card, library.fraction[device]);
}

/* Brings a new card to the state of the others. */
static void catch_up(struct mt_torch_memory *memory, int device)
{
    uint32_t count = MT_CATEGORY_COUNT;
    const struct mt_sink *sink = mt_live_run_sink(mt_torch_memory_run(memory));
    const char *name;
    while (count < MT_MOST_CATEGORIES && (name = memtrace_torch_category_name((int)count)) != NULL) {
        (void)mt_sink_category(sink, name);
        count++;
    }
    limit(mt_torch_memory_run(memory), device);
    if (library.in_step)
        mt_torch_memory_mark(memory, MT_EVENT_STEP_BEGIN, (uint64_t)library.steps - 1, 0);
    mt_torch_memory_mark(memory, MT_EVENT_PHASE, library.phase, 0);
    mt_live_run_program_phase(mt_torch_memory_run(memory), library.program_phase);
}

enum { ADDITION = 32 /* bytes */ };

/* Writes the text that a card's trace path has before its extension. */
static const char *name_addition(int device, char out[ADDITION])
{
    snprintf(out, ADDITION, "-cuda%d", device);
    return out;
}

/* The first card in use has the requested trace path. */
static mt_status watch_card(int device, struct mt_torch_memory **out)
{
    char addition[ADDITION], name[ADDITION], number[ADDITION];
    struct mt_alloc_settings settings;
    struct mt_text alloc = {0};
    const struct watched_card *known = &library.watched[device];
    snprintf(name, sizeof name, "cuda:%d", device);
    snprintf(number, sizeof number, "%d", mt_process_card_number(device));
    if (library.alloc != NULL && mt_alloc_settings_parse(library.alloc, &settings) == MT_OK)
        mt_alloc_settings_format(&settings, &alloc);
    const struct mt_process_card card = {.name = known->name != NULL ? known->name : name,
                                         .capacity_bytes = known->capacity_bytes,
                                         .addition = library.card_end > 0 ? name_addition(device, addition) : NULL,
                                         .number = number,
                                         .alloc = alloc.data};
    mt_status status = mt_torch_memory_watch(&library.request, &card, &library.names, out);
    mt_text_release(&alloc);
    return status;
}

static mt_status open_card(int device, struct mt_torch_memory **out)
{
    char addition[ADDITION];
    struct mt_text path = {0};
    struct mt_torch_memory_settings settings = {.program = library.program != NULL ? library.program : "PyTorch",
                                                .request = library.request.answers != NULL ? &library.request : NULL,
                                                .simulated = library.simulated,
                                                .names = &library.names};
    MT_TRY(mt_alloc_settings_parse(library.alloc != NULL ? library.alloc : "", &settings.alloc));
    if (library.trace_path != NULL) {
        mt_process_trace_name(&path, library.trace_path, library.card_end > 0 ? name_addition(device, addition) : "");
        settings.trace_path = path.data;
    }
    mt_status status = mt_torch_memory_open(device, &settings, out);
    mt_text_release(&path);
    return status;
}

mt_status mt_torch_memory_for(int device, struct mt_torch_memory **out)
{
    if (device < 0 || device >= MT_TORCH_MOST_CARDS)
        return mt_fail(MT_NO_DEVICE, "memory was requested on card %d; there are at most %d", device,
                       MT_TORCH_MOST_CARDS);
    if (library.is_child)
        return fail_child();
    *out = mt_torch_memory_of(device);
    if (*out != NULL)
        return MT_OK;
    mt_status status = MT_OK;
    enter();
    *out = mt_torch_memory_of(device);
    if (*out == NULL && (status = library.is_watching ? watch_card(device, out) : open_card(device, out)) == MT_OK) {
        catch_up(*out, device);
        assert(library.cards[device] == NULL);
        atomic_store_explicit(&library.cards[device], *out, memory_order_release);
        if (device >= library.card_end)
            library.card_end = device + 1;
    }
    leave();
    return status;
}

mt_status mt_torch_take_shaped(int64_t bytes, int device, struct mt_torch_pooled_stream stream,
                               const struct memtrace_torch_shape *shape, mt_addr *out)
{
    struct mt_torch_memory *memory = NULL;
    struct mt_torch_label label = mt_torch_operator_label(mt_torch_names_of_all());
    *out = 0;
    label.shape = shape;
    if (bytes < 0)
        return mt_fail(MT_USAGE, "%" PRId64 " bytes were requested", bytes);
    MT_TRY(mt_torch_memory_for(device, &memory));
    mt_torch_note_request(bytes);
    return mt_torch_memory_take(memory, (uint64_t)bytes, stream, &label, out);
}

mt_status mt_torch_take(int64_t bytes, int device, mt_torch_stream stream, mt_addr *out)
{
    return mt_torch_take_shaped(bytes, device, (struct mt_torch_pooled_stream){.stream = stream}, NULL, out);
}

/* True if the card's memory is recorded. */
static bool is_counted(int device)
{
    return library.request.device == MT_EVERY_DEVICE || library.request.device == device;
}

/* Watches no further card once a trace could not be opened: otherwise each event would try again. */
struct mt_torch_memory *mt_torch_watched(int device)
{
    if (!library.is_watching || mt_host_is_exhausted())
        return NULL;
    struct mt_torch_memory *memory = mt_torch_memory_of(device);
    if (memory == NULL && !library.is_child && is_counted(device) && mt_torch_memory_for(device, &memory) != MT_OK)
        library.is_watching = false;
    return memory;
}

static void set_text(char **place, const char *text)
{
    free(*place);
    *place = text != NULL ? mt_host_strdup(text) : NULL;
}

int memtrace_torch_configure(const char *alloc, const char *trace_path, const char *program)
{
    struct mt_alloc_settings settings;
    mt_status status = library.is_child ? fail_child() : mt_alloc_settings_parse(alloc != NULL ? alloc : "", &settings);
    if (status != MT_OK)
        return status;
    enter();
    if (library.card_end > 0)
        status = mt_fail(MT_USAGE, "memory was taken already: set up the allocator before the first tensor");
    if (status == MT_OK) {
        set_text(&library.alloc, alloc);
        set_text(&library.trace_path, trace_path);
        set_text(&library.program, program);
    }
    leave();
    return status;
}

int memtrace_torch_simulate(const char *device)
{
    struct mt_device *opened = NULL;
    mt_status status = library.is_child ? fail_child() : mt_device_open(device, &opened);
    mt_device_close(opened);
    if (status != MT_OK)
        return status;
    enter();
    if (library.card_end > 0)
        status = mt_fail(MT_USAGE, "memory was taken already: name the card before the first tensor");
    if (status == MT_OK)
        set_text(&library.simulated, device);
    leave();
    return status;
}

const char *mt_torch_simulated(void)
{
    return library.simulated;
}

void memtrace_torch_answer(void)
{
    struct mt_record_request request;
    if (library.is_child || !mt_record_request_take(&request))
        return;
    enter();
    mt_record_request_release(&library.request);
    library.request = request;
    leave();
}

/* Resets the cards, since an earlier watch has ended. */
static void abandon_cards(void)
{
    for (int i = 0; i < MT_TORCH_MOST_CARDS; i++) {
        if (library.cards[i] != NULL)
            *MT_HOST_ADD(library.abandoned, library.abandoned_count) = library.cards[i];
        library.cards[i] = NULL;
    }
    library.card_end = 0;
    library.steps = 0;
    library.in_step = false;
    library.is_ended = false;
}

mt_status mt_torch_begin_watching(const char *trace_path, const char *name)
{
    struct mt_record_request request;
    mt_status status = MT_OK;
    if (library.is_child)
        return fail_child();
    if (trace_path != NULL)
        request = (struct mt_record_request){.trace = mt_host_strdup(trace_path),
                                             .name = name != NULL ? mt_host_strdup(name) : NULL,
                                             .device = MT_EVERY_DEVICE};
    else if (!mt_record_request_take(&request))
        return mt_fail(MT_USAGE, "there is no trace to write: this process was not started by memtrace record");
    enter();
    if (library.is_watching || (library.card_end > 0 && !library.is_ended))
        status = mt_fail(MT_USAGE, "memtrace's own allocator is in use, or PyTorch's is watched already");
    if (status == MT_OK) {
        abandon_cards();
        mt_record_request_release(&library.request);
        library.request = request;
        library.is_watching = true;
    } else {
        mt_record_request_release(&request);
    }
    leave();
    return status;
}

int memtrace_torch_is_watching(void)
{
    return library.is_watching && !library.is_child;
}

void memtrace_torch_card(int device, const char *name, uint64_t capacity)
{
    if (device < 0 || device >= MT_TORCH_MOST_CARDS || library.is_child)
        return;
    enter();
    set_text(&library.watched[device].name, name);
    library.watched[device].capacity_bytes = capacity;
    leave();
}

static void close_abandoned(void)
{
    for (size_t i = 0; i < library.abandoned_count; i++)
        mt_torch_memory_close(library.abandoned[i]);
    free(library.abandoned);
    library.abandoned = NULL;
    library.abandoned_count = 0;
}

void mt_torch_forget(void)
{
    enter();
    abandon_cards();
    close_abandoned();
    for (int i = 0; i < MT_TORCH_MOST_CARDS; i++) {
        library.fraction[i] = 0;
        set_text(&library.watched[i].name, NULL);
    }
    library.is_watching = false;
    mt_torch_backward_forget();
    mt_torch_stack_forget();
    mt_torch_generated_forget();
    mt_record_request_release(&library.request);
    set_text(&library.alloc, NULL);
    set_text(&library.trace_path, NULL);
    set_text(&library.program, NULL);
    set_text(&library.simulated, NULL);
    mt_torch_names_end(&library.names);
    mt_torch_names_start(&library.names);
    library.unknown_frees = 0;
    mt_thread_spans_end(mt_torch_spans(), 0);
    (void)mt_torch_label_phase(MT_PHASE_INIT, MT_CATEGORY_OTHER);
    library.phase = MT_PHASE_INIT;
    leave();
}

/* Applies to cards that are opened later, too. */
void memtrace_torch_memory_fraction(double fraction, int device)
{
    if (device < 0 || device >= MT_TORCH_MOST_CARDS || library.is_child || !(fraction > 0))
        return;
    enter();
    library.fraction[device] = fraction < 1 ? fraction : 1;
    const struct mt_live_run *run = mt_torch_run_of(device);
    if (run != NULL)
        limit(run, device);
    leave();
}

void mt_torch_count_unknown_free(void)
{
    atomic_fetch_add_explicit(&library.unknown_frees, 1, memory_order_relaxed);
}

void mt_torch_count_difference(void)
{
    atomic_fetch_add_explicit(&library.differences, 1, memory_order_relaxed);
}

uint64_t mt_torch_unknown_frees(void)
{
    return atomic_load_explicit(&library.unknown_frees, memory_order_relaxed);
}

/* ---- categories, phases and steps, for all cards ---- */

/* Adds the category to all cards under the lock, so that its number is the same on all. */
int memtrace_torch_category(const char *name)
{
    bool is_new = false;
    struct mt_live_run *run;
    mt_category category = MT_CATEGORY_OTHER;
    if (library.is_child)
        return category;
    enter();
    category = mt_torch_names_category(&library.names, name, &is_new);
    for (int i = 0; is_new && (run = mt_torch_next_run(&i)) != NULL;)
        (void)mt_sink_category(mt_live_run_sink(run), name);
    leave();
    return category;
}

int memtrace_torch_workspace_category(const char *name)
{
    const int category = memtrace_torch_category(name);
    if (category != MT_CATEGORY_OTHER)
        mt_torch_label_is_workspace((mt_category)category);
    return category;
}

void mt_torch_mark(mt_event_kind kind, uint64_t value, mt_span_id span)
{
    struct mt_torch_memory *memory;
    for (int i = 0; (memory = mt_torch_next(&i)) != NULL;)
        mt_torch_memory_mark(memory, kind, value, span);
}

void memtrace_torch_phase(int phase, int category)
{
    if (library.is_child || phase < 0 || phase >= MT_PHASE_COUNT || memtrace_torch_category_name(category) == NULL)
        return;
    enter();
    library.phase = (mt_phase)phase;
    bool is_new = mt_torch_label_phase((mt_phase)phase, (mt_category)category);
    if (is_new)
        mt_torch_mark(MT_EVENT_PHASE, (uint64_t)phase, 0);
    leave();
    if (is_new)
        mt_torch_operator_phase((mt_phase)phase);
}

/* The lock is held. */
static void end_step(void)
{
    if (library.in_step)
        mt_torch_mark(MT_EVENT_STEP_END, (uint64_t)library.steps - 1, 0);
    library.in_step = false;
}

int64_t memtrace_torch_step_begin(void)
{
    if (library.is_child)
        return MT_NO_STEP;
    enter();
    end_step();
    int64_t step = library.steps++;
    library.in_step = true;
    mt_torch_mark(MT_EVENT_STEP_BEGIN, (uint64_t)step, 0);
    leave();
    return step;
}

void memtrace_torch_step_end(void)
{
    if (library.is_child)
        return;
    enter();
    end_step();
    leave();
}

/* ---- the traces ---- */

/* Answers memtrace record for a watched process. */
static void answer_end(mt_status status)
{
    const uint64_t differences = atomic_exchange(&library.differences, 0);
    if (differences > 0)
        mt_process_answer(&library.request, MT_RECORD_LOST, (int64_t)differences,
                          "moments at which PyTorch's counters equal the trace");
    if (status != MT_OK)
        mt_process_answer(&library.request, MT_RECORD_NOTE, 0, mt_last_error());
}

int memtrace_torch_close(int outcome)
{
    mt_status status = MT_OK;
    struct mt_live_run *run;
    if (library.is_child)
        return MT_OK;
    enter();
    end_step();
    for (int i = 0; (run = mt_torch_next_run(&i)) != NULL;)
        status = mt_status_keep(status, mt_live_run_end_trace(run, mt_live_run_state((mt_status)outcome)));
    if (library.is_watching)
        answer_end(status);
    library.is_ended |= library.is_watching;
    library.is_watching = false;
    leave();
    return status;
}

void memtrace_torch_measure(const char *name, double value)
{
    struct mt_live_run *run;
    if (library.is_child)
        return;
    enter();
    for (int i = 0; (run = mt_torch_next_run(&i)) != NULL;)
        mt_live_run_measure(run, name, library.in_step ? library.steps - 1 : MT_NO_STEP, value);
    leave();
}

void memtrace_torch_caveat(const char *kind, const char *name, const char *file, int line, int64_t count, int64_t total,
                           int64_t bytes, double value)
{
    struct mt_live_run *run;
    struct mt_caveat caveat = {.name = name != NULL ? name : "",
                               .file = file != NULL ? file : "",
                               .line = line > 0 ? line : 0,
                               .count = count,
                               .total = total,
                               .bytes = bytes,
                               .value = value};
    if (library.is_child || kind == NULL || !mt_caveat_kind_find(kind, &caveat.kind))
        return;
    enter();
    for (int i = 0; (run = mt_torch_next_run(&i)) != NULL;)
        mt_live_run_caveat(run, &caveat);
    leave();
}

void memtrace_torch_set(const char *name, const char *value)
{
    struct mt_live_run *run;
    if (library.is_child || name == NULL || value == NULL)
        return;
    enter();
    for (int i = 0; (run = mt_torch_next_run(&i)) != NULL;)
        mt_live_run_set(run, name, value);
    leave();
}

void memtrace_torch_arguments(const char *words, uint64_t bytes)
{
    struct mt_text shown = {0};
    mt_shown_words_add(words, (size_t)bytes, '\0', &shown);
    memtrace_torch_set("arguments", mt_text_get(&shown));
    mt_text_release(&shown);
}

uint64_t memtrace_torch_live(void)
{
    uint64_t bytes = 0;
    struct mt_live_run *run;
    for (int i = 0; (run = mt_torch_next_run(&i)) != NULL;) {
        struct mt_alloc_stats stats = {0};
        if (mt_live_run_alloc(run) != NULL)
            mt_alloc_stats(mt_live_run_alloc(run), &stats);
        else
            stats.all.requested_bytes = mt_live_note_sums(run).requested_bytes;
        bytes += stats.all.requested_bytes;
    }
    return bytes;
}

void memtrace_torch_program_phase(const char *name)
{
    struct mt_live_run *run;
    mt_program_phase phase;
    if (library.is_child || !mt_program_phase_find(name, &phase))
        return;
    enter();
    library.program_phase = phase;
    for (int i = 0; (run = mt_torch_next_run(&i)) != NULL;)
        mt_live_run_program_phase(run, phase);
    leave();
}

void memtrace_torch_holder(int device, uint64_t address, const char *kind, const char *name, const char *owner,
                           const char *file, int line, uint64_t held_bytes, const char *loop_file, int loop_line)
{
    struct mt_torch_memory *memory = mt_torch_memory_of(device);
    struct mt_holder holder = {.address = address,
                               .name = name,
                               .owner = owner,
                               .file = file != NULL ? file : "",
                               .line = line > 0 ? line : 0,
                               .held_bytes = held_bytes,
                               .loop_file = loop_file != NULL ? loop_file : "",
                               .loop_line = loop_line > 0 ? loop_line : 0};
    if (memory != NULL && mt_holder_kind_find(kind, &holder.kind))
        mt_live_run_holder(mt_torch_memory_run(memory), &holder);
}

void memtrace_torch_cache(int device, uint64_t address)
{
    struct mt_torch_memory *memory = mt_torch_memory_of(device);
    if (memory != NULL)
        mt_torch_memory_follow_cache(memory, address);
}

void memtrace_torch_ended_by(const char *why)
{
    struct mt_live_run *run;
    mt_ended_by reason;
    if (library.is_child || why == NULL || !mt_ended_by_find(why, &reason))
        return;
    enter();
    for (int i = 0; (run = mt_torch_next_run(&i)) != NULL;)
        mt_live_run_ended_by(run, reason);
    leave();
}
