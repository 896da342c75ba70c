/* A device that fails otherwise than by being out of memory: the allocator passes its message on, emits no oom event,
 * and goes on as soon as the device does. */
#include "alloc/plan.h"
#include "alloc_rig.h"

#define MIB(n) (UINT64_C(n) << 20)

static const char *const policies[] = {"policy=tight", "policy=torch", "policy=torch,max_split=64MiB"};
enum { POLICIES = sizeof policies / sizeof policies[0] };

static mt_status take(struct rig *rig, uint64_t bytes, struct mt_block **out)
{
    mt_status status = mt_alloc_take(rig->alloc, bytes, 0, 1, 0, out);
    assert_int_equal(*out != NULL, status == MT_OK);
    return status;
}

static uint64_t count_ooms(struct rig *rig)
{
    struct mt_alloc_stats stats;
    mt_alloc_stats(rig->alloc, &stats);
    uint64_t events = 0;
    for (size_t i = 0; i < rig->recording.count; i++)
        events += rig->recording.events[i].kind == MT_EVENT_OOM;
    assert_int_equal(stats.ooms, events);
    assert_int_equal(stats.last_refusal.requested_bytes > 0, events > 0);
    return events;
}

static void expect_its_words(void)
{
    if (strstr(mt_last_error(), "the fake device is broken (700)") == NULL)
        fail_msg("\"%s\" is not what the device said", mt_last_error());
}

static void the_failure_of_a_device_is_passed_on(void **state)
{
    (void)state;
    for (int p = 0; p < POLICIES; p++) {
        struct rig rig;
        struct mt_block *first, *cached, *block;
        rig_open(&rig, policies[p], MIB(100));
        assert_int_equal(take(&rig, MIB(20), &first), MT_OK);
        assert_int_equal(take(&rig, MIB(4), &cached), MT_OK);
        mt_alloc_give(rig.alloc, cached);
        rig.fake.is_broken = true;
        assert_int_equal(take(&rig, MIB(30), &block), MT_FAILED);
        expect_its_words();
        assert_int_equal(count_ooms(&rig), 0);
        assert_int_equal(mt_alloc_check(rig.alloc), MT_OK);
        mt_alloc_give(rig.alloc, first);
        rig_close(&rig);
    }
}

/* The device has room for the page that the range lacks, whose last page is half free, but not for a segment. */
static void a_failure_is_passed_on_where_the_count_refuses_what_comes_after_it(void **state)
{
    (void)state;
    struct rig rig;
    struct mt_block *first, *block;
    rig_open(&rig, "policy=tight", MIB(100));
    assert_int_equal(take(&rig, MIB(81), &first), MT_OK);
    rig.fake.is_broken = true;
    assert_int_equal(take(&rig, MIB(19), &block), MT_FAILED);
    expect_its_words();
    assert_int_equal(count_ooms(&rig), 0);
    assert_int_equal(mt_alloc_check(rig.alloc), MT_OK);
    rig.fake.is_broken = false;
    assert_int_equal(take(&rig, MIB(19), &block), MT_OK);
    rig_close(&rig);
}

static void a_device_that_works_again_serves_again(void **state)
{
    (void)state;
    for (int p = 0; p < POLICIES; p++) {
        struct rig rig;
        struct mt_block *block;
        rig_open(&rig, policies[p], MIB(100));
        rig.fake.is_broken = true;
        assert_int_equal(take(&rig, MIB(30), &block), MT_FAILED);
        rig.fake.is_broken = false;
        assert_int_equal(take(&rig, MIB(30), &block), MT_OK);
        rig_close(&rig);
    }
}

/* The device's message about another request is not theirs: neither of them reaches the device. */
static void a_request_that_no_device_can_meet_is_out_of_memory_after_a_failure_too(void **state)
{
    (void)state;
    static const uint64_t too_much[] = {UINT64_MAX, UINT64_MAX - (2 << 20), MIB(101)};
    for (int p = 0; p < POLICIES; p++)
        for (size_t i = 0; i < sizeof too_much / sizeof too_much[0]; i++) {
            struct rig rig;
            struct mt_block *block;
            rig_open(&rig, policies[p], MIB(100));
            rig.fake.is_broken = true;
            assert_int_equal(take(&rig, MIB(30), &block), MT_FAILED);
            rig.fake.is_broken = false;
            assert_int_equal(take(&rig, too_much[i], &block), MT_OUT_OF_MEMORY);
            assert_int_equal(count_ooms(&rig), 1);
            rig_close(&rig);
        }
}

static void a_plan_that_a_device_fails_to_hold_says_why(void **state)
{
    (void)state;
    const struct mt_plan_request requests[] = {{MIB(4), 1, 0}, {MIB(4), 2, 1}};
    struct mt_plan *plan;
    assert_int_equal(mt_plan_make(requests, 2, &plan), MT_OK);
    struct rig rig;
    struct mt_block *block;
    rig_open(&rig, "", MIB(100));
    rig.fake.is_broken = true;
    assert_int_equal(mt_alloc_follow(rig.alloc, plan), MT_FAILED);
    expect_its_words();
    rig.fake.is_broken = false;
    assert_int_equal(take(&rig, MIB(4), &block), MT_OK);
    rig_close(&rig);
    mt_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_failure_of_a_device_is_passed_on),
        cmocka_unit_test(a_failure_is_passed_on_where_the_count_refuses_what_comes_after_it),
        cmocka_unit_test(a_device_that_works_again_serves_again),
        cmocka_unit_test(a_request_that_no_device_can_meet_is_out_of_memory_after_a_failure_too),
        cmocka_unit_test(a_plan_that_a_device_fails_to_hold_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
