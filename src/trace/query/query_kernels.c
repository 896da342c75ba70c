/* Queries about kernels: their time by phase and name, and each kernel by itself.
 *
 * SQLite sums by pairs of name and label, a few thousand in a step; the times by phase and name are added up
 * from these sums. */
#include "base/memory.h"
#include "base/order.h"
#include "base/text.h"
#include "trace/query/query.h"
#include "trace/query/walk.h"

#include <stdlib.h>
#include <string.h>

static const char steps_sql[] =
    "SELECT (SELECT count(*) FROM step WHERE run = ?1 AND last_event IS NOT NULL AND number >= warmup),"
    " (SELECT count(*) FROM step WHERE run = ?1 AND last_event IS NOT NULL AND number < warmup),"
    " (SELECT max(id) FROM kernel WHERE run = ?1), warmup,"
    " (SELECT CAST(value AS INTEGER) FROM measurement WHERE run = ?1 AND name = '" MT_LOST_KERNELS "')"
    " FROM (SELECT ifnull((SELECT CAST(value AS INTEGER) FROM setting WHERE run = ?1 AND name = 'warmup'), 0) AS"
    " warmup)";

static const char sums_sql[] =
    "WITH sums AS (SELECT name, label, count(*) AS count, sum(duration_ns) AS total_ns FROM kernel"
    " WHERE run = ?1 AND step >= ?2 AND step IN (SELECT number FROM step WHERE run = ?1 AND last_event IS NOT NULL)"
    " GROUP BY name, label)"
    " SELECT kernel_name.name, sums.count, sums.total_ns, label.phase, label.category, label.op, span.path,"
    " sum(sums.total_ns) OVER (PARTITION BY sums.name, label.phase, label.op) AS op_ns FROM sums"
    " LEFT JOIN kernel_name ON kernel_name.run = ?1 AND kernel_name.id = sums.name"
    " LEFT JOIN label ON label.run = ?1 AND label.id = sums.label"
    " LEFT JOIN span ON span.run = ?1 AND span.id = label.span"
    " ORDER BY op_ns DESC, sums.total_ns DESC, sums.name, sums.label";

/* Attention's products that do not directly follow a kernel of softmax in their layer: those of queries with keys. */
static const char scores_sql[] =
    "WITH attention AS (SELECT step, label.span AS span, start_ns, kernel.id AS place, duration_ns, category = "
    "'Softmax' AS is_softmax"
    " FROM kernel JOIN label ON label.run = ?1 AND label.id = kernel.label JOIN span ON span.run = ?1 AND span.id = "
    "label.span"
    " WHERE kernel.run = ?1 AND step >= ?2 AND step IN"
    " (SELECT number FROM step WHERE run = ?1 AND last_event IS NOT NULL) AND phase = 'forward'"
    " AND (category = 'Softmax' OR (op LIKE '%.matmul' AND path LIKE '%.attn'))),"
    " ordered AS (SELECT duration_ns, is_softmax, lag(is_softmax, 1, 0) OVER"
    " (PARTITION BY step, span ORDER BY start_ns, place) AS follows FROM attention)"
    " SELECT ifnull(sum(duration_ns), 0) FROM ordered WHERE NOT is_softmax AND NOT follows";

/* One sum. Texts are kept, so equal ones have equal pointers. */
struct sum {
    const char *name, *phase, *category, *op, *span;
    uint64_t count, total_ns;
};

static bool is_product(const struct sum *sum)
{
    return mt_ends_with(sum->op, ".matmul");
}

/* Adds a sum of attention. The products of queries with keys and of weights with values are launched in the attention's
 * own span, the others in the spans of its projections. */
static void add_attention(struct mt_kernels *kernels, const struct sum *sum)
{
    if (strcmp(sum->phase, "forward") != 0)
        return;
    if (strcmp(sum->category, "Softmax") == 0)
        kernels->softmax_ns += sum->total_ns;
    else if (is_product(sum) && mt_ends_with(sum->span, ".attn"))
        kernels->attention_product_ns += sum->total_ns;
}

static struct mt_kernel_phase *find_phase(struct mt_kernels *kernels, const char *phase)
{
    for (size_t i = 0; i < kernels->phase_count; i++)
        if (kernels->phases[i].phase == phase)
            return &kernels->phases[i];
    struct mt_kernel_phase *added = MT_HOST_ADD(kernels->phases, kernels->phase_count);
    *added = (struct mt_kernel_phase){.phase = phase};
    return added;
}

/* Returns the row of the sum, added if it is new. Sums of the op with most time come first, so the row has that op. */
static struct mt_kernel_row *find_row(struct mt_kernel_phase *phase, const struct sum *sum)
{
    for (size_t i = 0; i < phase->row_count; i++)
        if (phase->rows[i].name == sum->name && phase->rows[i].is_product == is_product(sum))
            return &phase->rows[i];
    struct mt_kernel_row *row = MT_HOST_ADD(phase->rows, phase->row_count);
    *row = (struct mt_kernel_row){.name = sum->name, .op = sum->op, .is_product = is_product(sum)};
    return row;
}

static void add_sum(struct mt_kernels *kernels, const struct sum *sum)
{
    struct mt_kernel_phase *phase = find_phase(kernels, sum->phase);
    struct mt_kernel_row *row = find_row(phase, sum);
    uint64_t product_ns = is_product(sum) ? sum->total_ns : 0;
    row->count += sum->count;
    row->total_ns += sum->total_ns;
    phase->count += sum->count;
    phase->total_ns += sum->total_ns;
    phase->product_ns += product_ns;
    kernels->count += sum->count;
    kernels->total_ns += sum->total_ns;
    kernels->product_ns += product_ns;
    kernels->named_ns += sum->op[0] != '\0' ? sum->total_ns : 0;
    add_attention(kernels, sum);
}

static int by_time(const void *left, const void *right)
{
    const struct mt_kernel_row *a = left, *b = right;
    int order = MT_COMPARE(b->total_ns, a->total_ns);
    if (order == 0)
        order = strcmp(a->name, b->name);
    return order != 0 ? order : a->is_product - b->is_product;
}

/* Returns the place of a phase in a step. Phases of others come last. */
static int phase_place(const char *phase)
{
    int place = 0;
    while (place < MT_PHASE_COUNT && strcmp(phase, mt_phase_name((mt_phase)place)) != 0)
        place++;
    return place;
}

static int by_phase(const void *left, const void *right)
{
    const struct mt_kernel_phase *a = left, *b = right;
    int order = phase_place(a->phase) - phase_place(b->phase);
    return order != 0 ? order : strcmp(a->phase, b->phase);
}

static void sort(struct mt_kernels *kernels)
{
    if (kernels->phase_count > 0)
        qsort(kernels->phases, kernels->phase_count, sizeof *kernels->phases, by_phase);
    for (size_t i = 0; i < kernels->phase_count; i++)
        qsort(kernels->phases[i].rows, kernels->phases[i].row_count, sizeof *kernels->phases[i].rows, by_time);
}

/* Reads how many steps count, and the number of the first that may. */
static mt_status read_steps(struct mt_trace *trace, const struct mt_run *run, struct mt_kernels *out,
                            int64_t *out_first)
{
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database, steps_sql, MT_BIND_INTEGER(run->id)) {
        out->steps = (uint64_t)mt_statement_integer(row, 0);
        out->warmup = (uint64_t)mt_statement_integer(row, 1);
        out->recorded = (uint64_t)mt_statement_integer(row, 2);
        *out_first = mt_statement_integer(row, 3);
        out->lost = (uint64_t)mt_statement_integer(row, 4);
    }
    if (out->steps > 0)
        return status;
    out->steps = out->warmup;
    out->warmup = 0;
    *out_first = 0;
    return status;
}

static mt_status read_sums(struct mt_trace *trace, const struct mt_run *run, int64_t first_step, struct mt_kernels *out)
{
    mt_status status = MT_OK;
    MT_EACH_ROW (row, status, trace->database, sums_sql, MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(first_step)) {
        const struct sum sum = {.name = mt_query_text(trace, row, 0),
                                .count = (uint64_t)mt_statement_integer(row, 1),
                                .total_ns = (uint64_t)mt_statement_integer(row, 2),
                                .phase = mt_query_text(trace, row, 3),
                                .category = mt_query_text(trace, row, 4),
                                .op = mt_query_text(trace, row, 5),
                                .span = mt_query_text(trace, row, 6)};
        add_sum(out, &sum);
    }
    return status;
}

/* Reads the time of attention's first product, where it has both and a softmax between them. */
static mt_status read_scores(struct mt_trace *trace, const struct mt_run *run, int64_t first_step,
                             struct mt_kernels *out)
{
    mt_status status = MT_OK;
    if (out->softmax_ns == 0 || out->attention_product_ns == 0)
        return MT_OK;
    MT_EACH_ROW (row, status, trace->database, scores_sql, MT_BIND_INTEGER(run->id), MT_BIND_INTEGER(first_step))
        out->score_product_ns = (uint64_t)mt_statement_integer(row, 0);
    return status;
}

mt_status mt_trace_kernels(struct mt_trace *trace, const struct mt_run *run, struct mt_kernels *out)
{
    int64_t first_step = 0;
    *out = (struct mt_kernels){0};
    mt_status status = read_steps(trace, run, out, &first_step);
    MT_THEN(status, read_sums(trace, run, first_step, out));
    MT_THEN(status, read_scores(trace, run, first_step, out));
    if (status == MT_OK)
        sort(out);
    return status;
}

const struct mt_kernel_row *mt_kernel_phase_top_other(const struct mt_kernel_phase *phase)
{
    for (size_t i = 0; i < phase->row_count; i++)
        if (!phase->rows[i].is_product)
            return &phase->rows[i];
    return NULL;
}

void mt_kernels_release(struct mt_kernels *kernels)
{
    for (size_t i = 0; i < kernels->phase_count; i++)
        free(kernels->phases[i].rows);
    free(kernels->phases);
    *kernels = (struct mt_kernels){0};
}

static mt_status read_launch(struct mt_trace *trace, const struct mt_statement *row,
                             const struct mt_number_limits *limits, struct mt_launch_row *out)
{
    MT_TRY(mt_query_natural(row, 0, &out->start_ns));
    MT_TRY(mt_query_natural(row, 1, &out->duration_ns));
    MT_TRY(mt_query_label_number(row, 3, limits, &out->label));
    out->name = mt_query_text(trace, row, 2);
    out->stream = (uint32_t)mt_statement_integer(row, 4);
    return MT_OK;
}

mt_status mt_trace_launches_visit(struct mt_trace *trace, const struct mt_run *run, mt_launch_visit visit,
                                  void *context)
{
    struct mt_number_limits limits;
    mt_status status = mt_query_number_limits(trace, run, &limits);
    MT_EACH_ROW (row, status, trace->database,
                 "SELECT start_ns, duration_ns, kernel_name.name, label, stream FROM kernel"
                 " LEFT JOIN kernel_name ON kernel_name.run = ?1 AND kernel_name.id = kernel.name"
                 " WHERE kernel.run = ?1 ORDER BY start_ns, kernel.id",
                 MT_BIND_INTEGER(run->id)) {
        struct mt_launch_row launch;
        status = read_launch(trace, row, &limits, &launch);
        MT_THEN(status, visit(context, &launch));
    }
    return status;
}
