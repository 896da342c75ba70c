/* memtrace oom: why a run ended out of memory, and what would have kept it going. */
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
                     "memtrace runs lists those that did, memtrace fit --run %" PRId64
                     " --device sim:24GiB tells whether this one fits another device",
                     question.run->id);
    if (status == MT_OK)
        asked->json ? mt_json_print(mt_oom_json(&answer)) : mt_oom_print(&answer, &screen);
    mt_oom_answer_release(&answer);
    mt_question_close(&question);
    return status;
}

const struct mt_command mt_command_oom = {
    .name = "oom",
    .summary = "Tells why a run ended out of memory, and what would have kept it going.",
    .usage = "[RUN|FILE] [OPTIONS]",
    .details =
        "It speaks of the newest run of the trace that ended so: of what was asked for and by whom, what the device\n"
        "had left, what was reserved but free and why that could not serve, what was live, and of the changes that\n"
        "would have sufficed, from the one that costs training least. Each of these was tried:\n"
        "\n"
        "Simulation: the whole run was made again with the change, on a simulated device of the same size, and ran to\n"
        "its end. Only a run of memtrace run can be made again.\n"
        "\n"
        "Replay: the allocations up to the request were made again with the change, and the request was met. What\n"
        "would have been asked for after it is not known.\n",
    .examples = "  memtrace run --device sim:2GiB --model small || memtrace oom\n"
                "  memtrace oom --json | jq -r '.changes[0].command'\n",
    .options = options,
    MT_OPTIONS_OF(struct mt_trace_options, .trace = MT_DEFAULT_TRACE),
    .answer = &mt_oom_type,
    .run = run_oom,
};
