/* Blocks that several streams use: none is handed out while another stream's queued work may still read its bytes, and
 * the host never waits for that work. */
#include "alloc_opening.h"
#include "base/interner.h"
#include "base/memory.h"
#include "base/random.h"
#include "queued_device.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <cmocka.h>

enum { THREADS = 16, ROUNDS = 600, SHARED = 24, STREAMS = QUEUED_STREAMS };

static const char *const policies[] = {"policy=tight", "policy=torch"};

enum { POLICIES = sizeof policies / sizeof policies[0] };

struct stage {
    struct queued_device queues;
    struct mt_interner *interner;
    struct mt_alloc *alloc;
};

static struct stage *stage_open(const char *settings_text, uint64_t capacity_bytes)
{
    struct stage *stage = mt_host_alloc(sizeof *stage);
    queued_device_init(&stage->queues, capacity_bytes);
    stage->interner = mt_interner_create();
    struct mt_sink sink = mt_sink_discarding(stage->interner);
    stage->alloc = create_alloc(&stage->queues.device, settings_text, &sink);
    return stage;
}

static void stage_close(struct stage *stage)
{
    assert_int_equal(mt_alloc_check(stage->alloc), MT_OK);
    mt_alloc_destroy(stage->alloc);
    mt_interner_destroy(stage->interner);
    pthread_mutex_destroy(&stage->queues.lock);
    free(stage);
}

static struct mt_block *take(struct stage *stage, uint64_t bytes, mt_stream stream)
{
    struct mt_block *block;
    assert_int_equal(mt_alloc_take(stage->alloc, bytes, stream, 1, 0, &block), MT_OK);
    return block;
}

static void each_stream_that_used_a_block_is_waited_for_once(void **state)
{
    (void)state;
    for (int p = 0; p < POLICIES; p++) {
        struct stage *stage = stage_open(policies[p], 64 << 20);
        struct mt_block *block = take(stage, 1000, 0);
        mt_alloc_use_on(stage->alloc, block, 0); /* its own */
        mt_alloc_use_on(stage->alloc, block, 2);
        mt_alloc_use_on(stage->alloc, block, 3);
        mt_alloc_use_on(stage->alloc, block, 2);
        assert_int_equal(mt_alloc_check(stage->alloc), MT_OK);
        assert_int_equal(stage->queues.follows, 0); /* before it is given back */
        mt_alloc_give(stage->alloc, block);
        assert_int_equal(stage->queues.follows, 2);
        mt_alloc_give(stage->alloc, take(stage, 1000, 0)); /* the same block, without users */
        assert_int_equal(stage->queues.follows, 2);
        assert_int_equal(stage->queues.waits, 0);
        mt_alloc_use_on(stage->alloc, take(stage, 1000, 0), 1); /* dies with the allocator */
        stage_close(stage);
    }
}

static void a_block_with_another_label_keeps_its_users(void **state)
{
    (void)state;
    for (int p = 0; p < POLICIES; p++) {
        struct stage *stage = stage_open(policies[p], 64 << 20);
        struct mt_block *block = take(stage, 1000, 0);
        mt_alloc_use_on(stage->alloc, block, 1);
        mt_alloc_relabel(stage->alloc, block, 1, 0);
        assert_int_equal(stage->queues.follows, 0);
        mt_alloc_give(stage->alloc, block);
        assert_int_equal(stage->queues.follows, 1);
        stage_close(stage);
    }
}

/* The stream must wait for work that was queued before the block was given back, not for later work. */
static void reuse_comes_after_what_was_queued_when_the_block_came_back(void **state)
{
    (void)state;
    for (int p = 0; p < POLICIES; p++) {
        struct stage *stage = stage_open(policies[p], 64 << 20);
        struct mt_block *block = take(stage, 1000, 0);
        mt_alloc_use_on(stage->alloc, block, 3);
        queued_touch(&stage->queues, mt_block_address(block), 1000, 3);
        queued_touch(&stage->queues, mt_block_address(block), 1000, 3);
        mt_alloc_give(stage->alloc, block);
        queued_touch(&stage->queues, 0, 1000, 3);
        assert_int_equal(stage->queues.after[0][3], 2);
        assert_int_equal(stage->queues.after[1][3], 0);
        struct mt_block *again = take(stage, 1000, 0);
        assert_ptr_equal(again, block);
        queued_own(&stage->queues, mt_block_address(again), 1000, 0);
        assert_int_equal(stage->queues.hazards, 0);
        mt_alloc_give(stage->alloc, again);
        stage_close(stage);
    }
}

/* ---- threads ---- */

/* A slot through which blocks go from thread to thread. */
struct slot {
    pthread_mutex_t lock;
    struct mt_block *block; /* NULL: none */
    uint64_t bytes;
};

struct crowd {
    struct stage *stage;
    struct slot slots[SHARED];
    uint64_t seed;
    atomic_bool is_sound;
};

struct member {
    struct crowd *crowd;
    uint64_t number;
};

/* Reads a block on some streams, each after its owner's, as a program does that passes it on. */
static void read_on_others(struct crowd *crowd, struct slot *slot, mt_stream owner, uint64_t draw)
{
    struct stage *stage = crowd->stage;
    for (mt_stream stream = 0; stream < STREAMS; stream++) {
        if (stream == owner || (draw >> stream & 1) == 0)
            continue;
        mt_alloc_use_on(stage->alloc, slot->block, stream);
        (void)mt_device_follow(&stage->queues.device, stream, owner);
        if (!queued_touch(&stage->queues, mt_block_address(slot->block), slot->bytes, stream))
            atomic_store(&crowd->is_sound, false);
    }
}

/* Gives back what is in the slot, and puts a new block there, which its owner writes and others read. */
static void replace(struct crowd *crowd, struct slot *slot, uint64_t draw)
{
    struct stage *stage = crowd->stage;
    mt_stream owner = (mt_stream)(draw % STREAMS);
    mt_alloc_give(stage->alloc, slot->block);
    slot->bytes = 1 + (draw >> 16) % (UINT64_C(1) << (draw >> 8) % 22);
    if (mt_alloc_take(stage->alloc, slot->bytes, owner, 1, 0, &slot->block) != MT_OK)
        return;
    queued_own(&stage->queues, mt_block_address(slot->block), slot->bytes, owner);
    read_on_others(crowd, slot, owner, draw >> 40);
}

static void *work(void *argument)
{
    const struct member *member = argument;
    struct crowd *crowd = member->crowd;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t draw = mt_splitmix64(crowd->seed + (member->number << 32 | round));
        struct slot *slot = &crowd->slots[draw % SHARED];
        pthread_mutex_lock(&slot->lock);
        replace(crowd, slot, draw >> 5);
        pthread_mutex_unlock(&slot->lock);
        if (round % 200 == 100 && mt_alloc_check(crowd->stage->alloc) != MT_OK)
            atomic_store(&crowd->is_sound, false);
    }
    return NULL;
}

/* Runs the threads; returns the number of hazards, and sets *waits to the number of waits of the host. */
static uint64_t run_crowd(const char *settings_text, uint64_t seed, bool is_deaf, uint64_t *waits)
{
    struct crowd *crowd = mt_host_alloc(sizeof *crowd);
    crowd->stage = stage_open(settings_text, 96 << 20);
    crowd->stage->queues.is_deaf = is_deaf;
    crowd->seed = seed;
    crowd->is_sound = true;
    pthread_t threads[THREADS];
    struct member members[THREADS];
    for (int i = 0; i < SHARED; i++)
        pthread_mutex_init(&crowd->slots[i].lock, NULL);
    for (int i = 0; i < THREADS; i++) {
        members[i] = (struct member){crowd, (uint64_t)i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &members[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SHARED; i++) {
        mt_alloc_give(crowd->stage->alloc, crowd->slots[i].block);
        pthread_mutex_destroy(&crowd->slots[i].lock);
    }
    assert_true(crowd->is_sound);
    assert_true(crowd->stage->queues.follows > THREADS * ROUNDS);
    uint64_t hazards = crowd->stage->queues.hazards;
    *waits = crowd->stage->queues.waits;
    stage_close(crowd->stage);
    free(crowd);
    return hazards;
}

static void no_thread_gets_bytes_that_another_stream_still_reads(void **state)
{
    (void)state;
    uint64_t seed = take_seed(), waits;
    for (int p = 0; p < POLICIES; p++) {
        assert_int_equal(run_crowd(policies[p], seed + (uint64_t)p, false, &waits), 0);
        assert_int_equal(waits, 0);
    }
}

/* Without users there are hazards, so the test before this one can fail. */
static void a_device_that_does_not_wait_is_found_out(void **state)
{
    (void)state;
    uint64_t seed = take_seed(), waits;
    for (int p = 0; p < POLICIES; p++)
        assert_true(run_crowd(policies[p], seed + (uint64_t)p, true, &waits) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_stream_that_used_a_block_is_waited_for_once),
        cmocka_unit_test(a_block_with_another_label_keeps_its_users),
        cmocka_unit_test(reuse_comes_after_what_was_queued_when_the_block_came_back),
        cmocka_unit_test(no_thread_gets_bytes_that_another_stream_still_reads),
        cmocka_unit_test(a_device_that_does_not_wait_is_found_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
