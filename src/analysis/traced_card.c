#include "analysis/traced_card.h"

#include "producers/model/plan_settings.h"

#include <inttypes.h>
#include <stdlib.h>

/* Reads the stored card; leaves *out unchanged if the run stores none. */
static mt_status read_stored(const struct mt_run *run, const char *text, struct mt_traced_card *out)
{
    if (text[0] == '\0')
        return MT_OK;
    out->is_stored = mt_card_parse(text, &out->card) == MT_OK;
    return out->is_stored ? MT_OK
                          : mt_fail(MT_BAD_TRACE, "the trace is damaged: the card of run %" PRId64 ": %s", run->id,
                                    mt_last_error());
}

mt_status mt_traced_card_find(struct mt_trace *trace, const struct mt_run *run, struct mt_traced_card *out)
{
    struct mt_setting_row *rows = NULL;
    size_t count = 0;
    *out = (struct mt_traced_card){0};
    const bool is_known = mt_device_find_traced_card(run->device, &out->card);
    out->is_spelled = is_known && mt_device_is_simulated(run->device);
    mt_status status = mt_trace_settings(trace, run, &rows, &count);
    MT_THEN(status, read_stored(run, mt_setting_find(rows, count, MT_SETTING_OF_CARD), out));
    free(rows);
    return status;
}

const struct mt_card *mt_traced_card_with(const struct mt_traced_card *traced, uint64_t bytes, struct mt_card *memory)
{
    *memory = traced->card;
    memory->memory_bytes = bytes;
    memory->context_bytes = memory->others_bytes = 0;
    return traced->is_stored ? memory : NULL;
}
