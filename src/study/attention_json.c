/* The study for programs: JSON, and CSV of its cells. */
#include "answer/escape.h"
#include "model/settings.h"
#include "study/attention_peer.h"
#include "study/attention_report.h"
#include "trace/store/trace_names.h"

#include <inttypes.h>
#include <stdio.h>

static json_t *integer(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *kept_json(const struct mt_attention_result *result, uint64_t formula_bytes)
{
    if (!result->kept.is_known)
        return json_null();
    uint64_t bytes = result->kept.requested_bytes;
    return json_pack("{s:o, s:o, s:I}", "requested_bytes", integer(bytes), "allocated_bytes",
                     integer(result->kept.allocated_bytes), "difference_bytes",
                     (json_int_t)bytes - (json_int_t)formula_bytes);
}

static json_t *terms_json(const struct mt_attention_case *cell)
{
    struct mt_attention_term terms[MT_ATTENTION_MOST_TERMS];
    size_t count = mt_attention_account(cell, terms);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:o}", "what", terms[i].what, "formula", terms[i].formula,
                                              "bytes", integer(terms[i].bytes)));
    return list;
}

static json_t *peak_json(const struct mt_attention_result *result)
{
    if (!result->is_done)
        return json_null();
    return json_pack("{s:o, s:o, s:o}", "requested_bytes", integer(result->peak_requested_bytes), "allocated_bytes",
                     integer(result->peak_allocated_bytes), "workspace_bytes", integer(result->workspace_bytes));
}

static json_t *oom_json(const struct mt_attention_result *result)
{
    if (result->is_done)
        return json_null();
    return json_pack("{s:o, s:s, s:s}", "requested_bytes", integer(result->oom_bytes), "category",
                     mt_category_name(result->oom_category), "phase", mt_phase_name(result->oom_phase));
}

static const char *state_of(const struct mt_attention_result *result)
{
    return mt_run_state_name(result->is_done ? MT_RUN_DONE : MT_RUN_OOM);
}

static json_t *cell_json(const struct mt_attention_case *cell, const struct mt_attention_result *result)
{
    uint64_t square_bytes, formula_bytes = mt_attention_account_bytes(cell, &square_bytes);
    return json_pack("{s:s, s:I, s:I, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "precision",
                     mt_study_precision_names[mt_study_precision_of(cell)], "d", (json_int_t)cell->d_model, "seq",
                     (json_int_t)cell->seq, "attention", mt_attention_names[cell->attention], "state", state_of(result),
                     "run", result->run != 0 ? json_integer(result->run) : json_null(), "forward_ms",
                     mt_json_number(result->forward_ms), "backward_ms", mt_json_number(result->backward_ms),
                     "formula_bytes", integer(formula_bytes), "square_bytes", integer(square_bytes), "kept",
                     kept_json(result, formula_bytes), "terms", terms_json(cell), "peak", peak_json(result), "oom",
                     oom_json(result));
}

static json_t *peer_json(const struct mt_attention_case *cell)
{
    const struct mt_attention_peer *peer = mt_attention_peer_find(cell);
    if (peer == NULL)
        return json_null();
    return json_pack("{s:o, s:o, s:f, s:f}", "kept_bytes", integer(mt_attention_peer_bytes(peer->kept_mib)),
                     "peak_bytes", integer(mt_attention_peer_bytes(peer->peak_mib)), "forward_ms", peer->forward_ms,
                     "backward_ms", peer->backward_ms);
}

static json_t *limits_json(const struct mt_attention_answer *answer)
{
    const struct mt_attention_grid *grid = answer->grid;
    json_t *list = json_array();
    for (size_t p = 0; p < grid->precisions.count; p++)
        for (size_t w = 0; w < grid->widths.count; w++)
            for (size_t v = 0; v < grid->variants.count; v++) {
                const struct mt_attention_limit *limit = mt_attention_limit_at(answer, p, w, v);
                json_array_append_new(
                    list, json_pack("{s:s, s:I, s:s, s:o, s:I}", "precision",
                                    mt_study_precision_names[grid->precisions.values[p]], "d",
                                    (json_int_t)grid->widths.values[w], "attention",
                                    mt_attention_names[grid->variants.values[v]], "square_from",
                                    limit->square_from != 0 ? json_integer(limit->square_from) : json_null(),
                                    "longest_seq", (json_int_t)limit->longest));
            }
    return list;
}

json_t *mt_attention_json(const struct mt_attention_answer *answer)
{
    const struct mt_attention_grid *grid = answer->grid;
    json_t *rows = json_array();
    for (size_t i = 0; i < mt_attention_grid_count(grid); i++) {
        const struct mt_attention_case cell = mt_attention_grid_cell(grid, i);
        json_t *row = cell_json(&cell, &answer->results[i]);
        if (answer->has_peer)
            json_object_set_new(row, "peer", peer_json(&cell));
        json_array_append_new(rows, row);
    }
    return json_pack("{s:s, s:s, s:b, s:o, s:o, s:I, s:I, s:I, s:o, s:o}", "schema", "memtrace.attention/1", "device",
                     answer->device->name, "executes", mt_device_executes(answer->device), "memory_bytes",
                     integer(answer->memory_bytes), "trace", mt_json_text(answer->trace), "batch",
                     (json_int_t)grid->batch, "heads", (json_int_t)grid->heads, "repeats", (json_int_t)grid->repeats,
                     "rows", rows, "limits", limits_json(answer));
}

/* A number that is there, or an empty field. */
static void print_bytes(FILE *out, bool is_known, uint64_t bytes)
{
    if (is_known)
        fprintf(out, "%" PRIu64, bytes);
    putc(',', out);
}

static void print_row(FILE *out, const struct mt_attention_grid *grid, const struct mt_attention_case *cell,
                      const struct mt_attention_result *result)
{
    uint64_t square_bytes, formula_bytes = mt_attention_account_bytes(cell, &square_bytes);
    fprintf(out, "%s,%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%s,%s,",
            mt_study_precision_names[mt_study_precision_of(cell)], grid->batch, grid->heads, cell->d_model, cell->seq,
            mt_attention_names[cell->attention], state_of(result));
    print_bytes(out, true, formula_bytes);
    print_bytes(out, result->kept.is_known, result->kept.requested_bytes);
    print_bytes(out, result->is_done, result->peak_requested_bytes);
    if (result->is_done)
        fprintf(out, "%.6f,%.6f\n", result->forward_ms, result->backward_ms);
    else
        fputs(",\n", out);
}

void mt_attention_write_csv(const struct mt_attention_answer *answer)
{
    fputs("precision,batch,heads,d,seq,attention,state,formula_bytes,kept_bytes,peak_bytes,forward_ms,backward_ms\n",
          answer->screen.file);
    for (size_t i = 0; i < mt_attention_grid_count(answer->grid); i++) {
        const struct mt_attention_case cell = mt_attention_grid_cell(answer->grid, i);
        print_row(answer->screen.file, answer->grid, &cell, &answer->results[i]);
    }
}
