/* memtrace kernels: what took the GPU's time. */
#include "answer/kernel_text.h"
#include "answer/table.h"
#include "cli/output/output.h"
#include "cli/output/question.h"

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
    {.name = "N",
     .help = "how many kernels of each phase (5 unless given)",
     .kind = MT_OPTION_INTEGER,
     .offset = offsetof(struct kernels_options, limit),
     .low = 1,
     .high = INT32_MAX},
    {.name = "--phase",
     .value = "PHASE",
     .help = "only the kernels of this phase",
     .kind = MT_OPTION_CHOICE,
     .offset = offsetof(struct kernels_options, phase),
     .choices = mt_phase_names},
    MT_TRACE_OPTIONS,
};

/* What is told. Operations are of a forward pass, by formula; NAN where the run does not say its sizes. */
struct answer {
    const struct mt_question *question;
    const struct kernels_options *options;
    struct mt_kernels kernels;
    double softmax_operations, product_operations;
};

/* A setting as a number; NAN: it is none. */
static mt_status load_number(const struct mt_question *question, const char *name, double *out)
{
    const char *text;
    char *end;
    mt_status status = mt_question_setting(question, name, &text);
    if (status != MT_OK)
        return status;
    *out = strtod(text, &end);
    if (end == text || *end != '\0')
        *out = NAN;
    return MT_OK;
}

/* Softmax: maximum, subtraction, exponential, sum and division for each of B·H·T·T scores in every layer. The two
 * products: a multiplication and an addition for each score and each of the D elements of a head, twice. */
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
    answer->softmax_operations = SOFTMAX_OPERATIONS * scores;
    answer->product_operations = PRODUCT_OPERATIONS * scores * (value[D_MODEL] / value[HEADS]);
    return MT_OK;
}

static double per_step(const struct answer *answer, uint64_t total)
{
    return (double)total / (double)answer->kernels.steps;
}

static double ms_per_step(const struct answer *answer, uint64_t total_ns)
{
    return per_step(answer, total_ns) * 1e-6;
}

/* NAN of nothing. */
static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : NAN;
}

static bool is_asked(const struct answer *answer, const struct mt_kernel_phase *phase)
{
    return answer->options->phase == EVERY_PHASE || strcmp(phase->phase, mt_phase_names[answer->options->phase]) == 0;
}

static size_t shown_rows(const struct answer *answer, const struct mt_kernel_phase *phase)
{
    size_t limit = (size_t)answer->options->limit;
    return phase->row_count < limit ? phase->row_count : limit;
}

static json_t *row_json(const struct answer *answer, const struct mt_kernel_phase *phase,
                        const struct mt_kernel_row *row)
{
    return json_pack("{s:o, s:o, s:b, s:I, s:I, s:o, s:o, s:o}", "name", mt_json_text(row->name), "op",
                     row->op[0] != '\0' ? mt_json_text(row->op) : json_null(), "product", row->is_product, "count",
                     (json_int_t)row->count, "total_ns", (json_int_t)row->total_ns, "count_per_step",
                     mt_json_number(per_step(answer, row->count)), "ms_per_step",
                     mt_json_number(ms_per_step(answer, row->total_ns)), "share",
                     mt_json_number(ratio((double)row->total_ns, (double)phase->total_ns)));
}

/* The members that a phase and the whole step have in common. */
static json_t *total_json(const struct answer *answer, uint64_t count, uint64_t total_ns, uint64_t product_ns)
{
    return json_pack("{s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "count", (json_int_t)count, "total_ns",
                     (json_int_t)total_ns, "product_ns", (json_int_t)product_ns, "count_per_step",
                     mt_json_number(per_step(answer, count)), "ms_per_step",
                     mt_json_number(ms_per_step(answer, total_ns)), "product_ms_per_step",
                     mt_json_number(ms_per_step(answer, product_ns)), "product_share",
                     mt_json_number(ratio((double)product_ns, (double)total_ns)));
}

static json_t *phase_json(const struct answer *answer, const struct mt_kernel_phase *phase)
{
    const struct mt_kernel_row *other = mt_kernel_phase_top_other(phase);
    json_t *object = total_json(answer, phase->count, phase->total_ns, phase->product_ns), *rows = json_array();
    for (size_t i = 0; i < shown_rows(answer, phase); i++)
        json_array_append_new(rows, row_json(answer, phase, &phase->rows[i]));
    json_object_set_new(object, "phase", phase->phase[0] != '\0' ? mt_json_text(phase->phase) : json_null());
    json_object_set_new(object, "top_other", other != NULL ? row_json(answer, phase, other) : json_null());
    json_object_set_new(object, "rows", rows);
    return object;
}

static json_t *attention_json(const struct answer *answer)
{
    const struct mt_kernels *kernels = &answer->kernels;
    return json_pack("{s:I, s:I, s:o, s:o, s:o, s:o}", "softmax_ns", (json_int_t)kernels->softmax_ns, "product_ns",
                     (json_int_t)kernels->attention_product_ns, "time_ratio",
                     mt_json_number(ratio((double)kernels->softmax_ns, (double)kernels->attention_product_ns)),
                     "softmax_operations", mt_json_number(answer->softmax_operations), "product_operations",
                     mt_json_number(answer->product_operations), "operation_ratio",
                     mt_json_number(ratio(answer->softmax_operations, answer->product_operations)));
}

static void print_json(const struct answer *answer)
{
    const struct mt_kernels *kernels = &answer->kernels;
    json_t *object = mt_question_json(answer->question, "kernels"), *list = json_array();
    for (size_t i = 0; i < kernels->phase_count; i++)
        if (is_asked(answer, &kernels->phases[i]))
            json_array_append_new(list, phase_json(answer, &kernels->phases[i]));
    json_object_set_new(object, "recorded", json_integer((json_int_t)kernels->recorded));
    json_object_set_new(object, "lost", json_integer((json_int_t)kernels->lost));
    json_object_set_new(object, "steps", json_integer((json_int_t)kernels->steps));
    json_object_set_new(object, "warmup", json_integer((json_int_t)kernels->warmup));
    json_object_set_new(object, "named_share",
                        mt_json_number(ratio((double)kernels->named_ns, (double)kernels->total_ns)));
    json_object_set_new(object, "step", total_json(answer, kernels->count, kernels->total_ns, kernels->product_ns));
    json_object_set_new(object, "attention", attention_json(answer));
    json_object_set_new(object, "phases", list);
    mt_json_print(object);
}

static void add_ms(struct mt_table *table, const struct answer *answer, uint64_t total_ns)
{
    char text[MT_BYTES_TEXT];
    snprintf(text, sizeof text, "%.3f", ms_per_step(answer, total_ns));
    mt_table_add(table, text);
}

/* Whole where every step ran as many. */
static void add_count(struct mt_table *table, const struct answer *answer, uint64_t count)
{
    char text[MT_BYTES_TEXT];
    snprintf(text, sizeof text, count % answer->kernels.steps == 0 ? "%.0f" : "%.1f", per_step(answer, count));
    mt_table_add(table, text);
}

static void add_name(struct mt_table *table, const struct mt_kernel_row *row)
{
    struct mt_text text = {0};
    if (row != NULL)
        mt_kernel_text_add(&text, row->name);
    mt_table_add(table, mt_text_get(&text));
    mt_text_release(&text);
}

static const char *phase_title(const struct mt_kernel_phase *phase)
{
    return phase->phase[0] != '\0' ? phase->phase : "no op";
}

static void add_total(struct mt_table *table, const struct answer *answer, const struct mt_kernel_phase *phase)
{
    const struct mt_kernel_row *other = mt_kernel_phase_top_other(phase);
    mt_table_add(table, phase_title(phase));
    add_ms(table, answer, phase->total_ns);
    mt_table_add_share(table, (double)phase->total_ns, (double)answer->kernels.total_ns);
    add_count(table, answer, phase->count);
    add_ms(table, answer, phase->product_ns);
    mt_table_add_share(table, (double)phase->product_ns, (double)phase->total_ns);
    if (other != NULL)
        add_ms(table, answer, other->total_ns);
    else
        mt_table_add(table, "-");
    add_name(table, other);
}

/* A row a phase, and one of their sum. */
static void print_totals(const struct answer *answer)
{
    static const struct mt_column columns[] = {{"phase", MT_ALIGN_LEFT},          {"ms", MT_ALIGN_RIGHT},
                                               {"share", MT_ALIGN_RIGHT},         {"kernels", MT_ALIGN_RIGHT},
                                               {"products ms", MT_ALIGN_RIGHT},   {"share", MT_ALIGN_RIGHT},
                                               {"largest other", MT_ALIGN_RIGHT}, {"its name", MT_ALIGN_LEFT}};
    const struct mt_kernels *kernels = &answer->kernels;
    const struct mt_kernel_phase step = {
        .phase = "step", .count = kernels->count, .total_ns = kernels->total_ns, .product_ns = kernels->product_ns};
    static const char *const spare[] = {"its name", "kernels", "share", NULL};
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    mt_table_spare(table, spare);
    for (size_t i = 0; i < kernels->phase_count; i++)
        add_total(table, answer, &kernels->phases[i]);
    add_total(table, answer, &step);
    mt_table_print(table);
    mt_table_destroy(table);
}

static void print_phase(const struct answer *answer, const struct mt_kernel_phase *phase)
{
    static const struct mt_column columns[] = {{"ms", MT_ALIGN_RIGHT},
                                               {"share", MT_ALIGN_RIGHT},
                                               {"count", MT_ALIGN_RIGHT},
                                               {"op", MT_ALIGN_LEFT},
                                               {"kernel", MT_ALIGN_LEFT}};
    printf("\nKernels of %s:\n", phase_title(phase));
    static const char *const spare[] = {"count", "share", NULL};
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    mt_table_spare(table, spare);
    for (size_t i = 0; i < shown_rows(answer, phase); i++) {
        const struct mt_kernel_row *row = &phase->rows[i];
        add_ms(table, answer, row->total_ns);
        mt_table_add_share(table, (double)row->total_ns, (double)phase->total_ns);
        add_count(table, answer, row->count);
        mt_table_add(table, row->op[0] != '\0' ? row->op : "-");
        add_name(table, row);
    }
    mt_table_print(table);
    mt_table_destroy(table);
}

static void print_attention(const struct answer *answer)
{
    const struct mt_kernels *kernels = &answer->kernels;
    if (kernels->softmax_ns == 0 || kernels->attention_product_ns == 0)
        return;
    printf("\nSoftmax of the forward pass takes %.3f ms, attention's two products %.3f ms: %.2f times as long",
           ms_per_step(answer, kernels->softmax_ns), ms_per_step(answer, kernels->attention_product_ns),
           ratio((double)kernels->softmax_ns, (double)kernels->attention_product_ns));
    double operations = ratio(answer->softmax_operations, answer->product_operations);
    if (isnan(operations))
        puts(".");
    else
        printf(", for %.4f times the operations\n(%d a score, against %d a score and element of a head).\n", operations,
               SOFTMAX_OPERATIONS, PRODUCT_OPERATIONS);
}

static void print_basis(const struct answer *answer)
{
    const struct mt_kernels *kernels = &answer->kernels;
    printf("Time on the GPU, of a step: the mean of %" PRIu64, kernels->steps);
    if (kernels->warmup > 0)
        printf(", after %" PRIu64 " to warm up", kernels->warmup);
    printf(". %.2f %% of it belongs to a named op.\n",
           100 * ratio((double)kernels->named_ns, (double)kernels->total_ns));
}

static void print_tables(const struct answer *answer)
{
    const struct mt_kernels *kernels = &answer->kernels;
    mt_question_print_title(answer->question);
    if (kernels->recorded == 0) {
        puts("Its kernels were not recorded: `memtrace run --device cuda --kernels` does that, on an NVIDIA GPU.");
        return;
    }
    if (kernels->count == 0) {
        puts("None of its steps was ended with a record of kernels.");
        return;
    }
    print_basis(answer);
    print_totals(answer);
    for (size_t i = 0; i < kernels->phase_count; i++)
        if (is_asked(answer, &kernels->phases[i]))
            print_phase(answer, &kernels->phases[i]);
    print_attention(answer);
}

static mt_status run_kernels(const void *given)
{
    struct mt_question question;
    struct answer answer = {.question = &question, .options = given};
    mt_status status = mt_question_open(&answer.options->trace, &question);
    if (status != MT_OK)
        return status;
    status = mt_trace_kernels(question.trace, question.run, &answer.kernels);
    if (status == MT_OK)
        status = load_operations(&answer);
    if (status == MT_OK && answer.kernels.lost > 0)
        mt_note("the run lost %" PRIu64 " records of kernels: its figures are too low", answer.kernels.lost);
    if (status == MT_OK)
        (answer.options->trace.json ? print_json : print_tables)(&answer);
    mt_kernels_release(&answer.kernels);
    mt_question_close(&question);
    return status;
}

const struct mt_command mt_command_kernels = {
    .name = "kernels",
    .summary = "Shows what took the GPU's time: kernels by phase, and matrix products against the rest.",
    .usage = "[N] [OPTIONS]",
    .details = "Of runs with --kernels on an NVIDIA GPU. Times and counts are means over the full steps after the\n"
               "warm-up. A matrix product is what an op that ends in .matmul launches, whatever the kernel is called;\n"
               "beside a kernel stands the op that most of its time belongs to. Softmax is compared with the products\n"
               "of queries and keys and of weights and values: its operations are 5 a score (maximum, subtraction,\n"
               "exponential, sum, division), theirs 4 a score and element of a head.\n",
    .examples = "  memtrace kernels\n"
                "  memtrace kernels 20 --phase backward\n"
                "  memtrace kernels --json\n",
    .options = options,
    .defaults = &(const struct kernels_options){.trace.trace = MT_DEFAULT_TRACE, .limit = 5, .phase = EVERY_PHASE},
    .options_bytes = sizeof(struct kernels_options),
    .run = run_kernels,
};
