/* Phases of a program and holders of its allocations: what a recorder is sent is what queries answer. */
#include "program.h"
#include "trace/query/holders.h"
#include "trace/store/recorder.h"

enum { ADDRESS = 1 << 20, MAPPED = 4096 };

static int set_up(void **state)
{
    *state = enter_folder("test_program_phases");
    return 0;
}

/* A recorder and the number of events that it has. */
struct recording {
    struct mt_recorder *recorder;
    uint64_t events;
};

static void emit(struct recording *recording, mt_event_kind kind, uint64_t offset, uint64_t bytes)
{
    const struct mt_sink *sink = mt_recorder_sink(recording->recorder);
    struct mt_event event = {.sequence = recording->events,
                             .time_ns = recording->events,
                             .block_bytes = bytes,
                             .offset = offset,
                             .kind = (uint16_t)kind};
    if (kind == MT_EVENT_SEGMENT_MAP)
        event.segment_address = ADDRESS;
    else
        event.requested_bytes = bytes;
    recording->events++;
    sink->emit(sink->context, &event);
}

static void hold(struct recording *recording, mt_addr address, const char *name, uint64_t held_bytes)
{
    mt_recorder_holder(recording->recorder, &(struct mt_holder){.address = address,
                                                                .kind = MT_HOLDER_GRAPH,
                                                                .name = name,
                                                                .owner = "validate",
                                                                .file = "val.py",
                                                                .line = 14,
                                                                .held_bytes = held_bytes,
                                                                .loop_file = "val.py",
                                                                .loop_line = 13});
}

/* Records blocks of 512 (load), 1,024 (train, freed) and 256 bytes (load again), and holders of the last. */
static void record(void)
{
    const struct mt_run_info info = {.name = "phases", .device = "sim:h200", .ring_records = 1024};
    struct recording recording = {0};
    assert_int_equal(mt_recorder_open("trace.db", &info, &recording.recorder), MT_OK);
    mt_recorder_program_phase(recording.recorder, MT_PROGRAM_PHASE_SAVE); /* without an event: not stored */
    mt_recorder_program_phase(recording.recorder, MT_PROGRAM_PHASE_LOAD);
    emit(&recording, MT_EVENT_SEGMENT_MAP, 0, MAPPED);
    emit(&recording, MT_EVENT_ALLOC, 0, 512);
    mt_recorder_program_phase(recording.recorder, MT_PROGRAM_PHASE_TRAIN);
    emit(&recording, MT_EVENT_ALLOC, 512, 1024);
    emit(&recording, MT_EVENT_FREE, 512, 1024);
    mt_recorder_program_phase(recording.recorder, MT_PROGRAM_PHASE_LOAD);
    emit(&recording, MT_EVENT_ALLOC, 1024, 256);
    hold(&recording, ADDRESS + 1024, "losses", 900);
    hold(&recording, ADDRESS + 1024, "losses", 1000);
    hold(&recording, ADDRESS + 512, "freed", 2000);
    hold(&recording, ADDRESS + MAPPED, "elsewhere", 2000);
    assert_int_equal(mt_recorder_close(recording.recorder, MT_RUN_DONE), MT_OK);
}

static void phases_have_the_peak_of_all_their_times(void **state)
{
    (void)state;
    struct mt_trace *trace;
    const struct mt_run *run;
    struct mt_program_phase_row *rows;
    size_t count;
    record();
    assert_int_equal(mt_trace_open("trace.db", &trace), MT_OK);
    assert_int_equal(mt_trace_find_run(trace, NULL, &run), MT_OK);
    assert_int_equal(mt_trace_program_phases(trace, run, &rows, &count), MT_OK);
    assert_int_equal(count, 2);
    assert_string_equal(rows[0].name, "load");
    assert_int_equal(rows[0].count, 2);
    assert_int_equal(rows[0].bytes, 512 + 256);
    assert_int_equal(rows[0].event, run->first_event + 4);
    assert_string_equal(rows[1].name, "train");
    assert_int_equal(rows[1].count, 1);
    assert_int_equal(rows[1].bytes, 512 + 1024);
    free(rows);
    mt_trace_close(trace);
}

static void holders_are_those_of_live_blocks_with_the_most_that_they_keep(void **state)
{
    (void)state;
    struct mt_trace *trace;
    const struct mt_run *run;
    struct mt_holder_row *rows;
    size_t count;
    record();
    assert_int_equal(mt_trace_open("trace.db", &trace), MT_OK);
    assert_int_equal(mt_trace_find_run(trace, NULL, &run), MT_OK);
    assert_int_equal(mt_trace_holders(trace, run, &rows, &count), MT_OK);
    assert_int_equal(count, 1);
    assert_string_equal(rows[0].kind, "graph");
    assert_string_equal(rows[0].name, "losses");
    assert_string_equal(rows[0].phase, "load");
    assert_int_equal(rows[0].held_bytes, 1000);
    assert_int_equal(rows[0].event, run->first_event + 4);
    assert_int_equal(rows[0].loop_line, 13);
    free(rows);
    mt_trace_close(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(phases_have_the_peak_of_all_their_times, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(holders_are_those_of_live_blocks_with_the_most_that_they_keep, set_up,
                                        leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
