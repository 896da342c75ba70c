/* memtrace advise: changes that lower the peak. */
#include "cli/command.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "words/advice_words.h"
#include "words/advise_report.h"

struct advise_options {
    struct mt_trace_options trace;
    int64_t limit;
    const char *alloc;
    bool all;
};

static const struct mt_option options[] = {
    MT_RUN_ARGUMENT,
    MT_OPTION(INTEGER, struct advise_options, limit, "--top", .value = "N",
              .help = "number of findings (default: 5; all with --all)", .low = 1, .high = INT32_MAX),
    MT_OPTION(FLAG, struct advise_options, all, "--all",
              .help = "include findings that save less than 1 % of the peak, and the parts of each finding"),
    MT_OPTION(TEXT, struct advise_options, alloc, "--alloc", .value = "SETTINGS",
              .help = "the allocator to assume (default: the run's own)"),
    MT_TRACE_OPTIONS,
};

/* Returns the number of findings to show. --all implies no limit. */
static size_t count_told(const struct advise_options *advise)
{
    enum { USUAL = 5 };
    if (advise->limit > 0)
        return (size_t)advise->limit;
    return advise->all ? INT32_MAX : USUAL;
}

static mt_status ask_advise(const struct mt_question *question, const void *given)
{
    const struct advise_options *advise = given;
    struct mt_alloc_settings alloc;
    struct mt_advice_answer answer;
    const struct mt_screen screen = mt_output_screen();
    if (advise->alloc != NULL && mt_alloc_settings_parse(advise->alloc, &alloc) != MT_OK)
        return mt_fail_context(MT_USAGE, "--alloc");
    mt_status status =
        mt_advice_answer_load(question, advise->alloc != NULL ? &alloc : NULL,
                              advise->all ? MT_ADVICE_ALL : MT_ADVICE_WORTHWHILE, count_told(advise), &answer);
    if (status == MT_OK)
        advise->trace.json ? mt_json_print(mt_advice_json(&answer)) : mt_advise_print(&answer, &screen);
    mt_advice_answer_release(&answer);
    return status;
}

const struct mt_command mt_command_advise = {
    .name = "advise",
    .summary = "Finds changes that lower the peak, and checks each by replay.",
    .usage = "[RUN|FILE] [OPTIONS]",
    .details =
        "Looks for blocks that are live while nothing needs them: freed late, allocated early, idle between uses,\n"
        "never used, written and not read, kept in two precisions, left behind by every step, gradients kept\n"
        "through the forward pass; and for reserved memory without live blocks. Each finding is checked by a replay\n"
        "of the run's allocations with the change, with the run's own allocator or --alloc's. Savings are of the\n"
        "peak of requested bytes; for fragmentation, of reserved bytes. Findings that a single option fixes come\n"
        "first if they save at least a tenth of the largest saving. The others follow by their savings.\n"
        "Savings do not add up: two findings may concern the same bytes. For a run of memtrace run, options that\n"
        "change its requests are simulated: the fused implementation, checkpointing, the optimizer in backward,\n"
        "moments in fewer bits, logits in slices.\n"
        "For other programs, changes are applied to the recorded blocks and replayed: other allocator settings,\n"
        "gradients freed earlier, checkpointed modules, an optimizer with less state. Each names its assumptions.\n",
    .examples = "  memtrace advise\n"
                "  memtrace advise --all\n"
                "  memtrace advise --run 1 --json | jq '.findings[0]'\n",
    .options = options,
    MT_OPTIONS_OF(struct advise_options, .trace.trace = MT_DEFAULT_TRACE),
    .answer = &mt_advice_type,
    .ask = ask_advise,
};
