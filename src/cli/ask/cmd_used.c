/* memtrace used: divides the memory that the driver counts for the process, or would count on a simulated card. */
#include "cli/output/output.h"
#include "cli/output/question.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct mt_option options[] = {MT_RUN_ARGUMENT, MT_TRACE_OPTIONS};

enum { PART_COUNT = 7 };

/* A part of the memory in use. */
struct part {
    const char *name;
    int64_t bytes; /* negative if two sources disagree */
    double share;
    const char *meaning;
};

struct used_answer {
    struct mt_used_row used;
    struct part parts[PART_COUNT + 1]; /* and their sum */
    const struct part *rows;
    size_t count;
};

static const struct mt_field part_fields[] = {
    MT_TEXT(struct part, name, "name", "held by", NULL),
    MT_SIGNED_BYTES(struct part, bytes, "bytes", "bytes", "below 0 where the driver counts less than the parts"),
    MT_SHARE(struct part, share, "share", "share", "of `used_bytes`"),
    MT_SHOWN(TEXT, const char *, struct part, meaning, "meaning", "what it is"),
    MT_FIELDS_END,
};
static const struct mt_row_type part_type = MT_ROW_TYPE(struct part, part_fields);

static const struct mt_field answer_fields[] = {
    MT_STEP(struct used_answer, used.step, "step", NULL, "at its end the driver was read; null: before the first"),
    MT_INTEGER(struct used_answer, used.used, "used_bytes", NULL,
               "the driver's figure for the process: the sum of the seven below"),
    MT_FLAG(struct used_answer, used.is_estimate, "estimated", NULL,
            "of a simulated card, at the peak of reserved bytes, whose `step` it is"),
    MT_INTEGER(struct used_answer, used.requested, "requested_bytes", NULL, "by live blocks"),
    MT_INTEGER(struct used_answer, used.rounding, "rounding_bytes", NULL, "what their blocks have beyond that"),
    MT_INTEGER(struct used_answer, used.cached, "cached_bytes", NULL, "segments' bytes that no block holds"),
    MT_INTEGER(struct used_answer, used.context, "context_bytes", NULL, "CUDA's context and modules"),
    MT_INTEGER(struct used_answer, used.libraries, "library_bytes", NULL, "of cuBLAS and others when they began"),
    MT_INTEGER(struct used_answer, used.nccl, "nccl_bytes", NULL, "NCCL's, for communicators and connections"),
    MT_INTEGER(struct used_answer, used.unexplained, "unexplained_bytes", NULL, "the rest"),
    MT_ROWS(struct used_answer, rows, count, "rows", &part_type, "the same seven"),
    MT_KNOWN(struct used_answer, used.free, "card_free_bytes", NULL, NULL),
    MT_KNOWN(struct used_answer, used.total, "card_total_bytes", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type answer_type = MT_ROW_TYPE(struct used_answer, answer_fields);

static void list_parts(struct used_answer *answer)
{
    const struct mt_used_row *used = &answer->used;
    const struct part listed[] = {
        {"requested", used->requested, 0, "by tensors and workspaces that are live, as they asked"},
        {"rounding", used->rounding, 0, "what their blocks have beyond that"},
        {"cached", used->cached, 0, "segments taken from the device that no block holds: free for reuse"},
        {"context", used->context, 0, "CUDA's context and the modules with the kernels"},
        {"libraries", used->libraries, 0, "what cuBLAS and others took for themselves when they began"},
        {"nccl", used->nccl, 0, "NCCL's buffers, for communicators and connections"},
        {"unexplained", used->unexplained, 0, "the rest of the driver's figure"},
        {"used", used->used, 0, "the driver's figure for this process: the sum of the above"},
    };
    memcpy(answer->parts, listed, sizeof listed);
    if (used->is_estimate)
        answer->parts[PART_COUNT].meaning = "what the driver would count for the process: the sum of the above";
    for (size_t i = 0; i <= PART_COUNT; i++)
        answer->parts[i].share = used->used > 0 ? (double)listed[i].bytes / (double)used->used : NAN;
    assert(sizeof listed == sizeof answer->parts);
    answer->rows = answer->parts;
    answer->count = PART_COUNT;
}

static void print_table(const struct mt_question *question, const struct used_answer *answer)
{
    char text[MT_BYTES_TEXT];
    const struct mt_used_row *used = &answer->used;
    mt_question_print_title(question);
    if (used->is_estimate)
        mt_say("Estimated, at the peak of reserved bytes; memtrace peak has the ranges:");
    else if (used->step < 0)
        mt_say("Read from the driver before the first step:");
    else
        mt_say("Read from the driver at the end of %s:", mt_format_step(used->step, text));
    mt_rows_print(&part_type, "name bytes share meaning", NULL, answer->parts, PART_COUNT + 1);
    if (used->free >= 0 && used->total >= 0)
        mt_say("\nThe card has %s; %s are free.", MT_SIZE((uint64_t)used->total),
               mt_format_bytes((uint64_t)used->free, text));
}

static mt_status ask_used(const struct mt_question *question, const void *given)
{
    const struct mt_trace_options *trace = given;
    struct used_answer answer;
    mt_status status = mt_trace_used(question->trace, question->run, &answer.used);
    if (status == MT_USAGE)
        mt_fail_hint(status, "memtrace peak shows the run's own memory, memtrace run --device cuda reads the driver");
    if (status != MT_OK)
        return status;
    list_parts(&answer);
    if (trace->json)
        mt_question_print_json(question, "used", &answer_type, &answer);
    else
        print_table(question, &answer);
    return MT_OK;
}

const struct mt_command mt_command_used = {
    .name = "used",
    .summary =
        "Shows who holds the memory that the driver reports for the process, including memory outside the allocator.",
    .usage = "[RUN|FILE] [OPTIONS]",
    .details =
        "The parts add up to the driver's figure to the byte. The figure is read at the end of the last step, or\n"
        "before the first if no step ended. Requested, rounding and cached belong to the allocator and add up to\n"
        "its reserved bytes. Context and libraries were measured as they started. The rest is unexplained; it is\n"
        "negative if the driver reports less than the parts. On a simulated card the figure is an estimate, at the\n"
        "peak of reserved bytes. Runs on cpu have no driver, and recorded runs of other programs store no such\n"
        "figure.\n",
    .examples = "  memtrace run --device cuda --model small && memtrace used || echo 'there is no GPU here'\n",
    .options = options,
    MT_OPTIONS_OF(struct mt_trace_options, .trace = MT_DEFAULT_TRACE),
    .answer = &answer_type,
    .ask = ask_used,
};
