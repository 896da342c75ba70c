/* memtrace oom: what it says that a refused request needed is what lets it be met, and a page less does not. */
#include "program.h"

#include "base/random.h"
#include "base/status.h"
#include "seed.h"

#include <inttypes.h>

#define MIB ((uint64_t)1 << 20)

enum { PAGE_MIB = 2, PROBES = 10 };

#define SIZES "--vocab 1000 --d-model 256 --d-ff 1024 --layers 4 --heads 4 --seq 128 --batch 8 --steps 2 "

static int set_up(void **state)
{
    *state = enter_folder("test_oom_growth");
    return 0;
}

static json_int_t count_events(const char *condition)
{
    json_t *answer = json_of(shell("\"$M\" sql --json \"SELECT count(*) FROM event WHERE %s\"", condition));
    json_int_t count = json_integer_value(json_array_get(json_array_get(json_object_get(answer, "rows"), 0), 0));
    json_decref(answer);
    return count;
}

/* The exit code of a run on a device of so many MiB, and the count of blocks that it had got by then. */
struct outcome {
    int code;
    json_int_t blocks;
};

static struct outcome run_on(uint64_t mib, const char *options)
{
    shell("rm -f memtrace.db");
    struct outcome outcome = {.code = shell("\"$M\" run " SIZES "--device sim:%" PRIu64 "MiB %s", mib, options)->code};
    assert_true(outcome.code == MT_OK || outcome.code == MT_OUT_OF_MEMORY);
    outcome.blocks = count_events("kind = 2");
    return outcome;
}

/* True if the request that was refused after `blocks` blocks is met on a device of `mib` MiB. */
static bool is_met(uint64_t mib, const char *options, json_int_t blocks)
{
    struct outcome outcome = run_on(mib, options);
    assert_true(outcome.blocks >= blocks);
    return outcome.code == MT_OK || outcome.blocks > blocks;
}

/* A segment or page that is released for a request is kept if there is more memory, and all later ones have other
 * addresses. */
static bool has_given_back(void)
{
    return count_events("kind = 1 AND id < (SELECT min(id) FROM event WHERE kind = 4)") > 0;
}

/* Returns whether a segment grows, in a run of which the like can be had with more memory. */
static bool check_need(uint64_t mib, const char *options)
{
    struct outcome refused = run_on(mib, options);
    if (refused.code == MT_OK)
        return false;
    json_t *answer = json_of(MEMTRACE("oom --json"));
    const json_t *memory = json_object_get(answer, "memory"), *asked = json_object_get(answer, "asked");
    bool grows = json_is_true(json_object_get(asked, "grows"));
    uint64_t enough = (uint64_t)(integer_of(memory, "reserved_bytes") + integer_of(asked, "segment_bytes")) / MIB;
    bool alike = !has_given_back();
    json_decref(answer);
    assert_says(MEMTRACE("oom")->out, grows ? "a segment would have had to grow" : "a new segment");
    if (alike) {
        assert_true(is_met(enough, options, refused.blocks));
        assert_false(is_met(enough - PAGE_MIB, options, refused.blocks));
    }
    return grows && alike;
}

static void a_refused_request_needs_what_lets_it_be_met(void **state)
{
    (void)state;
    uint64_t seed = take_seed(), grown = 0;
    for (uint64_t probe = 0; probe < PROBES; probe++) {
        uint64_t mib = 40 + mt_splitmix64(seed * 100 + probe) % 150 * PAGE_MIB;
        grown += check_need(mib, probe % 2 == 0 ? "" : "--impl fused --autocast bf16");
    }
    assert_true(grown > 0);
}

/* PyTorch's segments never grow, and without ranges no segment does. */
static void a_policy_without_ranges_takes_a_new_segment(void **state)
{
    (void)state;
    assert_false(check_need(100, "--alloc policy=torch"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refused_request_needs_what_lets_it_be_met),
        cmocka_unit_test(a_policy_without_ranges_takes_a_new_segment),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
