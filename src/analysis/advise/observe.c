#include "analysis/advise/observe.h"

#include "analysis/advise/observed_forward.h"
#include "analysis/advise/observed_growth.h"
#include "analysis/advise/observed_peak.h"
#include "base/memory.h"
#include "base/order.h"
#include "trace/query/walk.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_EXCESS = 5 }; /* evaluation counts if it takes this part more than training */
enum { LEAST_PART = 20 };  /* a checkpoint counts if it is at least this part of its phase's peak */

/* True if another observation is about a loop with the same holder, or one of that name. */
static bool is_explained(const struct mt_observations *observations, const struct mt_observed *found)
{
    for (size_t i = 0; i < observations->count; i++) {
        const struct mt_observed *other = &observations->items[i];
        if (!mt_observed_is_growth(other) || other->holder == NULL)
            continue;
        if (found->kind == MT_OBSERVED_NOT_UPDATED && strcmp(other->holder->name, found->name) == 0)
            return true;
        if (found->kind == MT_OBSERVED_WEIGHT_COPY && mt_holder_is_same(other->holder, found->holder))
            return true;
    }
    return false;
}

/* Drops models that a loop collects from what else is said about them: the copies that they are, and the gradients
 * left from their own training. */
static void drop_explained(struct mt_observations *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < out->count; i++)
        if (!is_explained(out, &out->items[i]))
            out->items[kept++] = out->items[i];
    out->count = kept;
}

/* True if an observation is about the holder. */
static bool is_observed(const struct mt_observations *observations, const struct mt_holder_row *holder)
{
    for (size_t i = 0; i < observations->count; i++)
        if (observations->items[i].holder == holder)
            return true;
    return false;
}

/* Returns the change for iterations that add to one graph: of a loss, or of a state. */
static mt_observed_change change_of_one_graph(const struct mt_holder_row *holder)
{
    enum { SCALAR_BYTES = 8 };
    if (mt_holder_is_kind(holder, MT_HOLDER_GRADIENT_CHAIN))
        return MT_OBSERVED_CHANGE_FIRST_ORDER;
    return mt_program_phase_is(holder->phase, MT_PROGRAM_PHASE_TRAIN) && holder->first_bytes <= SCALAR_BYTES
               ? MT_OBSERVED_CHANGE_BACKWARD_EACH
               : mt_graphs_change(holder->phase, holder);
}

/* True if an observation is about graphs that a loop keeps, or the one graph of its iterations. */
static bool has_graphs_of_loop(const struct mt_observations *observations, const struct mt_holder_row *holder)
{
    for (size_t i = 0; i < observations->count; i++)
        if ((observations->items[i].kind == MT_OBSERVED_KEPT_GRAPHS ||
             observations->items[i].kind == MT_OBSERVED_ONE_GRAPH) &&
            observations->items[i].line == holder->loop_line &&
            strcmp(observations->items[i].file, holder->loop_file) == 0)
            return true;
    return false;
}

/* Adds loops whose iterations add to one graph, though memory does not grow from step to step. */
static void add_chains(struct mt_observations *out)
{
    for (size_t i = 0; i < out->holder_count; i++) {
        const struct mt_holder_row *holder = &out->holders[i];
        if (mt_holder_is_chain(holder) && !is_observed(out, holder) && !has_graphs_of_loop(out, holder))
            *MT_HOST_ADD(out->items, out->count) = (struct mt_observed){.kind = MT_OBSERVED_ONE_GRAPH,
                                                                        .change = change_of_one_graph(holder),
                                                                        .phase = holder->phase,
                                                                        .bytes = holder->held_bytes,
                                                                        .full_at = -1,
                                                                        .file = holder->loop_file,
                                                                        .line = holder->loop_line,
                                                                        .taken_at = "",
                                                                        .holder = holder};
    }
}

/* Adds memory that exceptions keep, with the holder of a kind that keeps most. */
static void add_kept_by_exceptions(mt_holder_kind kind, struct mt_observed found, struct mt_observations *out)
{
    for (size_t i = 0; i < out->holder_count; i++) {
        const struct mt_holder_row *holder = &out->holders[i];
        if (!mt_holder_is_kind(holder, kind) || is_observed(out, holder))
            continue;
        found.phase = holder->phase;
        found.bytes = holder->held_bytes;
        found.full_at = -1;
        found.file = found.taken_at = "";
        found.holder = holder;
        *MT_HOST_ADD(out->items, out->count) = found;
        return;
    }
}

/* Adds memory that a handled exception keeps, and memory that stored exceptions keep. */
static void add_exceptions(struct mt_observations *out)
{
    add_kept_by_exceptions(
        MT_HOLDER_TRACEBACK,
        (struct mt_observed){.kind = MT_OBSERVED_TRACEBACK, .change = MT_OBSERVED_CHANGE_LEAVE_EXCEPT}, out);
    add_kept_by_exceptions(
        MT_HOLDER_EXCEPTION,
        (struct mt_observed){.kind = MT_OBSERVED_EXCEPTIONS, .change = MT_OBSERVED_CHANGE_CLEAR_FRAMES}, out);
}

/* Adds the copies of the weights. */
static void add_copies(struct mt_observations *out)
{
    for (size_t i = 0; i < out->holder_count; i++)
        if (mt_holder_is_kind(&out->holders[i], MT_HOLDER_COPY))
            *MT_HOST_ADD(out->items, out->count) =
                (struct mt_observed){.kind = MT_OBSERVED_WEIGHT_COPY,
                                     .change = MT_OBSERVED_CHANGE_COPY_ON_HOST,
                                     .phase = mt_program_phase_name(MT_PROGRAM_PHASE_TRAIN),
                                     .bytes = out->holders[i].held_bytes,
                                     .full_at = -1,
                                     .file = "",
                                     .taken_at = "",
                                     .holder = &out->holders[i]};
}

/* Returns the holder with most of the memory loaded by the line; NULL: unknown. */
static const struct mt_holder_row *holder_of_loaded(const struct mt_observations *observations,
                                                    const struct mt_loaded_row *loaded)
{
    for (size_t i = 0; i < observations->holder_count; i++)
        if (strcmp(observations->holders[i].taken_at, loaded->taken_at) == 0)
            return &observations->holders[i];
    return NULL;
}

/* Adds a checkpoint that is on the card at the peak of loading. */
static mt_status add_checkpoint(const struct mt_question *question, struct mt_observations *out)
{
    const char *load = mt_program_phase_name(MT_PROGRAM_PHASE_LOAD);
    for (size_t i = 0; i < out->phase_count; i++) {
        struct mt_loaded_row loaded;
        if (strcmp(out->phases[i].name, load) != 0)
            continue;
        MT_TRY(mt_trace_loaded(question->trace, question->run, out->phases[i].event, &loaded));
        if (loaded.bytes > 0 && loaded.bytes >= out->phases[i].bytes / LEAST_PART)
            *MT_HOST_ADD(out->items, out->count) = (struct mt_observed){.kind = MT_OBSERVED_CHECKPOINT,
                                                                        .change = MT_OBSERVED_CHANGE_MAP_LOCATION,
                                                                        .phase = load,
                                                                        .bytes = loaded.bytes,
                                                                        .full_at = -1,
                                                                        .file = "",
                                                                        .taken_at = loaded.taken_at,
                                                                        .holder = holder_of_loaded(out, &loaded)};
    }
    return MT_OK;
}

/* Returns the phase that is reached by that name; NULL: there is none. */
static const struct mt_program_phase_row *find_phase(const struct mt_observations *observations, mt_program_phase phase)
{
    for (size_t i = 0; i < observations->phase_count; i++)
        if (mt_program_phase_is(observations->phases[i].name, phase))
            return &observations->phases[i];
    return NULL;
}

/* True if a loop of a phase keeps more in each iteration, which explains the peak of the phase. */
static bool has_growth(const struct mt_observations *observations, const char *phase)
{
    for (size_t i = 0; i < observations->count; i++)
        if (observations->items[i].line > 0 && strcmp(observations->items[i].phase, phase) == 0)
            return true;
    return false;
}

/* True if the copy of the weights with most memory has as many bytes: a new one is made while the old one is there. */
static bool has_copy_of(const struct mt_observations *observations, uint64_t bytes)
{
    for (size_t i = 0; i < observations->count; i++)
        if (observations->items[i].kind == MT_OBSERVED_WEIGHT_COPY && observations->items[i].bytes >= bytes)
            return true;
    return false;
}

/* True if transformers' Trainer called what allocated at an event. */
static mt_status find_trainer(const struct mt_question *question, int64_t event, bool *out)
{
    struct mt_stack_row *stacks;
    size_t count;
    uint32_t stack = 0;
    *out = false;
    MT_TRY(mt_trace_stacks(question->trace, question->run, &stacks, &count));
    mt_status status = mt_trace_event_stack(question->trace, question->run, event, &stack);
    for (uint32_t at = stack < count ? stack : 0; at != 0 && !*out; at = stacks[at].parent)
        *out = strstr(stacks[at].file, "transformers/trainer") != NULL;
    free(stacks);
    return status;
}

/* Adds a phase of evaluation that takes clearly more than training. */
static mt_status add_evaluation(const struct mt_question *question, mt_program_phase phase, struct mt_observations *out)
{
    const struct mt_program_phase_row *train = find_phase(out, MT_PROGRAM_PHASE_TRAIN), *found = find_phase(out, phase);
    if (train == NULL || found == NULL || found->bytes < train->bytes + train->bytes / LEAST_EXCESS ||
        has_growth(out, found->name) || has_copy_of(out, found->bytes - train->bytes))
        return MT_OK;
    struct mt_observed observed = {.kind = MT_OBSERVED_EVALUATION,
                                   .change = MT_OBSERVED_CHANGE_EVAL_BATCH,
                                   .phase = found->name,
                                   .bytes = found->bytes,
                                   .full_at = -1,
                                   .file = "",
                                   .taken_at = ""};
    bool is_of_trainer;
    MT_TRY(mt_trace_lines(question->trace, question->run, &found->event, 1, &observed.taken_at));
    MT_TRY(find_trainer(question, found->event, &is_of_trainer));
    if (is_of_trainer)
        observed.change = MT_OBSERVED_CHANGE_EVAL_STEPS;
    *MT_HOST_ADD(out->items, out->count) = observed;
    return MT_OK;
}

/* Returns the bytes of the largest observation about one moment. */
static uint64_t most_at_once(const struct mt_observations *observations)
{
    uint64_t most = 0;
    for (size_t i = 0; i < observations->count; i++)
        if (!mt_observed_is_growth(&observations->items[i]))
            most = mt_larger(most, observations->items[i].bytes);
    return most;
}

/* True for a loop that leaves little, after all its iterations, compared with what is on the card at once. */
static bool is_small_growth(const struct mt_observed *observed, uint64_t at_once_bytes)
{
    enum { SMALL_PART = 4 };
    return mt_observed_is_growth(observed) && observed->iterations > 0 &&
           observed->bytes * (uint64_t)observed->iterations < at_once_bytes / SMALL_PART;
}

/* Moves small growths behind what is larger. */
static void move_small_growths(struct mt_observations *out)
{
    const uint64_t most = most_at_once(out);
    struct mt_observed *small = mt_host_alloc((out->count + 1) * sizeof *small);
    size_t small_count = 0, kept = 0;
    for (size_t i = 0; i < out->count; i++) {
        if (is_small_growth(&out->items[i], most))
            small[small_count++] = out->items[i];
        else
            out->items[kept++] = out->items[i];
    }
    memcpy(&out->items[kept], small, small_count * sizeof *small);
    free(small);
}

mt_status mt_observations_load(const struct mt_question *question, struct mt_observations *out)
{
    *out = (struct mt_observations){.ran_out = mt_run_is(question->run, MT_RUN_OOM)};
    MT_TRY(mt_trace_holders(question->trace, question->run, &out->holders, &out->holder_count));
    MT_TRY(mt_trace_program_phases(question->trace, question->run, &out->phases, &out->phase_count));
    MT_TRY(mt_observations_add_growths(question, out));
    add_chains(out);
    add_exceptions(out);
    add_copies(out);
    drop_explained(out);
    MT_TRY(add_checkpoint(question, out));
    MT_TRY(add_evaluation(question, MT_PROGRAM_PHASE_VALIDATE, out));
    MT_TRY(add_evaluation(question, MT_PROGRAM_PHASE_GENERATE, out));
    MT_TRY(mt_observations_add_forward(question, out));
    MT_TRY(mt_observations_add_peak(question, out));
    if (out->count > 0)
        move_small_growths(out);
    return MT_OK;
}
