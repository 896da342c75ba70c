#include "operators/cudnn/helper/cudnn_reasons.h"

#include <stdlib.h>
#include <string.h>

static struct mt_cudnn_plans *written;

void cudnn_reasons_write(struct mt_cudnn_plans *plans, int64_t kept)
{
    written = plans;
    if (plans != NULL)
        plans->rejected_count = kept;
}

static void add(int32_t engine, int32_t reason)
{
    if (engine >= 0 && written->rejected_count < MT_CUDNN_MOST_REJECTED)
        written->rejected[written->rejected_count++] = (struct mt_cudnn_rejected){engine, reason};
}

/* Returns the reason that a line of the log gives; `otherwise` if it gives none. */
static int32_t reason_in(const char *line, int32_t otherwise)
{
    static const struct {
        const char *words;
        int32_t reason;
    } reasons[] = {{"PREREQUISITE_MISSING", MT_CUDNN_NEEDS_DRIVER},
                   {"NOT_SUPPORTED_", MT_CUDNN_UNSUPPORTED},
                   {"NOT_INITIALIZED", MT_CUDNN_UNSUPPORTED},
                   {"none implementable", MT_CUDNN_UNSUPPORTED}};
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (strstr(line, reasons[i].words) != NULL)
            return reasons[i].reason;
    return otherwise;
}

/* A message is lines that each end with NUL, and an empty one. An engine's reasons follow the line with its name. */
static void hear(int severity, void *data, const void *debug, const char *message)
{
    static const char ENGINE[] = "{\"engineId\":";
    (void)severity, (void)data, (void)debug;
    if (written == NULL || strstr(message, "support_checks") == NULL)
        return;
    int32_t engine = -1, reason = MT_CUDNN_NEEDS_HANDLE;
    for (const char *line = message; *line != '\0'; line += strlen(line) + 1) {
        const char *name = strstr(line, ENGINE);
        if (name != NULL) {
            add(engine, reason);
            engine = atoi(name + sizeof ENGINE - 1);
            reason = MT_CUDNN_NEEDS_HANDLE;
        }
        reason = reason_in(line, reason);
    }
    add(engine, reason);
}

void cudnn_reasons_follow(const struct cudnn_backend *backend)
{
    (void)backend->set_callback(~0u, NULL, hear);
}
