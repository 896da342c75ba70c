/* Random requests. After each, every counter and index is derived again, the replayed events give the same state, no
 * two blocks overlap, and the policy torch has handed out the same block as a naive model of its rules. */
#include "alloc/alloc.h"
#include "alloc_model.h"
#include "base/interner.h"
#include "base/memory.h"
#include "base/random.h"
#include "event_shadow.h"
#include "fake_device.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_LIVE = 150, STREAMS = 3, LABELS = 5 };
static const uint64_t CAPACITY = UINT64_C(120) << 20;

/* A block that is out, with the model's block. */
struct taken {
    struct mt_block *block;
    uint64_t bytes;
    struct model_piece piece;
};

/* One allocator under test, and everything that checks it. */
struct bed {
    struct fake_device fake;
    struct mt_interner *interner;
    struct mt_alloc *alloc;
    struct shadow shadow;
    struct mt_event last_alloc;
    uint64_t digest; /* of all events but for addresses and times */
    mt_label_id labels[LABELS];
    uint64_t seed, draws;
    struct taken live[MOST_LIVE];
    int live_count;
    uint64_t ooms;
    struct alloc_model model;
    bool follows_model;
};

static uint64_t draw(struct bed *bed, uint64_t below)
{
    return mt_splitmix64(bed->seed * UINT64_C(0x9E3779B97F4A7C15) + bed->draws++) % below;
}

static void watch(void *context, const struct mt_event *event)
{
    struct bed *bed = context;
    shadow_apply(&bed->shadow, event);
    if (event->kind == MT_EVENT_ALLOC)
        bed->last_alloc = *event;
    uint64_t requested_bytes = event->kind <= MT_EVENT_SEGMENT_UNMAP ? 0 : event->requested_bytes;
    const uint64_t fields[] = {event->kind,    requested_bytes, event->block_bytes, event->offset,
                               event->segment, event->label,    event->span,        event->stream};
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

static struct bed *bed_open(const char *settings_text, uint64_t seed, mt_addr base, int64_t direction)
{
    struct bed *bed = mt_host_alloc(sizeof *bed);
    bed->seed = seed;
    bed->fake = fake_device_make(CAPACITY, base, direction);
    bed->interner = mt_interner_create();
    struct mt_alloc_settings settings;
    assert_int_equal(mt_alloc_settings_parse(settings_text, &settings), MT_OK);
    bed->model.capacity = CAPACITY;
    bed->model.divisions = (uint64_t)settings.roundup_power2_divisions;
    bed->follows_model = settings.policy == MT_POLICY_TORCH && settings.max_split_bytes == UINT64_MAX &&
                         settings.gc_threshold == 0 && !settings.expandable_segments;
    struct mt_sink sink = {.context = bed, .emit = watch, .intern_label = watch_label, .intern_span = watch_span};
    assert_int_equal(mt_alloc_create(&bed->fake.device, &sink, &settings, &bed->alloc), MT_OK);
    for (int i = 0; i < LABELS; i++) {
        struct mt_label label = {.category = (mt_category)(i * 3), .op = "random", .layer = -1};
        bed->labels[i] = mt_alloc_intern_label(bed->alloc, &label);
    }
    return bed;
}

static void bed_close(struct bed *bed)
{
    mt_alloc_destroy(bed->alloc);
    assert_int_equal(bed->fake.device.reserved_bytes, 0);
    assert_int_equal(bed->fake.mapped_count, 0);
    assert_int_equal(bed->fake.open_ranges, 0);
    assert_int_equal(bed->fake.faults, 0);
    mt_interner_destroy(bed->interner);
    free(bed);
}

/* Sizes for every rule, with the bounds of the rules among them. */
static uint64_t draw_bytes(struct bed *bed)
{
    static const uint64_t bounds[] = {1,       511,     512,      513,      65536,    65537,   1 << 20,
                                      1048577, 2 << 20, 10485759, 10485760, 20 << 20, 5 << 20, 30 << 20};
    uint64_t regime = draw(bed, 8);
    if (regime == 0)
        return bounds[draw(bed, sizeof bounds / sizeof bounds[0])];
    if (regime < 5)
        return 1 + draw(bed, UINT64_C(1) << (4 + draw(bed, 17)));
    return 1 + draw(bed, UINT64_C(1) << (20 + draw(bed, 6)));
}

static void expect_no_overlap(const struct bed *bed, const struct taken *new)
{
    mt_addr address = mt_block_address(new->block);
    for (int i = 0; i < bed->live_count; i++) {
        mt_addr other = mt_block_address(bed->live[i].block);
        assert_true(other + bed->live[i].bytes <= address || address + new->bytes <= other);
    }
}

static void expect_as_modelled(struct bed *bed, mt_status status, unsigned stream, struct taken *new)
{
    bool given = model_take(&bed->model, stream, new->bytes, &new->piece);
    assert_int_equal(given, status == MT_OK);
    assert_int_equal(bed->model.reserved, bed->fake.device.reserved_bytes);
    if (!given) {
        model_release_idle(&bed->model);
        return;
    }
    assert_int_equal(bed->last_alloc.segment, new->piece.birth);
    assert_int_equal(bed->last_alloc.offset, new->piece.offset);
    assert_int_equal(bed->last_alloc.block_bytes, new->piece.bytes);
}

static void take_one(struct bed *bed)
{
    mt_stream stream = (mt_stream)(draw(bed, 4) == 0 ? draw(bed, STREAMS) : 0);
    struct taken new = {.bytes = draw_bytes(bed)};
    mt_label_id label = bed->labels[draw(bed, LABELS)];
    mt_status status = mt_alloc_take(bed->alloc, new.bytes, stream, label, (mt_span_id)draw(bed, 9), &new.block);
    if (bed->follows_model)
        expect_as_modelled(bed, status, stream, &new);
    if (status != MT_OK) {
        assert_int_equal(status, MT_OUT_OF_MEMORY);
        assert_null(new.block);
        bed->ooms++;
        return;
    }
    assert_int_equal(mt_block_requested_bytes(new.block), new.bytes);
    assert_int_equal(mt_block_address(new.block),
                     shadow_segment_of(&bed->shadow, &bed->last_alloc)->address + bed->last_alloc.offset);
    expect_no_overlap(bed, &new);
    bed->live[bed->live_count++] = new;
}

static void give_one(struct bed *bed)
{
    struct taken *taken = &bed->live[draw(bed, (uint64_t)bed->live_count)];
    if (bed->follows_model)
        model_give(&bed->model, taken->piece);
    mt_alloc_give(bed->alloc, taken->block);
    *taken = bed->live[--bed->live_count];
}

/* The figures of the allocator, of the replay and of the device must be equal. */
static void expect_consistent(struct bed *bed)
{
    struct mt_alloc_stats stats;
    if (mt_alloc_check(bed->alloc) != MT_OK)
        fail_msg("seed %" PRIu64 ", draw %" PRIu64 ": %s", bed->seed, bed->draws, mt_last_error());
    mt_alloc_stats(bed->alloc, &stats);
    uint64_t requested = 0;
    for (int i = 0; i < bed->live_count; i++)
        requested += bed->live[i].bytes;
    assert_int_equal(stats.all.requested_bytes, requested);
    assert_int_equal(stats.all.requested_bytes, bed->shadow.requested_bytes);
    assert_int_equal(stats.all.allocated_bytes, bed->shadow.allocated_bytes);
    assert_int_equal(stats.all.blocks, bed->live_count);
    assert_int_equal(stats.reserved_bytes, bed->shadow.reserved_bytes);
    assert_int_equal(stats.reserved_bytes, bed->fake.device.reserved_bytes);
    assert_int_equal(stats.segments, bed->shadow.segment_count);
    assert_int_equal(stats.ooms, bed->ooms);
    assert_int_equal(bed->shadow.ooms, bed->ooms);
    assert_int_equal(bed->shadow.contradictions, 0);
}

static void step(struct bed *bed)
{
    bool is_full = bed->live_count == MOST_LIVE;
    /* Waves of growth and decline, so that there are full devices and idle segments. */
    uint64_t takes = bed->draws / 600 % 2 == 0 ? 7 : 3;
    if (bed->live_count > 0 && (is_full || draw(bed, 10) >= takes))
        give_one(bed);
    else
        take_one(bed);
    if (draw(bed, 500) == 0) {
        mt_alloc_release_cached(bed->alloc);
        model_release_idle(&bed->model);
    }
}

static const char *const settings_texts[] = {
    "policy=tight",
    "policy=torch",
    "policy=torch,roundup_power2_divisions=4",
    "policy=torch,max_split=21MiB",
    "policy=torch,expandable_segments=on",
    "policy=torch,gc_threshold=0.5",
    "policy=torch,max_split=24MiB,gc_threshold=0.7,roundup_power2_divisions=8",
};

enum { SETTINGS = sizeof settings_texts / sizeof settings_texts[0], SEEDS = 3, STEPS = 2000 };

static void every_step_keeps_the_state_consistent(void **state)
{
    (void)state;
    for (int i = 0; i < SETTINGS; i++)
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            print_message("%s, seed %" PRIu64 "\n", settings_texts[i], seed);
            struct bed *bed = bed_open(settings_texts[i], seed, UINT64_C(1) << 40, 1);
            for (int n = 0; n < STEPS; n++) {
                step(bed);
                expect_consistent(bed);
            }
            assert_true(bed->ooms > 0);
            bed_close(bed);
        }
}

static uint64_t digest_of(const char *settings_text, uint64_t seed, mt_addr base, int64_t direction)
{
    struct bed *bed = bed_open(settings_text, seed, base, direction);
    for (int n = 0; n < STEPS; n++)
        step(bed);
    uint64_t digest = bed->digest;
    bed_close(bed);
    return digest;
}

static void events_do_not_depend_on_addresses(void **state)
{
    (void)state;
    for (int i = 0; i < SETTINGS; i++) {
        uint64_t up = digest_of(settings_texts[i], 7, UINT64_C(1) << 40, 1);
        assert_true(up == digest_of(settings_texts[i], 7, UINT64_C(7) << 50, -1));
        assert_true(up != digest_of(settings_texts[i], 8, UINT64_C(1) << 40, 1));
    }
}

static void refused_reservation_of_any_number_leaves_a_valid_allocator(void **state)
{
    (void)state;
    for (int i = 0; i < SETTINGS; i++)
        for (uint64_t nth = 1; nth <= 12; nth++) {
            struct bed *bed = bed_open(settings_texts[i], nth, UINT64_C(1) << 40, 1);
            bed->follows_model = false;
            bed->fake.device.fail_reserve_at = nth;
            for (int n = 0; n < 300; n++) {
                step(bed);
                expect_consistent(bed);
            }
            assert_true(bed->fake.device.reserve_count >= nth);
            bed_close(bed);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_keeps_the_state_consistent),
        cmocka_unit_test(events_do_not_depend_on_addresses),
        cmocka_unit_test(refused_reservation_of_any_number_leaves_a_valid_allocator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
