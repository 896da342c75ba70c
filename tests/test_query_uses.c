/* The uses of blocks in a trace, compared with those that were emitted, in windows and for blocks picked at random; and
 * of damaged ones. */
#include "recorder_fixture.h"

#include "seed.h"
#include "trace/query/blocks.h"
#include "trace/store/recorder.h"
#include "trace_edit.h"

enum { EVENTS = 20000, PICKS = 50 };

static char path[FIXTURE_PATH_BYTES];
static struct mt_trace *trace;

static int set_up(void **state)
{
    (void)state;
    fixture_path(path);
    trace = NULL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    mt_trace_close(trace);
    fixture_remove(path);
    return 0;
}

static uint64_t fresh_seed(void)
{
    uint64_t seed = take_seed();
    return seed;
}

static const struct mt_run *open_run(int64_t number)
{
    char name[32];
    const struct mt_run *run;
    snprintf(name, sizeof name, "%lld", (long long)number);
    if (trace == NULL && mt_trace_open(path, &trace) != MT_OK)
        fail_msg("%s", mt_last_error());
    assert_int_equal(mt_trace_find_run(trace, name, &run), MT_OK);
    return run;
}

/* All blocks of a run; the caller's. */
static struct mt_block_row *all_blocks(const struct mt_run *run, size_t *count)
{
    struct mt_block_row *blocks;
    int64_t last = run->first_event + run->event_count - 1;
    if (mt_trace_blocks(trace, run, run->first_event, last, &blocks, count) != MT_OK)
        fail_msg("%s", mt_last_error());
    return blocks;
}

static struct mt_use_row *uses_of(const struct mt_run *run, const struct mt_block_row *blocks, size_t count)
{
    struct mt_use_row *uses = calloc(count + 1, sizeof *uses);
    if (mt_trace_uses(trace, run, blocks, count, uses) != MT_OK)
        fail_msg("%s", mt_last_error());
    return uses;
}

/* True if the answer about a block is that of the script, or unknown if the block was never freed. */
static void check_use_row(const struct mt_run *run, const struct mt_block_row *block, const struct mt_use_row *row)
{
    assert_int_equal(row->known, block->free_event != 0);
    if (!row->known)
        return;
    const struct mt_use use =
        script_use((uint64_t)(block->alloc_event - run->first_event), (uint64_t)(block->free_event - run->first_event));
    bool used = use.reads + (uint64_t)use.writes > 0, paused = use.idle_to > use.idle_from;
    assert_int_equal(row->reads, use.reads);
    assert_int_equal(row->writes, use.writes);
    assert_int_equal(row->first, used ? run->first_event + (int64_t)use.first : 0);
    assert_int_equal(row->last, used ? run->first_event + (int64_t)use.last : 0);
    assert_int_equal(row->idle_from, paused ? run->first_event + (int64_t)use.idle_from : 0);
    assert_int_equal(row->idle_to, paused ? run->first_event + (int64_t)use.idle_to : 0);
    assert_int_equal(row->copied_from, use.copied_from != 0 ? run->first_event + (int64_t)use.copied_from : 0);
    assert_int_equal(row->unread, use.unread);
}

static void check_run(int64_t number)
{
    size_t count;
    const struct mt_run *run = open_run(number);
    struct mt_block_row *blocks = all_blocks(run, &count);
    struct mt_use_row *uses = uses_of(run, blocks, count);
    assert_true(count > EVENTS / 4);
    for (size_t i = 0; i < count; i++)
        check_use_row(run, &blocks[i], &uses[i]);
    free(uses);
    free(blocks);
}

static void every_block_of_every_run_is_answered(void **state)
{
    (void)state;
    uint64_t seed = fresh_seed();
    fixture_record(path, seed, EVENTS);
    fixture_record(path, seed + 1, EVENTS);
    check_run(1);
    check_run(2);
}

/* Blocks far apart are looked up, neighbours scanned: either way the answer is the same. */
static void blocks_picked_at_random_are_answered(void **state)
{
    (void)state;
    size_t count;
    uint64_t seed = fresh_seed();
    fixture_record(path, seed + 1, 1000);
    fixture_record(path, seed, EVENTS);
    const struct mt_run *run = open_run(2);
    struct mt_block_row *blocks = all_blocks(run, &count), *picked = malloc(count * sizeof *picked);
    for (uint64_t pick = 0; pick < PICKS; pick++) {
        size_t chosen = 0;
        for (size_t i = 0; i < count; i++)
            if (mt_splitmix64(seed + pick * count + i) % (1 + pick * pick) == 0)
                picked[chosen++] = blocks[i];
        struct mt_use_row *uses = uses_of(run, picked, chosen);
        for (size_t i = 0; i < chosen; i++)
            check_use_row(run, &picked[i], &uses[i]);
        free(uses);
    }
    free(picked);
    free(blocks);
}

static void no_blocks_are_no_question(void **state)
{
    (void)state;
    struct mt_use_row untouched = {.reads = 7};
    fixture_record(path, 1, 100);
    const struct mt_run *run = open_run(1);
    assert_int_equal(mt_trace_uses(trace, run, NULL, 0, &untouched), MT_OK);
    assert_int_equal(untouched.reads, 7);
}

/* The use of one block, changed so that it can't have been. */
static void impossible_uses_are_damage(void **state)
{
    (void)state;
    static const char *const changes[] = {
        "last_use = 1 << 60",       "first_use = 1",         "idle_from = 0, idle_to = 3",
        "last_use = first_use - 1", "copied_from = 1 << 60", "copied_from = -1",
        "last_use = NULL",          "first_use = NULL",      "idle_to = NULL",
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        size_t count;
        char sql[300];
        fixture_record(path, 3, 3000);
        snprintf(sql, sizeof sql,
                 "UPDATE block_use SET %s WHERE allocation ="
                 " (SELECT allocation FROM block_use WHERE allocation > 9 AND idle_to IS NOT NULL LIMIT 1)",
                 changes[i]);
        edit_trace(path, sql);
        const struct mt_run *run = open_run(1);
        struct mt_block_row *blocks = all_blocks(run, &count);
        struct mt_use_row *uses = calloc(count + 1, sizeof *uses);
        if (mt_trace_uses(trace, run, blocks, count, uses) != MT_BAD_TRACE)
            fail_msg("not found out: %s", changes[i]);
        assert_non_null(strstr(mt_last_error(), "damaged"));
        free(uses);
        free(blocks);
        mt_trace_close(trace);
        trace = NULL;
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_block_of_every_run_is_answered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(blocks_picked_at_random_are_answered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_blocks_are_no_question, set_up, tear_down),
        cmocka_unit_test_setup_teardown(impossible_uses_are_damage, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
