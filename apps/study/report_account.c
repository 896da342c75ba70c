/* The section of the account: live memory when forward ends, by formula and in the trace, term by term. */
#include "analysis/run_settings.h"
#include "study/model_account.h"
#include "study/report_runs.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static const struct mt_field term_fields[] = {
    MT_COLUMN(TEXT, const char *, struct mt_model_account_term, what, "term"),
    MT_COLUMN(TEXT, const char *, struct mt_model_account_term, formula, "formula"),
    MT_COLUMN(BYTES, uint64_t, struct mt_model_account_term, formula_bytes, "by formula"),
    MT_COLUMN(BYTES, uint64_t, struct mt_model_account_term, trace_bytes, "in the trace"),
    MT_COLUMN(DIFFERENCE, int64_t, struct mt_model_account_term, difference_bytes, "difference"),
    MT_COLUMN(COUNT, uint64_t, struct mt_model_account_term, blocks, "blocks"),
    MT_COLUMN(BYTES, uint64_t, struct mt_model_account_term, rounding_bytes, "rounded up by"),
    MT_FIELDS_END,
};
static const struct mt_row_type term_type = MT_ROW_TYPE(struct mt_model_account_term, term_fields);

/* Makes the account of a run. *out_known is false if there is none: the run stopped before a step ended, its settings
 * are another program's, or there are no formulas for them. */
static mt_status make_account(struct mt_report *report, const struct mt_report_run *run, struct mt_run_plan *plan,
                              struct mt_model_account *out, bool *out_known)
{
    mt_status status = MT_USAGE;
    *out_known = false;
    if (!run->is_oom && run->run.last_full_step >= 0)
        status = mt_run_plan_of_run(report->trace, &run->run, plan);
    if (status == MT_OK && !mt_model_account_is_known(plan))
        return MT_OK;
    MT_THEN(status, mt_model_account_make(report->trace, &run->run, plan, out));
    *out_known = status == MT_OK;
    return status == MT_USAGE ? MT_OK : status;
}

static void say_symbols(struct mt_page *page, const struct mt_training_config *config,
                        const struct mt_model_account *account)
{
    const struct mt_model_config *model = &config->model;
    mt_page_say(page,
                "B = %" PRId64 " sequences, T = %" PRId64 " tokens, C = %" PRId64 " (d_model), H = %" PRId64
                " heads, V = %" PRId64 " (vocabulary), L = %" PRId64 " layers, F = %" PRId64 " (d_ff); w = %" PRIu64
                " bytes in an element of products; N = %s = %" PRIu64 " parameters.",
                config->batch, config->seq, model->d_model, model->heads, model->vocab, model->layers, model->d_ff,
                account->element, mt_model_account_parameters_formula, account->parameters);
}

/* Writes the sum as a polynomial in B and T: "54510556160 + 8192·T + 256·B·T² bytes". */
static void say_polynomial(struct mt_page *page, const struct mt_model_account *account)
{
    static const char *const powers[2][3] = {{"", "·T", "·T²"}, {"·B", "·B·T", "·B·T²"}};
    struct mt_text text = {0};
    for (int batch = 0; batch < 2; batch++)
        for (int seq = 0; seq < 3; seq++)
            if (account->by_length.of[batch][seq] > 0)
                mt_text_add(&text, "%s%" PRIu64 "%s", text.length > 0 ? " + " : "", account->by_length.of[batch][seq],
                            powers[batch][seq]);
    mt_page_say(page, "For other batches and lengths the sum is %s bytes.", mt_text_get(&text));
    mt_text_release(&text);
}

static void say_rest(struct mt_page *page, const struct mt_model_account *account)
{
    mt_page_say(page,
                "Bytes are as requested. All blocks that are live then have %s: the terms, %s in workspaces of matrix "
                "products, and %s that no term stands for. The allocator rounds each block up, to 512 bytes or to what "
                "is left of the block that it cuts.",
                MT_SIZE(account->live_bytes), MT_SIZE(account->workspace_bytes), MT_SIZE(account->other_bytes));
}

static mt_status add_account(struct mt_report *report, const struct mt_report_run *run)
{
    struct mt_run_plan plan;
    struct mt_model_account account;
    struct mt_text title = {0};
    bool is_known;
    MT_TRY(make_account(report, run, &plan, &account, &is_known));
    if (!is_known)
        return MT_OK;
    mt_text_add(&title, "Live when forward ends, in step %" PRId64 ": %s, %s, seq %s, %s", account.step, run->model,
                run->pass, run->seq_text, run->steps.precision);
    mt_page_table(report->page, "account", title.data, &term_type, account.terms, account.count);
    mt_page_chart(report->page, "in the trace", NULL);
    mt_page_row(report->page, &term_type, &account.sum);
    mt_text_release(&title);
    say_symbols(report->page, &plan.config, &account);
    say_polynomial(report->page, &account);
    say_rest(report->page, &account);
    return MT_OK;
}

/* True if every term is exact and every byte belongs to a term. */
static bool is_exact(const struct mt_model_account *account)
{
    bool is_equal = account->other_bytes == 0;
    for (size_t i = 0; i < account->count; i++)
        is_equal = is_equal && account->terms[i].difference_bytes == 0;
    return is_equal;
}

/* Writes for how many runs each term is exact. */
static mt_status say_exact(struct mt_report *report)
{
    size_t exact = 0, known = 0;
    mt_status status = MT_OK;
    for (size_t i = 0; i < report->run_count && status == MT_OK; i++) {
        struct mt_run_plan plan;
        struct mt_model_account account;
        bool is_known;
        status = make_account(report, &report->runs[i], &plan, &account, &is_known);
        known += is_known;
        exact += is_known && is_exact(&account);
    }
    assert(exact <= known);
    if (status == MT_OK && known > 0)
        mt_page_find(report->page,
                     "In %zu of the %zu runs whose live bytes have formulas every term is exact, to the byte.", exact,
                     known);
    else if (status == MT_OK)
        mt_page_say(report->page, "No run is of a kind with such formulas.");
    return status;
}

/* Adds the longest pair of the lead group or, without pairs, its longest run. */
mt_status mt_report_account(struct mt_report *report)
{
    struct mt_report_pairs pairs = mt_report_pair(report);
    struct mt_report_rows rows = mt_report_select(report, MT_REPORT_ANY);
    mt_page_section(report->page, "account", "The whole model by formula");
    mt_status status = mt_report_add_longest(report, &pairs, &rows, add_account);
    MT_THEN(status, say_exact(report));
    mt_report_pairs_release(&pairs);
    mt_report_rows_release(&rows);
    return status;
}
