/* Labels, spans and stacks have numbers of their own in each card's trace, which are looked up by the program's. */
#include "producers/torch/torch_memory.h"
#include "producers/torch/torch_stack.h"

#include "base/interner.h"
#include "base/memory.h"
#include "base/number_map.h"
#include "base/order.h"
#include "base/text.h"
#include "run/process_trace.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_TEXT = 16 };
enum { BEFORE_LAST, LAST, NOW }; /* of a memory's newest blocks */

/* Invariant: `card` is there if the run has an allocator. */
struct mt_torch_memory {
    struct mt_torch_card *card;
    struct mt_live_run *run;
    struct mt_torch_names *names;
    struct mt_private_pools pools;
    uint64_t calls;      /* of a model */
    uint64_t newest[3];  /* numbers of the newest blocks at searched calls: the last two before, and this one */
    struct mt_lock lock; /* guards the rest */
    struct mt_number_map
        alike; /* from a label to the label << 32 | span that blocks with it get at the next call of a model */
    struct mt_number_map
        labels; /* from mt_torch_label_key to its number << 32 | its span's number, both of the trace */
    struct mt_number_map stacks; /* from the hash of a stack to its number in the trace */
    struct mt_number_map spans;  /* from the number in `names` to the number in the trace */
    struct mt_label *caches;     /* of blocks of key-value caches, the last of each op and span */
    size_t cache_count;
};

/* ---- opening and closing ---- */

static mt_status open_run(int ordinal, const struct mt_torch_memory_settings *settings, struct mt_torch_memory *memory)
{
    char number[NUMBER_TEXT];
    struct mt_text alloc = {0};
    struct mt_run_rank rank;
    const char *job;
    const bool is_rank = mt_process_rank_read(&rank, &job);
    snprintf(number, sizeof number, "%d", mt_process_card_number(ordinal));
    mt_alloc_settings_format(&settings->alloc, &alloc);
    const bool is_dry = settings->alloc.policy == MT_POLICY_TORCH && mt_device_is_simulated(memory->card->device->name);
    struct mt_run_setting rows[] = {{"alloc", mt_text_get(&alloc)},
                                    {"program", settings->program},
                                    {MT_CARD_NUMBER_SETTING, number},
                                    {"recorded", "dry"}};
    const struct mt_live_settings live = {.trace = settings->trace_path,
                                          .info = {.name = settings->program,
                                                   .rank = is_rank ? &rank : NULL,
                                                   .job = job,
                                                   .settings = rows,
                                                   .setting_count = sizeof rows / sizeof rows[0] - !is_dry},
                                          .device = memory->card->device,
                                          .alloc = &settings->alloc,
                                          .access = MT_LIVE_ANY_THREAD};
    mt_host_keep_reserve(MT_HOST_RESERVE_BYTES);
    mt_status status = mt_live_run_open(&live, &memory->run);
    if (status == MT_OK && settings->trace_path != NULL && settings->request != NULL)
        mt_process_answer(settings->request, MT_RECORD_RUN, mt_live_run_number(memory->run), settings->trace_path);
    mt_text_release(&alloc);
    return status;
}

static struct mt_torch_memory *create(struct mt_torch_names *names)
{
    struct mt_torch_memory *memory = mt_host_alloc(sizeof *memory);
    memory->names = names;
    mt_lock_create(&memory->lock, MT_RANK_MEMORY);
    mt_lock_create(&memory->pools.lock, MT_RANK_LEAF);
    mt_number_map_create(&memory->alike);
    mt_number_map_create(&memory->labels);
    mt_number_map_create(&memory->spans);
    mt_number_map_create(&memory->stacks);
    return memory;
}

mt_status mt_torch_memory_watch(const struct mt_record_request *request, const struct mt_process_card *card,
                                struct mt_torch_names *names, struct mt_torch_memory **out)
{
    struct mt_live_run *run;
    MT_TRY(mt_process_trace_open(request, card, "PyTorch's allocator", MT_LIVE_ANY_THREAD, &run));
    *out = create(names);
    (*out)->run = run;
    return MT_OK;
}

mt_status mt_torch_memory_open(int ordinal, const struct mt_torch_memory_settings *settings,
                               struct mt_torch_memory **out)
{
    struct mt_torch_memory *memory = create(settings->names);
    mt_status status = mt_torch_card_open(ordinal, settings->simulated, &memory->card);
    MT_THEN(status, open_run(ordinal, settings, memory));
    if (status != MT_OK) {
        mt_torch_memory_close(memory);
        return status;
    }
    if (settings->simulated != NULL) {
        (void)mt_live_run_hold(memory->run, MT_PART_CONTEXT, 1);
        (void)mt_live_run_hold(memory->run, MT_PART_LIBRARIES, 1);
    }
    *out = memory;
    return MT_OK;
}

void mt_torch_memory_close(struct mt_torch_memory *memory)
{
    if (memory == NULL)
        return;
    (void)mt_live_run_close(memory->run, MT_RUN_FAILED); /* its trace has ended, if there was one */
    mt_torch_card_close(memory->card);
    mt_private_pools_release(&memory->pools);
    free(memory->caches);
    mt_number_map_release(&memory->alike);
    mt_number_map_release(&memory->labels);
    mt_number_map_release(&memory->spans);
    mt_number_map_release(&memory->stacks);
    free(memory);
}

struct mt_live_run *mt_torch_memory_run(struct mt_torch_memory *memory)
{
    return memory->run;
}

struct mt_torch_card *mt_torch_memory_card(struct mt_torch_memory *memory)
{
    return memory->card;
}

struct mt_pool_owner mt_torch_memory_pool_owner(struct mt_torch_memory *memory)
{
    return (struct mt_pool_owner){.card = memory->card, .run = memory->run, .pools = &memory->pools};
}

struct mt_private_pools *mt_torch_memory_pools(struct mt_torch_memory *memory)
{
    return &memory->pools;
}

/* ---- numbers in the trace ---- */

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
    const struct mt_sink *sink = mt_live_run_sink(memory->run);
    number = sink->intern_span(sink->context, span_of(memory, known.parent), known.name);
    mt_number_map_put(&memory->spans, span, number);
    return (mt_span_id)number;
}

static bool is_of_one_place(const struct mt_label *a, const struct mt_label *b)
{
    return a->span == b->span && a->phase == b->phase && a->dtype == b->dtype && strcmp(a->op, b->op) == 0;
}

/* True if one dimension of a label's shape is longer than of another, and the others are equal. */
static bool is_longer(const struct mt_label *label, const struct mt_label *other)
{
    int longer = 0;
    if (label->dims != other->dims)
        return false;
    for (int i = 0; i < label->dims; i++) {
        longer += label->shape[i] > other->shape[i];
        if (label->shape[i] < other->shape[i])
            return false;
    }
    return longer == 1;
}

/* Returns the role of a label: a key-value cache if the block is a known cache with more positions. The lock is
 * held. */
static mt_role role_by_caches(const struct mt_torch_memory *memory, const struct mt_label *label)
{
    for (size_t i = 0; i < memory->cache_count && label->role == MT_ROLE_TEMPORARY; i++)
        if (is_of_one_place(label, &memory->caches[i]) && is_longer(label, &memory->caches[i]))
            return MT_ROLE_KEY_VALUE_CACHE;
    return label->role;
}

/* The lock is held. */
static uint64_t intern(struct mt_torch_memory *memory, const struct mt_torch_label *label)
{
    const struct mt_sink *sink = mt_live_run_sink(memory->run);
    const mt_span_id span = span_of(memory, label->span);
    struct mt_label made = mt_torch_label_in_trace(memory->names, label, span);
    made.role = role_by_caches(memory, &made);
    return (uint64_t)sink->intern_label(sink->context, &made) << 32 | span;
}

/* Returns the numbers of a label and its span in this trace, as in `labels`. */
static uint64_t label_of(struct mt_torch_memory *memory, const struct mt_torch_label *label)
{
    uint64_t numbers, key = mt_torch_label_key(label);
    mt_lock_take(&memory->lock);
    if (!mt_number_map_get(&memory->labels, key, &numbers)) {
        numbers = intern(memory, label);
        mt_number_map_put(&memory->labels, key, numbers);
    }
    mt_lock_give(&memory->lock);
    return numbers;
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
            number = mt_torch_stack_store(&stack, mt_live_run_sink(memory->run));
            mt_number_map_put(&memory->stacks, stack.hash, number);
        }
        mt_lock_give(&memory->lock);
    }
    mt_torch_stack_leave(&stack);
    return (mt_stack_id)number;
}

/* ---- blocks and marks ---- */

static struct mt_alloc_request request_of(struct mt_torch_memory *memory, uint64_t bytes, mt_stream stream,
                                          const struct mt_torch_label *label)
{
    const uint64_t numbers = label_of(memory, label);
    return (struct mt_alloc_request){.bytes = bytes,
                                     .stream = stream,
                                     .label = (mt_label_id)(numbers >> 32),
                                     .span = (mt_span_id)numbers,
                                     .stack = mt_torch_memory_stack(memory)};
}

mt_status mt_torch_memory_take(struct mt_torch_memory *memory, uint64_t bytes, struct mt_torch_pooled_stream stream,
                               const struct mt_torch_label *label, mt_addr *out)
{
    mt_stream number;
    *out = 0;
    if (bytes == 0)
        return MT_OK;
    const struct mt_pool_owner owner = mt_torch_memory_pool_owner(memory);
    MT_TRY(mt_private_pool_stream(&owner, stream, &number));
    const struct mt_alloc_request request = request_of(memory, bytes, number, label);
    return mt_live_run_take(memory->run, &request, out);
}

mt_status mt_torch_memory_take_at(struct mt_torch_memory *memory, uint64_t bytes, mt_addr address,
                                  const struct mt_torch_label *label)
{
    const struct mt_alloc_request request = request_of(memory, bytes, 0, label);
    return mt_live_run_take_at(memory->run, &request, address);
}

bool mt_torch_memory_use_on(struct mt_torch_memory *memory, mt_addr address, mt_torch_stream stream)
{
    mt_stream number;
    if (memory->card == NULL || !mt_live_run_stream(memory->run, address, &number))
        return false;
    if (mt_torch_card_stream_of(memory->card, number).stream == stream)
        return true; /* its own, in whatever pool */
    const struct mt_pool_owner owner = mt_torch_memory_pool_owner(memory);
    if (mt_private_pool_stream(&owner, (struct mt_torch_pooled_stream){.stream = stream}, &number) == MT_OK)
        return mt_live_run_use_on(memory->run, address, number);
    (void)mt_device_synchronize(memory->card->device);
    return true;
}

/* Returns the number of a label with the dtype and shape of an old one, which stays the same tensor, and of a kept
 * tensor with the operator that computed it. */
static mt_label_id with_shape_of(struct mt_torch_memory *memory, mt_label_id label, mt_label_id old)
{
    const struct mt_sink *sink = mt_live_run_sink(memory->run);
    const struct mt_interner *interner = mt_live_run_interner(memory->run);
    mt_lock_take(&memory->lock);
    const struct mt_label *shaped = mt_interner_find_label(interner, old);
    struct mt_label made = *mt_interner_find_label(interner, label);
    made.dtype = shaped->dtype;
    made.dims = shaped->dims;
    if (made.role == MT_ROLE_KEPT)
        made.op = shaped->op;
    memcpy(made.shape, shaped->shape, sizeof made.shape);
    label = sink->intern_label(sink->context, &made);
    mt_lock_give(&memory->lock);
    return label;
}

bool mt_torch_memory_relabel(struct mt_torch_memory *memory, mt_addr address, const struct mt_torch_label *label)
{
    if (mt_host_is_exhausted())
        return false;
    const uint64_t numbers = label_of(memory, label);
    mt_label_id made = (mt_label_id)(numbers >> 32), old;
    if (memory->card == NULL)
        return mt_live_note_relabel(memory->run, address, made, (mt_span_id)numbers);
    if (!mt_live_run_label(memory->run, address, &old))
        return false;
    if (mt_live_run_is_traced(memory->run))
        made = with_shape_of(memory, made, old);
    return mt_live_run_relabel(memory->run, address, made, (mt_span_id)numbers);
}

bool mt_torch_memory_relabel_alike(struct mt_torch_memory *memory, mt_addr address, const struct mt_torch_label *label)
{
    mt_label_id old, made;
    const bool is_ours = memory->card != NULL && mt_live_run_label(memory->run, address, &old);
    if (!mt_torch_memory_relabel(memory, address, label))
        return false;
    if (is_ours && mt_live_run_label(memory->run, address, &made) && made != old) {
        const uint64_t numbers = label_of(memory, label);
        mt_lock_take(&memory->lock);
        mt_number_map_put(&memory->alike, old, (uint64_t)made << 32 | (mt_span_id)numbers);
        mt_lock_give(&memory->lock);
    }
    return true;
}

/* Returns the label of a weight's cast, from the cast's own and the label of what it was cast from. */
static mt_label_id cast_label(struct mt_torch_memory *memory, mt_label_id own, mt_label_id source)
{
    const struct mt_sink *sink = mt_live_run_sink(memory->run);
    const struct mt_interner *interner = mt_live_run_interner(memory->run);
    mt_lock_take(&memory->lock);
    if (mt_interner_find_label(interner, source)->role == MT_ROLE_PARAMETER) {
        struct mt_label made = *mt_interner_find_label(interner, own);
        made.role = MT_ROLE_WEIGHT_CAST;
        own = sink->intern_label(sink->context, &made);
    }
    mt_lock_give(&memory->lock);
    return own;
}

void mt_torch_memory_cast(struct mt_torch_memory *memory, mt_addr to, mt_addr from)
{
    mt_label_id own, source;
    if (memory->card == NULL || mt_host_is_exhausted() || !mt_live_run_is_traced(memory->run) ||
        !mt_live_run_label(memory->run, from, &source) || !mt_live_run_label(memory->run, to, &own))
        return;
    const struct mt_torch_label here = mt_torch_label_now();
    const mt_label_id made = cast_label(memory, own, source);
    if (made != own)
        (void)mt_live_run_relabel(memory->run, to, made, (mt_span_id)label_of(memory, &here));
}

/* Notes the place and shape of a cache's block. The lock is held. */
static void note_cache(struct mt_torch_memory *memory, const struct mt_label *label)
{
    for (size_t i = 0; i < memory->cache_count; i++)
        if (is_of_one_place(label, &memory->caches[i])) {
            memory->caches[i] = *label;
            return;
        }
    *MT_HOST_ADD(memory->caches, memory->cache_count) = *label;
}

void mt_torch_memory_follow_cache(struct mt_torch_memory *memory, mt_addr address)
{
    mt_label_id old;
    if (memory->card == NULL || mt_host_is_exhausted() || !mt_live_run_is_traced(memory->run) ||
        !mt_live_run_label(memory->run, address, &old))
        return;
    const struct mt_sink *sink = mt_live_run_sink(memory->run);
    mt_lock_take(&memory->lock);
    struct mt_label made = *mt_interner_find_label(mt_live_run_interner(memory->run), old);
    if (made.role == MT_ROLE_TEMPORARY || made.role == MT_ROLE_KEPT) {
        note_cache(memory, &made);
        made.role = MT_ROLE_KEY_VALUE_CACHE;
    }
    const mt_label_id label = sink->intern_label(sink->context, &made);
    mt_lock_give(&memory->lock);
    if (label != old)
        (void)mt_live_run_relabel(memory->run, address, label, made.span);
}

/* True for data that was on the card before the first call of a model: a batch, a data set, or a checkpoint. */
static bool is_early_data(const struct mt_label *label)
{
    return label->role == MT_ROLE_INPUT && label->phase == MT_PHASE_INIT;
}

/* Returns the label with the role of kept blocks, if the block seemed to be temporary or data. */
static mt_label_id kept_label(struct mt_torch_memory *memory, mt_label_id label)
{
    const struct mt_sink *sink = mt_live_run_sink(memory->run);
    struct mt_label kept = *mt_interner_find_label(mt_live_run_interner(memory->run), label);
    if (kept.role != MT_ROLE_TEMPORARY && !is_early_data(&kept))
        return label;
    if (kept.phase == MT_PHASE_OPTIMIZER || kept.phase == MT_PHASE_BACKWARD)
        return label;
    kept.role = MT_ROLE_KEPT;
    return sink->intern_label(sink->context, &kept);
}

/* Returns the label with the role of inputs, if the block seemed to be temporary before the first call of a model. */
static mt_label_id data_label(struct mt_torch_memory *memory, mt_label_id label)
{
    const struct mt_sink *sink = mt_live_run_sink(memory->run);
    struct mt_label data = *mt_interner_find_label(mt_live_run_interner(memory->run), label);
    if (data.role != MT_ROLE_TEMPORARY || data.phase != MT_PHASE_INIT)
        return label;
    data.role = MT_ROLE_INPUT;
    data.category = MT_CATEGORY_DATA;
    return sink->intern_label(sink->context, &data);
}

/* Returns the label that a block has from now on, and notes its sequence. */
static struct mt_block_label choose_label(void *context, struct mt_block_label own, uint64_t order)
{
    struct mt_torch_memory *memory = context;
    uint64_t numbers;
    memory->newest[NOW] = mt_larger(memory->newest[NOW], order);
    if (mt_number_map_get(&memory->alike, own.label, &numbers))
        return (struct mt_block_label){(mt_label_id)(numbers >> 32), (mt_span_id)numbers};
    if (memory->newest[LAST] == 0)
        own.label = data_label(memory, own.label);
    else if (order <= memory->newest[BEFORE_LAST])
        own.label = kept_label(memory, own.label);
    return own;
}

/* True if the live blocks are searched at a call of a model, by its number from 1. The program's own time counts if its
 * allocator is watched, so few of the later calls are. */
static bool is_searched(const struct mt_torch_memory *memory, uint64_t call)
{
    enum { FIRST_CALLS = 4 };
    return memory->card != NULL || call <= FIRST_CALLS || (call & (call - 1)) == 0;
}

void mt_torch_memory_keep(struct mt_torch_memory *memory)
{
    if (mt_host_is_exhausted() || !mt_live_run_is_traced(memory->run))
        return;
    mt_lock_take(&memory->lock);
    if (is_searched(memory, ++memory->calls)) {
        memory->newest[NOW] = 0;
        mt_live_run_relabel_all(memory->run, choose_label, memory);
        memory->newest[BEFORE_LAST] = memory->newest[LAST];
        memory->newest[LAST] = memory->newest[NOW];
    }
    mt_lock_give(&memory->lock);
}

struct mt_foreign_block mt_torch_memory_label(struct mt_torch_memory *memory, struct mt_foreign_block block,
                                              const struct mt_torch_label *label)
{
    const uint64_t numbers = label_of(memory, label);
    block.label = (mt_label_id)(numbers >> 32);
    block.span = (mt_span_id)numbers;
    return block;
}

void mt_torch_memory_mark(struct mt_torch_memory *memory, mt_event_kind kind, uint64_t value, mt_span_id span)
{
    if (mt_host_is_exhausted() || !mt_live_run_is_traced(memory->run))
        return;
    mt_lock_take(&memory->lock);
    const mt_span_id number = span_of(memory, span);
    mt_lock_give(&memory->lock);
    mt_live_run_mark(memory->run, kind, value, number);
}
