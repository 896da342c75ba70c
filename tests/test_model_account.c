/* The account of a run: its formulas are the trace's bytes, block by block, in random configurations; and a formula is
 * read as it is written. */
#include "analysis/run_settings.h"
#include "program.h"
#include "report_reader.h"
#include "seed.h"
#include "study/formula.h"
#include "study/model_account.h"
#include "trace_opening.h"

enum { CONFIGURATIONS = 24 };

static uint64_t value_of(const char *formula)
{
    static const struct mt_formula_symbols symbols = {.of = {['B'] = 2, ['T'] = 3, ['C'] = 5, ['Z'] = UINT64_MAX}};
    uint64_t value = 77;
    return mt_formula_compute(formula, &symbols, &value) ? value : 77;
}

static void a_formula_is_read_as_it_is_written(void **state)
{
    (void)state;
    assert_int_equal(value_of("12"), 12);
    assert_int_equal(value_of("4·B·T·C"), 4 * 2 * 3 * 5);
    assert_int_equal(value_of("B+T·C"), 2 + 3 * 5);
    assert_int_equal(value_of("(B+T)·C"), (2 + 3) * 5);
    assert_int_equal(value_of("2·(B·C²+T)²"), 2 * (2 * 25 + 3) * (2 * 25 + 3));
    assert_int_equal(value_of("Z"), UINT64_MAX);
}

static void a_value_that_does_not_fit_is_none(void **state)
{
    (void)state;
    assert_int_equal(value_of("B·Z"), 77);
    assert_int_equal(value_of("Z+B"), 77);
    assert_int_equal(value_of("Z²"), 77);
    assert_int_equal(value_of("(Z+B)·B+T"), 77);
}

static uint64_t draw(uint64_t below)
{
    return take_seed() % below;
}

/* Adds the options of a random run, which is valid: heads of 16 features or more, in eights. */
static void draw_options(struct mt_text *out)
{
    static const char *const variants[] = {"--attention custom",
                                           "--attention softmax",
                                           "--attention weights",
                                           "--attention flash",
                                           "--impl fused --attention weights",
                                           "--impl fused --attention flash"};
    static const char *const casts[] = {"persistent", "region", "layer"};
    static const char *const modes[] = {"fwd", "fwd_bwd", "fwd_bwd"};
    static const char *const updates[] = {"", "--optimizer none",
                                          "--optimizer-in-backward beside"}; /* the last: of fused */
    static const char *const zero_grads[] = {"before-backward", "before-forward"};
    size_t variant = draw(6);
    uint64_t heads = 1 + draw(3);
    bool is_narrow = draw(2) == 0;
    mt_text_add(out, "%s --heads %d --d-model %d --d-ff %d --vocab %d --layers %d", variants[variant], (int)heads,
                (int)(heads * (16 + 8 * draw(3))), 8 + (int)draw(90), 10 + (int)draw(90), 1 + (int)draw(3));
    mt_text_add(out, " --batch %d --seq %d --steps %d --mode %s --zero-grad %s", 1 + (int)draw(3), 1 + (int)draw(40),
                1 + (int)draw(3), modes[draw(3)], zero_grads[draw(2)]);
    mt_text_add(out, " --rope %s --autocast %s", draw(2) ? "on" : "off", is_narrow ? "bf16" : "off");
    mt_text_add(out, " --data %s %s", draw(2) ? "random" : "reference", updates[draw(variant >= 4 ? 3 : 2)]);
    if (variant >= 4 && is_narrow)
        mt_text_add(out, " --weight-cast %s", casts[draw(3)]);
    if (draw(3) == 0)
        mt_text_add(out, " --alloc policy=torch");
}

static struct mt_model_account account_of(const char *path)
{
    const struct mt_run *run;
    struct mt_run_plan plan;
    struct mt_model_account account;
    struct mt_trace *trace = open_newest(path, &run);
    assert_int_equal(mt_run_plan_of_run(trace, run, &plan), MT_OK);
    assert_true(mt_model_account_is_known(&plan));
    assert_int_equal(mt_model_account_make(trace, run, &plan, &account), MT_OK);
    mt_trace_close(trace);
    const uint64_t batch = (uint64_t)plan.config.batch, seq = (uint64_t)plan.config.seq;
    const uint64_t(*of)[3] = account.by_length.of;
    assert_int_equal(of[0][0] + (of[0][1] + of[0][2] * seq) * seq +
                         batch * (of[1][0] + (of[1][1] + of[1][2] * seq) * seq),
                     account.sum.formula_bytes);
    return account;
}

static void assert_exact(const struct mt_model_account *account, const char *options)
{
    for (size_t i = 0; i < account->count; i++) {
        const struct mt_model_account_term *term = &account->terms[i];
        if (term->difference_bytes != 0)
            fail_msg("%s: %s: %s is %lld bytes, the trace has %lld", options, term->what, term->formula,
                     (long long)term->formula_bytes, (long long)term->trace_bytes);
    }
    if (account->other_bytes != 0)
        fail_msg("%s: no term stands for %lld bytes", options, (long long)account->other_bytes);
    assert_int_equal(account->sum.trace_bytes + account->workspace_bytes, account->live_bytes);
}

static void every_byte_is_in_a_formula(void **state)
{
    (void)state;
    for (int i = 0; i < CONFIGURATIONS; i++) {
        struct mt_text options = {0};
        draw_options(&options);
        const struct said *said = shell("rm -f a.db*; \"$M\" run --device sim --trace a.db %s", options.data);
        if (said->code != 0)
            fail_msg("%s: %s", options.data, said->err);
        struct mt_model_account account = account_of("a.db");
        assert_exact(&account, options.data);
        mt_text_release(&options);
    }
}

static uint64_t bytes_of(const struct mt_model_account *account, const char *what)
{
    for (size_t i = 0; i < account->count; i++)
        if (strcmp(account->terms[i].what, what) == 0)
            return account->terms[i].trace_bytes;
    fail_msg("there is no term %s", what);
    return 0;
}

/* The published model at 256: 4, 4 and 8 bytes a parameter, and what its layers keep. */
static void the_largest_model_is_accounted_for(void **state)
{
    (void)state;
    const uint64_t N = 3406809600, L = 32, B = 4, T = 256, C = 2560, H = 32;
    run("run --device sim --model 2.7B --seq 256 --steps 2 --trace a.db");
    struct mt_model_account account = account_of("a.db");
    assert_exact(&account, "2.7B");
    assert_int_equal(account.parameters, N);
    assert_int_equal(bytes_of(&account, "parameters"), 4 * N);
    assert_int_equal(bytes_of(&account, "gradients of the last step"), 4 * N);
    assert_int_equal(bytes_of(&account, "AdamW's two moments"), 8 * N);
    assert_int_equal(bytes_of(&account, "masked scores"), 4 * L * B * H * T * T);
    assert_int_equal(bytes_of(&account, "residual stream"), 8 * L * B * T * C);
}

static void the_report_has_the_account(void **state)
{
    (void)state;
    run_both_precisions();
    json_t *page = report(), *table = table_of(page, "account", "account");
    size_t row = row_of(table, "term", "logits"), sum = row_of(table, "term", "sum");
    assert_string_equal(cell_text(table, row, "formula"), "w·B·T·V");
    assert_int_equal(cell_bytes(table, row, "by formula"), 4 * TINY_BATCH * 32 * 64);
    assert_int_equal(cell_bytes(table, row, "in the trace"), 4 * TINY_BATCH * 32 * 64);
    assert_int_equal(cell_bytes(table, sum, "difference"), 0);
    assert_true(cell_bytes(table, sum, "rounded up by") > 0);
    assert_true(is_said(page, "account", "In 4 of the 4 runs"));
    json_decref(page);
    run(TINY "--seq 8 --mode infer --trace i.db");
    page = json_of(MEMTRACE("report --json --trace i.db"));
    assert_null(table_of(page, "account", "account"));
    assert_true(is_said(page, "account", "No run is of a kind"));
    json_decref(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_formula_is_read_as_it_is_written),
        cmocka_unit_test(a_value_that_does_not_fit_is_none),
        TEST(every_byte_is_in_a_formula),
        TEST(the_largest_model_is_accounted_for),
        TEST(the_report_has_the_account),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
