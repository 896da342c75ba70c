#include "words/diff_words.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char side_letter[MT_SIDE_COUNT] = {[MT_SIDE_A] = 'A', [MT_SIDE_B] = 'B'};

/* Returns "halved" or "doubled" if the bytes are exactly that, otherwise a word for the direction. */
static const char *precision_word(const struct mt_diff_cause *cause)
{
    uint64_t a = cause->requested_bytes[MT_SIDE_A], b = cause->requested_bytes[MT_SIDE_B];
    if (b * 2 == a)
        return "halved";
    if (a * 2 == b)
        return "doubled";
    return cause->bytes < 0 ? "in narrower elements" : "in wider elements";
}

/* Returns the phases of a step that its peak in `phase` comes after, or lies in. */
static const char *phases_passed(const char *phase)
{
    return strcmp(phase, mt_phase_name(MT_PHASE_LOSS)) == 0 ? "forward and loss" : phase;
}

static const char *phase_word(const char *phase)
{
    return phase[0] != '\0' ? phase : "what precedes the first step";
}

/* Returns the side that has more of the cause's bytes. */
static mt_side side_with_most(const struct mt_diff_cause *cause)
{
    return cause->requested_bytes[MT_SIDE_A] > cause->requested_bytes[MT_SIDE_B] ? MT_SIDE_A : MT_SIDE_B;
}

static void add_title_of_activations(const struct mt_diff_cause *cause, struct mt_text *out)
{
    bool is_more = cause->bytes > 0;
    if (cause->kind == MT_CAUSE_ACTIVATION_COUNT)
        mt_text_add(out, "%s activations of %s", is_more ? "more" : "fewer", cause->category);
    else
        mt_text_add(out, "activations of %s %s", cause->category,
                    cause->kind == MT_CAUSE_ACTIVATION_PRECISION ? precision_word(cause)
                    : is_more                                    ? "larger"
                                                                 : "smaller");
}

void mt_diff_cause_add_title(const struct mt_diff *diff, const struct mt_diff_cause *cause, struct mt_text *out)
{
    static const char *const titles[MT_CAUSE_COUNT] = {
        [MT_CAUSE_PARAMETERS] = "parameters",
        [MT_CAUSE_WEIGHT_CASTS] = "weight casts cached for the autocast region",
        [MT_CAUSE_GRADIENTS] = "gradients",
        [MT_CAUSE_OPTIMIZER_STATE] = "optimizer state",
        [MT_CAUSE_OPERAND_COPIES] = "operands copied in another precision for matrix products",
        [MT_CAUSE_ACTIVATION_MOMENT] = "activations that are alive at one peak only",
        [MT_CAUSE_TEMPORARIES] = "temporaries at the moment of the peak",
        [MT_CAUSE_WORKSPACES] = "workspace",
        [MT_CAUSE_DATA] = "data",
        [MT_CAUSE_ROUNDING] = "rounding of requests to blocks",
        [MT_CAUSE_CACHED] = "reserved beyond the allocated peak",
    };
    assert(cause->kind < MT_CAUSE_COUNT);
    if (cause->kind == MT_CAUSE_LAST_GRADIENTS)
        mt_text_add(out, "gradients of the last step alive during %s",
                    phases_passed(diff->side[side_with_most(cause)].phase));
    else if (titles[cause->kind] != NULL)
        mt_text_add(out, "%s", titles[cause->kind]);
    else
        add_title_of_activations(cause, out);
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static void add_amount(uint64_t blocks, uint64_t bytes, mt_side side, struct mt_text *out)
{
    mt_text_add(out, "%c has %" PRIu64 " block%s, %s", side_letter[side], blocks, plural(blocks), MT_SIZE(bytes));
}

/* Adds "225 blocks in B alone, 6.30 GiB", "96 blocks in the same places, 480.00 MiB in A and 240.00 MiB in B", or the
 * blocks of both apart from equal ones. */
static void add_blocks(const struct mt_diff_cause *cause, struct mt_text *out)
{
    const uint64_t *blocks = cause->blocks, *bytes = cause->requested_bytes;
    mt_side more = blocks[MT_SIDE_A] > blocks[MT_SIDE_B] ? MT_SIDE_A : MT_SIDE_B;
    if (blocks[1 - more] == 0) {
        mt_text_add(out, "%" PRIu64 " block%s in %c alone, %s", blocks[more], plural(blocks[more]), side_letter[more],
                    MT_SIZE(bytes[more]));
        return;
    }
    if (blocks[MT_SIDE_A] != blocks[MT_SIDE_B]) {
        mt_text_add(out, "equal blocks apart, ");
        add_amount(blocks[MT_SIDE_A], bytes[MT_SIDE_A], MT_SIDE_A, out);
        mt_text_add(out, ", and ");
        add_amount(blocks[MT_SIDE_B], bytes[MT_SIDE_B], MT_SIDE_B, out);
        return;
    }
    mt_text_add(out, "%" PRIu64 " block%s in the same place%s, %s in A and %s in B", blocks[more], plural(blocks[more]),
                plural(blocks[more]), MT_SIZE(bytes[MT_SIDE_A]), MT_SIZE(bytes[MT_SIDE_B]));
}

/* Adds "bf16 (4,256,2560) of 5.00 MiB", without the shape if `before` has the same; "block of 5.00 MiB" for one of
 * unknown precision. */
static void add_tensor(const struct mt_diff_tensor *tensor, const struct mt_diff_tensor *before, struct mt_text *out)
{
    mt_text_add(out, "%s", strcmp(tensor->dtype, mt_dtype_name(MT_NONE)) == 0 ? "block" : tensor->dtype);
    if (tensor->shape[0] != '\0' && (before == NULL || before->shape != tensor->shape))
        mt_text_add(out, " (%s)", tensor->shape);
    mt_text_add(out, " of %s", MT_SIZE(tensor->requested_bytes));
}

/* Returns a side that has the pair's blocks: A, unless they are in B alone. */
static mt_side side_of(const struct mt_diff_pair *pair)
{
    return pair->is_on[MT_SIDE_A] ? MT_SIDE_A : MT_SIDE_B;
}

/* Adds "; in their place A keeps 32 x fp32 (4,32,256,256) of 32.00 MiB of Softmax" */
static void add_counterpart(const struct mt_diff_cause *cause, struct mt_text *out)
{
    const struct mt_diff_pair *pair = &cause->counterpart;
    if (pair->count == 0)
        return;
    mt_side side = side_of(pair);
    const struct mt_diff_tensor *tensor = &pair->of[side];
    mt_text_add(out, "; in their place %c keeps %" PRIu64 " x ", side_letter[side], pair->count);
    add_tensor(tensor, NULL, out);
    if (tensor->is_operand_copy)
        mt_text_add(out, ", copied for a matrix product");
    else
        mt_text_add(out, " of %s, the product's operand as it is", tensor->category);
}

/* Adds "; the most: 32 x bf16 (10240,2560) of 50.00 MiB, cast at model.layers.*.ffn.w1" */
static void add_example(const struct mt_diff_cause *cause, struct mt_text *out)
{
    const struct mt_diff_pair *pair = &cause->most;
    if (pair->count == 0)
        return;
    const struct mt_diff_tensor *a = &pair->of[MT_SIDE_A], *b = &pair->of[MT_SIDE_B],
                                *tensor = &pair->of[side_of(pair)];
    mt_text_add(out, "; the most: %" PRIu64 " x ", pair->count);
    add_tensor(tensor, NULL, out);
    if (pair->is_on[MT_SIDE_A] && pair->is_on[MT_SIDE_B]) {
        mt_text_add(out, " → ");
        add_tensor(b, a, out);
    }
    mt_text_add(out, ", %s", tensor->op);
    if (tensor->place[0] != '\0')
        mt_text_add(out, " at %s", tensor->place);
}

static const char *step_words(int64_t step, char *text)
{
    if (step < 0)
        return "before the first step";
    snprintf(text, MT_BYTES_TEXT, "in step %" PRId64, step);
    return text;
}

static void add_moments(const struct mt_diff *diff, struct mt_text *out)
{
    for (int side = 0; side < MT_SIDE_COUNT; side++) {
        const struct mt_diff_side *at = &diff->side[side];
        mt_text_add(out, "%s%c's peak is in %s", side == 0 ? "; " : ", ", side_letter[side], phase_word(at->phase));
        if (at->span[0] != '\0')
            mt_text_add(out, " at %s", at->span);
    }
}

/* Adds "; made in step 0, freed in backward of B's step 1" */
static void add_lives(const struct mt_diff *diff, const struct mt_diff_cause *cause, struct mt_text *out)
{
    mt_side which = side_with_most(cause);
    const struct mt_diff_side *side = &diff->side[which];
    if (side->last_gradients_freed_in == NULL)
        return;
    char step[MT_BYTES_TEXT];
    mt_text_add(out, "; made %s, ", step_words(side->last_gradients_step, step));
    if (side->last_gradients_freed_in[0] == '\0')
        mt_text_add(out, "and not freed up to the end of %c's step %" PRId64, side_letter[which], side->step);
    else
        mt_text_add(out, "freed in %s of %c's step %" PRId64, side->last_gradients_freed_in, side_letter[which],
                    side->step);
}

static void add_rounding(const struct mt_diff *diff, struct mt_text *out)
{
    for (int side = 0; side < MT_SIDE_COUNT; side++) {
        const struct mt_diff_side *at = &diff->side[side];
        mt_text_add(out, "%s%c: %s in %" PRIu64 " block%s", side == 0 ? "" : ", ", side_letter[side],
                    MT_SIZE(at->allocated_bytes - at->requested_bytes), at->blocks, plural(at->blocks));
    }
    mt_text_add(out, "; sizes are rounded up, and a rest too small to split off stays with its block");
}

/* Adds "14.97 GiB were free in 822 pieces, the widest 50.00 MiB, 1.00 GiB of it in segments without a block" */
static void add_free(const struct mt_diff_side *at, struct mt_text *out)
{
    if (at->holes == 0) {
        mt_text_add(out, "nothing was free");
        return;
    }
    mt_text_add(out, "%s were free in %" PRIu64 " gap%s, the largest %s", MT_SIZE(at->free_bytes), at->holes,
                plural(at->holes), MT_SIZE(at->widest_hole));
    if (at->idle_bytes > 0)
        mt_text_add(out, ", %s of it in segments without a block", MT_SIZE(at->idle_bytes));
}

/* Adds "A's 2.66 GiB: when 100.00 MiB were asked for in optimizer, a segment of 100.00 MiB was taken, 14.97 GiB were
 * free in 822 pieces, the widest 50.00 MiB, and 12.41 GiB less were live than at the allocated peak". The bytes are
 * what was free and the segment, less what was not live. */
static void add_beyond(const struct mt_diff_side *at, mt_side side, struct mt_text *out)
{
    mt_text_add(out, "%c's %s: ", side_letter[side], MT_SIZE(at->reserved_bytes - at->allocated_bytes));
    if (at->is_plan) {
        mt_text_add(
            out,
            "its plan reserved a segment of %s before the first block, and the blocks live at the allocated peak "
            "do not fill it",
            MT_SIZE(at->segment_bytes));
        return;
    }
    mt_text_add(out, "when %s%s asked for in %s", at->asked_bytes > 0 ? MT_SIZE(at->asked_bytes) : "more",
                at->asked_bytes > 0 ? " were" : " was", phase_word(at->reserved_phase));
    if (at->reserved_span[0] != '\0')
        mt_text_add(out, " at %s", at->reserved_span);
    mt_text_add(out, at->segment_grew ? ", a segment grew by %s, " : ", a segment of %s was taken, ",
                MT_SIZE(at->segment_bytes));
    add_free(at, out);
    mt_text_add(out, ", and %s less were live than at the allocated peak",
                MT_SIZE(at->allocated_bytes - at->live_bytes));
}

static void add_cached(const struct mt_diff *diff, struct mt_text *out)
{
    for (int side = 0; side < MT_SIDE_COUNT; side++) {
        mt_text_add(out, "%s", side == 0 ? "" : "; ");
        add_beyond(&diff->side[side], (mt_side)side, out);
    }
}

void mt_diff_cause_add_evidence(const struct mt_diff *diff, const struct mt_diff_cause *cause, struct mt_text *out)
{
    if (cause->kind == MT_CAUSE_ROUNDING) {
        add_rounding(diff, out);
        return;
    }
    if (cause->kind == MT_CAUSE_CACHED) {
        add_cached(diff, out);
        return;
    }
    add_blocks(cause, out);
    if (cause->kind == MT_CAUSE_TEMPORARIES || cause->kind == MT_CAUSE_ACTIVATION_MOMENT)
        add_moments(diff, out);
    if (cause->kind == MT_CAUSE_LAST_GRADIENTS)
        add_lives(diff, cause, out);
    if (cause->kind == MT_CAUSE_WEIGHT_CASTS)
        mt_text_add(out, ", in addition to the parameters");
    add_example(cause, out);
    add_counterpart(cause, out);
    if (cause->is_shared)
        mt_text_add(out, "; size and precision changed together, and share evenly what they do jointly");
}
