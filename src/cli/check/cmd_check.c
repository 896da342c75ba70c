/* memtrace check: a gate for continuous integration. */
#include "answer/output_file.h"
#include "cli/check/check_budget.h"
#include "cli/check/check_programs.h"
#include "cli/check/program_budgets.h"
#include "cli/output/annotation.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "words/check_report.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

struct check_options {
    struct mt_trace_options trace;
    uint64_t most_bytes[MT_MEASURE_COUNT];
    struct mt_option_list bounds[MT_BOUND_COUNT];
    bool no_leaks, self_test, annotate;
    const char *against, *budget, *junit, *summary;
    double tolerance_percent;
    uint64_t floor_bytes; /* or MT_NO_BOUND */
};

static const struct mt_option options[] = {
    MT_RUN_ARGUMENT,
    MT_OPTION(BYTES, struct check_options, most_bytes[MT_MEASURE_ALLOCATED], "--max-allocated", .value = "SIZE",
              .help = "limit of the peak of live blocks: 52GiB"),
    MT_OPTION(BYTES, struct check_options, most_bytes[MT_MEASURE_REQUESTED], "--max-requested", .value = "SIZE",
              .help = "limit of the peak of requested bytes, without rounding"),
    MT_OPTION(BYTES, struct check_options, most_bytes[MT_MEASURE_RESERVED], "--max-reserved", .value = "SIZE",
              .help = "limit of reserved bytes"),
    MT_OPTION(LIST, struct check_options, bounds[MT_BOUND_LIVE], "--category", .value = "NAME<=SIZE",
              .help = "limit of a category's live bytes at the allocated peak; may be repeated"),
    MT_OPTION(LIST, struct check_options, bounds[MT_BOUND_LARGEST], "--largest", .value = "NAME<=SIZE",
              .help = "limit of a single request of a category, in any phase; may be repeated"),
    MT_OPTION(LIST, struct check_options, bounds[MT_BOUND_ROLE], "--role", .value = "NAME<=SIZE",
              .help = "limit of a role's live bytes, such as activation's, at the allocated peak; may be repeated"),
    MT_OPTION(LIST, struct check_options, bounds[MT_BOUND_MODULE], "--module", .value = "PATH<=SIZE",
              .help = "limit of a module and its submodules, with * for the number of a layer; may be repeated"),
    MT_OPTION(LIST, struct check_options, bounds[MT_BOUND_PHASE], "--phase", .value = "NAME<=SIZE",
              .help = "limit of the highest allocated bytes in a phase; may be repeated"),
    MT_OPTION(FLAG, struct check_options, no_leaks, "--no-leaks",
              .help = "no kind of block may grow from step to step"),
    MT_OPTION(TEXT, struct check_options, against, "--against", .value = "RUN|FILE:RUN",
              .help = "no peak and no category may exceed this run's", .takes = MT_TAKES_RUN),
    MT_OPTION(PERCENT, struct check_options, tolerance_percent, "--tolerance", .value = "PERCENT",
              .help = "growth allowed by --against, as a share (1%)"),
    MT_OPTION(BYTES, struct check_options, floor_bytes, "--floor", .value = "SIZE",
              .help = "growth allowed by --against, if the tolerance allows less (0)"),
    MT_OPTION(TEXT, struct check_options, budget, "--budget", .value = "FILE",
              .help = "JSON with the same names, and options take precedence; or budgets of programs in FILE.toml",
              .takes = MT_TAKES_FILE),
    MT_OPTION(TEXT, struct check_options, junit, "--junit", .value = "FILE", .help = "also write JUnit XML to FILE",
              .takes = MT_TAKES_FILE),
    MT_OPTION(TEXT, struct check_options, summary, "--summary", .value = "FILE",
              .help = "also append Markdown to FILE: \"$GITHUB_STEP_SUMMARY\"", .takes = MT_TAKES_FILE),
    MT_OPTION(FLAG, struct check_options, annotate, "--annotate",
              .help = "also print what fails as ::error on stderr, at the line of the peak, for GitHub Actions and VS "
                      "Code"),
    MT_OPTION(FLAG, struct check_options, self_test, "--self-test",
              .help = "test the gate itself, with runs that it must pass and runs that it must fail"),
    MT_TRACE_OPTIONS,
};

static mt_status add_bounds(struct mt_budget *budget, mt_bound_kind kind, const struct mt_option_list *list)
{
    mt_status status = MT_OK;
    for (size_t i = 0; i < list->count && status == MT_OK; i++)
        status = mt_budget_add_bound(budget, kind, list->items[i]);
    return status;
}

/* Reads the budget file and the command line, which has precedence. */
static mt_status read_budget(const struct check_options *given, struct mt_budget *out)
{
    *out = mt_budget_empty();
    mt_status status = given->budget != NULL ? mt_budget_read(given->budget, out) : MT_OK;
    for (int i = 0; i < MT_MEASURE_COUNT; i++)
        if (given->most_bytes[i] != MT_NO_BOUND)
            out->most_bytes[i] = given->most_bytes[i];
    for (mt_bound_kind kind = 0; kind < MT_BOUND_COUNT && status == MT_OK; kind++)
        status = add_bounds(out, kind, &given->bounds[kind]);
    out->no_leaks |= given->no_leaks;
    if (given->against != NULL)
        mt_budget_set_against(out, given->against);
    if (given->tolerance_percent >= 0)
        out->tolerance_percent = given->tolerance_percent;
    if (given->floor_bytes != MT_NO_BOUND)
        out->floor_bytes = given->floor_bytes;
    return status == MT_OK ? mt_budget_check(out) : status;
}

/* Prints an annotation for each failed criterion, at the line of the run's peak. */
static void annotate(const struct mt_check_row *row)
{
    struct mt_source_place place;
    (void)mt_source_place_find_peak(row->check->question, MT_MEASURE_ALLOCATED,
                                    &place); /* on failure, it has no line */
    for (size_t i = 0; i < row->count; i++) {
        struct mt_text words = {0};
        mt_text_add(&words, "%s: %s", mt_text_get(&row->criteria[i].name), mt_text_get(&row->criteria[i].finding));
        if (!row->criteria[i].criterion.passed)
            mt_annotation_print(&place, "memtrace check", mt_text_get(&words));
        mt_text_release(&words);
    }
    mt_source_place_release(&place);
}

static mt_status write_files(const struct mt_check_row *row, const struct check_options *given)
{
    mt_status status = MT_OK;
    if (given->junit != NULL && (status = mt_check_write_junit(row, given->junit)) != MT_OK)
        return mt_fail_context(status, "--junit");
    if (given->summary != NULL && (status = mt_check_append_summary(row, given->summary)) != MT_OK)
        return mt_fail_context(status, "--summary");
    return MT_OK;
}

static mt_status print_and_write(const struct mt_check *check, const struct check_options *given)
{
    bool is_usual = strcmp(given->trace.trace, MT_DEFAULT_TRACE) == 0;
    const struct mt_check_place place = {is_usual ? NULL : given->trace.trace, given->trace.run != NULL};
    const struct mt_screen screen = mt_output_screen();
    struct mt_check_row row;
    mt_status status = mt_check_row_create(check, &place, &row);
    if (status == MT_OK) {
        given->trace.json ? mt_json_print(mt_check_json(&row)) : mt_check_print(&row, &screen);
        if (given->annotate)
            annotate(&row);
        status = write_files(&row, given);
    }
    mt_check_row_release(&row);
    return status;
}

/* Prints the check, writes its files, and fails if it did not pass. If a file could not be written, the exit code says
 * so, and the message has both results. */
static mt_status report(const struct mt_check *check, const struct check_options *given)
{
    assert(check->count > 0 && check->failed <= check->count);
    mt_status status = print_and_write(check, given);
    if (status == MT_OK && check->failed == 0)
        return MT_OK;
    struct mt_text run = {0};
    mt_check_add_run(check, &run);
    if (status == MT_OK)
        status = mt_fail(MT_FAILED, "%s does not pass", mt_text_get(&run));
    else if (status == MT_NOT_WRITTEN)
        mt_fail(status, "%s %s %s", mt_text_get(&run), check->failed == 0 ? "passes, but" : "does not pass, and",
                mt_last_error());
    mt_text_release(&run);
    return status;
}

/* Fails with MT_USAGE if the run can't be compared with the other. */
static mt_status check_against(const struct mt_question *question, const struct mt_question *against)
{
    const struct mt_run *run = against->run;
    if (against->file == NULL && run->id == question->run->id)
        return mt_fail(MT_USAGE,
                       "run %" PRId64 " is compared with itself, which proves nothing: name the run to check with --run"
                       " or another one with --against",
                       run->id);
    if (mt_run_ended_well(run))
        return MT_OK;
    return mt_fail(MT_USAGE,
                   "run %" PRId64 " is no measure for others, since it is not done but %s: name one that is (memtrace"
                   " runs lists them)",
                   run->id, run->state);
}

static mt_status check_run(const struct mt_budget *budget, const struct mt_question *question,
                           const struct mt_question *against, const struct check_options *given)
{
    struct mt_check check;
    mt_status status = mt_check_run(budget, question, against, &check);
    if (status == MT_USAGE && check.leaks_unknown)
        mt_fail_hint(status, "memtrace run --steps %d traces enough", MT_LEAK_LEAST_STEPS + 1);
    if (check.leaks_unknown)
        mt_fail_context(status, "--no-leaks");
    MT_THEN(status, report(&check, given));
    mt_check_release(&check);
    return status;
}

static mt_status check_question(const struct mt_budget *budget, const struct mt_question *question,
                                const struct check_options *given)
{
    struct mt_question against = {0};
    mt_status status = MT_OK;
    if (budget->against != NULL)
        status = mt_question_open_named(given->trace.trace, budget->against, &against);
    if (status != MT_OK)
        return mt_fail_context(status, "--against");
    assert((budget->against != NULL) == (against.run != NULL));
    if (budget->against == NULL)
        return check_run(budget, question, NULL, given);
    status = check_against(question, &against);
    MT_THEN(status, check_run(budget, question, &against, given));
    mt_question_close(&against);
    return status;
}

/* Fails if a file would be both read and written, or written twice. */
static mt_status check_outputs(const struct check_options *given)
{
    mt_status status = mt_output_file_check("--junit", given->junit, given->budget);
    MT_THEN(status, mt_output_file_check("--summary", given->summary, given->budget));
    return status == MT_OK ? mt_output_file_check("--junit", given->junit, given->summary) : status;
}

/* The self-test. Records a run that leaks and runs that do not in a temporary folder, checks them against budgets that
 * they just meet and just miss, and prints the results. Fails with MT_FAILED if a check gave a wrong result, and with
 * MT_USAGE if the runs could not be recorded. */
static mt_status try_gate(bool json)
{
    struct mt_check_trials trials;
    struct mt_check_trials_row row;
    mt_status status = mt_check_trials_run(&trials);
    if (status != MT_OK)
        return mt_fail_context(MT_USAGE, "the gate could not be tried");
    mt_check_trials_row_create(&trials, &row);
    if (json)
        mt_answer_print_json("check_self_test", &mt_check_trials_type, &row);
    else
        mt_rows_print(&mt_check_trial_type, "verdict criterion expected", NULL, row.rows, row.count);
    mt_check_trials_row_release(&row);
    if (trials.broken == 0)
        return MT_OK;
    return mt_fail(MT_FAILED, "the gate is broken: %zu of %zu criteria do not do what they must", trials.broken,
                   trials.count);
}

/* True if no option about a run was given. */
static bool has_no_criterion(const struct check_options *given)
{
    bool has_none = !given->no_leaks && given->against == NULL && given->tolerance_percent == MT_NO_TOLERANCE &&
                    given->floor_bytes == MT_NO_BOUND && given->trace.run == NULL && given->junit == NULL;
    for (mt_bound_kind kind = 0; kind < MT_BOUND_COUNT; kind++)
        has_none = has_none && given->bounds[kind].count == 0;
    for (int i = 0; i < MT_MEASURE_COUNT; i++)
        has_none = has_none && given->most_bytes[i] == MT_NO_BOUND;
    return has_none;
}

/* Runs the self-test. Fails with MT_USAGE if other options are given: it checks its own runs, so a given criterion
 * would seem to pass. */
static mt_status run_self_test(const struct check_options *given)
{
    if (!has_no_criterion(given) || given->budget != NULL || given->summary != NULL || given->annotate)
        return mt_fail(MT_USAGE, "--self-test checks runs of its own, against budgets of its own: give it alone");
    return try_gate(given->trace.json);
}

/* True if budgets of programs are to be checked: a TOML file is named, or no file is named and the default one
 * exists. */
static bool is_about_programs(const struct check_options *given)
{
    if (given->budget != NULL)
        return mt_ends_with(given->budget, ".toml");
    return has_no_criterion(given) && strcmp(given->trace.trace, MT_DEFAULT_TRACE) == 0 &&
           access(MT_PROGRAM_BUDGETS, F_OK) == 0;
}

static mt_status check_programs(const struct check_options *given)
{
    const struct mt_programs_check check = {.path = given->budget != NULL ? given->budget : MT_PROGRAM_BUDGETS,
                                            .summary = given->summary,
                                            .annotates = given->annotate,
                                            .json = given->trace.json};
    if (!has_no_criterion(given))
        return mt_fail(MT_USAGE,
                       "%s has budgets of programs; criteria, --run and --junit are about a run: check it by a "
                       "command of its own",
                       check.path);
    return mt_programs_check_answer(&check);
}

static mt_status run_check(const void *options_given)
{
    const struct check_options *given = options_given;
    if (given->self_test)
        return run_self_test(given);
    struct mt_budget budget;
    struct mt_question question;
    MT_TRY(check_outputs(given));
    if (is_about_programs(given))
        return check_programs(given);
    mt_status status = read_budget(given, &budget);
    MT_THEN(status, mt_question_open(&given->trace, &question));
    if (status == MT_OK) {
        status = check_question(&budget, &question, given);
        mt_question_close(&question);
    }
    mt_budget_release(&budget);
    return status;
}

const struct mt_command mt_command_check = {
    .name = "check",
    .summary = "Passes or fails a run or programs against memory budgets: a gate for continuous integration.",
    .usage = "[RUN|FILE] [OPTIONS]",
    .details =
        "Of a run, at least one criterion is required. A run that did not end normally never passes. Without any,\n"
        "the programs of memtrace.toml or of --budget FILE.toml are checked: each is run dry, as by memtrace fit, and\n"
        "fails if it needs more of a GPU than its limit, or than the card has:\n"
        "\n"
        "  [train]\n"
        "  program = \"torchrun --nproc-per-node 8 train.py\"  # or a list of words\n"
        "  card = \"h100\"\n"
        "  limit = \"70GiB\"  # of each GPU; without it, the card's memory\n"
        "  strict = true    # fails if something that could take memory is unknown\n"
        "\n"
        "  [rlhf]\n"
        "  programs = [\"python trainer.py\", \"python engine.py\"]  # share a card\n"
        "  card = \"h100\"\n"
        "\n"
        "Exits with 0 if all pass, 1 if not, 2 if the question makes no sense, such as an unknown category, 6 if the\n"
        "answer or one of its files could not be written, and for programs also with 4, 8 and 9, as memtrace fit "
        "does.\n"
        "\n"
        "--category, --role and --module limit the bytes live at the peak of allocated bytes, rounding included;\n"
        "--phase limits the highest allocated bytes of a phase; --largest limits a single request in any phase, as\n"
        "memtrace categories reports it. --no-leaks compares the bytes live at the ends of the last steps (at most\n"
        "8, without the first). It groups blocks that differ only in layer and shape; a group that never shrinks\n"
        "and has grown is a leak, unless all of them leave at most 256 B a step, such as losses for a log. It needs\n"
        "three full steps. Sizes use powers of 1024: 52GB is 52GiB.\n"
        "\n"
        "--against compares the allocated peak with another run's. Only if that passes does it compare the\n"
        "categories at the peak and the reserved bytes, so growth with one cause fails once. A budget file is JSON\n"
        "with the names of the options:\n"
        "\n"
        "  {\"max-allocated\": \"52GiB\", \"category\": {\"AttnScores\": \"40MiB\"}, \"largest\": {\"Softmax\": "
        "\"1GiB\"},\n"
        "   \"no-leaks\": true, \"against\": \"main.db:baseline\", \"tolerance\": \"1%\", \"floor\": \"1MiB\"}\n"
        "\n"
        "--self-test checks the gate itself. It records a run that leaks and one that does not; each criterion must\n"
        "pass a run that just meets it and fail one that just does not. It exits with 0 if the gate works, 1 if it\n"
        "passed a run that it should fail, and 2 if it could not be tested.\n",
    .failed_means = "the run does not pass; with --self-test, the gate does not work",
    .examples =
        "  memtrace run --device sim --model small --steps 4 && memtrace check --max-allocated 52GiB --no-leaks\n"
        "  memtrace check --category \"AttnScores<=2GiB\" --largest \"Softmax<=1GiB\" --junit check.xml\n"
        "  memtrace run --device sim --model small --name pr && memtrace check --against 1 --tolerance 100% ||"
        " echo 'more than in run 1'\n"
        "  memtrace check --self-test\n"
        "  memtrace check --budget memtrace.toml --annotate --summary \"$GITHUB_STEP_SUMMARY\"\n",
    .options = options,
    MT_OPTIONS_OF(struct check_options, .trace.trace = MT_DEFAULT_TRACE,
                  .most_bytes = {MT_NO_BOUND, MT_NO_BOUND, MT_NO_BOUND}, .tolerance_percent = MT_NO_TOLERANCE,
                  .floor_bytes = MT_NO_BOUND),
    .answer = &mt_check_type,
    .run = run_check,
};
