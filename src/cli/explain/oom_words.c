#include "cli/explain/oom_words.h"

#include "cli/explain/hint_words.h"
#include "cli/run/fit_report.h"
#include "cli/run/run_options.h"

/* Adds the texts that the blocks of a finding have in common: "Softmax of softmax.exp at model.layers.*.attn". */
static void add_blocks(const struct mt_finding *finding, struct mt_text *out)
{
    bool has_category = finding->category[0] != '\0', has_op = finding->op[0] != '\0';
    mt_text_add(out, "%s", has_category ? finding->category : finding->role);
    if (has_category && !has_op)
        mt_text_add(out, " %s", finding->role);
    if (has_op)
        mt_text_add(out, " of %s", finding->op);
    if (finding->place[0] != '\0')
        mt_text_add(out, " at %s", finding->place);
}

static void add_pattern(const struct mt_finding *finding, struct mt_text *out)
{
    static const char *const mended[MT_PATTERN_COUNT] = {[MT_PATTERN_KEPT_GRADIENTS] = "gone before forward",
                                                         [MT_PATTERN_LATE_FREE] = "freed after the last use",
                                                         [MT_PATTERN_EARLY_ALLOCATION] = "allocated at the first use",
                                                         [MT_PATTERN_IDLE] = "not kept while idle",
                                                         [MT_PATTERN_NEVER_USED] = "not allocated",
                                                         [MT_PATTERN_DEAD_WRITE] = "not written",
                                                         [MT_PATTERN_TWO_PRECISIONS] = "made again when needed",
                                                         [MT_PATTERN_LEAK] = "not left behind by steps",
                                                         [MT_PATTERN_FRAGMENTATION] = ""};
    char size[MT_BYTES_TEXT];
    add_blocks(finding, out);
    mt_text_add(out, " (%s) %s", mt_format_bytes(finding->bytes, size), mended[finding->pattern]);
}

static void add_replayed_words(const struct mt_replayed_change *replayed, struct mt_text *out)
{
    if (replayed->kind == MT_REPLAYED_POLICY)
        mt_text_add(out, "--alloc policy=%s", mt_policy_name(replayed->policy));
    else if (replayed->kind == MT_REPLAYED_USED_ONLY)
        mt_text_add(out, "every block from its first to its last use only");
    else
        add_pattern(&replayed->finding, out);
}

void mt_oom_change_add(const struct mt_oom_change *change, struct mt_text *out)
{
    if (change->proof == MT_PROOF_SIMULATION)
        mt_fit_remedy_add_changes(&change->remedy, out);
    else
        add_replayed_words(&change->replayed, out);
}

void mt_oom_change_add_way(const struct mt_oom_change *change, struct mt_text *out)
{
    if (change->proof == MT_PROOF_SIMULATION)
        mt_run_command_add(&change->remedy.plan, out);
    else if (change->replayed.kind == MT_REPLAYED_PATTERN)
        mt_text_add(out, "%s", mt_hint_words(mt_finding_hint(&change->replayed.finding)));
    else if (change->replayed.kind == MT_REPLAYED_USED_ONLY)
        mt_text_add(out, "free at the last use and allocate at the first: memtrace advise tells where that saves most");
    else
        mt_text_add(
            out, "%s",
            mt_hint_words(change->replayed.policy == MT_POLICY_TIGHT ? MT_HINT_POLICY_TIGHT : MT_HINT_POLICY_TORCH));
}
