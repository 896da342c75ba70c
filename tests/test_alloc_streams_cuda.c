/* Blocks that several streams of a card use. A reader on one stream waits for other work while its block is given back,
 * taken again and written to on another stream. It must read the old values, because the writer waits for it on the
 * card. The control does the same without mt_alloc_use_on: then the writer comes first, which shows that the streams
 * run in parallel and that nothing else makes the writer wait. */
#include "gpu.h"

#include "alloc/alloc.h"
#include "base/interner.h"
#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { OWNER = 0, READER = 1, BLOCK_ELEMENTS = 4 << 20, DELAY_ELEMENTS = 256 << 20, DELAYS = 40 };

struct scene {
    struct mt_device *device;
    struct mt_alloc *alloc;
    struct mt_block *copy, *delay;
};

static struct mtk_view row(const struct mt_block *block, int64_t elements)
{
    return (struct mtk_view){.address = mt_block_address(block),
                             .dtype = MT_F32,
                             .shape = {1, 1, 1, elements},
                             .stride = {elements, elements, elements, 1}};
}

static void expect(mt_status status)
{
    if (status != MT_OK)
        fail_msg("%s", mt_last_error());
}

static struct mt_block *take(struct scene *s, int64_t elements, mt_stream stream)
{
    struct mt_block *block = NULL;
    expect(mt_alloc_take(s->alloc, (uint64_t)elements * sizeof(float), stream, 0, 0, &block));
    return block;
}

static void fill(struct scene *s, const struct mt_block *block, int64_t elements, double value, mt_stream stream)
{
    struct mtk_view view = row(block, elements);
    expect(s->device->kernels->fill(value, &view, mt_device_queue(s->device, stream)));
}

static void copy(struct scene *s, const struct mt_block *to, const struct mt_block *from, mt_stream stream)
{
    struct mtk_view out = row(to, BLOCK_ELEMENTS), in = row(from, BLOCK_ELEMENTS);
    expect(s->device->kernels->unary(MTK_COPY, 0, &out, &in, mt_device_queue(s->device, stream)));
}

/* Returns the number of elements that the reader found equal to `value`. */
static int64_t count_found(struct scene *s, float value)
{
    float *found = mt_host_alloc(BLOCK_ELEMENTS * sizeof *found);
    int64_t count = 0;
    expect(mt_device_synchronize(s->device));
    expect(mt_device_read(s->device, found, mt_block_address(s->copy), BLOCK_ELEMENTS * sizeof *found, READER));
    for (int64_t i = 0; i < BLOCK_ELEMENTS; i++)
        count += found[i] == value;
    free(found);
    return count;
}

typedef enum telling { SAID, UNSAID } telling;

/* Reads a block of 1s late, gives it back, takes it again and writes 2s. Returns the number of 1s that were read. */
static int64_t read_late(struct scene *s, telling what)
{
    struct mt_block *block = take(s, BLOCK_ELEMENTS, OWNER);
    mt_addr address = mt_block_address(block);
    fill(s, block, BLOCK_ELEMENTS, 1, OWNER);
    expect(mt_device_follow(s->device, READER, OWNER));
    for (int i = 0; i < DELAYS; i++)
        fill(s, s->delay, DELAY_ELEMENTS, i, READER);
    copy(s, s->copy, block, READER);
    if (what == SAID)
        mt_alloc_use_on(s->alloc, block, READER);
    mt_alloc_give(s->alloc, block);
    block = take(s, BLOCK_ELEMENTS, OWNER);
    assert_int_equal(mt_block_address(block), address);
    fill(s, block, BLOCK_ELEMENTS, 2, OWNER);
    int64_t found = count_found(s, 1);
    mt_alloc_give(s->alloc, block);
    return found;
}

static void what_another_stream_still_reads_is_not_written_over(void **state)
{
    for (int round = 0; round < 3; round++)
        assert_int_equal(read_late(*state, SAID), BLOCK_ELEMENTS);
}

static void nothing_else_makes_the_writer_wait(void **state)
{
    assert_int_equal(read_late(*state, UNSAID), 0);
}

static void a_stream_that_does_not_follow_runs_beside_the_other(void **state)
{
    struct scene *s = *state;
    double beside, after;
    expect(mt_device_synchronize(s->device));
    for (int follows = 0; follows < 2; follows++) {
        expect(mt_device_mark(s->device, 0));
        for (int i = 0; i < DELAYS; i++)
            fill(s, s->delay, DELAY_ELEMENTS, i, READER);
        if (follows)
            expect(mt_device_follow(s->device, OWNER, READER));
        expect(mt_device_mark(s->device, 1));
        expect(mt_device_elapsed_ms(s->device, 0, 1, follows ? &after : &beside));
        expect(mt_device_synchronize(s->device));
    }
    if (!(beside * 4 < after))
        fail_msg("%g ms beside, %g ms after", beside, after);
}

static int open_scene(void **state)
{
    static struct mt_sink sink;
    struct mt_alloc_settings settings;
    struct scene *s = mt_host_alloc(sizeof *s);
    sink = mt_sink_discarding(mt_interner_create());
    if (mt_alloc_settings_parse("", &settings) != MT_OK || mt_device_open("cuda:0", &s->device) != MT_OK ||
        mt_alloc_create(s->device, &sink, &settings, &s->alloc) != MT_OK)
        return -1;
    s->copy = take(s, BLOCK_ELEMENTS, READER);
    s->delay = take(s, DELAY_ELEMENTS, READER);
    *state = s;
    return 0;
}

static int close_scene(void **state)
{
    struct scene *s = *state;
    mt_alloc_give(s->alloc, s->copy);
    mt_alloc_give(s->alloc, s->delay);
    mt_status status = mt_alloc_check(s->alloc);
    mt_alloc_destroy(s->alloc);
    mt_device_close(s->device);
    free(s);
    return status == MT_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_another_stream_still_reads_is_not_written_over),
        cmocka_unit_test(nothing_else_makes_the_writer_wait),
        cmocka_unit_test(a_stream_that_does_not_follow_runs_beside_the_other),
    };
    if (!gpu_is_there())
        return SKIPPED;
    return cmocka_run_group_tests(tests, open_scene, close_scene);
}
