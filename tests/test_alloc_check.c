/* The walker itself: each kind of damage to an allocator's inside is found, and named. */
#include "alloc/block.h"
#include "alloc_rig.h"

/* One segment: a block out, a free one, a block out, the free rest. */
static void open_rig(struct rig *rig, const char *text)
{
    rig_open(rig, text, UINT64_C(1) << 30);
    struct mt_block *blocks[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(mt_alloc_take(rig->alloc, 1024, 0, 1, 0, &blocks[i]), MT_OK);
    mt_alloc_give(rig->alloc, blocks[1]);
    assert_int_equal(mt_alloc_check(rig->alloc), MT_OK);
}

static void expect_found(struct mt_alloc *alloc, const char *says)
{
    assert_int_equal(mt_alloc_check(alloc), MT_FAILED);
    if (strstr(mt_last_error(), says) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", mt_last_error(), says);
}

static void wrong_counters_are_found(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, "");
    struct mt_alloc_stats *stats = &rig.alloc->stats;
    uint64_t *const counters[] = {&stats->all.requested_bytes,
                                  &stats->all.allocated_bytes,
                                  &stats->all.blocks,
                                  &stats->category[3].requested_bytes,
                                  &stats->category[MT_CATEGORY_WORKSPACE].allocated_bytes,
                                  &stats->segments,
                                  &stats->reserved_bytes};
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        ++*counters[i];
        expect_found(rig.alloc, "counts");
        --*counters[i];
    }
    uint64_t *const peaks[] = {&stats->all.peak_requested_bytes, &stats->category[0].peak_allocated_bytes,
                               &stats->peak_reserved_bytes};
    for (size_t i = 0; i < sizeof peaks / sizeof peaks[0]; i++) {
        uint64_t peak = *peaks[i];
        *peaks[i] = 1;
        expect_found(rig.alloc, "peak");
        *peaks[i] = peak;
    }
    rig.fake.device.reserved_bytes--;
    expect_found(rig.alloc, "device");
    rig.fake.device.reserved_bytes++;
    rig_close(&rig);
}

static void broken_tiling_is_found(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, "");
    struct mt_segment *segment = rig.alloc->oldest;
    struct mt_block *second = segment->first->after;
    second->offset += MT_BLOCK_UNIT;
    expect_found(rig.alloc, "begin");
    second->offset -= MT_BLOCK_UNIT;
    second->after->before = segment->first;
    expect_found(rig.alloc, "linked back");
    second->after->before = second;
    segment->bytes += MT_SEGMENT_UNIT;
    expect_found(rig.alloc, "its blocks");
    segment->bytes -= MT_SEGMENT_UNIT;
    segment->birth++;
    expect_found(rig.alloc, "not given out");
    segment->birth--;
    segment->first->requested_bytes = 4096;
    expect_found(rig.alloc, "does not fit");
    segment->first->requested_bytes = 1024;
    rig_close(&rig);
}

static void free_block_outside_of_the_index_is_found(void **state)
{
    (void)state;
    static const char *const policies[] = {"policy=tight", "policy=torch"};
    for (int p = 0; p < 2; p++) {
        struct rig rig;
        open_rig(&rig, policies[p]);
        struct mt_block *hole = rig.alloc->oldest->first->after;
        rig.alloc->policy->remove(rig.alloc, hole);
        expect_found(rig.alloc, "not in the index");
        rig.alloc->policy->insert(rig.alloc, hole);
        rig_close(&rig);
    }
}

static void indexed_block_that_is_out_is_found(void **state)
{
    (void)state;
    static const char *const policies[] = {"policy=tight", "policy=torch"};
    for (int p = 0; p < 2; p++) {
        struct rig rig;
        open_rig(&rig, policies[p]);
        struct mt_block *out = rig.alloc->oldest->first;
        uint64_t requested_bytes = out->requested_bytes;
        rig.alloc->policy->insert(rig.alloc, out);
        out->requested_bytes = requested_bytes;
        expect_found(rig.alloc, "free blocks");
        rig.alloc->policy->remove(rig.alloc, out);
        rig_close(&rig);
    }
}

static void unmerged_neighbours_are_found(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, "");
    struct mt_block *first = rig.alloc->oldest->first;
    first->is_free = true;
    expect_found(rig.alloc, "so is the next");
    first->is_free = false;
    rig_close(&rig);
}

/* A hole is whole pages of a range, in no index, and counted. */
static void wrong_holes_are_found(void **state)
{
    (void)state;
    struct rig rig;
    open_rig(&rig, "policy=tight");
    struct mt_segment *segment = rig.alloc->oldest;
    struct mt_block *end = segment->last;
    assert_true(end->is_hole && segment->is_range);
    segment->mapped_bytes += MT_BLOCK_UNIT;
    expect_found(rig.alloc, "bytes of memory");
    segment->mapped_bytes -= MT_BLOCK_UNIT;
    segment->holes++;
    expect_found(rig.alloc, "holes");
    segment->holes--;
    segment->last = segment->first;
    expect_found(rig.alloc, "last block is another");
    segment->last = end;
    segment->is_range = false;
    expect_found(rig.alloc, "in one piece");
    segment->is_range = true;
    mt_block_split(rig.alloc, end, MT_SEGMENT_UNIT);
    expect_found(rig.alloc, "so is the next");
    mt_block_absorb_after(rig.alloc, end);
    end->before->is_hole = true;
    expect_found(rig.alloc, "and free");
    end->before->is_free = false;
    expect_found(rig.alloc, "no number of pages");
    end->before->is_hole = false;
    end->before->is_free = true;
    rig_close(&rig);
}

static void free_block_in_use_is_found(void **state)
{
    (void)state;
    struct rig rig;
    struct mt_user user = {.stream = 3};
    open_rig(&rig, "");
    struct mt_block *hole = rig.alloc->oldest->first->after;
    hole->users = &user;
    expect_found(rig.alloc, "in use");
    hole->users = NULL;
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_counters_are_found),
        cmocka_unit_test(broken_tiling_is_found),
        cmocka_unit_test(free_block_outside_of_the_index_is_found),
        cmocka_unit_test(indexed_block_that_is_out_is_found),
        cmocka_unit_test(unmerged_neighbours_are_found),
        cmocka_unit_test(wrong_holes_are_found),
        cmocka_unit_test(free_block_in_use_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
