#include "producers/file/block_lives.h"

#include "base/memory.h"
#include "base/order.h"
#include "producers/file/replaced_blocks.h"

#include <assert.h>
#include <stdlib.h>

/* A parameter has at most this many blocks of its size, itself included: a gradient, moments, averages. */
enum { MOST_COPIES = 8 };

/* cuBLAS's workspaces on Hopper and on other cards. A process has one or two. */
enum { WORKSPACE_BYTES = 32 << 20, SMALL_WORKSPACE_BYTES = 8519680, MOST_WORKSPACES = 2 };

/* A block that was live before the first event. */
struct old_block {
    uint64_t address, bytes;
    const struct mt_value *frames; /* NULL: none */
    uint32_t freed;                /* the event that frees it; MT_NO_EVENT: none */
    mt_role role;
};

/* The blocks with one call stack and size whose ends are known: `outlived` of `count` outlived their phase. */
struct habit {
    uint32_t count, outlived;
};

struct mt_block_lives {
    const struct mt_torch_snapshot *snapshot;
    const struct mt_torch_course *course;
    struct mt_torch_callers *callers;
    struct old_block *old;
    size_t old_count;
    struct mt_number_map old_numbers; /* by address */
    struct mt_number_map habit_numbers;
    struct habit *habits;
    size_t habit_count;
    uint32_t *backwards;             /* of each event: the sections of backward until it */
    struct mt_number_map gradients;  /* by bytes: the most blocks that one backward allocated and left */
    struct mt_number_map parameters; /* by bytes: blocks that init allocated and nothing freed */
    uint64_t copies;                 /* blocks before the first event for each parameter, with itself; 0: unknown */
    struct mt_replaced_blocks replaced;
    bool has_requests; /* false: nothing shows the purpose of blocks from before the first event */
};

/* Increments the count of a key in a map, and returns it. */
static uint64_t count_one(struct mt_number_map *map, uint64_t key)
{
    uint64_t count = 0;
    mt_number_map_get(map, key, &count);
    mt_number_map_put(map, key, ++count);
    return count;
}

static uint64_t count_of(const struct mt_number_map *map, uint64_t key)
{
    uint64_t count = 0;
    mt_number_map_get(map, key, &count);
    return count;
}

static struct habit *find_habit(struct mt_block_lives *lives, size_t event)
{
    const struct mt_torch_event *taken = &lives->snapshot->events[event];
    uint64_t caller = (uint64_t)(mt_torch_callers_find(lives->callers, taken->frames) - lives->callers->callers);
    uint64_t number, key = (caller << 40 ^ taken->bytes) & INT64_MAX;
    if (mt_number_map_get(&lives->habit_numbers, key, &number))
        return &lives->habits[number];
    lives->habits = mt_host_room(lives->habits, lives->habit_count, sizeof *lives->habits);
    mt_number_map_put(&lives->habit_numbers, key, lives->habit_count);
    lives->habits[lives->habit_count] = (struct habit){0};
    return &lives->habits[lives->habit_count++];
}

/* True if the block was still live in another phase. A block of forward that a later forward frees was not saved. */
static bool is_seen_outliving(const struct mt_block_lives *lives, size_t event)
{
    const struct mt_torch_moment *began = &lives->course->moments[event], *last = &lives->course->moments[began->known];
    bool is_forward = began->phase == MT_PHASE_FORWARD || began->phase == MT_PHASE_LOSS;
    bool ends_forward = last->phase == MT_PHASE_FORWARD || last->phase == MT_PHASE_LOSS;
    return last->section != began->section && !(is_forward && ends_forward && began->partner != MT_NO_EVENT);
}

/* True if the recording shows whether the block outlives its phase. A block that is live at its end may be
 * undecided. */
static bool is_decided(const struct mt_block_lives *lives, size_t event)
{
    return lives->course->moments[event].partner != MT_NO_EVENT || is_seen_outliving(lives, event);
}

static bool is_alloc(const struct mt_block_lives *lives, size_t event)
{
    return lives->snapshot->events[event].action == MT_TORCH_ALLOC;
}

static void learn_habits(struct mt_block_lives *lives)
{
    for (size_t i = 0; i < lives->course->count; i++) {
        if (!is_alloc(lives, i) || !is_decided(lives, i))
            continue;
        struct habit *habit = find_habit(lives, i);
        habit->count++;
        habit->outlived += is_seen_outliving(lives, i);
    }
}

/* True if the block outlives its phase, or would if the recording went on. */
static bool outlives(struct mt_block_lives *lives, size_t event)
{
    if (is_alloc(lives, event) && is_decided(lives, event))
        return is_seen_outliving(lives, event);
    const struct habit *habit = find_habit(lives, event);
    if (habit->count > 0)
        return habit->outlived * 2 >= habit->count;
    bool is_gradient = lives->course->moments[event].phase == MT_PHASE_BACKWARD && lives->parameters.count > 0;
    return !is_gradient || count_of(&lives->parameters, lives->snapshot->events[event].bytes) > 0;
}

/* Counts the sizes of parameters that the recording saw, and numbers the sections of backward. */
static void note_sizes(struct mt_block_lives *lives)
{
    uint32_t backwards = 0;
    for (size_t i = 0; i < lives->course->count; i++) {
        const struct mt_torch_moment *moment = &lives->course->moments[i];
        bool begins = i == 0 || moment->section != moment[-1].section;
        backwards += begins && moment->phase == MT_PHASE_BACKWARD;
        lives->backwards[i] = backwards;
        lives->has_requests |= moment->is_request;
        if (is_alloc(lives, i) && moment->phase == MT_PHASE_INIT && moment->partner == MT_NO_EVENT)
            count_one(&lives->parameters, lives->snapshot->events[i].bytes);
    }
}

static bool has_workspace_size(uint64_t bytes)
{
    return bytes == WORKSPACE_BYTES || bytes == SMALL_WORKSPACE_BYTES;
}

/* True if rules call an allocation a workspace. Rules are evaluated only for allocations of a workspace's size. */
static bool is_said_workspace(struct mt_block_lives *lives, size_t event)
{
    const struct mt_torch_event *taken = &lives->snapshot->events[event];
    const struct mt_torch_annotations none = {0};
    const struct mt_torch_request request = {taken->address, taken->bytes, taken->frames, taken};
    struct mt_rule_subject subject = mt_torch_subject(&request, &none);
    struct mt_rule_answer answer;
    if (!has_workspace_size(taken->bytes))
        return false;
    subject.phase = (mt_phase)lives->course->moments[event].phase;
    mt_rules_ask(lives->callers->rules, &mt_torch_callers_find(lives->callers, taken->frames)->choice, &subject,
                 &answer);
    return answer.role == MT_ROLE_WORKSPACE;
}

/* Counts the gradients of each size that one backward allocates. Keeps the largest count. */
static void count_gradients(struct mt_block_lives *lives)
{
    struct mt_number_map taken;
    uint32_t backwards = 0;
    mt_number_map_create(&taken);
    for (size_t i = 0; i < lives->course->count; i++) {
        uint64_t bytes = lives->snapshot->events[i].bytes;
        if (!is_alloc(lives, i) || lives->course->moments[i].phase != MT_PHASE_BACKWARD || !outlives(lives, i) ||
            is_said_workspace(lives, i))
            continue;
        if (lives->backwards[i] != backwards) {
            mt_number_map_release(&taken);
            mt_number_map_create(&taken);
        }
        backwards = lives->backwards[i];
        uint64_t count = count_one(&taken, bytes);
        if (count > count_of(&lives->gradients, bytes))
            mt_number_map_put(&lives->gradients, bytes, count);
    }
    mt_number_map_release(&taken);
}

static void add_old(struct mt_block_lives *lives, const struct old_block *block)
{
    lives->old = mt_host_room(lives->old, lives->old_count, sizeof *lives->old);
    lives->old[lives->old_count++] = *block;
}

static int compare_old(const void *left, const void *right)
{
    const struct old_block *a = left, *b = right;
    return MT_COMPARE(a->address, b->address);
}

/* Lists the blocks from before the first event: those that no allocation of the recording explains. */
static void find_old(struct mt_block_lives *lives)
{
    const struct mt_torch_snapshot *snapshot = lives->snapshot;
    struct mt_number_map taken;
    uint64_t ignored;
    mt_number_map_create(&taken);
    for (size_t i = 0; i < snapshot->event_count; i++) {
        const struct mt_torch_event *event = &snapshot->events[i];
        if (event->action == MT_TORCH_ALLOC)
            mt_number_map_put(&taken, event->address, i);
        else if (event->action == MT_TORCH_FREE_COMPLETED && !mt_number_map_take(&taken, event->address, &ignored))
            add_old(lives, &(struct old_block){event->address, event->bytes, NULL, (uint32_t)i, MT_ROLE_OTHER});
    }
    for (size_t i = 0; i < snapshot->block_count; i++) {
        const struct mt_torch_block *block = &snapshot->blocks[i];
        bool has_frames = block->frames->kind == MT_VALUE_LIST && mt_value_count(block->frames) > 0;
        if (!mt_number_map_get(&taken, block->address, &ignored))
            add_old(lives, &(struct old_block){block->address, block->requested_bytes,
                                               has_frames ? block->frames : NULL, MT_NO_EVENT, MT_ROLE_OTHER});
    }
    mt_number_map_release(&taken);
    if (lives->old_count > 0)
        qsort(lives->old, lives->old_count, sizeof *lives->old, compare_old);
    for (size_t i = 0; i < lives->old_count; i++)
        mt_number_map_put(&lives->old_numbers, lives->old[i].address, i);
}

/* True for a block with only its size as evidence: it has no call stack and is never freed. */
static bool is_silent(const struct old_block *block)
{
    return block->frames == NULL && block->freed == MT_NO_EVENT;
}

/* Counts the silent blocks of each size. */
static void count_silent(const struct mt_block_lives *lives, struct mt_number_map *out)
{
    mt_number_map_create(out);
    for (size_t i = 0; i < lives->old_count; i++)
        if (is_silent(&lives->old[i]))
            count_one(out, lives->old[i].bytes);
}

/* Finds the number of equally large blocks for each gradient. Sizes vote with their bytes. */
static void count_copies(struct mt_block_lives *lives, const struct mt_number_map *silent)
{
    uint64_t votes[MOST_COPIES + 1] = {0};
    for (size_t i = 0; i <= silent->mask; i++) {
        const struct mt_number_pair *pair = &silent->pairs[i];
        uint64_t gradients = pair->key != MT_NUMBER_MAP_NO_KEY ? count_of(&lives->gradients, pair->key) : 0;
        if (gradients > 0 && pair->value / gradients <= MOST_COPIES)
            votes[pair->value / gradients] += gradients * pair->key;
    }
    for (uint64_t copies = 1; copies <= MOST_COPIES; copies++)
        if (votes[copies] > votes[lives->copies])
            lives->copies = copies;
}

static bool is_workspace(const struct mt_block_lives *lives, uint64_t bytes, uint64_t count)
{
    return has_workspace_size(bytes) && count <= MOST_WORKSPACES && count_of(&lives->gradients, bytes) == 0;
}

/* Returns the role of the n-th silent block of a size, from 0, of `count`. It is unknown which of the equal blocks is
 * the parameter, but the sums are right. */
static mt_role role_by_size(const struct mt_block_lives *lives, uint64_t bytes, uint64_t n, uint64_t count)
{
    uint64_t gradients = count_of(&lives->gradients, bytes);
    if (is_workspace(lives, bytes, count))
        return MT_ROLE_WORKSPACE;
    if (!lives->has_requests)
        return MT_ROLE_UNKNOWN;
    bool is_state = n >= gradients && n < gradients * lives->copies;
    return is_state ? MT_ROLE_OPTIMIZER_STATE : MT_ROLE_PARAMETER;
}

/* Returns the role by the phase that frees the block. */
static mt_role role_by_end(const struct mt_block_lives *lives, const struct old_block *block)
{
    assert(block->freed != MT_NO_EVENT);
    mt_phase phase = (mt_phase)lives->course->moments[block->freed].phase;
    const mt_role replaced = mt_replaced_blocks_role_of_freed(&lives->replaced, block->freed);
    if (replaced != MT_ROLE_OTHER)
        return replaced;
    if (count_of(&lives->gradients, block->bytes) > 0 && phase != MT_PHASE_BACKWARD)
        return MT_ROLE_GRADIENT;
    return phase == MT_PHASE_BACKWARD ? MT_ROLE_ACTIVATION : MT_ROLE_OTHER;
}

/* Returns the role by the phase in which an earlier recording saw the block's allocation. */
static mt_role role_by_frames(struct mt_block_lives *lives, const struct old_block *block)
{
    const struct mt_torch_annotations none = {0};
    const struct mt_torch_request request = {.requested_bytes = block->bytes, .frames = block->frames};
    const struct mt_rule_subject subject = mt_torch_subject(&request, &none);
    const struct mt_torch_caller *caller = mt_torch_callers_find(lives->callers, block->frames);
    switch (mt_rules_phase(lives->callers->rules, &caller->choice, &subject)) {
    case MT_PHASE_OPTIMIZER:
        return MT_ROLE_OPTIMIZER_STATE;
    case MT_PHASE_BACKWARD:
        return MT_ROLE_GRADIENT;
    case MT_PHASE_FORWARD:
    case MT_PHASE_LOSS:
        return block->freed != MT_NO_EVENT && lives->course->has_backward ? MT_ROLE_ACTIVATION : MT_ROLE_OTHER;
    case MT_PHASE_INIT:
        return MT_ROLE_PARAMETER;
    default:
        return lives->has_requests ? MT_ROLE_PARAMETER : MT_ROLE_UNKNOWN;
    }
}

static void judge_old(struct mt_block_lives *lives)
{
    struct mt_number_map silent, seen;
    count_silent(lives, &silent);
    count_copies(lives, &silent);
    mt_number_map_create(&seen);
    for (size_t i = 0; i < lives->old_count; i++) {
        struct old_block *block = &lives->old[i];
        if (is_silent(block))
            block->role =
                role_by_size(lives, block->bytes, count_one(&seen, block->bytes) - 1, count_of(&silent, block->bytes));
        else
            block->role = block->frames != NULL ? role_by_frames(lives, block) : role_by_end(lives, block);
    }
    mt_number_map_release(&silent);
    mt_number_map_release(&seen);
}

struct mt_block_lives *mt_block_lives_create(const struct mt_torch_snapshot *snapshot,
                                             const struct mt_torch_course *course, struct mt_torch_callers *callers)
{
    assert(course->count == snapshot->event_count);
    struct mt_block_lives *lives = mt_host_alloc(sizeof *lives);
    *lives = (struct mt_block_lives){.snapshot = snapshot, .course = course, .callers = callers};
    lives->backwards = mt_host_alloc((course->count + 1) * sizeof *lives->backwards);
    mt_number_map_create(&lives->old_numbers);
    mt_number_map_create(&lives->habit_numbers);
    mt_number_map_create(&lives->gradients);
    mt_number_map_create(&lives->parameters);
    note_sizes(lives);
    learn_habits(lives);
    count_gradients(lives);
    mt_replaced_blocks_create(&lives->replaced, snapshot, course, &lives->gradients);
    find_old(lives);
    judge_old(lives);
    return lives;
}

void mt_block_lives_destroy(struct mt_block_lives *lives)
{
    if (lives == NULL)
        return;
    mt_replaced_blocks_release(&lives->replaced);
    mt_number_map_release(&lives->old_numbers);
    mt_number_map_release(&lives->habit_numbers);
    mt_number_map_release(&lives->gradients);
    mt_number_map_release(&lives->parameters);
    free(lives->old);
    free(lives->habits);
    free(lives->backwards);
    free(lives);
}

/* Blocks that init allocates and the end of the program frees count as never freed. */
static mt_role role_of_init(const struct mt_block_lives *lives, const struct mt_torch_moment *moment)
{
    if (moment->partner == MT_NO_EVENT)
        return MT_ROLE_PARAMETER;
    const struct mt_torch_moment *end = &lives->course->moments[moment->partner];
    if (end->section == moment->section)
        return MT_ROLE_TEMPORARY;
    return end->section == lives->course->moments[lives->course->count - 1].section ? MT_ROLE_PARAMETER : MT_ROLE_INPUT;
}

/* Backward does not need a block that forward allocates once and keeps through later steps. */
static mt_role role_of_forward(struct mt_block_lives *lives, size_t event)
{
    const struct mt_torch_moment *moment = &lives->course->moments[event];
    bool is_kept = moment->partner == MT_NO_EVENT && is_alloc(lives, event);
    if (moment->is_given)
        return MT_ROLE_INPUT;
    if (!lives->course->has_backward)
        return is_kept ? MT_ROLE_KEPT : MT_ROLE_TEMPORARY;
    if (is_kept && lives->backwards[moment->known] > lives->backwards[event] + 1 && find_habit(lives, event)->count < 2)
        return MT_ROLE_KEPT;
    return outlives(lives, event) ? MT_ROLE_ACTIVATION : MT_ROLE_TEMPORARY;
}

static mt_role role_of_new(struct mt_block_lives *lives, size_t event)
{
    const struct mt_torch_moment *moment = &lives->course->moments[event];
    const mt_role replaced = mt_replaced_blocks_role(&lives->replaced, event);
    if (replaced != MT_ROLE_OTHER)
        return replaced;
    switch ((mt_phase)moment->phase) {
    case MT_PHASE_INIT:
        return role_of_init(lives, moment);
    case MT_PHASE_OPTIMIZER:
        return outlives(lives, event) ? MT_ROLE_OPTIMIZER_STATE : MT_ROLE_TEMPORARY;
    case MT_PHASE_BACKWARD:
        return outlives(lives, event) ? MT_ROLE_GRADIENT : MT_ROLE_TEMPORARY;
    default:
        return role_of_forward(lives, event);
    }
}

mt_role mt_block_lives_role(struct mt_block_lives *lives, const struct mt_torch_request *request)
{
    uint64_t number;
    if (request->event != NULL)
        return role_of_new(lives, (size_t)(request->event - lives->snapshot->events));
    return mt_number_map_get(&lives->old_numbers, request->address, &number) ? lives->old[number].role : MT_ROLE_OTHER;
}
