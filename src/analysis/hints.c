/* What could be done about each pattern. */
#include "analysis/advice.h"

#include <string.h>

static const char RECOMPUTE[] = "compute it again when it is needed again, or finish with it before what comes between";

/* What to do with what is idle, by its role. */
static const char *const idle_hints[MT_ROLE_COUNT] = {
    [MT_ROLE_PARAM] = "keep parameters on the host, or on other cards, while their layer does not run (FSDP with CPU "
                      "offload)",
    [MT_ROLE_GRAD] =
        "update each parameter as soon as its gradient is there, so that none waits for the optimizer "
        "(memtrace run --impl fused --optimizer-in-backward on; PyTorch: register_post_accumulate_grad_hook)",
    [MT_ROLE_OPT_STATE] =
        "move it to the host between two updates (ZeRO-Offload), shard it over cards (ZeRO, FSDP), or "
        "keep it in 8 bits",
    [MT_ROLE_SAVED] = "compute it again in backward (memtrace run --impl fused --checkpoint block; PyTorch: "
                      "torch.utils.checkpoint) or move it to the host until then (torch.autograd.graph.save_on_cpu)",
    [MT_ROLE_TEMPORARY] = RECOMPUTE,
    [MT_ROLE_WEIGHT_CAST] = "cast it again when it is needed again",
    [MT_ROLE_WORKSPACE] = "give the workspace back after use, or ask the library for a smaller one",
    [MT_ROLE_DATA] = "copy it from the host when it is needed again",
};

static const char *idle_hint(const char *role)
{
    for (mt_role known = 0; known < MT_ROLE_COUNT; known++)
        if (strcmp(role, mt_role_name(known)) == 0)
            return idle_hints[known];
    return RECOMPUTE;
}

static const char *late_hint(const char *role)
{
    if (strcmp(role, mt_role_name(MT_ROLE_SAVED)) == 0)
        return "it was saved for a backward pass that does not read it: without one, run under torch.no_grad() "
               "(memtrace "
               "run --mode infer)";
    return "let go of it after its last use: in PyTorch, del the variable or leave the function that holds it";
}

static const char *precision_hint(const char *role)
{
    if (strcmp(role, mt_role_name(MT_ROLE_WEIGHT_CAST)) == 0)
        return "cast weights again in backward, or keep them in bf16 and their fp32 copies with the optimizer, off the "
               "card";
    return "keep one of the two for backward, and make the other again there";
}

static const char *fragmentation_hint(const struct mt_finding *finding)
{
    if (finding->saved_bytes == 0)
        return "the other policy would not do with less: allocate what lives long first, and in fewer sizes";
    if (finding->policy == MT_POLICY_TORCH)
        return "memtrace run --alloc policy=torch";
    return "memtrace run --alloc policy=tight; in PyTorch, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
}

mt_named_option mt_finding_option(const struct mt_finding *finding)
{
    if (finding->pattern != MT_PATTERN_IDLE)
        return MT_NAMED_NONE;
    if (strcmp(finding->role, mt_role_name(MT_ROLE_GRAD)) == 0)
        return MT_NAMED_OPTIMIZER_IN_BACKWARD;
    return strcmp(finding->role, mt_role_name(MT_ROLE_SAVED)) == 0 ? MT_NAMED_CHECKPOINT : MT_NAMED_NONE;
}

mt_remedy_cost mt_finding_cost(const struct mt_finding *finding)
{
    switch (finding->pattern) {
    case MT_PATTERN_KEPT_GRADIENTS:
        return MT_COST_OPTION;
    case MT_PATTERN_FRAGMENTATION:
        return finding->saved_bytes > 0 ? MT_COST_OPTION : MT_COST_PROGRAM;
    case MT_PATTERN_IDLE:
    case MT_PATTERN_TWO_PRECISIONS:
        return MT_COST_TIME;
    default:
        return MT_COST_PROGRAM;
    }
}

const char *mt_remedy_cost_name(mt_remedy_cost cost)
{
    static const char *const names[] = {
        [MT_COST_OPTION] = "option", [MT_COST_PROGRAM] = "program", [MT_COST_TIME] = "time"};
    return names[cost];
}

const char *mt_finding_hint(const struct mt_finding *finding)
{
    switch (finding->pattern) {
    case MT_PATTERN_KEPT_GRADIENTS:
        return "memtrace run --zero-grad before-forward; in PyTorch, optimizer.zero_grad(set_to_none=True) right after "
               "optimizer.step()";
    case MT_PATTERN_LATE_FREE:
        return late_hint(finding->role);
    case MT_PATTERN_EARLY_ALLOCATION:
        return "allocate it where it is first used";
    case MT_PATTERN_IDLE:
        return idle_hint(finding->role);
    case MT_PATTERN_NEVER_USED:
        return "do not allocate it";
    case MT_PATTERN_DEAD_WRITE:
        return "leave out what writes it, or write it where it is read";
    case MT_PATTERN_TWO_PRECISIONS:
        return precision_hint(finding->role);
    case MT_PATTERN_LEAK:
        return "something holds on to it across steps, such as a list of losses: keep loss.item() there, not the "
               "tensor";
    case MT_PATTERN_FRAGMENTATION:
        return fragmentation_hint(finding);
    case MT_PATTERN_COUNT:
        break;
    }
    return "";
}
