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

struct version_answer {
    const char *version;
};
static const struct mt_field answer_fields[] = {
    MT_TEXT(struct version_answer, version, "version", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type answer_type = MT_ROW_TYPE(struct version_answer, answer_fields);

static mt_status run_version(const void *given)
{
    const struct version_options *version = given;
    if (version->json)
        mt_answer_print_json("version", &answer_type, &(struct version_answer){MT_VERSION});
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
    MT_OPTIONS_OF(struct version_options, 0),
    .answer = &answer_type,
    .run = run_version,
};
