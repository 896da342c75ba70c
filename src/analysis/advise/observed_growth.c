#include "analysis/advise/observed_growth.h"

#include "analysis/run_settings.h"
#include "base/memory.h"
#include "trace/query/caveats.h"
#include "trace/query/leaks.h"
#include "trace/query/walk.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_GRADIENTS = 1 << 20, LEAST_NOT_UPDATED = 1 << 16 }; /* convolutions keep much larger activations */

/* True for names such as self.key_cache, past_key_values or self.k. */
static bool is_named_as_cache(const char *name)
{
    static const char *const parts[] = {"cache", "past", "key", "kv"}, *const ends[] = {".k", ".v"};
    const size_t length = strlen(name), end = strlen(ends[0]);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strcasestr(name, parts[i]) != NULL)
            return true;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (length >= end && strcmp(name + length - end, ends[i]) == 0)
            return true;
    return false;
}

/* True for key-value caches. A tensor that grows by torch.cat() outside of modules has the same role. */
static bool is_cache(const struct mt_holder_row *holder)
{
    return is_named_as_cache(holder->name) ||
           (strcmp(holder->role, mt_role_name(MT_ROLE_KEY_VALUE_CACHE)) == 0 && holder->is_in_module);
}

/* True for an attribute of the ctx of the program's torch.autograd.Function, also of one in a reference cycle. */
static bool is_of_context(const struct mt_holder_row *holder)
{
    static const char context[] = "ctx.";
    const char *name = mt_holder_is_kind(holder, MT_HOLDER_CYCLE) ? holder->owner : holder->name;
    return strncmp(name, context, sizeof context - 1) == 0;
}

mt_observed_change mt_holder_change(const struct mt_holder_row *holder, const char *phase)
{
    static const char cached[] = "lru_cache of ";
    if (strncmp(holder->name, cached, sizeof cached - 1) == 0)
        return MT_OBSERVED_CHANGE_LIMIT_RESULTS;
    const bool infers =
        mt_program_phase_is(phase, MT_PROGRAM_PHASE_GENERATE) || mt_program_phase_is(phase, MT_PROGRAM_PHASE_INFERENCE);
    if (infers && is_cache(holder))
        return MT_OBSERVED_CHANGE_BOUND_CACHE;
    if (strstr(holder->file, "torch/optim/lbfgs.py") != NULL)
        return MT_OBSERVED_CHANGE_HISTORY_SIZE;
    if (is_of_context(holder))
        return MT_OBSERVED_CHANGE_SAVE_FOR_BACKWARD;
    return strstr(holder->file, "/transformers/trainer") != NULL ? MT_OBSERVED_CHANGE_EVAL_STEPS
                                                                 : MT_OBSERVED_CHANGE_MOVE_TO_HOST;
}

mt_observed_change mt_graphs_change(const char *phase, const struct mt_holder_row *holder)
{
    if (mt_holder_is_kind(holder, MT_HOLDER_GRADIENT_CHAIN))
        return MT_OBSERVED_CHANGE_FIRST_ORDER;
    if (!mt_program_phase_is(phase, MT_PROGRAM_PHASE_TRAIN))
        return MT_OBSERVED_CHANGE_NO_GRAD;
    return mt_holder_is_kind(holder, MT_HOLDER_CHAIN) ? MT_OBSERVED_CHANGE_DETACH_STATE : MT_OBSERVED_CHANGE_DETACH;
}

/* Adds the growth of a loop, by the kind of its holder. */
static void add_growth(struct mt_observations *out, struct mt_observed found)
{
    const struct mt_holder_row *holder = found.holder;
    if (holder == NULL) {
        found.kind = MT_OBSERVED_GROWTH;
        found.change = MT_OBSERVED_CHANGE_FIND_HOLDER;
    } else if (mt_holder_is_kind(holder, MT_HOLDER_CYCLE)) {
        found.kind = MT_OBSERVED_CYCLES;
        found.change = is_of_context(holder) ? MT_OBSERVED_CHANGE_SAVE_FOR_BACKWARD : MT_OBSERVED_CHANGE_BREAK_CYCLE;
    } else if (mt_holder_is_kind(holder, MT_HOLDER_GRADIENT_CYCLE)) {
        found.kind = MT_OBSERVED_CYCLES;
        found.change = MT_OBSERVED_CHANGE_AUTOGRAD_GRAD;
    } else if (mt_holder_is_kind(holder, MT_HOLDER_GRAPH) || mt_holder_is_chain(holder)) {
        found.kind = MT_OBSERVED_KEPT_GRAPHS;
        found.change = mt_graphs_change(found.phase, holder);
    } else {
        found.kind = MT_OBSERVED_KEPT_TENSORS;
        found.change = mt_holder_change(holder, found.phase);
        if (mt_holder_is_kind(holder, MT_HOLDER_EXCEPTION))
            found.change = MT_OBSERVED_CHANGE_CLEAR_FRAMES;
        if (mt_holder_is_kind(holder, MT_HOLDER_TRACEBACK))
            found.change = MT_OBSERVED_CHANGE_LEAVE_EXCEPT;
        if (found.change == MT_OBSERVED_CHANGE_HISTORY_SIZE)
            found.full_at = -1; /* the history has an end */
    }
    struct mt_observed views = found;
    views.kind = MT_OBSERVED_KEPT_VIEWS;
    views.change = MT_OBSERVED_CHANGE_CLONE_VIEWS;
    const bool has_views = mt_holder_is_kind(holder, MT_HOLDER_VIEW),
               is_cache = found.change == MT_OBSERVED_CHANGE_BOUND_CACHE;
    if (has_views && !is_cache)
        *MT_HOST_ADD(out->items, out->count) = views;
    *MT_HOST_ADD(out->items, out->count) = found;
    if (has_views && is_cache)
        *MT_HOST_ADD(out->items, out->count) = views;
}

/* Returns the holder with most of the memory allocated in a phase; NULL: unknown. */
static const struct mt_holder_row *holder_in(const struct mt_observations *observations, const char *phase)
{
    for (size_t i = 0; i < observations->holder_count; i++)
        if (strcmp(observations->holders[i].phase, phase) == 0)
            return &observations->holders[i];
    return NULL;
}

/* Returns a holder after `first` that keeps at least half as much, has the same phase and grows in a loop, and whose
 * memory stays from step to step; `first` itself if it stays, or without such a one. A loop inside of a step may collect
 * what the step frees. */
static const struct mt_holder_row *lasting_holder(const struct mt_observations *observations,
                                                  const struct mt_holder_row *first)
{
    const struct mt_holder_row *end = &observations->holders[observations->holder_count];
    for (const struct mt_holder_row *holder = first; holder < end && holder->held_bytes >= first->held_bytes / 2;
         holder++)
        if (!holder->is_freed && holder->loop_file[0] != '\0' && strcmp(holder->phase, first->phase) == 0)
            return holder;
    return first;
}

/* Returns the holder with most of the memory that grows in loops; NULL: unknown. */
static const struct mt_holder_row *holder_in_loops(const struct mt_observations *observations)
{
    for (size_t i = 0; i < observations->holder_count; i++)
        if (observations->holders[i].loop_file[0] != '\0')
            return &observations->holders[i];
    return NULL;
}

/* Returns the holder with most of the memory allocated in a phase that grows in a loop or, without `grows`, that keeps
 * more than one block; NULL: unknown. A variable that refers to the newest tensor keeps no growing memory. */
static const struct mt_holder_row *holder_of_growth(const struct mt_observations *observations, const char *phase,
                                                    bool grows)
{
    for (size_t i = 0; i < observations->holder_count; i++) {
        const struct mt_holder_row *holder = &observations->holders[i];
        if (strcmp(holder->phase, phase) == 0 &&
            (grows ? holder->loop_file[0] != '\0' : holder->held_bytes > holder->first_bytes))
            return holder;
    }
    return NULL;
}

/* Returns the holder with most of the memory that grows in the loop at a place; NULL: unknown. */
static const struct mt_holder_row *holder_at(const struct mt_observations *observations, const struct mt_caveat *loop)
{
    for (size_t i = 0; i < observations->holder_count; i++)
        if (observations->holders[i].loop_line == loop->line &&
            strcmp(observations->holders[i].loop_file, loop->file) == 0)
            return &observations->holders[i];
    return NULL;
}

/* Returns the holder with most of the memory that grows in a loop; NULL: unknown. A step's place differs from the place
 * of its model's call. So for steps, any holder of a training loop counts, or else a holder of another loop: a loop
 * that acts may be inside a loop that learns. */
static const struct mt_holder_row *holder_of_loop(const struct mt_observations *observations,
                                                  const struct mt_caveat *loop, const char *phase)
{
    const struct mt_holder_row *found = holder_at(observations, loop);
    if (found != NULL || !mt_program_phase_is(phase, MT_PROGRAM_PHASE_TRAIN))
        return found;
    found = holder_of_growth(observations, phase, true);
    if (found != NULL)
        return lasting_holder(observations, found);
    found = holder_in_loops(observations);
    return found != NULL ? found : holder_of_growth(observations, phase, false);
}

/* Adds memory on a card that belongs to another rank, and gradients that are needless: no optimizer uses them, or the
 * program clears or zeroes them. */
static void add_measured(const struct mt_caveat *row, struct mt_observations *out)
{
    static const struct {
        mt_caveat_kind of;
        mt_observed_kind kind;
        mt_observed_change change;
        int64_t least_bytes;
    } kinds[] = {{MT_CAVEAT_OTHER_CARD, MT_OBSERVED_OTHER_CARD, MT_OBSERVED_CHANGE_OWN_CARD, 1},
                 {MT_CAVEAT_NOT_UPDATED, MT_OBSERVED_NOT_UPDATED, MT_OBSERVED_CHANGE_FREEZE, LEAST_NOT_UPDATED},
                 {MT_CAVEAT_NOT_DETACHED, MT_OBSERVED_NOT_DETACHED, MT_OBSERVED_CHANGE_DETACH_OUTPUT, LEAST_GRADIENTS},
                 {MT_CAVEAT_ZEROED, MT_OBSERVED_ZEROED, MT_OBSERVED_CHANGE_SET_TO_NONE, LEAST_GRADIENTS}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (row->kind == kinds[i].of && row->bytes >= kinds[i].least_bytes)
            *MT_HOST_ADD(out->items, out->count) = (struct mt_observed){.kind = kinds[i].kind,
                                                                        .change = kinds[i].change,
                                                                        .phase = "",
                                                                        .name = row->name,
                                                                        .bytes = (uint64_t)row->bytes,
                                                                        .full_at = -1,
                                                                        .file = row->file,
                                                                        .line = row->line,
                                                                        .taken_at = ""};
}

static bool is_of_library(const char *file)
{
    return file[0] != '\0' && !mt_stack_file_is_own(file);
}

/* Drops what a loop inside a library keeps, such as the tokens of one sequence, if a loop of the program keeps more. */
static void drop_inner_growths(struct mt_observations *out)
{
    size_t kept = 0;
    bool has_own = false;
    for (size_t i = 0; i < out->count; i++)
        has_own |= out->items[i].holder != NULL && !is_of_library(out->items[i].holder->file);
    for (size_t i = 0; i < out->count; i++) {
        const struct mt_observed *found = &out->items[i];
        const bool is_inner = found->holder != NULL && found->kind == MT_OBSERVED_KEPT_TENSORS &&
                              is_of_library(found->file) && is_of_library(found->holder->file);
        if (!has_own || !is_inner)
            out->items[kept++] = *found;
    }
    out->count = kept;
}

/* Sets *out to false if most memory that a generating loop leaves behind is no key-value cache. Blocks of a cache have
 * that role, or come from the same operator as the holder's blocks. */
static mt_status are_caches_most(const struct mt_question *question, const struct mt_holder_row *holder, bool *out)
{
    struct mt_leaks leaks;
    uint64_t all = 0, caches = 0;
    mt_status status = mt_trace_leaks(question->trace, question->run, &leaks);
    const bool is_known = status == MT_OK && mt_program_phase_is(leaks.loop, MT_PROGRAM_PHASE_GENERATE);
    for (size_t i = 0; i < leaks.row_count && is_known; i++) {
        const struct mt_leak_row *row = &leaks.rows[i];
        const bool is_of_cache = strcmp(row->role, mt_role_name(MT_ROLE_KEY_VALUE_CACHE)) == 0;
        all += row->last_bytes - row->first_bytes;
        if (is_of_cache || strcmp(row->op, holder->op) == 0)
            caches += row->last_bytes - row->first_bytes;
    }
    mt_leaks_release(&leaks);
    *out = caches == 0 || caches >= all / 2; /* without such a role, the name decides */
    return status == MT_USAGE ? MT_OK : status;
}

/* Corrects the change of growths that are not of key-value caches, although a cache is among them. */
static mt_status check_caches(const struct mt_question *question, struct mt_observations *out)
{
    for (size_t i = 0; i < out->count; i++) {
        bool are_most = true;
        if (out->items[i].change == MT_OBSERVED_CHANGE_BOUND_CACHE)
            MT_TRY(are_caches_most(question, out->items[i].holder, &are_most));
        if (!are_most)
            out->items[i].change = MT_OBSERVED_CHANGE_MOVE_TO_HOST;
    }
    return MT_OK;
}

/* Changes what is to be done about growth without a holder in a dry run, which searches for holders. */
static mt_status check_unheld(const struct mt_question *question, struct mt_observations *out)
{
    struct mt_settings settings;
    MT_TRY(mt_settings_load(question->trace, question->run, &settings));
    const bool is_dry = mt_program_of_settings(&settings).is_dry;
    mt_settings_release(&settings);
    for (size_t i = 0; i < out->count && is_dry; i++)
        if (out->items[i].change == MT_OBSERVED_CHANGE_FIND_HOLDER)
            out->items[i].change = MT_OBSERVED_CHANGE_MOVE_TO_HOST;
    return MT_OK;
}

/* True for growth that is small even after all iterations, such as a list of numbers on the card. */
static bool is_negligible(const struct mt_caveat *growth)
{
    enum { LEAST_BYTES = 1 << 20 };
    return growth->total > 0 && growth->bytes < LEAST_BYTES / growth->total;
}

/* Adds loop growth that was measured during the run, memory on other cards, and needless gradients. */
static mt_status add_growths(const struct mt_question *question, struct mt_observations *out, bool *out_trains)
{
    struct mt_caveat *rows;
    size_t count;
    MT_TRY(mt_trace_caveats(question->trace, question->run, &rows, &count));
    for (size_t i = 0; i < count; i++) {
        mt_program_phase phase;
        add_measured(&rows[i], out);
        if (rows[i].kind != MT_CAVEAT_GROWTH || rows[i].bytes < 0 || is_negligible(&rows[i]))
            continue;
        const char *name =
            mt_program_phase_find(rows[i].name, &phase) ? rows[i].name : mt_program_phase_name(MT_PROGRAM_PHASE_TRAIN);
        *out_trains |= mt_program_phase_is(name, MT_PROGRAM_PHASE_TRAIN);
        add_growth(out, (struct mt_observed){.phase = name,
                                             .bytes = (uint64_t)rows[i].bytes,
                                             .full_at = rows[i].count,
                                             .iterations = rows[i].total > 0 ? rows[i].total : 0,
                                             .file = rows[i].file,
                                             .line = rows[i].line,
                                             .taken_at = "",
                                             .holder = holder_of_loop(out, &rows[i], name)});
    }
    free(rows);
    return MT_OK;
}

/* Adds memory that steps leave behind, which a recording does not measure. */
static mt_status add_leaks(const struct mt_question *question, struct mt_observations *out)
{
    const char *train = mt_program_phase_name(MT_PROGRAM_PHASE_TRAIN);
    struct mt_leaks leaks;
    uint64_t bytes = 0;
    mt_status status = mt_trace_leaks(question->trace, question->run, &leaks);
    for (size_t i = 0; i < leaks.row_count && leaks.loop[0] == '\0'; i++)
        bytes += leaks.rows[i].last_bytes - leaks.rows[i].first_bytes;
    if (status == MT_OK && bytes > 0 && holder_in(out, train) != NULL)
        add_growth(out, (struct mt_observed){.phase = train,
                                             .bytes = bytes / (uint64_t)(leaks.last_step - leaks.first_step),
                                             .full_at = -1,
                                             .file = "",
                                             .taken_at = "",
                                             .holder = lasting_holder(out, holder_in(out, train))});
    mt_leaks_release(&leaks);
    return status == MT_USAGE ? MT_OK : status;
}

mt_status mt_observations_add_growths(const struct mt_question *question, struct mt_observations *out)
{
    bool trains = false;
    MT_TRY(add_growths(question, out, &trains));
    drop_inner_growths(out);
    MT_TRY(check_caches(question, out));
    MT_TRY(check_unheld(question, out));
    return trains ? MT_OK : add_leaks(question, out);
}
