/* The query about leaks: groups of blocks that every step leaves behind. */
#include "trace/query/leaks.h"
#include "trace/query/query.h"
#include "trace/query/walk.h"
#include "trace/store/program_phase.h"

#include "base/memory.h"
#include "base/order.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The ends of steps, ascending. */
struct ends {
    int64_t steps[MT_LEAK_MOST_ENDS], events[MT_LEAK_MOST_ENDS];
    size_t count;
};

/* The blocks of one group at one end. */
struct amount {
    uint64_t bytes, blocks;
};

/* The groups of a run's labels.
 * Invariants: group_of_label[number] < group_count; first_label[group] is the lowest of the group;
 * amounts[end * group_count + group]; shapes[group]: the shape of its blocks at the last end or, without any there, at
 * the first, "" if there are several, NULL if there are no blocks. */
struct groups {
    const struct mt_label_row *labels;
    size_t label_count, group_count;
    size_t *group_of_label, *first_label;
    struct amount *amounts;
    const char **shapes;
    bool *is_left; /* of a loop that generates: by group; NULL: does not matter */
};

/* Reads the last ends of steps, without the first step's. */
static mt_status read_ends(struct mt_trace *trace, const struct mt_run *run, struct ends *out)
{
    *out = (struct ends){0};
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT * FROM (SELECT number, last_event FROM step WHERE run = ?1 AND last_event IS"
                 " NOT NULL AND number > (SELECT min(number) FROM step WHERE run = ?1)"
                 " ORDER BY number DESC LIMIT ?2) ORDER BY number",
                 MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(MT_LEAK_MOST_ENDS)) {
        assert(out->count < MT_LEAK_MOST_ENDS);
        out->steps[out->count] = mt_statement_integer(row, 0);
        out->events[out->count++] = mt_statement_integer(row, 1);
    }
    return status;
}

static mt_status find_ends(struct mt_trace *trace, const struct mt_run *run, struct ends *out)
{
    mt_status status = read_ends(trace, run, out);
    if (status != MT_OK || out->count + 1 >= MT_LEAK_LEAST_STEPS)
        return status;
    return mt_fail(MT_USAGE,
                   "run %" PRId64 " has %" PRId64 " full step%s, and a leak shows from the third on: trace one of"
                   " %d steps or more",
                   run->id, run->last_full_step + 1, run->last_full_step == 0 ? "" : "s", MT_LEAK_LEAST_STEPS);
}

/* Finds the longest phase of the program in which a model was called without training. False if there is none. */
static mt_status find_loop(struct mt_trace *trace, const struct mt_run *run, struct mt_leaks *out, int64_t *out_first,
                           int64_t *out_last)
{
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT name, first_event, ifnull(last_event, ?2) AS last FROM program_phase WHERE run = ?1"
                 " AND name IN ('validate', 'generate', 'inference') ORDER BY last - first_event DESC, id LIMIT 1",
                 MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(run->first_event + run->event_count - 1)) {
        out->loop = mt_query_text(trace, row, 0);
        *out_first = mt_statement_integer(row, 1);
        *out_last = mt_statement_integer(row, 2);
    }
    return status;
}

/* Reads the beginnings of the last iterations of the longest loop without steps, but the first, and sets where the loop
 * begins. */
static mt_status read_iterations(struct mt_trace *trace, const struct mt_run *run, struct mt_leaks *leaks,
                                 struct ends *out)
{
    int64_t first = 0, last = -1;
    bool is_first = true; /* or before the last ones */
    mt_status status = find_loop(trace, run, leaks, &first, &last);
    *out = (struct ends){0};
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT * FROM (SELECT id FROM event NOT INDEXED WHERE id BETWEEN ?1 AND ?2 AND kind = ?3 AND "
                 "requested_bytes = ?4"
                 " ORDER BY id DESC LIMIT ?5) ORDER BY id",
                 MT_BIND_INTEGER(first), MT_BIND_INTEGER(last), MT_BIND_INTEGER(MT_EVENT_PHASE),
                 MT_BIND_INTEGER(MT_PHASE_FORWARD), MT_BIND_INTEGER(MT_LEAK_MOST_ENDS + 1)) {
        if (is_first) {
            is_first = false;
            continue;
        }
        out->steps[out->count] = (int64_t)out->count;
        out->events[out->count++] = mt_statement_integer(row, 0);
    }
    leaks->loop_event = first;
    return status;
}

/* Orders labels by the pointers of their texts, which are kept: equal texts have equal pointers. */
static int compare_labels(const void *left, const void *right, void *labels)
{
    const struct mt_label_row *a = (const struct mt_label_row *)labels + *(const size_t *)left;
    const struct mt_label_row *b = (const struct mt_label_row *)labels + *(const size_t *)right;
    const char *const ours[] = {a->category, a->role, a->op, a->phase, a->dtype, a->place};
    const char *const theirs[] = {b->category, b->role, b->op, b->phase, b->dtype, b->place};
    return memcmp(ours, theirs, sizeof ours);
}

/* Sorts the labels so that alike ones are neighbours, and makes those a group. */
static void make_groups(struct groups *groups)
{
    size_t count = groups->label_count, *order = mt_host_alloc((count + 1) * sizeof *order);
    groups->group_of_label = mt_host_alloc((count + 1) * sizeof *groups->group_of_label);
    groups->first_label = mt_host_alloc((count + 1) * sizeof *groups->first_label);
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    qsort_r(order, count, sizeof *order, compare_labels, (void *)groups->labels);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || compare_labels(&order[i - 1], &order[i], (void *)groups->labels) != 0)
            groups->first_label[groups->group_count++] = order[i];
        size_t group = groups->group_count - 1;
        assert(groups->group_count >= 1 && groups->group_count <= count);
        groups->group_of_label[order[i]] = group;
        if (order[i] < groups->first_label[group])
            groups->first_label[group] = order[i];
    }
    free(order);
}

/* The blocks that are live at an end, by alloc_event. */
struct live {
    struct mt_block_row *blocks;
    size_t count;
};

static int compare_allocations(const void *left, const void *right)
{
    const struct mt_block_row *a = left, *b = right;
    return MT_COMPARE(a->alloc_event, b->alloc_event);
}

/* Returns the label that a block has at the last end, if it is live there. A block that gets another label between two
 * ends would otherwise be growth of its new group. */
static uint32_t last_label(const struct mt_block_row *block, const struct live *last)
{
    const struct mt_block_row *found =
        bsearch(block, last->blocks, last->count, sizeof *last->blocks, compare_allocations);
    return found != NULL ? found->label : block->label;
}

static void add_blocks(struct groups *groups, const struct live *live, const struct live *last, struct amount *amounts)
{
    for (size_t i = 0; i < live->count; i++) {
        size_t group = groups->group_of_label[last_label(&live->blocks[i], last)];
        amounts[group].bytes += live->blocks[i].requested_bytes;
        amounts[group].blocks++;
    }
}

/* Finds the shape of each group that has blocks which are live at an end. */
static void find_shapes(const struct groups *groups, const struct live *live, const struct live *last,
                        const char **shapes)
{
    for (size_t i = 0; i < live->count; i++) {
        const uint32_t label = last_label(&live->blocks[i], last);
        const char *shape = groups->labels[label].shape, **known = &shapes[groups->group_of_label[label]];
        *known = *known == NULL || *known == shape ? shape : "";
    }
}

/* Gives groups without blocks at the last end the shapes of others. */
static void add_shapes(struct groups *groups, const char *const *others)
{
    for (size_t i = 0; i < groups->group_count; i++)
        if (groups->shapes[i] == NULL)
            groups->shapes[i] = others[i];
}

/* Counts what is live at the ends but the last, and there. */
static mt_status count_ends(struct mt_trace *trace, const struct mt_run *run, const struct ends *ends,
                            struct groups *groups)
{
    struct live last = {0};
    groups->amounts = mt_host_alloc((ends->count * groups->group_count + 1) * sizeof *groups->amounts);
    groups->shapes = mt_host_alloc((groups->group_count + 1) * sizeof *groups->shapes);
    const char **first_shapes = mt_host_alloc((groups->group_count + 1) * sizeof *first_shapes);
    mt_status status = mt_trace_live(trace, run, ends->events[ends->count - 1], &last.blocks, &last.count);
    for (size_t end = 0; end + 1 < ends->count && status == MT_OK; end++) {
        struct live live = {0};
        status = mt_trace_live(trace, run, ends->events[end], &live.blocks, &live.count);
        if (status == MT_OK)
            add_blocks(groups, &live, &last, groups->amounts + end * groups->group_count);
        if (status == MT_OK && end == 0)
            find_shapes(groups, &live, &last, first_shapes);
        free(live.blocks);
    }
    if (status == MT_OK) {
        add_blocks(groups, &last, &last, groups->amounts + (ends->count - 1) * groups->group_count);
        find_shapes(groups, &last, &last, groups->shapes);
        add_shapes(groups, first_shapes);
    }
    free(first_shapes);
    free(last.blocks);
    return status;
}

/* Returns at how many ends there is more than at the one before; 0 if there is ever less, or if that are too few. */
static uint64_t count_rises(const uint64_t *bytes, size_t ends)
{
    uint64_t rises = 0;
    for (size_t end = 1; end < ends; end++) {
        if (bytes[end] < bytes[end - 1])
            return 0;
        rises += bytes[end] > bytes[end - 1];
    }
    return rises >= mt_leak_least_growths(ends) ? rises : 0;
}

/* Adds what a group has at each end. */
static void add_amounts(const struct groups *groups, size_t ends, size_t group, uint64_t *bytes)
{
    for (size_t end = 0; end < ends; end++)
        bytes[end] += groups->amounts[end * groups->group_count + group].bytes;
}

/* True if blocks of one group may replace blocks of another: tensors of one shape that one operator made in other
 * phases. */
static bool are_kin(const struct groups *groups, size_t one, size_t other)
{
    const struct mt_label_row *a = &groups->labels[groups->first_label[one]];
    const struct mt_label_row *b = &groups->labels[groups->first_label[other]];
    const char *shape = groups->shapes[one];
    return a->op[0] != '\0' && a->op == b->op && a->dtype == b->dtype && a->place == b->place && shape != NULL &&
           shape[0] != '\0' && shape == groups->shapes[other];
}

/* Returns at how many ends the group has grown; 0 if it does not leak. A queue of batches leaks nothing, also if its
 * first batches were made before the first step. */
static uint64_t count_growth(const struct groups *groups, size_t ends, size_t group)
{
    uint64_t bytes[MT_LEAK_MOST_ENDS] = {0};
    add_amounts(groups, ends, group, bytes);
    const uint64_t grew = count_rises(bytes, ends);
    if (grew == 0)
        return 0;
    for (size_t other = 0; other < groups->group_count; other++)
        if (other != group && are_kin(groups, group, other))
            add_amounts(groups, ends, other, bytes);
    return count_rises(bytes, ends) > 0 ? grew : 0;
}

/* Finds the groups with blocks that are live at the end of the run. */
static mt_status find_left(struct mt_trace *trace, const struct mt_run *run, struct groups *groups)
{
    struct mt_block_row *blocks = NULL;
    size_t count = 0;
    int64_t event;
    MT_TRY(mt_trace_last_state(trace, run, &event));
    mt_status status = mt_trace_live(trace, run, event, &blocks, &count);
    groups->is_left = mt_host_alloc((groups->group_count + 1) * sizeof *groups->is_left);
    for (size_t i = 0; i < count && status == MT_OK; i++)
        groups->is_left[groups->group_of_label[blocks[i].label]] = true;
    free(blocks);
    return status;
}

static struct mt_leak_row leak_row(const struct groups *groups, size_t ends, size_t group, uint64_t grew)
{
    const struct mt_label_row *label = &groups->labels[groups->first_label[group]];
    const struct amount *first = &groups->amounts[group];
    const struct amount *last = &groups->amounts[(ends - 1) * groups->group_count + group];
    return (struct mt_leak_row){.category = label->category,
                                .role = label->role,
                                .op = label->op,
                                .phase = label->phase,
                                .dtype = label->dtype,
                                .place = label->place,
                                .shape = groups->shapes[group],
                                .first_bytes = first->bytes,
                                .first_blocks = first->blocks,
                                .last_bytes = last->bytes,
                                .last_blocks = last->blocks,
                                .grew = grew};
}

/* A leak and its group, while they are ordered. */
struct found {
    struct mt_leak_row row;
    size_t group, first_label;
};

/* Most growth first; equal growth in the order of labels. */
static int compare_found(const void *left, const void *right)
{
    const struct found *a = left, *b = right;
    uint64_t a_growth = a->row.last_bytes - a->row.first_bytes, b_growth = b->row.last_bytes - b->row.first_bytes;
    int order = MT_COMPARE(b_growth, a_growth);
    return order != 0 ? order : MT_COMPARE(a->first_label, b->first_label);
}

/* True if a group belongs to the generation of one sequence: it was freed by the end of the run, or grows by a few
 * bytes, as the numbers of its tokens do. */
static bool is_of_generation(const struct groups *groups, size_t ends, size_t group)
{
    enum { LEAST_BYTES = 4096 };
    const uint64_t first = groups->amounts[group].bytes;
    const uint64_t last = groups->amounts[(ends - 1) * groups->group_count + group].bytes;
    return groups->is_left != NULL && (!groups->is_left[group] || last - first < LEAST_BYTES * (ends - 1));
}

/* Returns the groups that leak, in the order of the answer. The caller frees them. */
static struct found *find_leaks(const struct groups *groups, size_t ends, size_t *out_count)
{
    struct found *found = mt_host_alloc((groups->group_count + 1) * sizeof *found);
    *out_count = 0;
    for (size_t group = 0; group < groups->group_count; group++) {
        uint64_t grew = count_growth(groups, ends, group);
        if (grew > 0 && !is_of_generation(groups, ends, group))
            found[(*out_count)++] =
                (struct found){leak_row(groups, ends, group, grew), group, groups->first_label[group]};
    }
    qsort(found, *out_count, sizeof *found, compare_found);
    return found;
}

static void answer(const struct groups *groups, size_t ends, struct mt_leaks *out)
{
    assert(ends >= 2);
    struct found *found = find_leaks(groups, ends, &out->row_count);
    size_t *row_of_group = mt_host_alloc((groups->group_count + 1) * sizeof *row_of_group);
    for (size_t group = 0; group < groups->group_count; group++)
        row_of_group[group] = MT_NO_LEAK;
    out->rows = mt_host_alloc((out->row_count + 1) * sizeof *out->rows);
    for (size_t i = 0; i < out->row_count; i++) {
        out->rows[i] = found[i].row;
        row_of_group[found[i].group] = i;
    }
    out->label_count = groups->label_count;
    out->row_of_label = mt_host_alloc((groups->label_count + 1) * sizeof *out->row_of_label);
    for (size_t i = 0; i < groups->label_count; i++)
        out->row_of_label[i] = row_of_group[groups->group_of_label[i]];
    free(row_of_group);
    free(found);
}

static void groups_release(struct groups *groups)
{
    free(groups->group_of_label);
    free(groups->first_label);
    free(groups->amounts);
    free(groups->shapes);
    free(groups->is_left);
}

/* Compares what was live at the ends. */
static mt_status compare_ends(struct mt_trace *trace, const struct mt_run *run, const struct ends *ends,
                              struct mt_leaks *out)
{
    struct groups groups = {0};
    struct mt_label_row *labels = NULL;
    mt_status status = mt_trace_labels(trace, run, &labels, &groups.label_count);
    groups.labels = labels;
    if (status == MT_OK) {
        make_groups(&groups);
        status = count_ends(trace, run, ends, &groups);
    }
    if (status == MT_OK && strcmp(out->loop, mt_program_phase_name(MT_PROGRAM_PHASE_GENERATE)) == 0)
        status = find_left(trace, run, &groups);
    if (status == MT_OK) {
        out->first_step = ends->steps[0];
        out->last_step = ends->steps[ends->count - 1];
        out->first_event = ends->events[0];
        out->last_event = ends->events[ends->count - 1];
        answer(&groups, ends->count, out);
    }
    groups_release(&groups);
    free(labels);
    return status;
}

mt_status mt_trace_leaks(struct mt_trace *trace, const struct mt_run *run, struct mt_leaks *out)
{
    struct ends steps, iterations;
    struct mt_leaks of_loop = {.loop = ""};
    *out = (struct mt_leaks){.loop = ""};
    mt_status status = find_ends(trace, run, &steps);
    if (status != MT_OK && status != MT_USAGE)
        return status;
    if (status == MT_OK)
        MT_TRY(compare_ends(trace, run, &steps, out));
    if (out->row_count > 0)
        return MT_OK;
    MT_TRY(read_iterations(trace, run, &of_loop, &iterations));
    if (iterations.count + 1 < MT_LEAK_LEAST_ITERATIONS)
        return status;
    mt_leaks_release(out);
    *out = of_loop;
    return compare_ends(trace, run, &iterations, out);
}

void mt_leaks_release(struct mt_leaks *leaks)
{
    free(leaks->rows);
    free(leaks->row_of_label);
    *leaks = (struct mt_leaks){0};
}
