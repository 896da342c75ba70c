#include "study/attention_grid.h"

#include "base/text.h"
#include "model/settings.h"

#include <assert.h>
#include <inttypes.h>

const char *const mt_study_precision_names[] = {
    [MT_STUDY_FP32] = "fp32", [MT_STUDY_TF32] = "tf32", [MT_STUDY_BF16] = "bf16", NULL};

size_t mt_attention_grid_part(const struct mt_attention_grid *grid)
{
    return grid->widths.count * grid->lengths.count * grid->variants.count;
}

size_t mt_attention_grid_count(const struct mt_attention_grid *grid)
{
    return grid->precisions.count * mt_attention_grid_part(grid);
}

struct mt_attention_case mt_attention_grid_cell(const struct mt_attention_grid *grid, size_t number)
{
    assert(number < mt_attention_grid_count(grid));
    size_t variant = number % grid->variants.count;
    number /= grid->variants.count;
    size_t length = number % grid->lengths.count;
    number /= grid->lengths.count;
    size_t width = number % grid->widths.count, precision = number / grid->widths.count;
    bool is_bf16 = grid->precisions.values[precision] == MT_STUDY_BF16,
         is_tf32 = grid->precisions.values[precision] == MT_STUDY_TF32;
    return (struct mt_attention_case){.batch = grid->batch,
                                      .heads = grid->heads,
                                      .d_model = grid->widths.values[width],
                                      .seq = grid->lengths.values[length],
                                      .attention = (mt_attention_kind)grid->variants.values[variant],
                                      .dtype = is_bf16 ? MT_BF16 : MT_F32,
                                      .math = is_tf32 ? MTK_MATH_TF32 : MTK_MATH_FP32,
                                      .repeats = grid->repeats,
                                      .seed = (uint64_t)grid->seed};
}

static void add_context(const struct mt_attention_case *cell, mt_status status)
{
    struct mt_text text = {0};
    mt_attention_case_describe(cell, &text);
    mt_fail_context(status, "%s", mt_text_get(&text));
    mt_text_release(&text);
}

mt_status mt_attention_grid_check(const struct mt_attention_grid *grid)
{
    mt_status status = MT_OK;
    for (size_t i = 0; i < mt_attention_grid_count(grid) && status == MT_OK; i++) {
        const struct mt_attention_case cell = mt_attention_grid_cell(grid, i);
        status = mt_attention_case_check(&cell);
        if (status != MT_OK)
            add_context(&cell, status);
    }
    return status;
}

mt_study_precision mt_study_precision_of(const struct mt_attention_case *study)
{
    if (study->dtype == MT_BF16)
        return MT_STUDY_BF16;
    return study->math == MTK_MATH_TF32 ? MT_STUDY_TF32 : MT_STUDY_FP32;
}

void mt_attention_case_describe(const struct mt_attention_case *study, struct mt_text *out)
{
    mt_text_add(out, "%s, d %" PRId64 ", sequence %" PRId64 ", %s",
                mt_study_precision_names[mt_study_precision_of(study)], study->d_model, study->seq,
                mt_attention_names[study->attention]);
}
