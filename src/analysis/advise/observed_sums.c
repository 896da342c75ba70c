#include "analysis/advise/observed_sums.h"

#include "base/memory.h"
#include "base/order.h"
#include "trace/query/walk.h"

#include <string.h>

enum { LEAST_PART = 10 };  /* of the allocated bytes */
enum { MOST_LAYERS = 64 }; /* that are distinguished */

bool mt_label_is_role(const struct mt_label_row *label, mt_role role)
{
    return strcmp(label->role, mt_role_name(role)) == 0;
}

bool mt_label_is_in_phase(const struct mt_label_row *label, mt_phase phase)
{
    return strcmp(label->phase, mt_phase_name(phase)) == 0;
}

bool mt_moment_has_label(const struct mt_moment_blocks *moment, bool (*counts)(const struct mt_label_row *))
{
    for (size_t i = 0; i < moment->label_count; i++)
        if (counts(&moment->labels[i]))
            return true;
    return false;
}

void mt_block_sum_add(const struct mt_moment_blocks *moment, size_t index, struct mt_block_sum *sum)
{
    const struct mt_block_row *block = &moment->blocks[index];
    const struct mt_label_row *label = &moment->labels[block->label];
    sum->bytes += block->block_bytes;
    sum->event = block->block_bytes > sum->largest ? block->alloc_event : sum->event;
    sum->largest = mt_larger(sum->largest, block->block_bytes);
    if (label->layer >= 0)
        sum->layers |= UINT64_C(1) << (label->layer % MOST_LAYERS);
}

struct mt_block_sum mt_block_sum_of(const struct mt_moment_blocks *moment, bool (*counts)(const struct mt_label_row *))
{
    struct mt_block_sum sum = {0};
    for (size_t i = 0; i < moment->count; i++)
        if (counts(&moment->labels[moment->blocks[i].label]))
            mt_block_sum_add(moment, i, &sum);
    return sum;
}

bool mt_block_sum_counts(const struct mt_moment_blocks *moment, struct mt_block_sum sum)
{
    return sum.bytes > 0 && sum.bytes >= moment->bytes / LEAST_PART;
}

/* Returns the program phase with the highest moment. */
static const char *phase_of_peak(const struct mt_observations *observations)
{
    const struct mt_program_phase_row *found = NULL;
    for (size_t i = 0; i < observations->phase_count; i++)
        if (found == NULL || observations->phases[i].bytes > found->bytes)
            found = &observations->phases[i];
    return found != NULL ? found->name : mt_program_phase_name(MT_PROGRAM_PHASE_TRAIN);
}

mt_status mt_observations_add_sum(const struct mt_question *question, const struct mt_moment_blocks *moment,
                                  struct mt_block_sum sum, mt_observed_kind kind, mt_observed_change change,
                                  struct mt_observations *out)
{
    struct mt_observed found = {.kind = kind,
                                .change = change,
                                .phase = phase_of_peak(out),
                                .bytes = sum.bytes,
                                .full_at = -1,
                                .file = "",
                                .taken_at = ""};
    if (!mt_block_sum_counts(moment, sum))
        return MT_OK;
    MT_TRY(mt_trace_lines(question->trace, question->run, &sum.event, 1, &found.taken_at));
    *MT_HOST_ADD(out->items, out->count) = found;
    return MT_OK;
}

mt_status mt_moment_blocks_read(const struct mt_question *question, int64_t event, struct mt_block_row **out_blocks,
                                struct mt_moment_blocks *moment)
{
    MT_TRY(mt_trace_live(question->trace, question->run, event, out_blocks, &moment->count));
    moment->blocks = *out_blocks;
    moment->bytes = 0;
    for (size_t i = 0; i < moment->count; i++)
        moment->bytes += moment->blocks[i].block_bytes;
    return MT_OK;
}
