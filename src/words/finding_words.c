#include "words/finding_words.h"

#include "words/observed_words.h"

#include <assert.h>
#include <string.h>

const struct mt_finding_words mt_finding_words[MT_PATTERN_COUNT] = {
    [MT_PATTERN_KEPT_GRADIENTS] = {"gradients stay allocated during the next forward pass, which does not need them",
                                   "Gradients of the last step stay allocated for",
                                   " during a forward pass that does not need them", "freed before forward"},
    [MT_PATTERN_LATE_FREE] = {"blocks stay allocated after their last use", "They stay allocated for",
                              " after their last use", "freed after the last use"},
    [MT_PATTERN_EARLY_ALLOCATION] = {"blocks are allocated before their first use", "They stay allocated for",
                                     " before their first use", "allocated at the first use"},
    [MT_PATTERN_IDLE] = {"blocks are idle between two uses", "Nothing uses them for", " between two uses",
                         "not kept while idle"},
    [MT_PATTERN_NEVER_USED] = {"blocks are never used", "They stay allocated for", "; nothing reads or writes them",
                               "not allocated"},
    [MT_PATTERN_DEAD_WRITE] = {"blocks are written, and no step that ran reads them", "They stay allocated for",
                               "; no step that ran reads what is written to them", "not written"},
    [MT_PATTERN_TWO_PRECISIONS] = {"copies in another precision are idle while the originals are allocated",
                                   "They are copies of allocated tensors in another precision, idle for",
                                   " between two uses", "made again when needed"},
    [MT_PATTERN_LEAK] = {"memory grows with every step", "Every step adds more of them; these stayed allocated for",
                         " after the step that allocated them", "freed at the end of each step"},
    [MT_PATTERN_FRAGMENTATION] = {.waste = "no free gap is large enough for the requests"},
};

/* A change in the words of each program; NULL: it has none. */
struct hint_words {
    const char *change;  /* for all of them */
    const char *option;  /* of memtrace run */
    const char *pytorch; /* a name or a line */
};

static const struct hint_words hints[MT_HINT_COUNT] = {
    [MT_HINT_ZERO_GRAD_EARLY] = {.option = "--zero-grad before-forward",
                                 .pytorch = "optimizer.zero_grad(set_to_none=True) right after optimizer.step()"},
    [MT_HINT_END_AUTOCAST] = {"free copies of weights after their last use", NULL,
                              "call backward() after autocast's region, whose cache keeps them until it ends, or use "
                              "torch.autocast(..., cache_enabled=False)"},
    [MT_HINT_FREE_AFTER_USE] = {"free it after its last use", NULL,
                                "del the variable or leave the function that holds it"},
    [MT_HINT_LEAVE_OUT] = {"nothing uses it: remove it, or keep it on the host", NULL, NULL},
    [MT_HINT_NO_BACKWARD] = {"it was saved for a backward pass that does not read it: run without gradients",
                             "--mode infer", "torch.no_grad()"},
    [MT_HINT_ALLOCATE_AT_USE] = {"allocate it where it is first used", NULL, NULL},
    [MT_HINT_OFFLOAD_PARAMETERS] = {"keep parameters on the host, or on other cards, while their layer does not run",
                                    NULL, "FSDP with CPU offload"},
    [MT_HINT_UPDATE_IN_BACKWARD] =
        {"update each parameter as soon as its gradient is computed, so that gradients are freed "
         "before the optimizer step",
         "--impl fused --optimizer-in-backward on", "register_post_accumulate_grad_hook"},
    [MT_HINT_OFFLOAD_STATE] = {"move it to the host between two updates, shard it over cards, or keep it in 8 bits",
                               "--impl fused --moments 8bit", "ZeRO-Offload, ZeRO or FSDP, an 8-bit optimizer"},
    [MT_HINT_CHECKPOINT] = {"compute it again in backward, or move it to the host until then",
                            "--impl fused --checkpoint block",
                            "torch.utils.checkpoint, torch.autograd.graph.save_on_cpu"},
    [MT_HINT_RECOMPUTE] = {"compute it again when it is needed, or use it before the operations in between", NULL,
                           NULL},
    [MT_HINT_CAST_AGAIN] = {"cast it again when it is needed", NULL, NULL},
    [MT_HINT_SHRINK_WORKSPACE] = {"free the workspace after use, or configure a smaller one", NULL,
                                  "CUBLAS_WORKSPACE_CONFIG"},
    [MT_HINT_COPY_AGAIN] = {"copy it from the host when it is needed", NULL, NULL},
    [MT_HINT_DO_NOT_ALLOCATE] = {"do not allocate it", NULL, NULL},
    [MT_HINT_DO_NOT_WRITE] = {"remove the operation that writes it, or write it where it is read", NULL, NULL},
    [MT_HINT_CAST_WEIGHTS_AGAIN] = {"cast weights again in backward, or keep them in bf16 and the fp32 copies with the "
                                    "optimizer on the host",
                                    NULL, NULL},
    [MT_HINT_KEEP_ONE_PRECISION] = {"keep one of the two for backward, and cast the other from it there", NULL, NULL},
    [MT_HINT_DROP_REFERENCE] = {"something keeps a reference across steps, such as a list of losses", NULL,
                                "keep loss.item() there, not the tensor"},
    [MT_HINT_COPY_AT_USE] = {"copy data to the card in the step that reads it: keep fewer batches in flight", NULL,
                             NULL},
    [MT_HINT_ALLOCATE_LONG_FIRST] =
        {"the other policy would not reserve less: allocate long-lived tensors first, and in "
         "fewer sizes",
         NULL, NULL},
    [MT_HINT_POLICY_TORCH] = {.option = "--alloc policy=torch",
                              .pytorch = "PYTORCH_ALLOC_CONF=expandable_segments:False"},
    [MT_HINT_POLICY_TIGHT] = {.option = "--alloc policy=tight",
                              .pytorch = "PYTORCH_ALLOC_CONF=expandable_segments:True"},
};

/* Returns the words of a change for PyTorch, where variables keep outputs and a dry run does not execute every step. */
static const struct hint_words *words_of_pytorch(mt_hint hint, const struct mt_program *program)
{
    static const struct hint_words variable = {
        .pytorch = "del the variable that holds it after its last use, such as logits after the loss"};
    static const struct hint_words casts = {
        .pytorch = "cast the weights once, as with model.half() or model.bfloat16(), instead of in each call under "
                   "autocast"};
    static const struct hint_words graph = {
        .pytorch = "if no backward follows, call the model under torch.no_grad(); otherwise del the variable that "
                   "holds it after its last use, such as logits after the loss"};
    static const struct hint_words unread = {
        .change = "no step that ran reads it: copy it to the card when a step needs it, or remove it"};
    static const struct hint_words weights = {
        .change = "keep it on the host, such as an average of the weights, or copy it when it is needed"};
    static const struct hint_words data = {.change = "keep it on the host, and copy it when a step needs it"};
    static const struct hint_words inference = {
        .pytorch = "torch.no_grad() or torch.inference_mode() around the loop: no backward pass reads it"};
    switch (hint) {
    case MT_HINT_NO_BACKWARD:
        if (program->only_infers)
            return &inference;
        return program->runs_backward && !program->keeps_graphs ? &variable : &graph;
    case MT_HINT_END_AUTOCAST:
        return program->only_infers ? &casts : &hints[hint];
    case MT_HINT_FREE_AFTER_USE:
        return &variable;
    case MT_HINT_LEAVE_OUT:
    case MT_HINT_DO_NOT_ALLOCATE:
    case MT_HINT_DO_NOT_WRITE:
        return &unread;
    case MT_HINT_OFFLOAD_PARAMETERS:
        return &weights;
    case MT_HINT_COPY_AGAIN:
        return &data;
    default:
        return &hints[hint];
    }
}

/* Returns the words that apply to this program. */
static struct hint_words words_for(mt_hint hint, const struct mt_program *program)
{
    struct hint_words words = program->kind == MT_PROGRAM_PYTORCH ? *words_of_pytorch(hint, program) : hints[hint];
    bool is_policy = hint == MT_HINT_POLICY_TIGHT || hint == MT_HINT_POLICY_TORCH;
    bool has_policy = is_policy && program->grows_segments == (hint == MT_HINT_POLICY_TIGHT);
    if (program->kind != MT_PROGRAM_MODEL || has_policy)
        words.option = NULL;
    if (is_policy && program->kind == MT_PROGRAM_LIBRARY) {
        words.change = hint == MT_HINT_POLICY_TIGHT ? "the allocator's setting policy=tight"
                                                    : "the allocator's setting policy=torch";
        words.pytorch = NULL;
    }
    return words;
}

void mt_hint_add(mt_hint hint, const struct mt_program *program, struct mt_text *out)
{
    assert(hint < MT_HINT_COUNT);
    const struct hint_words words = words_for(hint, program);
    bool is_bracketed = words.change != NULL && (words.option != NULL || words.pytorch != NULL);
    mt_text_add(out, "%s%s", words.change != NULL ? words.change : "", is_bracketed ? " (" : "");
    if (words.option != NULL)
        mt_text_add(out, "memtrace run %s%s", words.option, words.pytorch != NULL ? "; " : "");
    if (words.pytorch != NULL)
        mt_text_add(out, "in PyTorch, %s", words.pytorch);
    if (is_bracketed)
        mt_text_add(out, ")");
}

/* True for a holder that keeps autograd graphs. */
static bool keeps_graphs(const struct mt_holder_row *holder)
{
    mt_holder_kind kind;
    return holder != NULL && mt_holder_kind_find(holder->kind, &kind) &&
           (kind == MT_HOLDER_GRAPH || kind == MT_HOLDER_CHAIN);
}

/* Adds what to do about what a holder keeps across steps. */
static void add_dropped(const struct mt_holder_row *holder, struct mt_text *out)
{
    const mt_observed_change change = mt_holder_change(holder, holder->phase);
    const char *words = "move its tensors to the host with .cpu(), or remove those that no step needs";
    if (keeps_graphs(holder))
        words = "keep tensor.detach() there, or loss.item()";
    else if (change == MT_OBSERVED_CHANGE_HISTORY_SIZE || change == MT_OBSERVED_CHANGE_SAVE_FOR_BACKWARD)
        words = mt_observed_change_words(change);
    mt_holder_add_name(holder, out);
    mt_text_add(out, " keeps a reference across steps: %s", words);
}

/* True for a holder that is an attribute, which outlives the function that uses it. */
static bool is_attribute(const struct mt_holder_row *holder)
{
    return holder != NULL && strchr(holder->name, '.') != NULL;
}

/* Adds what to do about what an attribute keeps after its last use: activations have graphs. */
static void add_unset(const struct mt_holder_row *holder, mt_hint hint, struct mt_text *out)
{
    mt_text_add(out, "set ");
    mt_holder_add_name(holder, out);
    mt_text_add(out, " to None after its last use%s",
                hint == MT_HINT_NO_BACKWARD ? ", or keep tensor.detach() there, which has no graph" : "");
}

/* Adds what to do about a variable that keeps a graph, which no backward went through or which it retained. */
static void add_retained(const struct mt_holder_row *holder, struct mt_text *out)
{
    mt_text_add(out, "keep only the value in ");
    mt_holder_add_name(holder, out);
    mt_text_add(out, ", with tensor.detach(), and leave out retain_graph=True");
}

/* True for a holder that collects tensors, or has a change of its own. */
static bool collects(const struct mt_holder_row *holder)
{
    return holder != NULL && (holder->loop_file[0] != '\0' ||
                              mt_holder_change(holder, holder->phase) == MT_OBSERVED_CHANGE_SAVE_FOR_BACKWARD);
}

/* True for blocks that PyTorch's autograd holds while it computes a gradient from them, and no variable of the
 * program. */
static bool is_held_by_autograd(const struct mt_finding *finding, const struct mt_program *program)
{
    return program->kind == MT_PROGRAM_PYTORCH && finding->holder == NULL && strstr(finding->op, "Backward") != NULL &&
           strcmp(finding->phase, mt_phase_name(MT_PHASE_BACKWARD)) == 0;
}

/* True for gradients, which no variable of the program holds. */
static bool is_gradient(const struct mt_finding *finding)
{
    return strcmp(finding->role, mt_role_name(MT_ROLE_GRADIENT)) == 0;
}

void mt_finding_add_hint(const struct mt_finding *finding, const struct mt_program *program, struct mt_text *out)
{
    const mt_hint hint = mt_finding_hint(finding);
    const bool is_of_use = hint == MT_HINT_NO_BACKWARD || hint == MT_HINT_FREE_AFTER_USE;
    const bool is_kept =
        is_of_use || hint == MT_HINT_CHECKPOINT || hint == MT_HINT_COPY_AGAIN || hint == MT_HINT_RECOMPUTE;
    if ((hint == MT_HINT_DROP_REFERENCE && finding->holder != NULL) || (is_kept && collects(finding->holder)))
        add_dropped(finding->holder, out);
    else if (is_of_use && is_attribute(finding->holder))
        add_unset(finding->holder, hint, out);
    else if (is_of_use && keeps_graphs(finding->holder) && program->runs_backward && !program->keeps_graphs)
        add_retained(finding->holder, out);
    else if (hint == MT_HINT_FREE_AFTER_USE && is_gradient(finding))
        mt_hint_add(MT_HINT_ZERO_GRAD_EARLY, program, out);
    else if (hint == MT_HINT_NO_BACKWARD && finding->holder != NULL)
        mt_hint_add(MT_HINT_FREE_AFTER_USE, program, out);
    else if (hint == MT_HINT_FREE_AFTER_USE && is_held_by_autograd(finding, program))
        mt_text_add(out, "autograd holds it until the gradient that it is a part of is complete; with FSDP, wrap "
                         "smaller modules");
    else
        mt_hint_add(hint, program, out);
}

void mt_finding_add_blocks(const struct mt_finding *finding, struct mt_text *out)
{
    bool has_op = finding->op[0] != '\0';
    const char *const words[] = {finding->category, has_op ? "" : finding->role, finding->op, finding->phase};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (words[i][0] != '\0' && (i != 2 || strcmp(finding->op, finding->category) != 0))
            mt_text_add(out, "%s%s", out->length > 0 ? " " : "", words[i]);
    if (finding->place[0] != '\0')
        mt_text_add(out, ", %s", finding->place);
}

void mt_finding_add_short_blocks(const struct mt_finding *finding, struct mt_text *out)
{
    static const char layers[] = "layers.*.";
    const char *layer = strstr(finding->place, layers);
    if (finding->op[0] != '\0' &&
        !is_gradient(finding)) /* a gradient's operator is the name of its parameter's class */
        mt_text_add(out, "%s", finding->op);
    else if (is_gradient(finding))
        mt_text_add(out, "%s", finding->role);
    else
        mt_text_add(out, "%s%s%s", finding->category, finding->category[0] != '\0' ? " " : "", finding->role);
    if (finding->place[0] != '\0')
        mt_text_add(out, ", %s", layer != NULL ? layer + strlen(layers) : finding->place);
}

void mt_alternative_add(const struct mt_alloc_settings *alloc, const struct mt_program *program, struct mt_text *out)
{
    if (program->kind == MT_PROGRAM_PYTORCH)
        mt_text_add(out, "expandable_segments:%s", mt_alloc_grows(alloc) ? "True" : "False");
    else
        mt_text_add(out, "%spolicy=%s", program->kind == MT_PROGRAM_MODEL ? "--alloc " : "",
                    mt_policy_name(alloc->policy));
}

/* Adds the blocks: "Softmax of softmax.exp at model.layers.*.attn (1.00 GiB)". */
static void add_wasted(const struct mt_finding *finding, struct mt_text *out)
{
    bool has_category = finding->category[0] != '\0', has_op = finding->op[0] != '\0';
    mt_text_add(out, "%s", has_category ? finding->category : finding->role);
    if (has_category && !has_op)
        mt_text_add(out, " %s", finding->role);
    if (has_op)
        mt_text_add(out, " of %s", finding->op);
    if (finding->place[0] != '\0')
        mt_text_add(out, " at %s", finding->place);
    mt_text_add(out, " (%s)", MT_SIZE(finding->bytes));
}

void mt_finding_add_mended(const struct mt_finding *finding, const struct mt_program *program, struct mt_text *out)
{
    if (mt_finding_is_of_reserved(finding)) {
        mt_alternative_add(&finding->alloc, program, out);
        return;
    }
    add_wasted(finding, out);
    mt_text_add(out, " %s", mt_finding_words[finding->pattern].mended);
}
