/* What took the GPU's time, of runs whose kernels were watched. */
#include "answer/escape.h"
#include "answer/kernel_text.h"
#include "base/memory.h"
#include "study/report_sections.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A run's kernels under way to the page. */
struct profile {
    const struct mt_run *run;
    struct mt_steps_row steps;
    struct mt_kernels kernels;
};

static double ms_a_step(const struct profile *profile, uint64_t total_ns)
{
    return (double)total_ns * 1e-6 / (double)profile->kernels.steps;
}

static void add_ms(struct mt_page *page, double ms)
{
    char text[MT_BYTES_TEXT];
    snprintf(text, sizeof text, "%.3f", ms);
    mt_page_cell_number(page, ms, text);
}

static void add_share(struct mt_page *page, uint64_t part, uint64_t whole)
{
    char text[MT_BYTES_TEXT];
    double percent = whole > 0 ? 100 * (double)part / (double)whole : 0;
    mt_page_cell_number(page, percent, mt_format_share((double)part, (double)whole, text));
}

static void add_phase(struct mt_page *page, const struct profile *profile, const struct mt_kernel_phase *phase)
{
    const struct mt_kernel_row *other = mt_kernel_phase_top_other(phase);
    struct mt_text name = {0};
    mt_page_cell(page, phase->phase[0] != '\0' ? phase->phase : "no op");
    add_ms(page, ms_a_step(profile, phase->total_ns));
    add_share(page, phase->total_ns, profile->kernels.total_ns);
    mt_page_cell_count(page, (int64_t)(phase->count / profile->kernels.steps));
    add_ms(page, ms_a_step(profile, phase->product_ns));
    add_share(page, phase->product_ns, phase->total_ns);
    if (other == NULL) {
        mt_page_cell_absent(page);
        mt_page_cell_absent(page);
        return;
    }
    add_ms(page, ms_a_step(profile, other->total_ns));
    mt_kernel_text_add(&name, other->name);
    mt_page_cell(page, mt_text_get(&name));
    mt_text_release(&name);
}

static void say_shares(struct mt_page *page, const struct profile *profile)
{
    const struct mt_kernels *kernels = &profile->kernels;
    char share[MT_BYTES_TEXT];
    mt_page_say(page, "Matrix products take %s of the kernels' time of a step.",
                mt_format_share((double)kernels->product_ns, (double)kernels->total_ns, share));
    if (kernels->softmax_ns > 0 && kernels->attention_product_ns > 0)
        mt_page_say(
            page, "Softmax of the forward pass takes %.3f ms and attention's two products %.3f ms: %.2f times as long.",
            ms_a_step(profile, kernels->softmax_ns), ms_a_step(profile, kernels->attention_product_ns),
            (double)kernels->softmax_ns / (double)kernels->attention_product_ns);
    if (kernels->lost > 0)
        mt_page_say(page, "Of %zu kernels there is no record, so the figures are too low.", (size_t)kernels->lost);
}

static void add_profile(struct mt_page *page, const struct profile *profile)
{
    static const struct mt_column columns[] = {{"phase", MT_ALIGN_LEFT},          {"ms", MT_ALIGN_RIGHT},
                                               {"share", MT_ALIGN_RIGHT},         {"kernels", MT_ALIGN_RIGHT},
                                               {"products", MT_ALIGN_RIGHT},      {"share of phase", MT_ALIGN_RIGHT},
                                               {"largest other", MT_ALIGN_RIGHT}, {"", MT_ALIGN_LEFT}};
    struct mt_text title = {0};
    mt_text_add(&title, "Kernels of a step: %s, %s, seq %s, %s on %s", profile->steps.model, profile->steps.mode,
                profile->steps.seq, profile->steps.precision, profile->run->device);
    mt_page_table(page, "kernels", title.data, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < profile->kernels.phase_count; i++)
        add_phase(page, profile, &profile->kernels.phases[i]);
    say_shares(page, profile);
    mt_text_release(&title);
}

static mt_status is_watched(struct mt_trace *trace, const struct mt_run *run, bool *out)
{
    struct mt_setting_row *settings;
    size_t count;
    mt_status status = mt_trace_settings(trace, run, &settings, &count);
    *out = strcmp(mt_setting_find(settings, count, "kernels"), "on") == 0;
    free(settings);
    return status;
}

/* *shown counts the runs that had kernels. */
static mt_status add_run(struct mt_report *report, const struct mt_run *run, size_t *shown)
{
    struct profile profile = {.run = run};
    bool watched;
    mt_status status = is_watched(report->trace, run, &watched);
    if (status != MT_OK || !watched)
        return status;
    status = mt_trace_steps(report->trace, run, &profile.steps);
    if (status == MT_OK)
        status = mt_trace_kernels(report->trace, run, &profile.kernels);
    if (status == MT_OK && profile.kernels.total_ns > 0 && profile.kernels.steps > 0) {
        add_profile(report->page, &profile);
        ++*shown;
    }
    mt_kernels_release(&profile.kernels);
    return status;
}

mt_status mt_report_kernels(struct mt_report *report)
{
    size_t count, shown = 0;
    const struct mt_run *runs = mt_trace_runs(report->trace, &count);
    mt_status status = MT_OK;
    mt_page_section(report->page, "kernels", "Kernels");
    for (size_t i = 0; i < count && status == MT_OK; i++)
        status = add_run(report, &runs[i], &shown);
    if (status == MT_OK && shown == 0)
        mt_page_hint(report->page, report->remedies[MT_LACKS_KERNELS],
                     "No run has records of kernels; on an NVIDIA GPU this adds them");
    return status;
}
