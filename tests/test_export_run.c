/* Whole runs in the formats of other programs, each checked by the rules of its format: snapshots of PyTorch by Python's
 * pickle, by a web page's kind of reader and against the trace; traces for Perfetto; Nsight's tables; RMM's log. Of runs
 * of the model, one that ran out of memory, one of nothing, and one with all that a trace may hold. */
#include "program.h"

#include "base/text.h"
#include "synthetic.h"
#include "trace/blocks.h"

#include <inttypes.h>
#include <sqlite3.h>

#define TINY "run --vocab 64 --d-model 16 --d-ff 32 --layers 3 --heads 2 --seq 8 --batch 2 --device sim "

/* The traces, each of one run. */
static const char *const traces[] = {"model.db", "oom.db", "odd.db", "empty.db"};
enum { TRACE_COUNT = 4, MOST_THREADS = 64, MOST_DEPTH = 64, MOST_CATEGORIES = 64 };

static void expect_success(const struct said *said)
{
    if (said->code != 0)
        fail_msg("exit code %d: %s%s", said->code, said->err, said->out);
}

static void emit_mark(struct synthetic *run, mt_event_kind kind, mt_span_id span)
{
    synthetic_emit(run, (struct mt_event){.kind = (uint16_t)kind, .span = span});
}

static void run_kernel(struct synthetic *run, uint64_t start_ns, uint64_t end_ns, uint32_t stream, mt_label_id label)
{
    run->sink->kernel(run->sink->context, &(struct mt_kernel){.start_ns = start_ns,
                                                              .end_ns = end_ns,
                                                              .name = "_Z4busyPf",
                                                              .step = MT_NO_STEP,
                                                              .label = label,
                                                              .stream = stream});
}

/* Spans that do not end in order, or not at all, a step within a step, a refusal, kernels that overlap, blocks that
 * live on, segments that grow. */
static void make_odd_trace(void)
{
    struct synthetic run;
    assert_int_equal(synthetic_open(&run, "odd.db", "odd", 7, 40), MT_OK);
    const struct mt_sink *sink = run.sink;
    mt_span_id outer = sink->intern_span(sink->context, 0, "out\"er.\\\x01"), inner, other;
    inner = sink->intern_span(sink->context, outer, "inner;\xFF");
    other = sink->intern_span(sink->context, 0, "other");
    synthetic_emit(&run, (struct mt_event){.kind = MT_EVENT_PHASE, .value = MT_PHASE_FORWARD});
    emit_mark(&run, MT_EVENT_SPAN_BEGIN, outer);
    emit_mark(&run, MT_EVENT_SPAN_BEGIN, inner);
    synthetic_step(&run, 0, 500, 20);
    emit_mark(&run, MT_EVENT_SPAN_END, outer);
    emit_mark(&run, MT_EVENT_SPAN_END, inner);
    emit_mark(&run, MT_EVENT_SPAN_END, other);
    emit_mark(&run, MT_EVENT_SPAN_BEGIN, other);
    synthetic_emit(&run, (struct mt_event){.kind = MT_EVENT_STEP_BEGIN, .value = 1});
    synthetic_move(&run, 3000, 100);
    synthetic_emit(&run, (struct mt_event){.kind = MT_EVENT_PHASE, .value = MT_PHASE_BACKWARD});
    synthetic_emit(
        &run,
        (struct mt_event){.kind = MT_EVENT_OOM, .requested_bytes = 1ull << 42, .label = run.labels[0], .span = other});
    run_kernel(&run, 1000, 2500, 7, run.labels[1]);
    run_kernel(&run, 2000, 2600, 7, 0);
    run_kernel(&run, 2500, 2700, 7, 0);
    run_kernel(&run, 2000, 9000, 13, run.labels[2]);
    assert_true(run.live_count > 10);
    assert_int_equal(synthetic_close(&run), MT_OK);
}

static int set_up(void **state)
{
    struct synthetic run;
    void *folder = enter_folder("test_export_run");
    expect_success(MEMTRACE(TINY "--steps 2 --trace model.db --name 'the model'"));
    assert_int_equal(MEMTRACE(TINY "--steps 2 --trace oom.db --device sim:4MiB --batch 64")->code, MT_OUT_OF_MEMORY);
    make_odd_trace();
    assert_int_equal(synthetic_open(&run, "empty.db", NULL, 1, 1), MT_OK);
    assert_int_equal(synthetic_close(&run), MT_OK);
    for (int i = 0; i < TRACE_COUNT; i++) {
        expect_success(
            shell("for f in torch pickle perfetto nsys rmm; do \"$M\" export --trace %s --format $f -o %s.$f;"
                  " done; \"$M\" peak --trace %s --json >%s.peak",
                  traces[i], traces[i], traces[i], traces[i]));
    }
    *state = folder;
    return 0;
}

static json_t *json_file(const char *trace, const char *end)
{
    char path[64];
    json_error_t error;
    snprintf(path, sizeof path, "%s.%s", trace, end);
    json_t *json = json_load_file(path, 0, &error);
    if (json == NULL)
        fail_msg("%s:%d: %s", path, error.line, error.text);
    return json;
}

static int64_t peak_of(const char *trace, const char *measure)
{
    json_t *peak = json_file(trace, "peak");
    int64_t bytes = integer_of(peak, measure);
    json_decref(peak);
    return bytes;
}

static sqlite3 *open_database(const char *path)
{
    sqlite3 *database;
    assert_int_equal(sqlite3_open_v2(path, &database, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    return database;
}

/* A statement of one number. */
static int64_t number_of(const char *path, const char *sql)
{
    sqlite3 *database = open_database(path);
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(database));
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(database);
    return number;
}

static bool has_program(const char *name)
{
    return shell("command -v %s", name)->code == 0;
}

static void python_reads_what_memtrace_says(void **state)
{
    (void)state;
    if (!has_program("python3"))
        skip();
    for (int i = 0; i < TRACE_COUNT; i++)
        expect_success(shell("python3 '%s/../read_snapshot.py' %s.pickle %s.torch %s.peak", MT_TEST_DATA, traces[i],
                             traces[i], traces[i]));
}

static void a_page_reads_the_pickle(void **state)
{
    (void)state;
    if (!has_program("node"))
        skip();
    for (int i = 0; i < TRACE_COUNT; i++)
        expect_success(shell("node '%s/../unpickle.mjs' %s.pickle %s.torch", MT_TEST_DATA, traces[i], traces[i]));
}

/* The trace, event by event, as SQL tells it. */
static const char told[] =
    "SELECT event.kind, ifnull(event.requested_bytes, 0), ifnull(event.block_bytes, 0), event.stream, event.segment,"
    " event.offset, label.category, label.role, label.op, label.phase, own.path, label.layer, label.dtype, label.shape,"
    " asker.path, event.time_ns / 1000 FROM event LEFT JOIN label ON label.id = event.label"
    " LEFT JOIN span AS own ON own.id = label.span"
    " LEFT JOIN span AS asker ON asker.id = coalesce(event.span, label.span) ORDER BY event.id";
enum { KIND, REQUESTED, BLOCK, STREAM, SEGMENT, OFFSET, CATEGORY, ASKER = CATEGORY + 8, TIME_US };

static int64_t column(sqlite3_stmt *row, int index)
{
    return sqlite3_column_int64(row, index);
}

/* Texts that are not UTF-8 are exported repaired: only those that are can be compared. */
static void expect_text(const json_t *value, sqlite3_stmt *row, int index)
{
    const char *text = (const char *)sqlite3_column_text(row, index);
    json_t *expected = json_string(text != NULL ? text : "");
    if (expected != NULL)
        assert_true(json_equal(value, expected));
    json_decref(expected);
}

static void expect_label(const json_t *entry, sqlite3_stmt *row)
{
    static const char *const names[] = {"category", "role", "op", "phase", "span", "layer", "dtype", "shape"};
    const json_t *metadata = json_object_get(entry, "user_metadata"), *frames = json_object_get(entry, "frames");
    for (int i = 0; i < 8; i++) {
        const json_t *value = json_object_get(metadata, names[i]);
        if (i != 5)
            expect_text(value, row, CATEGORY + i);
        else if (sqlite3_column_type(row, CATEGORY + i) == SQLITE_NULL)
            assert_null(value);
        else
            assert_int_equal(json_integer_value(value), column(row, CATEGORY + i));
    }
    expect_text(json_object_get(json_array_get(frames, 0), "name"), row, CATEGORY + 2);
    const json_t *innermost = json_array_get(frames, 1);
    if (innermost != NULL)
        expect_text(json_object_get(innermost, "filename"), row, ASKER);
}

static void expect_common(const json_t *entry, sqlite3_stmt *row, int64_t size)
{
    assert_int_equal(integer_of(entry, "size"), size);
    assert_int_equal(integer_of(entry, "stream"), column(row, STREAM));
    assert_int_equal(integer_of(entry, "time_us"), column(row, TIME_US));
    assert_true(json_is_array(json_object_get(entry, "frames")));
}

static void expect_action(const json_t *entry, const char *one, const char *or_other)
{
    const char *action = text_of(entry, "action");
    if (strcmp(action, one) != 0 && strcmp(action, or_other) != 0)
        fail_msg("%s where there is %s", action, one);
}

/* Checks the entries that an event became; returns how many. */
static size_t expect_event(const json_t *entries, size_t at, sqlite3_stmt *row)
{
    const json_t *entry = json_array_get(entries, at);
    switch (column(row, KIND)) {
    case MT_EVENT_SEGMENT_MAP:
    case MT_EVENT_SEGMENT_UNMAP:
        expect_common(entry, row, column(row, BLOCK));
        assert_int_equal(integer_of(entry, "segment"), column(row, SEGMENT));
        assert_int_equal(integer_of(entry, "offset"), column(row, OFFSET));
        if (column(row, KIND) == MT_EVENT_SEGMENT_MAP)
            expect_action(entry, "segment_map", "segment_alloc");
        else
            expect_action(entry, "segment_unmap", "segment_free");
        return 1;
    case MT_EVENT_ALLOC:
        expect_action(entry, "alloc", "alloc");
        expect_common(entry, row, column(row, REQUESTED));
        assert_int_equal(integer_of(entry, "block_bytes"), column(row, BLOCK));
        expect_text(json_object_get(entry, "category"), row, CATEGORY);
        expect_label(entry, row);
        return 1;
    case MT_EVENT_FREE:
        expect_action(entry, "free_requested", "free_requested");
        expect_action(json_array_get(entries, at + 1), "free_completed", "free_completed");
        expect_common(entry, row, column(row, REQUESTED));
        return 2;
    case MT_EVENT_OOM:
        expect_action(entry, "oom", "oom");
        expect_common(entry, row, column(row, REQUESTED));
        assert_true(integer_of(entry, "device_free") >= 0);
        expect_label(entry, row);
        return 1;
    default:
        return 0;
    }
}

/* The annotation of a mark, at its place among the entries; returns how many there were. */
static size_t expect_annotation(const json_t *annotations, size_t at, size_t entries, sqlite3_stmt *row)
{
    if (column(row, KIND) < MT_EVENT_SPAN_BEGIN)
        return 0;
    size_t ended = 0;
    const json_t *annotation = json_array_get(annotations, at);
    if (strcmp(text_of(annotation, "kind"), "phase_end") == 0)
        annotation = json_array_get(annotations, at + ++ended);
    assert_string_equal(text_of(annotation, "kind"), mt_event_kind_name((mt_event_kind)column(row, KIND)));
    assert_int_equal(integer_of(annotation, "entries"), entries);
    assert_int_equal(integer_of(annotation, "time_us"), column(row, TIME_US));
    if (column(row, KIND) <= MT_EVENT_SPAN_END)
        expect_text(json_object_get(annotation, "name"), row, ASKER);
    else if (column(row, KIND) <= MT_EVENT_STEP_END)
        assert_int_equal(integer_of(annotation, "step"), column(row, REQUESTED));
    else
        assert_string_equal(text_of(annotation, "name"), mt_phase_name((mt_phase)column(row, REQUESTED)));
    return 1 + ended;
}

static void a_snapshot_has_every_event(void **state)
{
    (void)state;
    for (int i = 0; i < TRACE_COUNT; i++) {
        json_t *snapshot = json_file(traces[i], "torch");
        const json_t *entries = json_array_get(json_object_get(snapshot, "device_traces"), 0);
        const json_t *annotations = json_object_get(snapshot, "external_annotations");
        sqlite3 *database = open_database(traces[i]);
        sqlite3_stmt *row;
        size_t entry = 0, annotation = 0;
        assert_int_equal(sqlite3_prepare_v2(database, told, -1, &row, NULL), SQLITE_OK);
        while (sqlite3_step(row) == SQLITE_ROW) {
            annotation += expect_annotation(annotations, annotation, entry, row);
            entry += expect_event(entries, entry, row);
        }
        const json_t *last = json_array_get(annotations, annotation);
        annotation += last != NULL && strcmp(text_of(last, "kind"), "phase_end") == 0;
        assert_int_equal(entry, json_array_size(entries));
        assert_int_equal(annotation, json_array_size(annotations));
        sqlite3_finalize(row);
        sqlite3_close(database);
        json_decref(snapshot);
    }
}

/* A thread of a trace for Perfetto. */
struct thread {
    bool has_name;
    const char *open[MOST_DEPTH];
    size_t depth;
    double last_ts, busy_until;
};

/* What was read of such a trace. */
struct perfetto {
    struct thread threads[MOST_THREADS];
    json_t *open_blocks; /* by id */
    json_t *counters;    /* by category */
    int64_t all, highest_all, highest_reserved;
    size_t blocks, kernels, instants, slices;
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

static void read_counter(struct perfetto *perfetto, const json_t *event)
{
    const char *key;
    json_t *value, *args = json_object_get(event, "args");
    int64_t sum = 0;
    assert_true(json_object_size(args) > 0);
    json_object_foreach(args, key, value)
    {
        assert_true(json_is_integer(value) && json_integer_value(value) >= 0);
        if (strcmp(text_of(event, "name"), "reserved") == 0) {
            int64_t bytes = json_integer_value(value);
            perfetto->highest_reserved = bytes > perfetto->highest_reserved ? bytes : perfetto->highest_reserved;
            return;
        }
        assert_string_equal(text_of(event, "name"), "allocated");
        if (strcmp(key, "(all)") == 0)
            perfetto->all = json_integer_value(value);
        else
            json_object_set(perfetto->counters, key, value);
    }
    json_object_foreach(perfetto->counters, key, value) sum += json_integer_value(value);
    assert_int_equal(sum, perfetto->all);
    perfetto->highest_all = sum > perfetto->highest_all ? sum : perfetto->highest_all;
}

static void read_block(struct perfetto *perfetto, const json_t *event, bool begins)
{
    char id[32];
    snprintf(id, sizeof id, "%" JSON_INTEGER_FORMAT, integer_of(event, "id"));
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
        assert_true(text_of(args, "name")[0] != '\0');
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

/* Reads a trace by the rules; it is complete. */
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
        assert_int_equal(perfetto.blocks, number_of(traces[i], "SELECT count(*) FROM event WHERE kind = 2"));
        assert_int_equal(perfetto.instants, number_of(traces[i], "SELECT count(*) FROM event WHERE kind = 4"));
        assert_int_equal(perfetto.slices, number_of(traces[i], "SELECT count(*) FROM event WHERE kind IN (5, 7, 9)"));
        assert_int_equal(perfetto.kernels, number_of(traces[i], "SELECT count(*) FROM kernel"));
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
    }
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

/* Replays a log; *out_rows of each of the three actions. */
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

static void names_and_options_say_the_format(void **state)
{
    (void)state;
    expect_success(MEMTRACE("export --trace odd.db -o a.pickle && cmp a.pickle odd.db.pickle"));
    expect_success(MEMTRACE("export run --trace odd.db --format torch -o b.pickle.gz && gzip -dc b.pickle.gz |"
                            " cmp - odd.db.pickle"));
    expect_success(MEMTRACE("export --trace odd.db --format pickle | cmp - odd.db.pickle"));
    expect_success(MEMTRACE("export --trace odd.db -o a.sqlite && cmp a.sqlite odd.db.nsys"));
    expect_success(MEMTRACE("export --trace odd.db --format perfetto -o a.json.gz && gzip -dc a.json.gz |"
                            " cmp - odd.db.perfetto"));
    static const char *const cases[][2] = {
        {"run", "say --format torch, pickle, perfetto, nsys or rmm"},
        {"run --format csv", "a run is torch, pickle"},
        {"blocks --format rmm", "tables are csv or json"},
        {"--format torch --step 1", "--step means nothing for run as torch"},
        {"--format perfetto --diff 1", "--diff means nothing"},
        {"--format rmm --merge-layers", "--merge-layers means nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("\"$M\" export --trace odd.db %s", cases[i][0]);
        assert_int_equal(said->code, MT_USAGE);
        assert_says(said->err, cases[i][1]);
    }
}

static void a_write_that_fails_leaves_nothing(void **state)
{
    (void)state;
    static const char *const formats[] = {"torch", "pickle", "perfetto", "rmm", "nsys"};
    expect_success(shell("mkdir full temporary"));
    for (int i = 0; i < 5; i++) {
        const struct said *said = shell("trap '' XFSZ; ulimit -f 8; TMPDIR=temporary \"$M\" export --trace odd.db"
                                        " --format %s -o full/a",
                                        formats[i]);
        assert_int_equal(said->code, MT_FAILED);
        assert_string_equal(shell("ls -A full temporary | grep -v :")->out, "\n");
    }
    assert_int_equal(MEMTRACE("export --trace odd.db --format nsys -o /dev/full")->code, MT_FAILED);
    assert_int_equal(shell("TMPDIR=nowhere \"$M\" export --trace odd.db --format nsys")->code, MT_FAILED);
    expect_success(shell("{ \"$M\" export --trace odd.db --format torch; echo $? >code; } | head -n 1;"
                         " grep -qx 0 code"));
}

static void execute(const char *path, const char *sql)
{
    sqlite3 *database;
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    if (sqlite3_exec(database, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(database));
    sqlite3_close(database);
}

/* Each damage is refused by what would follow it, and by nobody's crash. */
static void damaged_traces_are_refused(void **state)
{
    (void)state;
    static const char *const damages[] = {
        "UPDATE event SET label = 9999 WHERE kind = 2",
        "UPDATE event SET segment = 4000000 WHERE kind = 2",
        "UPDATE event SET kind = 77 WHERE kind = 5",
        "UPDATE event SET span = 99999 WHERE kind = 5",
        "UPDATE event SET block_bytes = -5 WHERE kind = 2",
        "UPDATE event SET stream = 70000 WHERE kind = 2",
        "DELETE FROM segment",
        "UPDATE span SET parent = id WHERE id = 2",
    };
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        expect_success(shell("cp odd.db damaged.db"));
        execute("damaged.db", damages[i]);
        for (int format = 0; format < 5; format++) {
            static const char *const formats[] = {"torch", "pickle", "perfetto", "rmm", "nsys"};
            const struct said *said =
                shell("\"$M\" export --trace damaged.db --format %s -o damaged.out", formats[format]);
            if (said->code != MT_BAD_TRACE)
                fail_msg("%s as %s: exit code %d", damages[i], formats[format], said->code);
            assert_says(said->err, "damaged");
        }
    }
    expect_success(shell("cp odd.db damaged.db; test ! -e damaged.out"));
    execute("damaged.db", "UPDATE event SET offset = 0 WHERE kind = 2");
    assert_int_equal(MEMTRACE("export --trace damaged.db --format torch")->code, MT_BAD_TRACE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(python_reads_what_memtrace_says),
        cmocka_unit_test(a_page_reads_the_pickle),
        cmocka_unit_test(a_snapshot_has_every_event),
        cmocka_unit_test(a_trace_for_perfetto_obeys_its_rules),
        cmocka_unit_test(nsights_tables_replay_to_the_peak),
        cmocka_unit_test(nsights_ranges_nest_and_kernels_have_names),
        cmocka_unit_test(a_log_of_rmm_replays_to_the_peak),
        cmocka_unit_test(names_and_options_say_the_format),
        cmocka_unit_test(a_write_that_fails_leaves_nothing),
        cmocka_unit_test(damaged_traces_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
