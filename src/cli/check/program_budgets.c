#include "cli/check/program_budgets.h"

#include "base/memory.h"
#include "base/toml_file.h"

#include <stdlib.h>
#include <string.h>

static void add_word(struct mt_program_budget *budget, const char *word)
{
    *MT_HOST_ADD(budget->words, budget->word_count) = word != NULL ? mt_host_strdup(word) : NULL;
}

/* ---- words ---- */

/* Reads a word up to the next blank outside quotes. '…' has no escapes; "…" and unquoted text have backslashes. */
static mt_status read_word(const char **at, struct mt_text *out)
{
    char quote = '\0';
    for (const char *text = *at;; text++) {
        if (*text == '\0' && quote != '\0')
            return mt_fail(MT_USAGE, "a command has no closing %c", quote);
        if (*text == '\0' || (quote == '\0' && strchr(" \t", *text) != NULL)) {
            *at = text;
            return MT_OK;
        }
        if (*text == quote)
            quote = '\0';
        else if (quote == '\0' && strchr("\"'", *text) != NULL)
            quote = *text;
        else if (*text == '\\' && quote != '\'' && text[1] != '\0')
            mt_text_add(out, "%c", *++text);
        else
            mt_text_add(out, "%c", *text);
    }
}

/* Adds the words of a command, split like a shell, but without variables and patterns. */
static mt_status add_command(struct mt_program_budget *budget, const char *command)
{
    size_t count = 0;
    for (const char *at = command + strspn(command, " \t"); *at != '\0'; at += strspn(at, " \t"), count++) {
        struct mt_text word = {0};
        mt_status status = read_word(&at, &word);
        if (status == MT_OK)
            add_word(budget, mt_text_get(&word));
        mt_text_release(&word);
        MT_TRY(status);
    }
    return count > 0 ? MT_OK : mt_fail(MT_USAGE, "a command is empty");
}

/* ---- keys ---- */

static mt_status fail_kind(const char *key, const char *example)
{
    return mt_fail(MT_USAGE, "%s is wrong: write %s = %s", key, key, example);
}

static mt_status take_program(struct mt_program_budget *budget, const char *key, const struct mt_toml_value *value)
{
    if (budget->has_program)
        return mt_fail(MT_USAGE, "the table has a program already");
    budget->has_program = true;
    if (value->kind == MT_TOML_STRING)
        return add_command(budget, value->texts[0]);
    if (value->kind != MT_TOML_STRINGS || value->count == 0)
        return fail_kind(key, "\"torchrun train.py\", or [\"torchrun\", \"train.py\"]");
    for (size_t i = 0; i < value->count; i++)
        add_word(budget, value->texts[i]);
    return MT_OK;
}

static mt_status take_programs(struct mt_program_budget *budget, const char *key, const struct mt_toml_value *value)
{
    if (budget->has_program)
        return mt_fail(MT_USAGE, "the table has a program already");
    budget->has_program = true;
    if (value->kind != MT_TOML_STRINGS || value->count < 2)
        return fail_kind(key, "[\"python trainer.py\", \"python engine.py\"]");
    for (size_t i = 0; i < value->count; i++) {
        if (i > 0)
            add_word(budget, "--and");
        MT_TRY(add_command(budget, value->texts[i]));
    }
    return MT_OK;
}

static mt_status take_card(struct mt_program_budget *budget, const char *key, const struct mt_toml_value *value)
{
    struct mt_text device = {0};
    if (budget->device != NULL)
        return mt_fail(MT_USAGE, "the table has a card already");
    if (value->kind != MT_TOML_STRING)
        return fail_kind(key, "\"h100\"");
    const char *name = value->texts[0];
    mt_text_add(&device, "%s%s", strncmp(name, "sim", 3) == 0 ? "" : "sim:", name);
    budget->device = device.data;
    return MT_OK;
}

static mt_status take_limit(struct mt_program_budget *budget, const char *key, const struct mt_toml_value *value)
{
    if (budget->has_limit)
        return mt_fail(MT_USAGE, "the table has a limit already");
    budget->has_limit = true;
    if (value->kind != MT_TOML_STRING)
        return fail_kind(key, "\"70GiB\"");
    MT_TRY(mt_parse_size(value->texts[0], &budget->limit_bytes));
    return budget->limit_bytes > 0 ? MT_OK : fail_kind(key, "\"70GiB\"");
}

static mt_status take_strict(struct mt_program_budget *budget, const char *key, const struct mt_toml_value *value)
{
    if (budget->has_strict)
        return mt_fail(MT_USAGE, "the table has strict already");
    budget->has_strict = true;
    budget->is_strict = value->number != 0;
    return value->kind == MT_TOML_BOOLEAN ? MT_OK : fail_kind(key, "true");
}

static const char *const key_names[] = {"program", "programs", "card", "limit", "strict"};
enum { KEY_COUNT = sizeof key_names / sizeof key_names[0] };
static mt_status (*const key_takers[KEY_COUNT])(struct mt_program_budget *, const char *,
                                                const struct mt_toml_value *) = {take_program, take_programs, take_card,
                                                                                 take_limit, take_strict};

/* ---- tables ---- */

static mt_status begin_budget(void *context, const char *name)
{
    struct mt_program_budgets *budgets = context;
    for (size_t i = 0; i < budgets->count; i++)
        if (strcmp(budgets->items[i].name, name) == 0)
            return mt_fail(MT_USAGE, "there are two budgets [%s]", name);
    *MT_HOST_ADD(budgets->items, budgets->count) = (struct mt_program_budget){.name = mt_host_strdup(name)};
    return MT_OK;
}

static mt_status take_key(void *context, const char *key, const struct mt_toml_value *value)
{
    struct mt_program_budgets *budgets = context;
    if (budgets->count == 0)
        return mt_fail(MT_USAGE, "%s stands above the first budget: begin one with its name, such as [train]", key);
    for (size_t i = 0; i < KEY_COUNT; i++)
        if (strcmp(key, key_names[i]) == 0)
            return key_takers[i](&budgets->items[budgets->count - 1], key, value);
    return mt_fail_unknown("key", key, key_names, KEY_COUNT);
}

/* Fails for an incomplete budget. */
static mt_status check(const char *path, const struct mt_program_budgets *budgets)
{
    if (budgets->count == 0)
        return mt_fail(MT_USAGE, "%s has no budget: begin one with its name, such as [train]", path);
    for (size_t i = 0; i < budgets->count; i++) {
        const struct mt_program_budget *budget = &budgets->items[i];
        if (!budget->has_program)
            return mt_fail(MT_USAGE, "%s: [%s] has no program", path, budget->name);
        if (budget->device == NULL)
            return mt_fail(MT_USAGE, "%s: [%s] has no card, such as card = \"h100\"", path, budget->name);
    }
    return MT_OK;
}

mt_status mt_program_budgets_read(const char *path, struct mt_program_budgets *out)
{
    *out = (struct mt_program_budgets){0};
    MT_TRY(mt_toml_read(path, &(struct mt_toml_taker){out, begin_budget, take_key}));
    MT_TRY(check(path, out));
    for (size_t i = 0; i < out->count; i++)
        add_word(&out->items[i], NULL);
    return MT_OK;
}

void mt_program_budgets_release(struct mt_program_budgets *budgets)
{
    for (size_t i = 0; i < budgets->count; i++) {
        struct mt_program_budget *budget = &budgets->items[i];
        for (size_t k = 0; k < budget->word_count; k++)
            free(budget->words[k]);
        free(budget->words);
        free(budget->name);
        free(budget->device);
    }
    free(budgets->items);
}
