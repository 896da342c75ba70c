/* memtrace verify: checks whether a trace is intact, and saves readable parts of a damaged one. */
#include "base/memory.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "trace/store/salvage.h"
#include "trace/store/store.h"
#include "trace/store/verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct verify_options {
    bool help;
    bool json;
    const char *trace;
    const char *salvage; /* NULL: only verify */
};

static const struct mt_option options[] = {
    MT_OPTION(TEXT, struct verify_options, trace, "TRACE", .value = "TRACE", .takes = MT_TAKES_FILE,
              .help = "the trace, as --trace names it"),
    MT_OPTION(TEXT, struct verify_options, salvage, "--salvage", .value = "NEW", .takes = MT_TAKES_FILE,
              .help = "write the readable part to a new trace"),
    MT_OPTION(TEXT, struct verify_options, trace, "--trace", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "the trace (default: " MT_DEFAULT_TRACE ")"),
    MT_OPTION_JSON(struct verify_options),
    MT_OPTION_HELP(struct verify_options),
    MT_OPTIONS_END,
};

/* A check, for the answer. */
struct check_row {
    int64_t run;
    const char *what, *result;
    const char *found; /* owned by the row */
};

#define ROW struct check_row
static const struct mt_field check_fields[] = {
    MT_POSITIVE(ROW, run, "run", "run", "null: the file"),
    MT_TEXT(ROW, what, "what", "what", "pages, database, events, end or summaries"),
    MT_TEXT(ROW, result, "result", "result", "whole, damaged or unknown"),
    MT_TEXT(ROW, found, "found", "found", "in words"),
    MT_FIELDS_END,
};
#undef ROW
static const struct mt_row_type check_type = MT_ROW_TYPE(struct check_row, check_fields);

#define ROW struct mt_salvaged_run
static const struct mt_field saved_fields[] = {
    MT_INTEGER(ROW, run, "run", "run", NULL),
    MT_INTEGER(ROW, events, "events", "events", "saved"),
    MT_INTEGER(ROW, stored_events, "stored_events", "of", "that there were"),
    MT_INTEGER(ROW, lost_names, "lost_names", "lost names", "labels, spans, stacks and frames, called (lost) now"),
    MT_FIELDS_END,
};
#undef ROW
static const struct mt_row_type saved_type = MT_ROW_TYPE(struct mt_salvaged_run, saved_fields);

struct verify_answer {
    struct check_row *checks;
    size_t check_count;
    struct mt_salvaged_run *saved;
    size_t saved_count;
    int64_t damaged; /* number of failed checks */
};
static const struct mt_field answer_fields[] = {
    MT_INTEGER(struct verify_answer, damaged, "damaged", NULL, "checks that found damage"),
    MT_ROWS(struct verify_answer, checks, check_count, "rows", &check_type, "of the file, then run by run"),
    MT_ROWS(struct verify_answer, saved, saved_count, "saved", &saved_type, "by --salvage"),
    MT_FIELDS_END,
};
static const struct mt_row_type answer_type = MT_ROW_TYPE(struct verify_answer, answer_fields);

static void add_check(void *context, const struct mt_verify_row *row)
{
    struct verify_answer *answer = context;
    static const char *const results[] = {
        [MT_VERIFY_WHOLE] = "whole", [MT_VERIFY_DAMAGED] = "damaged", [MT_VERIFY_UNKNOWN] = "unknown"};
    answer->damaged += row->result == MT_VERIFY_DAMAGED;
    *MT_HOST_ADD(answer->checks, answer->check_count) = (struct check_row){
        .run = row->run, .what = row->what, .result = results[row->result], .found = mt_host_strdup(row->found)};
}

static void add_saved(void *context, const struct mt_salvaged_run *run)
{
    struct verify_answer *answer = context;
    *MT_HOST_ADD(answer->saved, answer->saved_count) = *run;
}

static mt_status verify(const char *path, struct verify_answer *answer)
{
    struct mt_database *database;
    const struct mt_verify_visitor visitor = {.context = answer, .row = add_check};
    MT_TRY(mt_store_open_reading(path, &database));
    mt_status status = mt_verify_trace(database, &visitor);
    mt_database_close(database);
    return status;
}

static void print(const struct verify_options *asked, const struct verify_answer *answer)
{
    if (asked->json) {
        mt_answer_print_json("verify", &answer_type, answer);
        return;
    }
    if (answer->check_count > 0)
        mt_rows_print(&check_type, "run what result found", NULL, answer->checks, answer->check_count);
    if (answer->saved_count == 0)
        return;
    printf("\n%s has what could be read:\n", asked->salvage);
    mt_rows_print(&saved_type, "run events stored_events lost_names", NULL, answer->saved, answer->saved_count);
}

/* Saves everything that can be read, whatever the checks found: even a trace that can't be opened may have some
 * data. */
static mt_status salvage(const struct verify_options *asked, mt_status verified, struct verify_answer *answer)
{
    const struct mt_salvage_visitor visitor = {.context = answer, .run = add_saved};
    if (asked->salvage == NULL || (verified != MT_OK && verified != MT_BAD_TRACE))
        return verified;
    MT_TRY(mt_salvage_trace(asked->trace, asked->salvage, &visitor));
    return MT_OK;
}

static mt_status run_verify(const void *given)
{
    const struct verify_options *asked = given;
    struct verify_answer answer = {0};
    mt_status status = salvage(asked, verify(asked->trace, &answer), &answer);
    if (status == MT_OK)
        print(asked, &answer);
    if (status == MT_OK && answer.damaged > 0 && asked->salvage == NULL)
        status =
            mt_fail(MT_BAD_TRACE, "%s is damaged; memtrace verify --salvage NEW writes what can be read", asked->trace);
    for (size_t i = 0; i < answer.check_count; i++)
        free((char *)answer.checks[i].found);
    free(answer.checks);
    free(answer.saved);
    return status;
}

const struct mt_command mt_command_verify = {
    .name = "verify",
    .summary = "Checks that a trace is complete and undamaged, and saves the readable part of a damaged one.",
    .usage = "[TRACE] [--salvage NEW] [OPTIONS]",
    .details =
        "Compares each page with its checksum, lets SQLite check its trees, looks for missing and changed events,\n"
        "derives all summaries again and compares them. If a writing process was killed, its events are stored\n"
        "first, as in every command. Exit code 3 means that the trace is damaged.\n"
        "\n"
        "--salvage writes a new trace with each run up to its first missing or changed event. Labels and other\n"
        "names that cannot be read are called (lost). The damaged trace is not changed.\n",
    .examples = "  memtrace verify\n"
                "  memtrace verify --json\n",
    .options = options,
    MT_OPTIONS_OF(struct verify_options, .trace = MT_DEFAULT_TRACE),
    .answer = &answer_type,
    .run = run_verify,
};
