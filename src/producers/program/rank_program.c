#include "producers/program/rank_program.h"

#include "base/memory.h"
#include "base/text.h"
#include "producers/program/rank_variables.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_PER_NODE = 8, NUMBER_TEXT = 24 };

/* ---- words ---- */

static void add_word(struct mt_rank_program *program, size_t *count, char *word)
{
    *MT_HOST_ADD(program->words, *count) = word;
}

/* Puts together the words of a process. */
static void make_words(struct mt_rank_program *out)
{
    static char unbuffered[] = "-u", module[] = "-m";
    const struct mt_launch *launch = &out->launch;
    char *const *word = launch->script;
    size_t count = 0;
    if (!launch->is_plain) {
        out->interpreter = mt_launch_find_python(launch);
        add_word(out, &count, out->interpreter);
        add_word(out, &count, unbuffered);
        if (launch->is_module)
            add_word(out, &count, module);
    }
    add_word(out, &count, *word++);
    if (launch->local_rank != NULL) {
        out->local_rank = mt_host_alloc(strlen(launch->local_rank) + NUMBER_TEXT);
        add_word(out, &count, out->local_rank);
    }
    while (*word != NULL)
        add_word(out, &count, *word++);
    add_word(out, &count, NULL);
}

/* ---- counts ---- */

/* Finds the number of ranks, and of ranks per node, from the request and the launcher's words. */
static mt_status count_ranks(int64_t ranks, int64_t per_node, struct mt_rank_program *out)
{
    const struct mt_launch *launch = &out->launch;
    const int64_t nodes = launch->nodes > 0 ? launch->nodes : 1;
    if (launch->per_node > 0)
        per_node = launch->per_node;
    if (ranks == 0)
        ranks = launch->ranks > 0 ? launch->ranks : nodes * (per_node > 0 ? per_node : 1);
    if (per_node == 0 && launch->nodes > 0 && ranks % nodes == 0)
        per_node = ranks / nodes;
    if (per_node == 0)
        per_node = ranks < USUAL_PER_NODE ? ranks : USUAL_PER_NODE;
    if (ranks > MT_MOST_RANKS)
        return mt_fail(MT_USAGE, "there are at most %d ranks, not %" PRId64, MT_MOST_RANKS, ranks);
    if (ranks % per_node != 0)
        return mt_fail(MT_USAGE, "%" PRId64 " ranks are no whole number of nodes with %" PRId64 " each", ranks,
                       per_node);
    if (nodes > 1 && nodes * per_node != ranks)
        return mt_fail(MT_USAGE,
                       "%s's words say %" PRId64 " nodes with %" PRId64 " ranks each, and %" PRId64
                       " ranks are requested",
                       launch->name, nodes, per_node, ranks);
    out->ranks = ranks;
    out->per_node = per_node;
    return MT_OK;
}

mt_status mt_rank_program_read(char *const *words, int64_t ranks, int64_t cards, struct mt_rank_program *out)
{
    *out = (struct mt_rank_program){0};
    MT_TRY(mt_launch_read(words, cards, &out->launch));
    const bool is_many = ranks > 0 || (out->launch.name != NULL && !out->launch.is_one_process);
    if (is_many)
        MT_TRY(count_ranks(ranks, cards, out));
    out->cards = out->launch.cards;
    make_words(out);
    return MT_OK;
}

void mt_rank_program_release(struct mt_rank_program *program)
{
    mt_launch_release(&program->launch);
    free(program->words);
    free(program->interpreter);
    free(program->local_rank);
    *program = (struct mt_rank_program){0};
}

/* ---- a rank ---- */

void mt_rank_program_prepare(const struct mt_rank_program *program, struct mt_environment *environment)
{
    if (program->ranks > 0)
        mt_rank_variables_clear(environment);
    for (size_t i = 0; i < program->launch.variable_count; i++) {
        char *variable = program->launch.variables[i], *equals = strchr(variable, '=');
        *equals = '\0';
        mt_environment_set(environment, variable, equals + 1);
        *equals = '=';
    }
}

/* Makes a rank's cards visible only to it. */
static void show_own_cards(const struct mt_rank_program *program, int64_t local_rank,
                           struct mt_environment *environment)
{
    struct mt_text list = {0};
    for (int64_t i = 0; i < program->cards; i++)
        mt_text_add(&list, "%s%" PRId64, i > 0 ? "," : "", local_rank * program->cards + i);
    mt_environment_set(environment, "CUDA_VISIBLE_DEVICES", mt_text_get(&list));
    mt_text_release(&list);
}

void mt_rank_program_enter(const struct mt_rank_program *program, int64_t rank, struct mt_environment *environment)
{
    assert(rank >= 0 && rank < program->ranks && program->ranks % program->per_node == 0);
    mt_rank_variables_set(program->launch.style, rank, program->ranks, program->per_node, environment);
    if (program->launch.cards_are_own)
        show_own_cards(program, rank % program->per_node, environment);
    if (program->local_rank != NULL)
        snprintf(program->local_rank, strlen(program->launch.local_rank) + NUMBER_TEXT, "%s=%" PRId64,
                 program->launch.local_rank, rank % program->per_node);
}

/* ---- lists ---- */

/* Reads "3" or "3-7" at *text, which ends at a comma or the text's end. */
static bool read_range(const char **text, int64_t *low, int64_t *high)
{
    char *end;
    *low = *high = strtoll(*text, &end, 10);
    if (end == *text || **text == '-')
        return false;
    if (*end == '-') {
        const char *second = end + 1;
        *high = strtoll(second, &end, 10);
        if (end == second)
            return false;
    }
    *text = *end == ',' ? end + 1 : end;
    return *end == ',' || *end == '\0';
}

mt_status mt_rank_list_read(const char *text, int64_t ranks, int64_t **out, int64_t *out_count)
{
    bool *is_in = mt_host_alloc((size_t)ranks * sizeof *is_in);
    const char *rest = text;
    mt_status status = MT_OK;
    *out_count = 0;
    *out = NULL;
    while (status == MT_OK && (*rest != '\0' || rest == text)) {
        int64_t low, high;
        if (!read_range(&rest, &low, &high) || low > high)
            status = mt_fail(MT_USAGE, "a list of ranks is such as 0,1,510-511, not \"%s\"", text);
        else if (high >= ranks)
            status = mt_fail(MT_USAGE, "there is no rank %" PRId64 ": there are %" PRId64 ", from 0", high, ranks);
        for (; status == MT_OK && low <= high; low++)
            is_in[low] = true;
    }
    if (status == MT_OK)
        *out = mt_host_alloc((size_t)ranks * sizeof **out);
    for (int64_t rank = 0; status == MT_OK && rank < ranks; rank++)
        if (is_in[rank])
            (*out)[(*out_count)++] = rank;
    free(is_in);
    return status;
}
