#include "analysis/torch_history.h"

#include "base/memory.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert((int)MT_EVERY_DEVICE == (int)MT_IMPORT_ANY_DEVICE, "the device is handed to an import");

/* Returns the trace for the file TRACE-pid.pickle; the caller frees it. NULL if the file has another name. */
static char *trace_of_history(const struct mt_record_answer *answer)
{
    struct mt_text ending = {0};
    mt_text_add(&ending, "-%" PRId64 ".pickle", answer->pid);
    const size_t length = strlen(answer->text), rest = length > ending.length ? length - ending.length : 0;
    const bool fits = rest > 0 && strcmp(answer->text + rest, ending.data) == 0;
    mt_text_release(&ending);
    char *trace = fits ? mt_host_strdup(answer->text) : NULL;
    if (fits)
        trace[rest] = '\0';
    return trace;
}

mt_status mt_torch_history_import(const struct mt_record_answer *answer, const char *name, int64_t device,
                                  struct mt_torch_history *out)
{
    *out = (struct mt_torch_history){.trace = trace_of_history(answer)};
    if (out->trace == NULL)
        return MT_OK;
    const struct mt_import_plan plan = {.file = answer->text, .trace = out->trace, .name = name, .device = device};
    MT_TRY(mt_import(&plan, &out->report));
    unlink(answer->text);
    return MT_OK;
}

void mt_torch_history_release(struct mt_torch_history *history)
{
    mt_import_report_release(&history->report);
    free(history->trace);
}
