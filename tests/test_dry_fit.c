/* The search for changes that make a program fit, with trials whose outcomes are written down here. */
#include "analysis/fit/dry_fit.h"

#include "program.h"

enum { MIB = 1 << 20, CAPACITY = 100, FIRST_TRIALS = 9 };

/* What trials reserve: `plain` less what each change saves; a change that saves nothing may be refused. In MiB. */
struct program {
    int plain;
    int saves[MT_DRY_CHANGE_COUNT];
    bool refused[MT_DRY_CHANGE_COUNT];
    bool flash_needs_autocast;
    struct mt_dry_changes places; /* that the program as it is has */
    int trials;
    int killed_trial; /* its number, from 1; 0: none */
};

static bool is_refused(const struct program *program, const struct mt_dry_changes *changes)
{
    for (int i = 0; i < MT_DRY_CHANGE_COUNT; i++)
        if (changes->has[i] && program->refused[i])
            return true;
    return program->flash_needs_autocast && changes->has[MT_DRY_FLASH] && !changes->has[MT_DRY_AUTOCAST];
}

static void make_trial(struct program *program, struct mt_dry_trial *trial)
{
    int reserved = program->plain;
    program->trials++;
    mt_text_add(&trial->words, "trial %d", program->trials);
    for (int i = 0; i < MT_DRY_CHANGE_COUNT; i++)
        reserved -= trial->changes.has[i] ? program->saves[i] : 0;
    trial->outcome = is_refused(program, &trial->changes) ? MT_TRIAL_REFUSED : MT_TRIAL_RAN;
    trial->peak = (struct mt_replay_result){.reserved_bytes = (uint64_t)reserved * MIB, .fits = reserved <= CAPACITY};
    if (program->killed_trial == program->trials)
        trial->outcome = MT_TRIAL_KILLED;
    trial->places = program->places;
}

/* Makes the last one first, since the order is not promised. */
static mt_status make_trials(void *context, struct mt_dry_trial *const *trials, size_t count)
{
    while (count-- > 0)
        make_trial(context, trials[count]);
    return MT_OK;
}

static void find(struct program *program, struct mt_dry_fit *out)
{
    assert_int_equal(mt_dry_fit_find(make_trials, program, out), MT_OK);
}

static void assert_best(const struct mt_dry_fit *fit, const char *names)
{
    struct mt_text text = {0};
    assert_non_null(mt_dry_fit_best(fit));
    mt_dry_changes_add_names(&mt_dry_fit_best(fit)->changes, &text);
    assert_string_equal(mt_text_get(&text), names);
    mt_text_release(&text);
}

static void a_single_change_that_fits_ends_the_search(void **state)
{
    (void)state;
    struct program program = {.plain = 150, .saves = {[MT_DRY_CHECKPOINT] = 90, [MT_DRY_AUTOCAST] = 60}};
    struct mt_dry_fit fit;
    find(&program, &fit);
    assert_int_equal(program.trials, FIRST_TRIALS);
    assert_int_equal(fit.combined_count, 0);
    assert_best(&fit, "autocast"); /* the cheaper one */
    mt_dry_fit_release(&fit);
}

static void changes_are_added_until_it_fits_and_none_that_overlaps(void **state)
{
    (void)state;
    struct program program = {
        .plain = 200,
        .saves =
            {[MT_DRY_CHECKPOINT] = 60, [MT_DRY_BF16_WEIGHTS] = 30, [MT_DRY_AUTOCAST] = 31, [MT_DRY_ZERO_GRAD] = 10},
        .refused = {[MT_DRY_LOOP_OPTIMIZER] = true}};
    struct mt_dry_fit fit;
    find(&program, &fit);
    assert_int_equal(fit.combined_count, 2);
    assert_best(&fit, "zero-grad,autocast,checkpoint");
    assert_int_equal(fit.single[MT_DRY_LOOP_OPTIMIZER].outcome, MT_TRIAL_REFUSED);
    mt_dry_fit_release(&fit);
}

static void flash_is_tried_again_where_there_is_bf16(void **state)
{
    (void)state;
    struct program program = {
        .plain = 200, .saves = {[MT_DRY_AUTOCAST] = 60, [MT_DRY_FLASH] = 45}, .flash_needs_autocast = true};
    struct mt_dry_fit fit;
    find(&program, &fit);
    assert_best(&fit, "flash,autocast");
    mt_dry_fit_release(&fit);
}

static void changes_that_need_a_place_are_tried_where_there_is_one(void **state)
{
    (void)state;
    struct program program = {.plain = 150,
                              .saves = {[MT_DRY_MAP_LOCATION] = 60, [MT_DRY_BUCKET_VIEW] = 70},
                              .places.has = {[MT_DRY_MAP_LOCATION] = true}};
    struct mt_text names = {0};
    struct mt_dry_fit fit;
    find(&program, &fit);
    assert_int_equal(program.trials, FIRST_TRIALS + 1);
    assert_best(&fit, "map-location");
    assert_int_equal(fit.single[MT_DRY_BUCKET_VIEW].outcome, MT_TRIAL_NOT_MADE);
    mt_dry_changes_add_places(&names);
    assert_string_equal(names.data, "?no-grad-evaluation,?eval-accumulation,?map-location,?bucket-view,?shard-blocks,"
                                    "?lora-dropout");
    mt_text_release(&names);
    mt_dry_fit_release(&fit);
}

static void what_nothing_helps_has_no_best_and_nothing_combined(void **state)
{
    (void)state;
    struct program program = {.plain = 200, .saves = {[MT_DRY_FLASH] = -20}};
    struct mt_dry_fit fit;
    find(&program, &fit);
    assert_int_equal(fit.combined_count, 0);
    assert_null(mt_dry_fit_best(&fit));
    assert_int_equal(program.trials, FIRST_TRIALS);
    mt_dry_fit_release(&fit);
}

static void a_program_that_fits_is_tried_with_each_change_alone(void **state)
{
    (void)state;
    struct program program = {.plain = 90, .saves = {[MT_DRY_CHECKPOINT] = 5}};
    struct mt_dry_fit fit;
    find(&program, &fit);
    assert_int_equal(program.trials, FIRST_TRIALS);
    assert_int_equal(fit.combined_count, 0);
    mt_dry_fit_release(&fit);
}

static void a_killed_combination_is_no_answer(void **state)
{
    (void)state;
    struct program program = {
        .plain = 200, .saves = {[MT_DRY_CHECKPOINT] = 60, [MT_DRY_AUTOCAST] = 31}, .killed_trial = FIRST_TRIALS + 1};
    struct mt_dry_fit fit;
    assert_int_equal(mt_dry_fit_find(make_trials, &program, &fit), MT_FAILED);
    assert_string_equal(mt_last_error(), "trial 10");
    mt_dry_fit_release(&fit);
}

static void a_killed_change_is_not_counted(void **state)
{
    (void)state;
    struct program program = {
        .plain = 150, .saves = {[MT_DRY_CHECKPOINT] = 90, [MT_DRY_BF16_WEIGHTS] = 60}, .killed_trial = 2};
    struct mt_dry_fit fit;
    find(&program, &fit);
    assert_int_equal(fit.single[MT_DRY_CHECKPOINT].outcome, MT_TRIAL_KILLED);
    assert_best(&fit, "bf16-weights");
    mt_dry_fit_release(&fit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_single_change_that_fits_ends_the_search),
        cmocka_unit_test(changes_are_added_until_it_fits_and_none_that_overlaps),
        cmocka_unit_test(flash_is_tried_again_where_there_is_bf16),
        cmocka_unit_test(changes_that_need_a_place_are_tried_where_there_is_one),
        cmocka_unit_test(what_nothing_helps_has_no_best_and_nothing_combined),
        cmocka_unit_test(a_program_that_fits_is_tried_with_each_change_alone),
        cmocka_unit_test(a_killed_change_is_not_counted),
        cmocka_unit_test(a_killed_combination_is_no_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
