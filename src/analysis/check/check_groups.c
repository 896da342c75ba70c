#include "analysis/check/check_groups.h"

#include "base/text.h"
#include "trace/query/blocks.h"
#include "trace/query/groups.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define X(name, text) text,
static const char *const roles[] = {MT_ROLES(X)};
static const char *const phases[] = {MT_PHASES(X)};
#undef X

static mt_status check_name(const char *kind, const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return MT_OK;
    return mt_fail_unknown(kind, name, names, count);
}

/* True if the path is that of the module, or of one within it. */
static bool is_within(const char *path, const char *module)
{
    size_t length = strlen(module);
    return strncmp(path, module, length) == 0 && (path[length] == '\0' || path[length] == '.');
}

static mt_status check_module(const struct mt_question *question, const char *module)
{
    struct mt_label_row *labels;
    size_t count;
    bool is_found = false;
    mt_status status = mt_trace_labels(question->trace, question->run, &labels, &count);
    for (size_t i = 1; i < count && status == MT_OK && !is_found; i++)
        is_found = is_within(labels[i].place, module);
    free(labels);
    if (status != MT_OK || is_found)
        return status;
    return mt_fail(MT_USAGE, "run %" PRId64 " has no module \"%s\"; in a path * stands for the number of a layer",
                   question->run->id, module);
}

/* Sums the groups of the allocated peak that have the name or, of modules, are within it. */
static mt_status sum_groups(const struct mt_question *question, mt_group_key key, const char *name, uint64_t *out)
{
    struct mt_peak_row peak;
    mt_status status = mt_trace_peak_by(question->trace, question->run, MT_ALL_STEPS, MT_MEASURE_ALLOCATED, key, &peak);
    *out = 0;
    for (size_t i = 0; i < peak.share_count && status == MT_OK; i++) {
        const char *group = peak.shares[i].name;
        if (key == MT_GROUP_MODULE ? is_within(group, name) : strcmp(group, name) == 0)
            *out += peak.shares[i].allocated_bytes;
    }
    mt_peak_row_release(&peak);
    return status;
}

mt_status mt_role_bytes(const struct mt_question *question, const char *role, uint64_t *out)
{
    MT_TRY(check_name("role", role, roles, sizeof roles / sizeof roles[0]));
    return sum_groups(question, MT_GROUP_ROLE, role, out);
}

mt_status mt_module_bytes(const struct mt_question *question, const char *module, uint64_t *out)
{
    MT_TRY(check_module(question, module));
    return sum_groups(question, MT_GROUP_MODULE, module, out);
}

mt_status mt_phase_bytes(const struct mt_question *question, const char *phase, uint64_t *out)
{
    struct mt_phase_peak *peaks;
    size_t count;
    MT_TRY(check_name("phase", phase, phases, sizeof phases / sizeof phases[0]));
    mt_status status = mt_trace_phase_peaks(question->trace, question->run, &peaks, &count);
    *out = 0;
    for (size_t i = 0; i < count && status == MT_OK; i++)
        if (strcmp(peaks[i].phase, phase) == 0)
            *out = peaks[i].bytes;
    free(peaks);
    return status;
}
