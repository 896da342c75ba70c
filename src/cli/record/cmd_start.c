/* memtrace start, or `memtrace train.py`: records a program if there is a GPU, and dry-runs it otherwise. */
#include "base/memory.h"
#include "cli/output/output.h"
#include "cli/record/dry_options.h"
#include "producers/program/program_words.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_PAGE "memtrace.html"

struct start_options {
    bool help;
    const char *device, *trace, *name, *page, *python;
    char *const *words; /* the program and its arguments */
};

static const struct mt_option options[] = {
    MT_OPTION(REST, struct start_options, words, "PROGRAM", .value = "PROGRAM [ARGS]", .takes = MT_TAKES_FILE,
              .help = "the program, and its arguments"),
    MT_OPTION(TEXT, struct start_options, device, "--device", .value = "CARD", .takes = MT_TAKES_DEVICE,
              .help = "run PROGRAM dry on this card, GPU or not: sim:h100, sim:rtx4090, sim:24GiB"),
    MT_OPTION(TEXT, struct start_options, page, "--page", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "the page of memtrace timeline (" DEFAULT_PAGE ")"),
    MT_OPTION(TEXT, struct start_options, python, "--python", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = MT_PYTHON_HELP),
    MT_OPTION(TEXT, struct start_options, trace, "--trace", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "where the run is added (" MT_DEFAULT_TRACE ")"),
    MT_OPTION(TEXT, struct start_options, name, "--name", .value = "TEXT", .help = "what to call the run"),
    MT_OPTION_HELP(struct start_options),
    MT_OPTIONS_END,
};

/* True if NVIDIA's driver is installed and has a GPU that is visible to programs started here. */
static bool has_gpu(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    int (*init)(unsigned) = NULL, (*count_devices)(int *) = NULL, count = 0;
    if (driver == NULL)
        return false;
    *(void **)&init = dlsym(driver, "cuInit");
    *(void **)&count_devices = dlsym(driver, "cuDeviceGetCount");
    return init != NULL && count_devices != NULL && init(0) == 0 && count_devices(&count) == 0 && count > 0;
}

/* Adds an option with its value, unless the value is NULL. */
static int add_option(const char *name, const char *value, const char **arguments, int count)
{
    if (value == NULL)
        return count;
    arguments[count] = name;
    arguments[count + 1] = value;
    return count + 2;
}

/* Runs the command with the options and the program. Exits; returns only if the program was not started. */
static mt_status pass_on(const struct start_options *start, const struct mt_command *command)
{
    enum { MOST_OWN = 11 };
    size_t words = 0;
    while (start->words[words] != NULL)
        words++;
    const char **arguments = mt_host_alloc((words + MOST_OWN) * sizeof *arguments);
    int count = 0;
    count = add_option("--device", start->device, arguments, count);
    count = add_option("--trace", start->trace, arguments, count);
    count = add_option("--name", start->name, arguments, count);
    count = add_option("--page", start->page, arguments, count);
    count = add_option("--python", start->python, arguments, count);
    arguments[count++] = "--";
    for (size_t i = 0; i < words; i++)
        arguments[count++] = start->words[i];
    mt_status status = mt_command_run_words(command, count, (char **)arguments);
    free(arguments);
    return status;
}

static mt_status run_start(const void *given)
{
    const struct start_options *start = given;
    if (start->words == NULL)
        return mt_fail(MT_USAGE, "start: which program? memtrace [--device CARD] PROGRAM [ARGS]");
    if (mt_program_names_file(start->words[0]) && access(start->words[0], F_OK) != 0)
        return mt_fail(MT_USAGE, "%s: %s", start->words[0], strerror(errno));
    if (start->device == NULL && has_gpu()) {
        mt_note("records %s on this machine's GPU; --device sim:CARD runs it dry", start->words[0]);
        return pass_on(start, &mt_command_record);
    }
    if (start->device == NULL)
        mt_note("there is no GPU here: runs %s dry on a simulated H200; --device sim:CARD simulates another card",
                start->words[0]);
    return pass_on(start, &mt_command_dry_run);
}

const struct mt_command mt_command_start = {
    .name = "start",
    .summary = "Records a program where there is a GPU, runs it dry where there is none, and writes its page.",
    .usage = "[OPTIONS] [--] PROGRAM [ARGS]",
    .details = "The word start may be left out before a path, a Python script, an interpreter and a launcher such as\n"
               "torchrun: memtrace train.py. The program is run as by memtrace record or memtrace dry-run, which have\n"
               "more options. The last lines are the verdict and the path of the page.\n" MT_SCRIPT_HELP,
    .failed_means = "defined by the program; for other codes see memtrace record and memtrace dry-run",
    .examples = "  memtrace train.py --batch 8\n"
                "  memtrace --device sim:rtx4090 train.py\n"
                "  memtrace torchrun --nproc-per-node 8 train.py\n",
    .options = options,
    MT_OPTIONS_OF(struct start_options, .trace = MT_DEFAULT_TRACE, .page = DEFAULT_PAGE),
    .run = run_start,
};
