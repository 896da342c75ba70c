/* A cause in words: what it is called, and the sentence with the numbers that it was seen in. */
#include "base/text.h"
#include "trace/query/diff_parts.h"
#include "trace/query/query.h"

#include <inttypes.h>
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
        [MT_CAUSE_TEMPORARIES] = "temporaries at the moment of the peak",
        [MT_CAUSE_WORKSPACES] = "workspace",
        [MT_CAUSE_DATA] = "data",
        [MT_CAUSE_ROUNDING] = "rounding of requests to blocks",
        [MT_CAUSE_CACHED] = "fragmentation: cached segments that could serve nobody",
    };
    if (finding->cause == MT_CAUSE_LAST_GRADIENTS)
        mt_text_add(out, "gradients of the last step alive during %s",
                    phase_word(context->side[side_with_most(finding)].phase));
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

/* "225 blocks of 6.30 GiB in B alone", "96 blocks at the same places, 480.00 MiB in A, 240.00 MiB in B", or both counts. */
static void add_blocks(const struct diff_finding *finding, struct mt_text *out)
{
    const uint64_t *blocks = finding->blocks, *bytes = finding->requested_bytes;
    mt_side more = blocks[MT_SIDE_A] > blocks[MT_SIDE_B] ? MT_SIDE_A : MT_SIDE_B;
    mt_text_add(out, "%" PRIu64 " block%s", blocks[more], plural(blocks[more]));
    if (blocks[1 - more] == 0) {
        mt_text_add(out, " of together ");
        add_bytes(bytes[more], out);
        mt_text_add(out, " that %c alone has", side_letter[more]);
        return;
    }
    if (blocks[MT_SIDE_A] == blocks[MT_SIDE_B]) {
        mt_text_add(out, " at the same place%s, ", plural(blocks[more]));
        add_bytes(bytes[MT_SIDE_A], out);
        mt_text_add(out, " in A and ");
        add_bytes(bytes[MT_SIDE_B], out);
        mt_text_add(out, " in B");
        return;
    }
    mt_text_add(out, " of ");
    add_bytes(bytes[more], out);
    mt_text_add(out, " that %c has more or larger, against %" PRIu64 " of ", side_letter[more], blocks[1 - more]);
    add_bytes(bytes[1 - more], out);
}

/* "bf16 (4,256,2560)" */
static void add_tensor(const struct diff_kind *kind, struct mt_text *out)
{
    mt_text_add(out, "%s", kind->dtype);
    if (kind->shape[0] != '\0')
        mt_text_add(out, " (%s)", kind->shape);
    mt_text_add(out, " of ");
    add_bytes(kind->requested_bytes, out);
}

/* "; most of it 32 x bf16 (10240,2560) of 50.00 MiB, cast at model.layers.*.ffn.w1" */
static void add_example(const struct diff_finding *finding, struct mt_text *out)
{
    const struct diff_pair *pair = finding->bytes > 0 ? finding->most_up : finding->most_down;
    if (pair == NULL)
        return;
    const struct diff_kind *a = pair->of[MT_SIDE_A], *b = pair->of[MT_SIDE_B], *kind = a != NULL ? a : b;
    mt_text_add(out, "; the most: %" PRIu64 " x ", pair->count);
    add_tensor(kind, out);
    if (a != NULL && b != NULL) {
        mt_text_add(out, " -> ");
        add_tensor(b, out);
    }
    mt_text_add(out, ", %s", kind->op);
    if (kind->place[0] != '\0')
        mt_text_add(out, " at %s", kind->place);
}

static void add_step(int64_t step, struct mt_text *out)
{
    if (step < 0)
        mt_text_add(out, "before the first step");
    else
        mt_text_add(out, "step %" PRId64, step);
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

static void add_lives(const struct diff_context *context, const struct diff_finding *finding, struct mt_text *out)
{
    mt_side side = side_with_most(finding);
    mt_text_add(out, "; made before %c's peak in ", side_letter[side]);
    add_step(context->side[side].step, out);
    if (context->gradients_freed_in[side][0] != '\0')
        mt_text_add(out, ", freed in its %s", context->gradients_freed_in[side]);
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

static void add_cached(const struct diff_context *context, struct mt_text *out)
{
    for (int side = 0; side < MT_SIDE_COUNT; side++) {
        const struct mt_diff_side *at = &context->side[side];
        mt_text_add(out, "%s%c reserved ", side == 0 ? "" : "; ", side_letter[side]);
        add_bytes(at->reserved_bytes - at->allocated_bytes, out);
        mt_text_add(out, " beyond its allocated peak: in %s", phase_word(at->reserved_phase));
        if (at->reserved_span[0] != '\0')
            mt_text_add(out, " at %s", at->reserved_span);
        if (at->asked_bytes > 0) {
            mt_text_add(out, " ");
            add_bytes(at->asked_bytes, out);
            mt_text_add(out, " were asked for");
        }
        mt_text_add(out, ", with ");
        add_bytes(at->free_bytes, out);
        mt_text_add(out, " free in %" PRIu64 " hole%s", at->holes, plural(at->holes));
        if (at->holes > 0) {
            mt_text_add(out, ", the widest ");
            add_bytes(at->widest_hole, out);
        }
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
    if (finding->cause == MT_CAUSE_TEMPORARIES)
        add_moments(context, out);
    if (finding->cause == MT_CAUSE_LAST_GRADIENTS)
        add_lives(context, finding, out);
    if (finding->cause == MT_CAUSE_WEIGHT_CASTS)
        mt_text_add(out, ", beside the parameters that they were made from");
    add_example(finding, out);
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
