/* memtrace peak: how high memory got. */
#include "cli/output/output.h"
#include "cli/output/peak_report.h"

static const struct mt_option options[] = {MT_TRACE_OPTIONS};

static mt_status ask_peak(const struct mt_question *question, const void *given)
{
    const struct mt_trace_options *trace = given;
    struct mt_run_peaks peaks;
    mt_status status = mt_run_peaks_load(question, &peaks);
    if (status == MT_OK && trace->json) {
        struct mt_run_peaks_answer answer = mt_run_peaks_answer_of(&peaks);
        mt_question_print_json(question, "peak", &mt_run_peaks_type, &answer);
    } else if (status == MT_OK) {
        mt_question_print_title(question);
        mt_run_peaks_print(&peaks);
    }
    mt_run_peaks_release(&peaks);
    return status;
}

const struct mt_command mt_command_peak = {
    .name = "peak",
    .summary = "Shows how high memory got, when, and what it was made of.",
    .usage = "[OPTIONS]",
    .details =
        "Allocated is the memory of live blocks, rounded up as they were handed out; requested is what was asked\n"
        "for; reserved is what was taken from the device. Each peak is broken up by category, and the parts add\n"
        "up to it to the byte; of reserved, what no block held is cached.\n",
    .examples = "  memtrace peak\n"
                "  memtrace peak --run 1 --json\n",
    .options = options,
    MT_OPTIONS_OF(struct mt_trace_options, .trace = MT_DEFAULT_TRACE),
    .answer = &mt_run_peaks_type,
    .ask = ask_peak,
};
