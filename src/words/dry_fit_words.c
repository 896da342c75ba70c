#include "words/dry_fit_words.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ROW struct mt_trial_row
static const struct mt_field trial_fields[] = {
    MT_OWNED(
        ROW, kind, "kind", NULL,
        "`zero-grad`, `expandable-segments`, `fused-optimizer`, `loop-optimizer`, `flash`, `autocast`, `checkpoint` "
        "or `bf16-weights`; of several together, with commas between"),
    MT_OWNED(ROW, change, "change", "with", "in words"),
    MT_OWNED(ROW, hint, "hint", NULL, "the lines to write"),
    MT_TEXT(ROW, where, "where", NULL, "the part of the program that the change was made to"),
    MT_ROW(ROW, peak, "peak", &mt_replay_peak_type, "of the dry run with it"),
    MT_KNOWN(ROW, rank, "rank", NULL, "of many ranks, the one whose peak it is"),
    MT_FLAG(ROW, peak.fits, "fits", "fits", NULL),
    MT_DIFFERENCE(ROW, difference_bytes, "difference_bytes", "difference",
                  "of the peak of reserved bytes, to that of the program as it is"),
    MT_SHOWN(BYTES, uint64_t, ROW, peak.requested_bytes, "requested", "requested"),
    MT_SHOWN(BYTES, uint64_t, ROW, peak.allocated_bytes, "allocated", "allocated"),
    MT_SHOWN(BYTES, uint64_t, ROW, peak.reserved_bytes, "reserved", "reserved"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_trial_type = MT_ROW_TYPE(ROW, trial_fields);
#undef ROW

static const char *const titles[MT_DRY_CHANGE_COUNT] = {
    [MT_DRY_ZERO_GRAD] = "gradients gone before forward",
    [MT_DRY_EXPANDABLE] = "expandable segments",
    [MT_DRY_FUSED_OPTIMIZER] = "fused optimizer",
    [MT_DRY_LOOP_OPTIMIZER] = "for-loop optimizer",
    [MT_DRY_FLASH] = "flash attention",
    [MT_DRY_AUTOCAST] = "forward under autocast to bf16",
    [MT_DRY_CHECKPOINT] = "checkpointed blocks",
    [MT_DRY_BF16_WEIGHTS] = "weights in bf16",
};

/* Lines of PyTorch, or of the shell; of optimizers what follows the class. */
static const char *const lines[MT_DRY_CHANGE_COUNT] = {
    [MT_DRY_ZERO_GRAD] = "optimizer.step()\n"
                         "optimizer.zero_grad(set_to_none=True)  # right after it\n",
    [MT_DRY_EXPANDABLE] = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n",
    [MT_DRY_FUSED_OPTIMIZER] = "(model.parameters(), fused=True)  # beside what it is given\n",
    [MT_DRY_LOOP_OPTIMIZER] = "(model.parameters(), foreach=False)  # beside what it is given\n",
    [MT_DRY_FLASH] = "from torch.nn.attention import SDPBackend, sdpa_kernel\n"
                     "with sdpa_kernel(SDPBackend.FLASH_ATTENTION):\n"
                     "    output = model(inputs)\n",
    [MT_DRY_AUTOCAST] = "with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n"
                        "    output = model(inputs)\n",
    [MT_DRY_CHECKPOINT] = "from torch.utils.checkpoint import checkpoint\n"
                          "x = checkpoint(block, x, use_reentrant=False)  # instead of x = block(x)\n",
    [MT_DRY_BF16_WEIGHTS] = "model = model.to(torch.bfloat16).cuda()  # before the optimizer is made\n"
                            "inputs = inputs.to(torch.bfloat16)  # those that are floating-point\n",
};

static const char OF_MODEL[] = "gradient_checkpointing_enable()";

/* Adds the lines for a change that was made in that place; of an optimizer it is the class. */
static void add_lines(mt_dry_change change, const char *where, struct mt_text *out)
{
    if (change == MT_DRY_FUSED_OPTIMIZER || change == MT_DRY_LOOP_OPTIMIZER)
        mt_text_add(out, "optimizer = torch.optim.%s", where);
    if (change == MT_DRY_CHECKPOINT && strstr(where, OF_MODEL) != NULL)
        mt_text_add(out, "model.gradient_checkpointing_enable("
                         "gradient_checkpointing_kwargs={\"use_reentrant\": False})\n");
    else
        mt_text_add(out, "%s", lines[change]);
}

void mt_dry_changes_add(const struct mt_dry_changes *changes, struct mt_text *out)
{
    const char *before = "";
    for (mt_dry_change change = 0; change < MT_DRY_CHANGE_COUNT; change++) {
        if (!changes->has[change])
            continue;
        mt_text_add(out, "%s%s", before, titles[change]);
        before = " + ";
    }
}

static void add_trial(const struct mt_dry_fit *fit, const struct mt_dry_trial *trial, struct mt_trial_rows *out)
{
    struct mt_trial_row *row = &out->items[out->count++];
    assert(trial->outcome == MT_TRIAL_RAN);
    *row = (struct mt_trial_row){.where = mt_text_get(&trial->words),
                                 .peak = trial->peak,
                                 .rank = trial->rank,
                                 .difference_bytes =
                                     (int64_t)(trial->peak.reserved_bytes - fit->plain.peak.reserved_bytes)};
    mt_dry_changes_add_names(&trial->changes, &row->kind);
    mt_dry_changes_add(&trial->changes, &row->change);
    for (mt_dry_change change = 0; change < MT_DRY_CHANGE_COUNT; change++)
        if (trial->changes.has[change])
            add_lines(change, mt_text_get(&fit->single[change].words), &row->hint);
}

void mt_trial_rows_create(const struct mt_dry_fit *fit, struct mt_trial_rows *out)
{
    *out = (struct mt_trial_rows){.items = mt_host_alloc(2 * MT_DRY_CHANGE_COUNT * sizeof *out->items),
                                  .gaps = mt_host_alloc(MT_DRY_CHANGE_COUNT * sizeof *out->gaps)};
    for (mt_dry_change change = 0; change < MT_DRY_CHANGE_COUNT; change++) {
        const struct mt_dry_trial *trial = &fit->single[change];
        if (trial->outcome == MT_TRIAL_RAN)
            add_trial(fit, trial, out);
        else if (trial->outcome != MT_TRIAL_NOT_MADE)
            out->gaps[out->gap_count++] = (struct mt_gap_row){titles[change], mt_text_get(&trial->words)};
    }
    for (size_t i = 0; i < fit->combined_count; i++)
        add_trial(fit, &fit->combined[i], out);
}

void mt_trial_rows_release(struct mt_trial_rows *rows)
{
    mt_rows_release(&mt_trial_type, rows->items, rows->count);
    free(rows->gaps);
    *rows = (struct mt_trial_rows){0};
}
