/* Which precision tensors have under autocast, read off the labels. */
#include "base/memory.h"
#include "study/report_sections.h"
#include "trace/query/blocks.h"

#include <stdlib.h>
#include <string.h>

/* A tensor that is looked for among labels. NULL: whatever it may be. */
struct tensor {
    const char *what;
    const char *category, *role, *op, *phase, *span_end;
};

static const struct tensor tensors[] = {
    {"parameters", NULL, "param", NULL, NULL, NULL},
    {"copies of parameters", NULL, "weight_cast", NULL, NULL, NULL},
    {"first linear layer's output", "einsum", NULL, "einsum", "forward", NULL},
    {"first feed-forward layer's output", "einsum", NULL, "einsum", "forward", ".ffn.w1"},
    {"norm's output", "Norm", NULL, "norm.weight", "forward", NULL},
    {"softmax's output", "Softmax", NULL, "softmax.div", "forward", NULL},
    {"residual stream", "Block", NULL, NULL, "forward", NULL},
    {"logits", "einsum", NULL, "einsum", "forward", "lm_head"},
    {"loss", "Loss", NULL, "cross_entropy.mean", "loss", NULL},
    {"gradients of parameters", "Gradient", "grad", NULL, NULL, NULL},
    {"optimizer state", "Opt State", "opt_state", NULL, NULL, NULL},
};
enum { TENSORS = sizeof tensors / sizeof tensors[0] };

/* The labels of a run. */
struct labels {
    struct mt_label_row *rows;
    size_t count;
};

static bool is_text(const char *wanted, const char *text)
{
    return wanted == NULL || strcmp(wanted, text) == 0;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = end != NULL ? strlen(end) : 0;
    return end == NULL || (length >= end_length && strcmp(text + length - end_length, end) == 0);
}

static bool is_tensor(const struct mt_label_row *label, const struct tensor *tensor)
{
    return is_text(tensor->category, label->category) && is_text(tensor->role, label->role) &&
           is_text(tensor->op, label->op) && is_text(tensor->phase, label->phase) &&
           ends_with(label->span, tensor->span_end);
}

/* The first label of such a tensor, number 0 being none; NULL if the run had none. */
static const struct mt_label_row *find(const struct labels *labels, const struct tensor *tensor)
{
    for (size_t i = 1; i < labels->count; i++)
        if (is_tensor(&labels->rows[i], tensor))
            return &labels->rows[i];
    return NULL;
}

/* The precision of all such tensors: "fp32", or "mixed"; NULL if the run had none. */
static const char *dtype_of(const struct labels *labels, const struct tensor *tensor)
{
    const struct mt_label_row *first = find(labels, tensor);
    for (size_t i = 1; first != NULL && i < labels->count; i++)
        if (is_tensor(&labels->rows[i], tensor) && strcmp(labels->rows[i].dtype, first->dtype) != 0)
            return "mixed";
    return first != NULL ? first->dtype : NULL;
}

static void add_dtype(struct mt_page *page, const struct labels *labels, const struct tensor *tensor)
{
    const char *dtype = dtype_of(labels, tensor);
    if (dtype != NULL)
        mt_page_cell(page, dtype);
    else
        mt_page_cell_absent(page);
}

static void add_tensor(struct mt_page *page, const struct labels *baseline, const struct labels *autocast,
                       const struct tensor *tensor)
{
    const struct mt_label_row *label = find(autocast, tensor);
    if (label == NULL)
        return;
    mt_page_cell(page, tensor->what);
    mt_page_cell(page, label->category);
    mt_page_cell(page, label->op);
    mt_page_cell(page, label->place);
    add_dtype(page, baseline, tensor);
    add_dtype(page, autocast, tensor);
}

/* "parameters, loss and gradients" of the tensors of that precision under autocast; how many there are. */
static size_t add_names(struct mt_text *out, const struct labels *labels, const char *dtype)
{
    size_t total = 0, index = 0;
    const char *found[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        found[i] = dtype_of(labels, &tensors[i]);
        total += found[i] != NULL && strcmp(found[i], dtype) == 0;
    }
    for (int i = 0; i < TENSORS; i++)
        if (found[i] != NULL && strcmp(found[i], dtype) == 0) {
            mt_report_join(out, index++, total);
            mt_text_add(out, "%s", tensors[i].what);
        }
    return total;
}

static bool is_dtype(const struct labels *labels, const char *what, const char *dtype)
{
    for (int i = 0; i < TENSORS; i++) {
        const char *found = strcmp(tensors[i].what, what) == 0 ? dtype_of(labels, &tensors[i]) : NULL;
        if (found != NULL)
            return strcmp(found, dtype) == 0;
    }
    return false;
}

/* Why, where it is so: what autocast casts, and what it must not. */
static void say_reasons(struct mt_page *page, const struct labels *labels)
{
    struct mt_text narrow = {0}, wide = {0};
    if (add_names(&narrow, labels, "bf16") > 0 && add_names(&wide, labels, "fp32") > 0)
        mt_page_say(page, "Under autocast these are bf16: %s. These are fp32: %s.", narrow.data, wide.data);
    if (is_dtype(labels, "parameters", "fp32") && is_dtype(labels, "logits", "bf16"))
        mt_page_say(page, "Matrix products take copies of their operands in bf16, so what they make is bf16, too, the "
                          "logits among it; the parameters themselves stay fp32, and so does the gradient that is kept "
                          "of each.");
    if (is_dtype(labels, "norm's output", "fp32") && is_dtype(labels, "softmax's output", "fp32") &&
        is_dtype(labels, "loss", "fp32"))
        mt_page_say(page,
                    "Norm and loss sum many values, and softmax takes exponentials: they stay fp32, as sums in few "
                    "bits stop growing (see Accumulation).");
    mt_text_release(&narrow);
    mt_text_release(&wide);
}

static void add_table(struct mt_page *page, const struct mt_report_run *run, const struct labels *baseline,
                      const struct labels *autocast)
{
    static const struct mt_column columns[] = {{"tensor", MT_ALIGN_LEFT}, {"category", MT_ALIGN_LEFT},
                                               {"op", MT_ALIGN_LEFT},     {"span", MT_ALIGN_LEFT},
                                               {"fp32", MT_ALIGN_LEFT},   {"bf16 autocast", MT_ALIGN_LEFT}};
    struct mt_text title = {0};
    mt_text_add(&title, "Precision of tensors: %s, %s, seq %s", run->model, mt_report_mode(run), run->seq_text);
    mt_page_table(page, "dtypes", title.data, columns, sizeof columns / sizeof columns[0]);
    for (int i = 0; i < TENSORS; i++)
        add_tensor(page, baseline, autocast, &tensors[i]);
    say_reasons(page, autocast);
    mt_text_release(&title);
}

static mt_status add_pair(struct mt_report *report, const struct mt_report_run *run,
                          const struct mt_report_run *baseline)
{
    struct labels wide = {0}, narrow = {0};
    mt_status status = mt_trace_labels(report->trace, run->run, &narrow.rows, &narrow.count);
    if (status == MT_OK && baseline != NULL)
        status = mt_trace_labels(report->trace, baseline->run, &wide.rows, &wide.count);
    if (status == MT_OK)
        add_table(report->page, run, &wide, &narrow);
    free(narrow.rows);
    free(wide.rows);
    return status;
}

/* A full step where there is one, since it has gradients. */
mt_status mt_report_dtypes(struct mt_report *report)
{
    struct mt_report_pairs pairs = mt_report_pair(report);
    struct mt_report_rows rows = mt_report_select(report, "bf16", NULL);
    mt_status status = MT_OK;
    mt_page_section(report->page, "dtypes", "Precision under autocast");
    if (pairs.autocast.count > 0) {
        size_t last = pairs.autocast.count - 1; /* "fwd_bwd" comes after "fwd" */
        status = add_pair(report, pairs.autocast.runs[last], pairs.baselines[last]);
    } else if (rows.count > 0) {
        status = add_pair(report, rows.runs[rows.count - 1], NULL);
    } else {
        mt_page_hint(report->page, report->remedies[MT_LACKS_AUTOCAST], "No run is under autocast");
    }
    mt_report_pairs_release(&pairs);
    mt_report_rows_release(&rows);
    return status;
}
