#include "cli/check/check_self_test.h"

#include "alloc/alloc.h"
#include "answer/table.h"
#include "cli/check/check_gate.h"
#include "cli/check/check_text.h"
#include "cli/output/output.h"
#include "model/training.h"
#include "trace/store/recorder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The runs: two that are alike, one that leaks, one that does not fit. */
static const char clean[] = "clean", twin[] = "twin", leaky[] = "leaky", too_large[] = "too-large";
enum { STEPS = 4, LEAK_BYTES = 4096 };
#define ROOM "sim:1GiB"
#define NO_ROOM "sim:4MiB"

/* What must come of a budget, and what came. */
struct trial {
    char criterion[48], expected[96];
    bool held;
};

enum { MOST_TRIALS = 16 };
struct self_test {
    char folder[256], path[272];
    struct trial trials[MOST_TRIALS];
    size_t count, broken;
};

static struct mt_training_config tiny_config(void)
{
    struct mt_training_config config = mt_training_config_default();
    config.model =
        (struct mt_model_config){.name = "tiny", .vocab = 512, .d_model = 128, .d_ff = 256, .layers = 2, .heads = 4};
    config.seq = 64;
    config.steps = STEPS;
    return config;
}

/* The leak: a block after every step, labelled as a loss that somebody kept for a log, and never given back. */
struct leak {
    struct mt_alloc *alloc;
    uint64_t bytes; /* 0: none */
};

static void keep_a_block(void *context, int64_t step, int64_t total, double loss, double step_ms)
{
    (void)step, (void)total, (void)loss, (void)step_ms;
    const struct leak *leak = context;
    struct mt_block *kept;
    if (leak->bytes == 0)
        return;
    mt_span_id span = mt_alloc_intern_span(leak->alloc, 0, "injected");
    const struct mt_label label = {.category = MT_CATEGORY_LOSS,
                                   .role = MT_ROLE_SAVED,
                                   .phase = MT_PHASE_LOSS,
                                   .dtype = MT_F32,
                                   .op = "leak",
                                   .span = span,
                                   .layer = -1,
                                   .dims = 1,
                                   .shape = {(int64_t)(leak->bytes / sizeof(float))}};
    mt_label_id id = mt_alloc_intern_label(leak->alloc, &label);
    (void)mt_alloc_take(leak->alloc, leak->bytes, 0, id, span, &kept); /* without room the run says so by itself */
}

static mt_status train(struct mt_device *device, const struct mt_sink *sink, uint64_t leak_bytes)
{
    struct mt_alloc_settings settings;
    struct mt_training_config config = tiny_config();
    struct leak leak = {.bytes = leak_bytes};
    mt_status status = mt_alloc_settings_parse("", &settings);
    if (status == MT_OK)
        status = mt_alloc_create(device, sink, &settings, &leak.alloc);
    if (status != MT_OK)
        return status;
    struct mt_training_observer observer = {.context = &leak, .step_done = keep_a_block};
    status = mt_training_run(device, leak.alloc, &config, &observer);
    mt_alloc_destroy(leak.alloc);
    return status;
}

/* Adds a run to the trace; one that does not fit is recorded as such. */
static mt_status record(const struct self_test *test, const char *name, const char *spelling, uint64_t leak_bytes)
{
    struct mt_device *device;
    struct mt_recorder *recorder = NULL;
    mt_status status = mt_device_open(spelling, &device);
    if (status != MT_OK)
        return status;
    const struct mt_run_info info = {
        .name = name, .device = device->name, .capacity_bytes = device->capacity_bytes, .ring_records = 1 << 16};
    status = mt_recorder_open(test->path, &info, &recorder);
    if (status == MT_OK) {
        status = train(device, mt_recorder_sink(recorder), leak_bytes);
        mt_run_state state = status == MT_OK ? MT_RUN_DONE : MT_RUN_OOM;
        status = status == MT_OUT_OF_MEMORY ? MT_OK : status;
        status = mt_status_keep(status, mt_recorder_close(recorder, state));
    }
    mt_device_close(device);
    return status;
}

static mt_status begin(struct self_test *test)
{
    const char *base = getenv("TMPDIR");
    int length = snprintf(test->folder, sizeof test->folder, "%s/memtrace-check-XXXXXX",
                          base != NULL && base[0] != '\0' ? base : "/tmp");
    errno = length < (int)sizeof test->folder ? 0 : ENAMETOOLONG;
    if (errno != 0 || mkdtemp(test->folder) == NULL) {
        test->folder[0] = '\0';
        return mt_fail(MT_FAILED, "no folder for the test in %s: %s", base != NULL ? base : "/tmp", strerror(errno));
    }
    snprintf(test->path, sizeof test->path, "%s/trace.db", test->folder);
    mt_status status = record(test, clean, ROOM, 0);
    if (status == MT_OK)
        status = record(test, twin, ROOM, 0);
    if (status == MT_OK)
        status = record(test, leaky, ROOM, LEAK_BYTES);
    return status == MT_OK ? record(test, too_large, NO_ROOM, 0) : status;
}

static void end(const struct self_test *test)
{
    static const char *const endings[] = {"", "-wal", "-shm", "-journal", "-ring"};
    char name[sizeof test->path + 16];
    if (test->folder[0] == '\0')
        return;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        snprintf(name, sizeof name, "%s%s", test->path, endings[i]);
        unlink(name);
    }
    rmdir(test->folder);
}

/* What a check of a run came to. */
struct verdict {
    size_t failed;
    uint64_t last_value; /* of the last criterion, the one that the budget is about */
};

static mt_status check_questions(const struct mt_budget *budget, const struct mt_question *question,
                                 const struct mt_question *against, struct verdict *out)
{
    struct mt_check check;
    mt_status status = mt_check_run(budget, question, against, &check);
    if (status == MT_OK)
        *out = (struct verdict){check.failed, check.criteria[check.count - 1].value_bytes};
    mt_check_release(&check);
    return status;
}

static mt_status check_run(const struct self_test *test, const char *run, const struct mt_budget *budget,
                           struct verdict *out)
{
    struct mt_question question, against;
    mt_status status = mt_question_open_named(test->path, run, &question);
    if (status != MT_OK)
        return status;
    if (budget->against == NULL) {
        status = check_questions(budget, &question, NULL, out);
    } else {
        status = mt_question_open_named(test->path, budget->against, &against);
        if (status == MT_OK) {
            status = check_questions(budget, &question, &against, out);
            mt_question_close(&against);
        }
    }
    mt_question_close(&question);
    return status;
}

static void add_trial(struct self_test *test, const char *criterion, bool held, const char *expected)
{
    struct trial *trial = &test->trials[test->count++];
    trial->held = held;
    snprintf(trial->criterion, sizeof trial->criterion, "%s", criterion);
    snprintf(trial->expected, sizeof trial->expected, "%s", expected);
    test->broken += !held;
}

/* A bound that the clean run just keeps must let it through, and one byte less must stop it. */
static mt_status try_bound(struct self_test *test, const char *criterion, const struct mt_budget *budget,
                           uint64_t *bound)
{
    struct verdict kept = {0}, missed = {0};
    char bytes[MT_BYTES_TEXT], expected[96];
    *bound = MT_NO_BOUND - 1;
    mt_status status = check_run(test, clean, budget, &kept);
    *bound = kept.last_value;
    uint64_t value = kept.last_value;
    if (status == MT_OK)
        status = check_run(test, clean, budget, &kept);
    *bound = value - 1;
    if (status == MT_OK)
        status = check_run(test, clean, budget, &missed);
    snprintf(expected, sizeof expected, "lets %s through, and stops at a bound of one byte less",
             mt_format_bytes(value, bytes));
    if (status == MT_OK)
        add_trial(test, criterion, value > 0 && kept.failed == 0 && missed.failed == 1, expected);
    return status;
}

static mt_status try_peaks(struct self_test *test)
{
    mt_status status = MT_OK;
    for (int i = 0; i < MT_MEASURE_COUNT && status == MT_OK; i++) {
        char criterion[MT_BYTES_TEXT];
        struct mt_budget budget = mt_budget_empty();
        snprintf(criterion, sizeof criterion, "max-%s", mt_measure_name((mt_measure)i));
        status = try_bound(test, criterion, &budget, &budget.most_bytes[i]);
    }
    return status;
}

static mt_status try_category(struct self_test *test, mt_bound_kind kind)
{
    struct mt_budget budget = mt_budget_empty();
    mt_status status = mt_budget_add_bound(&budget, kind, "Param<=0");
    if (status == MT_OK)
        status = try_bound(test, mt_bound_kind_name(kind), &budget, &budget.bounds[0].bytes);
    mt_budget_release(&budget);
    return status;
}

/* A budget that one run keeps and another misses. */
static mt_status try_runs(struct self_test *test, const char *criterion, const struct mt_budget *budget,
                          const char *stopped, const char *expected)
{
    struct verdict kept = {0}, missed = {0};
    mt_status status = check_run(test, clean, budget, &kept);
    if (status == MT_OK)
        status = check_run(test, stopped, budget, &missed);
    if (status == MT_OK)
        add_trial(test, criterion, kept.failed == 0 && missed.failed > 0, expected);
    return status;
}

static mt_status try_leaks(struct self_test *test)
{
    char bytes[MT_BYTES_TEXT], expected[96];
    struct mt_budget budget = mt_budget_empty();
    budget.no_leaks = true;
    snprintf(expected, sizeof expected, "lets the clean run through, and stops the injected leak of %s a step",
             mt_format_bytes(LEAK_BYTES, bytes));
    return try_runs(test, "no-leaks", &budget, leaky, expected);
}

static mt_status try_against(struct self_test *test)
{
    struct mt_budget budget = mt_budget_empty();
    mt_budget_set_against(&budget, twin);
    budget.tolerance_percent = 0;
    mt_status status =
        try_runs(test, "against", &budget, leaky, "lets a run like the other through, and stops one with more");
    mt_budget_release(&budget);
    return status;
}

static mt_status try_end(struct self_test *test)
{
    struct mt_budget budget = mt_budget_empty();
    budget.most_bytes[MT_MEASURE_ALLOCATED] = MT_NO_BOUND - 1;
    return try_runs(test, "ended well", &budget, too_large, "stops a run that ended out of memory within its bounds");
}

static mt_status try_all(struct self_test *test)
{
    mt_status status = begin(test);
    if (status == MT_OK)
        status = try_leaks(test);
    if (status == MT_OK)
        status = try_peaks(test);
    if (status == MT_OK)
        status = try_category(test, MT_BOUND_LIVE);
    if (status == MT_OK)
        status = try_category(test, MT_BOUND_LARGEST);
    if (status == MT_OK)
        status = try_against(test);
    return status == MT_OK ? try_end(test) : status;
}

static void print_table(const struct self_test *test)
{
    static const struct mt_column columns[] = {
        {"", MT_ALIGN_LEFT}, {"criterion", MT_ALIGN_LEFT}, {"must do", MT_ALIGN_LEFT}};
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < test->count; i++) {
        mt_table_add(table, test->trials[i].held ? "does" : "DOES NOT");
        mt_table_add(table, test->trials[i].criterion);
        mt_table_add(table, test->trials[i].expected);
    }
    mt_table_print(table);
    mt_table_destroy(table);
}

static void print_json(const struct self_test *test)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < test->count; i++)
        json_array_append_new(rows, json_pack("{s:s, s:s, s:b}", "criterion", test->trials[i].criterion, "expected",
                                              test->trials[i].expected, "held", test->trials[i].held));
    mt_json_print(
        json_pack("{s:s, s:b, s:o}", "schema", "memtrace.check_self_test/1", "works", test->broken == 0, "rows", rows));
}

mt_status mt_check_self_test(const struct mt_trace_options *options)
{
    struct self_test test = {0};
    mt_status status = try_all(&test);
    end(&test);
    if (status != MT_OK)
        return mt_fail_context(MT_USAGE, "the gate could not be tried");
    (options->json ? print_json : print_table)(&test);
    if (test.broken > 0) {
        mt_note("check: the gate is broken: %zu of %zu criteria do not what they must", test.broken, test.count);
        return MT_OK;
    }
    return mt_fail(MT_FAILED,
                   "the injected leak was found and all %zu criteria close: this exit code says that the gate"
                   " works",
                   test.count);
}
