#include "analysis/check_groups.h"

#include "base/text.h"
#include "trace/query/blocks.h"
#include "trace/query/groups.h"

#include <assert.h>
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
    return mt_fail(MT_USAGE,
                   "run %" PRId64
                   " has no module \"%s\": memtrace peak --by module lists those of its peak, with * for "
                   "the number of a layer",
                   question->run->id, module);
}

/* Sums the groups of the allocated peak that are the bound's. */
static mt_status sum_groups(const struct mt_question *question, const struct mt_bound *bound, mt_group_key key,
                            uint64_t *out)
{
    struct mt_peak_row peak;
    mt_status status = mt_trace_peak_by(question->trace, question->run, MT_ALL_STEPS, MT_MEASURE_ALLOCATED, key, &peak);
    *out = 0;
    for (size_t i = 0; i < peak.share_count && status == MT_OK; i++) {
        const char *name = peak.shares[i].name;
        if (key == MT_GROUP_MODULE ? is_within(name, bound->name) : strcmp(name, bound->name) == 0)
            *out += peak.shares[i].allocated_bytes;
    }
    mt_peak_row_release(&peak);
    return status;
}

static mt_status find_phase(const struct mt_question *question, const char *phase, uint64_t *out)
{
    struct mt_phase_peak *peaks;
    size_t count;
    mt_status status = mt_trace_phase_peaks(question->trace, question->run, &peaks, &count);
    *out = 0;
    for (size_t i = 0; i < count && status == MT_OK; i++)
        if (strcmp(peaks[i].phase, phase) == 0)
            *out = peaks[i].bytes;
    free(peaks);
    return status;
}

mt_status mt_check_group_bytes(const struct mt_question *question, const struct mt_bound *bound, uint64_t *out)
{
    switch (bound->kind) {
    case MT_BOUND_ROLE:
        MT_TRY(check_name("role", bound->name, roles, sizeof roles / sizeof roles[0]));
        return sum_groups(question, bound, MT_GROUP_ROLE, out);
    case MT_BOUND_MODULE:
        MT_TRY(check_module(question, bound->name));
        return sum_groups(question, bound, MT_GROUP_MODULE, out);
    default:
        assert(bound->kind == MT_BOUND_PHASE);
        MT_TRY(check_name("phase", bound->name, phases, sizeof phases / sizeof phases[0]));
        return find_phase(question, bound->name, out);
    }
}
