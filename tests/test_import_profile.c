/* memtrace import of traces of torch.profiler: memory, what was running, steps and modules. */
#include "program.h"
#include "same_rows.h"

#define ALLOCATED_PEAK "SELECT bytes FROM summary_peak WHERE measure = 'allocated' AND step = -2"
#define CPU_FILE "profile_cpu.pt.trace.json.gz"
#define CPU_TRACE "\"$D\"/import/" CPU_FILE

static int set_up(void **state)
{
    *state = enter_folder("test_import_profile");
    expect_success(MEMTRACE("import " CPU_TRACE " --trace cpu.db"));
    return 0;
}

/* Imports a trace that has these events. */
static const struct said *import_events(const char *events, const char *options)
{
    return shell(
        "rm -f x.db*; printf '%%s' '{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 1, \"totalGlobalMem\":"
        " 17179869184}], \"traceEvents\": [%s]}' >x.json && \"$M\" import x.json --trace x.db %s",
        events, options);
}

#define MEMORY(us, device, address, bytes, total)                                                                      \
    "{\"ph\": \"i\", \"name\": \"[memory]\", \"tid\": 1, \"ts\": " #us ", \"args\": {\"Device Type\": 1,"              \
    " \"Device Id\": " #device ", \"Addr\": " #address ", \"Bytes\": " #bytes ", \"Total Allocated\": " #total "}}"
#define CALL(category, name, us, duration)                                                                             \
    "{\"ph\": \"X\", \"cat\": \"" category "\", \"name\": \"" name "\", \"tid\": 1, \"ts\": " #us                      \
    ", \"dur\": " #duration ", \"args\": {\"Sequence number\": 1}}"

/* PyTorch counts what is allocated in each event. The CPU's memory is rounded to nothing. */
static void the_peak_is_that_of_pytorchs_total(void **state)
{
    (void)state;
    const struct said *said = shell("python3 -c \"import gzip, json\nprint(max(e['args']['Total Allocated'] for e in"
                                    " json.load(gzip.open('%s'))['traceEvents'] if e['name'] == '[memory]'))\"",
                                    MT_TEST_DATA "/import/" CPU_FILE);
    assert_true(strtoll(said->out, NULL, 10) > 0);
    assert_int_equal(sql_integer("cpu.db", ALLOCATED_PEAK), strtoll(said->out, NULL, 10));
}

/* SGD keeps a momentum as large as each parameter, and backward makes a gradient of that size. */
static void roles_follow_from_what_blocks_do(void **state)
{
    (void)state;
    static const json_int_t parameters = (64 * 2 + 256 * 65 + 10 * 257) * 4;
    json_t *said = json_of(MEMTRACE("peak --trace cpu.db --by role --json")), *row;
    json_int_t gradients = 0, states = 0;
    size_t i;
    json_array_foreach(json_object_get(said, "rows"), i, row)
    {
        gradients += strcmp(text_of(row, "role"), "gradient") == 0 ? integer_of(row, "requested_bytes") : 0;
        states += strcmp(text_of(row, "role"), "optimizer state") == 0 ? integer_of(row, "requested_bytes") : 0;
    }
    json_decref(said);
    assert_in_range(states, parameters, parameters + parameters / 100);
    assert_in_range(gradients, parameters - parameters / 50, parameters + parameters / 50);
}

static void calls_of_modules_are_spans(void **state)
{
    (void)state;
    static const char up[] =
        "SELECT count(*) FROM event JOIN label ON label.id = label JOIN span ON span.id = label.span"
        " WHERE kind = 2 AND requested_bytes = 32768 AND phase = 'forward'"
        " AND path = 'Model_0.Block_0.Linear_0' AND op = 'addmm'";
    assert_int_equal(sql_integer("cpu.db", "SELECT count(*) FROM step"), 2);
    assert_int_equal(sql_integer("cpu.db", up), 2);
}

/* The first total tells of memory that no event has. Its purpose is not known. */
static void memory_from_before_the_trace_is_in_the_peak(void **state)
{
    (void)state;
    expect_success(import_events(MEMORY(10, 1, 4096, 512, 10512) "," MEMORY(20, 1, 8192, -2000, 8512), ""));
    assert_int_equal(sql_integer("x.db", ALLOCATED_PEAK), 10512);
    assert_int_equal(sql_integer("x.db",
                                 "SELECT sum(requested_bytes) FROM event JOIN label ON label.id = label WHERE kind = 2"
                                 " AND role = 'other' AND requested_bytes = 8000"),
                     8000);
    assert_int_equal(sql_integer("x.db", "SELECT capacity_bytes FROM run"), INT64_C(16) << 30);
}

/* Without Python's calls, operators and annotations tell phases; events need not be in order. */
static void operators_tell_phases(void **state)
{
    (void)state;
    expect_success(import_events(
        MEMORY(95, 1, 12288, 3, 6) "," CALL("cpu_op", "aten::mm", 10, 10) "," MEMORY(15, 1, 4096, 1, 1) "," CALL(
            "cpu_op", "autograd::engine::evaluate_function: MmBackward0", 40,
            20) "," CALL("cpu_op", "MmBackward0", 41,
                         18) "," MEMORY(50, 1, 8192, 2, 3) "," CALL("user_annotation", "Optimizer.step#SGD.step", 90,
                                                                    10),
        ""));
    assert_string_equal(
        sql_text("x.db", "SELECT group_concat(requested_bytes || ' ' || phase || ' ' || op) FROM"
                         " (SELECT * FROM event JOIN label ON label.id = label WHERE kind = 2 ORDER BY time_ns)"),
        "1 forward mm,2 backward MmBackward0,3 optimizer state");
}

static void the_busiest_gpu_is_imported(void **state)
{
    (void)state;
    static const char events[] =
        MEMORY(1, 0, 4096, 512, 512) "," MEMORY(2, 1, 4096, 1024, 1024) "," MEMORY(3, 1, 8192, 1024, 2048);
    assert_says(import_events(events, "")->out, "That is device 1 alone: 1 more event");
    expect_success(import_events(events, "--device 0"));
    assert_int_equal(sql_integer("x.db", ALLOCATED_PEAK), 512);
    assert_says(import_events(events, "--device 2")->err, "has no event of memory of device 2");
}

#define RESERVED(us, address, bytes, total, reserved)                                                                  \
    "{\"ph\": \"i\", \"name\": \"[memory]\", \"tid\": 1, \"ts\": " #us ", \"args\": {\"Device Type\": 1,"              \
    " \"Device Id\": 0, \"Addr\": " #address ", \"Bytes\": " #bytes ", \"Total Allocated\": " #total                   \
    ", \"Total Reserved\": " #reserved "}}"

/* What is cached is taken by a block, grows by a free, and goes back to the device at the end. */
static void reserved_memory_is_pytorchs_total(void **state)
{
    (void)state;
    expect_success(import_events(RESERVED(1, 4096, 512, 512, 2048) "," RESERVED(2, 8192, 1024, 1536, 2048) "," RESERVED(
                                     3, 12288, 2048, 3584, 4096) "," RESERVED(4, 8192, -1024, 2560, 2560),
                                 "--json >x.out"));
    assert_int_equal(sql_integer("x.db", "SELECT bytes FROM summary_peak WHERE measure = 'reserved' AND step = -2"),
                     4096);
    assert_int_equal(sql_integer("x.db", ALLOCATED_PEAK), 3584);
    assert_int_equal(sql_integer("x.db", "SELECT sum(bytes) FROM segment_part WHERE unmapped_event IS NULL"), 2560);
    assert_int_equal(sql_integer("x.db", "SELECT sum(block_bytes * (CASE kind WHEN 0 THEN 1 WHEN 1 THEN -1 ELSE 0 END))"
                                         " FROM event WHERE time_ns <= 1000"),
                     2048);
    json_t *said = json_of(shell("cat x.out"));
    assert_int_equal(integer_of(said, "events"), 4);
    json_decref(said);
}

static void the_cpus_memory_is_imported_on_request(void **state)
{
    (void)state;
    static const char events[] =
        MEMORY(1, 0, 4096, 512, 512) ",{\"ph\": \"i\", \"name\": \"[memory]\", \"tid\": 1, \"ts\": 2, \"args\":"
                                     " {\"Device Type\": 0, \"Device Id\": -1, \"Addr\": 64, \"Bytes\": 7,"
                                     " \"Total Allocated\": 7}}";
    expect_success(import_events(events, "--device cpu"));
    assert_int_equal(sql_integer("x.db", ALLOCATED_PEAK), 7);
    assert_says(import_events(MEMORY(1, 0, 4096, 512, 512), "--device cpu")->err, "no event of the CPU's memory");
    const struct said *said = shell("\"$M\" import \"$D\"/import/program_oom_gpt2.pickle.gz --device cpu --trace x.db");
    assert_int_equal(said->code, MT_USAGE);
    assert_says(said->err, "a snapshot does not describe the CPU's memory");
    assert_int_equal(shell("\"$M\" import x.json --device gpu --trace x.db")->code, MT_USAGE);
}

static void a_refused_request_ends_the_run(void **state)
{
    (void)state;
    expect_success(
        import_events(MEMORY(1, 0, 4096, 512, 512) ",{\"ph\": \"i\", \"name\": \"[OutOfMemory]\", \"tid\": 1,"
                                                   " \"ts\": 2, \"args\": {\"Device Type\": 1, \"Device Id\": 0,"
                                                   " \"Bytes\": 1073741824, \"Total Allocated\": 512}}",
                      ""));
    assert_string_equal(sql_text("x.db", "SELECT state FROM run"), "oom");
    assert_int_equal(sql_integer("x.db", "SELECT max(requested_bytes) FROM event"), 1 << 30);
    assert_int_equal(sql_integer("x.db", ALLOCATED_PEAK), 512);
}

#define SUM(us, type, bytes, total)                                                                                    \
    "{\"ph\": \"i\", \"s\": \"t\", \"name\": \"[memory]\", \"pid\": 7, \"tid\": 1, \"ts\": " #us                       \
    ", \"args\": {\"Device Type\": " #type ", \"Device Id\": 0, \"Bytes\": " #bytes total "}}"

/* PyTorch 1.8 to 1.9 wrote Device Type, Device Id and Bytes alone (torch/csrc/autograd/profiler_kineto.cpp). */
static void a_trace_without_addresses_becomes_sums_over_time(void **state)
{
    (void)state;
    static const char events[] = SUM(1, 1, 512, "") "," SUM(2, 1, 1024, "") "," SUM(3, 1, 512, "") "," SUM(
        4, 1, -1024, "") "," SUM(5, 1, -512, "") "," SUM(6, 1, -4096, "") "," SUM(7, 1, 2048, "");
    const struct said *said = import_events(events, "");
    expect_success(said);
    assert_says(said->out, "The file has no addresses");
    assert_says(said->out, "The file has no totals");
    assert_int_equal(sql_integer("x.db", ALLOCATED_PEAK), 4096 + 512 + 1024 + 512);
    assert_string_equal(sql_text("x.db", "SELECT group_concat(live, ' ') FROM (SELECT sum(CASE kind WHEN 2 THEN"
                                         " block_bytes ELSE -block_bytes END) OVER (ORDER BY id) AS live FROM event"
                                         " WHERE kind IN (2, 3))"),
                        "4096 4608 5632 6144 5120 4608 512 2560");
    json_t *json = json_of(import_events(events, "--json"));
    assert_true(json_is_true(json_object_get(json, "paired")));
    assert_true(json_is_true(json_object_get(json, "relative")));
    json_decref(json);
}

/* Later versions have totals, too. XPU is one of the kinds of GPUs. */
static void totals_show_memory_from_before_a_trace_without_addresses(void **state)
{
    (void)state;
    const struct said *said = import_events(
        SUM(1, 12, 512, ", \"Total Allocated\": 10512") "," SUM(2, 12, -512, ", \"Total Allocated\": 10000"), "");
    expect_success(said);
    assert_null(strstr(said->out, "no totals"));
    assert_int_equal(sql_integer("x.db", ALLOCATED_PEAK), 10512);
}

static void a_trace_that_cannot_be_read_is_told_why(void **state)
{
    (void)state;
    static const char *const traces[][2] = {
        {CALL("cpu_op", "aten::mm", 10, 10), "profile_memory=True"},
        {MEMORY(1, 0, -5, 512, 512), "event 0, of memory, has no \"Addr\""},
        {MEMORY(1, 0, 4096, true, 512), "event 0, of memory, has no \"Bytes\""},
        {MEMORY("now", 0, 4096, 512, 512), "event 0, of memory, has no \"ts\""},
        {MEMORY(1, 0, 4096, 512, 512) "," SUM(2, 1, 512, ""), "event 1, of memory, has no \"Addr\""},
        {MEMORY(1, 0, 4096, 999999999999999999, 512), "event 0"}};
    for (size_t i = 0; i < sizeof traces / sizeof traces[0]; i++) {
        const struct said *said = import_events(traces[i][0], "");
        assert_int_equal(said->code, MT_BAD_TRACE);
        assert_says(said->err, traces[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_peak_is_that_of_pytorchs_total),
        cmocka_unit_test(roles_follow_from_what_blocks_do),
        cmocka_unit_test(calls_of_modules_are_spans),
        cmocka_unit_test(memory_from_before_the_trace_is_in_the_peak),
        cmocka_unit_test(operators_tell_phases),
        cmocka_unit_test(the_busiest_gpu_is_imported),
        cmocka_unit_test(reserved_memory_is_pytorchs_total),
        cmocka_unit_test(the_cpus_memory_is_imported_on_request),
        cmocka_unit_test(a_refused_request_ends_the_run),
        cmocka_unit_test(a_trace_without_addresses_becomes_sums_over_time),
        cmocka_unit_test(totals_show_memory_from_before_a_trace_without_addresses),
        cmocka_unit_test(a_trace_that_cannot_be_read_is_told_why),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
