/* memtrace peak: the peaks of a run and their parts. */
#include "cli/output/peak_report.h"

struct peak_options {
    struct mt_trace_options trace;
    int key; /* mt_group_key */
    int64_t rows;
    bool has_bytes;
};

static const struct mt_option options[] = {
    MT_RUN_ARGUMENT,
    MT_OPTION(CHOICE, struct peak_options, key, "--by", .value = "KEY", .choices = mt_group_key_names,
              .help = "split the peak by this (default: role)"),
    MT_OPTION(FLAG, struct peak_options, has_bytes, "--bytes", .help = "print the bytes of each size, too"),
    MT_OPTION(INTEGER, struct peak_options, rows, "--rows", .value = "N", .low = 1, .high = INT32_MAX,
              .help = "number of parts in a table (default: 20)"),
    MT_TRACE_OPTIONS,
};

static mt_status ask_peak(const struct mt_question *question, const void *given)
{
    const struct peak_options *peak = given;
    struct mt_run_peaks peaks;
    mt_status status = mt_run_peaks_load(question, (mt_group_key)peak->key, &peaks);
    if (status == MT_OK && peak->trace.json) {
        struct mt_run_peaks_answer answer = mt_run_peaks_answer_of(&peaks);
        mt_question_print_json(question, "peak", &mt_run_peaks_types[peaks.key], &answer);
    } else if (status == MT_OK) {
        const struct mt_peaks_form form = {.most_rows = (size_t)peak->rows, .has_bytes = peak->has_bytes};
        status = mt_run_peaks_headline(question, &peaks);
        mt_question_print_title(question);
        mt_run_peaks_print(&peaks, &form);
    }
    mt_run_peaks_release(&peaks);
    return status;
}

const struct mt_command mt_command_peak = {
    .name = "peak",
    .summary = "Shows how high memory use got, when, and what it consisted of.",
    .usage = "[RUN|FILE] [OPTIONS]",
    .details =
        "Allocated is the memory of live blocks after rounding; requested is before rounding; reserved is the\n"
        "memory that the allocator holds from the device. The first line is the answer. The allocated peak is split\n"
        "by role, such as activation, or as --by says. The parts add up to the peak to the byte; --json has the parts\n"
        "of the other two peaks. A module is the path of the module that allocated, with * for the number of its\n"
        "layer. The end lists the highest point of each phase, in the step with the highest peak. Listed\n"
        "separately: private pools of PyTorch, such as CUDA graphs', with the bytes they reserve at the allocated\n"
        "peak; and memory outside the allocator, such as CUDA's context and NCCL, measured, or on a simulated card\n"
        "estimated with a range. Operators of a dry run with unknown scratch memory are listed; that memory is not\n"
        "counted.\n",
    .examples = "  memtrace peak\n"
                "  memtrace peak --by module\n"
                "  memtrace peak 1 --json\n",
    .options = options,
    MT_OPTIONS_OF(struct peak_options, .trace.trace = MT_DEFAULT_TRACE, .rows = MT_PEAK_ROWS),
    .answer = &mt_run_peaks_types[MT_GROUP_ROLE],
    .ask = ask_peak,
};
