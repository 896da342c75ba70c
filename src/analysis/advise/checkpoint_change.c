/* Checkpointed modules. A call of a module keeps activations from forward to backward. With a checkpoint they are freed
 * when the call ends, and allocated again when backward reaches the call, together with the forward's temporary blocks.
 *
 *   forward of the call      rest of forward, backward of later calls      backward of the call
 *   ├── kept, output ──────┼────────── output alone ──────────────────────┼── kept, and forward's temporaries ──
 *                        `end`                                          `back`
 *
 * No label distinguishes the output. It is assumed to be the last block that the call allocates, if that is still live
 * when forward next allocates elsewhere, and otherwise the last activation that the call keeps. The input belongs to
 * the caller.
 *
 * A call is recognized by labels: blocks of one span, in one forward pass, until forward allocates a block elsewhere.
 * Spans may consist of lines of the program, "modeling/forward:403.forward:306.norm:65", where a loop calls the modules
 * of one line. Then a new call begins when the line inside the module decreases. */
#include "analysis/changed_run.h"
#include "base/memory.h"
#include "base/order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { NO_CALL = UINT32_MAX };

/* Modules of one kind, by the prefix of their labels' place. */
struct modules {
    const char *place; /* of one of their labels; only a prefix counts */
    size_t length;     /* of that prefix */
    uint64_t bytes;    /* of activations at the peak */
};

static bool is_within(const char *place, const struct modules *modules)
{
    return strncmp(place, modules->place, modules->length) == 0 &&
           (place[modules->length] == '.' || place[modules->length] == '\0');
}

/* Returns the length of the first `parts` parts of a path, or of the whole path if it has fewer. */
static size_t length_of_parts(const char *path, size_t parts)
{
    size_t length = 0;
    for (; path[length] != '\0'; length++)
        if (path[length] == '.' && --parts == 0)
            break;
    return length;
}

static size_t count_parts(const struct modules *modules)
{
    size_t count = 1;
    for (size_t i = 0; i < modules->length; i++)
        count += modules->place[i] == '.';
    return count;
}

/* ---- candidates ---- */

struct modules_list {
    struct modules *items;
    size_t count;
};

static void add_modules(struct modules_list *list, const char *place, size_t length, uint64_t bytes)
{
    for (size_t i = 0; i < list->count; i++) {
        struct modules *other = &list->items[i];
        if (other->length == length && strncmp(other->place, place, length) == 0) {
            other->bytes += bytes;
            return;
        }
    }
    *MT_HOST_ADD(list->items, list->count) = (struct modules){place, length, bytes};
}

/* Returns the rest of a path after the modules' path, in which "*" matches a layer's number; NULL if it is not inside
 * the modules. */
static const char *path_within(const char *path, const struct modules *modules)
{
    for (size_t i = 0; i < modules->length; i++)
        if (modules->place[i] == '*')
            path += strspn(path, "0123456789");
        else if (*path++ != modules->place[i])
            return NULL;
    return *path == '.' || *path == '\0' ? path : NULL;
}

/* True if the program called submodules of these modules, but never the modules themselves, as for a ModuleDict. */
static bool is_container(const struct mt_window *window, const struct modules *modules)
{
    const struct mt_advice_input *input = window->input;
    bool has_called = false;
    for (size_t i = 0; i < input->mark_count; i++) {
        const struct mt_mark_row *mark = &input->marks[i];
        const char *rest = mark->kind == MT_EVENT_SPAN_BEGIN ? path_within(mark->span, modules) : NULL;
        if (rest != NULL && *rest == '\0')
            return false;
        has_called = has_called || rest != NULL;
    }
    return has_called;
}

/* True if submodules that were called hold all activations of these modules, which then do nothing but call them. */
static bool is_wrapper(const struct mt_window *window, const struct modules_list *list, const struct modules *modules)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct modules *other = &list->items[i];
        if (other->length > modules->length && other->bytes == modules->bytes && is_within(other->place, modules) &&
            !is_container(window, other))
            return true;
    }
    return false;
}

static int compare_modules(const void *left, const void *right)
{
    const struct modules *a = left, *b = right;
    int order = MT_COMPARE(b->bytes, a->bytes);
    return order != 0 ? order : MT_COMPARE(b->length, a->length);
}

static bool is_saved(const struct mt_window *window, const struct mt_block_row *block)
{
    return window->roles[block->label] == MT_ROLE_ACTIVATION;
}

/* Lists all called modules with activations that are live at the peak, largest first. The caller frees its items. */
static struct modules_list list_modules(const struct mt_window *window)
{
    const struct mt_advice_input *input = window->input;
    struct modules_list list = {0}, kept = {0};
    uint64_t *bytes = mt_host_alloc((input->label_count + 1) * sizeof *bytes);
    for (size_t i = 0; i < input->block_count; i++)
        if (is_saved(window, &input->blocks[i]) &&
            mt_window_is_live(window, &input->blocks[i], window->usage.peak_position))
            bytes[input->blocks[i].label] += input->blocks[i].requested_bytes;
    for (size_t i = 0; i < input->label_count; i++)
        for (size_t parts = 1, length = 0; bytes[i] > 0 && input->labels[i].place[length] != '\0'; parts++) {
            length = length_of_parts(input->labels[i].place, parts);
            add_modules(&list, input->labels[i].place, length, bytes[i]);
        }
    for (size_t i = 0; i < list.count; i++)
        if (!is_wrapper(window, &list, &list.items[i]) && !is_container(window, &list.items[i]))
            *MT_HOST_ADD(kept.items, kept.count) = list.items[i];
    if (kept.count > 0)
        qsort(kept.items, kept.count, sizeof *kept.items, compare_modules);
    free(list.items);
    free(bytes);
    return kept;
}

/* ---- calls ---- */

/* A call of a module in a forward pass. */
struct call {
    int64_t pass;
    int64_t line;  /* the last block's, in the module's function; -1: the span has no lines */
    int64_t end;   /* the last event in which its forward allocated a block */
    int64_t back;  /* when backward first frees or allocates a block of the call; 0: not in the window */
    int64_t over;  /* the event that ended the forward pass; 0: not in the window */
    int64_t next;  /* the first event after `end` in which forward allocated a block outside the call; 0: none */
    size_t last;   /* index of the block of `end` */
    size_t output; /* index of the output's block; SIZE_MAX: none */
    uint64_t saved_bytes, most_bytes;
};

/* A module with one path, and its current call. */
struct instance {
    const char *span;
    uint32_t call;
};

/* The calls of modules. Invariant: call_of has the call of each block that forward allocated inside a call; NO_CALL for
 * other blocks. */
struct calls {
    const struct mt_window *window;
    const struct modules *modules;
    struct call *items;
    size_t count;
    struct instance *instances;
    size_t instance_count;
    size_t *instance_of; /* of each label, plus 1; 0: outside these modules */
    uint32_t *call_of;
};

/* Returns the index of the label's module; adds the module if it is new. */
static size_t find_instance(struct calls *calls, const struct mt_label_row *label)
{
    size_t length = length_of_parts(label->span, count_parts(calls->modules));
    for (size_t i = 0; i < calls->instance_count; i++) {
        const char *span = calls->instances[i].span;
        if (strncmp(span, label->span, length) == 0 && (span[length] == '.' || span[length] == '\0'))
            return i;
    }
    *MT_HOST_ADD(calls->instances, calls->instance_count) = (struct instance){label->span, NO_CALL};
    return calls->instance_count - 1;
}

static bool has_phase(const struct mt_label_row *label, mt_phase phase)
{
    return strcmp(label->phase, mt_phase_name(phase)) == 0;
}

static bool is_of_forward(const struct mt_label_row *label)
{
    return has_phase(label, MT_PHASE_FORWARD) || has_phase(label, MT_PHASE_LOSS);
}

/* Returns the line in the part of a span after the modules' path, "forward:306"; -1 if it has none. */
static int64_t line_within(const struct modules *modules, const char *span)
{
    const char *part = span + length_of_parts(span, count_parts(modules));
    size_t length = part[0] == '.' ? length_of_parts(part + 1, 1) : 0;
    const char *colon = length > 0 ? memchr(part + 1, ':', length) : NULL;
    return colon != NULL ? strtoll(colon + 1, NULL, 10) : -1;
}

/* True if a block of this pass and line does not belong to the current call of its module. */
static bool is_new_call(const struct calls *calls, const struct instance *instance, int64_t pass, int64_t line)
{
    const struct call *call = instance->call != NO_CALL ? &calls->items[instance->call] : NULL;
    return call == NULL || call->pass != pass || call->next != 0 || (line >= 0 && line < call->line);
}

/* Records that forward allocated a block outside the current call. */
static void leave_call(struct calls *calls, uint32_t call, int64_t event)
{
    if (call != NO_CALL && calls->items[call].next == 0)
        calls->items[call].next = event;
}

/* Records a block that forward allocated. */
static void enter_forward(struct calls *calls, struct instance *instance, size_t index, int64_t pass)
{
    const struct mt_block_row *block = &calls->window->input->blocks[index];
    int64_t line = line_within(calls->modules, calls->window->input->labels[block->label].span);
    if (is_new_call(calls, instance, pass, line)) {
        leave_call(calls, instance->call, block->alloc_event);
        instance->call = (uint32_t)calls->count;
        *MT_HOST_ADD(calls->items, calls->count) = (struct call){.pass = pass, .output = SIZE_MAX};
    }
    struct call *call = &calls->items[instance->call];
    call->end = block->alloc_event;
    call->last = index;
    call->line = line;
    calls->call_of[index] = instance->call;
}

/* Records a block that backward allocated: the call's backward has begun. */
static void enter_backward(struct calls *calls, const struct instance *instance, int64_t event)
{
    struct call *call = instance->call != NO_CALL ? &calls->items[instance->call] : NULL;
    if (call != NULL && call->back == 0 && event > call->end)
        call->back = event;
}

/* Advances to the last mark up to an event, and counts the forward passes that begin or end. A pass includes the
 * loss. */
static void pass_marks(const struct mt_advice_input *input, int64_t event, size_t *mark, int64_t *pass)
{
    for (; *mark < input->mark_count && input->marks[*mark].event <= event; ++*mark) {
        const struct mt_mark_row *at = &input->marks[*mark];
        bool is_phase = at->kind == MT_EVENT_PHASE, is_odd = *pass % 2 == 1;
        bool is_forward = is_phase && (at->value == MT_PHASE_FORWARD || at->value == MT_PHASE_LOSS);
        bool ends_forward = (is_phase && !is_forward) || at->kind == MT_EVENT_STEP_BEGIN;
        if (is_odd ? ends_forward : is_forward)
            ++*pass;
    }
}

/* Records when forward passes ended: calls[first .. count) belong to the passes up to `pass`. */
static void end_passes(struct calls *calls, size_t *first, int64_t pass, int64_t event)
{
    for (; *first < calls->count && calls->items[*first].pass < pass; ++*first)
        calls->items[*first].over = event;
}

/* Records every block. An odd pass number is a forward pass, an even one the time after it. */
static void enter_blocks(struct calls *calls)
{
    const struct mt_advice_input *input = calls->window->input;
    size_t mark = 0, unended = 0;
    int64_t pass = 0;
    uint32_t current = NO_CALL; /* the call with the last block that forward allocated */
    for (size_t i = 0; i < input->block_count; i++) {
        const struct mt_block_row *block = &input->blocks[i];
        size_t number = calls->instance_of[block->label];
        calls->call_of[i] = NO_CALL;
        pass_marks(input, block->alloc_event, &mark, &pass);
        end_passes(calls, &unended, pass, mark > 0 ? input->marks[mark - 1].event : 0);
        if (block->alloc_event < input->first_event)
            continue;
        bool is_forward = is_of_forward(&input->labels[block->label]);
        if (is_forward && number != 0)
            enter_forward(calls, &calls->instances[number - 1], i, pass);
        if (is_forward && calls->call_of[i] != current)
            leave_call(calls, current, block->alloc_event);
        if (is_forward)
            current = calls->call_of[i];
        else if (number != 0 && has_phase(&input->labels[block->label], MT_PHASE_BACKWARD))
            enter_backward(calls, &calls->instances[number - 1], block->alloc_event);
    }
}

static struct call *call_of(struct calls *calls, size_t index)
{
    return calls->call_of[index] != NO_CALL ? &calls->items[calls->call_of[index]] : NULL;
}

/* True if the block is an activation, and live at the end of the call. */
static bool is_kept(const struct calls *calls, const struct call *call, const struct mt_block_row *block)
{
    return is_saved(calls->window, block) && mt_block_is_live(block, call->end);
}

/* Makes the last block of each call its output if it is live when forward leaves the call, even if the call does not
 * keep it. */
static void find_passed_on(struct calls *calls)
{
    for (size_t i = 0; i < calls->count; i++) {
        struct call *call = &calls->items[i];
        const struct mt_block_row *last = &calls->window->input->blocks[call->last];
        if (call->next != 0 && mt_block_is_live(last, call->next))
            call->output = call->last;
    }
}

/* Finds each call's output, the other blocks that it keeps, and the first of these that backward frees. */
static void find_kept(struct calls *calls)
{
    const struct mt_advice_input *input = calls->window->input;
    for (size_t i = 0; i < input->block_count; i++) {
        struct call *call = call_of(calls, i);
        if (call != NULL && is_kept(calls, call, &input->blocks[i]))
            call->output = i;
    }
    find_passed_on(calls);
    for (size_t i = 0; i < input->block_count; i++) {
        const struct mt_block_row *block = &input->blocks[i];
        struct call *call = call_of(calls, i);
        if (call == NULL || call->output == i || !is_kept(calls, call, block))
            continue;
        call->saved_bytes += block->requested_bytes;
        if (block->free_event > call->over && block->free_event != 0 &&
            (call->back == 0 || block->free_event < call->back))
            call->back = block->free_event;
    }
}

/* An event that allocates (bytes > 0) or frees a block of a call's forward. */
struct change {
    uint32_t call;
    int64_t event, bytes;
};

static int compare_events(const void *left, const void *right)
{
    const struct change *a = left, *b = right;
    int order = MT_COMPARE(a->call, b->call);
    return order != 0 ? order : MT_COMPARE(a->event, b->event);
}

/* Finds the peak of each call's blocks during its forward. */
static void find_most(struct calls *calls)
{
    const struct mt_advice_input *input = calls->window->input;
    struct change *changes = mt_host_alloc((2 * input->block_count + 1) * sizeof *changes);
    size_t count = 0;
    for (size_t i = 0; i < input->block_count; i++) {
        const struct mt_block_row *block = &input->blocks[i];
        const struct call *call = call_of(calls, i);
        if (call == NULL)
            continue;
        changes[count++] = (struct change){calls->call_of[i], block->alloc_event, (int64_t)block->requested_bytes};
        if (!mt_block_is_live(block, call->end))
            changes[count++] = (struct change){calls->call_of[i], block->free_event, -(int64_t)block->requested_bytes};
    }
    qsort(changes, count, sizeof *changes, compare_events);
    int64_t live = 0;
    for (size_t i = 0; i < count; i++) {
        struct call *call = &calls->items[changes[i].call];
        live = (i > 0 && changes[i].call == changes[i - 1].call ? live : 0) + changes[i].bytes;
        if (live > (int64_t)call->most_bytes)
            call->most_bytes = (uint64_t)live;
    }
    free(changes);
}

static void calls_create(const struct mt_window *window, const struct modules *modules, struct calls *out)
{
    const struct mt_advice_input *input = window->input;
    *out = (struct calls){.window = window, .modules = modules};
    out->instance_of = mt_host_alloc((input->label_count + 1) * sizeof *out->instance_of);
    out->call_of = mt_host_alloc((input->block_count + 1) * sizeof *out->call_of);
    for (size_t i = 0; i < input->label_count; i++)
        if (is_within(input->labels[i].place, modules))
            out->instance_of[i] = find_instance(out, &input->labels[i]) + 1;
    enter_blocks(out);
    find_kept(out);
    find_most(out);
}

static void calls_release(struct calls *calls)
{
    free(calls->items);
    free(calls->instances);
    free(calls->instance_of);
    free(calls->call_of);
    *calls = (struct calls){0};
}

/* ---- the change ---- */

/* Returns the position at which a call's blocks are allocated again: just before backward needs them. */
static int64_t position_of_return(const struct call *call)
{
    return call->back != 0 ? mt_position_at(call->back) - 1 : MT_POSITION_NEVER;
}

static void cut_kept(struct calls *calls, struct mt_changed_run *changed)
{
    for (size_t i = 0; i < calls->window->input->block_count; i++) {
        const struct call *call = call_of(calls, i);
        if (call != NULL && call->output != i && is_kept(calls, call, &calls->window->input->blocks[i]))
            mt_changed_run_cut(changed, i, mt_position_after(call->end), position_of_return(call));
    }
}

/* Adds the forward's temporary memory as one block while the call is computed again. */
static void add_computing(const struct calls *calls, struct mt_changed_run *changed, struct mt_program_change *change)
{
    for (size_t i = 0; i < calls->count; i++) {
        const struct call *call = &calls->items[i];
        assert(call->most_bytes >= call->saved_bytes);
        uint64_t bytes = call->most_bytes - call->saved_bytes;
        if (call->back == 0 || call->saved_bytes == 0 || bytes == 0)
            continue;
        change->recomputed_bytes = mt_larger(change->recomputed_bytes, bytes);
        *MT_HOST_ADD(changed->added, changed->added_count) =
            (struct mt_lifetime){.requested_bytes = bytes,
                                 .begin = mt_position_at(call->back) - 1,
                                 .end = mt_position_at(call->back),
                                 .category = MT_CATEGORY_WORKSPACE,
                                 .stream = calls->window->input->blocks[call->output].stream};
    }
}

/* Replays the run with checkpoints of these modules. */
static mt_status try_checkpoint(const struct mt_window *window, const struct modules *modules,
                                struct mt_program_changes *out)
{
    struct calls calls;
    struct mt_changed_run changed;
    char *place = mt_host_strdup(modules->place);
    place[modules->length] = '\0';
    struct mt_program_change change = {.kind = MT_CHANGE_CHECKPOINT, .place = place, .alloc = window->input->settings};
    calls_create(window, modules, &calls);
    change.calls = calls.count;
    mt_changed_run_create(window, &changed);
    cut_kept(&calls, &changed);
    add_computing(&calls, &changed, &change);
    mt_status status = changed.cuts.count > 0 ? mt_program_changes_add(out, &changed, &change) : MT_OK;
    mt_changed_run_release(&changed);
    calls_release(&calls);
    free(place);
    return status;
}

static int compare_checkpoints(const void *left, const void *right)
{
    const struct mt_program_change *a = left, *b = right;
    int order = MT_COMPARE(b->replay.fits, a->replay.fits);
    return order != 0 ? order : MT_COMPARE(a->replay.allocated_bytes, b->replay.allocated_bytes);
}

/* Keeps the best of the items from `first` on. */
static void keep_best(struct mt_program_changes *changes, size_t first)
{
    if (changes->count > first)
        qsort(changes->items + first, changes->count - first, sizeof *changes->items, compare_checkpoints);
    while (changes->count > first + MT_MOST_CHECKPOINTS)
        free((char *)changes->items[--changes->count].place);
}

mt_status mt_program_changes_add_checkpoints(const struct mt_window *window, struct mt_program_changes *out)
{
    enum { MOST_TRIED = 8 };
    struct modules_list list = list_modules(window);
    size_t first = out->count;
    mt_status status = MT_OK;
    out->gaps[MT_CHANGE_CHECKPOINT] = list.count > 0 ? MT_GAP_NONE : MT_GAP_NO_MODULES;
    if (window->input->program.only_infers)
        out->gaps[MT_CHANGE_CHECKPOINT] = MT_GAP_NO_BACKWARD;
    const size_t count = out->gaps[MT_CHANGE_CHECKPOINT] == MT_GAP_NONE ? list.count : 0;
    for (size_t i = 0; i < count && i < MOST_TRIED && status == MT_OK; i++)
        status = try_checkpoint(window, &list.items[i], out);
    keep_best(out, first);
    free(list.items);
    return status;
}
