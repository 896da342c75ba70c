#include "words/dry_fit_words.h"

#include "base/memory.h"
#include "base/order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ROW struct mt_trial_row
static const struct mt_field trial_fields[] = {
    MT_OWNED(
        ROW, kind, "kind", NULL,
        "of dry runs `zero-grad`, `no-grad-evaluation`, `eval-accumulation`, `map-location`, `bucket-view`, "
        "`expandable-segments`, `fused-optimizer`, `loop-optimizer`, `flash`, `shard-blocks`, `lora-dropout`, "
        "`autocast`, "
        "`checkpoint` or `bf16-weights`, of several together with commas between; of replays as in `memtrace advise`"),
    MT_OWNED(ROW, change, "change", "with", "in words"),
    MT_OWNED(ROW, hint, "hint", NULL, "the lines to write"),
    MT_TEXT(ROW, where, "where", NULL, "the part of the program that the change was made to"),
    MT_TEXT(ROW, basis, "basis", "by",
            "`dry run` of the changed program, or `replay` of the program's own blocks, changed"),
    MT_OWNED(ROW, assumed, "assumed", NULL, "by the replay"),
    MT_ROW(ROW, peak, "peak", &mt_replay_peak_type, "of the dry run or replay with it"),
    MT_KNOWN(ROW, rank, "rank", NULL, "of many ranks, the one whose peak it is"),
    MT_FLAG(ROW, peak.fits, "fits", "fits", NULL),
    MT_DIFFERENCE(ROW, difference_bytes, "difference_bytes", "difference",
                  "of the peak of reserved bytes, compared with the unchanged program"),
    MT_SHOWN(BYTES, uint64_t, ROW, peak.requested_bytes, "requested", "requested"),
    MT_SHOWN(BYTES, uint64_t, ROW, peak.allocated_bytes, "allocated", "allocated"),
    MT_SHOWN(BYTES, uint64_t, ROW, peak.reserved_bytes, "reserved", "reserved"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_trial_type = MT_ROW_TYPE(ROW, trial_fields);
#undef ROW

static const char *const titles[MT_DRY_CHANGE_COUNT] = {
    [MT_DRY_ZERO_GRAD] = "gradients freed before forward",
    [MT_DRY_NO_GRAD_EVALUATION] = "evaluation without gradients",
    [MT_DRY_EVAL_ACCUMULATION] = "evaluation outputs to the host",
    [MT_DRY_MAP_LOCATION] = "checkpoint loaded to the host",
    [MT_DRY_BUCKET_VIEW] = "gradients as views of buckets",
    [MT_DRY_SHARD_BLOCKS] = "FSDP for each block",
    [MT_DRY_LORA_DROPOUT] = "LoRA without dropout",
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
    [MT_DRY_NO_GRAD_EVALUATION] = "with torch.no_grad():  # around evaluation\n"
                                  "    output = model(inputs)\n",
    [MT_DRY_EVAL_ACCUMULATION] = "TrainingArguments(eval_accumulation_steps=1)  # with its other arguments\n",
    [MT_DRY_MAP_LOCATION] = "torch.load(path, map_location=\"cpu\")\n",
    [MT_DRY_BUCKET_VIEW] = "DistributedDataParallel(model, gradient_as_bucket_view=True)  # with its other arguments\n",
    [MT_DRY_SHARD_BLOCKS] = "for block in model.blocks:  # the repeated blocks, before the model\n"
                            "    fully_shard(block)\n"
                            "fully_shard(model)\n",
    [MT_DRY_LORA_DROPOUT] = "LoraConfig(lora_dropout=0)  # with its other arguments\n",
    [MT_DRY_EXPANDABLE] =
        "export PYTORCH_ALLOC_CONF=expandable_segments:True  # PYTORCH_CUDA_ALLOC_CONF before PyTorch 2.9\n",
    [MT_DRY_FUSED_OPTIMIZER] = "(model.parameters(), fused=True)  # with its other arguments\n",
    [MT_DRY_LOOP_OPTIMIZER] = "(model.parameters(), foreach=False)  # with its other arguments\n",
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

static const char OF_MODEL[] = "gradient_checkpointing_enable()", OF_POLICY[] = "auto_wrap_policy";

/* Adds the lines for a change that was made in that place; of an optimizer it is the class. */
static void add_lines(mt_dry_change change, const char *where, struct mt_text *out)
{
    if (change == MT_DRY_FUSED_OPTIMIZER || change == MT_DRY_LOOP_OPTIMIZER)
        mt_text_add(out, "optimizer = torch.optim.%s", where);
    if (change == MT_DRY_CHECKPOINT && strstr(where, OF_MODEL) != NULL)
        mt_text_add(out, "model.gradient_checkpointing_enable("
                         "gradient_checkpointing_kwargs={\"use_reentrant\": False})\n");
    else if (change == MT_DRY_SHARD_BLOCKS && strstr(where, OF_POLICY) != NULL)
        mt_text_add(out, "FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({Block}))\n");
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

static void add_gap(struct mt_trial_rows *rows, const char *kind, const char *reason)
{
    rows->gaps[rows->gap_count++] = (struct mt_gap_row){kind, reason};
}

/* True if a trial lowers what the program reserves. Settings of the allocator count only if a tenth of the reserved
 * memory is not allocated, and they save a twentieth of it. */
static bool is_worthwhile(const struct mt_dry_fit *fit, const struct mt_dry_trial *trial)
{
    enum { UNUSED_PART = 10, SAVED_PART = 20 };
    const struct mt_replay_result *before = &fit->plain.peak;
    if (trial->peak.reserved_bytes >= before->reserved_bytes)
        return trial->peak.fits && !before->fits;
    return !trial->changes.has[MT_DRY_EXPANDABLE] || (trial->peak.fits && !before->fits) ||
           (before->reserved_bytes - before->allocated_bytes >= before->reserved_bytes / UNUSED_PART &&
            before->reserved_bytes - trial->peak.reserved_bytes >= before->reserved_bytes / SAVED_PART);
}

static void add_trial(const struct mt_dry_fit *fit, const struct mt_dry_trial *trial, struct mt_trial_rows *out)
{
    struct mt_trial_row *row = &out->items[out->count++];
    assert(trial->outcome == MT_TRIAL_RAN);
    *row = (struct mt_trial_row){.where = mt_text_get(&trial->words),
                                 .basis = "dry run",
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

/* Adds what became of a change alone. */
static void add_single(const struct mt_dry_fit *fit, mt_dry_change change, struct mt_trial_rows *out)
{
    const struct mt_dry_trial *trial = &fit->single[change];
    if (trial->outcome == MT_TRIAL_RAN && is_worthwhile(fit, trial)) {
        add_trial(fit, trial, out);
        out->items[out->count - 1].is_option = change < MT_DRY_SHARD_BLOCKS;
    } else if (trial->outcome == MT_TRIAL_RAN)
        add_gap(out, titles[change],
                trial->peak.reserved_bytes > fit->plain.peak.reserved_bytes ? "it reserves more"
                                                                            : "it saves too little");
    else if (trial->outcome != MT_TRIAL_NOT_MADE)
        add_gap(out, titles[change], mt_text_get(&trial->words));
}

/* True for changes that dry runs try, so that replays of them say less. */
static bool is_tried(const struct mt_program_change *change)
{
    return change->kind == MT_CHANGE_ALLOCATOR || change->kind == MT_CHANGE_ZERO_GRAD ||
           change->kind == MT_CHANGE_CHECKPOINT;
}

/* Adds a replayed change. The saving of the replay counts from the peak of the program as it is. */
static void add_replayed(const struct mt_dry_fit *fit, const struct mt_program_changes *changes,
                         const struct mt_program_change *change, struct mt_trial_rows *out)
{
    static const struct mt_program program = {.kind = MT_PROGRAM_PYTORCH};
    struct mt_trial_row *row = &out->items[out->count++];
    *row = (struct mt_trial_row){.where = "",
                                 .basis = "replay",
                                 .tier = change->tier,
                                 .peak = change->replay,
                                 .rank = fit->plain.rank,
                                 .difference_bytes =
                                     (int64_t)(change->replay.reserved_bytes - changes->as_it_was.reserved_bytes)};
    mt_text_add(&row->kind, "%s", mt_change_kinds[change->kind].name);
    mt_change_add(change, &program, &row->change);
    mt_change_add_hint(change, &program, &row->hint);
    mt_text_add(&row->hint, "\n");
    mt_change_add_basis(change, &row->assumed);
}

/* Finds the tiers of dry runs: the first changes of the list are single options of PyTorch or of a library. */
static void find_tiers(struct mt_trial_rows *rows)
{
    int64_t most_bytes = 0;
    for (size_t i = 0; i < rows->count; i++)
        most_bytes = mt_larger(most_bytes, -rows->items[i].difference_bytes);
    for (size_t i = 0; i < rows->count; i++) {
        struct mt_trial_row *row = &rows->items[i];
        const int64_t saved_bytes = mt_larger(-row->difference_bytes, 0);
        if (row->tier < MT_TIER_TRANSFER)
            row->tier = mt_change_tier_of(row->is_option, (uint64_t)saved_bytes, (uint64_t)most_bytes);
    }
}

static int compare_rows(const void *left, const void *right)
{
    const struct mt_trial_row *a = left, *b = right;
    int order = MT_COMPARE(a->tier, b->tier);
    return order != 0 ? order : MT_COMPARE(a->difference_bytes, b->difference_bytes);
}

void mt_trial_rows_create(const struct mt_dry_fit *fit, const struct mt_program_changes *replayed,
                          struct mt_trial_rows *out)
{
    *out = (struct mt_trial_rows){
        .items = mt_host_alloc((2 * MT_DRY_CHANGE_COUNT + replayed->count + 1) * sizeof *out->items),
        .gaps = mt_host_alloc(MT_DRY_CHANGE_COUNT * sizeof *out->gaps)};
    for (mt_dry_change change = 0; change < MT_DRY_CHANGE_COUNT; change++)
        add_single(fit, change, out);
    for (size_t i = 0; i < fit->combined_count; i++)
        add_trial(fit, &fit->combined[i], out);
    for (size_t i = 0; i < replayed->count; i++)
        if (!is_tried(&replayed->items[i]) &&
            replayed->items[i].replay.reserved_bytes < replayed->as_it_was.reserved_bytes)
            add_replayed(fit, replayed, &replayed->items[i], out);
    find_tiers(out);
    if (out->count > 0)
        qsort(out->items, out->count, sizeof *out->items, compare_rows);
}

void mt_trial_rows_release(struct mt_trial_rows *rows)
{
    mt_rows_release(&mt_trial_type, rows->items, rows->count);
    free(rows->gaps);
    *rows = (struct mt_trial_rows){0};
}
