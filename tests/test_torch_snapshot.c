/* PyTorch's snapshots: two measured ones against PyTorch's own figures, small ones event by event, and files that
 * are none. */
#include "plain_values.h"

#include "producers/file/document.h"
#include "producers/file/json_reader.h"
#include "producers/file/torch_replay.h"
#include "seed.h"
#include "trace/query/trace.h"
#include "trace_path.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Gives all blocks one label, and counts requests. */
struct reading {
    mt_label_id label;
    uint64_t requests, before, frames, moments;
};

static void give_label(void *context, const struct mt_torch_request *request, mt_label_id *out_label,
                       mt_span_id *out_span)
{
    struct reading *reading = context;
    reading->requests++;
    reading->before += request->event == NULL;
    reading->frames += mt_value_count(request->frames);
    *out_label = reading->label;
    *out_span = 0;
}

static void note_moment(void *context, const struct mt_torch_event *event, uint64_t time_ns)
{
    (void)event;
    (void)time_ns;
    ((struct reading *)context)->moments++;
}

/* Replays a snapshot, and returns the counts. */
static struct reading replay_to(const struct mt_sink *sink, const struct mt_torch_snapshot *snapshot,
                                struct mt_torch_tally *tally, struct mt_foreign_counts *counts)
{
    const struct mt_label label = {.category = MT_CATEGORY_DATA, .op = "alloc", .layer = -1};
    struct reading reading = {.label = sink->intern_label(sink->context, &label)};
    const struct mt_torch_labeler reader = {.context = &reading,
                                            .start_us = snapshot->event_count > 0 ? snapshot->events[0].time_us : 0,
                                            .moment = note_moment,
                                            .label = give_label};
    struct mt_foreign *foreign = mt_foreign_create(sink);
    mt_torch_replay(snapshot, &reader, foreign, tally);
    *counts = mt_foreign_counts(foreign);
    mt_foreign_destroy(foreign);
    return reading;
}

/* The same, into a trace. */
static struct reading replay(const struct mt_torch_snapshot *snapshot, struct mt_torch_tally *tally,
                             struct mt_foreign_counts *counts)
{
    struct mt_recorder *recorder = fixture_open(path, 0);
    struct reading reading = replay_to(mt_recorder_sink(recorder), snapshot, tally, counts);
    fixture_close(recorder, MT_RUN_DONE);
    return reading;
}

/* Sums all counts of contradictions. */
static uint64_t contradictions(const struct mt_foreign_counts *counts)
{
    return counts->unseen_gives + counts->lost_gives + counts->unmapped_gives + counts->lost_unmaps +
           counts->unseen_unmaps + counts->straddles + counts->owned_segments + counts->refused + counts->times_back;
}

static int64_t peak_of(const char *measure)
{
    char sql[200];
    snprintf(sql, sizeof sql, "SELECT bytes FROM summary_peak WHERE step = -2 AND measure = '%s'", measure);
    return sql_integer(path, sql);
}

/* PyTorch's own figures, and the sum over its events. */
static const struct measured {
    const char *name;
    uint64_t events, allocs, frees, segments;
    int64_t requested, allocated, reserved;
} measured[] = {
    {"fp32", 105479, 35374, 34501, 1103, 68028792960, 68167778304, 71032635392},
    {"autocast", 127214, 42598, 41725, 1166, 69851035712, 70012041216, 71525466112},
};

static void check_measured(const struct measured *expected)
{
    char file[4096];
    struct mt_document *document;
    struct mt_torch_snapshot snapshot;
    struct mt_torch_tally tally;
    struct mt_foreign_counts counts;
    snprintf(file, sizeof file, MT_TEST_DATA "/import/pytorch_h200_2.7B_seq256_%s.pickle.gz", expected->name);
    assert_int_equal(mt_document_open(file, &document), MT_OK);
    assert_int_equal(mt_torch_snapshot_read(mt_document_root(document), MT_IMPORT_ANY_DEVICE, &snapshot), MT_OK);
    assert_int_equal(snapshot.event_count, expected->events);
    struct reading reading = replay(&snapshot, &tally, &counts);
    assert_int_equal(reading.moments, expected->events);
    assert_int_equal(reading.requests, expected->allocs + tally.before.blocks);
    assert_int_equal(tally.events[MT_TORCH_ALLOC], expected->allocs);
    assert_int_equal(tally.events[MT_TORCH_FREE_REQUESTED], expected->frees);
    assert_int_equal(tally.events[MT_TORCH_FREE_COMPLETED], expected->frees);
    assert_int_equal(tally.events[MT_TORCH_SEGMENT_ALLOC], expected->segments);
    assert_int_equal(tally.before.blocks, 325);
    assert_int_equal(tally.before.freed, 0);
    assert_int_equal(contradictions(&counts), 0);
    assert_int_equal(peak_of("requested"), expected->requested);
    assert_int_equal(peak_of("allocated"), expected->allocated);
    assert_int_equal(peak_of("reserved"), expected->reserved);
    mt_torch_snapshot_release(&snapshot);
    mt_document_close(document);
    fixture_remove(path);
    fixture_path(path);
}

static void peaks_are_those_that_pytorch_measured(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++)
        check_measured(&measured[i]);
}

/* Reads a snapshot in JSON. The caller destroys the store. */
static mt_status read_json(const char *json, int64_t device, struct mt_value_store **store,
                           struct mt_torch_snapshot *out)
{
    const struct mt_value_limits limits = mt_value_limits_of(strlen(json), UINT64_MAX);
    struct mt_value root;
    *store = mt_value_store_create(&limits);
    if (mt_json_read((const unsigned char *)json, strlen(json), *store, &root) != MT_OK)
        fail_msg("%s", mt_last_error());
    return mt_torch_snapshot_read(&root, device, out);
}

/* Replays a snapshot in JSON, and returns its events as "kind segment+offset:block/requested". */
static const char *events_of(const char *json, struct mt_torch_tally *tally, struct mt_foreign_counts *counts)
{
    struct mt_value_store *store;
    struct mt_torch_snapshot snapshot;
    if (read_json(json, MT_IMPORT_ANY_DEVICE, &store, &snapshot) != MT_OK)
        fail_msg("%s", mt_last_error());
    replay(&snapshot, tally, counts);
    mt_torch_snapshot_release(&snapshot);
    mt_value_store_destroy(store);
    return sql_text(path, "SELECT group_concat(k.name || ' ' || coalesce(e.segment, a.segment, '') || '+' ||"
                          " coalesce(e.offset, a.offset, '') || ':' || coalesce(e.block_bytes, '') || '/' ||"
                          " coalesce(e.requested_bytes, ''), ', ') FROM event e JOIN event_kind k ON k.id = e.kind"
                          " LEFT JOIN event a ON a.id = e.allocation");
}

/* A snapshot, and its expected events. */
struct told {
    const char *snapshot, *events;
};

static void expect_told(const struct told *all, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct mt_torch_tally tally;
        struct mt_foreign_counts counts;
        assert_string_equal(events_of(all[i].snapshot, &tally, &counts), all[i].events);
        fixture_remove(path);
        fixture_path(path);
    }
}

/* The recording began late: one block was live and stays, another was live and is freed, with its segment. */
static void what_was_there_before_is_told_first(void **state)
{
    (void)state;
    struct mt_torch_tally tally;
    struct mt_foreign_counts counts;
    assert_string_equal(
        events_of("{\"segments\":[{\"device\":0,\"address\":2097152,\"total_size\":2097152,\"stream\":0,\"blocks\":"
                  "[{\"address\":2097152,\"size\":1024,\"requested_size\":700,\"state\":\"active_allocated\"},"
                  "{\"address\":2098176,\"size\":2096128,\"requested_size\":0,\"state\":\"inactive\"}]}],"
                  "\"device_traces\":[["
                  "{\"action\":\"free_requested\",\"addr\":8388608,\"size\":5000,\"stream\":0,\"time_us\":100},"
                  "{\"action\":\"free_completed\",\"addr\":8388608,\"size\":5000,\"stream\":0,\"time_us\":101},"
                  "{\"action\":\"segment_free\",\"addr\":8388608,\"size\":2097152,\"stream\":0,\"time_us\":102},"
                  "{\"action\":\"something_new\",\"time_us\":103}]]}",
                  &tally, &counts),
        "segment_map 0+0:2097152/, segment_map 1+0:2097152/, alloc 0+0:1024/700, alloc 1+0:5120/5000,"
        " free 1+0:5120/5000, segment_unmap 1+0:2097152/");
    assert_int_equal(tally.before.blocks, 2);
    assert_int_equal(tally.before.requested_bytes, 5700);
    assert_int_equal(tally.before.freed, 1);
    assert_int_equal(tally.before.segments, 2);
    assert_int_equal(tally.before.reserved_bytes, 4 << 20);
    assert_int_equal(tally.events[MT_TORCH_OTHER], 1);
    assert_int_equal(contradictions(&counts), 0);
    assert_int_equal(sql_integer(path, "SELECT max(time_ns) FROM event"), 2000);
}

/* Nothing was recorded: all blocks are from before, on the stream of their segment. */
static void a_snapshot_without_events_is_what_there_is(void **state)
{
    (void)state;
    struct mt_torch_tally tally;
    struct mt_foreign_counts counts;
    assert_string_equal(
        events_of("{\"segments\":[{\"device\":0,\"address\":2097152,\"total_size\":2097152,\"stream\":77,\"blocks\":"
                  "[{\"size\":1024,\"requested_size\":700,\"state\":\"active_allocated\"},"
                  "{\"size\":2096128,\"state\":\"inactive\"}]},"
                  "{\"device\":0,\"address\":8388608,\"total_size\":2097152,\"stream\":0,\"blocks\":[]}],"
                  "\"device_traces\":[[]]}",
                  &tally, &counts),
        "segment_map 0+0:2097152/, segment_map 1+0:2097152/, alloc 0+0:1024/700");
    assert_int_equal(tally.before.segments, 2);
    assert_int_equal(tally.before.reserved_bytes, 4 << 20);
    assert_int_equal(contradictions(&counts), 0);
    assert_string_equal(sql_text(path, "SELECT group_concat(stream) FROM event"), "1,0,1");
}

#define ALLOC(address, size) "{\"action\":\"alloc\",\"addr\":" #address ",\"size\":" #size ",\"stream\":0}"
#define FREE(address, size) "{\"action\":\"free_completed\",\"addr\":" #address ",\"size\":" #size ",\"stream\":0}"
#define SEGMENT(action, address, size)                                                                                 \
    "{\"action\":\"segment_" #action "\",\"addr\":" #address ",\"size\":" #size ",\"stream\":0}"

/* A remainder that is too small to be split off stays: up to 1 MiB of a large block, less than 512 bytes of a small
 * one. */
static void remainders_belong_to_their_block(void **state)
{
    (void)state;
    struct mt_torch_tally tally;
    struct mt_foreign_counts counts;
    assert_string_equal(
        events_of(
            "{\"segments\":[],\"device_traces\":[[" SEGMENT(alloc, 20971520, 20971520) "," ALLOC(
                20971520, 10485760) "," ALLOC(31457280,
                                              9437000) "," FREE(20971520,
                                                                10485760) "," ALLOC(20971520,
                                                                                    9437184) "," ALLOC(30408704,
                                                                                                       1000) "]]}",
            &tally, &counts),
        "segment_map 0+0:20971520/, alloc 0+0:10485760/10485760, alloc 0+10485760:10485760/9437000,"
        " free 0+0:10485760/10485760, alloc 0+0:10485760/9437184, free 0+0:10485760/9437184,"
        " alloc 0+9437184:1024/1000");
    assert_int_equal(counts.lost_gives, 1); /* the last one contradicts the rule */
}

#define SPLIT_FROM_32_MIB "\"allocator_settings\":{\"max_split_size\":33554432},"
#define IN_QUARTERS "\"allocator_settings\":{\"max_split_size\":-1,\"roundup_power2_divisions\":{\"1\":4,\"16\":2}},"
#define IN_SEGMENT(members, size)                                                                                      \
    "{" members                                                                                                        \
    "\"segments\":[],\"device_traces\":[[" SEGMENT(alloc, 67108864, 67108864) "," ALLOC(67108864, size) "]]}"
#define BLOCK(size, requested) "segment_map 0+0:67108864/, alloc 0+0:" #size "/" #requested

/* The sizes of blocks follow from the settings of PyTorch's allocator: beyond a size they are not split if little is
 * left, and sizes are rounded up to so many steps between powers of two. */
static void settings_say_what_a_block_has(void **state)
{
    (void)state;
    static const struct told all[] = {
        {IN_SEGMENT("", 50331648), BLOCK(50331648, 50331648)},
        {IN_SEGMENT(SPLIT_FROM_32_MIB, 50331648), BLOCK(67108864, 50331648)},
        {IN_SEGMENT(SPLIT_FROM_32_MIB, 41943040), BLOCK(41943040, 41943040)}, /* the piece was none of its own */
        {IN_SEGMENT(SPLIT_FROM_32_MIB, 16777216), BLOCK(16777216, 16777216)},
        {IN_SEGMENT(IN_QUARTERS, 1400000), BLOCK(1572864, 1400000)},
        {IN_SEGMENT(IN_QUARTERS, 1572864), BLOCK(1572864, 1572864)},
        {IN_SEGMENT(IN_QUARTERS, 5000000), BLOCK(5000192, 5000000)}, /* no divisions are set from 4 MiB on */
        {IN_SEGMENT(IN_QUARTERS, 17000000), BLOCK(25165824, 17000000)},
        {IN_SEGMENT(IN_QUARTERS, 70000), BLOCK(81920, 70000)}, /* as from 1 MiB on */
        {IN_SEGMENT(IN_QUARTERS, 1500), BLOCK(1536, 1500)}};   /* steps would be under 512 bytes */
    expect_told(all, sizeof all / sizeof all[0]);
}

/* An expandable segment is mapped and unmapped in parts, and stays one segment. */
static void an_expandable_segment_is_one(void **state)
{
    (void)state;
    struct mt_torch_tally tally;
    struct mt_foreign_counts counts;
    assert_string_equal(
        events_of(
            "{\"segments\":[],\"device_traces\":[[" SEGMENT(map, 2097152, 2097152) "," ALLOC(
                2097152, 2097152) "," SEGMENT(map, 4194304,
                                              2097152) "," ALLOC(4194304,
                                                                 1048576) "," FREE(2097152,
                                                                                   2097152) "," SEGMENT(unmap, 2097152,
                                                                                                        2097152) "]]}",
            &tally, &counts),
        "segment_map 0+0:2097152/, alloc 0+0:2097152/2097152, segment_map 0+2097152:2097152/,"
        " alloc 0+2097152:1048576/1048576, free 0+0:2097152/2097152, segment_unmap 0+0:2097152/");
    assert_int_equal(contradictions(&counts), 0);
}

#define EXPANDABLE(address, size)                                                                                      \
    "{\"segments\":[{\"address\":" #address ",\"total_size\":" #size ",\"is_expandable\":true,\"blocks\":[]}],"

/* The same where only a part of it is recorded, and the rest is from before. */
static void parts_of_before_are_of_the_same_segment(void **state)
{
    (void)state;
    static const struct told all[] = {
        {EXPANDABLE(2097152, 4194304) "\"device_traces\":[[" SEGMENT(map, 4194304, 2097152) "]]}",
         "segment_map 0+0:2097152/, segment_map 0+2097152:2097152/"},
        {EXPANDABLE(2097152, 2097152) "\"device_traces\":[[" SEGMENT(unmap, 4194304, 2097152) "]]}",
         "segment_map 0+0:2097152/, segment_map 0+2097152:2097152/, segment_unmap 0+2097152:2097152/"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct mt_torch_tally tally;
        struct mt_foreign_counts counts;
        assert_string_equal(events_of(all[i].snapshot, &tally, &counts), all[i].events);
        assert_int_equal(contradictions(&counts), 0);
        fixture_remove(path);
        fixture_path(path);
    }
}

/* Impossible sizes are not believed: a block has at least the requested bytes, rounded, whatever the file has or
 * lies behind it. */
static void a_block_has_what_was_asked_for(void **state)
{
    (void)state;
    static const struct told all[] = {
        {"{\"segments\":[],\"device_traces\":[[{\"action\":\"alloc\",\"addr\":512,\"size\":1000,\"block_bytes\":5}]]}",
         "segment_map 0+0:1024/, alloc 0+0:1024/1000"},
        {"{" SPLIT_FROM_32_MIB "\"segments\":[],\"device_traces\":[[" SEGMENT(alloc, 67108864, 67108864) "," ALLOC(
             75497472, 512) "," ALLOC(67108864, 41943040) "]]}",
         "segment_map 0+0:67108864/, alloc 0+8388608:512/512, free 0+8388608:512/512,"
         " alloc 0+0:41943040/41943040"}};
    expect_told(all, sizeof all / sizeof all[0]);
}

static void a_refused_request_is_told(void **state)
{
    (void)state;
    struct mt_torch_tally tally;
    struct mt_foreign_counts counts;
    assert_string_equal(events_of("{\"segments\":[],\"device_traces\":[[{\"action\":\"oom\",\"device_free\":5,"
                                  "\"size\":123456,\"stream\":0,\"time_us\":1}]]}",
                                  &tally, &counts),
                        "oom +:/123456");
    assert_int_equal(tally.events[MT_TORCH_OOM], 1);
}

static void the_device_is_the_one_that_was_asked_for(void **state)
{
    (void)state;
    static const char two[] =
        "{\"segments\":[{\"device\":1,\"address\":0,\"total_size\":512,\"blocks\":[]}],"
        "\"device_traces\":[[],[" ALLOC(
            512, 1) "]],"
                    "\"external_annotations\":[{\"stage\":\"END\",\"name\":\"step\",\"device\":1,"
                    "\"time_us\":7},{\"stage\":\"START\",\"name\":\"other\",\"device\":0,\"time_us\":8}]}";
    for (int64_t device = -1; device <= 2; device++) {
        struct mt_value_store *store;
        struct mt_torch_snapshot snapshot;
        mt_status status = read_json(two, device, &store, &snapshot);
        assert_int_equal(status, device == 2 ? MT_USAGE : MT_OK);
        size_t is_second = device == 1 || device == MT_IMPORT_ANY_DEVICE;
        assert_int_equal(snapshot.event_count, is_second);
        assert_int_equal(snapshot.segment_count, is_second);
        assert_int_equal(snapshot.annotation_count, device < 2);
        if (is_second == 1) {
            assert_string_equal(snapshot.annotations[0].name, "step");
            assert_true(snapshot.annotations[0].is_end);
        }
        mt_torch_snapshot_release(&snapshot);
        mt_value_store_destroy(store);
    }
}

/* Checks that a snapshot without events is of the device with the most memory. */
static void without_events_the_device_is_the_one_with_most_memory(void **state)
{
    (void)state;
    static const char *const all[] = {
        "{\"segments\":[],\"device_traces\":[]}",
        "{\"segments\":[{\"device\":1,\"address\":0,\"total_size\":512},{\"device\":2,\"address\":0,\"total_size\":512}"
        ","
        "{\"device\":0,\"address\":0,\"total_size\":1000},{\"device\":1,\"address\":512,\"total_size\":512},"
        "{\"device\":7,\"address\":512,\"total_size\":5120}],\"device_traces\":[[],[],[]]}"};
    for (int i = 0; i < 2; i++) {
        struct mt_value_store *store;
        struct mt_torch_snapshot snapshot;
        assert_int_equal(read_json(all[i], MT_IMPORT_ANY_DEVICE, &store, &snapshot), MT_OK);
        assert_int_equal(snapshot.device, i);
        assert_int_equal(snapshot.segment_count, 2 * i);
        mt_torch_snapshot_release(&snapshot);
        mt_value_store_destroy(store);
    }
}

static void what_is_no_snapshot_is_refused(void **state)
{
    (void)state;
    static const char *const none[] = {
        "[]",
        "{}",
        "{\"segments\":[],\"device_traces\":{}}",
        "{\"segments\":[],\"device_traces\":[[1]]}",
        "{\"segments\":[],\"device_traces\":[[{\"action\":7}]]}",
        "{\"segments\":[],\"device_traces\":[[{\"action\":\"alloc\",\"size\":1}]]}",
        "{\"segments\":[],\"device_traces\":[[{\"action\":\"alloc\",\"addr\":1,\"size\":-1}]]}",
        "{\"segments\":[],\"device_traces\":[[{\"action\":\"alloc\",\"addr\":1.5,\"size\":1}]]}",
        "{\"segments\":[],\"device_traces\":[[{\"action\":\"alloc\",\"addr\":5,\"size\":9223372036854775807}]]}",
        "{\"segments\":[1],\"device_traces\":[[]]}",
        "{\"segments\":[{\"address\":0}],\"device_traces\":[[]]}",
        "{\"segments\":[{\"address\":0,\"total_size\":5,\"blocks\":[{}]}],\"device_traces\":[[]]}",
    };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        struct mt_value_store *store;
        struct mt_torch_snapshot snapshot;
        if (read_json(none[i], MT_IMPORT_ANY_DEVICE, &store, &snapshot) != MT_BAD_TRACE)
            fail_msg("accepted: %s", none[i]);
        mt_torch_snapshot_release(&snapshot);
        mt_value_store_destroy(store);
    }
}

/* Events in any order, at places that overlap: nothing of them is true, and all are counted. */
static void whatever_happened_is_accounted_for(void **state)
{
    (void)state;
    enum { EVENTS = 400, PLACES = 40, ROUNDS = 60 };
    static const uint64_t sizes[] = {0, 1, 512, 700, 4096, 1 << 20, 2 << 20, MT_IMPORT_MOST_BYTES};
    uint64_t random = take_seed();
    for (int round = 0; round < ROUNDS; round++) {
        struct mt_torch_event events[EVENTS] = {0};
        struct mt_torch_block blocks[10] = {0};
        struct mt_torch_segment segments[10] = {0};
        for (size_t i = 0; i < EVENTS; i++) {
            static const struct mt_value nobody;
            random = mt_splitmix64(random);
            events[i] = (struct mt_torch_event){.action = (uint8_t)(random % MT_TORCH_ACTION_COUNT),
                                                .address = (random >> 8) % PLACES << 12,
                                                .bytes = sizes[(random >> 20) % 8],
                                                .stream = (random >> 30) % 3,
                                                .time_us = (int64_t)((random >> 40) % 1000),
                                                .frames = &nobody};
            if (i >= 10)
                continue;
            blocks[i] = (struct mt_torch_block){
                .address = events[i].address + 512 * i, .bytes = events[i].bytes, .frames = &nobody};
            segments[i] = (struct mt_torch_segment){
                .address = events[i].address, .bytes = events[i].bytes, .is_expandable = random >> 63};
        }
        const struct mt_torch_snapshot snapshot = {.events = events,
                                                   .event_count = EVENTS,
                                                   .blocks = blocks,
                                                   .block_count = 10,
                                                   .segments = segments,
                                                   .segment_count = 10};
        struct mt_torch_tally tally;
        struct mt_foreign_counts counts;
        uint64_t sum = 0;
        struct mt_interner *interner = mt_interner_create();
        const struct mt_sink sink = mt_sink_discarding(interner);
        struct reading reading = replay_to(&sink, &snapshot, &tally, &counts);
        for (int action = 0; action < MT_TORCH_ACTION_COUNT; action++)
            sum += tally.events[action];
        assert_int_equal(sum, EVENTS);
        assert_int_equal(reading.before, tally.before.blocks);
        assert_int_equal(reading.requests,
                         tally.before.blocks + tally.events[MT_TORCH_ALLOC] + tally.events[MT_TORCH_OOM]);
        mt_interner_destroy(interner);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(peaks_are_those_that_pytorch_measured, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_there_before_is_told_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_snapshot_without_events_is_what_there_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(remainders_belong_to_their_block, set_up, tear_down),
        cmocka_unit_test_setup_teardown(settings_say_what_a_block_has, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_expandable_segment_is_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(parts_of_before_are_of_the_same_segment, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_block_has_what_was_asked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_refused_request_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_device_is_the_one_that_was_asked_for, set_up, tear_down),
        cmocka_unit_test(without_events_the_device_is_the_one_with_most_memory),
        cmocka_unit_test(whatever_happened_is_accounted_for),
        cmocka_unit_test_setup_teardown(what_is_no_snapshot_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
