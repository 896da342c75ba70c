#include "producers/program/gathered_runs.h"

#include "base/text.h"
#include "trace/store/append.h"

#include <assert.h>
#include <string.h>

/* Returns the place of the first answer about a run in the trace of the answer with that number. */
static size_t first_in_trace(const struct mt_program_outcome *outcome, size_t number)
{
    size_t i = 0;
    while (outcome->answers[i].kind != MT_RECORD_RUN ||
           strcmp(outcome->answers[i].text, outcome->answers[number].text) != 0)
        i++;
    return i;
}

static mt_status append_trace(const char *from, const char *trace, int64_t *out_shift)
{
    struct mt_text to = {0};
    mt_text_add(&to, "%.*s%s", (int)(strrchr(trace, '/') - trace), trace, strrchr(from, '/'));
    mt_status status = mt_trace_append(from, to.data, out_shift);
    mt_text_release(&to);
    return status;
}

mt_status mt_gathered_runs_append(const struct mt_program_outcome *outcome, const char *trace, int64_t *out_shift)
{
    bool is_first = true;
    assert(trace[0] == '/');
    *out_shift = 0;
    for (size_t i = 0; i < outcome->count; i++) {
        int64_t shift;
        if (outcome->answers[i].kind != MT_RECORD_RUN || first_in_trace(outcome, i) != i)
            continue;
        MT_TRY(append_trace(outcome->answers[i].text, trace, &shift));
        *out_shift = is_first ? shift : *out_shift;
        is_first = false;
    }
    return MT_OK;
}
