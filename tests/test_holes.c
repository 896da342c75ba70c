/* Gaps of random segments at random moments, against a map of every byte. */
#include "analysis/fragmentation.h"
#include "base/memory.h"
#include "base/random.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEGMENTS = 6, PARTS = 8, BYTES = 64, EVENTS = 60, MOST_BLOCKS = 200 };

/* The state of a byte of a segment after an event. */
enum state { NO_MEMORY, FREE, HELD };

/* A layout, and the state of byte b of segment s after event e. Invariant: parts are ordered by segment and offset. */
struct picture {
    struct mt_block_row blocks[MOST_BLOCKS];
    struct mt_segment_row segments[SEGMENTS];
    struct mt_part_row parts[SEGMENTS * PARTS];
    size_t block_count, part_count;
    unsigned char state[EVENTS + 1][SEGMENTS][BYTES];
    int64_t event; /* that is asked about */
    size_t visited;
};

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = mt_splitmix64(*state);
    return (*state >> 20) % below;
}

/* Adjacent pieces, or pieces with gaps between them, each with its own lifetime. */
static void make_parts(struct picture *picture, uint32_t segment, uint64_t *random)
{
    for (uint64_t at = draw(random, 3); at < BYTES; at += draw(random, 2) * draw(random, 5)) {
        int64_t mapped = 1 + (int64_t)draw(random, EVENTS / 2);
        int64_t unmapped = mapped + 1 + (int64_t)draw(random, EVENTS);
        uint64_t bytes = BYTES / PARTS + draw(random, BYTES / 2);
        bytes = bytes < BYTES - at ? bytes : BYTES - at;
        picture->parts[picture->part_count++] =
            (struct mt_part_row){.segment = segment,
                                 .offset = at,
                                 .bytes = bytes,
                                 .mapped_event = mapped,
                                 .unmapped_event = unmapped <= EVENTS ? unmapped : 0};
        for (int64_t event = mapped; event <= EVENTS && event < unmapped; event++)
            memset(&picture->state[event][segment][at], FREE, bytes);
        at += bytes;
    }
}

static void make_segments(struct picture *picture, uint64_t *random)
{
    for (uint32_t i = 0; i < SEGMENTS; i++) {
        picture->segments[i] = (struct mt_segment_row){.number = i, .bytes = BYTES, .mapped_event = 1, .pool = ""};
        make_parts(picture, i, random);
    }
}

static bool is_free(const struct picture *picture, const struct mt_block_row *block, int64_t last)
{
    for (int64_t event = block->alloc_event; event <= last; event++)
        for (uint64_t at = 0; at < block->block_bytes; at++)
            if (picture->state[event][block->segment][block->offset + at] != FREE)
                return false;
    return true;
}

/* Adds a block at free memory for its whole lifetime. */
static void try_block(struct picture *picture, uint64_t *random)
{
    struct mt_block_row block = {.segment = (uint32_t)draw(random, SEGMENTS), .offset = draw(random, BYTES)};
    block.block_bytes = 1 + draw(random, BYTES - block.offset) / (1 + draw(random, 8));
    block.alloc_event = 1 + (int64_t)draw(random, EVENTS);
    int64_t gone = block.alloc_event + 1 + (int64_t)draw(random, EVENTS / 2);
    block.free_event = gone <= EVENTS ? gone : 0;
    gone = gone <= EVENTS ? gone : EVENTS + 1;
    if (!is_free(picture, &block, gone - 1))
        return;
    for (int64_t event = block.alloc_event; event < gone; event++)
        memset(&picture->state[event][block.segment][block.offset], HELD, block.block_bytes);
    picture->blocks[picture->block_count++] = block;
}

/* Returns the size of the gap at `*at`, which moves to its end; 0: there are no more. */
static uint64_t next_hole(const unsigned char *state, uint64_t *at)
{
    while (*at < BYTES && state[*at] != FREE)
        ++*at;
    uint64_t begin = *at;
    while (*at < BYTES && state[*at] == FREE)
        ++*at;
    return *at - begin;
}

static uint64_t count_bytes(const unsigned char *states, enum state state)
{
    uint64_t count = 0;
    for (size_t at = 0; at < BYTES; at++)
        count += states[at] == state;
    return count;
}

static void compare_with_map(void *context, const struct mt_segment_holes *holes)
{
    struct picture *picture = context;
    const unsigned char *state = picture->state[picture->event][holes->segment->number];
    uint64_t at = 0, sum = 0, largest = 0;
    for (size_t i = 0; i < holes->hole_count; i++) {
        uint64_t bytes = next_hole(state, &at);
        assert_int_equal(holes->holes[i], bytes);
        sum += bytes;
        largest = bytes > largest ? bytes : largest;
    }
    assert_int_equal(next_hole(state, &at), 0);
    assert_int_equal(holes->hole_bytes, sum);
    assert_int_equal(holes->largest_bytes, largest);
    assert_int_equal(holes->allocated_bytes, count_bytes(state, HELD));
    assert_int_equal(holes->mapped_bytes, holes->allocated_bytes + holes->hole_bytes);
    picture->visited++;
}

static size_t count_mapped(const struct picture *picture)
{
    size_t count = 0;
    for (size_t i = 0; i < SEGMENTS; i++)
        count += count_bytes(picture->state[picture->event][i], NO_MEMORY) < BYTES;
    return count;
}

static void holes_are_what_no_block_holds(void **state)
{
    (void)state;
    uint64_t random = take_seed();
    for (int round = 0; round < 40; round++) {
        struct picture *picture = mt_host_alloc(sizeof *picture);
        make_segments(picture, &random);
        for (int i = 0; i < MOST_BLOCKS; i++)
            try_block(picture, &random);
        const struct mt_layout layout = {picture->blocks, picture->block_count, picture->segments,
                                         SEGMENTS,        picture->parts,       picture->part_count};
        const struct mt_hole_visitor visitor = {picture, compare_with_map};
        for (picture->event = 0; picture->event <= EVENTS; picture->event++) {
            picture->visited = 0;
            mt_holes_visit(&layout, picture->event, &visitor);
            assert_int_equal(picture->visited, count_mapped(picture));
        }
        free(picture);
    }
}

static void count_holes(void *context, const struct mt_segment_holes *holes)
{
    *(size_t *)context += holes->hole_count;
}

/* In a damaged trace, blocks may overlap: then nothing is free between them, and nothing wraps around. */
static void blocks_that_overlap_leave_no_hole_between_them(void **state)
{
    (void)state;
    const struct mt_segment_row segment = {.bytes = 10, .mapped_event = 1};
    const struct mt_part_row part = {.bytes = 10, .mapped_event = 1};
    const struct mt_block_row blocks[] = {{.alloc_event = 2, .block_bytes = 8},
                                          {.alloc_event = 3, .offset = 4, .block_bytes = 20}};
    const struct mt_layout layout = {blocks, 2, &segment, 1, &part, 1};
    size_t holes = 0;
    const struct mt_hole_visitor visitor = {&holes, count_holes};
    mt_holes_visit(&layout, 3, &visitor);
    assert_int_equal(holes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holes_are_what_no_block_holds),
        cmocka_unit_test(blocks_that_overlap_leave_no_hole_between_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
