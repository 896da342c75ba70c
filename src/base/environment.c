#include "base/environment.h"

#include "base/memory.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void copy_entries(char *const *entries, struct mt_environment *out)
{
    size_t count = 0;
    while (entries != NULL && entries[count] != NULL)
        count++;
    *out = (struct mt_environment){.entries = mt_host_alloc((count + 1) * sizeof *out->entries), .count = count};
    for (size_t i = 0; i < count; i++)
        out->entries[i] = mt_host_strdup(entries[i]);
}

void mt_environment_copy(struct mt_environment *out)
{
    copy_entries(environ, out);
}

void mt_environment_copy_of(const struct mt_environment *environment, struct mt_environment *out)
{
    copy_entries(environment->entries, out);
}

void mt_environment_release(struct mt_environment *environment)
{
    for (size_t i = 0; i < environment->count; i++)
        free(environment->entries[i]);
    free(environment->entries);
    *environment = (struct mt_environment){0};
}

/* Returns the place of a variable; the count if there is none. */
static size_t find(const struct mt_environment *environment, const char *name)
{
    const size_t length = strlen(name);
    size_t place = 0;
    while (place < environment->count &&
           (strncmp(environment->entries[place], name, length) != 0 || environment->entries[place][length] != '='))
        place++;
    return place;
}

static void remove_at(struct mt_environment *environment, size_t place)
{
    free(environment->entries[place]);
    environment->entries[place] = environment->entries[--environment->count];
    environment->entries[environment->count] = NULL;
}

void mt_environment_set(struct mt_environment *environment, const char *name, const char *value)
{
    struct mt_text entry = {0};
    size_t place;
    while ((place = find(environment, name)) < environment->count) /* a name may be there twice */
        remove_at(environment, place);
    if (value == NULL)
        return;
    mt_text_add(&entry, "%s=%s", name, value);
    environment->entries = mt_host_resize(environment->entries, environment->count + 2, sizeof *environment->entries);
    environment->entries[environment->count++] = entry.data;
    environment->entries[environment->count] = NULL;
}

void mt_environment_set_number(struct mt_environment *environment, const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    mt_environment_set(environment, name, text);
}

const char *mt_environment_get(const struct mt_environment *environment, const char *name)
{
    const size_t place = find(environment, name);
    return place < environment->count ? environment->entries[place] + strlen(name) + 1 : NULL;
}
