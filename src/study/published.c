#include "study/published.h"

#include "alloc/alloc.h"
#include "base/text.h"

#include <math.h>
#include <string.h>

static const struct mt_published_cell cells[] = {
    {"128", "fwd", "off", 18.51, NAN, 19675807744, 19883098112},
    {"256", "fwd", "off", 25.34, NAN, 27201083392, 27277656064},
    {"512", "fwd", "off", 44.17, NAN, 47017543680, 47485812736},
    {"128", "fwd", "bf16", 22.76, 4.26, 24290164736, 24501026816},
    {"256", "fwd", "bf16", 27.51, 2.16, 29032241152, 29592911872},
    {"512", "fwd", "bf16", 39.23, -4.95, 41735030784, 42184212480},
    {"128", "fwd_bwd", "off", 57.18, NAN, 60638662656, 61438164992},
    {"256", "fwd_bwd", "off", 66.09, NAN, 68167778304, 71032635392},
    {"512", "fwd_bwd", "off", NAN, NAN, 88063483904, 89550487552},
    {"128", "fwd_bwd", "bf16", 61.39, 4.21, 65206766592, 65848475648},
    {"256", "fwd_bwd", "bf16", 66.72, 0.62, 70012041216, 71525466112},
    {"512", "fwd_bwd", "bf16", NAN, NAN, 82800496640, 86041952256},
};

/* What all cells have in common. */
static const struct mt_setting_row shared[] = {
    {"model", "2.7B"},
    {"vocab", "10000"},
    {"d_model", "2560"},
    {"d_ff", "10240"},
    {"layers", "32"},
    {"heads", "32"},
    {"rope", "off"},
    {"batch", "4"},
    {"impl", "eager"},
    {"attention", "custom"},
    {"zero_grad", "before-backward"},
};

static bool has_setting(const struct mt_settings *settings, const char *name, const char *value)
{
    return strcmp(mt_settings_value(settings, name), value) == 0;
}

const struct mt_published_cell *mt_published_find(const struct mt_settings *settings)
{
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++)
        if (!has_setting(settings, shared[i].name, shared[i].value))
            return NULL;
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++)
        if (has_setting(settings, "seq", cells[i].seq) && has_setting(settings, "mode", cells[i].mode) &&
            has_setting(settings, "autocast", cells[i].autocast))
            return &cells[i];
    return NULL;
}

bool mt_published_is_comparable(const struct mt_settings *settings)
{
    struct mt_alloc_settings usual;
    struct mt_text text = {0};
    if (mt_alloc_settings_parse("policy=torch", &usual) != MT_OK)
        return false;
    mt_alloc_settings_format(&usual, &text);
    bool is_usual = has_setting(settings, "alloc", mt_text_get(&text));
    mt_text_release(&text);
    return is_usual;
}

const struct mt_published_cell *mt_published_cells(size_t *out_count)
{
    *out_count = sizeof cells / sizeof cells[0];
    return cells;
}

static const struct mt_published_largest largest[] = {
    {"128", "AttnScores", 8, 4},    {"128", "AttnOut", 8, 4},    {"128", "Softmax", 8, 8},
    {"128", "FFN", 20, 10},         {"128", "Norm", 5, 5},       {"128", "Embed", 5, 5},
    {"128", "Attn", 5, 2.5},        {"128", "einsum", 20, 50},   {"128", "Block", 5, 5},
    {"256", "AttnScores", 32, 16},  {"256", "AttnOut", 32, 16},  {"256", "Softmax", 32, 32},
    {"256", "FFN", 40, 20},         {"256", "Norm", 10, 10},     {"256", "Embed", 10, 10},
    {"256", "Attn", 10, 5},         {"256", "einsum", 40, 50},   {"256", "Block", 10, 10},
    {"512", "AttnScores", 128, 64}, {"512", "AttnOut", 128, 64}, {"512", "Softmax", 128, 128},
    {"512", "FFN", 80, 40},         {"512", "Norm", 20, 20},     {"512", "Embed", 20, 20},
    {"512", "Attn", 20, 10},        {"512", "einsum", 128, 64},  {"512", "Block", 20, 20},
};

/* Of full steps at every length that has a table. */
static const struct mt_published_largest state_largest[] = {{"", "Gradient", 100, 100}, {"", "Opt State", 100, 100}};

const struct mt_published_largest *mt_published_largest_find(const struct mt_published_cell *cell, const char *category)
{
    bool has_state = strcmp(cell->mode, "fwd_bwd") == 0 && !isnan(cell->reserved_gib);
    for (size_t i = 0; i < sizeof largest / sizeof largest[0]; i++)
        if (strcmp(largest[i].seq, cell->seq) == 0 && strcmp(largest[i].category, category) == 0)
            return &largest[i];
    for (size_t i = 0; has_state && i < sizeof state_largest / sizeof state_largest[0]; i++)
        if (strcmp(state_largest[i].category, category) == 0)
            return &state_largest[i];
    return NULL;
}
