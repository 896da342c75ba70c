/* memtrace oom: why a run ended out of memory, and which changes avoid it. */
#include "cli/command.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "words/oom_report.h"
#include "words/oom_words.h"

#include <inttypes.h>

static const struct mt_option options[] = {MT_RUN_ARGUMENT, MT_TRACE_OPTIONS};

static mt_status run_oom(const void *given)
{
    const struct mt_trace_options *asked = given;
    const struct mt_screen screen = mt_output_screen();
    struct mt_question question;
    MT_TRY(mt_question_open_ended(asked, MT_RUN_OOM, &question));
    struct mt_oom_answer answer;
    mt_status status = mt_oom_answer_load(&question, &answer);
    if (status == MT_USAGE && answer.event == 0 && !mt_run_is(question.run, MT_RUN_OOM))
        mt_fail_hint(status,
                     "memtrace runs lists the runs that did, memtrace fit --run %" PRId64
                     " --device sim:24GiB checks whether this run fits another device",
                     question.run->id);
    if (status == MT_OK)
        asked->json ? mt_json_print(mt_oom_json(&answer)) : mt_oom_print(&answer, &screen);
    mt_oom_answer_release(&answer);
    mt_question_close(&question);
    return status;
}

const struct mt_command mt_command_oom = {
    .name = "oom",
    .summary = "Explains why a run ran out of memory, and which changes would have avoided it.",
    .usage = "[RUN|FILE] [OPTIONS]",
    .details =
        "It explains the newest run of the trace that ended out of memory: the request that failed and the code\n"
        "that made it, the memory that the device had left, reserved memory that was free and why it could not be\n"
        "used, live memory, and changes that are enough, cheapest first. Each change was checked in one of\n"
        "two ways:\n"
        "\n"
        "Simulation: the whole run was repeated with the change, on a simulated device of the same size, and\n"
        "completed. This is possible only for a run of memtrace run.\n"
        "\n"
        "Replay: the allocations up to the failed request were repeated with the change, and the request succeeded.\n"
        "Later requests are unknown.\n",
    .examples = "  memtrace run --device sim:2GiB --model small || memtrace oom\n"
                "  memtrace oom --json | jq -r '.changes[0].command'\n",
    .options = options,
    MT_OPTIONS_OF(struct mt_trace_options, .trace = MT_DEFAULT_TRACE),
    .answer = &mt_oom_type,
    .run = run_oom,
};
