/* memtrace mcp: answers of this program for coding agents, over the Model Context Protocol. */
#include "base/text.h"
#include "cli/command.h"
#include "producers/program/package_module.h"

#include <inttypes.h>
#include <stdlib.h>

struct mcp_options {
    bool help, skill;
    const char *folder, *python;
    int64_t time_limit;
    uint64_t memory;
};

#define USUAL_TIME_LIMIT 600

static const struct mt_option options[] = {
    MT_OPTION(TEXT, struct mcp_options, folder, "--folder", .value = "DIR", .takes = MT_TAKES_FILE,
              .help = "the folder of programs and traces, if the client names none"),
    MT_OPTION(TEXT, struct mcp_options, python, "--python", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "the interpreter of programs (default: as in memtrace dry-run)"),
    MT_OPTION(INTEGER, struct mcp_options, time_limit, "--time-limit", .value = "SECONDS", .low = 1, .high = 86400,
              .help = "for a program (" MT_TEXT_OF(USUAL_TIME_LIMIT) ")"),
    MT_OPTION(BYTES, struct mcp_options, memory, "--memory", .value = "SIZE",
              .help = "host memory for a program and its child processes (default: half of the machine's)"),
    MT_OPTION(FLAG, struct mcp_options, skill, "--skill", .help = "print the path of SKILL.md, for agents, and exit"),
    MT_OPTION_HELP(struct mcp_options),
    MT_OPTIONS_END,
};

/* Adds an option if it has a value. */
static void add(const char *words[], int *count, const char *option, const char *value)
{
    if (value == NULL)
        return;
    words[(*count)++] = option;
    words[(*count)++] = value;
}

/* Returns the server's interpreter: the one for which memtrace was installed, if known. */
static const char *server_python(void)
{
    const char *own = getenv("MEMTRACE_PYTHON");
    return own != NULL ? own : "python3";
}

/* Passes stdin and stdout to the Python package until the client closes them, and exits with its exit code. The package
 * prints its own errors. */
static mt_status run_mcp(const void *given)
{
    enum { MOST_WORDS = 16 };
    const struct mcp_options *asked = given;
    const char *words[MOST_WORDS] = {NULL};
    struct mt_text seconds = {0}, bytes = {0};
    int code, count = 0;
    mt_text_add(&seconds, "%" PRId64, asked->time_limit);
    mt_text_add(&bytes, "%" PRIu64, asked->memory);
    add(words, &count, "--version", MT_VERSION);
    add(words, &count, "--folder", asked->folder);
    add(words, &count, "--python", asked->python);
    add(words, &count, "--time-limit", mt_text_get(&seconds));
    add(words, &count, "--memory", asked->memory > 0 ? mt_text_get(&bytes) : NULL);
    if (asked->skill)
        words[count++] = "--skill";
    mt_status status = mt_package_module_run(server_python(), "memtrace.mcp", words, MT_OWN_OUTPUT, &code);
    mt_text_release(&seconds);
    mt_text_release(&bytes);
    MT_TRY(status);
    exit(code);
}

const struct mt_command mt_command_mcp = {
    .name = "mcp",
    .summary = "Answers coding agents over the Model Context Protocol, on stdin and stdout.",
    .usage = "[OPTIONS]",
    .details =
        "A client, such as an editor or a coding agent, starts it. It has the tools dry_run, fit, peak, top, diff,\n"
        "advise, oom and sql: commands of memtrace with answers of at most 2 KB. It needs Python 3.10 and the\n"
        "protocol's SDK: pip install 'memtrace-gpu[mcp]'.\n"
        "\n"
        "Tools read and run only files in the folders that the client names (its roots), or in --folder. A program\n"
        "is run dry, and is killed with its child processes when it exceeds a limit, when the call is cancelled, or\n"
        "when the client disconnects. A question about a trace may take 30 s. The limits are no sandbox: a program\n"
        "runs with your rights, and its native code may write files.\n",
    .examples = "  memtrace mcp --folder ~/project\n"
                "  memtrace mcp --time-limit 300 --memory 16GiB\n"
                "  memtrace mcp --skill\n",
    .options = options,
    MT_OPTIONS_OF(struct mcp_options, .time_limit = USUAL_TIME_LIMIT),
    .run = run_mcp,
};
