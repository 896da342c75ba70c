#include "producers/program/launcher_options.h"

#include "base/memory.h"
#include "base/text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

/* True if a list of names has the name of `length` bytes. */
static bool has_name(const char *names, const char *name, size_t length)
{
    while (*names != '\0') {
        const size_t bytes = strcspn(names, " ");
        size_t same = 0;
        while (same < length && same < bytes &&
               (names[same] == name[same] || (names[same] == '-' && name[same] == '_')))
            same++;
        if (same == bytes && same == length)
            return true;
        names += bytes + (names[bytes] == ' ');
    }
    return false;
}

static const struct mt_launcher_option *find_named(const struct mt_launcher_option *options, const char *name,
                                                   size_t length)
{
    for (; options->names != NULL; options++)
        if (has_name(options->names, name, length))
            return options;
    return NULL;
}

/* Returns the row of the option, and its value in the same word, or else NULL, in *out_value; NULL: there is no such
 * option. */
static const struct mt_launcher_option *find_option(const struct mt_launcher_option *options, const char *word,
                                                    const char **out_value)
{
    const char *name = word + (word[1] == '-' ? 2 : 1);
    const size_t length = strcspn(name, "=");
    const struct mt_launcher_option *found = find_named(options, name, length);
    *out_value = name[length] == '=' ? name + length + 1 : NULL;
    if (found != NULL || word[1] == '-')
        return found;
    found = find_named(options, name, 1);
    *out_value = name + 1;
    return found != NULL && found->values == 1 ? found : NULL;
}

/* ---- reading ---- */

mt_status mt_launcher_option_refuse(const struct mt_given_option *given, const struct mt_launch *launch,
                                    const char *why)
{
    const bool is_apart = given->values[0] != NULL && strstr(given->word, given->values[0]) == NULL;
    return mt_fail(MT_USAGE, "%s %s%s%s: %s; leave it out, or give the number of ranks and the program without %s",
                   launch->name, given->word, is_apart ? " " : "", is_apart ? given->values[0] : "", why, launch->name);
}

/* Reads one option, at *words, and moves *words behind it. */
static mt_status read_option(const struct mt_launcher_option *options, char *const **words, struct mt_launch *launch)
{
    struct mt_given_option given = {.word = *(*words)++};
    const struct mt_launcher_option *option = find_option(options, given.word, &given.values[0]);
    if (option == NULL)
        return mt_launcher_option_refuse(&(struct mt_given_option){.word = given.word}, launch, "not understood");
    for (int i = 0; i < option->values && (i > 0 || given.values[0] == NULL); i++) {
        if (**words == NULL)
            return mt_fail(MT_USAGE, "%s %s needs a value", launch->name, given.word);
        given.values[i] = *(*words)++;
    }
    return option->take != NULL ? option->take(&given, launch) : MT_OK;
}

mt_status mt_launcher_options_read(const struct mt_launcher_option *options, char *const *words,
                                   struct mt_launch *launch)
{
    while (*words != NULL && (*words)[0] == '-' && strcmp(*words, "--") != 0)
        MT_TRY(read_option(options, &words, launch));
    launch->script = words + (*words != NULL && strcmp(*words, "--") == 0);
    return MT_OK;
}

/* ---- counts ---- */

bool mt_launcher_count_read(const char *text, int64_t *out)
{
    char *end = NULL;
    *out = strtoll(text, &end, 10);
    return end != text && *end == '\0' && *out >= 1 && *out <= MT_MOST_RANKS;
}

static mt_status take_count(const struct mt_given_option *given, const struct mt_launch *launch, int64_t *out)
{
    const char *most = strchr(given->values[0], ':');
    if (mt_launcher_count_read(most != NULL ? most + 1 : given->values[0], out))
        return MT_OK;
    return mt_launcher_option_refuse(given, launch, "a dry run needs a number");
}

mt_status mt_take_ranks(const struct mt_given_option *given, struct mt_launch *launch)
{
    return take_count(given, launch, &launch->ranks);
}

mt_status mt_take_nodes(const struct mt_given_option *given, struct mt_launch *launch)
{
    return take_count(given, launch, &launch->nodes);
}

mt_status mt_take_per_node(const struct mt_given_option *given, struct mt_launch *launch)
{
    return take_count(given, launch, &launch->per_node);
}

/* ---- the script ---- */

mt_status mt_take_module(const struct mt_given_option *given, struct mt_launch *launch)
{
    (void)given;
    launch->is_module = true;
    return MT_OK;
}

mt_status mt_take_plain(const struct mt_given_option *given, struct mt_launch *launch)
{
    (void)given;
    launch->is_plain = true;
    return MT_OK;
}

mt_status mt_take_no_local_rank(const struct mt_given_option *given, struct mt_launch *launch)
{
    (void)given;
    launch->local_rank = NULL;
    return MT_OK;
}

void mt_launch_add_variable(struct mt_launch *launch, const char *name, size_t name_bytes, const char *value)
{
    struct mt_text text = {0};
    mt_text_add(&text, "%.*s=%s", (int)name_bytes, name, value);
    *MT_HOST_ADD(launch->variables, launch->variable_count) = text.data;
}
