/* A fuzzer's trace. A complete trace is recorded once, and each input damages a copy of it. The copy is then queried in
 * every way, verified, and salvaged. Copies are in a memory file system if there is one. */
#pragma once

#include "../read_rows.h"
#include "../recorder_fixture.h"

#include "trace/query/blocks.h"
#include "trace/query/caveats.h"
#include "trace/query/curve.h"
#include "trace/query/groups.h"
#include "trace/query/leaks.h"
#include "trace/query/trace.h"
#include "trace/query/walk.h"
#include "trace/store/salvage.h"
#include "trace/store/store.h"
#include "trace/store/verify.h"

#include <fcntl.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

enum { MOST_RUNS = 3, MOST_ROWS = 20 };

/* A file in memory. */
struct fuzzed_content {
    unsigned char *data;
    size_t bytes;
};

/* The folder of this process, and the names in it. */
struct fuzzed_trace {
    char folder[64], path[80], ring[80], saved[80];
};

/* This process's, and the content of the trace that is whole. */
static struct fuzzed_trace names;
static struct fuzzed_content whole;

static inline void fuzzed_name(char *out, size_t room, const char *folder, const char *name)
{
    if (snprintf(out, room, "%s/%s", folder, name) >= (int)room)
        abort();
}

/* The C library's own functions, which AddressSanitizer replaces. */
void *__libc_malloc(size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void __libc_free(void *memory);

enum { SIZE_BYTES = 16 };

/* SQLite's memory, with its size before it. */
static inline void *fuzzed_resize(void *memory, int bytes)
{
    char *whole = __libc_realloc(memory != NULL ? (char *)memory - SIZE_BYTES : NULL, (size_t)bytes + SIZE_BYTES);
    if (whole == NULL)
        return NULL;
    *(int *)(void *)whole = bytes;
    return whole + SIZE_BYTES;
}

static inline void *fuzzed_take(int bytes)
{
    return fuzzed_resize(NULL, bytes);
}

static inline void fuzzed_free(void *memory)
{
    if (memory != NULL)
        __libc_free((char *)memory - SIZE_BYTES);
}

static inline int fuzzed_size(void *memory)
{
    return memory != NULL ? *(int *)(void *)((char *)memory - SIZE_BYTES) : 0;
}

static inline int fuzzed_round(int bytes)
{
    return (bytes + 7) & ~7;
}

static inline int fuzzed_init(void *unused)
{
    (void)unused;
    return SQLITE_OK;
}

static inline void fuzzed_shutdown(void *unused)
{
    (void)unused;
}

/* SQLite is not the target, and takes most of the time if AddressSanitizer checks its memory. */
static inline void fuzzed_trust_sqlite(void)
{
    static const sqlite3_mem_methods methods = {fuzzed_take,  fuzzed_free, fuzzed_resize,   fuzzed_size,
                                                fuzzed_round, fuzzed_init, fuzzed_shutdown, NULL};
    if (sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) != SQLITE_OK)
        abort();
}

static inline void fuzzed_make_folder(void)
{
    snprintf(names.folder, sizeof names.folder, "%s/memtrace-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (mkdtemp(names.folder) == NULL)
        abort();
    fuzzed_name(names.path, sizeof names.path, names.folder, "trace.db");
    fuzzed_name(names.ring, sizeof names.ring, names.folder, "trace.db-ring");
    fuzzed_name(names.saved, sizeof names.saved, names.folder, "saved.db");
}

static inline struct fuzzed_content fuzzed_read(const char *path)
{
    struct fuzzed_content content = {0};
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &about) != 0)
        abort();
    content.bytes = (size_t)about.st_size;
    content.data = malloc(content.bytes + 1);
    if (content.data == NULL || read(file, content.data, content.bytes) != (ssize_t)content.bytes)
        abort();
    close(file);
    return content;
}

static inline void fuzzed_write(const char *path, struct fuzzed_content content)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || write(file, content.data, content.bytes) != (ssize_t)content.bytes)
        abort();
    close(file);
}

/* Removes what a trace of that name leaves. */
static inline void fuzzed_remove(const char *path)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal", "-ring", "-ring-damaged"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char name[100];
        snprintf(name, sizeof name, "%s%s", path, ends[i]);
        unlink(name);
    }
}

static inline void fuzzed_remove_folder(void)
{
    fuzzed_remove(names.path);
    rmdir(names.folder);
}

/* Creates the folder before the first input. Then returns true: the fuzzer must record `whole`. */
static inline bool fuzzed_begins(void)
{
    if (whole.data != NULL)
        return false;
    fuzzed_trust_sqlite();
    fuzzed_make_folder();
    atexit(fuzzed_remove_folder);
    return true;
}

/* Emits a script, and then a caveat of each kind and the reason of the end. */
static inline void fuzzed_emit(struct mt_recorder *recorder, uint64_t events)
{
    struct script script = script_begin(1, mt_recorder_sink(recorder));
    script_emit(&script, events);
    for (int kind = 0; kind < MT_CAVEAT_KIND_COUNT; kind++) {
        const struct mt_caveat caveat = {(mt_caveat_kind)kind, "a name", "train.py", 7, 3, 9, 4096, 0.5};
        mt_recorder_caveat(recorder, &caveat);
    }
    mt_recorder_ended_by(recorder, MT_ENDED_BY_SETTLED);
}

static inline void fuzzed_record(uint64_t events)
{
    struct mt_recorder *recorder = fixture_open(names.path, 0);
    fuzzed_emit(recorder, events);
    if (mt_recorder_close(recorder, MT_RUN_DONE) != MT_OK)
        abort();
    whole = fuzzed_read(names.path);
}

static inline mt_status fuzzed_see_event(void *context, const struct mt_event_row *row)
{
    (void)context;
    (void)row;
    return MT_OK;
}

static inline mt_status fuzzed_begin(void *context)
{
    (void)context;
    return MT_OK;
}

static inline void fuzzed_ask_peaks(struct mt_trace *trace, const struct mt_run *run)
{
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++) {
        struct mt_peak_row peak = {0};
        mt_trace_peak(trace, run, (mt_measure)measure, &peak);
        mt_peak_row_release(&peak);
        peak = (struct mt_peak_row){0};
        mt_trace_peak_by(trace, run, MT_ALL_STEPS, (mt_measure)measure, MT_GROUP_MODULE, &peak);
        mt_peak_row_release(&peak);
    }
}

static inline void fuzzed_ask_top(struct mt_trace *trace, const struct mt_run *run)
{
    for (int i = 0; i < 4; i++) {
        const struct mt_top_choice choice = {.grouping = (mt_top_grouping)(i % 2), .moment = (mt_top_moment)(i / 2)};
        struct mt_top_row *rows = NULL;
        struct mt_top_group *groups = NULL;
        size_t count;
        bool complete;
        mt_trace_top(trace, run, &choice, MOST_ROWS, &rows, &count, &complete);
        free(rows);
        mt_trace_top_groups(trace, run, &choice, MT_GROUP_MODULE, &groups, &count, &complete);
        free(groups);
    }
}

static inline void fuzzed_walk(struct mt_trace *trace, const struct mt_run *run)
{
    struct mt_walk *walk = NULL;
    struct mt_walk_event event;
    bool more = true;
    if (mt_walk_begin(trace, run, &walk) == MT_OK)
        while (more && mt_walk_next(walk, &event, &more) == MT_OK)
            continue;
    mt_walk_end(walk);
}

static inline void fuzzed_ask_blocks(struct mt_trace *trace, const struct mt_run *run)
{
    struct mt_block_row *blocks = NULL;
    struct mt_segment_row *segments = NULL;
    struct mt_part_row *parts = NULL;
    struct mt_mark_row *marks = NULL;
    struct mt_label_sum *sums = NULL;
    size_t count = 0;
    const int64_t last = run->first_event + run->event_count - 1;
    if (read_blocks_by_label(trace, run, &blocks, &count) == MT_OK) {
        struct mt_use_row *uses = calloc(count + 1, sizeof *uses);
        mt_trace_uses(trace, run, blocks, count, uses);
        free(uses);
    }
    mt_trace_segments(trace, run, &segments, &count);
    mt_trace_parts(trace, run, &parts, &count);
    mt_trace_marks(trace, run, run->first_event, last, &marks, &count);
    mt_trace_label_sums(trace, run, &sums, &count);
    free(blocks);
    free(segments);
    free(parts);
    free(marks);
    free(sums);
}

static inline void fuzzed_ask_rest(struct mt_trace *trace, const struct mt_run *run)
{
    const struct mt_event_visitor visitor = {.begin = fuzzed_begin, .visit = fuzzed_see_event};
    struct mt_category_row *categories = NULL;
    struct mt_explained_row explained;
    struct mt_steps_row steps;
    struct mt_used_row used;
    struct mt_leaks leaks = {0};
    struct mt_curve curve;
    struct mt_caveat *caveats = NULL;
    size_t count;
    int64_t state;
    mt_trace_categories(trace, run, NULL, &categories, &count);
    free(categories);
    mt_trace_events(trace, run, MT_ALL_STEPS, &visitor);
    mt_trace_explain(trace, run, 5, &explained);
    mt_trace_steps(trace, run, &steps);
    mt_trace_used(trace, run, &used);
    mt_trace_caveats(trace, run, &caveats, &count);
    free(caveats);
    mt_trace_leaks(trace, run, &leaks);
    mt_leaks_release(&leaks);
    mt_trace_curve(trace, run, MT_CURVE_BY_TIME, &curve);
    mt_trace_last_state(trace, run, &state);
}

static inline void fuzzed_see_check(void *context, const struct mt_verify_row *row)
{
    (void)context;
    if (row->found == NULL || row->found[0] == '\0')
        abort();
}

static inline void fuzzed_see_saved(void *context, const struct mt_salvaged_run *run)
{
    (void)context;
    if (run->events < 0 || run->events > run->stored_events)
        abort();
}

/* Makes the queries whose kind has its bit set in `kinds`; there are four kinds. Queries may fail, but nothing else may
 * happen. */
enum { ALL_KINDS = 15 };
static inline void fuzzed_ask(const char *path, unsigned kinds)
{
    struct mt_trace *trace = NULL;
    size_t count = 0;
    if (mt_trace_open(path, &trace) != MT_OK)
        return;
    const struct mt_run *runs = mt_trace_runs(trace, &count);
    for (size_t i = 0; i < count && i < MOST_RUNS; i++) {
        if ((kinds & 1) != 0)
            fuzzed_ask_peaks(trace, &runs[i]);
        if ((kinds & 2) != 0)
            fuzzed_ask_top(trace, &runs[i]);
        if ((kinds & 4) != 0)
            fuzzed_ask_blocks(trace, &runs[i]);
        if ((kinds & 8) != 0)
            fuzzed_ask_rest(trace, &runs[i]);
        fuzzed_walk(trace, &runs[i]);
    }
    mt_trace_close(trace);
}

/* Returns the kinds of queries that an input selects, by its last byte. */
static inline unsigned fuzzed_kinds(const uint8_t *data, size_t length)
{
    return length > 0 ? data[length - 1] / 16 : ALL_KINDS;
}

/* For one in SLOW inputs, verifies and salvages the trace, and queries the result: this takes longer than all the
 * rest. */
enum { SLOW = 16 };
static inline void fuzzed_verify(const uint8_t *data, size_t length)
{
    const struct mt_verify_visitor checks = {.row = fuzzed_see_check};
    const struct mt_salvage_visitor saved = {.run = fuzzed_see_saved};
    struct mt_database *database = NULL;
    if (length == 0 || data[length - 1] % SLOW != 0)
        return;
    if (mt_store_open_reading(names.path, &database) == MT_OK)
        mt_verify_trace(database, &checks);
    mt_database_close(database);
    if (mt_salvage_trace(names.path, names.saved, &saved) == MT_OK)
        fuzzed_ask(names.saved, ALL_KINDS);
    fuzzed_remove(names.saved);
}

/* Queries, verifies and salvages the damaged trace as the input selects, and removes it. Returns libFuzzer's result. */
static inline int fuzzed_try(const uint8_t *data, size_t length)
{
    fuzzed_ask(names.path, fuzzed_kinds(data, length));
    fuzzed_verify(data, length);
    fuzzed_remove(names.path);
    return 0;
}
