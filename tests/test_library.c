/* The library as other programs see it: through its header and, for questions that it does not have, through the
 * trace. */
#include "library_fixture.h"
#include "seed.h"
#include "trace/query/blocks.h"
#include "trace_opening.h"

#include <memtrace.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_peak_is_made_of_what_labels_say(void **state)
{
    (void)state;
    memtrace_run *run = open_run("sim");
    uint64_t weights = take(run, 3 * MIB, "Param");
    memtrace_step_begin(run);
    assert_ok(memtrace_phase_begin(run, MEMTRACE_FORWARD));
    assert_ok(memtrace_span_begin(run, "net"));
    uint64_t features = take(run, 5 * MIB, "Feature Map");
    assert_ok(memtrace_span_end(run));
    assert_ok(memtrace_give(run, features));
    memtrace_step_end(run);
    assert_ok(memtrace_give(run, weights));
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));

    const memtrace_run_row *row;
    const memtrace_top_row *const *rows;
    size_t count;
    memtrace_trace *trace = open_trace(&row);
    assert_string_equal(row->state, "done");
    assert_string_equal(row->device, "sim:h200");
    assert_int_equal(row->steps, 1);
    const memtrace_peak *peak = peak_of(trace, row, MEMTRACE_REQUESTED);
    assert_int_equal(peak->bytes, 8 * MIB);
    assert_int_equal(peak->step, 0);
    assert_string_equal(peak->phase, "forward");
    assert_string_equal(peak->span, "net");
    assert_int_equal(share_of(peak, "Feature Map")->requested_bytes, 5 * MIB);
    assert_int_equal(share_of(peak, "Param")->blocks, 1);
    memtrace_free(peak);
    assert_ok(memtrace_trace_peak(trace, row, MEMTRACE_BEFORE_STEPS, MEMTRACE_REQUESTED, &peak));
    assert_int_equal(peak->bytes, 3 * MIB);
    memtrace_free(peak);
    assert_fails(memtrace_trace_peak(trace, row, 7, MEMTRACE_REQUESTED, &peak), MEMTRACE_USAGE, "7");
    assert_fails(memtrace_trace_top(trace, row, (memtrace_moment)9, 1, &rows, &count), MEMTRACE_USAGE, "moment 9");
    memtrace_trace_close(trace);
}

static void every_role_and_dtype_keeps_its_name(void **state)
{
    (void)state;
    static const char *const roles[] = {
        "temporary", "parameter", "gradient", "optimizer state", "activation", "weight cast",        "workspace",
        "input",     "other",     "buffer",   "key-value cache", "kept",       "gathered parameter", "unknown"};
    static const char *const dtypes[] = {
        "none",       "fp32",         "bf16",     "fp64",         "int64",       "bool",       "uint8",     "fp16",
        "fp8_e4m3fn", "fp8_e4m3fnuz", "fp8_e5m2", "fp8_e5m2fnuz", "fp8_e8m0fnu", "fp4_e2m1x2", "int8",      "int16",
        "int32",      "uint16",       "uint32",   "uint64",       "complex32",   "complex64",  "complex128"};
    enum { ROLES = sizeof roles / sizeof roles[0], DTYPES = sizeof dtypes / sizeof dtypes[0], ALL = ROLES * DTYPES };
    memtrace_run *run = open_run(NULL);
    for (int i = 0; i < ALL; i++) {
        memtrace_label label = label_of("Mine");
        label.role = (memtrace_role)(i % ROLES);
        label.dtype = (memtrace_dtype)(i / ROLES);
        label.op = "make";
        label.dims = 2;
        label.shape[0] = i;
        label.shape[1] = 9;
        assert_ok(memtrace_note_take(run, (uint64_t)(i + 1) * MIB, (uint64_t)(ALL - i) * 512, 0, &label));
    }
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));

    const memtrace_run_row *row;
    const memtrace_top_row *const *rows;
    size_t count;
    memtrace_trace *trace = open_trace(&row);
    assert_ok(memtrace_trace_top(trace, row, MEMTRACE_WHOLE_RUN, 1000, &rows, &count));
    assert_int_equal(count, ALL);
    for (int i = 0; i < ALL; i++) {
        char shape[32];
        snprintf(shape, sizeof shape, "%d,9", i);
        assert_int_equal(rows[i]->bytes, (ALL - i) * 512);
        assert_string_equal(rows[i]->role, roles[i % ROLES]);
        assert_string_equal(rows[i]->dtype, dtypes[i / ROLES]);
        assert_string_equal(rows[i]->op, "make");
        assert_string_equal(rows[i]->shape, shape);
        assert_string_equal(rows[i]->category, "Mine");
    }
    memtrace_free(rows);
    memtrace_trace_close(trace);
}

/* Returns the number of labels of the newest run, and the sum of their layers. */
static size_t count_labels(int *out_layers)
{
    const struct mt_run *run;
    struct mt_label_row *labels;
    size_t count;
    struct mt_trace *trace = open_newest(TRACE, &run);
    assert_int_equal(mt_trace_labels(trace, run, &labels, &count), MT_OK);
    *out_layers = 0;
    for (size_t i = 1; i < count; i++) /* number 0 is none */
        *out_layers += labels[i].layer;
    free(labels);
    mt_trace_close(trace);
    return count - 1;
}

static void a_number_in_a_span_is_the_layer_of_all_inside(void **state)
{
    (void)state;
    memtrace_run *run = open_run("sim");
    for (int layer = 0; layer < 12; layer++) {
        char name[32];
        snprintf(name, sizeof name, layer % 2 == 0 ? "layers.%d" : "layers", layer);
        assert_ok(memtrace_span_begin(run, name));
        snprintf(name, sizeof name, "%d", layer);
        if (layer % 2 == 1)
            assert_ok(memtrace_span_begin(run, name));
        assert_ok(memtrace_span_begin(run, "w2"));
        take(run, MIB, "FFN");
        for (int i = 0; i < 2 + layer % 2; i++)
            assert_ok(memtrace_span_end(run));
    }
    assert_fails(memtrace_span_end(run), MEMTRACE_USAGE, "did not begin");
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));

    const memtrace_run_row *row;
    const memtrace_top_row *const *rows;
    size_t count;
    memtrace_trace *trace = open_trace(&row);
    assert_ok(memtrace_trace_top(trace, row, MEMTRACE_AT_PEAK, 10, &rows, &count));
    assert_int_equal(count, 1);
    assert_int_equal(rows[0]->count, 12);
    assert_string_equal(rows[0]->span, "layers.*.w2");
    int layers;
    assert_int_equal(count_labels(&layers), 12);
    assert_int_equal(layers, 11 * 12 / 2);
    memtrace_free(rows);
    memtrace_trace_close(trace);
}

enum { SLOTS = 40, CATEGORIES = 3 };

/* The state of a run, as a naive observer keeps it. */
struct observed {
    uint64_t address[SLOTS], bytes[SLOTS];
    int category[SLOTS];
    uint64_t live, peak, live_of[CATEGORIES], peak_of[CATEGORIES];
};
static const char *const observed_categories[] = {"Param", "Mine", "Other"};

static void observe(struct observed *seen, int slot, int64_t sign)
{
    seen->live += (uint64_t)sign * seen->bytes[slot];
    seen->live_of[seen->category[slot]] += (uint64_t)sign * seen->bytes[slot];
    if (seen->live <= seen->peak)
        return;
    seen->peak = seen->live;
    memcpy(seen->peak_of, seen->live_of, sizeof seen->peak_of);
}

/* Takes or gives the block of a slot. Even slots are the allocator's, odd ones are notes. */
static void flip_slot(memtrace_run *run, struct observed *seen, int slot, unsigned random)
{
    bool is_noted = slot % 2 == 1;
    if (seen->address[slot] != 0) {
        if (is_noted)
            memtrace_note_give(run, seen->address[slot]);
        else
            assert_ok(memtrace_give(run, seen->address[slot]));
        seen->address[slot] = 0;
        observe(seen, slot, -1);
        return;
    }
    seen->bytes[slot] = 1 + random % (4 * MIB);
    seen->category[slot] = (int)(random >> 8) % CATEGORIES;
    const char *category = observed_categories[seen->category[slot]];
    if (is_noted) {
        memtrace_label label = label_of(category);
        seen->address[slot] = (uint64_t)(slot + 1) << 40;
        assert_ok(memtrace_note_take(run, seen->address[slot], seen->bytes[slot], (uint64_t)slot, &label));
    } else {
        seen->address[slot] = take(run, seen->bytes[slot], category);
    }
    observe(seen, slot, 1);
}

/* Checks that the shares by each key are of the same blocks. */
static void check_keys(memtrace_trace *trace, const memtrace_run_row *row)
{
    static const char *const keys[] = {"role", "category", "module", "op", "phase", "dtype"};
    const memtrace_peak *peak;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        uint64_t sum = 0;
        assert_ok(memtrace_trace_peak_by(trace, row, MEMTRACE_ALL_STEPS, MEMTRACE_ALLOCATED, keys[i], &peak));
        for (size_t share = 0; share < peak->share_count; share++)
            sum += peak->shares[share]->allocated_bytes;
        assert_int_equal(sum, peak->bytes);
        if (i == 0)
            assert_string_equal(peak->shares[0]->category, "temporary");
        memtrace_free(peak);
    }
    assert_fails(memtrace_trace_peak_by(trace, row, MEMTRACE_ALL_STEPS, MEMTRACE_ALLOCATED, "modul", &peak),
                 MEMTRACE_USAGE, "module");
    assert_fails(memtrace_trace_peak_by(trace, row, MEMTRACE_ALL_STEPS, MEMTRACE_ALLOCATED, NULL, &peak),
                 MEMTRACE_USAGE, "NULL");
}

static void takes_and_notes_are_one_sequence(void **state)
{
    (void)state;
    unsigned seed = (unsigned)take_seed();
    struct observed seen = {0};
    memtrace_run *run = open_run("sim");
    for (int i = 0; i < 5000; i++) {
        unsigned random = (unsigned)rand_r(&seed);
        flip_slot(run, &seen, (int)(random % SLOTS), (unsigned)rand_r(&seed));
    }
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));

    const memtrace_run_row *row;
    memtrace_trace *trace = open_trace(&row);
    const memtrace_peak *peak = peak_of(trace, row, MEMTRACE_REQUESTED);
    assert_int_equal(peak->bytes, seen.peak);
    for (int i = 0; i < CATEGORIES; i++)
        if (seen.peak_of[i] > 0)
            assert_int_equal(share_of(peak, observed_categories[i])->requested_bytes, seen.peak_of[i]);
    memtrace_free(peak);
    peak = peak_of(trace, row, MEMTRACE_RESERVED);
    uint64_t sum = peak->cached_bytes;
    for (size_t i = 0; i < peak->share_count; i++)
        sum += peak->shares[i]->allocated_bytes;
    assert_int_equal(sum, peak->bytes);
    assert_true(peak->bytes >= seen.peak);
    memtrace_free(peak);
    check_keys(trace, row);
    memtrace_trace_close(trace);
}

static void a_pool_reserves_and_its_users_allocate(void **state)
{
    (void)state;
    memtrace_run *run = open_run(NULL);
    memtrace_note_map(run, 64 * MIB, 32 * MIB, 0);
    assert_ok(memtrace_note_take(run, 64 * MIB, 8 * MIB, 0, NULL));
    assert_ok(memtrace_note_take(run, 80 * MIB, 4 * MIB, 0, NULL));
    memtrace_note_give(run, 64 * MIB);
    memtrace_note_give(run, 65 * MIB);
    assert_ok(memtrace_note_take(run, 81 * MIB, MIB, 0, NULL));
    memtrace_note_unmap(run, 64 * MIB, 32 * MIB);
    assert_ok(memtrace_note_refusal(run, 128 * MIB, 0, NULL));
    memtrace_note_counts counts = {.size = sizeof counts};
    assert_ok(memtrace_run_note_counts(run, &counts));
    assert_int_equal(counts.takes, 3);
    assert_int_equal(counts.gives, 2);
    assert_int_equal(counts.unseen_gives, 1);
    assert_int_equal(counts.lost_gives, 1);
    assert_int_equal(counts.unmapped_gives, 1);
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_OUT_OF_MEMORY));

    const memtrace_run_row *row;
    memtrace_trace *trace = open_trace(&row);
    assert_string_equal(row->state, "oom");
    assert_string_equal(row->device, "noted");
    const memtrace_peak *peak = peak_of(trace, row, MEMTRACE_RESERVED);
    assert_int_equal(peak->bytes, 32 * MIB);
    memtrace_free(peak);
    peak = peak_of(trace, row, MEMTRACE_ALLOCATED);
    assert_int_equal(peak->bytes, 12 * MIB);
    assert_string_equal(peak->shares[0]->category, "Other");
    memtrace_free(peak);
    memtrace_trace_close(trace);
}

/* Counts the newest run's marks of a kind, and adds up their values. */
static size_t count_marks(mt_event_kind kind, uint64_t *out_sum)
{
    const struct mt_run *run;
    struct mt_mark_row *marks;
    size_t count, found = 0;
    struct mt_trace *trace = open_newest(TRACE, &run);
    assert_int_equal(
        mt_trace_marks(trace, run, run->first_event, run->first_event + run->event_count - 1, &marks, &count), MT_OK);
    *out_sum = 0;
    for (size_t i = 0; i < count; i++)
        if (marks[i].kind == kind) {
            found++;
            *out_sum += marks[i].value;
        }
    free(marks);
    mt_trace_close(trace);
    return found;
}

static void refused_requests_are_kept_noted_or_not(void **state)
{
    (void)state;
    uint64_t address, bytes;
    memtrace_run *run = open_run("sim:64MiB");
    assert_int_equal(memtrace_take(run, 100 * MIB, 0, NULL, &address), MEMTRACE_OUT_OF_MEMORY);
    assert_ok(memtrace_note_refusal(run, 7 * MIB, 0, NULL));
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_OUT_OF_MEMORY));
    assert_int_equal(count_marks(MT_EVENT_OOM, &bytes), 2);
    assert_int_equal(bytes, 107 * MIB);
}

/* For instance a length that was counted below 0: the program gets no memory, and the trace stores the largest
 * value. */
static void a_refused_request_may_be_of_any_size(void **state)
{
    (void)state;
    uint64_t address, bytes;
    memtrace_run *run = open_run("sim:64MiB");
    assert_int_equal(memtrace_take(run, UINT64_MAX, 0, NULL, &address), MEMTRACE_OUT_OF_MEMORY);
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_OUT_OF_MEMORY));
    assert_int_equal(count_marks(MT_EVENT_OOM, &bytes), 1);
    assert_int_equal(bytes, INT64_MAX - (2 * MIB - 1));
}

enum { STORED_US = 300000 /* by when what was told is in the trace */ };

static void *end_within_spans(void *run)
{
    assert_ok(memtrace_span_begin(run, "left"));
    assert_ok(memtrace_span_begin(run, "behind"));
    return NULL;
}

/* Checks the number of spans that a thread with the function `live` emits, and of their ends. */
static void assert_spans_of(void *(*live)(void *run), size_t spans)
{
    pthread_t thread;
    uint64_t sum;
    memtrace_run *run = open_run(NULL);
    assert_int_equal(pthread_create(&thread, NULL, live, run), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
    assert_int_equal(count_marks(MT_EVENT_SPAN_BEGIN, &sum), spans);
    assert_int_equal(count_marks(MT_EVENT_SPAN_END, &sum), spans);
}

/* Later events of other threads would lie in them otherwise. */
static void a_thread_that_ends_within_spans_leaves_them(void **state)
{
    (void)state;
    assert_spans_of(end_within_spans, 2);
}

/* Exits before a sanitizer looks for leaks in a process that has lost its first thread. */
static void leave_at_once(void)
{
    _exit(0);
}

/* Returns in the child, and so ends it. Events of a child would be stored in the place of its parent's next ones. */
static void *fork_within_a_span(void *run)
{
    int code = -1;
    assert_ok(memtrace_span_begin(run, "parent's"));
    pid_t child = fork();
    if (child == 0) {
        atexit(leave_at_once);
        return NULL;
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    usleep(STORED_US);
    assert_ok(memtrace_span_begin(run, "next"));
    assert_ok(memtrace_span_end(run));
    assert_ok(memtrace_span_end(run));
    return NULL;
}

static void the_end_of_a_child_ends_no_span_of_its_parent(void **state)
{
    (void)state;
    assert_spans_of(fork_within_a_span, 2);
}

static void a_refused_request_leaves_the_run_as_it_was(void **state)
{
    (void)state;
    memtrace_run *run = open_run("sim:64MiB");
    uint64_t kept = take(run, 40 * MIB, "Param"), address = 1;
    assert_fails(memtrace_take(run, 40 * MIB, 0, NULL, &address), MEMTRACE_OUT_OF_MEMORY, "40.00 MiB");
    assert_int_equal(address, 1);
    memtrace_statistics statistics = {.size = sizeof statistics};
    assert_ok(memtrace_run_statistics(run, &statistics));
    assert_int_equal(statistics.refused, 1);
    assert_int_equal(statistics.blocks, 1);
    assert_int_equal(statistics.requested_bytes, 40 * MIB);
    assert_ok(memtrace_give(run, kept));
    assert_ok(memtrace_release_cached(run));
    assert_ok(memtrace_run_statistics(run, &statistics));
    assert_int_equal(statistics.reserved_bytes, 0);
    assert_int_equal(statistics.peak_requested_bytes, 40 * MIB);
    take(run, 50 * MIB, "Param");
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
}

static void what_cannot_be_meant_is_refused(void **state)
{
    (void)state;
    memtrace_run *run = open_run("sim"), *other = NULL;
    uint64_t address = take(run, MIB, "Param");
    memtrace_label label = label_of("Param");
    assert_fails(memtrace_give(run, address + 1), MEMTRACE_USAGE, "no live block");
    assert_ok(memtrace_give(run, address));
    assert_fails(memtrace_give(run, address), MEMTRACE_USAGE, "was freed");
    assert_fails(memtrace_use_on(run, address, 1), MEMTRACE_USAGE, "no live block");
    assert_ok(memtrace_give(run, 0));
    assert_fails(memtrace_take(run, 0, 0, &label, &address), MEMTRACE_USAGE, "0");
    label.role = (memtrace_role)99;
    assert_fails(memtrace_take(run, MIB, 0, &label, &address), MEMTRACE_USAGE, "role 99");
    label = label_of("Param");
    label.dtype = (memtrace_dtype)-1;
    assert_fails(memtrace_note_take(run, 1, MIB, 0, &label), MEMTRACE_USAGE, "dtype -1");
    label = label_of("Param");
    label.dims = 17;
    assert_fails(memtrace_take(run, MIB, 0, &label, &address), MEMTRACE_USAGE, "17 dims");
    label.dims = 1;
    label.shape[0] = -3;
    assert_fails(memtrace_take(run, MIB, 0, &label, &address), MEMTRACE_USAGE, "-3");
    label.size = 0;
    assert_fails(memtrace_take(run, MIB, 0, &label, &address), MEMTRACE_USAGE, "sizeof(memtrace_label)");
    assert_fails(memtrace_span_begin(run, ""), MEMTRACE_USAGE, "empty");
    assert_fails(memtrace_measure(run, NULL, 1), MEMTRACE_USAGE, "empty");
    assert_fails(memtrace_phase_begin(run, (memtrace_phase)17), MEMTRACE_USAGE, "17");
    memtrace_run_options options = {.size = sizeof options, .trace = TRACE};
    assert_fails(memtrace_run_open(&options, &other), MEMTRACE_NOT_WRITTEN, TRACE);
    options.device = "abacus";
    assert_fails(memtrace_run_open(&options, &other), MEMTRACE_NO_DEVICE, "abacus");
    options.device = "sim";
    options.alloc = "policy=none";
    assert_fails(memtrace_run_open(&options, &other), MEMTRACE_USAGE, "none");
    assert_null(other);
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
    run = open_run(NULL);
    assert_fails(memtrace_take(run, MIB, 0, NULL, &address), MEMTRACE_USAGE, "without a device");
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
    assert_ok(memtrace_run_close(NULL, MEMTRACE_RUN_DONE));
}

/* A program that was compiled with an older header knows fewer fields, one with a newer header more. */
static void structs_of_other_versions_are_understood(void **state)
{
    (void)state;
    struct {
        size_t size;
        const char *category;
        int garbage[64];
    } older = {.size = offsetof(memtrace_label, role), .category = "Param"};
    memset(older.garbage, 0x55, sizeof older.garbage);
    struct {
        memtrace_statistics known;
        uint64_t newer, beyond;
    } newer = {.known.size = sizeof(memtrace_statistics) + sizeof(uint64_t), .newer = 7, .beyond = 7};
    memtrace_statistics small = {.size = offsetof(memtrace_statistics, allocated_bytes), .allocated_bytes = 7};
    memtrace_run *run = open_run("sim");
    uint64_t address;
    assert_ok(memtrace_take(run, MIB, 0, (const memtrace_label *)&older, &address));
    assert_ok(memtrace_run_statistics(run, &newer.known));
    assert_int_equal(newer.known.requested_bytes, MIB);
    assert_int_equal(newer.newer, 0);
    assert_int_equal(newer.beyond, 7);
    assert_ok(memtrace_run_statistics(run, &small));
    assert_int_equal(small.requested_bytes, MIB);
    assert_int_equal(small.allocated_bytes, 7);
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));
}

static void categories_count_what_was_taken(void **state)
{
    (void)state;
    memtrace_run *run = open_run("sim");
    memtrace_step_begin(run);
    assert_ok(memtrace_phase_begin(run, MEMTRACE_BACKWARD));
    for (int i = 1; i <= 3; i++)
        assert_ok(memtrace_give(run, take(run, (uint64_t)i * 4096, "Mine")));
    memtrace_step_end(run);
    assert_ok(memtrace_run_close(run, MEMTRACE_RUN_DONE));

    const memtrace_run_row *row;
    const memtrace_category_row *const *rows;
    size_t count;
    memtrace_trace *trace = open_trace(&row);
    for (int i = 0; i < 2; i++) {
        assert_ok(memtrace_trace_categories(trace, row, i == 0 ? NULL : "backward", &rows, &count));
        assert_int_equal(count, 1);
        assert_string_equal(rows[0]->category, "Mine");
        assert_int_equal(rows[0]->max_bytes, 3 * 4096);
        assert_int_equal(rows[0]->total_bytes, 6 * 4096);
        assert_int_equal(rows[0]->per_step, 3);
        memtrace_free(rows);
    }
    memtrace_trace_close(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIBRARY_TEST(a_peak_is_made_of_what_labels_say),
        LIBRARY_TEST(every_role_and_dtype_keeps_its_name),
        LIBRARY_TEST(a_number_in_a_span_is_the_layer_of_all_inside),
        LIBRARY_TEST(takes_and_notes_are_one_sequence),
        LIBRARY_TEST(a_pool_reserves_and_its_users_allocate),
        LIBRARY_TEST(refused_requests_are_kept_noted_or_not),
        LIBRARY_TEST(a_refused_request_may_be_of_any_size),
        LIBRARY_TEST(a_thread_that_ends_within_spans_leaves_them),
        LIBRARY_TEST(the_end_of_a_child_ends_no_span_of_its_parent),
        LIBRARY_TEST(a_refused_request_leaves_the_run_as_it_was),
        LIBRARY_TEST(what_cannot_be_meant_is_refused),
        LIBRARY_TEST(structs_of_other_versions_are_understood),
        LIBRARY_TEST(categories_count_what_was_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
