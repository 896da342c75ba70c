/* memtrace fleet: queries over many ranks, run by engines for Parquet files. */
#include "cli/command.h"
#include "producers/program/package_module.h"

#include <stdlib.h>

struct fleet_options {
    bool help, json;
    int engine;
    const char *folder;
    struct mt_option_list questions;
};

static const char *const engines[] = {"duckdb", "clickhouse", "spark", "print", NULL};

static const struct mt_option options[] = {
    MT_OPTION(TEXT, struct fleet_options, folder, "FOLDER", .value = "FOLDER", .takes = MT_TAKES_FILE,
              .help = "what memtrace export --format parquet wrote"),
    MT_OPTION(LIST, struct fleet_options, questions, "QUESTION", .value = "QUESTION...",
              .help = "peaks, spread, growth, holders, blocks (default: all)"),
    MT_OPTION(CHOICE, struct fleet_options, engine, "--engine", .value = "ENGINE", .choices = engines,
              .help =
                  "the engine, from the Python packages duckdb, chdb and pyspark; print: only print the SQL (duckdb)"),
    MT_OPTION_JSON(struct fleet_options),
    MT_OPTION_HELP(struct fleet_options),
    MT_OPTIONS_END,
};

/* Passes the query to the Python package, and exits with its exit code. The package prints its own errors. */
static mt_status run_fleet(const void *given)
{
    enum { OTHER_WORDS = 5 };
    const struct fleet_options *asked = given;
    const char *words[MT_MOST_LISTED + OTHER_WORDS] = {asked->folder, "--engine", engines[asked->engine]};
    int code, count = 3;
    if (asked->folder == NULL)
        return mt_fail(MT_USAGE, "which folder? memtrace export --format parquet DIR -o FOLDER writes one");
    if (asked->json)
        words[count++] = "--json";
    for (size_t i = 0; i < asked->questions.count; i++)
        words[count++] = asked->questions.items[i];
    MT_TRY(mt_package_module_run("python3", "memtrace.fleet", words, MT_OWN_OUTPUT, &code));
    exit(code);
}

const struct mt_command mt_command_fleet = {
    .name = "fleet",
    .summary = "Answers questions about all ranks of many jobs from Parquet files, with DuckDB, ClickHouse or Spark.",
    .usage = "FOLDER [QUESTION...] [--engine ENGINE] [--json]",
    .details =
        "For jobs with too many ranks for memtrace ranks, and for clusters that have such an engine. peaks: the\n"
        "highest peaks; spread: the smallest and largest rank by role; growth: ranks whose steps grow; holders:\n"
        "what holds most memory at the peaks; blocks: the largest blocks. All engines give the same answers.\n",
    .examples = "  memtrace fleet fleet\n"
                "  memtrace fleet fleet peaks growth --engine clickhouse --json\n"
                "  memtrace fleet fleet --engine print\n",
    .options = options,
    MT_OPTIONS_OF(struct fleet_options, .folder = NULL),
    .run = run_fleet,
};
