#include "cli/run/run_changes.h"

#include "cli/run/run_settings.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

mt_status mt_settings_load(struct mt_trace *trace, const struct mt_run *run, struct mt_settings *out)
{
    return mt_trace_settings(trace, run, &out->rows, &out->count);
}

void mt_settings_release(struct mt_settings *settings)
{
    free(settings->rows);
    *settings = (struct mt_settings){0};
}

static bool is_listed(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* What changes no block's size or life. */
static bool is_without_effect(const char *name)
{
    static const char *const names[] = {"memtrace", "seed", "warmup", "kernels", "cuda_graph"};
    return is_listed(name, names, sizeof names / sizeof names[0]);
}

static bool is_dimension(const char *name)
{
    static const char *const names[] = {"d_model", "d_ff", "layers", "heads"};
    return is_listed(name, names, sizeof names / sizeof names[0]);
}

static const char *value_of(const struct mt_settings *settings, const char *name)
{
    return mt_run_setting_find(settings->rows, settings->count, name);
}

static bool differ(const struct mt_settings *a, const struct mt_settings *b, const char *name)
{
    return strcmp(value_of(a, name), value_of(b, name)) != 0;
}

/* Whether a setting that `a` has is one that they do not share. */
static bool is_change(const struct mt_settings *a, const struct mt_settings *b, const char *name)
{
    return !is_without_effect(name) && differ(a, b, name) && !(is_dimension(name) && differ(a, b, "model"));
}

static void add_change(struct mt_changes *changes, const char *name, const char *a, const char *b)
{
    if (changes->count < MT_MOST_CHANGES)
        changes->items[changes->count++] = (struct mt_change){name, a, b};
}

static int compare_changes(const void *left, const void *right)
{
    return strcmp(((const struct mt_change *)left)->name, ((const struct mt_change *)right)->name);
}

void mt_changes_find(const struct mt_settings *a, const struct mt_settings *b, struct mt_changes *out)
{
    out->count = 0;
    for (size_t i = 0; i < a->count; i++)
        if (is_change(a, b, a->rows[i].name))
            add_change(out, a->rows[i].name, a->rows[i].value, value_of(b, a->rows[i].name));
    for (size_t i = 0; i < b->count; i++) /* what b alone has */
        if (value_of(a, b->rows[i].name)[0] == '\0' && is_change(b, a, b->rows[i].name))
            add_change(out, b->rows[i].name, "", b->rows[i].value);
    qsort(out->items, out->count, sizeof out->items[0], compare_changes);
}

bool mt_settings_agree_but_for(const struct mt_settings *a, const struct mt_settings *b, const char *name)
{
    struct mt_changes changes;
    mt_changes_find(a, b, &changes);
    for (size_t i = 0; i < changes.count; i++)
        if (strcmp(changes.items[i].name, name) != 0)
            return false;
    return true;
}

static bool is_candidate(const struct mt_run *run)
{
    return strcmp(run->state, "done") == 0 && run->event_count > 0;
}

/* The newest run before `newer` that differs from it in one setting; NULL: none. */
static const struct mt_run *find_partner(const struct mt_run *runs, const struct mt_settings *settings, size_t newer)
{
    struct mt_changes changes;
    for (size_t older = newer; older-- > 0;) {
        if (!is_candidate(&runs[older]))
            continue;
        mt_changes_find(&settings[older], &settings[newer], &changes);
        if (changes.count == 1)
            return &runs[older];
    }
    return NULL;
}

static mt_status fail_no_pair(size_t run_count)
{
    return mt_fail(MT_USAGE,
                   "no two finished runs of this trace, which has %zu, differ in one setting only: repeat one with one "
                   "option changed, such as --autocast bf16, or name two: memtrace diff A B (memtrace runs lists them)",
                   run_count);
}

mt_status mt_changes_find_pair(struct mt_trace *trace, const struct mt_run **out_a, const struct mt_run **out_b)
{
    size_t count;
    const struct mt_run *runs = mt_trace_runs(trace, &count), *newest;
    mt_status status = mt_trace_find_run(trace, NULL, &newest); /* says so if there is none */
    if (status != MT_OK)
        return status;
    struct mt_settings *settings = mt_host_alloc(count * sizeof *settings);
    for (size_t i = 0; i < count && status == MT_OK; i++)
        status = mt_settings_load(trace, &runs[i], &settings[i]);
    *out_a = NULL;
    for (size_t newer = count; status == MT_OK && *out_a == NULL && newer-- > 0;) {
        *out_b = &runs[newer];
        if (is_candidate(*out_b))
            *out_a = find_partner(runs, settings, newer);
    }
    for (size_t i = 0; i < count; i++)
        mt_settings_release(&settings[i]);
    free(settings);
    if (status == MT_OK && *out_a == NULL)
        status = fail_no_pair(count);
    return status;
}
