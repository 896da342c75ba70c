/* Snapshots that memtrace exported, imported again: the run is restored, as far as the format can express it. */
#include "alloc_opening.h"
#include "same_rows.h"
#include "seed.h"
#include "trace_edit.h"

#include "base/status.h"

#define TINY "run --vocab 64 --d-model 16 --d-ff 32 --layers 3 --heads 2 --seq 8 --batch 2 "
#define SIM "--device sim "

/* A run by SQL, in whole microseconds, with the call stacks, innermost frame first. */
static const char told[] =
    "WITH RECURSIVE up(stack, id, text) AS (SELECT id, id, '' FROM stack UNION ALL SELECT up.stack, stack.parent,"
    " text || function || ' ' || file || ' ' || line || ', ' FROM up JOIN stack ON stack.id = up.id JOIN frame"
    " ON frame.id = stack.frame) "
    "SELECT kind, ifnull(requested_bytes, 0), ifnull(block_bytes, 0), event.stream, event.segment, offset, category, "
    "role, op, phase, dtype, shape, layer, own.path, asker.path, time_ns / 1000, up.text FROM event"
    " LEFT JOIN label ON label.id = event.label LEFT JOIN span AS own ON own.id = label.span"
    " LEFT JOIN span AS asker ON asker.id = coalesce(event.span, label.span)"
    " LEFT JOIN up ON up.stack = event.stack AND up.id = 0 ORDER BY event.id";

/* The run's own row. */
static const char known[] = "SELECT setting.name, value, device, capacity_bytes, run.name, state, started_at FROM "
                            "setting JOIN run ON run.id = setting.run"
                            " WHERE setting.name NOT IN ('file', 'format') ORDER BY 1";

static void a_run_comes_back_from_its_snapshot(void **state)
{
    (void)state;
    static const char *const options[] = {
        "--alloc policy=tight --name x", "--alloc policy=torch,roundup_power2_divisions=8 --autocast bf16 --name x",
        "--plan on --name x", "--impl fused --plan on --cuda-graph on --name x",
        "--impl fused --optimizer-in-backward beside --plan on --autocast bf16 --name x"};
    static const char *const formats[] = {"torch", "pickle"};
    for (int i = 0; i < 5; i++) {
        expect_success(shell("rm -f a.db* b.db*; \"$M\" " TINY SIM "--steps 2 %s --trace a.db"
                             " && \"$M\" export --format %s -o x.snapshot --trace a.db"
                             " && \"$M\" import x.snapshot --trace b.db",
                             options[i], formats[i % 2]));
        assert_true(expect_same("b.db", told, "a.db", told) > 500);
        assert_true(expect_same("b.db", known, "a.db", known) > 10);
    }
}

/* A program that allocates and frees at random on several streams, from stacks and from spans that may differ from the
 * labels' spans, labels some blocks anew, and has some requests refused. */
struct wanderer {
    struct mt_alloc *alloc;
    uint64_t seed, draws;
    mt_label_id labels[20];
    mt_span_id spans[20];
    mt_stack_id stacks[20];
    struct mt_block *live[100];
    size_t live_count;
};

static uint64_t draw(struct wanderer *wanderer, uint64_t below)
{
    return mt_splitmix64(wanderer->seed + wanderer->draws++) % below;
}

/* Spans within each other, of any names. */
static void make_labels(struct wanderer *wanderer)
{
    static const char *const names[] = {"model", "layers.3", "a \"quoted\"; one", "\xC3\xA9tage"};
    for (uint64_t i = 0; i < 20; i++) {
        mt_span_id parent = i < 4 ? 0 : wanderer->spans[i - 4];
        wanderer->spans[i] = mt_alloc_intern_span(wanderer->alloc, parent, names[draw(wanderer, 4)]);
        struct mt_label label = {.category =
                                     mt_alloc_intern_category(wanderer->alloc, i % 3 == 0 ? names[i % 4] : "FFN"),
                                 .role = (mt_role)draw(wanderer, MT_ROLE_COUNT),
                                 .phase = (mt_phase)draw(wanderer, MT_PHASE_COUNT),
                                 .dtype = (mt_dtype)draw(wanderer, MT_DTYPE_COUNT),
                                 .op = i % 2 == 0 ? "" : names[2],
                                 .span = wanderer->spans[i],
                                 .layer = (int)i % 5 - 1,
                                 .dims = (int)i % 3,
                                 .shape = {(int64_t)i, 1ll << 40}};
        wanderer->labels[i] = mt_alloc_intern_label(wanderer->alloc, &label);
    }
}

/* Stacks of which some begin alike; every third is none. */
static void make_stacks(struct wanderer *wanderer, const struct mt_sink *sink)
{
    static const char *const files[] = {"train.py", "", "a \"quoted\".py"};
    for (uint64_t i = 0; i < 20; i++) {
        const struct mt_frame frame = {"forward", files[draw(wanderer, 3)], (uint32_t)draw(wanderer, 50)};
        if (i % 3 != 0)
            wanderer->stacks[i] = mt_sink_stack(sink, i < 4 ? 0 : wanderer->stacks[i - 4], &frame);
    }
}

static void take_one(struct wanderer *wanderer)
{
    struct mt_block *block = NULL;
    uint64_t label = draw(wanderer, 20), most = draw(wanderer, 20) == 0 ? 40 << 20 : 200000;
    const struct mt_alloc_request request = {.bytes = 1 + draw(wanderer, most),
                                             .stream = (mt_stream)draw(wanderer, 3),
                                             .label = wanderer->labels[label],
                                             .span =
                                                 wanderer->spans[draw(wanderer, 4) == 0 ? draw(wanderer, 20) : label],
                                             .stack = wanderer->stacks[draw(wanderer, 20)]};
    mt_status status = mt_alloc_serve(wanderer->alloc, &request, &block);
    if (status == MT_OK)
        wanderer->live[wanderer->live_count++] = block;
    else
        assert_int_equal(status, MT_OUT_OF_MEMORY);
}

/* Asks for more than the device has, which draws need not come to. */
static void be_refused(struct wanderer *wanderer)
{
    struct mt_block *block = NULL;
    const struct mt_alloc_request request = {
        .bytes = 97 << 20, .label = wanderer->labels[0], .span = wanderer->spans[0], .stack = wanderer->stacks[1]};
    assert_int_equal(mt_alloc_serve(wanderer->alloc, &request, &block), MT_OUT_OF_MEMORY);
}

static void give_one(struct wanderer *wanderer)
{
    struct mt_block **block = &wanderer->live[draw(wanderer, wanderer->live_count)];
    mt_alloc_use_on(wanderer->alloc, *block, (mt_stream)draw(wanderer, 3));
    mt_alloc_give(wanderer->alloc, *block);
    *block = wanderer->live[--wanderer->live_count];
}

static void relabel_one(struct wanderer *wanderer)
{
    if (wanderer->live_count > 0)
        mt_alloc_relabel(wanderer->alloc, wanderer->live[draw(wanderer, wanderer->live_count)],
                         wanderer->labels[draw(wanderer, 20)], wanderer->spans[draw(wanderer, 20)]);
}

static void wander_on(struct wanderer *wanderer)
{
    uint64_t chance = draw(wanderer, 40), number = draw(wanderer, 20);
    if (chance < 2)
        mt_alloc_mark(wanderer->alloc, chance == 0 ? MT_EVENT_SPAN_BEGIN : MT_EVENT_SPAN_END, 0,
                      wanderer->spans[number]);
    else if (chance == 2)
        mt_alloc_mark(wanderer->alloc, MT_EVENT_PHASE, draw(wanderer, MT_PHASE_COUNT), 0);
    else if (chance == 3)
        mt_alloc_release_cached(wanderer->alloc);
    else if (chance == 4)
        relabel_one(wanderer);
    else if (wanderer->live_count == 100 || (wanderer->live_count > 0 && chance < 20))
        give_one(wanderer);
    else
        take_one(wanderer);
}

static void record_wanderer(const char *path, const char *policy, uint64_t seed)
{
    enum { STEPS = 3, MOVES = 400 };
    struct wanderer wanderer = {.seed = seed};
    struct mt_recorder *recorder = fixture_open(path, 0);
    struct mt_device *device = open_device("sim:96MiB");
    wanderer.alloc = create_alloc(device, policy, mt_recorder_sink(recorder));
    make_labels(&wanderer);
    make_stacks(&wanderer, mt_recorder_sink(recorder));
    for (uint64_t step = 0; step < STEPS; step++) {
        mt_alloc_mark(wanderer.alloc, MT_EVENT_STEP_BEGIN, step, 0);
        for (int i = 0; i < MOVES; i++)
            wander_on(&wanderer);
        be_refused(&wanderer);
        if (step + 1 < STEPS) /* the run ends in a step */
            mt_alloc_mark(wanderer.alloc, MT_EVENT_STEP_END, step, 0);
    }
    mt_alloc_destroy(wanderer.alloc);
    mt_device_close(device);
    fixture_close(recorder, MT_RUN_DONE);
}

static void a_program_of_several_streams_comes_back(void **state)
{
    (void)state;
    static const char *const policies[] = {"policy=tight", "policy=torch", "policy=torch,max_split=32MiB"};
    for (int i = 0; i < 3; i++) {
        expect_success(shell("rm -f a.db* b.db*"));
        record_wanderer("a.db", policies[i], take_seed());
        expect_success(shell("\"$M\" export --format pickle %s -o x.pickle --trace a.db &&"
                             " \"$M\" import x.pickle --trace b.db",
                             i == 1 ? "--at peak" : ""));
        assert_int_equal(sql_integer("a.db", "SELECT count(DISTINCT stream) FROM event"), 3);
        assert_true(sql_integer("a.db", "SELECT count(*) FROM event WHERE kind = 4") > 0);
        assert_true(expect_same("b.db", told, "a.db", told) > 1000);
        assert_true(sql_integer("a.db", "SELECT count(*) FROM event WHERE kind = 10") > 0);
        assert_true(sql_integer("a.db", "SELECT count(*) FROM event WHERE stack IS NOT NULL AND kind = 4") > 0);
        assert_int_equal(expect_same("b.db", known, "a.db", known), 2);
        expect_success(MEMTRACE("diff a.db b.db >differences && grep -q 'as much' differences"));
    }
}

/* On a device that computes, time passes before the first event of memory. */
static void a_run_that_took_time_comes_back_with_it(void **state)
{
    (void)state;
    expect_success(shell("rm -f a.db* b.db*; \"$M\" " TINY "--device cpu --steps 1 --trace a.db"
                         " && \"$M\" export --format pickle -o x.pickle --trace a.db"
                         " && \"$M\" import x.pickle --trace b.db"));
    assert_true(sql_integer("a.db", "SELECT min(time_ns) FROM event") > 1000);
    assert_true(expect_same("b.db", told, "a.db", told) > 100);
}

/* Whatever its state and its name; but a run that is going on is imported in part. */
static void a_run_comes_back_as_it_ended(void **state)
{
    (void)state;
    static const char *const ends[][2] = {
        {"failed", "failed"}, {"interrupted", "interrupted"}, {"running", "interrupted"}, {"strange", "done"}};
    expect_success(shell("rm -f a.db*; \"$M\" " TINY SIM "--steps 1 --trace a.db --name first"));
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char sql[100];
        snprintf(sql, sizeof sql, "UPDATE run SET state = '%s'", ends[i][0]);
        edit_trace("a.db", sql);
        expect_success(MEMTRACE("export --format torch -o x.json --trace a.db && rm -f b.db* && \"$M\" import x.json"
                                " --trace b.db"));
        assert_string_equal(sql_text("b.db", "SELECT state FROM run"), ends[i][1]);
    }
    expect_success(MEMTRACE("import x.json --trace b.db --name second"));
    assert_string_equal(sql_text("b.db", "SELECT group_concat(name) FROM run"), "first,second");
}

static void a_refused_request_comes_back(void **state)
{
    (void)state;
    expect_success(shell("rm -f a.db* b.db*; \"$M\" " TINY "--steps 2 --device sim:4MiB --batch 64 --trace a.db;"
                         " \"$M\" export --format pickle -o x.pickle --trace a.db"
                         " && \"$M\" import x.pickle --trace b.db && \"$M\" oom --trace b.db"));
    assert_true(expect_same("b.db", told, "a.db", told) > 10);
    assert_true(expect_same("b.db", known, "a.db", known) > 10);
}

/* Such a log has only requests, frees and streams. */
static void a_log_of_rmm_comes_back(void **state)
{
    (void)state;
    static const char log[] = "SELECT kind, requested_bytes, stream, time_ns / 1000 -"
                              " (SELECT time_ns / 1000 FROM event WHERE kind IN (2, 3, 4) ORDER BY id LIMIT 1)"
                              " FROM event WHERE kind IN (2, 3, 4) ORDER BY id";
    expect_success(shell("rm -f a.db* b.db*; \"$M\" " TINY SIM "--steps 2 --trace a.db && \"$M\" export --format rmm"
                         " -o x.csv.gz --trace a.db && \"$M\" import x.csv.gz --trace b.db"));
    assert_true(expect_same("b.db", log, "a.db", log) > 1000);
}

static void an_export_for_nsights_scripts_comes_back(void **state)
{
    (void)state;
    static const char blocks[] = "SELECT kind, block_bytes, event.stream, category, op, phase, time_ns FROM event"
                                 " LEFT JOIN label ON label.id = event.label WHERE kind IN (2, 3) ORDER BY event.id";
    expect_success(shell("rm -f a.db* b.db*; \"$M\" " TINY SIM "--steps 2 --trace a.db && \"$M\" export -o x.sqlite"
                         " --trace a.db && \"$M\" import x.sqlite --trace b.db"));
    assert_true(expect_same("b.db", blocks, "a.db", blocks) > 1000);
    static const char steps[] = "SELECT number FROM step ORDER BY 1";
    assert_int_equal(expect_same("b.db", steps, "a.db", steps), 2);
}

static int set_up(void **state)
{
    *state = enter_folder("test_import_back");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_comes_back_from_its_snapshot),
        cmocka_unit_test(a_program_of_several_streams_comes_back),
        cmocka_unit_test(a_run_that_took_time_comes_back_with_it),
        cmocka_unit_test(a_run_comes_back_as_it_ended),
        cmocka_unit_test(a_refused_request_comes_back),
        cmocka_unit_test(a_log_of_rmm_comes_back),
        cmocka_unit_test(an_export_for_nsights_scripts_comes_back),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
