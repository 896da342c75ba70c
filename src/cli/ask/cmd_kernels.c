/* memtrace kernels: GPU time by kernel, estimated on sim. */
#include "answer/kernel_text.h"
#include "base/memory.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "device/device.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EVERY_PHASE = -1, SOFTMAX_OPERATIONS = 5, PRODUCT_OPERATIONS = 4 };

struct kernels_options {
    struct mt_trace_options trace;
    int64_t limit;
    int phase; /* mt_phase or EVERY_PHASE */
};

static const struct mt_option options[] = {
    MT_OPTION(INTEGER, struct kernels_options, limit, "N", .low = 1, .high = INT32_MAX,
              .help = "number of kernels in each phase (default: 5)"),
    MT_OPTION(CHOICE, struct kernels_options, phase, "--phase", .value = "PHASE", .choices = mt_phase_names,
              .help = "only the kernels of this phase"),
    MT_TRACE_OPTIONS,
};

/* A kernel of a phase. */
struct kernel_row {
    struct mt_kernel_row kernel;
    struct mt_figure per_step;
    double ms, share;
    const char *shown_op;
    char *shown_name; /* shortened for tables; owned */
};

static const struct mt_field kernel_fields[] = {
    MT_TEXT(struct kernel_row, kernel.name, "name", NULL, "in full"),
    MT_NAME(struct kernel_row, kernel.op, "op", NULL, "to which most of its time belongs"),
    MT_FLAG(struct kernel_row, kernel.is_product, "product", NULL, "launched by ops that end in `.matmul`"),
    MT_COUNT(struct kernel_row, kernel.count, "count", NULL, NULL),
    MT_COUNT(struct kernel_row, kernel.total_ns, "total_ns", NULL, NULL),
    MT_FIELD(FIGURE, struct mt_figure, struct kernel_row, per_step, "count_per_step", "count", NULL),
    MT_MS(struct kernel_row, ms, "ms_per_step", "ms", NULL),
    MT_SHARE(struct kernel_row, share, "share", "share", "of the phase's time"),
    MT_SHOWN(TEXT, const char *, struct kernel_row, shown_op, "shown_op", "op"),
    MT_SHOWN(TEXT, char *, struct kernel_row, shown_name, "kernel", "kernel"),
    MT_FIELDS_END,
};
static const struct mt_row_type kernel_type = MT_ROW_TYPE(struct kernel_row, kernel_fields);

/* The kernels of a phase, or of the whole step. */
struct phase_row {
    struct mt_kernel_phase phase;
    const char *title;
    struct mt_figure per_step;
    double ms, share, product_ms, product_share;
    const struct kernel_row *other; /* the one with most time that is not a matrix product; NULL: none */
    double other_ms;
    const char *other_name;
    struct kernel_row *rows;
    size_t shown_rows;
};

static const struct mt_field total_fields[] = {
    MT_COUNT(struct phase_row, phase.count, "count", NULL, NULL),
    MT_COUNT(struct phase_row, phase.total_ns, "total_ns", NULL, NULL),
    MT_COUNT(struct phase_row, phase.product_ns, "product_ns", NULL, "of matrix products"),
    MT_FIELD(FIGURE, struct mt_figure, struct phase_row, per_step, "count_per_step", "kernels", NULL),
    MT_MS(struct phase_row, ms, "ms_per_step", "ms", NULL),
    MT_MS(struct phase_row, product_ms, "product_ms_per_step", "products ms", NULL),
    MT_SHARE(struct phase_row, product_share, "product_share", "share", "of this time"),
    MT_FIELDS_END,
};
static const struct mt_row_type total_type = MT_ROW_TYPE(struct phase_row, total_fields);
static const struct mt_field phase_fields[] = {
    MT_FIELDS_OF(&total_type),
    MT_NAME(struct phase_row, phase.phase, "phase", NULL, "null if no op launched them"),
    MT_ROW_OR_NULL(struct phase_row, other, "top_other", &kernel_type, "the one with most time that is no product"),
    MT_ROWS(struct phase_row, rows, shown_rows, "rows", &kernel_type, "as many as requested, most time first"),
    MT_SHOWN(TEXT, const char *, struct phase_row, title, "title", "phase"),
    MT_SHOWN(SHARE, double, struct phase_row, share, "share", "share"),
    MT_SHOWN(MS, double, struct phase_row, other_ms, "other_ms", "largest other"),
    MT_SHOWN(TEXT, const char *, struct phase_row, other_name, "other_name", "its name"),
    MT_FIELDS_END,
};
static const struct mt_row_type phase_type = MT_ROW_TYPE(struct phase_row, phase_fields);

/* Softmax and the two products of attention in the forward pass. Operations are computed by formula; NAN if the run
 * does not store its sizes. */
struct attention {
    uint64_t softmax_ns, product_ns, score_ns;
    double time_ratio, softmax_operations, product_operations, operation_ratio;
};

static const struct mt_field attention_fields[] = {
    MT_COUNT(struct attention, softmax_ns, "softmax_ns", NULL, NULL),
    MT_COUNT(struct attention, product_ns, "product_ns", NULL, "queries with keys, and weights with values"),
    MT_COUNT(struct attention, score_ns, "score_ns", NULL, "of it, queries with keys"),
    MT_NUMBER(struct attention, time_ratio, "time_ratio", NULL, NULL),
    MT_NUMBER(struct attention, softmax_operations, "softmax_operations", NULL, "5·layers·B·H·T²"),
    MT_NUMBER(struct attention, product_operations, "product_operations", NULL, "4·layers·B·H·T²·D"),
    MT_NUMBER(struct attention, operation_ratio, "operation_ratio", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type attention_type = MT_ROW_TYPE(struct attention, attention_fields);

/* The answer. Invariant: all[kernels.phase_count] is the sum of the phases. */
struct answer {
    const struct mt_question *question;
    const struct kernels_options *options;
    bool is_estimated;
    struct mt_kernels kernels;
    double named_share;
    struct attention attention;
    struct phase_row *all, *step; /* all phases, then the whole step */
    struct phase_row *asked;      /* one of `all`: the one of --phase */
    size_t asked_count;
};

#define ROW struct answer
static const struct mt_field answer_fields[] = {
    MT_FLAG(ROW, is_estimated, "estimated", NULL,
            "true on sim, where each op counts as a kernel of its estimated time"),
    MT_COUNT(ROW, kernels.recorded, "recorded", NULL, "kernels of the whole run; 0: they were not watched"),
    MT_COUNT(ROW, kernels.lost, "lost", NULL, "kernels of the whole run without a record"),
    MT_COUNT(ROW, kernels.steps, "steps", NULL, "full ones that count: totals are their sums, means divide by them"),
    MT_COUNT(ROW, kernels.warmup, "warmup", NULL, "full ones before them that do not count"),
    MT_NUMBER(ROW, named_share, "named_share", NULL, "part of the time that belongs to a named op"),
    MT_ROW_OR_NULL(ROW, step, "step", &total_type, "all phases"),
    MT_ROW(ROW, attention, "attention", &attention_type, "in the forward pass"),
    MT_ROWS(ROW, asked, asked_count, "phases", &phase_type, "in the order of a step, or the one of `--phase`"),
    MT_FIELDS_END,
};
#undef ROW
static const struct mt_row_type answer_type = MT_ROW_TYPE(struct answer, answer_fields);

/* Reads a setting as a number; NAN if it is not a number. */
static mt_status load_number(const struct mt_question *question, const char *name, double *out)
{
    const char *text;
    char *end;
    MT_TRY(mt_question_setting(question, name, &text));
    *out = mt_read_real(text, &end);
    if (end == text || *end != '\0')
        *out = NAN;
    return MT_OK;
}

/* Counts the operations of attention. For each of the B·H·T·T scores of a layer, softmax needs a maximum, a
 * subtraction, an exponential, a sum and a division. Each of the two products needs a multiplication and an addition
 * for each score and each of the D elements of a head. */
static mt_status load_operations(struct answer *answer)
{
    enum { BATCH, SEQ, LAYERS, HEADS, D_MODEL, COUNT };
    static const char *const names[COUNT] = {"batch", "seq", "layers", "heads", "d_model"};
    double value[COUNT];
    mt_status status = MT_OK;
    for (int i = 0; i < COUNT && status == MT_OK; i++)
        status = load_number(answer->question, names[i], &value[i]);
    if (status != MT_OK)
        return status;
    double scores = value[LAYERS] * value[BATCH] * value[HEADS] * value[SEQ] * value[SEQ];
    answer->attention.softmax_operations = SOFTMAX_OPERATIONS * scores;
    answer->attention.product_operations = PRODUCT_OPERATIONS * scores * (value[D_MODEL] / value[HEADS]);
    return MT_OK;
}

/* Returns NAN if the whole is 0. */
static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : NAN;
}

static double ms_per_step(const struct answer *answer, uint64_t total_ns)
{
    return (double)total_ns / (double)answer->kernels.steps * 1e-6;
}

/* Returns the mean per step; a whole number if all steps ran equally many. */
static struct mt_figure count_per_step(const struct answer *answer, uint64_t count)
{
    uint64_t steps = answer->kernels.steps;
    double mean = (double)count / (double)steps;
    if (steps > 0 && count % steps == 0)
        return mt_figure_number(mean, "%.0f", mean);
    return mt_figure_number(mean, "%.1f", mean);
}

static void fill_kernel(const struct answer *answer, const struct mt_kernel_phase *phase,
                        const struct mt_kernel_row *kernel, struct kernel_row *out)
{
    struct mt_text name = {0};
    mt_text_add(&name, "%s", "");
    mt_kernel_text_add(&name, kernel->name);
    *out = (struct kernel_row){.kernel = *kernel,
                               .per_step = count_per_step(answer, kernel->count),
                               .ms = ms_per_step(answer, kernel->total_ns),
                               .share = ratio((double)kernel->total_ns, (double)phase->total_ns),
                               .shown_op = kernel->op[0] != '\0' ? kernel->op : "-",
                               .shown_name = name.data};
}

static void fill_phase(const struct answer *answer, const struct mt_kernel_phase *phase, struct phase_row *out)
{
    const struct mt_kernel_row *other = mt_kernel_phase_top_other(phase);
    size_t limit = (size_t)answer->options->limit;
    *out = (struct phase_row){.phase = *phase,
                              .title = phase->phase[0] != '\0' ? phase->phase : "no op",
                              .per_step = count_per_step(answer, phase->count),
                              .ms = ms_per_step(answer, phase->total_ns),
                              .share = ratio((double)phase->total_ns, (double)answer->kernels.total_ns),
                              .product_ms = ms_per_step(answer, phase->product_ns),
                              .product_share = ratio((double)phase->product_ns, (double)phase->total_ns),
                              .other_ms = NAN,
                              .other_name = "",
                              .rows = mt_host_alloc(phase->row_count * sizeof *out->rows),
                              .shown_rows = phase->row_count < limit ? phase->row_count : limit};
    for (size_t i = 0; i < phase->row_count; i++)
        fill_kernel(answer, phase, &phase->rows[i], &out->rows[i]);
    if (other == NULL)
        return;
    assert(other >= phase->rows && other < phase->rows + phase->row_count);
    out->other = &out->rows[other - phase->rows];
    out->other_ms = out->other->ms;
    out->other_name = out->other->shown_name;
}

static void fill(struct answer *answer)
{
    const struct mt_kernels *kernels = &answer->kernels;
    struct attention *attention = &answer->attention;
    const struct mt_kernel_phase step = {
        .phase = "step", .count = kernels->count, .total_ns = kernels->total_ns, .product_ns = kernels->product_ns};
    int asked = answer->options->phase;
    answer->named_share = ratio((double)kernels->named_ns, (double)kernels->total_ns);
    attention->softmax_ns = kernels->softmax_ns;
    attention->product_ns = kernels->attention_product_ns;
    attention->score_ns = kernels->score_product_ns;
    attention->time_ratio = ratio((double)attention->softmax_ns, (double)attention->product_ns);
    attention->operation_ratio = ratio(attention->softmax_operations, attention->product_operations);
    answer->asked = answer->all = mt_host_alloc((kernels->phase_count + 1) * sizeof *answer->all);
    answer->asked_count = asked == EVERY_PHASE ? kernels->phase_count : 0;
    for (size_t i = 0; i < kernels->phase_count; i++) {
        fill_phase(answer, &kernels->phases[i], &answer->all[i]);
        if (asked != EVERY_PHASE && strcmp(kernels->phases[i].phase, mt_phase_names[asked]) == 0) {
            answer->asked = &answer->all[i];
            answer->asked_count = 1;
        }
    }
    answer->step = &answer->all[kernels->phase_count];
    fill_phase(answer, &step, answer->step);
}

static void release(struct answer *answer)
{
    for (size_t i = 0; answer->all != NULL && i <= answer->kernels.phase_count; i++) {
        for (size_t row = 0; row < answer->all[i].phase.row_count; row++)
            free(answer->all[i].rows[row].shown_name);
        free(answer->all[i].rows);
    }
    free(answer->all);
    mt_kernels_release(&answer->kernels);
}

/* A part of attention in the forward pass. */
struct attention_part {
    const char *name;
    double ms;
};

static const struct mt_field part_fields[] = {
    MT_SHOWN(TEXT, const char *, struct attention_part, name, "name", "attention of forward"),
    MT_SHOWN(MS, double, struct attention_part, ms, "ms", "ms"),
    MT_FIELDS_END,
};
static const struct mt_row_type part_type = MT_ROW_TYPE(struct attention_part, part_fields);

static void print_attention(const struct answer *answer)
{
    const struct attention *attention = &answer->attention;
    if (attention->softmax_ns == 0 || attention->product_ns == 0)
        return;
    const struct attention_part parts[] = {
        {"queries with keys (QKᵀ)", ms_per_step(answer, attention->score_ns)},
        {"softmax", ms_per_step(answer, attention->softmax_ns)},
        {"weights with values (AV)", ms_per_step(answer, attention->product_ns - attention->score_ns)}};
    printf("\n");
    mt_rows_print(&part_type, "name ms", NULL, parts, sizeof parts / sizeof parts[0]);
    struct mt_text text = {0};
    mt_text_add(
        &text, "\nSoftmax of the forward pass takes %.3f ms, attention's two products %.3f ms: %.2f times as long",
        ms_per_step(answer, attention->softmax_ns), ms_per_step(answer, attention->product_ns), attention->time_ratio);
    if (isnan(attention->operation_ratio))
        mt_text_add(&text, ".");
    else
        mt_text_add(&text, ", for %.4f times the operations (%d a score, against %d a score and element of a head).",
                    attention->operation_ratio, SOFTMAX_OPERATIONS, PRODUCT_OPERATIONS);
    mt_print_line(&text);
}

static void print_basis(const struct answer *answer)
{
    const struct mt_kernels *kernels = &answer->kernels;
    struct mt_text text = {0};
    mt_text_add(&text, "%s, of a step: the mean of %" PRIu64,
                answer->is_estimated ? "Estimated time on the GPU (est.)" : "Time on the GPU", kernels->steps);
    if (kernels->warmup > 0)
        mt_text_add(&text, ", after %" PRIu64 " to warm up", kernels->warmup);
    mt_text_add(&text, ". %.2f %% of it belongs to a named op.", 100 * answer->named_share);
    mt_print_line(&text);
}

static void print_tables(const struct answer *answer)
{
    const struct mt_kernels *kernels = &answer->kernels;
    mt_question_print_title(answer->question);
    if (kernels->recorded == 0) {
        mt_say(
            "Its kernels were not recorded: `memtrace run --kernels` does that, on an NVIDIA GPU, and estimates them "
            "on sim.");
        return;
    }
    if (kernels->count == 0) {
        mt_say("None of its steps was ended with a record of kernels.");
        return;
    }
    print_basis(answer);
    mt_rows_print(&phase_type,
                  "title ms_per_step share count_per_step product_ms_per_step product_share other_ms other_name",
                  "other_name count_per_step share", answer->all, kernels->phase_count + 1);
    for (size_t i = 0; i < answer->asked_count; i++) {
        printf("\nKernels of %s:\n", answer->asked[i].title);
        mt_rows_print(&kernel_type, "ms_per_step share count_per_step shown_op kernel", "count_per_step share",
                      answer->asked[i].rows, answer->asked[i].shown_rows);
    }
    print_attention(answer);
}

static mt_status ask_kernels(const struct mt_question *question, const void *given)
{
    struct answer answer = {
        .question = question, .options = given, .is_estimated = mt_device_is_simulated(question->run->device)};
    mt_status status = mt_trace_kernels(question->trace, question->run, &answer.kernels);
    MT_THEN(status, load_operations(&answer));
    if (status == MT_OK && answer.kernels.lost > 0)
        mt_note("the run lost %" PRIu64 " records of kernels: its figures are too low", answer.kernels.lost);
    if (status == MT_OK) {
        fill(&answer);
        if (answer.options->trace.json)
            mt_question_print_json(question, "kernels", &answer_type, &answer);
        else
            print_tables(&answer);
    }
    release(&answer);
    return status;
}

const struct mt_command mt_command_kernels = {
    .name = "kernels",
    .summary = "Shows which kernels took the GPU's time, by phase, and compares matmuls with the rest.",
    .usage = "[N] [OPTIONS]",
    .details =
        "Needs a run with --kernels on an NVIDIA GPU. On sim nothing runs: each op counts as one kernel with its\n"
        "name, and its time is an estimate (est.). Times and counts are means over the full steps after the\n"
        "warm-up. A matmul is any kernel that an op ending in .matmul launches. Each kernel is shown with the op\n"
        "that accounts for most of its time. Softmax is compared with the two matmuls of attention: softmax counts\n"
        "5 operations a score (maximum, subtraction, exponential, sum, division), the matmuls 4 a score and element\n"
        "of a head.\n",
    .examples = "  memtrace kernels\n"
                "  memtrace kernels 20 --phase backward\n"
                "  memtrace kernels --json\n",
    .options = options,
    MT_OPTIONS_OF(struct kernels_options, .trace.trace = MT_DEFAULT_TRACE, .limit = 5, .phase = EVERY_PHASE),
    .answer = &answer_type,
    .ask = ask_kernels,
};
