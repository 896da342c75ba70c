#include "cli/record/dry_report.h"

#include "analysis/advise/observe.h"
#include "answer/answer.h"
#include "base/memory.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "cli/record/program_notes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- loading ---- */

static mt_status load_run(const struct mt_record_answer *answer, struct mt_dry_report_run *out)
{
    struct mt_question question = {0};
    MT_TRY(mt_trace_open(answer->text, &out->trace));
    MT_TRY(mt_trace_find_numbered(out->trace, answer->number, &question.run));
    question.trace = out->trace;
    out->row = (struct mt_verdict_row){.run = answer->number, .trace = out->path, .rank = question.run->rank};
    MT_TRY(mt_verdict_find(&question, &out->row.verdict));
    MT_TRY(mt_caveat_lists_load(out->trace, question.run, &out->row.caveats));
    return mt_observations_load(&question, &out->row.observations);
}

static void release_run(struct mt_dry_report_run *run)
{
    mt_verdict_release(&run->row.verdict);
    mt_caveat_lists_release(&run->row.caveats);
    mt_observations_release(&run->row.observations);
    mt_trace_close(run->trace);
    free(run->path);
}

static void take_run(struct mt_dry_report *report, const char *trace, const struct mt_record_answer *answer)
{
    struct mt_dry_report_run run = {.path = mt_program_trace_shorten(report->outcome, trace, answer->text)};
    if (load_run(answer, &run) == MT_OK) {
        *MT_HOST_ADD(report->runs, report->count) = run;
        return;
    }
    mt_note("run %" PRId64 " of %s: %s", answer->number, run.path, mt_last_error());
    report->is_unreadable = true;
    release_run(&run);
}

static void take_answer(struct mt_dry_report *report, const char *trace, const struct mt_record_answer *answer)
{
    report->has_processes |= report->pid != 0 && report->pid != answer->pid;
    report->pid = answer->pid;
    report->began |= answer->kind == MT_RECORD_BEGAN || answer->kind == MT_RECORD_RUN;
    if (answer->kind == MT_RECORD_RUN)
        take_run(report, trace, answer);
}

/* True if a is worse than b. */
static bool is_worse(const struct mt_verdict *a, const struct mt_verdict *b)
{
    if (a->is_out_of_memory != b->is_out_of_memory)
        return a->is_out_of_memory;
    return a->needed_bytes > b->needed_bytes;
}

void mt_dry_report_load(const struct mt_program_outcome *outcome, const char *trace, const char *assumed,
                        struct mt_dry_report *out)
{
    *out = (struct mt_dry_report){.outcome = outcome, .assumed = assumed};
    for (size_t i = 0; i < outcome->count; i++)
        take_answer(out, trace, &outcome->answers[i]);
    for (int64_t i = 0; i < out->count; i++)
        if (out->worst == NULL || is_worse(&out->runs[i].row.verdict, &out->worst->row.verdict))
            out->worst = &out->runs[i];
}

void mt_dry_report_release(struct mt_dry_report *report)
{
    for (int64_t i = 0; i < report->count; i++)
        release_run(&report->runs[i]);
    free(report->runs);
    *report = (struct mt_dry_report){0};
}

bool mt_dry_report_is_uncertain(const struct mt_dry_report *report)
{
    for (int64_t i = 0; i < report->count; i++)
        if (mt_verdict_is_uncertain(&report->runs[i].row))
            return true;
    return false;
}

int mt_dry_report_code(const struct mt_dry_report *report, bool is_strict)
{
    const int code = report->outcome->code;
    if (report->worst == NULL)
        return code != 0 ? code : MT_NO_DRY_RUN;
    if (report->worst->row.verdict.is_out_of_memory)
        return code != 0 || is_strict ? MT_OUT_OF_MEMORY : 0;
    return code == 0 && is_strict && mt_dry_report_is_uncertain(report) ? MT_NOT_CERTAIN : code;
}

int mt_dry_reports_code(const struct mt_dry_report *reports, size_t count, bool is_strict)
{
    int code = 0;
    for (size_t i = 0; i < count && code == 0; i++)
        code = mt_dry_report_code(&reports[i], is_strict);
    return code;
}

/* Returns the report with the worst run; the first report if there is no run. */
static const struct mt_dry_report *worst_of(const struct mt_dry_report *reports, size_t count)
{
    const struct mt_dry_report *worst = reports;
    for (size_t i = 1; i < count; i++) {
        const struct mt_dry_report_run *run = reports[i].worst;
        if (run != NULL && (worst->worst == NULL || is_worse(&run->row.verdict, &worst->worst->row.verdict)))
            worst = &reports[i];
    }
    return worst;
}

const struct mt_dry_report_run *mt_dry_reports_worst(const struct mt_dry_report *reports, size_t count)
{
    return worst_of(reports, count)->worst;
}

/* ---- JSON ---- */

/* The program's needs with an assumed value. */
struct assumption {
    const char *value;
    int64_t exit_code;
    struct mt_verdict verdict; /* of the run that needs most; zero: none */
};

#define ROW struct assumption
static const struct mt_field assumption_fields[] = {
    MT_TEXT(ROW, value, "assumed", "assumed", "the value, as of --assume"),
    MT_INTEGER(ROW, exit_code, "exit_code", "exit code", "of the dry run with it"),
    MT_FLAG(ROW, verdict.fits, "fits", "fits", "the program fits the card"),
    MT_BYTES(ROW, verdict.needed_bytes, "bytes", "needs", "of the card"),
    MT_BYTES(ROW, verdict.live_bytes, "live", "live", "the peak of live blocks"),
    MT_BYTES(ROW, verdict.reserved_bytes, "reserved", "reserved", "the peak of reserved memory"),
    MT_FIELDS_END,
};
static const struct mt_row_type assumption_type = MT_ROW_TYPE(ROW, assumption_fields);
#undef ROW

/* The answer: the worst run, and all runs. */
struct answer {
    struct mt_verdict_row worst;
    const char *reason; /* NULL: a dry run took place */
    int64_t exit_code;
    const struct mt_verdict_row *rows;
    size_t count;
    const struct assumption *assumptions;
    size_t assumption_count;
};

#define ROW struct answer
static const struct mt_field answer_fields[] = {
    MT_INTEGER(ROW, exit_code, "exit_code", NULL, "of this command, as `memtrace help` has it"),
    MT_NAME(ROW, reason, "reason", NULL, "why no dry run took place; null if one did"),
    MT_PART(ROW, worst, &mt_verdict_type),
    MT_ROWS(ROW, rows, count, "ranks", &mt_verdict_type, "each run: of each rank, process and card"),
    MT_ROWS(ROW, assumptions, assumption_count, "assumptions", &assumption_type,
            "what the program needs with each value"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_dry_report_type = MT_ROW_TYPE(ROW, answer_fields);
#undef ROW

static const char *reason_of(const struct mt_dry_report *report)
{
    if (report->worst != NULL)
        return NULL;
    if (report->is_unreadable)
        return "its trace can't be read";
    return report->began ? "the program put nothing on a card" : "the program did not import PyTorch";
}

/* Copies the rows of all runs. The caller frees them. */
static struct mt_verdict_row *rows_of(const struct mt_dry_report *reports, size_t count, size_t *out_count)
{
    struct mt_verdict_row *rows = NULL;
    *out_count = 0;
    for (size_t i = 0; i < count; i++)
        for (int64_t k = 0; k < reports[i].count; k++)
            *MT_HOST_ADD(rows, *out_count) = reports[i].runs[k].row;
    return rows;
}

static void print_json(const struct mt_dry_report *reports, size_t count, bool is_strict)
{
    const struct mt_dry_report *worst = worst_of(reports, count);
    struct assumption *assumptions = mt_host_alloc(count * sizeof *assumptions);
    for (size_t i = 0; i < count; i++) {
        assumptions[i] = (struct assumption){reports[i].assumed, mt_dry_report_code(&reports[i], is_strict), {0}};
        if (reports[i].worst != NULL)
            assumptions[i].verdict = reports[i].worst->row.verdict;
    }
    struct answer answer = {.worst = {.trace = "", .rank = -1},
                            .reason = reason_of(worst),
                            .exit_code = mt_dry_reports_code(reports, count, is_strict),
                            .assumptions = assumptions,
                            .assumption_count = count};
    struct mt_verdict_row *rows = rows_of(reports, count, &answer.count);
    answer.rows = rows;
    if (worst->worst != NULL)
        answer.worst = worst->worst->row;
    json_t *value = mt_schema_json("dry-run");
    mt_row_add_json(&mt_dry_report_type, &answer, value);
    mt_json_print(value);
    free(rows);
    free(assumptions);
}

/* ---- text ---- */

/* Prints the notes of one program's processes. */
static void print_notes(const struct mt_dry_report *report)
{
    for (size_t i = 0; i < report->outcome->count; i++) {
        const struct mt_record_answer *answer = &report->outcome->answers[i];
        if (answer->kind == MT_RECORD_NOTE && !report->has_processes)
            mt_note("%s", answer->text);
        else if (answer->kind == MT_RECORD_NOTE || answer->kind == MT_RECORD_LOST)
            mt_program_process_note(answer);
    }
}

/* Prints each line as a note. */
static void print_lines(char *lines)
{
    for (char *line; (line = strsep(&lines, "\n")) != NULL && line[0] != '\0';)
        mt_note("%s", line);
}

/* Prints where a run is stored and how it ended. */
static void print_run(const struct mt_dry_report_run *run)
{
    const struct mt_verdict_row *row = &run->row;
    struct mt_text option = {0}, end = {0};
    mt_text_add_trace_option(&option, run->path);
    mt_verdict_add_end(row, &end);
    mt_note("run %" PRId64 " of %s: %s; see memtrace peak --run %" PRId64 "%s", row->run, run->path, mt_text_get(&end),
            row->run, mt_text_get(&option));
    mt_text_release(&end);
    mt_text_release(&option);
}

static void print_caveats(const struct mt_dry_report_run *run)
{
    struct mt_text caveats = {0};
    mt_verdict_add_caveats(&run->row, &caveats);
    if (caveats.data != NULL)
        print_lines(caveats.data);
    mt_text_release(&caveats);
}

static void print_verdict(const struct mt_dry_report_run *run)
{
    struct mt_text answer = {0}, explain = {0};
    print_caveats(run);
    mt_text_add(&explain, "memtrace oom --run %" PRId64, run->row.run);
    mt_text_add_trace_option(&explain, run->path);
    mt_verdict_add_answer(&run->row, mt_text_get(&explain), &answer);
    mt_note("%s", mt_text_get(&answer));
    mt_text_release(&answer);
    mt_text_release(&explain);
}

/* True if the peaks are equal for all assumed values. */
static bool are_equal(const struct mt_dry_report *reports, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct mt_dry_report_run *first = reports[0].worst, *run = reports[i].worst;
        if (first == NULL || run == NULL || run->row.verdict.live_bytes != first->row.verdict.live_bytes ||
            run->row.verdict.reserved_bytes != first->row.verdict.reserved_bytes)
            return false;
    }
    return true;
}

/* Adds ", 14.65 GiB (none)", or only the value. */
static void add_assumption(const struct mt_dry_report *report, bool has_peak, struct mt_text *out)
{
    const char *comma = out->length > 0 ? ", " : "";
    if (!has_peak)
        mt_text_add(out, "%s%s", comma, report->assumed);
    else if (report->worst == NULL || report->outcome->code != 0)
        mt_text_add(out, "%sfailed (%s)", comma, report->assumed);
    else
        mt_text_add(out, "%s%s (%s)", comma, MT_SIZE(report->worst->row.verdict.live_bytes), report->assumed);
}

/* Prints how the peak depends on the assumed values. */
static void print_assumptions(const struct mt_dry_report *reports, size_t count)
{
    struct mt_text values = {0};
    const bool is_same = are_equal(reports, count);
    for (size_t i = 0; i < count; i++)
        add_assumption(&reports[i], !is_same, &values);
    mt_note(is_same ? "the peak does not depend on the assumed values: %s"
                    : "the peak of live memory depends on the assumed values: %s",
            mt_text_get(&values));
    mt_text_release(&values);
}

static void print_text(const struct mt_dry_report *reports, size_t count)
{
    const struct mt_dry_report *worst = worst_of(reports, count);
    for (size_t i = 0; i < count; i++)
        for (int64_t k = 0; k < reports[i].count; k++)
            print_run(&reports[i].runs[k]);
    if (count > 1)
        print_assumptions(reports, count);
    if (worst->worst != NULL)
        print_verdict(worst->worst);
    else
        mt_note("no dry run took place: %s", reason_of(worst));
}

void mt_dry_reports_print(const struct mt_dry_report *reports, size_t count,
                          const struct mt_dry_report_options *options)
{
    for (size_t i = 0; i < count; i++)
        if (!reports[i].outcome->is_many)
            print_notes(&reports[i]);
    if (options->json)
        print_json(reports, count, options->strict);
    else
        print_text(reports, count);
}

void mt_dry_report_note_caveats(const struct mt_dry_report *report)
{
    if (report->worst != NULL)
        print_caveats(report->worst);
}

void mt_dry_caveats_note(const struct mt_program_outcome *outcome)
{
    struct mt_dry_report report;
    mt_dry_report_load(outcome, "", "", &report);
    mt_dry_report_note_caveats(&report);
    mt_dry_report_release(&report);
}

/* Returns the iteration that fills a card with this many bytes less; -1: none, or unknown. */
static int64_t earlier_full(const struct mt_caveat *growth, uint64_t less_bytes)
{
    if (growth->count < 0 || growth->bytes <= 0)
        return growth->count;
    const uint64_t earlier = less_bytes / (uint64_t)growth->bytes;
    return earlier < (uint64_t)growth->count ? growth->count - (int64_t)earlier : 1;
}

void mt_dry_report_shrink_card(struct mt_dry_report *report, uint64_t less_bytes)
{
    for (int64_t i = 0; i < report->count; i++) {
        struct mt_caveat_lists *caveats = &report->runs[i].row.caveats;
        struct mt_caveat *growths = caveats->rows + (caveats->of[MT_CAVEAT_GROWTH].rows - caveats->rows);
        for (size_t k = 0; k < caveats->of[MT_CAVEAT_GROWTH].count; k++)
            growths[k].count = earlier_full(&growths[k], less_bytes);
    }
}
