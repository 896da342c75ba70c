#include "producers/program/rank_program.h"

#include "base/memory.h"
#include "producers/program/program_words.h"
#include "producers/program/python_start.h"
#include "producers/program/torchrun_words.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { USUAL_PER_NODE = 8 };

/* ---- words ---- */

/* Returns the path of python3 in the folder of a torchrun, which is named by a path or found in PATH. Returns "python3" if there
 * is none. The caller frees it. */
static char *interpreter_beside(const char *launcher)
{
    const char *slash = strrchr(launcher, '/'), *folder = slash != NULL ? "" : getenv("PATH");
    char *found = slash != NULL ? mt_program_find_in(launcher, (size_t)(slash - launcher), "python3") : NULL;
    while (found == NULL && folder != NULL && *folder != '\0') {
        const size_t length = strcspn(folder, ":");
        char *in_folder = mt_program_find_in(folder, length, launcher);
        if (in_folder != NULL) {
            free(in_folder);
            found = mt_program_find_in(folder, length, "python3");
            break;
        }
        folder += length + (folder[length] == ':');
    }
    return found != NULL ? found : mt_host_strdup("python3");
}

static void add_word(struct mt_rank_program *program, size_t *count, char *word)
{
    program->words[(*count)++] = word;
}

/* Puts together what torchrun would start. */
static void make_words(char *const *launcher, const struct mt_torchrun *launch, struct mt_rank_program *out)
{
    static char unbuffered[] = "-u", module[] = "-m";
    size_t most = 4, count = 0;
    for (char *const *word = launch->script; *word != NULL; word++)
        most++;
    out->words = mt_host_alloc(most * sizeof out->words[0]);
    if (!launch->is_plain) {
        const bool is_python = mt_python_is(launcher[0]);
        out->interpreter = is_python ? mt_host_strdup(launcher[0]) : interpreter_beside(launcher[0]);
        add_word(out, &count, out->interpreter);
        add_word(out, &count, unbuffered);
        if (launch->is_module)
            add_word(out, &count, module);
    }
    for (char *const *word = launch->script; *word != NULL; word++)
        add_word(out, &count, *word);
    assert(count < most);
}

/* ---- counts ---- */

/* Finds the number of ranks, and of those a node, from what was asked for and what torchrun's words say. */
static mt_status count_ranks(const struct mt_torchrun *launch, int64_t ranks, int64_t per_node,
                             struct mt_rank_program *out)
{
    if (launch->per_node > 0)
        per_node = launch->per_node;
    if (ranks == 0)
        ranks = (launch->nodes > 0 ? launch->nodes : 1) * (per_node > 0 ? per_node : 1);
    if (per_node == 0)
        per_node = ranks < USUAL_PER_NODE ? ranks : USUAL_PER_NODE;
    if (ranks > MT_MOST_RANKS)
        return mt_fail(MT_USAGE, "there are at most %d ranks, not %" PRId64, MT_MOST_RANKS, ranks);
    if (ranks % per_node != 0)
        return mt_fail(MT_USAGE, "%" PRId64 " ranks are no whole number of nodes with %" PRId64 " each", ranks,
                       per_node);
    if (launch->nodes > 1 && launch->nodes * per_node != ranks)
        return mt_fail(MT_USAGE,
                       "torchrun's words say %" PRId64 " nodes with %" PRId64 " ranks each, and %" PRId64
                       " ranks are requested",
                       launch->nodes, per_node, ranks);
    out->ranks = ranks;
    out->per_node = per_node;
    return MT_OK;
}

mt_status mt_rank_program_read(char *const *words, int64_t ranks, int64_t per_node, struct mt_rank_program *out)
{
    struct mt_torchrun launch;
    *out = (struct mt_rank_program){0};
    MT_TRY(mt_torchrun_read(words, &launch));
    MT_TRY(count_ranks(&launch, ranks, per_node, out));
    make_words(words, &launch, out);
    return MT_OK;
}

void mt_rank_program_release(struct mt_rank_program *program)
{
    free(program->words);
    free(program->interpreter);
    *program = (struct mt_rank_program){0};
}

/* ---- a rank ---- */

void mt_rank_program_enter(const struct mt_rank_program *program, int64_t rank, struct mt_environment *environment)
{
    assert(rank >= 0 && rank < program->ranks && program->ranks % program->per_node == 0);
    const int64_t nodes = program->ranks / program->per_node;
    mt_environment_set_number(environment, "RANK", rank);
    mt_environment_set_number(environment, "WORLD_SIZE", program->ranks);
    mt_environment_set_number(environment, "LOCAL_RANK", rank % program->per_node);
    mt_environment_set_number(environment, "LOCAL_WORLD_SIZE", program->per_node);
    mt_environment_set_number(environment, "GROUP_RANK", rank / program->per_node);
    mt_environment_set_number(environment, "GROUP_WORLD_SIZE", nodes);
    mt_environment_set_number(environment, "ROLE_RANK", rank);
    mt_environment_set_number(environment, "ROLE_WORLD_SIZE", program->ranks);
    mt_environment_set(environment, "MASTER_ADDR", "127.0.0.1");
    mt_environment_set(environment, "MASTER_PORT", "29500");
    mt_environment_set(environment, "TORCHELASTIC_RESTART_COUNT", "0");
    mt_environment_set(environment, "TORCHELASTIC_MAX_RESTARTS", "0");
    mt_environment_set(environment, "TORCHELASTIC_RUN_ID", "dry-run");
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
