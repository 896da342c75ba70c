/* The steps and live bytes of a window, lists of cuts, and lifetimes without the cuts. */
#include "analysis/lifetimes.h"

#include "analysis/emptied_cache.h"
#include "base/memory.h"
#include "base/order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Returns the moment of an event in the window; 0 for an earlier event, `count` for a later one. */
static size_t moment_of(const struct mt_usage *usage, int64_t event)
{
    int64_t moment = (mt_position_at(event) - usage->first_position + 1) / 2;
    if (moment < 0)
        return 0;
    return (size_t)moment < usage->count ? (size_t)moment : usage->count;
}

static void set_time(struct mt_usage *usage, int64_t event, uint64_t ns)
{
    size_t moment = moment_of(usage, event);
    if (moment > 0 && moment < usage->count)
        usage->ns[moment] = ns;
}

/* An event with unknown time gets the time of the event before it. */
static void fill_times(struct mt_usage *usage, const struct mt_advice_input *input)
{
    for (size_t i = 0; i < input->block_count; i++) {
        const struct mt_block_row *block = &input->blocks[i];
        set_time(usage, block->alloc_event, block->alloc_ns);
        if (block->free_event != 0)
            set_time(usage, block->free_event, block->free_ns);
    }
    for (size_t i = 0; i < input->mark_count; i++)
        set_time(usage, input->marks[i].event, input->marks[i].time_ns);
    for (size_t k = 1; k < usage->count; k++)
        if (usage->ns[k] < usage->ns[k - 1])
            usage->ns[k] = usage->ns[k - 1];
}

static void add_blocks(struct mt_usage *usage, const struct mt_advice_input *input)
{
    for (size_t i = 0; i < input->block_count; i++) {
        const struct mt_block_row *block = &input->blocks[i];
        usage->live[moment_of(usage, block->alloc_event)] += block->requested_bytes;
        if (block->free_event == 0)
            continue;
        size_t end = moment_of(usage, block->free_event);
        if (end < usage->count)
            usage->live[end] -= block->requested_bytes;
    }
}

static void sum_changes(struct mt_usage *usage)
{
    for (size_t k = 0; k < usage->count; k++) {
        usage->live[k] += k > 0 ? usage->live[k - 1] : 0;
        if (usage->live[k] > usage->peak_bytes) {
            usage->peak_bytes = usage->live[k];
            usage->peak_position = usage->first_position + 2 * (int64_t)k - (k > 0);
        }
    }
}

static void usage_create(const struct mt_advice_input *input, struct mt_usage *out)
{
    assert(input->first_event >= 1 && input->first_event <= input->last_event);
    size_t count = (size_t)(input->last_event - input->first_event) + 2;
    *out = (struct mt_usage){.blocks = input->blocks,
                             .first_position = mt_position_at(input->first_event) - 1,
                             .count = count,
                             .live = mt_host_alloc(count * sizeof(uint64_t)),
                             .ns = mt_host_alloc(count * sizeof(uint64_t)),
                             .change = mt_host_alloc(2 * count * sizeof(uint64_t))};
    add_blocks(out, input);
    sum_changes(out);
    fill_times(out, input);
}

static void usage_release(struct mt_usage *usage)
{
    free(usage->live);
    free(usage->ns);
    free(usage->change);
    *usage = (struct mt_usage){0};
}

uint64_t mt_usage_ns(const struct mt_usage *usage, int64_t position)
{
    if (position < usage->first_position)
        return usage->ns[0];
    uint64_t moment = ((uint64_t)position - (uint64_t)usage->first_position + 1) / 2;
    return usage->ns[moment < usage->count ? moment : usage->count - 1];
}

/* Records the cuts as changes of the live bytes, by position. */
static void enter_changes(struct mt_usage *usage, const struct mt_cut *cuts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = usage->blocks[cuts[i].block].requested_bytes;
        assert(usage->first_position <= cuts[i].from && cuts[i].from < cuts[i].to);
        size_t from = (size_t)(cuts[i].from - usage->first_position);
        uint64_t to = (uint64_t)cuts[i].to - (uint64_t)usage->first_position;
        usage->change[from] -= bytes;
        if (to < 2 * usage->count)
            usage->change[to] += bytes;
    }
}

struct mt_cut_usage mt_usage_cut(struct mt_usage *usage, const struct mt_cut *cuts, size_t count)
{
    struct mt_cut_usage answer = {.most_position = usage->peak_position};
    enter_changes(usage, cuts, count);
    uint64_t change = 0;
    for (size_t i = 0; i < 2 * usage->count - 1; i++) {
        change += usage->change[i];
        usage->change[i] = 0;
        uint64_t live = usage->live[(i + 1) / 2] + change, absent = 0 - change;
        if (live > answer.peak_bytes)
            answer.peak_bytes = live;
        if (absent > answer.most_bytes) {
            answer.most_bytes = absent;
            answer.most_position = usage->first_position + (int64_t)i;
        }
    }
    usage->change[2 * usage->count - 1] = 0;
    assert(answer.peak_bytes <= usage->peak_bytes);
    return answer;
}

static mt_role role_of(const struct mt_label_row *label)
{
    mt_role role = 0;
    while (role < MT_ROLE_COUNT && strcmp(label->role, mt_role_name(role)) != 0)
        role++;
    return role;
}

/* A PyTorch step begins within its forward phase. */
static void begin_step(struct mt_window *window, const struct mt_mark_row *mark, mt_phase phase)
{
    assert(window->step_count == 0 || window->steps[window->step_count - 1].begin < mark->event);
    window->steps[window->step_count++] = (struct mt_step_extent){
        .number = (int64_t)mark->value, .begin = mark->event, .forward = phase == MT_PHASE_FORWARD ? mark->event : 0};
}

static void end_step(struct mt_window *window, const struct mt_mark_row *mark)
{
    if (window->step_count > 0)
        window->steps[window->step_count - 1].end = mark->event;
}

static void begin_phase(struct mt_window *window, const struct mt_mark_row *mark)
{
    if (window->step_count == 0)
        return;
    struct mt_step_extent *step = &window->steps[window->step_count - 1];
    if (step->forward == 0 && mark->value == MT_PHASE_FORWARD)
        step->forward = mark->event;
    else if (step->forward != 0 && step->after_forward == 0)
        step->after_forward = mark->event;
    if (step->after_forward != 0 && step->optimizer == 0 && mark->value == MT_PHASE_OPTIMIZER)
        step->optimizer = mark->event;
}

static int64_t last_allocation(const struct mt_advice_input *input)
{
    return input->block_count > 0 ? input->blocks[input->block_count - 1].alloc_event : 0;
}

/* Returns the event of the last refused request, if nothing was allocated after it; 0 if there is none. */
static int64_t final_refusal(const struct mt_advice_input *input)
{
    int64_t refusal = 0;
    for (size_t i = 0; i < input->mark_count; i++)
        if (input->marks[i].kind == MT_EVENT_OOM)
            refusal = input->marks[i].event;
    return last_allocation(input) > refusal ? 0 : refusal;
}

/* Returns the event after which a failed program only cleans up: the final refusal, or else the last allocation; 0 if
 * it did not fail. */
static int64_t failure_of(const struct mt_advice_input *input)
{
    const int64_t refusal = final_refusal(input);
    return refusal != 0 || !input->has_failed ? refusal : last_allocation(input);
}

/* Marks after a failure are not the program's own: its step and phase end before they are complete. */
static void read_marks(struct mt_window *window)
{
    const int64_t failure = failure_of(window->input);
    mt_phase phase = MT_PHASE_INIT;
    for (size_t i = 0; i < window->input->mark_count; i++) {
        const struct mt_mark_row *mark = &window->input->marks[i];
        if (failure != 0 && mark->event > failure)
            break;
        if (mark->kind == MT_EVENT_STEP_BEGIN)
            begin_step(window, mark, phase);
        if (mark->kind == MT_EVENT_STEP_END)
            end_step(window, mark);
        if (mark->kind == MT_EVENT_PHASE) {
            phase = (mt_phase)mark->value;
            begin_phase(window, mark);
        }
    }
}

/* A run ends with its last step. If the step is incomplete, it ends where memory ran out, or with the window. */
static void find_end(struct mt_window *window)
{
    const int64_t refusal = final_refusal(window->input), failure = failure_of(window->input);
    int64_t step_end = window->step_count > 0 ? window->steps[window->step_count - 1].end : 0;
    window->ran_out = refusal != 0 && step_end == 0;
    window->program_end = step_end != 0 ? step_end : window->input->last_event;
    if (step_end == 0 && failure != 0)
        window->program_end = failure;
}

static size_t count_steps(const struct mt_advice_input *input)
{
    size_t count = 0;
    for (size_t i = 0; i < input->mark_count; i++)
        count += input->marks[i].kind == MT_EVENT_STEP_BEGIN;
    return count;
}

/* Lists each event that mapped or unmapped memory once, in ascending order. */
static void list_segment_events(struct mt_window *window)
{
    const struct mt_advice_input *input = window->input;
    window->ranks = mt_host_alloc((2 * input->part_count + 1) * sizeof *window->ranks);
    size_t count = 0;
    for (size_t i = 0; i < input->part_count; i++) {
        window->ranks[count++] = input->parts[i].mapped_event;
        if (input->parts[i].unmapped_event != 0)
            window->ranks[count++] = input->parts[i].unmapped_event;
    }
    qsort(window->ranks, count, sizeof *window->ranks, mt_compare_int64);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || window->ranks[i] != window->ranks[window->rank_count - 1])
            window->ranks[window->rank_count++] = window->ranks[i];
}

static void compute_ranks(struct mt_window *window)
{
    list_segment_events(window);
    for (size_t i = 0; i < window->rank_count; i++)
        window->ranks[i] -= (int64_t)i + 1; /* one for each event before it, and for itself */
}

/* A property that the first elements have and the rest do not; elements are compared with `value`. */
typedef bool (*is_before_function)(const struct mt_window *window, size_t index, int64_t value);

/* Returns the number of elements that have the property. */
static size_t count_before(const struct mt_window *window, size_t count, is_before_function is_before, int64_t value)
{
    size_t low = 0, high = count; /* elements below `low` have it; elements from `high` on do not */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (is_before(window, middle, value))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_rank_below(const struct mt_window *window, size_t index, int64_t rank)
{
    return window->ranks[index] < rank;
}

static bool is_segment_event_until(const struct mt_window *window, size_t index, int64_t event)
{
    return window->ranks[index] + (int64_t)index + 1 <= event;
}

static bool has_step_begun(const struct mt_window *window, size_t index, int64_t event)
{
    return window->steps[index].begin <= event;
}

int64_t mt_window_event(const struct mt_window *window, int64_t rank)
{
    return rank + (int64_t)count_before(window, window->rank_count, is_rank_below, rank);
}

int64_t mt_window_rank(const struct mt_window *window, int64_t event)
{
    return event - (int64_t)count_before(window, window->rank_count, is_segment_event_until, event);
}

int64_t mt_window_step_of(const struct mt_window *window, int64_t event)
{
    size_t begun = count_before(window, window->step_count, has_step_begun, event);
    return begun > 0 ? (int64_t)begun - 1 : MT_NO_STEP;
}

void mt_window_create(const struct mt_advice_input *input, struct mt_window *out)
{
    *out = (struct mt_window){.input = input};
    usage_create(input, &out->usage);
    out->steps = mt_host_alloc((count_steps(input) + 1) * sizeof *out->steps);
    read_marks(out);
    find_end(out);
    compute_ranks(out);
    out->roles = mt_host_alloc((input->label_count + 1) * sizeof *out->roles);
    for (size_t i = 0; i < input->label_count; i++)
        out->roles[i] = role_of(&input->labels[i]);
    out->categories = mt_host_alloc((input->label_count + 1) * sizeof *out->categories);
    for (size_t i = 0; i < input->label_count; i++)
        out->categories[i] = mt_category_of_label(&input->labels[i]);
    out->releases = mt_emptied_cache_find(input, &out->release_count);
}

void mt_window_release(struct mt_window *window)
{
    usage_release(&window->usage);
    free(window->steps);
    free(window->roles);
    free(window->categories);
    free(window->ranks);
    free(window->releases);
    *window = (struct mt_window){0};
}

int64_t mt_window_begin(const struct mt_window *window, const struct mt_block_row *block)
{
    int64_t begin = mt_position_at(block->alloc_event);
    return begin < window->usage.first_position ? window->usage.first_position : begin;
}

int64_t mt_window_end(const struct mt_window *window, const struct mt_block_row *block)
{
    assert(block->free_event == 0 || block->free_event > block->alloc_event);
    bool is_freed = block->free_event != 0 && block->free_event <= window->input->last_event;
    return is_freed ? mt_position_at(block->free_event) : MT_POSITION_NEVER;
}

bool mt_window_is_result(const struct mt_window *window, const struct mt_block_row *block)
{
    return block->free_event == 0 || block->free_event > window->program_end;
}

void mt_cut_list_release(struct mt_cut_list *list)
{
    free(list->items);
    *list = (struct mt_cut_list){0};
}

static void append(struct mt_cut_list *list, struct mt_cut cut)
{
    *MT_HOST_ADD(list->items, list->count) = cut;
}

/* Returns the first event at or after a position. */
static int64_t event_from(int64_t position)
{
    return position / 2 + position % 2;
}

void mt_cut_list_add(struct mt_cut_list *list, const struct mt_window *window, size_t index, int64_t from, int64_t to)
{
    assert(index < window->input->block_count);
    const struct mt_block_row *block = &window->input->blocks[index];
    int64_t begin = mt_window_begin(window, block), end = mt_window_end(window, block);
    struct mt_cut cut = {.block = (uint32_t)index, .from = from > begin ? from : begin, .to = to < end ? to : end};
    const bool is_in_window = cut.from <= mt_position_after(window->input->last_event);
    if (is_in_window && cut.from < cut.to && event_from(cut.from) < event_from(cut.to))
        append(list, cut);
}

static int compare_cuts(const void *left, const void *right)
{
    return MT_COMPARE(((const struct mt_cut *)left)->from, ((const struct mt_cut *)right)->from);
}

void mt_cut_list_join(struct mt_cut_list *list, size_t first)
{
    if (list->count < first + 2)
        return;
    struct mt_cut *cuts = list->items + first;
    assert(cuts[0].block == list->items[list->count - 1].block);
    qsort(cuts, list->count - first, sizeof *cuts, compare_cuts);
    size_t last = 0;
    for (size_t i = 1; i < list->count - first; i++) {
        if (cuts[i].from > cuts[last].to)
            cuts[++last] = cuts[i];
        else if (cuts[i].to > cuts[last].to)
            cuts[last].to = cuts[i].to;
    }
    list->count = first + last + 1;
}

/* A part of a block's lifetime between two cuts. */
struct piece {
    struct mt_lifetime lifetime;
    int64_t original_end;
    size_t number; /* order of creation */
};

struct pieces {
    struct piece *items;
    size_t count;
};

static int compare_pieces(const void *left, const void *right)
{
    const struct piece *a = left, *b = right;
    int order = MT_COMPARE(a->original_end, b->original_end);
    return order != 0 ? order : MT_COMPARE(a->number, b->number);
}

static struct mt_lifetime lifetime_of(const struct mt_window *window, const struct mt_block_row *block)
{
    return (struct mt_lifetime){.requested_bytes = block->requested_bytes,
                                .category = window->categories[block->label],
                                .begin = mt_window_begin(window, block),
                                .end = mt_window_end(window, block),
                                .label = block->label,
                                .stream = block->stream};
}

static void add_piece(struct pieces *pieces, struct mt_lifetime lifetime, int64_t begin, int64_t end)
{
    struct piece piece = {.lifetime = lifetime, .original_end = lifetime.end, .number = pieces->count};
    piece.lifetime.begin = begin;
    piece.lifetime.end = end;
    if (begin < end)
        pieces->items[pieces->count++] = piece;
}

/* Adds the parts of a block's lifetime outside its cuts, which begin at `cuts`. Returns the number of the block's
 * cuts. */
static size_t add_pieces(struct pieces *pieces, struct mt_lifetime lifetime, const struct mt_cut *cuts, size_t count)
{
    size_t own = 0;
    int64_t begin = lifetime.begin;
    for (; own < count && cuts[own].block == cuts[0].block; own++) {
        assert(begin <= cuts[own].from && cuts[own].to <= lifetime.end);
        add_piece(pieces, lifetime, begin, cuts[own].from);
        begin = cuts[own].to;
    }
    add_piece(pieces, lifetime, begin, lifetime.end);
    return own;
}

struct mt_lifetime *mt_lifetimes_with_cuts(const struct mt_window *window, const struct mt_cut *cuts, size_t cut_count,
                                           size_t *out_count)
{
    size_t blocks = window->input->block_count, count = 0, cut = 0;
    struct mt_lifetime *lifetimes = mt_host_resize(NULL, blocks + 2 * cut_count + 1, sizeof *lifetimes);
    struct pieces pieces = {.items = mt_host_resize(NULL, 2 * cut_count + 1, sizeof *pieces.items)};
    for (size_t i = 0; i < blocks; i++) {
        struct mt_lifetime lifetime = lifetime_of(window, &window->input->blocks[i]);
        if (cut < cut_count && cuts[cut].block == i)
            cut += add_pieces(&pieces, lifetime, cuts + cut, cut_count - cut);
        else
            lifetimes[count++] = lifetime;
    }
    assert(cut == cut_count);
    qsort(pieces.items, pieces.count, sizeof *pieces.items, compare_pieces);
    for (size_t i = 0; i < pieces.count; i++)
        lifetimes[count++] = pieces.items[i].lifetime;
    free(pieces.items);
    *out_count = count;
    return lifetimes;
}

mt_status mt_window_replay(const struct mt_window *window, const struct mt_cut *cuts, size_t cut_count,
                           const struct mt_alloc_settings *settings, struct mt_replay_result *out)
{
    size_t count;
    struct mt_lifetime *lifetimes = mt_lifetimes_with_cuts(window, cuts, cut_count, &count);
    const struct mt_replay_releases releases = {window->releases, window->release_count};
    mt_status status =
        mt_replay_run_releasing(lifetimes, count, releases, settings, window->input->capacity_bytes, out);
    free(lifetimes);
    return status;
}
