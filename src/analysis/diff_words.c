/* A cause in words: what it is called, and the sentence with the numbers that it was seen in. */
#include "analysis/diff_parts.h"
#include "base/text.h"
#include "trace/query/query.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char side_letter[MT_SIDE_COUNT] = {[MT_SIDE_A] = 'A', [MT_SIDE_B] = 'B'};

const char *mt_cause_name(mt_cause cause)
{
    static const char *const names[] = {
#define X(name, text) [MT_CAUSE_##name] = text,
        MT_CAUSES(X)
#undef X
    };
    return names[cause];
}

/* "halved" where that is exactly so. */
static const char *precision_word(const struct diff_finding *finding)
{
    uint64_t a = finding->requested_bytes[MT_SIDE_A], b = finding->requested_bytes[MT_SIDE_B];
    if (b * 2 == a)
        return "halved";
    if (a * 2 == b)
        return "doubled";
    return finding->bytes < 0 ? "in narrower elements" : "in wider elements";
}

/* What has passed of a step when its peak comes, so that what then is alive was alive all along. */
static const char *phases_passed(const char *phase)
{
    return strcmp(phase, mt_phase_name(MT_PHASE_LOSS)) == 0 ? "forward and loss" : phase;
}

static const char *phase_word(const char *phase)
{
    return phase[0] != '\0' ? phase : "what precedes the first step";
}

/* Of gradients that outlived their step: the peak that has most of them. */
static mt_side side_with_most(const struct diff_finding *finding)
{
    return finding->requested_bytes[MT_SIDE_A] > finding->requested_bytes[MT_SIDE_B] ? MT_SIDE_A : MT_SIDE_B;
}

static void add_title_of_activations(const struct diff_finding *finding, struct mt_text *out)
{
    bool is_more = finding->bytes > 0;
    if (finding->cause == MT_CAUSE_ACTIVATION_COUNT)
        mt_text_add(out, "%s activations of %s", is_more ? "more" : "fewer", finding->category);
    else
        mt_text_add(out, "activations of %s %s", finding->category,
                    finding->cause == MT_CAUSE_ACTIVATION_PRECISION ? precision_word(finding)
                    : is_more                                       ? "larger"
                                                                    : "smaller");
}

static void add_title(const struct diff_context *context, const struct diff_finding *finding, struct mt_text *out)
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
    if (finding->cause == MT_CAUSE_LAST_GRADIENTS)
        mt_text_add(out, "gradients of the last step alive during %s",
                    phases_passed(context->side[side_with_most(finding)].phase));
    else if (titles[finding->cause] != NULL)
        mt_text_add(out, "%s", titles[finding->cause]);
    else
        add_title_of_activations(finding, out);
}

static void add_bytes(uint64_t bytes, struct mt_text *out)
{
    char text[MT_BYTES_TEXT];
    mt_text_add(out, "%s", mt_format_bytes(bytes, text));
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static void add_amount(uint64_t blocks, uint64_t bytes, mt_side side, struct mt_text *out)
{
    mt_text_add(out, "%c has %" PRIu64 " block%s, ", side_letter[side], blocks, plural(blocks));
    add_bytes(bytes, out);
}

/* "225 blocks in B alone, 6.30 GiB", "96 blocks in the same places, 480.00 MiB in A and 240.00 MiB in B", or what both
 * have apart from equal blocks. */
static void add_blocks(const struct diff_finding *finding, struct mt_text *out)
{
    const uint64_t *blocks = finding->blocks, *bytes = finding->requested_bytes;
    mt_side more = blocks[MT_SIDE_A] > blocks[MT_SIDE_B] ? MT_SIDE_A : MT_SIDE_B;
    if (blocks[1 - more] == 0) {
        mt_text_add(out, "%" PRIu64 " block%s in %c alone, ", blocks[more], plural(blocks[more]), side_letter[more]);
        add_bytes(bytes[more], out);
        return;
    }
    if (blocks[MT_SIDE_A] != blocks[MT_SIDE_B]) {
        mt_text_add(out, "equal blocks apart, ");
        add_amount(blocks[MT_SIDE_A], bytes[MT_SIDE_A], MT_SIDE_A, out);
        mt_text_add(out, ", and ");
        add_amount(blocks[MT_SIDE_B], bytes[MT_SIDE_B], MT_SIDE_B, out);
        return;
    }
    mt_text_add(out, "%" PRIu64 " block%s in the same place%s, ", blocks[more], plural(blocks[more]),
                plural(blocks[more]));
    add_bytes(bytes[MT_SIDE_A], out);
    mt_text_add(out, " in A and ");
    add_bytes(bytes[MT_SIDE_B], out);
    mt_text_add(out, " in B");
}

/* "bf16 (4,256,2560) of 5.00 MiB", without the shape if `before` has the same; "block of 5.00 MiB" of what others made. */
static void add_tensor(const struct diff_kind *kind, const struct diff_kind *before, struct mt_text *out)
{
    mt_text_add(out, "%s", strcmp(kind->dtype, mt_dtype_name(MT_NONE)) == 0 ? "block" : kind->dtype);
    if (kind->shape[0] != '\0' && (before == NULL || before->shape != kind->shape))
        mt_text_add(out, " (%s)", kind->shape);
    mt_text_add(out, " of ");
    add_bytes(kind->requested_bytes, out);
}

/* Of a pair with blocks on both sides, A's. */
static const struct diff_kind *kind_of(const struct diff_pair *pair)
{
    return pair->of[pair->of[MT_SIDE_A] != NULL ? MT_SIDE_A : MT_SIDE_B];
}

static bool is_on_both_sides(const struct diff_pair *pair)
{
    return pair->of[MT_SIDE_A] != NULL && pair->of[MT_SIDE_B] != NULL;
}

/* Whether one side keeps a tensor for a matrix product as it is, and the other one a copy of it in another precision. */
static bool stands_for(const struct diff_pair *copy, const struct diff_pair *original)
{
    if (is_on_both_sides(copy) || is_on_both_sides(original))
        return false;
    const struct diff_kind *of_copy = kind_of(copy), *of_original = kind_of(original);
    bool is_other_side = (copy->of[MT_SIDE_A] == NULL) != (original->of[MT_SIDE_A] == NULL);
    return is_other_side && diff_is_operand_copy(of_copy) && !diff_is_operand_copy(of_original) &&
           strcmp(of_original->role, mt_role_name(MT_ROLE_SAVED)) == 0 && copy->count == original->count &&
           of_copy->shape[0] != '\0' && of_copy->shape == of_original->shape && of_copy->dtype != of_original->dtype;
}

/* What the finding's blocks stand for on the other side, or what stands there for them; NULL if that is not so. */
static const struct diff_pair *find_counterpart(const struct diff_context *context, const struct diff_finding *finding)
{
    const struct diff_pair *most = finding->bytes > 0 ? finding->most_up : finding->most_down;
    if (most == NULL || (finding->cause != MT_CAUSE_OPERAND_COPIES && finding->cause != MT_CAUSE_ACTIVATION_COUNT))
        return NULL;
    for (size_t i = 0; i < context->pairs->count; i++) {
        const struct diff_pair *pair = &context->pairs->items[i];
        if (finding->cause == MT_CAUSE_OPERAND_COPIES ? stands_for(most, pair) : stands_for(pair, most))
            return pair;
    }
    return NULL;
}

/* "; in their place A keeps 32 x fp32 (4,32,256,256) of 32.00 MiB of Softmax" */
static void add_counterpart(const struct diff_context *context, const struct diff_finding *finding, struct mt_text *out)
{
    const struct diff_pair *pair = find_counterpart(context, finding);
    if (pair == NULL)
        return;
    const struct diff_kind *kind = kind_of(pair);
    mt_text_add(out, "; in their place %c keeps %" PRIu64 " x ",
                side_letter[pair->of[MT_SIDE_A] != NULL ? MT_SIDE_A : MT_SIDE_B], pair->count);
    add_tensor(kind, NULL, out);
    if (diff_is_operand_copy(kind))
        mt_text_add(out, ", copied for a matrix product");
    else
        mt_text_add(out, " of %s, the product's operand as it is", kind->category);
}

/* "; the most: 32 x bf16 (10240,2560) of 50.00 MiB, cast at model.layers.*.ffn.w1" */
static void add_example(const struct diff_finding *finding, struct mt_text *out)
{
    const struct diff_pair *pair = finding->bytes > 0 ? finding->most_up : finding->most_down;
    if (pair == NULL)
        return;
    const struct diff_kind *a = pair->of[MT_SIDE_A], *b = pair->of[MT_SIDE_B], *kind = kind_of(pair);
    mt_text_add(out, "; the most: %" PRIu64 " x ", pair->count);
    add_tensor(kind, NULL, out);
    if (a != NULL && b != NULL) {
        mt_text_add(out, " → ");
        add_tensor(b, a, out);
    }
    mt_text_add(out, ", %s", kind->op);
    if (kind->place[0] != '\0')
        mt_text_add(out, " at %s", kind->place);
}

static const char *step_words(int64_t step, char *text)
{
    if (step < 0)
        return "before the first step";
    snprintf(text, MT_BYTES_TEXT, "in step %" PRId64, step);
    return text;
}

static void add_moments(const struct diff_context *context, struct mt_text *out)
{
    for (int side = 0; side < MT_SIDE_COUNT; side++) {
        const struct mt_diff_side *at = &context->side[side];
        mt_text_add(out, "%s%c's peak is in %s", side == 0 ? "; " : ", ", side_letter[side], phase_word(at->phase));
        if (at->span[0] != '\0')
            mt_text_add(out, " at %s", at->span);
    }
}

/* "; made in step 0, freed in backward of step 1" */
static void add_lives(const struct diff_context *context, const struct diff_finding *finding, struct mt_text *out)
{
    mt_side side = side_with_most(finding);
    const struct diff_last_gradients *gradients = &context->last_gradients[side];
    if (gradients->freed_in == NULL)
        return;
    char step[MT_BYTES_TEXT];
    mt_text_add(out, "; made %s, ", step_words(gradients->made_in_step, step));
    if (gradients->freed_in[0] == '\0')
        mt_text_add(out, "and not freed up to the end of %c's step %" PRId64, side_letter[side],
                    context->side[side].step);
    else
        mt_text_add(out, "freed in %s of %c's step %" PRId64, gradients->freed_in, side_letter[side],
                    context->side[side].step);
}

static void add_rounding(const struct diff_context *context, struct mt_text *out)
{
    for (int side = 0; side < MT_SIDE_COUNT; side++) {
        const struct mt_diff_side *at = &context->side[side];
        mt_text_add(out, "%s%c: ", side == 0 ? "" : ", ", side_letter[side]);
        add_bytes(at->allocated_bytes - at->requested_bytes, out);
        mt_text_add(out, " in %" PRIu64 " block%s", at->blocks, plural(at->blocks));
    }
    mt_text_add(out, "; sizes are rounded up, and a rest too small to split off stays with its block");
}

/* "14.97 GiB were free in 822 pieces, the widest 50.00 MiB, 1.00 GiB of it in segments without a block" */
static void add_free(const struct mt_diff_side *at, struct mt_text *out)
{
    if (at->holes == 0) {
        mt_text_add(out, "nothing was free");
        return;
    }
    add_bytes(at->free_bytes, out);
    mt_text_add(out, " were free in %" PRIu64 " piece%s, the widest ", at->holes, plural(at->holes));
    add_bytes(at->widest_hole, out);
    if (at->idle_bytes == 0)
        return;
    mt_text_add(out, ", ");
    add_bytes(at->idle_bytes, out);
    mt_text_add(out, " of it in segments without a block");
}

/* "A's 2.66 GiB: when 100.00 MiB were asked for in optimizer, a segment of 100.00 MiB was taken, 14.97 GiB were free in
 * 822 pieces, the widest 50.00 MiB, and 12.41 GiB less were live than at the allocated peak": what was free and the
 * segment, less what was not live, are the bytes. */
static void add_beyond(const struct mt_diff_side *at, mt_side side, struct mt_text *out)
{
    mt_text_add(out, "%c's ", side_letter[side]);
    add_bytes(at->reserved_bytes - at->allocated_bytes, out);
    if (at->is_plan) {
        mt_text_add(out, ": its plan took a segment of ");
        add_bytes(at->segment_bytes, out);
        mt_text_add(out, " before the first block, and what is live at the allocated peak does not fill it");
        return;
    }
    mt_text_add(out, ": when ");
    if (at->asked_bytes > 0)
        add_bytes(at->asked_bytes, out);
    mt_text_add(out, "%s asked for in %s", at->asked_bytes > 0 ? " were" : "more was", phase_word(at->reserved_phase));
    if (at->reserved_span[0] != '\0')
        mt_text_add(out, " at %s", at->reserved_span);
    mt_text_add(out, at->segment_grew ? ", a segment grew by " : ", a segment of ");
    add_bytes(at->segment_bytes, out);
    mt_text_add(out, at->segment_grew ? ", " : " was taken, ");
    add_free(at, out);
    mt_text_add(out, ", and ");
    add_bytes(at->allocated_bytes - at->live_bytes, out);
    mt_text_add(out, " less were live than at the allocated peak");
}

static void add_cached(const struct diff_context *context, struct mt_text *out)
{
    for (int side = 0; side < MT_SIDE_COUNT; side++) {
        mt_text_add(out, "%s", side == 0 ? "" : "; ");
        add_beyond(&context->side[side], (mt_side)side, out);
    }
}

static void add_evidence(const struct diff_context *context, const struct diff_finding *finding, struct mt_text *out)
{
    if (finding->cause == MT_CAUSE_ROUNDING) {
        add_rounding(context, out);
        return;
    }
    if (finding->cause == MT_CAUSE_CACHED) {
        add_cached(context, out);
        return;
    }
    add_blocks(finding, out);
    if (finding->cause == MT_CAUSE_TEMPORARIES || finding->cause == MT_CAUSE_ACTIVATION_MOMENT)
        add_moments(context, out);
    if (finding->cause == MT_CAUSE_LAST_GRADIENTS)
        add_lives(context, finding, out);
    if (finding->cause == MT_CAUSE_WEIGHT_CASTS)
        mt_text_add(out, ", beside the parameters");
    add_example(finding, out);
    add_counterpart(context, finding, out);
    if (finding->is_shared)
        mt_text_add(out, "; size and precision changed together, and share evenly what they do jointly");
}

struct mt_diff_cause diff_cause_describe(const struct diff_context *context, const struct diff_finding *finding)
{
    struct mt_text text = {0}, evidence = {0};
    add_title(context, finding, &text);
    add_evidence(context, finding, &evidence);
    struct mt_diff_cause cause = {.kind = finding->cause,
                                  .category = mt_query_keep(context->keeper, finding->category),
                                  .text = mt_query_keep(context->keeper, mt_text_get(&text)),
                                  .evidence = mt_query_keep(context->keeper, mt_text_get(&evidence)),
                                  .bytes = finding->bytes};
    mt_text_release(&text);
    mt_text_release(&evidence);
    return cause;
}
