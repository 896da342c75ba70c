/* Two things are looked up for each block of our allocator, both under one short lock: the number of its label in this
 * card's trace, by the program's label, and later the block by its address. Blocks of a watched card are in foreign
 * memory. */
#include "producers/torch/torch_memory.h"
#include "producers/torch/torch_stack.h"
#include "producers/torch/torch_trace.h"

#include "base/clock.h"
#include "base/interner.h"
#include "base/memory.h"
#include "base/number_map.h"
#include "base/text.h"
#include "producers/torch/memtrace_torch.h"
#include "run/process_trace.h"
#include "trace/store/foreign.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Invariants: of alloc and foreign exactly one is there, and `card` with alloc; `blocks` has exactly the blocks of alloc
 * that were taken and not given back; sums.allocated_bytes is that of the foreign blocks that live, as far as all were
 * noted. */
struct mt_torch_memory {
    struct mt_torch_card *card;
    struct mt_torch_trace trace;
    struct mt_sink sink; /* of the trace */
    struct mt_alloc *alloc;
    struct mt_foreign *foreign;
    struct mt_torch_sums sums;
    uint64_t begin_ns;       /* of a watched card: mt_clock_ns when it began */
    uint64_t capacity_bytes; /* of a watched card; 0: not known */
    struct range {
        mt_addr begin, end;
    } * ranges; /* that a watched allocator has reserved */
    size_t range_count;
    struct mt_torch_names *names;
    struct mt_lock lock; /* guards the rest; the allocator's own lock is taken inside it, never the other way round */
    struct mt_number_map blocks; /* from address to struct mt_block * */
    struct mt_number_map
        labels; /* from mt_torch_label_key to its number << 32 | its span's number, both of the trace */
    struct mt_number_map stacks;                   /* from the hash of a stack to its number in the trace */
    struct mt_number_map spans;                    /* from the number in `names` to the number in the trace */
    struct mt_outside held[MT_OUTSIDE_PART_COUNT]; /* of a simulated card */
};

/* ---- the trace ---- */

void mt_torch_memory_measure(struct mt_torch_memory *memory, const char *name, int64_t step, double value)
{
    (void)mt_torch_trace_enter(&memory->trace);
    if (memory->trace.recorder != NULL)
        mt_recorder_measure(memory->trace.recorder, name, step, value);
    mt_torch_trace_leave(&memory->trace);
}

void mt_torch_memory_caveat(struct mt_torch_memory *memory, const struct mt_caveat *caveat)
{
    (void)mt_torch_trace_enter(&memory->trace);
    if (memory->trace.recorder != NULL)
        mt_recorder_caveat(memory->trace.recorder, caveat);
    mt_torch_trace_leave(&memory->trace);
}

void mt_torch_memory_ended_by(struct mt_torch_memory *memory, mt_ended_by reason)
{
    (void)mt_torch_trace_enter(&memory->trace);
    if (memory->trace.recorder != NULL)
        mt_recorder_ended_by(memory->trace.recorder, reason);
    mt_torch_trace_leave(&memory->trace);
}

mt_status mt_torch_memory_end_trace(struct mt_torch_memory *memory, mt_run_state state)
{
    struct mt_torch_trace *trace = &memory->trace;
    (void)mt_torch_trace_enter(trace);
    struct mt_recorder *recorder = trace->recorder;
    trace->recorder = NULL;
    trace->is_open = false;
    trace->target = mt_sink_discarding(trace->interner);
    mt_torch_trace_leave(trace);
    return mt_recorder_close(recorder, state);
}

void mt_torch_memory_disown(struct mt_torch_memory *memory)
{
    if (memory->trace.recorder != NULL)
        mt_recorder_disown(memory->trace.recorder);
}

/* ---- opening and closing ---- */

static mt_status begin_run(const struct mt_torch_memory_settings *settings, const struct mt_torch_card *card,
                           struct mt_torch_trace *trace)
{
    struct mt_text alloc = {0};
    struct mt_run_rank rank;
    const char *job;
    const bool is_rank = mt_process_rank_read(&rank, &job);
    mt_alloc_settings_format(&settings->alloc, &alloc);
    const bool is_dry = settings->alloc.policy == MT_POLICY_TORCH && mt_device_is_simulated(card->device->name);
    struct mt_run_setting rows[] = {
        {"alloc", mt_text_get(&alloc)}, {"program", settings->program}, {"recorded", "dry"}};
    struct mt_run_info info = {.name = settings->program,
                               .device = card->device->name,
                               .rank = is_rank ? &rank : NULL,
                               .job = job,
                               .capacity_bytes = card->device->capacity_bytes,
                               .settings = rows,
                               .setting_count = sizeof rows / sizeof rows[0] - !is_dry};
    mt_host_keep_reserve(MT_HOST_RESERVE_BYTES);
    mt_status status =
        settings->trace_path != NULL ? mt_recorder_open(settings->trace_path, &info, &trace->recorder) : MT_OK;
    mt_torch_trace_begin(trace);
    if (trace->recorder != NULL && settings->request != NULL)
        mt_process_answer(settings->request, MT_RECORD_RUN, mt_recorder_run(trace->recorder), settings->trace_path);
    mt_text_release(&alloc);
    return status;
}

static struct mt_torch_memory *create(struct mt_torch_names *names)
{
    struct mt_torch_memory *memory = mt_host_alloc(sizeof *memory);
    memory->names = names;
    mt_number_map_create(&memory->blocks);
    mt_number_map_create(&memory->labels);
    mt_number_map_create(&memory->spans);
    mt_number_map_create(&memory->stacks);
    return memory;
}

mt_status mt_torch_memory_watch(const struct mt_record_request *request, const struct mt_process_card *card,
                                struct mt_torch_names *names, struct mt_torch_memory **out)
{
    struct mt_recorder *recorder;
    MT_TRY(mt_process_trace_open(request, card, "PyTorch's allocator", &recorder));
    struct mt_torch_memory *memory = create(names);
    memory->trace.recorder = recorder;
    mt_torch_trace_begin(&memory->trace);
    memory->sink = mt_torch_trace_sink(&memory->trace);
    memory->foreign = mt_foreign_create(&memory->sink);
    memory->begin_ns = mt_clock_ns();
    memory->capacity_bytes = card->capacity_bytes;
    *out = memory;
    return MT_OK;
}

mt_status mt_torch_memory_open(int ordinal, const struct mt_torch_memory_settings *settings,
                               struct mt_torch_memory **out)
{
    struct mt_torch_memory *memory = create(settings->names);
    mt_status status = mt_torch_card_open(ordinal, settings->simulated, &memory->card);
    if (status == MT_OK)
        status = begin_run(settings, memory->card, &memory->trace);
    if (status != MT_OK) {
        mt_torch_memory_close(memory);
        return status;
    }
    memory->sink = mt_torch_trace_sink(&memory->trace);
    if (settings->simulated != NULL) {
        (void)mt_torch_memory_hold(memory, MT_PART_CONTEXT, 1);
        (void)mt_torch_memory_hold(memory, MT_PART_LIBRARIES, 1);
    }
    status = mt_alloc_create(memory->card->device, &memory->sink, &settings->alloc, &memory->alloc);
    *out = memory;
    return status;
}

void mt_torch_memory_close(struct mt_torch_memory *memory)
{
    if (memory == NULL)
        return;
    mt_alloc_destroy(memory->alloc);
    mt_foreign_destroy(memory->foreign);
    free(memory->ranges);
    mt_interner_destroy(memory->trace.interner);
    mt_torch_card_close(memory->card);
    mt_number_map_release(&memory->blocks);
    mt_number_map_release(&memory->labels);
    mt_number_map_release(&memory->spans);
    mt_number_map_release(&memory->stacks);
    free(memory);
}

/* ---- labels ---- */

/* Returns the number of a span in this trace. Spans are few, and looked up once a label. The lock is held. */
static mt_span_id span_of(struct mt_torch_memory *memory, mt_span_id span)
{
    struct mt_torch_span known;
    uint64_t number;
    if (mt_number_map_get(&memory->spans, span, &number))
        return (mt_span_id)number;
    if (!mt_torch_names_find(memory->names, span, &known))
        return 0;
    assert(known.parent < span);
    number = memory->sink.intern_span(memory->sink.context, span_of(memory, known.parent), known.name);
    mt_number_map_put(&memory->spans, span, number);
    return (mt_span_id)number;
}

static uint64_t intern(struct mt_torch_memory *memory, const struct mt_torch_label *label)
{
    const mt_span_id span = span_of(memory, label->span);
    const struct mt_label made = mt_torch_label_in_trace(memory->names, label, span);
    return (uint64_t)memory->sink.intern_label(memory->sink.context, &made) << 32 | span;
}

/* Returns the numbers of a label and its span in this trace, as in `labels`. The lock is held. */
static uint64_t label_of(struct mt_torch_memory *memory, const struct mt_torch_label *label)
{
    uint64_t numbers, key = mt_torch_label_key(label);
    if (mt_number_map_get(&memory->labels, key, &numbers))
        return numbers;
    numbers = intern(memory, label);
    mt_number_map_put(&memory->labels, key, numbers);
    return numbers;
}

/* ---- blocks ---- */

mt_status mt_torch_memory_take(struct mt_torch_memory *memory, uint64_t bytes, mt_torch_stream stream,
                               const struct mt_torch_label *label, mt_addr *out)
{
    struct mt_block *block = NULL;
    mt_stream number;
    *out = 0;
    if (bytes == 0)
        return MT_OK;
    MT_TRY(mt_torch_card_stream(memory->card, stream, &number));
    mt_lock_take(&memory->lock);
    uint64_t numbers = label_of(memory, label);
    mt_lock_give(&memory->lock);
    const struct mt_alloc_request request = {.bytes = bytes,
                                             .stream = number,
                                             .label = (mt_label_id)(numbers >> 32),
                                             .span = (mt_span_id)numbers,
                                             .stack = mt_torch_memory_stack(memory)};
    MT_TRY(mt_alloc_serve(memory->alloc, &request, &block));
    *out = mt_block_address(block);
    assert(*out != 0 && *out != MT_NUMBER_MAP_NO_KEY && mt_block_requested_bytes(block) == bytes);
    mt_lock_take(&memory->lock);
    mt_number_map_put(&memory->blocks, *out, (uint64_t)(uintptr_t)block);
    mt_lock_give(&memory->lock);
    return MT_OK;
}

/* Returns the time of a watched card's events. */
static uint64_t now_ns(const struct mt_torch_memory *memory)
{
    return mt_clock_since_ns(memory->begin_ns);
}

/* Returns the block, and NULL if there is none. The lock is held, and for as long as the block is used, so that no other
 * thread gives it back meanwhile. */
static struct mt_block *block_at(struct mt_torch_memory *memory, mt_addr address)
{
    uint64_t block = 0;
    (void)mt_number_map_get(&memory->blocks, address, &block);
    return (struct mt_block *)(uintptr_t)block;
}

/* Forgets the address first, since another thread may get it as soon as the block is given back. */
bool mt_torch_memory_give(struct mt_torch_memory *memory, mt_addr address)
{
    uint64_t block = 0;
    mt_lock_take(&memory->lock);
    bool is_known = mt_number_map_take(&memory->blocks, address, &block);
    mt_lock_give(&memory->lock);
    if (is_known)
        mt_alloc_give(memory->alloc, (struct mt_block *)(uintptr_t)block);
    return is_known;
}

bool mt_torch_memory_find(struct mt_torch_memory *memory, mt_addr address, uint64_t *out_bytes)
{
    mt_lock_take(&memory->lock);
    const struct mt_block *block = block_at(memory, address);
    if (block != NULL)
        *out_bytes = mt_block_requested_bytes(block);
    mt_lock_give(&memory->lock);
    return block != NULL;
}

bool mt_torch_memory_use_on(struct mt_torch_memory *memory, mt_addr address, mt_torch_stream stream)
{
    mt_stream number;
    mt_status status = MT_OK;
    mt_lock_take(&memory->lock);
    struct mt_block *block = block_at(memory, address);
    if (block != NULL)
        status = mt_torch_card_stream(memory->card, stream, &number);
    if (block != NULL && status == MT_OK)
        mt_alloc_use_on(memory->alloc, block, number);
    mt_lock_give(&memory->lock);
    if (status != MT_OK)
        (void)mt_device_synchronize(memory->card->device);
    return block != NULL;
}

bool mt_torch_memory_relabel(struct mt_torch_memory *memory, mt_addr address, const struct mt_torch_label *label)
{
    bool is_found;
    if (mt_host_is_exhausted())
        return false;
    mt_lock_take(&memory->lock);
    const uint64_t numbers = label_of(memory, label);
    if (memory->foreign != NULL) {
        is_found = mt_foreign_relabel(memory->foreign, now_ns(memory), address, (mt_label_id)(numbers >> 32),
                                      (mt_span_id)numbers);
    } else {
        struct mt_block *block = block_at(memory, address);
        is_found = block != NULL;
        if (is_found)
            mt_alloc_relabel(memory->alloc, block, (mt_label_id)(numbers >> 32), (mt_span_id)numbers);
    }
    mt_lock_give(&memory->lock);
    return is_found;
}

/* ---- memory of PyTorch's allocator ---- */

static struct mt_foreign_block describe(struct mt_torch_memory *memory, const struct mt_torch_block *block)
{
    const uint64_t numbers = label_of(memory, &block->label);
    return (struct mt_foreign_block){.address = block->address,
                                     .requested_bytes = block->requested_bytes,
                                     .block_bytes = block->allocated_bytes,
                                     .stream = block->stream,
                                     .label = (mt_label_id)(numbers >> 32),
                                     .span = (mt_span_id)numbers,
                                     .stack = block->stack};
}

mt_stack_id mt_torch_memory_stack(struct mt_torch_memory *memory)
{
    struct mt_torch_stack stack;
    uint64_t number = 0;
    if (mt_host_is_exhausted())
        return 0;
    mt_torch_stack_enter(&stack);
    if (stack.depth > 0) {
        mt_lock_take(&memory->lock);
        if (!mt_number_map_get(&memory->stacks, stack.hash, &number)) {
            number = mt_torch_stack_store(&stack, &memory->sink);
            mt_number_map_put(&memory->stacks, stack.hash, number);
        }
        mt_lock_give(&memory->lock);
    }
    mt_torch_stack_leave(&stack);
    return (mt_stack_id)number;
}

void mt_torch_memory_note_take(struct mt_torch_memory *memory, const struct mt_torch_block *block)
{
    if (mt_host_is_exhausted())
        return;
    assert(memory->foreign != NULL);
    mt_lock_take(&memory->lock);
    const struct mt_foreign_block taken = describe(memory, block);
    mt_foreign_take(memory->foreign, now_ns(memory), &taken);
    memory->sums.allocated_bytes += block->allocated_bytes;
    mt_lock_give(&memory->lock);
}

void mt_torch_memory_note_give(struct mt_torch_memory *memory, mt_addr address)
{
    if (mt_host_is_exhausted())
        return;
    struct mt_foreign_block block = {0};
    assert(memory->foreign != NULL);
    mt_lock_take(&memory->lock);
    (void)mt_foreign_find(memory->foreign, address, &block);
    memory->sums.allocated_bytes -= block.block_bytes;
    mt_foreign_give(memory->foreign, now_ns(memory), address);
    mt_lock_give(&memory->lock);
}

void mt_torch_memory_note_refusal(struct mt_torch_memory *memory, const struct mt_torch_block *request)
{
    if (mt_host_is_exhausted())
        return;
    assert(memory->foreign != NULL);
    mt_lock_take(&memory->lock);
    const struct mt_foreign_block refused = describe(memory, request);
    mt_foreign_oom(memory->foreign, now_ns(memory), &refused);
    mt_lock_give(&memory->lock);
}

void mt_torch_memory_note_map(struct mt_torch_memory *memory, mt_addr address, uint64_t bytes, mt_torch_stream stream)
{
    if (mt_host_is_exhausted())
        return;
    assert(memory->foreign != NULL);
    mt_lock_take(&memory->lock);
    mt_foreign_map(memory->foreign, now_ns(memory), address, bytes, stream);
    memory->sums.reserved_bytes += bytes;
    mt_lock_give(&memory->lock);
}

/* Reserves the range that begins with this memory, unless it is in one. PyTorch reserves nine eighths of a card, and maps
 * from the range's beginning. */
static void reserve_range(struct mt_torch_memory *memory, mt_addr address)
{
    enum { WITHOUT_CAPACITY = 40 /* the bits of a range's size */ };
    const uint64_t bytes = memory->capacity_bytes > 0 ? memory->capacity_bytes + memory->capacity_bytes / 8
                                                      : (uint64_t)1 << WITHOUT_CAPACITY;
    for (size_t i = 0; i < memory->range_count; i++)
        if (address >= memory->ranges[i].begin && address < memory->ranges[i].end)
            return;
    memory->ranges = mt_host_room(memory->ranges, memory->range_count, sizeof *memory->ranges);
    memory->ranges[memory->range_count++] = (struct range){address, address + bytes};
    (void)mt_foreign_reserve(memory->foreign, address, bytes, address);
}

void mt_torch_memory_note_growth(struct mt_torch_memory *memory, mt_addr address, uint64_t bytes,
                                 mt_torch_stream stream)
{
    if (mt_host_is_exhausted())
        return;
    assert(memory->foreign != NULL);
    mt_lock_take(&memory->lock);
    reserve_range(memory, address);
    mt_lock_give(&memory->lock);
    mt_torch_memory_note_map(memory, address, bytes, stream);
}

void mt_torch_memory_note_unmap(struct mt_torch_memory *memory, mt_addr address, uint64_t bytes)
{
    if (mt_host_is_exhausted())
        return;
    assert(memory->foreign != NULL);
    mt_lock_take(&memory->lock);
    mt_foreign_unmap(memory->foreign, now_ns(memory), address, bytes);
    memory->sums.reserved_bytes -= bytes;
    mt_lock_give(&memory->lock);
}

void mt_torch_memory_note_outside(struct mt_torch_memory *memory, const struct mt_outside *outside)
{
    if (mt_host_is_exhausted())
        return;
    mt_lock_take(&memory->lock);
    const struct mt_sink *target = mt_torch_trace_enter(&memory->trace);
    if (target->outside != NULL)
        target->outside(target->context, outside);
    mt_torch_trace_leave(&memory->trace);
    mt_lock_give(&memory->lock);
}

static uint64_t sum_held(const struct mt_torch_memory *memory)
{
    uint64_t bytes = 0;
    for (int part = 0; part < MT_OUTSIDE_PART_COUNT; part++)
        bytes += memory->held[part].bytes;
    return bytes;
}

bool mt_torch_memory_hold(struct mt_torch_memory *memory, mt_outside_part part, int ranks)
{
    struct mt_outside added, *held = &memory->held[part];
    if (!mt_card_outside(&memory->card->device->card, part, ranks, &added))
        return false;
    mt_lock_take(&memory->lock);
    const bool is_new = held->bytes == 0 || part != MT_PART_NCCL_FIRST;
    if (is_new) {
        added.bytes += held->bytes;
        added.low_bytes += held->low_bytes;
        added.high_bytes += held->high_bytes;
        *held = added;
        mt_device_hold(memory->card->device, sum_held(memory));
    }
    mt_lock_give(&memory->lock);
    if (is_new)
        mt_torch_memory_note_outside(memory, &added);
    return true;
}

uint64_t mt_torch_memory_held_bytes(struct mt_torch_memory *memory)
{
    const uint64_t context = memory->card->device->card.context_bytes;
    mt_lock_take(&memory->lock);
    const uint64_t bytes = sum_held(memory);
    mt_lock_give(&memory->lock);
    return context > 0 && bytes > context ? bytes : context;
}

struct mt_torch_sums mt_torch_memory_sums(struct mt_torch_memory *memory)
{
    mt_lock_take(&memory->lock);
    struct mt_torch_sums sums = memory->sums;
    mt_lock_give(&memory->lock);
    return sums;
}

/* ---- the rest ---- */

/* The lock is held. Steps of a watched card are numbered in its own trace. */
static void mark_foreign(struct mt_torch_memory *memory, mt_event_kind kind, uint64_t value, mt_span_id span)
{
    const uint64_t time_ns = now_ns(memory);
    if (kind == MT_EVENT_SPAN_BEGIN)
        mt_foreign_span_begin(memory->foreign, time_ns, span);
    else if (kind == MT_EVENT_SPAN_END)
        mt_foreign_span_end(memory->foreign, time_ns, span);
    else if (kind == MT_EVENT_STEP_BEGIN)
        (void)mt_foreign_step_begin(memory->foreign, time_ns);
    else if (kind == MT_EVENT_STEP_END)
        mt_foreign_step_end(memory->foreign, time_ns);
    else if (kind == MT_EVENT_PHASE)
        mt_foreign_phase(memory->foreign, time_ns, (mt_phase)value);
}

void mt_torch_memory_mark(struct mt_torch_memory *memory, mt_event_kind kind, uint64_t value, mt_span_id span)
{
    if (mt_host_is_exhausted())
        return;
    if (!atomic_load_explicit(&memory->trace.is_open, memory_order_relaxed)) /* there is none */
        return;
    mt_lock_take(&memory->lock);
    mt_span_id number = span_of(memory, span);
    if (memory->foreign != NULL)
        mark_foreign(memory, kind, value, number);
    mt_lock_give(&memory->lock);
    if (memory->alloc != NULL)
        mt_alloc_mark(memory->alloc, kind, value, number);
}

void mt_torch_memory_category(struct mt_torch_memory *memory, const char *name)
{
    (void)mt_sink_category(&memory->sink, name);
}

uint64_t mt_torch_memory_capacity(struct mt_torch_memory *memory)
{
    return __atomic_load_n(&memory->card->device->capacity_bytes, __ATOMIC_RELAXED);
}

void mt_torch_memory_limit(struct mt_torch_memory *memory, double fraction)
{
    mt_device_limit(memory->card->device, fraction);
}

struct mt_alloc *mt_torch_memory_alloc(struct mt_torch_memory *memory)
{
    return memory->alloc;
}
