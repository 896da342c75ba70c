#include "producers/program/gathered_runs.h"

#include "base/memory.h"
#include "base/text.h"
#include "trace/store/append.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Changes the trace in answers about its runs, and adds `shift` to the runs' numbers. */
static void rename_trace(struct mt_program_outcome *outcome, const char *from, const char *to, int64_t shift)
{
    for (size_t i = 0; i < outcome->count; i++) {
        struct mt_record_answer *answer = &outcome->answers[i];
        if (answer->kind != MT_RECORD_RUN || strcmp(answer->text, from) != 0)
            continue;
        free((char *)(uintptr_t)answer->text);
        answer->text = mt_host_strdup(to);
        answer->number += shift;
    }
}

/* Appends a trace to the trace of the same name in the folder of `trace`. */
static mt_status append_trace(struct mt_program_outcome *outcome, const char *from, const char *trace)
{
    struct mt_text to = {0};
    int64_t shift;
    mt_text_add(&to, "%.*s%s", (int)(strrchr(trace, '/') - trace), trace, strrchr(from, '/'));
    mt_status status = mt_trace_append(from, to.data, &shift);
    if (status == MT_OK)
        rename_trace(outcome, from, to.data, shift);
    mt_text_release(&to);
    return status;
}

/* True if a trace is in the folder of another one. */
static bool is_beside(const char *path, const char *trace)
{
    const size_t folder = (size_t)(strrchr(trace, '/') - trace) + 1;
    return strncmp(path, trace, folder) == 0 && strchr(path + folder, '/') == NULL;
}

mt_status mt_gathered_runs_append(struct mt_program_outcome *outcome, const char *trace)
{
    assert(trace[0] == '/');
    for (size_t i = 0; i < outcome->count; i++) {
        if (outcome->answers[i].kind != MT_RECORD_RUN || is_beside(outcome->answers[i].text, trace))
            continue;
        char *from = mt_host_strdup(outcome->answers[i].text);
        mt_status status = append_trace(outcome, from, trace);
        free(from);
        MT_TRY(status);
    }
    return MT_OK;
}
