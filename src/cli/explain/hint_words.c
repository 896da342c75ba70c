#include "cli/explain/hint_words.h"

#include <assert.h>

const char *mt_hint_words(mt_hint hint)
{
    static const char *const words[MT_HINT_COUNT] = {
        [MT_HINT_ZERO_GRAD_EARLY] = "memtrace run --zero-grad before-forward; in PyTorch, "
                                    "optimizer.zero_grad(set_to_none=True) right after optimizer.step()",
        [MT_HINT_FREE_AFTER_USE] =
            "let go of it after its last use: in PyTorch, del the variable or leave the function "
            "that holds it",
        [MT_HINT_NO_BACKWARD] = "it was saved for a backward pass that does not read it: without one, run under "
                                "torch.no_grad() (memtrace run --mode infer)",
        [MT_HINT_ALLOCATE_AT_USE] = "allocate it where it is first used",
        [MT_HINT_OFFLOAD_PARAMETERS] = "keep parameters on the host, or on other cards, while their layer does not run "
                                       "(FSDP with CPU offload)",
        [MT_HINT_UPDATE_IN_BACKWARD] =
            "update each parameter as soon as its gradient is there, so that none waits for the optimizer (memtrace "
            "run "
            "--impl fused --optimizer-in-backward on; PyTorch: register_post_accumulate_grad_hook)",
        [MT_HINT_OFFLOAD_STATE] = "move it to the host between two updates (ZeRO-Offload), shard it over cards (ZeRO, "
                                  "FSDP), or keep it in 8 bits",
        [MT_HINT_CHECKPOINT] =
            "compute it again in backward (memtrace run --impl fused --checkpoint block; PyTorch: "
            "torch.utils.checkpoint) or move it to the host until then (torch.autograd.graph.save_on_cpu)",
        [MT_HINT_RECOMPUTE] = "compute it again when it is needed again, or finish with it before what comes between",
        [MT_HINT_CAST_AGAIN] = "cast it again when it is needed again",
        [MT_HINT_SHRINK_WORKSPACE] = "give the workspace back after use, or ask the library for a smaller one",
        [MT_HINT_COPY_AGAIN] = "copy it from the host when it is needed again",
        [MT_HINT_DO_NOT_ALLOCATE] = "do not allocate it",
        [MT_HINT_DO_NOT_WRITE] = "leave out what writes it, or write it where it is read",
        [MT_HINT_CAST_WEIGHTS_AGAIN] =
            "cast weights again in backward, or keep them in bf16 and their fp32 copies with "
            "the optimizer, off the card",
        [MT_HINT_KEEP_ONE_PRECISION] = "keep one of the two for backward, and make the other again there",
        [MT_HINT_DROP_REFERENCE] = "something holds on to it across steps, such as a list of losses: keep loss.item() "
                                   "there, not the tensor",
        [MT_HINT_ALLOCATE_LONG_FIRST] =
            "the other policy would not do with less: allocate what lives long first, and in fewer sizes",
        [MT_HINT_POLICY_TORCH] = "memtrace run --alloc policy=torch",
        [MT_HINT_POLICY_TIGHT] = "memtrace run --alloc policy=tight; in PyTorch, "
                                 "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    };
    assert(hint < MT_HINT_COUNT);
    return words[hint];
}
