/* An allocator that follows a plan: exactly, with requests that differ, and without enough room. After each request and
 * each freed block, every counter and index is derived again, and the events show the same state. */
#include "alloc_opening.h"
#include "base/interner.h"
#include "event_shadow.h"
#include "fake_device.h"
#include "plan_runs.h"
#include "seed.h"

enum { MOST_LIVE = 2000, STEPS = 5, CHECK_EVERY = 7 };

/* The deviations of a run from its plan, in percent of its requests. */
struct straying {
    uint64_t others;  /* on another stream */
    uint64_t extra;   /* additional ones */
    uint64_t resized; /* with other bytes */
    uint64_t held;    /* whose block is freed late */
};

/* A live block, and the request before which it is freed. */
struct taken {
    struct mt_block *block;
    uint64_t freed;
};

struct bed {
    struct fake_device fake;
    struct mt_interner *interner;
    struct mt_alloc *alloc;
    mt_label_id label;
    struct shadow shadow;
    struct taken live[MOST_LIVE];
    size_t live_count;
    uint64_t seed, draws, requests, refused, digest;
    struct straying straying;
};

static void watch(void *context, const struct mt_event *event)
{
    struct bed *bed = context;
    if (event->kind == MT_EVENT_STEP_BEGIN)
        bed->shadow.next_sequence++; /* is nothing that memory follows from */
    else
        shadow_apply(&bed->shadow, event);
    uint64_t requested_bytes = event->kind <= MT_EVENT_SEGMENT_UNMAP ? 0 : event->requested_bytes;
    const uint64_t fields[] = {event->kind, requested_bytes, event->offset, event->segment};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        bed->digest = mt_splitmix64(bed->digest ^ fields[i]);
}

static mt_label_id watch_label(void *context, const struct mt_label *label)
{
    return mt_interner_label(((struct bed *)context)->interner, label, NULL);
}

static mt_span_id watch_span(void *context, mt_span_id parent, const char *name)
{
    return mt_interner_span(((struct bed *)context)->interner, parent, name, NULL);
}

static void open_bed(struct bed *bed, const char *settings_text, uint64_t capacity_bytes, mt_addr base)
{
    struct mt_label label = {.category = MT_CATEGORY_PARAM, .op = "follow", .layer = -1};
    memset(bed, 0, sizeof *bed);
    bed->fake = fake_device_make(capacity_bytes, base, 1);
    bed->interner = mt_interner_create();
    struct mt_sink sink = {.context = bed, .emit = watch, .intern_label = watch_label, .intern_span = watch_span};
    bed->alloc = create_alloc(&bed->fake.device, settings_text, &sink);
    bed->label = mt_alloc_intern_label(bed->alloc, &label);
}

static void check(struct bed *bed)
{
    struct mt_alloc_stats stats;
    mt_alloc_stats(bed->alloc, &stats);
    if (mt_alloc_check(bed->alloc) != MT_OK)
        fail_msg("%s", mt_last_error());
    assert_int_equal(bed->shadow.contradictions, 0);
    assert_int_equal(bed->shadow.allocated_bytes, stats.all.allocated_bytes);
    assert_int_equal(bed->shadow.reserved_bytes, stats.reserved_bytes);
}

static void close_bed(struct bed *bed)
{
    for (size_t i = 0; i < bed->live_count; i++)
        mt_alloc_give(bed->alloc, bed->live[i].block);
    check(bed);
    mt_alloc_destroy(bed->alloc);
    assert_int_equal(bed->shadow.contradictions, 0);
    assert_int_equal(bed->shadow.reserved_bytes == 0, bed->shadow.allocated_bytes == 0);
    assert_int_equal(bed->fake.device.reserved_bytes, 0);
    mt_interner_destroy(bed->interner);
}

static bool strays(struct bed *bed, uint64_t percent)
{
    return draw(bed->seed, &bed->draws, 100) < percent;
}

static void request(struct bed *bed, uint64_t bytes, mt_stream stream, uint64_t freed)
{
    struct mt_block *block;
    bed->requests++;
    if (mt_alloc_take(bed->alloc, bytes, stream, bed->label, 0, &block) == MT_OK) {
        assert_true(bed->live_count < MOST_LIVE);
        bed->live[bed->live_count++] = (struct taken){block, freed};
    } else {
        assert_null(block);
        bed->refused++;
    }
    if (bed->requests % CHECK_EVERY == 0)
        check(bed);
}

static void give_back(struct bed *bed, uint64_t now)
{
    size_t kept = 0;
    for (size_t i = 0; i < bed->live_count; i++)
        if (bed->live[i].freed <= now)
            mt_alloc_give(bed->alloc, bed->live[i].block);
        else
            bed->live[kept++] = bed->live[i];
    bed->live_count = kept;
}

/* The request of `number` in the run, whose end another may know. */
static void follow_request(struct bed *bed, const struct mt_plan_request *given, uint64_t now, uint64_t freed)
{
    uint64_t bytes = given->bytes, held = draw(bed->seed, &bed->draws, 20);
    if (strays(bed, bed->straying.extra))
        request(bed, draw_bytes(bed->seed, &bed->draws), 0, now + 1 + held);
    if (strays(bed, bed->straying.others))
        request(bed, draw_bytes(bed->seed, &bed->draws), 1, now + 1 + held);
    if (strays(bed, bed->straying.resized))
        bytes = draw_bytes(bed->seed, &bed->draws);
    if (freed != MT_PLAN_KEPT && strays(bed, bed->straying.held))
        freed += held;
    request(bed, bytes, 0, freed);
}

/* Plays the run, and its last step until there were STEPS. */
static void play(struct bed *bed, const struct run *run)
{
    int64_t last_step = run->requests[run->count - 1].step, step = MT_NO_STEP;
    size_t length = 0;
    while (length < run->count && run->requests[run->count - 1 - length].step == last_step)
        length++;
    for (size_t now = 0; now < run->count + STEPS * length; now++) {
        size_t ahead = now < run->count ? 0 : (now - run->count) / length + 1;
        const struct mt_plan_request *given = &run->requests[now - ahead * length];
        /* The last step does not know yet when its blocks are freed. The step before does. */
        const struct mt_plan_request *knows = given->step == last_step ? given - length : given;
        uint64_t shift = now - (uint64_t)(knows - run->requests);
        give_back(bed, now);
        for (int64_t its_step = given->step + (int64_t)ahead; step < its_step;)
            mt_alloc_mark(bed->alloc, MT_EVENT_STEP_BEGIN, (uint64_t)++step, 0);
        follow_request(bed, given, now, knows->freed == MT_PLAN_KEPT ? MT_PLAN_KEPT : knows->freed + shift);
    }
    give_back(bed, UINT64_MAX - 1);
}

static struct mt_plan *plan_of(const struct run *run)
{
    struct mt_plan *plan;
    if (mt_plan_make(run->requests, run->count, &plan) != MT_OK)
        fail_msg("%s", mt_last_error());
    return plan;
}

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + (2 << 20) - 1) / (2 << 20) * (2 << 20);
}

static const char *const policies[] = {"", "policy=torch", "policy=torch,roundup_power2_divisions=4"};

static void a_run_as_planned_lies_in_the_arena_alone(void **unused)
{
    (void)unused;
    static struct bed bed;
    uint64_t seed = take_seed() << 20;
    for (uint64_t i = 0; i < 12; i++) {
        struct run run = draw_run(seed + (i << 12));
        struct mt_plan *plan = plan_of(&run);
        struct mt_alloc_stats stats;
        open_bed(&bed, policies[i % 2], UINT64_C(1) << 40, 1 << 20);
        assert_int_equal(mt_alloc_follow(bed.alloc, plan), MT_OK);
        play(&bed, &run);
        mt_alloc_stats(bed.alloc, &stats);
        assert_int_equal(stats.planned_requests, bed.requests);
        assert_int_equal(stats.unplanned_requests, 0);
        assert_int_equal(stats.segments, 1);
        assert_int_equal(stats.peak_reserved_bytes, whole_pages(mt_plan_bytes(plan)));
        assert_int_equal(stats.all.peak_allocated_bytes, mt_plan_peak_bytes(plan));
        close_bed(&bed);
        mt_plan_destroy(plan);
        free(run.requests);
    }
}

/* Each kind of deviation alone, all together, and all on a device that is soon full. */
static void a_run_that_strays_is_served_all_the_same(void **unused)
{
    (void)unused;
    static struct bed bed;
    static const struct straying kinds[] = {{.others = 10}, {.extra = 2},  {.resized = 2},
                                            {.held = 5},    {10, 2, 2, 5}, {10, 2, 2, 5}};
    uint64_t seed = take_seed() << 20, planned = 0, unplanned = 0, refused = 0;
    for (uint64_t i = 0; i < 18; i++) {
        struct run run = draw_run(seed + (i << 12));
        struct mt_plan *plan = plan_of(&run);
        struct mt_alloc_stats stats;
        bool is_full = i % 6 == 5;
        open_bed(&bed, policies[i / 6], is_full ? whole_pages(mt_plan_bytes(plan)) + (4 << 20) : UINT64_C(1) << 40,
                 1 << 20);
        bed.seed = seed + i;
        bed.straying = kinds[i % 6];
        assert_int_equal(mt_alloc_follow(bed.alloc, plan), MT_OK);
        play(&bed, &run);
        mt_alloc_stats(bed.alloc, &stats);
        assert_int_equal(stats.planned_requests + stats.unplanned_requests, bed.requests);
        assert_int_equal(stats.ooms, bed.refused);
        assert_true(is_full || bed.refused == 0);
        planned += stats.planned_requests;
        unplanned += stats.unplanned_requests;
        refused += bed.refused;
        close_bed(&bed);
        mt_plan_destroy(plan);
        free(run.requests);
    }
    print_message("%" PRIu64 " requests as planned, %" PRIu64 " not, %" PRIu64 " refused\n", planned, unplanned,
                  refused);
    assert_true(planned > 0 && unplanned > 0);
}

static const struct mt_plan_request small_run[] = {
    {1 << 20, MT_PLAN_KEPT, MT_NO_STEP},
    {2 << 20, 2, 0},
    {1 << 20, 3, 0},
    {2 << 20, 4, 1},
    {1 << 20, 5, 1},
    {2 << 20, 6, 2},
    {1 << 20, 7, 2},
};
static const struct run small = {(struct mt_plan_request *)small_run, sizeof small_run / sizeof small_run[0]};

static struct mt_block *take(struct bed *bed, uint64_t bytes)
{
    struct mt_block *block;
    assert_int_equal(mt_alloc_take(bed->alloc, bytes, 0, bed->label, 0, &block), MT_OK);
    return block;
}

static uint64_t planned_requests(struct bed *bed)
{
    struct mt_alloc_stats stats;
    mt_alloc_stats(bed->alloc, &stats);
    return stats.planned_requests;
}

static void the_plan_is_taken_up_again_at_the_next_step(void **unused)
{
    (void)unused;
    static struct bed bed;
    struct mt_plan *plan = plan_of(&small);
    open_bed(&bed, "", UINT64_C(1) << 40, 1 << 20);
    assert_int_equal(mt_alloc_follow(bed.alloc, plan), MT_OK);
    take(&bed, 1 << 20);
    assert_int_equal(planned_requests(&bed), 1);
    mt_alloc_mark(bed.alloc, MT_EVENT_STEP_BEGIN, 0, 0);
    mt_alloc_give(bed.alloc, take(&bed, 5 << 20)); /* not what was planned */
    mt_alloc_give(bed.alloc, take(&bed, 1 << 20));
    mt_alloc_give(bed.alloc, take(&bed, 1 << 20)); /* one more than planned */
    assert_int_equal(planned_requests(&bed), 2);
    mt_alloc_mark(bed.alloc, MT_EVENT_STEP_BEGIN, 1, 0);
    mt_alloc_give(bed.alloc, take(&bed, 2 << 20));
    mt_alloc_give(bed.alloc, take(&bed, 1 << 20));
    assert_int_equal(planned_requests(&bed), 4);
    mt_alloc_mark(bed.alloc, MT_EVENT_STEP_BEGIN, 2, 0);
    struct mt_block *holds_the_place = take(&bed, 2 << 20);
    mt_alloc_mark(bed.alloc, MT_EVENT_STEP_BEGIN, 3, 0);
    struct mt_block *elsewhere = take(&bed, 2 << 20);
    assert_int_equal(planned_requests(&bed), 5);
    assert_true(mt_block_address(holds_the_place) != mt_block_address(elsewhere));
    mt_alloc_give(bed.alloc, holds_the_place);     /* and the place of the next request, too, */
    mt_alloc_give(bed.alloc, take(&bed, 1 << 19)); /* which is smaller than planned */
    assert_int_equal(planned_requests(&bed), 5);
    check(&bed);
    close_bed(&bed);
    mt_plan_destroy(plan);
}

/* The arena would have had room: the plan gives it up rather than refuse. */
static void a_full_device_gets_the_arena_before_a_request_is_refused(void **unused)
{
    (void)unused;
    static struct bed bed;
    struct mt_plan *plan = plan_of(&small);
    open_bed(&bed, "", 4 << 20, 1 << 20); /* the arena's 3 MiB as whole pages, and nothing else */
    assert_int_equal(mt_alloc_follow(bed.alloc, plan), MT_OK);
    take(&bed, 1 << 20);
    struct mt_block *first = take(&bed, 2 << 20); /* before the first step nothing more was planned */
    check(&bed);
    mt_alloc_mark(bed.alloc, MT_EVENT_STEP_BEGIN, 0, 0);
    mt_alloc_give(bed.alloc, first);
    take(&bed, 2 << 20);
    assert_int_equal(planned_requests(&bed), 1);
    close_bed(&bed);
    mt_plan_destroy(plan);
}

static void an_arena_without_room_leaves_the_allocator_as_it_was(void **unused)
{
    (void)unused;
    static struct bed bed;
    struct mt_plan *plan = plan_of(&small);
    open_bed(&bed, "", 2 << 20, 1 << 20);
    assert_int_equal(mt_alloc_follow(bed.alloc, plan), MT_OUT_OF_MEMORY);
    take(&bed, 1 << 10);
    struct mt_alloc_stats stats;
    mt_alloc_stats(bed.alloc, &stats);
    assert_int_equal(stats.planned_requests + stats.unplanned_requests, 0);
    assert_int_equal(mt_alloc_follow(bed.alloc, plan), MT_USAGE); /* too late */
    close_bed(&bed);
    mt_plan_destroy(plan);
}

static void an_idle_arena_may_be_released(void **unused)
{
    (void)unused;
    static struct bed bed;
    struct mt_plan *plan = plan_of(&small);
    open_bed(&bed, "", UINT64_C(1) << 40, 1 << 20);
    assert_int_equal(mt_alloc_follow(bed.alloc, plan), MT_OK);
    mt_alloc_release_cached(bed.alloc);
    assert_int_equal(bed.shadow.reserved_bytes, 0);
    take(&bed, 1 << 20);
    check(&bed);
    assert_int_equal(planned_requests(&bed), 0);
    close_bed(&bed);
    mt_plan_destroy(plan);
}

/* The same events at any device addresses, and the same number for two equal moments of a repeated step. */
static void following_depends_on_no_address(void **unused)
{
    (void)unused;
    static struct bed a, b;
    uint64_t seed = take_seed() << 20;
    struct run run = draw_run(seed);
    struct mt_plan *plan = plan_of(&run);
    open_bed(&a, "", UINT64_C(1) << 40, 1 << 20);
    open_bed(&b, "", UINT64_C(1) << 40, UINT64_C(7) << 36);
    a.straying = b.straying = (struct straying){10, 2, 2, 5};
    a.seed = b.seed = seed;
    assert_int_equal(mt_alloc_follow(a.alloc, plan), MT_OK);
    assert_int_equal(mt_alloc_follow(b.alloc, plan), MT_OK);
    play(&a, &run);
    play(&b, &run);
    assert_int_equal(a.digest, b.digest);
    assert_int_equal(mt_alloc_fingerprint(a.alloc), mt_alloc_fingerprint(b.alloc));
    uint64_t before = mt_alloc_fingerprint(a.alloc);
    mt_alloc_mark(a.alloc, MT_EVENT_STEP_BEGIN, 2, 0); /* the next request has another place now */
    assert_true(mt_alloc_fingerprint(a.alloc) != before);
    close_bed(&a);
    close_bed(&b);
    mt_plan_destroy(plan);
    free(run.requests);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_as_planned_lies_in_the_arena_alone),
        cmocka_unit_test(a_run_that_strays_is_served_all_the_same),
        cmocka_unit_test(the_plan_is_taken_up_again_at_the_next_step),
        cmocka_unit_test(a_full_device_gets_the_arena_before_a_request_is_refused),
        cmocka_unit_test(an_arena_without_room_leaves_the_allocator_as_it_was),
        cmocka_unit_test(an_idle_arena_may_be_released),
        cmocka_unit_test(following_depends_on_no_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
