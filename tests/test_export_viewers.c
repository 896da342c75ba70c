/* Runs as traces for Perfetto, read by its rules, as Nsight's tables, and as RMM's log, which is replayed. */
#include "exported_runs.h"

#include "base/text.h"

#include <inttypes.h>

enum { MOST_THREADS = 64, MOST_DEPTH = 64 };

/* A thread of a trace for Perfetto. */
struct thread {
    bool has_name;
    const char *open[MOST_DEPTH];
    size_t depth;
    double last_ts, busy_until;
};

/* The contents of such a trace. */
struct perfetto {
    struct thread threads[MOST_THREADS];
    json_t *open_blocks; /* by id */
    json_t *counters;    /* of categories */
    int64_t highest_all, highest_reserved;
    size_t blocks, kernels, instants, slices, counter_count;
    struct mt_text kernel_threads; /* their names */
};

static struct thread *thread_of(struct perfetto *perfetto, const json_t *event)
{
    int64_t number = integer_of(event, "tid");
    assert_in_range(number, 0, MOST_THREADS - 1);
    return &perfetto->threads[number];
}

static double time_of(const json_t *event, const char *key)
{
    const json_t *value = json_object_get(event, key);
    assert_true(json_is_number(value) && json_number_value(value) >= 0);
    return json_number_value(value);
}

/* Every counter has one value; the values of the categories sum to the total counter's. */
static void read_counter(struct perfetto *perfetto, const json_t *event)
{
    static const char category[] = "allocated ";
    const char *name = text_of(event, "name"), *key;
    json_t *value, *args = json_object_get(event, "args");
    int64_t bytes = integer_of(args, "bytes"), sum = 0;
    assert_int_equal(json_object_size(args), 1);
    assert_true(bytes >= 0);
    if (strncmp(name, category, strlen(category)) == 0) {
        json_object_set(perfetto->counters, name, json_object_get(args, "bytes"));
        return;
    }
    if (strcmp(name, "reserved") == 0) {
        perfetto->highest_reserved = bytes > perfetto->highest_reserved ? bytes : perfetto->highest_reserved;
        return;
    }
    assert_string_equal(name, "allocated");
    json_object_foreach(perfetto->counters, key, value) sum += json_integer_value(value);
    assert_int_equal(sum, bytes);
    perfetto->highest_all = sum > perfetto->highest_all ? sum : perfetto->highest_all;
}

static void read_block(struct perfetto *perfetto, const json_t *event, bool begins)
{
    const char *id = text_of(event, "id");
    assert_string_equal(text_of(event, "cat"), "allocation");
    json_t *begun = json_object_get(perfetto->open_blocks, id);
    if (begins) {
        assert_null(begun);
        assert_true(json_is_object(json_object_get(event, "args")));
        json_object_set(perfetto->open_blocks, id, (json_t *)event);
        perfetto->blocks++;
        return;
    }
    assert_non_null(begun);
    assert_string_equal(text_of(begun, "name"), text_of(event, "name"));
    assert_true(time_of(begun, "ts") <= time_of(event, "ts"));
    json_object_del(perfetto->open_blocks, id);
}

static void read_slice(struct perfetto *perfetto, const json_t *event, bool begins)
{
    struct thread *thread = thread_of(perfetto, event);
    assert_true(thread->has_name && time_of(event, "ts") >= thread->last_ts);
    thread->last_ts = time_of(event, "ts");
    if (begins) {
        assert_in_range(thread->depth, 0, MOST_DEPTH - 1);
        thread->open[thread->depth++] = text_of(event, "name");
        if (strcmp(text_of(event, "name"), "other") == 0) /* slices from before it have ended, in any order */
            assert_int_equal(thread->depth, 1);
        perfetto->slices++;
        return;
    }
    assert_true(thread->depth > 0);
    assert_string_equal(thread->open[--thread->depth], text_of(event, "name"));
}

static void read_kernel(struct perfetto *perfetto, const json_t *event)
{
    struct thread *thread = thread_of(perfetto, event);
    assert_true(thread->has_name && thread->depth == 0 && time_of(event, "ts") >= thread->busy_until);
    thread->busy_until = time_of(event, "ts") + time_of(event, "dur");
    perfetto->kernels++;
}

static void read_metadata(struct perfetto *perfetto, const json_t *event)
{
    const json_t *args = json_object_get(event, "args");
    if (strcmp(text_of(event, "name"), "thread_name") == 0) {
        const char *name = text_of(args, "name");
        assert_true(name[0] != '\0');
        if (strncmp(name, "kernels of stream", 17) == 0)
            mt_text_add(&perfetto->kernel_threads, "%s; ", name);
        thread_of(perfetto, event)->has_name = true;
    }
}

static void read_instant(struct perfetto *perfetto, const json_t *event)
{
    assert_non_null(strstr("gpt", text_of(event, "s")));
    perfetto->instants++;
}

static void read_perfetto_event(struct perfetto *perfetto, const json_t *event)
{
    const char *phase = text_of(event, "ph");
    assert_int_equal(strlen(phase), 1);
    assert_int_equal(integer_of(event, "pid"), 1);
    if (phase[0] != 'M')
        time_of(event, "ts");
    switch (phase[0]) {
    case 'M':
        read_metadata(perfetto, event);
        break;
    case 'C':
        read_counter(perfetto, event);
        break;
    case 'b':
    case 'e':
        read_block(perfetto, event, phase[0] == 'b');
        break;
    case 'B':
    case 'E':
        read_slice(perfetto, event, phase[0] == 'B');
        break;
    case 'X':
        read_kernel(perfetto, event);
        break;
    case 'i':
        read_instant(perfetto, event);
        break;
    default:
        fail_msg("an event of phase %s", phase);
    }
}

/* Reads a trace by the rules, and checks that it is complete. */
static struct perfetto read_perfetto(const json_t *json)
{
    struct perfetto perfetto = {.open_blocks = json_object(), .counters = json_object()};
    size_t i;
    json_t *event;
    assert_string_equal(text_of(json, "displayTimeUnit"), "ns");
    json_array_foreach(json_object_get(json, "traceEvents"), i, event) read_perfetto_event(&perfetto, event);
    assert_int_equal(json_object_size(perfetto.open_blocks), 0);
    for (int thread = 0; thread < MOST_THREADS; thread++)
        assert_int_equal(perfetto.threads[thread].depth, 0);
    perfetto.counter_count = json_object_size(perfetto.counters);
    json_decref(perfetto.open_blocks);
    json_decref(perfetto.counters);
    return perfetto;
}

static void a_trace_for_perfetto_obeys_its_rules(void **state)
{
    (void)state;
    for (int i = 0; i < TRACE_COUNT; i++) {
        json_t *json = json_file(traces[i], "perfetto");
        struct perfetto perfetto = read_perfetto(json);
        assert_int_equal(perfetto.highest_all, peak_of(traces[i], "allocated_bytes"));
        assert_int_equal(perfetto.highest_reserved, peak_of(traces[i], "reserved_bytes"));
        assert_int_equal(perfetto.counter_count, number_of(traces[i], "SELECT count(DISTINCT category) FROM label JOIN"
                                                                      " event ON event.label = label.id WHERE kind IN"
                                                                      " (2, 10)"));
        assert_int_equal(perfetto.blocks, number_of(traces[i], "SELECT count(*) FROM event WHERE kind IN (2, 10)"));
        assert_int_equal(perfetto.instants, number_of(traces[i], "SELECT count(*) FROM event WHERE kind = 4"));
        assert_int_equal(perfetto.slices, number_of(traces[i], "SELECT count(*) FROM event WHERE kind IN (5, 7, 9)"));
        assert_int_equal(perfetto.kernels, number_of(traces[i], "SELECT count(*) FROM kernel"));
        if (strcmp(traces[i], "odd.db") == 0) /* one after another on a thread, as long as they do not overlap */
            assert_string_equal(mt_text_get(&perfetto.kernel_threads),
                                "kernels of stream 7; kernels of stream 7 (2); kernels of stream 13; ");
        mt_text_release(&perfetto.kernel_threads);
        json_decref(json);
    }
}

static void nsights_tables_replay_to_the_peak(void **state)
{
    (void)state;
    for (int i = 0; i < TRACE_COUNT; i++) {
        char path[64];
        snprintf(path, sizeof path, "%s.nsys", traces[i]);
        int64_t blocks = number_of(traces[i], "SELECT count(*) FROM event WHERE kind IN (2, 3)");
        bool is_there = number_of(path, "SELECT count(*) FROM sqlite_schema"
                                        " WHERE name = 'CUDA_GPU_MEMORY_USAGE_EVENTS'") == 1;
        assert_int_equal(is_there, blocks > 0);
        if (!is_there)
            continue;
        assert_int_equal(number_of(path, "SELECT count(*) FROM CUDA_GPU_MEMORY_USAGE_EVENTS WHERE memKind = 2"
                                         " AND globalPid / 0x1000000 % 0x1000000 = 1"),
                         blocks);
        assert_int_equal(
            number_of(path, "SELECT max(live) FROM (SELECT sum(CASE memoryOperationType WHEN 0 THEN bytes ELSE -bytes"
                            " END) OVER (ORDER BY rowid) AS live FROM CUDA_GPU_MEMORY_USAGE_EVENTS)"),
            peak_of(traces[i], "allocated_bytes"));
        assert_int_equal(number_of(path, "SELECT max(localMemoryPoolUtilizedSize) FROM CUDA_GPU_MEMORY_USAGE_EVENTS"),
                         peak_of(traces[i], "allocated_bytes"));
        assert_int_equal(
            number_of(path, "SELECT count(DISTINCT localMemoryPoolAddress) FROM CUDA_GPU_MEMORY_USAGE_EVENTS"),
            number_of(traces[i], "SELECT count(DISTINCT segment) FROM event WHERE kind = 2"));
        assert_int_equal(number_of(path, "SELECT max(localMemoryPoolSize) FROM CUDA_GPU_MEMORY_USAGE_EVENTS"),
                         peak_of(traces[i], "reserved_bytes"));
    }
}

/* As in Nsight's own exports: numbers in words, the device of the rows, shapes of launches. */
static void scripts_for_nsights_tables_find_what_they_join(void **state)
{
    (void)state;
    assert_int_equal(number_of("model.db.nsys",
                               "SELECT count(*) FROM CUDA_GPU_MEMORY_USAGE_EVENTS AS e"
                               " JOIN ENUM_CUDA_MEM_KIND AS k ON k.id = e.memKind"
                               " JOIN ENUM_CUDA_DEV_MEM_EVENT_OPER AS o ON o.id = e.memoryOperationType"
                               " WHERE k.label = 'Device' AND o.label = 'Allocation'"),
                     number_of("model.db", "SELECT count(*) FROM event WHERE kind = 2"));
    assert_int_equal(number_of("model.db.nsys", "SELECT sum(totalMemory) FROM TARGET_INFO_GPU WHERE id IN"
                                                " (SELECT deviceId FROM CUDA_GPU_MEMORY_USAGE_EVENTS)"),
                     number_of("model.db", "SELECT capacity_bytes FROM run"));
    assert_int_equal(number_of("odd.db.nsys", "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL"
                                              " WHERE coalesce(gridX, gridY, gridZ, blockX, blockY, blockZ) IS NULL"),
                     number_of("odd.db", "SELECT count(*) FROM kernel"));
}

static void nsights_ranges_nest_and_kernels_have_names(void **state)
{
    (void)state;
    assert_int_equal(number_of("empty.db.nsys", "SELECT count(*) FROM sqlite_schema"), 0);
    assert_int_equal(number_of("model.db.nsys", "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'CUPTI%'"), 0);
    assert_int_equal(number_of("model.db.nsys", "SELECT count(*) FROM NVTX_EVENTS"),
                     number_of("model.db", "SELECT count(*) FROM event WHERE kind IN (5, 7, 9)"));
    assert_int_equal(number_of("odd.db.nsys",
                               "SELECT count(*) FROM NVTX_EVENTS AS a JOIN NVTX_EVENTS AS b USING (globalTid)"
                               " WHERE a.rowid < b.rowid AND a.start < b.start AND b.start < a.end AND a.end < b.end"),
                     0);
    assert_int_equal(number_of("odd.db.nsys", "SELECT count(*) FROM NVTX_EVENTS WHERE globalTid % 0x1000000 = 1"
                                              " AND end < (SELECT max(end) FROM NVTX_EVENTS)"),
                     2);
    assert_int_equal(number_of("odd.db.nsys", "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL AS k"
                                              " JOIN StringIds AS long ON long.id = k.demangledName"
                                              " JOIN StringIds AS short ON short.id = k.shortName"
                                              " WHERE long.value LIKE short.value || '%' AND k.end > k.start"),
                     4);
    assert_int_equal(number_of("odd.db.nsys",
                               "SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59 AND text = 'step 1'"
                               " AND globalTid % 0x1000000 = 2"),
                     1);
}

/* Replays a log; counts the rows of each of the three actions in out_rows. */
static int64_t replay_log(const char *path, size_t *out_rows)
{
    static const char *const actions[] = {"allocate", "free", "allocate failure"};
    char line[256], action[32];
    FILE *file = fopen(path, "r");
    int64_t live = 0, highest = 0;
    json_t *sizes = json_object();
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "Thread,Time,Action,Pointer,Size,Stream\n");
    while (fgets(line, sizeof line, file) != NULL) {
        char pointer[32];
        long long size;
        unsigned hours, minutes, seconds, micros, stream;
        if (sscanf(line, "1,%u:%u:%u.%u,%31[^,],%31[^,],%lld,%u\n", &hours, &minutes, &seconds, &micros, action,
                   pointer, &size, &stream) != 8)
            fail_msg("a line of a log: %s", line);
        for (int i = 0; i < 3; i++)
            out_rows[i] += strcmp(action, actions[i]) == 0;
        if (strcmp(action, "allocate") == 0) {
            assert_int_equal(json_object_set_new_nocheck(sizes, pointer, json_integer(size)), 0);
            live += size;
        } else if (strcmp(action, "free") == 0) {
            assert_int_equal(integer_of(sizes, pointer), size);
            json_object_del(sizes, pointer);
            live -= size;
        }
        highest = live > highest ? live : highest;
    }
    fclose(file);
    json_decref(sizes);
    return highest;
}

static void a_log_of_rmm_replays_to_the_peak(void **state)
{
    (void)state;
    for (int i = 0; i < TRACE_COUNT; i++) {
        char path[64];
        size_t rows[3] = {0};
        snprintf(path, sizeof path, "%s.rmm", traces[i]);
        assert_int_equal(replay_log(path, rows), peak_of(traces[i], "requested_bytes"));
        assert_int_equal(rows[0], number_of(traces[i], "SELECT count(*) FROM event WHERE kind = 2"));
        assert_int_equal(rows[1], number_of(traces[i], "SELECT count(*) FROM event WHERE kind = 3"));
        assert_int_equal(rows[2], number_of(traces[i], "SELECT count(*) FROM event WHERE kind = 4"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trace_for_perfetto_obeys_its_rules),
        cmocka_unit_test(nsights_tables_replay_to_the_peak),
        cmocka_unit_test(scripts_for_nsights_tables_find_what_they_join),
        cmocka_unit_test(nsights_ranges_nest_and_kernels_have_names),
        cmocka_unit_test(a_log_of_rmm_replays_to_the_peak),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
