/* The sections of precision: the dtypes of tensors under autocast, from their labels; and the accumulation experiment,
 * which shows why sums stay fp32. */
#include "base/text.h"
#include "study/report_runs.h"
#include "trace/query/blocks.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A tensor to find among the labels of a run, by its purpose. Ops differ between attention variants and
 * implementations, so none is named. NULL: any. */
struct tensor {
    const char *what;
    const char *category, *role, *phase;
    const char *ends[2]; /* one of these is the end of its span; the second is the fused model's, if different */
};

static const struct tensor tensors[] = {
    {"parameters", NULL, "parameter", NULL, {NULL}},
    {"copies of parameters", NULL, "weight cast", NULL, {NULL}},
    {"first linear layer's output", "einsum", NULL, "forward", {".attn.q_proj", ".attn.qkv_proj"}},
    {"first feed-forward layer's output", "einsum", NULL, "forward", {".ffn.w1", ".ffn.w13"}},
    {"norm's output", "Norm", NULL, "forward", {NULL}},
    {"softmax's output", "Softmax", NULL, "forward", {NULL}},
    {"attention's output", "Attn", "activation", "forward", {".attn"}},
    {"residual stream", "Block", NULL, "forward", {NULL}},
    {"logits", "einsum", NULL, "forward", {"lm_head"}},
    {"loss", "Loss", NULL, "loss", {NULL}},
    {"gradients of parameters", "Gradient", "gradient", NULL, {NULL}},
    {"optimizer state", "Opt State", "optimizer state", NULL, {".weight"}}, /* not the loss scaler's */
};
enum { TENSORS = sizeof tensors / sizeof tensors[0] };

/* The labels of a run. */
struct labels {
    struct mt_label_row *rows;
    size_t count;
};

static bool is_in_place(const struct tensor *tensor, const char *span)
{
    for (size_t i = 0; i < sizeof tensor->ends / sizeof tensor->ends[0]; i++)
        if (tensor->ends[i] != NULL && mt_ends_with(span, tensor->ends[i]))
            return true;
    return tensor->ends[0] == NULL;
}

/* True for tensors with one number per row, such as maxima and sums: these are intermediate values, not outputs. */
static bool is_column(const struct mt_label_row *label)
{
    return mt_ends_with(label->shape, ",1");
}

/* True for labels that may be the tensor's. A label without a dtype is not a tensor's: only kernels refer to it. */
static bool is_candidate(const struct mt_label_row *label, const struct tensor *tensor)
{
    return strcmp(label->dtype, mt_dtype_name(MT_NONE)) != 0 && mt_is_text(tensor->category, label->category) &&
           mt_is_text(tensor->role, label->role) && mt_is_text(tensor->phase, label->phase) &&
           is_in_place(tensor, label->span) && !is_column(label);
}

/* True for the last candidate in its span, since a module allocates its output last. Labels are ordered by their first
 * blocks. */
static bool is_tensor(const struct labels *labels, size_t number, const struct tensor *tensor)
{
    const struct mt_label_row *rows = labels->rows;
    if (!is_candidate(&rows[number], tensor))
        return false;
    for (size_t i = number + 1; i < labels->count; i++)
        if (rows[i].span == rows[number].span && is_candidate(&rows[i], tensor))
            return false;
    return true;
}

/* Returns the first label of such a tensor; NULL if the run has none. Label number 0 is unused. */
static const struct mt_label_row *find(const struct labels *labels, const struct tensor *tensor)
{
    for (size_t i = 1; i < labels->count; i++)
        if (is_tensor(labels, i, tensor))
            return &labels->rows[i];
    return NULL;
}

/* Returns the common dtype of all such tensors, as "fp32", or "mixed"; NULL if the run has none. */
static const char *dtype_of(const struct labels *labels, const struct tensor *tensor)
{
    const struct mt_label_row *first = find(labels, tensor);
    for (size_t i = 1; first != NULL && i < labels->count; i++)
        if (is_tensor(labels, i, tensor) && strcmp(labels->rows[i].dtype, first->dtype) != 0)
            return "mixed";
    return first != NULL ? first->dtype : NULL;
}

/* A tensor in a pair of runs. */
struct tensor_row {
    const char *what;
    struct mt_label_row label;       /* the first such tensor's under autocast */
    const char *baseline, *autocast; /* dtypes; NULL: none */
};

static const struct mt_field tensor_fields[] = {
    MT_COLUMN(TEXT, const char *, struct tensor_row, what, "tensor"),
    MT_COLUMN(TEXT, const char *, struct tensor_row, label.category, "category"),
    MT_COLUMN(TEXT, const char *, struct tensor_row, label.op, "op"),
    MT_COLUMN(TEXT, const char *, struct tensor_row, label.place, "span"),
    MT_COLUMN(TEXT, const char *, struct tensor_row, baseline, "fp32"),
    MT_COLUMN(TEXT, const char *, struct tensor_row, autocast, "autocast"),
    MT_FIELDS_END,
};
enum { TENSOR_FIELDS = sizeof tensor_fields / sizeof tensor_fields[0], AUTOCAST_FIELD = TENSOR_FIELDS - 2 };

/* Lists the tensors of a run under autocast; returns their number. */
static size_t find_tensors(const struct labels *baseline, const struct labels *autocast, struct tensor_row *out)
{
    size_t count = 0;
    for (int i = 0; i < TENSORS; i++) {
        const struct mt_label_row *label = find(autocast, &tensors[i]);
        if (label != NULL)
            out[count++] = (struct tensor_row){tensors[i].what, *label, dtype_of(baseline, &tensors[i]),
                                               dtype_of(autocast, &tensors[i])};
    }
    assert(count <= TENSORS);
    return count;
}

/* Adds the tensors with this dtype under autocast, "parameters, loss and gradients"; returns their number. */
static size_t add_names(struct mt_text *out, const struct tensor_row *rows, size_t count, const char *dtype)
{
    size_t total = 0, index = 0;
    for (size_t i = 0; i < count; i++)
        total += strcmp(rows[i].autocast, dtype) == 0;
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].autocast, dtype) == 0) {
            mt_report_join(out, index++, total);
            mt_text_add(out, "%s", rows[i].what);
        }
    return total;
}

static bool is_dtype(const struct tensor_row *rows, size_t count, const char *what, const char *dtype)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].what, what) == 0)
            return strcmp(rows[i].autocast, dtype) == 0;
    return false;
}

static bool has_tensor(const struct tensor_row *rows, size_t count, const char *what)
{
    bool is_there = false;
    for (size_t i = 0; i < count; i++)
        is_there = is_there || strcmp(rows[i].what, what) == 0;
    return is_there;
}

/* Writes the reasons that apply: which tensors autocast casts, and which it must not cast. */
static void say_reasons(struct mt_page *page, const char *autocast, const struct tensor_row *rows, size_t count)
{
    struct mt_text narrow = {0}, wide = {0};
    if (add_names(&narrow, rows, count, autocast) > 0 && add_names(&wide, rows, count, "fp32") > 0)
        mt_page_say(page, "Under autocast these are %s: %s. These are fp32: %s.", autocast, narrow.data, wide.data);
    if (is_dtype(rows, count, "parameters", "fp32") && is_dtype(rows, count, "logits", autocast))
        mt_page_say(
            page,
            "Matrix products take copies of their operands in %s, so their results are %s, too, the logits among "
            "them; the parameters themselves stay fp32, and so does the gradient that is kept of each.",
            autocast, autocast);
    if (is_dtype(rows, count, "norm's output", "fp32") && is_dtype(rows, count, "softmax's output", "fp32") &&
        is_dtype(rows, count, "loss", "fp32"))
        mt_page_say(page,
                    "Norm and loss sum many values, and softmax takes exponentials: they stay fp32, as sums in few "
                    "bits stop growing (see Accumulation).");
    if (!has_tensor(rows, count, "softmax's output"))
        mt_page_say(page,
                    "Softmax's output is in no tensor: attention as one op uses it piece by piece. Of each row it "
                    "keeps the log-sum-exp, in fp32.");
    mt_text_release(&narrow);
    mt_text_release(&wide);
}

/* Adds the tensors of a run under autocast, compared with a run in fp32, which may be NULL. */
static mt_status add_tensors(struct mt_report *report, const struct mt_report_run *run,
                             const struct mt_report_run *baseline)
{
    struct labels wide = {0}, narrow = {0};
    struct tensor_row rows[TENSORS];
    struct mt_field fields[TENSOR_FIELDS];
    const struct mt_row_type type = {sizeof(struct tensor_row), fields};
    memcpy(fields, tensor_fields, sizeof fields);
    fields[AUTOCAST_FIELD].heading = run->steps.precision;
    struct mt_text title = {0};
    mt_status status = mt_trace_labels(report->trace, &run->run, &narrow.rows, &narrow.count);
    if (status == MT_OK && baseline != NULL)
        status = mt_trace_labels(report->trace, &baseline->run, &wide.rows, &wide.count);
    if (status == MT_OK) {
        size_t count = find_tensors(&wide, &narrow, rows);
        mt_text_add(&title, "Precision of tensors: %s, %s, seq %s", run->model, run->pass, run->seq_text);
        mt_page_table(report->page, "dtypes", title.data, &type, rows, count);
        say_reasons(report->page, run->autocast, rows, count);
    }
    mt_text_release(&title);
    free(narrow.rows);
    free(wide.rows);
    return status;
}

/* Keeps the rows under autocast with a dtype. */
static void keep_dtype(struct mt_report_rows *rows, const char *dtype)
{
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; i++)
        if (strcmp(rows->runs[i]->autocast, dtype) == 0)
            rows->runs[kept++] = rows->runs[i];
    rows->count = kept;
}

/* Adds the longest pair of the lead group, preferably a full step, since it has gradients; without a pair, the last
 * run. */
static mt_status add_dtype(struct mt_report *report, const char *dtype, bool *any)
{
    struct mt_report_pairs pairs = mt_report_pair(report);
    struct mt_report_rows rows = mt_report_select(report, MT_REPORT_AUTOCAST);
    mt_status status = MT_OK;
    keep_dtype(&pairs.autocast, dtype);
    keep_dtype(&rows, dtype);
    if (pairs.autocast.count > 0) {
        const struct mt_report_pair *last = (const struct mt_report_pair *)mt_report_longest(&pairs.autocast);
        status = add_tensors(report, &last->autocast, &last->baseline);
    } else if (rows.count > 0) {
        status = add_tensors(report, rows.runs[rows.count - 1], NULL);
    }
    *any = *any || rows.count > 0;
    mt_report_pairs_release(&pairs);
    mt_report_rows_release(&rows);
    return status;
}

mt_status mt_report_dtypes(struct mt_report *report)
{
    bool any = false;
    mt_page_section(report->page, "dtypes", "Precision under autocast");
    mt_status status = add_dtype(report, "bf16", &any);
    MT_THEN(status, add_dtype(report, "fp16", &any));
    if (status == MT_OK && !any)
        mt_page_hint(report->page, report->remedies[MT_LACKS_AUTOCAST], "No run is under autocast");
    return status;
}

/* The accumulation experiment, computed each time: a number is added many times. */
struct addition {
    double addend;
    int times;
    const char *key, *title; /* of its table */
};
static const struct addition additions[] = {{0.01, 1000, "accumulation", "0.01 added 1000 times"},
                                            {0.001, 10000, "small-addends", "0.001 added 10000 times"}};

/* A binary floating point format, for numbers near 1. */
struct float_format {
    const char *name;
    int significand_bits; /* including the leading one */
};

/* A way to add: the sum is rounded to its format after each addition, the addend once. */
struct way {
    struct float_format sum, addend;
};

#define FP32                                                                                                           \
    {                                                                                                                  \
        "fp32", 24                                                                                                     \
    }
#define FP16                                                                                                           \
    {                                                                                                                  \
        "fp16", 11                                                                                                     \
    }
#define BF16                                                                                                           \
    {                                                                                                                  \
        "bf16", 8                                                                                                      \
    }
static const struct way ways[] = {{FP32, FP32}, {FP16, FP16}, {BF16, BF16}, {FP32, FP16}, {FP32, BF16}};
enum { WAYS = sizeof ways / sizeof ways[0] };

/* Returns `value` rounded to the nearest number of the format, ties to even, which is the processor's default rounding
 * mode. Ignores range and subnormals: the experiment stays between 2^-10 and 2^4. */
static double round_to(const struct float_format *format, double value)
{
    int exponent;
    double significand = frexp(value, &exponent); /* in [0.5, 1) */
    double digits = nearbyint(ldexp(significand, format->significand_bits));
    return ldexp(digits, exponent - format->significand_bits);
}

/* A row of the experiment. */
struct sum_row {
    const char *sum_format, *addend_format;
    double addend, sum;
    struct mt_figure addend_text, sum_text, error, addend_error;
};

static const struct mt_field sum_fields[] = {
    MT_COLUMN(TEXT, const char *, struct sum_row, sum_format, "sum in"),
    MT_COLUMN(TEXT, const char *, struct sum_row, addend_format, "addends in"),
    MT_COLUMN(FIGURE, struct mt_figure, struct sum_row, addend_text, "addend is"),
    MT_COLUMN(FIGURE, struct mt_figure, struct sum_row, sum_text, "result"),
    MT_COLUMN(FIGURE, struct mt_figure, struct sum_row, error, "error"),
    MT_COLUMN(FIGURE, struct mt_figure, struct sum_row, addend_error, "of the addends' rounding"),
    MT_FIELDS_END,
};
static const struct mt_row_type sum_type = MT_ROW_TYPE(struct sum_row, sum_fields);

/* The sum of two numbers of these formats is exact in a double, so each addition is rounded once. */
static struct sum_row accumulate(const struct addition *addition, const struct way *way)
{
    double addend = round_to(&way->addend, addition->addend), sum = 0;
    for (int i = 0; i < addition->times; i++)
        sum = round_to(&way->sum, sum + addend);
    double error = sum - addition->times * addition->addend;
    double addend_error = addition->times * (addend - addition->addend);
    assert(sum > 0 && sum < 16 && round_to(&way->sum, sum) == sum);
    return (struct sum_row){way->sum.name,
                            way->addend.name,
                            addend,
                            sum,
                            mt_figure_number(addend, "%.10f", addend),
                            mt_figure_number(sum, "%.4f", sum),
                            mt_figure_number(error, "%+.4f", error),
                            fabs(addend_error) < 1e-4 ? mt_figure_number(addend_error, "%+.1e", addend_error)
                                                      : mt_figure_number(addend_error, "%+.4f", addend_error)};
}

/* Writes where the sum stops growing: where half the distance to the next number is at least the addend. */
static void say_standstill(struct mt_page *page, const struct way *way, const struct sum_row *row)
{
    int exponent;
    if (round_to(&way->sum, row->sum + row->addend) != row->sum)
        return;
    frexp(row->sum, &exponent);
    mt_page_say(
        page,
        "A sum in %s of %s addends stands still at %g: the next number of the format is %g further, and %.6f, less "
        "than half of that, rounds back.",
        way->sum.name, way->addend.name, row->sum, ldexp(1, exponent - way->sum.significand_bits), row->addend);
}

/* Adds the table of an experiment and its conclusion. */
static void add_addition(struct mt_page *page, const struct addition *addition)
{
    struct sum_row rows[WAYS];
    double narrow = 0, wide = 0;
    for (int i = 0; i < WAYS; i++) {
        rows[i] = accumulate(addition, &ways[i]);
        double *worst = ways[i].sum.significand_bits >= 24 ? &wide : &narrow;
        *worst = fmax(*worst, fabs(rows[i].error.value));
    }
    mt_page_table(page, addition->key, addition->title, &sum_type, rows, WAYS);
    mt_page_say(
        page,
        "With the sum in fp32 the error is at most %.4f, nearly all of it from the rounding of the addend, as the "
        "last column shows. With the sum in 16 bits it reaches %.4f, because every addition rounds. So sums are "
        "kept in fp32, whatever is added.",
        wide, narrow);
    for (int i = 0; i < WAYS; i++)
        say_standstill(page, &ways[i], &rows[i]);
}

mt_status mt_report_accumulation(struct mt_report *report)
{
    mt_page_section(report->page, "accumulation", "Accumulation");
    for (size_t i = 0; i < sizeof additions / sizeof additions[0]; i++)
        add_addition(report->page, &additions[i]);
    return MT_OK;
}
