/* Several threads on one allocator: no two hold the same bytes, and the events are one valid sequence. */
#include "alloc_opening.h"
#include "base/random.h"
#include "fake_device.h"
#include "recording.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { THREADS = 4, ROUNDS = 3000, HELD = 16 };

struct worker {
    struct mt_alloc *alloc;
    uint64_t number;
    uint64_t takes;
    bool is_sound;
};

static void take_into(struct worker *worker, struct mt_block **slot, uint64_t draw)
{
    char name[16];
    snprintf(name, sizeof name, "op%u", (unsigned)(draw % 7));
    struct mt_label label = {.category = (mt_category)(draw % MT_CATEGORY_COUNT), .op = name, .layer = -1};
    mt_label_id id = mt_alloc_intern_label(worker->alloc, &label);
    uint64_t bytes = 1 + (draw >> 8) % (UINT64_C(1) << (draw % 24));
    mt_stream stream = (mt_stream)(worker->number % 2);
    if (mt_alloc_take(worker->alloc, bytes, stream, id, 0, slot) != MT_OK) {
        worker->is_sound = false;
        return;
    }
    worker->takes++;
    worker->is_sound &= mt_block_requested_bytes(*slot) == bytes;
    worker->is_sound &= mt_block_sequence(*slot) < mt_alloc_events(worker->alloc);
}

/* Emits a use of a block just now, and gives the block back. */
static void use_and_give(struct worker *worker, struct mt_block *block)
{
    if (block == NULL)
        return;
    uint64_t now = mt_alloc_events(worker->alloc) - 1;
    const struct mt_use use = {.block = mt_block_sequence(block), .writes = 1, .first = now, .last = now};
    mt_alloc_use(worker->alloc, &use);
    mt_alloc_give(worker->alloc, block);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct mt_block *held[HELD] = {0};
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t draw = mt_splitmix64(worker->number << 32 | round);
        struct mt_block **slot = &held[draw % HELD];
        use_and_give(worker, *slot);
        *slot = NULL;
        take_into(worker, slot, draw >> 4);
        struct mt_alloc_stats stats;
        if (round % 100 == 0)
            mt_alloc_stats(worker->alloc, &stats);
        if (round % 500 == 0)
            mt_alloc_release_cached(worker->alloc);
        if (round % 1000 == 0)
            worker->is_sound &= mt_alloc_check(worker->alloc) == MT_OK;
    }
    for (int i = 0; i < HELD; i++)
        use_and_give(worker, held[i]);
    return NULL;
}

/* Replays the events: no alloc may overlap one that is live, and every live one must be freed. */
static void expect_one_story(const struct recording *recording, uint64_t takes)
{
    struct mt_event live[THREADS * HELD];
    size_t live_count = 0;
    uint64_t allocs = 0;
    for (size_t i = 0; i < recording->count; i++) {
        const struct mt_event *event = &recording->events[i];
        assert_int_equal(event->sequence, i);
        size_t at = 0;
        while (at < live_count &&
               (live[at].segment != event->segment || live[at].offset + live[at].block_bytes <= event->offset ||
                event->offset + event->block_bytes <= live[at].offset))
            at++;
        if (event->kind == MT_EVENT_ALLOC) {
            assert_int_equal(at, live_count);
            assert_true(live_count < THREADS * HELD);
            live[live_count++] = *event;
            allocs++;
        } else if (event->kind == MT_EVENT_FREE) {
            assert_true(at < live_count && live[at].offset == event->offset);
            live[at] = live[--live_count];
        }
    }
    assert_int_equal(live_count, 0);
    assert_int_equal(allocs, takes);
}

/* Every block has one use, by the sequence of its alloc event, and after that. */
static void expect_one_use_a_block(const struct recording *recording, uint64_t takes)
{
    bool *told = mt_host_alloc(recording->count * sizeof *told);
    assert_int_equal(recording->use_count, takes);
    for (size_t i = 0; i < recording->use_count; i++) {
        const struct mt_use *use = &recording->uses[i];
        assert_true(use->block < recording->count && !told[use->block]);
        assert_int_equal(recording->events[use->block].kind, MT_EVENT_ALLOC);
        assert_true(use->first >= use->block && use->first < recording->count);
        told[use->block] = true;
    }
    free(told);
}

static void hammer(const char *settings_text)
{
    struct fake_device fake = fake_device_make(UINT64_C(8) << 30, 1 << 20, 1);
    struct recording recording;
    recording_open(&recording);
    struct mt_sink sink = recording_sink(&recording);
    struct mt_alloc *alloc = create_alloc(&fake.device, settings_text, &sink);
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.alloc = alloc, .number = (uint64_t)i, .is_sound = true};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    uint64_t takes = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_true(workers[i].is_sound);
        takes += workers[i].takes;
    }
    assert_int_equal(mt_alloc_check(alloc), MT_OK);
    mt_alloc_destroy(alloc);
    expect_one_story(&recording, takes);
    expect_one_use_a_block(&recording, takes);
    recording_close(&recording);
}

static void threads_never_hold_the_same_bytes_tight(void **state)
{
    (void)state;
    hammer("policy=tight");
}

static void threads_never_hold_the_same_bytes_torch(void **state)
{
    (void)state;
    hammer("policy=torch");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_never_hold_the_same_bytes_tight),
        cmocka_unit_test(threads_never_hold_the_same_bytes_torch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
