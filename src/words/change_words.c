#include "words/change_words.h"

#include "answer/table.h"
#include "base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ROW struct mt_replay_result
static const struct mt_field peak_fields[] = {
    MT_BYTES(ROW, requested_bytes, "requested_bytes", NULL, NULL),
    MT_BYTES(ROW, allocated_bytes, "allocated_bytes", NULL, NULL),
    MT_BYTES(ROW, reserved_bytes, "reserved_bytes", NULL, NULL),
    MT_FIELDS_END,
};
const struct mt_row_type mt_replay_peak_type = MT_ROW_TYPE(ROW, peak_fields);
#undef ROW

#define ROW struct mt_change_row
static const struct mt_field change_fields[] = {
    MT_TEXT(
        ROW, kind, "kind", NULL,
        "`allocator`, `zero grad`, `optimizer in backward`, `checkpoint`, `sliced loss`, `micro-batch` or `optimizer`"),
    MT_OWNED(ROW, change, "change", "replayed with", "in words"),
    MT_OWNED(ROW, hint, "hint", NULL, "what to write"),
    MT_OWNED(ROW, basis, "basis", NULL, "what its figures rest on"),
    MT_BYTES(ROW, bytes, "bytes", NULL, "requested by the blocks that it is about, at the peak"),
    MT_COUNT(ROW, blocks, "blocks", NULL, "that these are"),
    MT_ROW(ROW, peak, "replayed", &mt_replay_peak_type, "the peaks with it, by replay"),
    MT_FLAG(ROW, peak.fits, "fits", "fits", "false if the replay ran out of memory"),
    MT_DIFFERENCE(ROW, difference_bytes, "difference_bytes", "difference",
                  "of the peak of reserved bytes, compared with the replay without a change"),
    MT_SHOWN(BYTES, uint64_t, ROW, peak.requested_bytes, "requested", "requested"),
    MT_SHOWN(BYTES, uint64_t, ROW, peak.allocated_bytes, "allocated", "allocated"),
    MT_SHOWN(BYTES, uint64_t, ROW, peak.reserved_bytes, "reserved", "reserved"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_change_type = MT_ROW_TYPE(ROW, change_fields);
#undef ROW

#define ROW struct mt_gap_row
static const struct mt_field gap_fields[] = {
    MT_TEXT(ROW, kind, "kind", NULL, "of change"),
    MT_TEXT(ROW, reason, "reason", NULL, "why the trace can't show its effect"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_gap_type = MT_ROW_TYPE(ROW, gap_fields);
#undef ROW

static const char *const gap_reasons[MT_GAP_COUNT] = {
    [MT_GAP_NONE] = "",
    [MT_GAP_NO_STEPS] = "the trace has no steps",
    [MT_GAP_NO_GRADIENTS] = "no block is known to be a gradient",
    [MT_GAP_ACCUMULATED] = "gradients are added up over several forward passes, and needed until the last of them",
    [MT_GAP_BUCKETS] = "DDP reduces gradients in buckets, after the hooks of their parameters",
    [MT_GAP_NO_MODULES] = "no activation at the peak has a module",
    [MT_GAP_NO_BACKWARD] = "no backward pass ran",
    [MT_GAP_NO_STATE] = "no block is known to be optimizer state",
};

/* A change: its name in tables, what to write, and what its figures rest on; NULL: that depends on the run. */
struct change_words {
    const char *title, *hint, *basis;
};

static const struct change_words kinds[MT_CHANGE_KIND_COUNT] = {
    [MT_CHANGE_ALLOCATOR] = {.basis = "the run's own requests and frees"},
    [MT_CHANGE_ZERO_GRAD] = {"gradients freed before forward",
                             "optimizer.zero_grad(set_to_none=True) right after optimizer.step()",
                             "gradients are freed before the next forward pass begins"},
    [MT_CHANGE_IN_BACKWARD] =
        {"optimizer in backward", "register_post_accumulate_grad_hook, with the optimizer's step in it",
         "each gradient is freed once the next is allocated; gradients of tied weights would stay longer"},
    [MT_CHANGE_SLICED_LOSS] = {"fused cross entropy",
                               "a loss that computes logits in slices, such as LigerFusedLinearCrossEntropyLoss",
                               "logits and blocks of their width are an eighth as large"},
    [MT_CHANGE_MICRO_BATCH] =
        {"half the micro-batch",
         "half as many samples in each forward, loss / 2, and optimizer.step() after every second",
         "assumed: inputs, and blocks of forward and backward that do not have the size of a "
         "parameter, halve; gradients stay allocated during the second forward"},
    [MT_CHANGE_CHECKPOINT] = {.hint = "torch.utils.checkpoint.checkpoint(module, input, use_reentrant=False)"},
};

static const struct change_words optimizers[MT_OPTIMIZER_COUNT] = {
    [MT_OPTIMIZER_8BIT] =
        {"8-bit optimizer state", "bitsandbytes.optim.AdamW8bit",
         "states of 4096 elements or more take 1 + 1/64 bytes an element; an unknown dtype counts as 4 bytes"},
    [MT_OPTIMIZER_OFFLOADED] = {"optimizer state on the host",
                                "torchao.optim.CPUOffloadOptimizer, or FSDP's CPUOffloadPolicy",
                                "every block of optimizer state is left out; its transfers take time"},
    [MT_OPTIMIZER_MOMENTUM] = {"SGD with momentum: one state", "torch.optim.SGD(momentum=…)",
                               "one of each two states of equal size stays"},
    [MT_OPTIMIZER_STATELESS] = {"SGD: no optimizer state", "torch.optim.SGD without momentum",
                                "every block of optimizer state is left out"},
};

static const struct change_words *words_of(const struct mt_program_change *change)
{
    return change->kind == MT_CHANGE_LESS_STATE ? &optimizers[change->optimizer] : &kinds[change->kind];
}

/* Adds the settings as PyTorch spells them: "expandable_segments:True". Those that are not usual are named. */
static void add_pytorch_settings(const struct mt_alloc_settings *settings, struct mt_text *out)
{
    enum { MIB_SHIFT = 20 };
    size_t begin = out->length;
    if (settings->expandable_segments)
        mt_text_add(out, "expandable_segments:True");
    if (settings->max_split_bytes != UINT64_MAX)
        mt_text_add(out, "%smax_split_size_mb:%" PRIu64, out->length > begin ? "," : "",
                    settings->max_split_bytes >> MIB_SHIFT);
    if (settings->roundup_power2_divisions != 0)
        mt_text_add(out, "%sroundup_power2_divisions:%d", out->length > begin ? "," : "",
                    settings->roundup_power2_divisions);
    if (settings->gc_threshold > 0)
        mt_text_add(out, "%sgarbage_collection_threshold:%g", out->length > begin ? "," : "", settings->gc_threshold);
    if (out->length == begin)
        mt_text_add(out, "expandable_segments:False");
}

static void add_settings(const struct mt_program_change *change, const struct mt_program *program, struct mt_text *out)
{
    if (program->kind == MT_PROGRAM_PYTORCH)
        add_pytorch_settings(&change->alloc, out);
    else
        mt_alloc_settings_format_short(&change->alloc, out);
}

/* Returns the begin of the last part of the place before `end` that names a file; NULL if none does. */
static const char *file_before(const char *place, const char *end)
{
    const char *found = NULL;
    for (const char *at = place, *begin = place; at < end; at++) {
        if (*at == '.')
            begin = at + 1;
        if (*at == '/')
            found = begin;
    }
    return found;
}

/* Returns the place from its last file on or, if that is one part alone, from the file before it: of
 * "run/main:8.model/forward:40.forward:51" what follows "run/main:8.". */
static const char *innermost(const char *place)
{
    const char *last = file_before(place, place + strlen(place));
    if (last == NULL || strchr(last, '.') != NULL)
        return last != NULL ? last : place;
    const char *before = file_before(place, last);
    return before != NULL ? before : last;
}

void mt_change_add(const struct mt_program_change *change, const struct mt_program *program, struct mt_text *out)
{
    const char *title = words_of(change)->title;
    if (title != NULL)
        mt_text_add(out, "%s", title);
    else if (change->kind == MT_CHANGE_CHECKPOINT)
        mt_text_add(out, "checkpoint of %s", innermost(change->place));
    else
        add_settings(change, program, out);
}

void mt_change_add_hint(const struct mt_program_change *change, const struct mt_program *program, struct mt_text *out)
{
    const char *hint = words_of(change)->hint;
    if (hint != NULL) {
        mt_text_add(out, "%s", hint);
        return;
    }
    mt_text_add(out, "%s", program->kind == MT_PROGRAM_PYTORCH ? "PYTORCH_ALLOC_CONF=" : "the allocator's setting ");
    add_settings(change, program, out);
}

void mt_change_add_basis(const struct mt_program_change *change, struct mt_text *out)
{
    const char *basis = words_of(change)->basis;
    if (basis != NULL)
        mt_text_add(out, "%s", basis);
    else
        mt_text_add(
            out,
            "the blocks that each of %zu calls keeps are freed between its forward and its backward, except the last "
            "one, which counts as its output; backward allocates them again, with at most %s of temporaries",
            change->calls, MT_SIZE(change->recomputed_bytes));
}

void mt_change_rows_create(const struct mt_program_changes *changes, const struct mt_program *program,
                           struct mt_change_rows *out)
{
    *out = (struct mt_change_rows){.items = mt_host_alloc((changes->count + 1) * sizeof *out->items),
                                   .count = changes->count,
                                   .gaps = mt_host_alloc(MT_CHANGE_KIND_COUNT * sizeof *out->gaps)};
    for (size_t i = 0; i < changes->count; i++) {
        const struct mt_program_change *change = &changes->items[i];
        struct mt_change_row *row = &out->items[i];
        *row = (struct mt_change_row){.kind = mt_change_kinds[change->kind].name,
                                      .is_setting = change->kind == MT_CHANGE_ALLOCATOR,
                                      .bytes = change->bytes,
                                      .blocks = change->blocks,
                                      .peak = change->replay,
                                      .difference_bytes =
                                          (int64_t)(change->replay.reserved_bytes - changes->as_it_was.reserved_bytes)};
        mt_change_add(change, program, &row->change);
        mt_change_add_hint(change, program, &row->hint);
        mt_change_add_basis(change, &row->basis);
    }
    for (mt_change_kind kind = 0; kind < MT_CHANGE_KIND_COUNT; kind++)
        if (changes->gaps[kind] != MT_GAP_NONE)
            out->gaps[out->gap_count++] =
                (struct mt_gap_row){mt_change_kinds[kind].name, gap_reasons[changes->gaps[kind]]};
}

void mt_change_rows_release(struct mt_change_rows *rows)
{
    mt_rows_release(&mt_change_type, rows->items, rows->count);
    free(rows->gaps);
    *rows = (struct mt_change_rows){0};
}

/* Prints what to write for each change and what it rests on. Of settings of the allocator the table says all. */
static void print_bases(const struct mt_change_rows *rows, const struct mt_screen *screen)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct mt_change_row *row = &rows->items[i];
        if (row->is_setting)
            continue;
        mt_screen_say(screen, "\n%s: %s.", mt_text_get(&row->change), mt_text_get(&row->basis));
        mt_screen_say(screen, "   → %s", mt_text_get(&row->hint));
    }
}

static void print_gaps(const struct mt_change_rows *rows, const struct mt_screen *screen)
{
    for (size_t i = 0; i < rows->gap_count; i++)
        mt_screen_say(screen, "%sCannot be known from this trace: %s, since %s.", i == 0 ? "\n" : "",
                      rows->gaps[i].kind, rows->gaps[i].reason);
}

/* Returns the first change with which a replay reserves less than without; NULL if there is none. */
static const struct mt_program_change *best_change(const struct mt_program_changes *changes)
{
    const struct mt_program_change *best = NULL;
    for (size_t i = changes->count; i-- > 0 && changes->as_it_was.fits;) {
        const struct mt_replay_result *replay = &changes->items[i].replay;
        if (replay->fits && replay->reserved_bytes < changes->as_it_was.reserved_bytes)
            best = &changes->items[i];
    }
    return best;
}

const struct mt_program_change *mt_changes_first(const struct mt_program_changes *changes, uint64_t least_bytes)
{
    const struct mt_program_change *best = best_change(changes);
    if (best == NULL || best->tier == MT_TIER_ANOTHER ||
        changes->as_it_was.reserved_bytes - best->replay.reserved_bytes <= least_bytes)
        return NULL;
    return best;
}

void mt_change_rows_print(const struct mt_change_rows *rows, const char *fields, const struct mt_screen *screen)
{
    if (rows->count > 0) {
        mt_screen_say(screen, "\nChanges, each replayed with the run's own blocks, best first:");
        mt_screen_rows(screen, &mt_change_type, fields, "requested allocated", rows->items, rows->count);
    }
    print_bases(rows, screen);
    print_gaps(rows, screen);
}

void mt_changes_print(const struct mt_program_changes *changes, const struct mt_program *program,
                      const struct mt_screen *screen)
{
    struct mt_change_rows rows;
    mt_change_rows_create(changes, program, &rows);
    mt_change_rows_print(&rows, "change requested allocated reserved difference_bytes", screen);
    mt_change_rows_release(&rows);
}
