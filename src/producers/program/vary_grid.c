#include "producers/program/vary_grid.h"

#include "base/memory.h"
#include "base/text.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CELLS = 1000 };

/* ---- lists ---- */

static mt_status check_value(const char *given, const struct mt_varied *list)
{
    const char *value = list->values[list->count - 1];
    if (value[0] == '\0')
        return mt_fail(MT_USAGE, "%s: a value of the list is empty", given);
    for (size_t i = 0; i + 1 < list->count; i++)
        if (strcmp(list->values[i], value) == 0)
            return mt_fail(MT_USAGE, "%s: the list has %s twice", given, value);
    return MT_OK;
}

/* Cuts "batch=2,4" into the name and its values. */
static mt_status cut_list(const char *given, struct mt_varied *out)
{
    const size_t name_length = strcspn(given, "=");
    if (name_length == 0 || given[name_length] == '\0')
        return mt_fail(MT_USAGE, "a list of values is NAME=VALUE,..., not \"%s\"", given);
    out->text = mt_host_strdup(given);
    out->text[name_length] = '\0';
    for (char *value = out->text + name_length + 1; value != NULL;) {
        char *comma = strchr(value, ',');
        if (comma != NULL)
            *comma = '\0';
        out->values = mt_host_resize(out->values, out->count + 1, sizeof *out->values);
        out->values[out->count++] = value;
        MT_TRY(check_value(given, out));
        value = comma != NULL ? comma + 1 : NULL;
    }
    return MT_OK;
}

static mt_status add_list(const char *given, struct mt_vary_grid *grid)
{
    if (grid->count == MT_MOST_VARIED)
        return mt_fail(MT_USAGE, "at most %d arguments can vary", MT_MOST_VARIED);
    struct mt_varied *list = &grid->lists[grid->count++];
    MT_TRY(cut_list(given, list));
    for (size_t i = 0; i + 1 < grid->count; i++)
        if (strcmp(grid->lists[i].text, list->text) == 0)
            return mt_fail(MT_USAGE, "%s is given twice", list->text);
    grid->cell_count *= list->count;
    if (grid->cell_count > MOST_CELLS)
        return mt_fail(MT_USAGE, "the grid has more than %d cells: sweep it in parts", MOST_CELLS);
    return MT_OK;
}

/* ---- words ---- */

/* Returns the name in a word, after its leading @ or after =@; NULL if there is none. */
static const char *name_in(const char *word)
{
    const char *at = word[0] == '@' ? word : strstr(word, "=@");
    if (at == NULL)
        return NULL;
    const char *name = at + (at[0] == '=') + 1;
    return name[0] != '\0' ? name : NULL;
}

/* Returns the index of the list with a name; the grid's count if there is none. */
static size_t find_list(const struct mt_vary_grid *grid, const char *name)
{
    size_t list = 0;
    while (list < grid->count && strcmp(grid->lists[list].text, name) != 0)
        list++;
    return list;
}

static mt_status check_words(const struct mt_vary_grid *grid, char *const *words)
{
    bool is_used[MT_MOST_VARIED + 1] = {false};
    for (; *words != NULL; words++) {
        const char *name = name_in(*words);
        const size_t list = name != NULL ? find_list(grid, name) : MT_MOST_VARIED;
        if (name != NULL && list == grid->count)
            return mt_fail(MT_USAGE, "@%s does not vary: give its values, %s=VALUE,...", name, name);
        is_used[list] = true;
    }
    for (size_t i = 0; i < grid->count; i++)
        if (!is_used[i])
            return mt_fail(MT_USAGE, "no argument of the program is @%s, which has values", grid->lists[i].text);
    return MT_OK;
}

mt_status mt_vary_grid_create(const char *const *lists, size_t count, char *const *words, struct mt_vary_grid *out)
{
    *out = (struct mt_vary_grid){.cell_count = 1};
    for (size_t i = 0; i < count; i++)
        MT_TRY(add_list(lists[i], out));
    return check_words(out, words);
}

void mt_vary_grid_release(struct mt_vary_grid *grid)
{
    for (size_t i = 0; i < grid->count; i++) {
        free(grid->lists[i].text);
        free(grid->lists[i].values);
    }
    *grid = (struct mt_vary_grid){0};
}

const char *mt_vary_grid_value(const struct mt_vary_grid *grid, size_t cell, size_t list)
{
    assert(cell < grid->cell_count && list < grid->count);
    for (size_t later = grid->count - 1; later > list; later--)
        cell /= grid->lists[later].count;
    return grid->lists[list].values[cell % grid->lists[list].count];
}

char **mt_vary_grid_words(const struct mt_vary_grid *grid, size_t cell, char *const *words)
{
    char **made = NULL;
    size_t count = 0;
    for (; words[count] != NULL; count++) {
        const char *name = name_in(words[count]);
        struct mt_text word = {0};
        if (name == NULL)
            mt_text_add(&word, "%s", words[count]);
        else
            mt_text_add(&word, "%.*s%s", (int)(name - 1 - words[count]), words[count],
                        mt_vary_grid_value(grid, cell, find_list(grid, name)));
        made = mt_host_resize(made, count + 1, sizeof *made);
        made[count] = word.data != NULL ? word.data : mt_host_strdup("");
    }
    made = mt_host_resize(made, count + 1, sizeof *made);
    made[count] = NULL;
    return made;
}
