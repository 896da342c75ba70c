#include "trace/import/torch_facts.h"

#include "base/memory.h"
#include "trace/import/torch_own.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_OF_PYTORCH = 3 };

static const struct mt_value *get(const struct mt_value *dict, const char *name)
{
    struct mt_value_key key = {.name = name, .length = (uint32_t)strlen(name)};
    return mt_value_get(dict, &key);
}

static void add(struct mt_torch_facts *facts, const char *name, const char *value)
{
    facts->settings[facts->setting_count++] = (struct mt_run_setting){name, value};
}

/* A snapshot of PyTorch's tells no model and no batch: what is not said stays unknown. */
static void read_pytorch(const struct mt_torch_settings *settings, struct mt_torch_facts *out)
{
    struct mt_text alloc = {0};
    mt_torch_settings_format(settings, &alloc);
    out->device = "PyTorch snapshot";
    out->settings = mt_host_alloc(MOST_OF_PYTORCH * sizeof *out->settings);
    out->alloc = alloc.data;
    add(out, "alloc", out->alloc);
    if (settings->is_known)
        add(out, "expandable_segments", settings->is_expandable ? "on" : "off");
    if (settings->configuration[0] != '\0')
        add(out, "pytorch_alloc_conf", settings->configuration);
}

/* Pairs of texts; what is none is of no export of ours. */
static void read_own(const struct mt_value *run, struct mt_torch_facts *out)
{
    const struct mt_value *settings = get(run, "settings");
    uint32_t count = settings->kind == MT_VALUE_DICT ? mt_value_count(settings) : 0;
    int64_t capacity;
    out->device = mt_value_text(get(run, "device"));
    out->name = mt_value_text(get(run, "name"));
    out->state = mt_value_text(get(run, "state"));
    if (mt_value_integer(get(run, "capacity_bytes"), &capacity) && capacity > 0)
        out->capacity_bytes = (uint64_t)capacity;
    out->settings = mt_host_alloc((count + 1) * sizeof *out->settings);
    for (uint32_t i = 0; i < count; i++) {
        const struct mt_value *pair = &settings->items->values[2 * i];
        if (mt_value_text(&pair[0])[0] != '\0' && pair[1].kind == MT_VALUE_TEXT)
            add(out, mt_value_text(&pair[0]), mt_value_text(&pair[1]));
    }
}

void mt_torch_facts_read(const struct mt_value *root, const struct mt_torch_snapshot *snapshot,
                         struct mt_torch_facts *out)
{
    *out = (struct mt_torch_facts){.name = "", .state = ""};
    if (mt_torch_own_is_one(root))
        read_own(get(root, "memtrace"), out);
    else
        read_pytorch(&snapshot->settings, out);
}

void mt_torch_facts_release(struct mt_torch_facts *facts)
{
    free(facts->settings);
    free(facts->alloc);
    *facts = (struct mt_torch_facts){0};
}
