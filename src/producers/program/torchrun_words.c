#include "producers/program/torchrun_words.h"

#include "producers/program/python_start.h"

#include <stdlib.h>
#include <string.h>

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Returns the number of words that are torchrun itself; 0 for another program. */
static int launcher_words(char *const *words)
{
    if (strcmp(file_name(words[0]), "torchrun") == 0)
        return 1;
    const bool is_module =
        mt_python_is(words[0]) && words[1] != NULL && strcmp(words[1], "-m") == 0 && words[2] != NULL;
    if (is_module &&
        (strcmp(words[2], "torch.distributed.run") == 0 || strcmp(words[2], "torch.distributed.launch") == 0))
        return 3;
    return 0;
}

bool mt_torchrun_is(char *const *words)
{
    return launcher_words(words) > 0;
}

/* True if an option is `name`, with - or _ between its words, whether or not a value follows after =. */
static bool is_option(const char *word, const char *name)
{
    for (; *name != '\0'; word++, name++)
        if (*word != *name && !(*name == '-' && *word == '_'))
            return false;
    return *word == '\0' || *word == '=';
}

static bool takes_no_value(const char *word)
{
    static const char *const names[] = {"--standalone", "--no-python",          "--module", "--run-path",
                                        "--use-env",    "--virtual-local-rank", "-m"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (is_option(word, names[i]))
            return true;
    return false;
}

/* Reads a count, of "1:4" the most. MT_USAGE if it is not a number: what depends on the machine is not known. */
static mt_status read_count(const char *option, const char *text, int64_t *out)
{
    const char *most = strchr(text, ':');
    char *end = NULL;
    *out = strtoll(most != NULL ? most + 1 : text, &end, 10);
    if (*end != '\0' || *out < 1 || *out > MT_MOST_RANKS)
        return mt_fail(MT_USAGE, "a dry run needs a number: torchrun %s %s", option, text);
    return MT_OK;
}

/* Reads one option, at words[0]. Returns the number of words in *out_words. */
static mt_status read_option(char *const *words, struct mt_torchrun *launch, int *out_words)
{
    const char *equals = strchr(words[0], '=');
    const bool is_alone = takes_no_value(words[0]) || equals != NULL;
    const char *value = equals != NULL ? equals + 1 : words[1];
    *out_words = is_alone ? 1 : 2;
    if (!is_alone && value == NULL)
        return mt_fail(MT_USAGE, "torchrun %s needs a value", words[0]);
    launch->is_module |= is_option(words[0], "-m") || is_option(words[0], "--module");
    launch->is_plain |= is_option(words[0], "--no-python");
    if (is_option(words[0], "--nproc-per-node"))
        return read_count("--nproc-per-node", value, &launch->per_node);
    if (is_option(words[0], "--nnodes"))
        return read_count("--nnodes", value, &launch->nodes);
    return MT_OK;
}

mt_status mt_torchrun_read(char *const *words, struct mt_torchrun *out)
{
    char *const *rest = words + launcher_words(words);
    *out = (struct mt_torchrun){.is_plain = rest == words};
    while (rest != words && *rest != NULL && (*rest)[0] == '-') {
        int count;
        MT_TRY(read_option(rest, out, &count));
        rest += count;
    }
    out->script = rest;
    return *rest != NULL ? MT_OK : mt_fail(MT_USAGE, "torchrun: which script?");
}
