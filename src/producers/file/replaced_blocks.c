#include "producers/file/replaced_blocks.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>

/* The search for chains. `newest` has the last block of each size that the optimizer allocated in the section and that
 * has no predecessor yet; older[event] is the one before it. lengths[event] counts the links from the root to an
 * allocation. */
struct search {
    struct mt_replaced_blocks *blocks;
    const struct mt_torch_snapshot *snapshot;
    const struct mt_torch_course *course;
    struct mt_number_map newest;
    uint32_t *older, *lengths;
    uint32_t section;            /* of `newest` */
    uint32_t last_section;       /* the last one of the optimizer */
    struct mt_number_map counts; /* of confirmed roots by size */
};

static bool is_of_optimizer(const struct search *search, size_t event)
{
    return search->course->moments[event].phase == MT_PHASE_OPTIMIZER;
}

/* Finds the last section in which the optimizer allocates. */
static uint32_t find_last_section(const struct search *search)
{
    for (size_t i = search->course->count; i-- > 0;)
        if (search->course->moments[i].is_request && is_of_optimizer(search, i))
            return search->course->moments[i].section;
    return 0;
}

/* Adds an allocation of the optimizer that outlives its section. */
static void add_replacement(struct search *search, uint32_t event)
{
    const struct mt_torch_moment *moment = &search->course->moments[event];
    const uint64_t bytes = search->snapshot->events[event].bytes;
    uint64_t before = MT_NO_EVENT;
    if (moment->partner != MT_NO_EVENT && search->course->moments[moment->partner].section == moment->section)
        return;
    mt_number_map_get(&search->newest, bytes, &before);
    search->older[event] = (uint32_t)before;
    mt_number_map_put(&search->newest, bytes, event);
}

/* Returns the root of the block that an event frees; MT_NO_EVENT if the optimizer cannot have replaced it. */
static uint64_t root_of_freed(const struct search *search, size_t event)
{
    const struct mt_torch_moment *moments = search->course->moments;
    const uint32_t began = moments[event].partner;
    if (began == MT_NO_EVENT)
        return MT_ROOT_FREED + event;
    if (search->blocks->roots[began] != MT_NO_EVENT)
        return search->blocks->roots[began];
    return moments[began].phase == MT_PHASE_INIT || moments[began].is_given ? began : MT_NO_EVENT;
}

/* Links the block that an event frees with its replacement. A second link, or the optimizer's last step, confirms the
 * chain: a state that the first step creates may have the size of an unrelated block that is freed then. */
static void link_freed(struct search *search, size_t event)
{
    const uint64_t root = root_of_freed(search, event), bytes = search->snapshot->events[event].bytes;
    const uint32_t began = search->course->moments[event].partner;
    uint64_t follower = MT_NO_EVENT;
    if (root == MT_NO_EVENT || !mt_number_map_get(&search->newest, bytes, &follower) || follower == MT_NO_EVENT)
        return;
    mt_number_map_put(&search->newest, bytes, search->older[follower]);
    search->blocks->roots[follower] = root;
    search->lengths[follower] = (began != MT_NO_EVENT ? search->lengths[began] : 0) + 1;
    if (search->lengths[follower] > 1 || search->course->moments[event].section == search->last_section)
        mt_number_map_put(&search->blocks->roles, root, MT_ROLE_OTHER);
}

static void find_chains(struct search *search)
{
    for (size_t i = 0; i < search->course->count; i++) {
        const struct mt_torch_moment *moment = &search->course->moments[i];
        if (!is_of_optimizer(search, i))
            continue;
        if (moment->section != search->section) {
            mt_number_map_release(&search->newest);
            mt_number_map_create(&search->newest);
        }
        search->section = moment->section;
        if (search->snapshot->events[i].action == MT_TORCH_ALLOC)
            add_replacement(search, (uint32_t)i);
        else if (search->snapshot->events[i].action == MT_TORCH_FREE_COMPLETED)
            link_freed(search, i);
    }
}

/* Sets the role of a confirmed root, by the number of earlier roots of its size. */
static void judge(struct search *search, uint64_t root, uint64_t bytes, const struct mt_number_map *gradients)
{
    uint64_t before = 0, parameters = 0, known;
    if (!mt_number_map_get(&search->blocks->roles, root, &known))
        return;
    mt_number_map_get(&search->counts, bytes, &before);
    mt_number_map_put(&search->counts, bytes, before + 1);
    bool is_parameter = !mt_number_map_get(gradients, bytes, &parameters) || before < parameters;
    mt_number_map_put(&search->blocks->roles, root, is_parameter ? MT_ROLE_PARAMETER : MT_ROLE_OPTIMIZER_STATE);
}

/* Blocks from before the recording come first, in the order of their frees. Blocks of the recording follow. */
static void judge_roots(struct search *search, const struct mt_number_map *gradients)
{
    const struct mt_torch_event *events = search->snapshot->events;
    for (size_t i = 0; i < search->course->count; i++)
        if (events[i].action == MT_TORCH_FREE_COMPLETED)
            judge(search, MT_ROOT_FREED + i, events[i].bytes, gradients);
    for (size_t i = 0; i < search->course->count; i++)
        if (events[i].action == MT_TORCH_ALLOC)
            judge(search, i, events[i].bytes, gradients);
}

void mt_replaced_blocks_create(struct mt_replaced_blocks *blocks, const struct mt_torch_snapshot *snapshot,
                               const struct mt_torch_course *course, const struct mt_number_map *gradients)
{
    struct search search = {.blocks = blocks, .snapshot = snapshot, .course = course};
    *blocks = (struct mt_replaced_blocks){.roots = mt_host_alloc((course->count + 1) * sizeof *blocks->roots)};
    for (size_t i = 0; i < course->count; i++)
        blocks->roots[i] = MT_NO_EVENT;
    search.older = mt_host_alloc((course->count + 1) * sizeof *search.older);
    search.lengths = mt_host_alloc((course->count + 1) * sizeof *search.lengths);
    search.last_section = find_last_section(&search);
    mt_number_map_create(&blocks->roles);
    mt_number_map_create(&search.newest);
    mt_number_map_create(&search.counts);
    find_chains(&search);
    judge_roots(&search, gradients);
    mt_number_map_release(&search.newest);
    mt_number_map_release(&search.counts);
    free(search.older);
    free(search.lengths);
}

void mt_replaced_blocks_release(struct mt_replaced_blocks *blocks)
{
    mt_number_map_release(&blocks->roles);
    free(blocks->roots);
}

static mt_role role_of_root(const struct mt_replaced_blocks *blocks, uint64_t root)
{
    uint64_t role = MT_ROLE_OTHER;
    mt_number_map_get(&blocks->roles, root, &role);
    return (mt_role)role;
}

mt_role mt_replaced_blocks_role(const struct mt_replaced_blocks *blocks, size_t event)
{
    return role_of_root(blocks, blocks->roots[event] != MT_NO_EVENT ? blocks->roots[event] : event);
}

mt_role mt_replaced_blocks_role_of_freed(const struct mt_replaced_blocks *blocks, size_t event)
{
    return role_of_root(blocks, MT_ROOT_FREED + event);
}
