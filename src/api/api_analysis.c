/* Analyses of runs: the difference of two, advice, and whether a run fits a device; and exports.
 *
 * Each answer is one allocation, as in api_trace.c. */
#include "api/trace_parts.h"

#include "analysis/advise/advise.h"
#include "analysis/diff/diff.h"
#include "analysis/fit/fit.h"
#include "trace/export/export.h"

#include <assert.h>
#include <stdlib.h>

static mt_status find_question(memtrace_trace *trace, const memtrace_run_row *row, struct mt_question *out)
{
    *out = (struct mt_question){0};
    mt_status status = trace != NULL ? mt_api_find_run(trace, row, &out->run) : mt_fail(MT_USAGE, "the trace is NULL");
    if (status == MT_OK)
        out->trace = mt_api_trace_of(trace);
    return status;
}

static memtrace_cause make_cause(const struct mt_diff_cause *cause)
{
    return (memtrace_cause){.kind = mt_cause_name(cause->kind),
                            .category = mt_api_text(cause->category),
                            .bytes = cause->bytes,
                            .a_blocks = cause->blocks[MT_SIDE_A],
                            .b_blocks = cause->blocks[MT_SIDE_B],
                            .a_bytes = cause->requested_bytes[MT_SIDE_A],
                            .b_bytes = cause->requested_bytes[MT_SIDE_B]};
}

memtrace_status memtrace_trace_diff(memtrace_trace *a_trace, const memtrace_run_row *a, memtrace_trace *b_trace,
                                    const memtrace_run_row *b, memtrace_measured measured,
                                    const memtrace_cause *const **out_rows, size_t *out_count)
{
    struct mt_question questions[MT_SIDE_COUNT];
    struct mt_diff diff = {0};
    mt_status status = find_question(a_trace, a, &questions[MT_SIDE_A]);
    MT_THEN(status, find_question(b_trace, b, &questions[MT_SIDE_B]));
    if (status == MT_OK && measured != MEMTRACE_ALLOCATED && measured != MEMTRACE_RESERVED)
        status = mt_fail(MT_USAGE, "a difference of measure %d; there are %d and %d", (int)measured, MEMTRACE_ALLOCATED,
                         MEMTRACE_RESERVED);
    MT_THEN(status, mt_trace_diff(&questions[MT_SIDE_A], &questions[MT_SIDE_B], &diff));
    if (status == MT_OK) {
        const struct mt_diff_parts *parts = measured == MEMTRACE_ALLOCATED ? &diff.allocated : &diff.reserved;
        const void **rows = mt_api_rows(parts->cause_count, sizeof(memtrace_cause));
        for (size_t i = 0; i < parts->cause_count; i++)
            *(memtrace_cause *)rows[i] = make_cause(&parts->causes[i]);
        *out_rows = (const memtrace_cause *const *)rows;
        *out_count = parts->cause_count;
    }
    mt_diff_release(&diff);
    return mt_api_status(status);
}

static memtrace_finding make_finding(const struct mt_finding *finding)
{
    return (memtrace_finding){.pattern = mt_finding_kinds[finding->pattern].name,
                              .category = mt_api_text(finding->category),
                              .role = mt_api_text(finding->role),
                              .op = mt_api_text(finding->op),
                              .phase = mt_api_text(finding->phase),
                              .span = mt_api_text(finding->place),
                              .bytes = finding->bytes,
                              .blocks = finding->blocks,
                              .saved_bytes = finding->saved_bytes};
}

memtrace_status memtrace_trace_advise(memtrace_trace *trace, const memtrace_run_row *run, size_t limit,
                                      const memtrace_finding *const **out_rows, size_t *out_count)
{
    struct mt_question question;
    struct mt_advice_material material = {0};
    struct mt_advice advice = {0};
    mt_status status = find_question(trace, run, &question);
    if (status == MT_OK && limit == 0)
        status = mt_fail(MT_USAGE, "0 findings were requested; request 1 or more");
    MT_THEN(status, mt_advice_material_load(&question, NULL, &material));
    MT_THEN(status, mt_advice_create(&material.input, MT_ADVICE_WORTHWHILE, limit, &advice));
    if (status == MT_OK) {
        const void **rows = mt_api_rows(advice.count, sizeof(memtrace_finding));
        for (size_t i = 0; i < advice.count; i++)
            *(memtrace_finding *)rows[i] = make_finding(&advice.findings[i]);
        *out_rows = (const memtrace_finding *const *)rows;
        *out_count = advice.count;
    }
    mt_advice_release(&advice);
    mt_advice_material_release(&material);
    return mt_api_status(status);
}

/* Sets the plan of a run of the built-in model from names and values, like the options of `memtrace fit`. */
static mt_status set_plan(const memtrace_setting *settings, size_t count, struct mt_run_plan *out)
{
    const char *given[MT_SETTING_COUNT] = {NULL};
    for (size_t i = 0; i < count; i++) {
        mt_setting setting = settings[i].name != NULL ? mt_setting_find_name(settings[i].name) : MT_SETTING_COUNT;
        if (setting == MT_SETTING_COUNT || settings[i].value == NULL)
            return mt_fail(MT_USAGE, "setting %zu, \"%s\", is none, or has no value", i, mt_api_text(settings[i].name));
        given[setting] = settings[i].value;
    }
    *out = mt_run_plan_usual();
    out->alloc = mt_alloc_settings_of(MT_POLICY_TORCH);
    return mt_run_plan_set(out, given);
}

memtrace_status memtrace_fit_check(const memtrace_setting *settings, size_t count, const char *device,
                                   memtrace_fit *out_fit)
{
    struct mt_run_plan plan;
    struct mt_fit_answer answer;
    mt_status status = device != NULL ? set_plan(settings, count, &plan) : mt_fail(MT_USAGE, "the device is NULL");
    if (status != MT_OK)
        return mt_api_status(status);
    plan.device = device;
    status = mt_fit_find_remedies(&plan, &answer);
    if (status == MT_OK)
        *out_fit = (memtrace_fit){.fits = answer.fit.fits,
                                  .capacity_bytes = answer.fit.capacity_bytes,
                                  .reserved_bytes = answer.fit.reserved_bytes,
                                  .enough_bytes = answer.fit.enough_bytes};
    return mt_api_status(status);
}

/* The formats by the caller's numbers. */
static const struct {
    mt_export_format format;
    mt_export_table table;
} exports[] = {[MEMTRACE_BLOCKS_CSV] = {MT_EXPORT_CSV, MT_EXPORT_BLOCKS},
               [MEMTRACE_EVENTS_CSV] = {MT_EXPORT_CSV, MT_EXPORT_EVENTS},
               [MEMTRACE_FOLDED] = {MT_EXPORT_FOLDED, MT_EXPORT_BLOCKS},
               [MEMTRACE_TORCH_PICKLE] = {MT_EXPORT_PICKLE, MT_EXPORT_BLOCKS},
               [MEMTRACE_PERFETTO] = {MT_EXPORT_PERFETTO, MT_EXPORT_BLOCKS}};
enum { EXPORT_COUNT = sizeof exports / sizeof exports[0] };

memtrace_status memtrace_trace_export(memtrace_trace *trace, const memtrace_run_row *run, memtrace_format format,
                                      const char *path)
{
    struct mt_question question;
    struct mt_output_file *file;
    mt_status status = find_question(trace, run, &question);
    if (status == MT_OK && path == NULL)
        status = mt_fail(MT_USAGE, "the path of an export is NULL");
    if (status == MT_OK && (size_t)format >= EXPORT_COUNT)
        status = mt_fail(MT_USAGE, "format %d; there are 0 to %d", (int)format, EXPORT_COUNT - 1);
    MT_THEN(status, mt_output_file_open(path, MT_OUTPUT_BY_NAME, &file));
    if (status != MT_OK)
        return mt_api_status(status);
    const struct mt_export_request request = {.from = {question.trace, question.run},
                                              .format = exports[format].format,
                                              .table = exports[format].table,
                                              .step = MT_ALL_STEPS,
                                              .layers = MT_LAYERS_EACH,
                                              .moment = format == MEMTRACE_TORCH_PICKLE ? MT_STACKS_WHOLE_RUN
                                                                                        : MT_STACKS_AT_PEAK};
    return mt_api_status(mt_output_file_close(file, mt_export(&request, file)));
}
