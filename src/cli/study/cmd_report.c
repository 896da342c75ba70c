/* memtrace report: a page with the runs of a trace, and the tables of the published study. */
#include "answer/output_file.h"
#include "answer/report_page.h"
#include "cli/command.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "cli/run/told_session.h"
#include "page/page.h"
#include "study/report_runs.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

typedef enum format { FORMAT_MARKDOWN, FORMAT_HTML, FORMAT_BY_NAME } format;
static const char *const format_names[] = {[FORMAT_MARKDOWN] = "markdown", [FORMAT_HTML] = "html", NULL};

struct report_options {
    bool help, json, study, timelines;
    const char *trace, *device, *output;
    int format;
};

#define OPTION(value_kind, field, ...)                                                                                 \
    {                                                                                                                  \
        .kind = MT_OPTION_##value_kind, .offset = offsetof(struct report_options, field), __VA_ARGS__                  \
    }
static const struct mt_option options[] = {
    OPTION(FLAG, study, .name = "--study", .help = "first run whatever the published study needs and the trace lacks"),
    OPTION(TEXT, device, .name = "--device", .value = "DEVICE", .help = "where the study runs (sim)",
           .takes = MT_TAKES_DEVICE),
    OPTION(FLAG, timelines, .name = "--timelines",
           .help = "also write the timeline of each run next to FILE, with links from its rows and bars"),
    OPTION(CHOICE, format, .name = "--format", .value = "FORMAT",
           .help = "how the page is written (by the ending of FILE, else markdown)", .choices = format_names),
    OPTION(TEXT, output, .name = "-o", .value = "FILE", .help = "where the page goes (standard output)",
           .takes = MT_TAKES_FILE),
    OPTION(TEXT, trace, .name = "--trace", .value = "FILE", .help = "the trace (default: " MT_DEFAULT_TRACE ")",
           .takes = MT_TAKES_FILE),
    MT_OPTION_JSON(struct report_options),
    MT_OPTION_HELP(struct report_options),
    MT_OPTIONS_END,
};
#undef OPTION

/* File name extensions by format. */
static const struct {
    const char *ending;
    format format;
} endings[] = {{".html", FORMAT_HTML},
               {".htm", FORMAT_HTML},
               {".md", FORMAT_MARKDOWN},
               {".markdown", FORMAT_MARKDOWN},
               {".txt", FORMAT_MARKDOWN}};

/* Returns the extension of a path's name, ".html"; "" if it has none. */
static const char *ending_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path, *dot = strrchr(name, '.');
    return dot != NULL && dot != name ? dot : "";
}

/* Finds the format: the given one, or the one of the output's extension. A name without an extension is Markdown, and
 * so is stdout. Fails with MT_USAGE if the extension belongs to another format. */
static mt_status find_format(const struct report_options *report, format *out)
{
    const char *ending = report->output != NULL ? ending_of(report->output) : "";
    *out = report->format != FORMAT_BY_NAME ? (format)report->format : FORMAT_MARKDOWN;
    if (report->format != FORMAT_BY_NAME || ending[0] == '\0')
        return MT_OK;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        if (strcasecmp(ending, endings[i].ending) == 0) {
            *out = endings[i].format;
            return MT_OK;
        }
    return mt_fail(
        MT_USAGE,
        "-o %s: a report is written as HTML (.html) or Markdown (.md), not as %s; name it so, or add --format",
        report->output, ending + 1);
}

static mt_status check_output(const struct report_options *report)
{
    format chosen;
    if (report->timelines && (report->output == NULL || strcmp(report->output, "-") == 0))
        return mt_fail(MT_USAGE, "--timelines writes to the folder of the page, so it needs -o FILE");
    if (report->output != NULL && report->json)
        return mt_fail(MT_USAGE, "--json prints on standard output: -o is for a page");
    MT_TRY(mt_output_file_check("-o", report->output, NULL));
    return find_format(report, &chosen);
}

static mt_status write_page(const struct report_options *report, const struct mt_page *page)
{
    if (report->json) {
        mt_json_print(mt_page_json(page));
        return MT_OK;
    }
    struct mt_text text = {0};
    format chosen;
    MT_TRY(find_format(report, &chosen));
    (chosen == FORMAT_HTML ? mt_page_write_html : mt_page_write_markdown)(page, &text);
    mt_status status = mt_output_file_put(report->output, MT_OUTPUT_BY_NAME, mt_text_get(&text));
    if (status == MT_OK && report->output != NULL)
        mt_note("wrote %s", report->output);
    mt_text_release(&text);
    return status;
}

/* Adds the introduction: "41 runs of 2026-11-28 to 2026-11-29 in study.db, read by memtrace 0.2.0." */
static void introduce(const struct mt_report *report, const char *trace)
{
    size_t count;
    const struct mt_run *runs = mt_trace_runs(report->trace, &count);
    const char *first = runs[0].started_at, *last = runs[count - 1].started_at;
    enum { DATE = 10 }; /* characters of a date */
    bool is_one_day = strncmp(first, last, DATE) == 0;
    mt_page_say(report->page,
                "%zu run%s of %.*s%s%.*s in %s, read by memtrace " MT_VERSION
                ". Allocated: the bytes of live blocks; reserved: the bytes that the allocator holds from the "
                "device; peaks are of a whole run. GiB and MiB are 2³⁰ and 2²⁰ bytes.",
                count, count == 1 ? "" : "s", DATE, first, is_one_day ? "" : " to ", is_one_day ? 0 : DATE, last,
                trace);
}

static const struct mt_field run_fields[] = {
    MT_COLUMN(INTEGER, int64_t, struct mt_report_run, run.id, "run"),
    MT_COLUMN(TEXT, const char *, struct mt_report_run, name, "name"),
    MT_COLUMN(TEXT, const char *, struct mt_report_run, run.device, "device"),
    MT_COLUMN(TEXT, char *, struct mt_report_run, model, "model"),
    MT_COLUMN(INTEGER, int64_t, struct mt_report_run, batch, "batch"),
    MT_COLUMN(INTEGER, int64_t, struct mt_report_run, seq, "seq"),
    MT_COLUMN(TEXT, const char *, struct mt_report_run, pass, "pass"),
    MT_COLUMN(TEXT, const char *, struct mt_report_run, steps.precision, "precision"),
    MT_COLUMN(INTEGER, int64_t, struct mt_report_run, steps.warmup, "warm-up"),
    MT_COLUMN(INTEGER, int64_t, struct mt_report_run, run.steps, "steps"),
    MT_COLUMN(TEXT, char *, struct mt_report_run, allocator, "allocator"),
    MT_COLUMN(TEXT, const char *, struct mt_report_run, run.state, "ended"),
    MT_FIELDS_END,
};
static const struct mt_row_type run_type = MT_ROW_TYPE(struct mt_report_run, run_fields);

/* Adds the tables of the study, which compare runs by what was trained. */
static mt_status add_study(struct mt_report *report)
{
    static mt_status (*const sections[])(struct mt_report *) = {
        mt_report_timing,  mt_report_implementations, mt_report_peaks,       mt_report_autocast,
        mt_report_account, mt_report_residual,        mt_report_categories,  mt_report_largest,
        mt_report_kernels, mt_report_dtypes,          mt_report_accumulation};
    mt_status status = MT_OK;
    for (size_t i = 0; i < sizeof sections / sizeof sections[0] && status == MT_OK; i++)
        status = sections[i](report);
    mt_page_section(report->page, "runs", "Runs");
    mt_page_table(report->page, "runs", "The runs of this page", &run_type, NULL, 0);
    for (size_t i = 0; i < report->run_count; i++) {
        mt_page_row(report->page, &run_type, &report->runs[i]);
        mt_report_link(report, &report->runs[i].run);
    }
    return status;
}

/* Adds the page's content: the user's own runs, then tables of those that can be compared. The study's page has only
 * its tables. */
static mt_status fill_page(struct mt_report *report, const struct report_options *given)
{
    mt_status status = MT_OK;
    introduce(report, given->trace);
    if (!given->study)
        status = mt_report_own(report);
    if (report->run_count > 0)
        MT_THEN(status, add_study(report));
    return status;
}

static void write_part(void *context, const void *data, size_t bytes)
{
    mt_output_file_write(context, data, bytes);
}

/* Writes the timeline of a run into a folder. */
static mt_status write_timeline(const struct mt_report *report, const struct mt_run *run, const char *trace,
                                const char *folder)
{
    struct mt_text path = {0};
    struct mt_output_file *file;
    const struct mt_page_plan plan = {
        .program = "memtrace " MT_VERSION, .sources = {{report->trace, run, trace}}, .source_count = 1};
    mt_text_add(&path, "%s/run-%" PRId64 ".html", folder, run->id);
    mt_status status = mt_output_file_open(mt_text_get(&path), MT_OUTPUT_BY_NAME, &file);
    if (status == MT_OK) {
        const struct mt_page_output output = {.context = file, .write = write_part};
        status = mt_output_file_close(file, mt_page_write(&plan, &output));
    }
    mt_text_release(&path);
    return status;
}

/* Writes the timelines that the page links to. */
static mt_status write_timelines(const struct mt_report *report, const char *trace, const char *folder)
{
    mt_status status = MT_OK;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return mt_fail(MT_NOT_WRITTEN, "cannot make the folder %s: %s", folder, strerror(errno));
    for (size_t i = 0; i < report->run_count && status == MT_OK; i++)
        status = write_timeline(report, &report->runs[i].run, trace, folder);
    for (size_t i = 0; i < report->other_count && status == MT_OK; i++)
        status = write_timeline(report, report->others[i], trace, folder);
    if (status == MT_OK)
        mt_note("wrote %zu timelines into %s", report->run_count + report->other_count, folder);
    return status;
}

/* Adds the folder of timelines: "out/report-timelines" for "out/report.html". */
static void add_folder(struct mt_text *out, const char *output)
{
    const char *name = strrchr(output, '/'), *ending = strrchr(output, '.');
    bool has_ending = ending != NULL && (name == NULL || ending > name + 1) && ending > output;
    mt_text_add(out, "%.*s-timelines", (int)(has_ending ? ending - output : (ptrdiff_t)strlen(output)), output);
}

static mt_status load(const struct report_options *options_given, struct mt_trace *trace, struct mt_report *report)
{
    mt_status status = mt_report_load(trace, report);
    if (status != MT_OK || report->run_count > 0 || report->other_count > 0)
        return status;
    return mt_fail(MT_USAGE,
                   "%s has no run that ended, so there is nothing to report: `memtrace run` adds one, `memtrace report "
                   "--study` all that the tables need",
                   options_given->trace);
}

/* Runs the study's missing runs. A failure also says what to do. */
static mt_status run_study(const struct report_options *report)
{
    const struct mt_session_observer observer = mt_told_observer();
    mt_status status = mt_report_study(report->trace, report->device, &observer);
    return mt_told_device_failure(status, report->device);
}

static mt_status run_report(const void *given)
{
    const struct report_options *report_options = given;
    struct mt_trace *trace = NULL;
    struct mt_text study = {0}, folder = {0};
    mt_text_add(&study, "memtrace report --study --trace ");
    mt_text_add_shell_word(&study, report_options->trace);
    const char *const remedies[MT_REPORT_LACK_COUNT] = {
        [MT_LACKS_AUTOCAST_PAIRS] = "memtrace sweep --autocast off,bf16 --seq 128,256,512 --mode fwd,fwd_bwd",
        [MT_LACKS_AUTOCAST] = "memtrace run --autocast bf16",
        [MT_LACKS_KERNELS] = "memtrace run --kernels --warmup 2",
        [MT_LACKS_PUBLISHED] = study.data,
        [MT_LACKS_WARMUP] = "memtrace run --warmup 5 --steps 10",
        [MT_LACKS_MEMORY] = "memtrace oom --run",
        [MT_LACKS_KEPT_OUTPUT] = "memtrace run --mode fwd --keep-output on",
        [MT_LACKS_IMPLEMENTATIONS] = "memtrace sweep --impl eager,fused --model small,medium,large,xl,2.7B"};
    struct mt_report report = {
        .remedies = remedies,
        .page = mt_page_create(report_options->study ? "Memory of transformer training" : "Memory report")};
    mt_status status = check_output(report_options);
    if (status == MT_OK && report_options->timelines) {
        add_folder(&folder, report_options->output);
        const char *name = strrchr(mt_text_get(&folder), '/');
        report.timelines = name != NULL ? name + 1 : mt_text_get(&folder);
    }
    if (status == MT_OK && report_options->study)
        status = run_study(report_options);
    MT_THEN(status, mt_trace_open_to_ask(report_options->trace, &trace));
    MT_THEN(status, load(report_options, trace, &report));
    MT_THEN(status, fill_page(&report, report_options));
    if (status == MT_OK && report_options->timelines)
        status = write_timelines(&report, report_options->trace, mt_text_get(&folder));
    MT_THEN(status, write_page(report_options, report.page));
    mt_report_release(&report);
    mt_page_destroy(report.page);
    mt_trace_close(trace);
    mt_text_release(&study);
    mt_text_release(&folder);
    return status;
}

const struct mt_command mt_command_report = {
    .name = "report",
    .summary = "Writes a page of findings, tables and charts from the runs of a trace.",
    .usage = "[OPTIONS]",
    .details =
        "The findings come first. Then follow the runs of the trace: a list, and for each of the newest eight what\n"
        "it needs, its memory over time, and its peak by role, category, module and phase.\n"
        "\n"
        "Runs of memtrace run can be compared: timing with and without warm-up; eager against compiled-like (fused)\n"
        "steps; peaks by sequence length, in fp32 and under autocast, and the parts of the difference; the whole\n"
        "model by formula, term by term; the residual stream; categories and largest blocks; kernels; dtypes under\n"
        "autocast; and the accumulation experiment. Published figures are shown next to figures of the same runs.\n"
        "Of each configuration, the newest run counts. Missing runs are listed with the command that creates them;\n"
        "--study runs all of them, on sim within seconds, and its page has these tables alone.\n",
    .examples = "  memtrace report --study -o report.html\n"
                "  memtrace report -o report.html --timelines\n"
                "  memtrace report --trace memtrace.db > report.md\n"
                "  memtrace report --json\n",
    .options = options,
    MT_OPTIONS_OF(struct report_options, .trace = MT_DEFAULT_TRACE, .device = "sim", .format = FORMAT_BY_NAME),
    .run = run_report,
};
