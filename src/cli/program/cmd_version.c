/* memtrace version. */
#include "cli/command.h"
#include "cli/output/output.h"

#include <stdio.h>

struct version_options {
    bool help;
    bool json;
};

static const struct mt_option options[] = {
    MT_OPTION_JSON(struct version_options),
    MT_OPTION_HELP(struct version_options),
    MT_OPTIONS_END,
};

static mt_status run_version(const void *given)
{
    const struct version_options *version = given;
    if (version->json)
        mt_json_print(json_pack("{s:s, s:s}", "schema", "memtrace.version/1", "version", MT_VERSION));
    else
        puts("memtrace " MT_VERSION);
    return MT_OK;
}

const struct mt_command mt_command_version = {
    .name = "version",
    .summary = "Prints the version of this program.",
    .usage = "[OPTIONS]",
    .examples = "  memtrace version\n"
                "  memtrace version --json\n",
    .options = options,
    .defaults = &(const struct version_options){0},
    .options_bytes = sizeof(struct version_options),
    .run = run_version,
};
