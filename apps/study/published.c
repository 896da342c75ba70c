#include "study/published.h"

#include "base/text.h"

#include <assert.h>
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

/* The common settings of all cells. */
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
    {"optimizer", "adamw"},
    {"keep_output", "off"},
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

size_t mt_published_count(const char *autocast)
{
    size_t found = 0;
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++)
        found += strcmp(cells[i].autocast, autocast) == 0;
    return found;
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

/* The training state of full steps, at every length with a table. */
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

static const struct mt_published_kernels kernels[] = {
    {"128", "off", "forward", 82.178, 76.565},    {"128", "off", "backward", 201.061, 164.146},
    {"128", "off", "optimizer", 64.6, 0.0},       {"256", "off", "forward", 165.981, 154.279},
    {"256", "off", "backward", 363.993, 310.886}, {"256", "off", "optimizer", 64.607, 0.0},
    {"256", "bf16", "forward", 26.94, 10.065},    {"256", "bf16", "backward", 82.494, 21.259},
    {"256", "bf16", "optimizer", 64.558, 0.0},    {"512", "off", "forward", 323.574, 292.77},
    {"512", "off", "backward", 718.41, 615.821},  {"512", "off", "optimizer", 64.551, 0.0},
};

const struct mt_published_kernels *mt_published_kernels_find(const struct mt_published_cell *cell, const char *phase)
{
    bool is_step = strcmp(cell->mode, "fwd_bwd") == 0;
    for (size_t i = 0; is_step && i < sizeof kernels / sizeof kernels[0]; i++)
        if (strcmp(kernels[i].seq, cell->seq) == 0 && strcmp(kernels[i].autocast, cell->autocast) == 0 &&
            strcmp(kernels[i].phase, phase) == 0)
            return &kernels[i];
    return NULL;
}

enum { BATCH = 8, HEADS = 1, WORKSPACES_MIB = 64 };

/* Kept and peak MiB, forward and backward ms of custom, softmax and flash; kept 0: not measured. Rows are ordered by
 * dtype (fp32 first), width, and length. */
static const int64_t measured_widths[] = {16, 64, 128}, measured_lengths[] = {256, 1024, 4096, 8192, 16384};
enum { DTYPES = 2, WIDTHS = 3, LENGTHS = 5, MEASURED_VARIANTS = 3 };
static const struct mt_attention_peer measured[DTYPES * WIDTHS * LENGTHS][MEASURED_VARIANTS] = {
    {{70.833, 78.709, 0.876, 1.405}, {66.817, 72.694, 1.007, 1.128}, {64.762, 65.772, 0.549, 0.844}},
    {{164.067, 291.569, 0.765, 1.503}, {100.004, 195.506, 0.611, 1.141}, {67.035, 71.07, 0.43, 0.817}},
    {{1628.254, 3674.256, 3.06, 7.113}, {604.004, 2138.006, 2.176, 2.886}, {76.129, 104.004, 1.083, 2.211}},
    {{6296.504, 14484.506, 10.849, 26.701}, {2200.004, 8340.006, 7.725, 9.25}, {88.254, 208.004, 2.731, 5.625}},
    {{24945.004, 57705.006, 41.091, 104.619}, {8560.004, 33128.006, 25.155, 37.849}, {112.504, 608.004, 8.985, 20.155}},
    {{73.141, 80.658, 0.698, 1.391}, {69.125, 74.642, 0.637, 1.045}, {67.07, 69.595, 0.422, 0.931}},
    {{173.125, 299.142, 0.725, 1.184}, {109.063, 203.08, 0.687, 1.199}, {76.094, 86.144, 0.553, 0.883}},
    {{1664.313, 3704.33, 3.07, 7.269}, {640.063, 2168.08, 2.131, 2.765}, {112.188, 152.337, 1.157, 2.482}},
    {{6368.563, 14544.58, 10.86, 26.682}, {2272.063, 8400.08, 7.716, 9.28}, {160.312, 256.062, 3.05, 6.379}},
    {{25089.063, 57825.08, 40.884, 103.542}, {8704.063, 33248.08, 25.008, 36.845}, {256.562, 704.062, 10.276, 21.842}},
    {{76.329, 83.392, 0.705, 1.47}, {72.313, 77.376, 0.626, 1.037}, {70.258, 75.33, 0.374, 0.679}},
    {{185.313, 309.376, 0.766, 1.515}, {121.25, 213.314, 0.671, 1.061}, {88.281, 108.378, 0.388, 0.996}},
    {{1712.5, 3744.564, 3.03, 7.433}, {688.25, 2208.314, 2.115, 3.025}, {160.375, 240.571, 1.363, 3.528}},
    {{6464.75, 14624.814, 11.128, 27.073}, {2368.25, 8480.314, 7.887, 9.639}, {256.5, 416.829, 3.959, 10.452}},
    {{25281.25, 57985.314, 42.01, 105.595}, {8896.25, 33408.314, 26.073, 38.79}, {448.75, 832.25, 13.678, 37.596}},
    {{67.448, 71.387, 0.764, 1.286}, {0, 0, 0, 0}, {64.386, 64.771, 0.797, 0.998}},
    {{114.534, 178.285, 1.176, 1.715}, {0, 0, 0, 0}, {65.534, 67.067, 0.474, 0.975}},
    {{854.127, 1877.129, 2.383, 5.701}, {0, 0, 0, 0}, {70.128, 100.002, 0.472, 0.863}},
    {{3212.252, 7306.254, 8.504, 20.865}, {0, 0, 0, 0}, {76.253, 200.002, 0.739, 0.87}},
    {{12632.502, 29012.504, 31.301, 80.513}, {0, 0, 0, 0}, {88.503, 592.002, 1.629, 2.237}},
    {{68.602, 72.361, 0.844, 1.646}, {0, 0, 0, 0}, {65.54, 67.057, 0.451, 0.949}},
    {{119.063, 182.072, 0.767, 1.362}, {0, 0, 0, 0}, {70.063, 76.104, 0.49, 1.068}},
    {{872.157, 1892.166, 2.342, 5.68}, {0, 0, 0, 0}, {88.157, 112.292, 0.447, 0.984}},
    {{3248.282, 7336.291, 8.549, 20.941}, {0, 0, 0, 0}, {112.282, 224.031, 0.631, 1.015}},
    {{12704.532, 29072.541, 31.679, 81.023}, {0, 0, 0, 0}, {160.532, 640.031, 1.825, 2.2}},
    {{70.196, 73.728, 0.727, 1.41}, {0, 0, 0, 0}, {67.134, 70.174, 0.445, 1.139}},
    {{125.157, 187.189, 0.678, 1.2}, {0, 0, 0, 0}, {76.157, 88.221, 0.626, 0.994}},
    {{896.25, 1912.283, 2.45, 5.67}, {0, 0, 0, 0}, {112.251, 160.409, 0.435, 0.972}},
    {{3296.375, 7376.408, 8.709, 21.013}, {0, 0, 0, 0}, {160.376, 256.659, 0.862, 1.448}},
    {{12800.625, 29152.658, 31.494, 80.977}, {0, 0, 0, 0}, {256.626, 704.125, 2.03, 3.113}},
};

/* Returns the index of a value in a list; -1 if it is not in the list. */
static int64_t place_of(int64_t value, const int64_t *values, int64_t count)
{
    int64_t place = count - 1;
    while (place >= 0 && values[place] != value)
        place--;
    return place;
}

const struct mt_attention_peer *mt_attention_peer_find(const struct mt_attention_case *study)
{
    if (study->without_projections || study->without_mask)
        return NULL;
    static const int64_t variants[MEASURED_VARIANTS] = {MT_ATTENTION_CUSTOM, MT_ATTENTION_SOFTMAX, MT_ATTENTION_FLASH};
    int64_t dtype = study->dtype == MT_BF16, width = place_of(study->d_model, measured_widths, WIDTHS),
            length = place_of(study->seq, measured_lengths, LENGTHS),
            variant = place_of(study->attention, variants, MEASURED_VARIANTS);
    assert(study->dtype == MT_F32 || study->dtype == MT_BF16);
    if (width < 0 || length < 0 || variant < 0 || study->batch != BATCH || study->heads != HEADS)
        return NULL;
    const struct mt_attention_peer *peer = &measured[(dtype * WIDTHS + width) * LENGTHS + length][variant];
    return peer->kept_mib > 0 ? peer : NULL;
}

uint64_t mt_attention_peer_bytes(double mib)
{
    assert(mib >= WORKSPACES_MIB);
    return (uint64_t)((mib - WORKSPACES_MIB) * (1 << 20));
}
