/* memtrace fit: its claims agree with memtrace run on a device of that size. */
#include "base/random.h"
#include "fit_answer.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <time.h>

#define MIB ((json_int_t)1 << 20)

/* A model of some hundred MiB. */
#define SIZES "--vocab 1000 --d-model 256 --d-ff 1024 --layers 4 --heads 4 --seq 128 --batch 8 "

enum { UNIT_MIB = 2 }; /* the precision of a stated need */

static json_t *fit_on(json_int_t mib, const char *arguments)
{
    char text[1024];
    snprintf(text, sizeof text, "--device sim:%" JSON_INTEGER_FORMAT "MiB %s", mib, arguments);
    return fit(text);
}

static void assert_fits(const char *command, const char *more)
{
    if (code_of(command, more) != 0)
        fail_msg("does not fit: %s %s", command, more);
}

static void assert_does_not_fit(const char *command, const char *more)
{
    int code = code_of(command, more);
    if (code != MT_OUT_OF_MEMORY)
        fail_msg("ends with %d: %s %s", code, command, more);
}

/* Checks that the figures of `object` are the figures of `command`. */
static void check_figures(const json_t *object, const char *command)
{
    char device[64];
    if (json_is_true(json_object_get(object, "fits"))) {
        json_t *run = json_of(shell("PATH=$PWD:$PATH; %s --no-trace --json", command));
        assert_int_equal(integer_of(json_object_get(run, "peak"), "reserved_bytes"),
                         integer_of(object, "reserved_bytes"));
        assert_true(json_is_null(json_object_get(object, "enough_bytes")));
        json_decref(run);
        return;
    }
    json_int_t enough = integer_of(object, "enough_bytes");
    assert_true(json_is_null(json_object_get(object, "reserved_bytes")));
    assert_does_not_fit(command, "");
    snprintf(device, sizeof device, "--device sim:%" JSON_INTEGER_FORMAT, enough);
    assert_fits(command, device);
    snprintf(device, sizeof device, "--device sim:%" JSON_INTEGER_FORMAT, enough - UNIT_MIB * MIB);
    assert_does_not_fit(command, device);
}

/* Checks that the command has the last option of the change. It is omitted if it is the default of `run`. */
static void assert_changed(const char *change, const char *command)
{
    static const char *const usual[][2] = {{"--alloc policy=tight", "--alloc"}, {"--autocast off", "--autocast"}};
    const char *last = change;
    for (const char *next = change; next != NULL; next = strstr(next + 1, "--"))
        last = next;
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        if (strcmp(last, usual[i][0]) == 0) {
            assert_null(strstr(command, usual[i][1]));
            return;
        }
    assert_says(command, last);
}

/* The first that fits is the remedy. */
static const char *check_changes(const json_t *answer, const char *key)
{
    const json_t *changes = json_object_get(answer, key);
    const char *first = NULL;
    for (size_t i = 0; i < json_array_size(changes); i++) {
        const json_t *change = json_array_get(changes, i);
        check_figures(change, text_of(change, "command"));
        assert_changed(text_of(change, "change"), text_of(change, "command"));
        if (first == NULL && json_is_true(json_object_get(change, "fits")))
            first = text_of(change, "command");
    }
    return first;
}

static void check_answer(const json_t *answer)
{
    assert_schema(answer, "memtrace.fit/2");
    const char *taken = json_is_true(json_object_get(answer, "fits")) ? "reserved_bytes" : "enough_bytes";
    assert_int_equal(integer_of(answer, "room_bytes"),
                     integer_of(answer, "capacity_bytes") - integer_of(answer, taken));
    assert_int_equal(integer_of(answer, "capacity_bytes"),
                     integer_of(answer, "memory_bytes") - integer_of(answer, "reserve_bytes"));
    check_figures(answer, text_of(answer, "command"));
    const char *single = check_changes(answer, "changes"), *combined = check_changes(answer, "combined");
    check_changes(answer, "gentler");
    const char *remedy = single != NULL ? single : combined;
    if (remedy == NULL)
        assert_true(json_is_null(json_object_get(answer, "remedy")));
    else
        assert_string_equal(text_of(answer, "remedy"), remedy);
}

static bool is_certain(const json_t *answer, const char *key)
{
    char certain[32];
    snprintf(certain, sizeof certain, "%s_is_certain", key);
    return json_is_true(json_object_get(json_object_get(answer, "largest"), certain));
}

/* Checks the largest size: it fits unless it is 0. No larger size fits, up to the last one tried and 12 beyond it if
 * the answer is certain. */
static void check_largest(const json_t *answer, const char *key)
{
    char tried_key[32], more[64];
    const json_t *largest = json_object_get(answer, "largest"), *value = json_object_get(largest, key);
    const char *command = text_of(answer, "command");
    json_int_t size = json_is_null(value) ? 0 : json_integer_value(value);
    snprintf(tried_key, sizeof tried_key, "%s_tried_to", key);
    snprintf(more, sizeof more, "--%s %" JSON_INTEGER_FORMAT, key, size);
    if (size > 0)
        assert_fits(command, more);
    json_int_t end = integer_of(largest, tried_key) + (is_certain(answer, key) ? 12 : 0);
    for (json_int_t above = size + 1; above <= end; above++) {
        snprintf(more, sizeof more, "--%s %" JSON_INTEGER_FORMAT, key, above);
        assert_does_not_fit(command, more);
    }
}

static size_t change_count(const json_t *answer, const char *key)
{
    return json_array_size(json_object_get(answer, key));
}

static void a_run_that_fits_needs_no_change(void **state)
{
    (void)state;
    json_t *answer = fit_on(600, SIZES);
    assert_true(json_is_true(json_object_get(answer, "fits")));
    assert_int_equal(change_count(answer, "changes") + change_count(answer, "combined"), 0);
    check_answer(answer);
    check_largest(answer, "batch");
    check_largest(answer, "seq");
    json_decref(answer);
}

static void single_changes_are_what_run_finds(void **state)
{
    (void)state;
    json_t *answer = fit_on(230, SIZES "--mode fwd_bwd --alloc policy=torch");
    assert_false(json_is_true(json_object_get(answer, "fits")));
    assert_int_equal(change_count(answer, "changes"), 7);
    assert_int_equal(change_count(answer, "combined"), 0);
    check_answer(answer);
    check_largest(answer, "batch");
    check_largest(answer, "seq");
    json_decref(answer);
}

static void the_edges_are_right_wherever_the_limit_is(void **state)
{
    (void)state;
    for (json_int_t mib = 120; mib <= 280; mib += 160) {
        json_t *answer = fit_on(mib, SIZES "--mode fwd --autocast bf16");
        check_largest(answer, "batch");
        check_largest(answer, "seq");
        json_decref(answer);
    }
}

#define SCATTERED "--model 2.7B --layers 2 --steps 2 --alloc policy=torch "

/* Other sequences leave other gaps: here some fit that are longer than one that does not. */
static void a_size_is_found_above_smaller_ones_that_do_not_fit(void **state)
{
    (void)state;
    json_int_t last = 0;
    for (json_int_t seq = 436; seq < 460; seq++) {
        char more[64];
        snprintf(more, sizeof more, "--seq %" JSON_INTEGER_FORMAT, seq);
        if (code_of("memtrace run --device sim:6120MiB " SCATTERED, more) == 0)
            last = seq;
    }
    json_t *answer = fit("--device sim:6120MiB --seq 512 " SCATTERED);
    assert_int_equal(integer_of(json_object_get(answer, "largest"), "seq"), last);
    assert_true(is_certain(answer, "seq"));
    assert_does_not_fit("memtrace run --device sim:6120MiB " SCATTERED, "--seq 433");
    assert_true(last > 433);
    json_decref(answer);
}

static void of_a_card_the_context_is_kept_free(void **state)
{
    (void)state;
    json_t *answer = fit("--device sim:l4 --model small --batch 1");
    assert_int_equal(integer_of(answer, "memory_bytes"), 22558 * MIB);
    assert_int_equal(integer_of(answer, "reserve_bytes"), 236 * MIB);
    assert_string_equal(text_of(answer, "simulated_device"), "sim:l4");
    assert_says(text_of(answer, "command"), "--device sim:l4 ");
    check_answer(answer);
    json_decref(answer);
    answer = fit("--device sim:l4 --model small --batch 1 --reserve 0");
    assert_string_equal(text_of(answer, "simulated_device"), "sim:l4:22558MiB");
    assert_int_equal(integer_of(answer, "capacity_bytes"), 22558 * MIB);
    json_decref(answer);
}

/* A reserve of 200 MiB equals 200 MiB less memory, in every claim. */
static void a_reserve_counts_in_every_claim(void **state)
{
    (void)state;
    static const char *const keys[] = {"room_bytes", "changes", "combined", "gentler", "remedy", "largest", "command"};
    json_t *kept = fit("--device sim:430MiB --reserve 200MiB " SIZES), *less = fit("--device sim:230MiB " SIZES);
    check_answer(kept);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (!json_equal(json_object_get(kept, keys[i]), json_object_get(less, keys[i])))
            fail_msg("%s differs", keys[i]);
    json_decref(kept);
    json_decref(less);
    const struct said *said = MEMTRACE("fit --device sim:430MiB --reserve 1GiB " SIZES);
    assert_int_equal(said->code, MT_USAGE);
    assert_says(said->err, "leaves nothing of the 430.00 MiB");
    assert_says(MEMTRACE("fit --device sim:430MiB --reserve 200MiB " SIZES)->out,
                "memtrace run --device sim:230MiB has");
    assert_says(MEMTRACE("fit --device sim:430MiB " SIZES)->out, "Nothing is kept free");
}

static void a_deep_cut_comes_with_a_gentler_one(void **state)
{
    (void)state;
    json_t *answer = fit("--device sim:130MiB " SIZES "--alloc policy=torch");
    const json_t *gentler = json_object_get(answer, "gentler");
    check_answer(answer);
    assert_int_equal(json_array_size(gentler), 1);
    json_t *changed = json_array_get(gentler, 0);
    assert_true(json_is_true(json_object_get(changed, "fits")));
    assert_says(text_of(changed, "change"), "--batch ");
    const char *before = strstr(text_of(answer, "remedy"), "--batch "),
               *after = strstr(text_of(changed, "command"), "--batch ");
    assert_true(atoi(after + strlen("--batch ")) > atoi(before + strlen("--batch ")));
    json_decref(answer);
    assert_says(MEMTRACE("fit --device sim:130MiB " SIZES "--alloc policy=torch")->out, "less has to be cut");
}

static void a_cut_that_is_not_needed_is_not_made(void **state)
{
    (void)state;
    json_t *answer = fit("--device sim:160MiB " SIZES "--alloc policy=torch");
    check_answer(answer);
    assert_says(text_of(answer, "remedy"), "--batch 1 ");
    assert_int_equal(json_array_size(json_object_get(answer, "gentler")), 1);
    const json_t *changed = json_array_get(json_object_get(answer, "gentler"), 0);
    assert_null(strstr(text_of(changed, "change"), "--batch"));
    assert_says(text_of(changed, "command"), "--batch 8 ");
    json_decref(answer);
    assert_says(MEMTRACE("fit --device sim:160MiB " SIZES "--alloc policy=torch")->out, "nothing has to be cut");
}

/* For a run: zero_grad, the policy, autocast, attention, the implementation alone and with each of its four, batch,
 * sequence. */
static void the_fused_model_is_a_change_and_has_its_own(void **state)
{
    (void)state;
    json_t *answer = fit_on(150, SIZES "--autocast bf16");
    check_answer(answer);
    assert_int_equal(change_count(answer, "changes"), 11);
    json_decref(answer);
    answer = fit_on(120, SIZES "--impl fused --autocast bf16 --attention weights");
    check_answer(answer);
    assert_int_equal(change_count(answer, "changes"), 10);
    json_decref(answer);
    answer = fit_on(100, SIZES "--impl fused --autocast bf16 --checkpoint block --optimizer-in-backward on");
    check_answer(answer);
    assert_string_equal(text_of(answer, "checkpoint"), "block");
    assert_string_equal(text_of(answer, "optimizer_in_backward"), "on");
    assert_int_equal(change_count(answer, "changes"), 6);
    json_decref(answer);
}

/* Checks that every proposed change works when it is run. The tight policy chooses the size of a segment by the
 * capacity, so more may be needed with a limit than without. */
static void what_would_do_was_seen_to_do(void **state)
{
    (void)state;
    for (int mib = 600; mib <= 676; mib += 19) {
        char command[256];
        snprintf(command, sizeof command,
                 "--device sim:%dMiB --model small --layers 2 --seq 512 --steps 2 --autocast bf16 --impl fused "
                 "--weight-cast layer --optimizer-in-backward on",
                 mib);
        json_t *answer = fit(command);
        check_figures(answer, text_of(answer, "command"));
        json_decref(answer);
    }
}

/* A command to paste contains nothing without an effect. */
static void casts_are_not_spoken_of_where_there_are_none(void **state)
{
    (void)state;
    json_t *answer = fit_on(150, SIZES "--impl fused");
    check_answer(answer);
    size_t count = json_array_size(json_object_get(answer, "changes"));
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        const char *command = text_of(json_array_get(json_object_get(answer, "changes"), i), "command");
        assert_true(strstr(command, "--weight-cast") == NULL || strstr(command, "--autocast bf16") != NULL);
    }
    json_decref(answer);
}

static void what_the_exit_code_says_is_in_the_manual(void **state)
{
    (void)state;
    assert_says(MEMTRACE("help fit --man")->out, "failed, or the run does not fit");
    assert_says(MEMTRACE("fit --help")->out, "since peaks repeat by then");
    assert_says(MEMTRACE("fit --device sim:1GiB " SIZES)->out, " parameters), eager");
}

static void changes_are_combined_where_no_single_one_suffices(void **state)
{
    (void)state;
    json_t *answer = fit("--device sim:600MiB --model small --layers 2 --seq 512 --autocast bf16 --steps 2");
    assert_int_equal(change_count(answer, "changes"), 11);
    assert_int_equal(change_count(answer, "combined"), 1);
    assert_true(json_is_string(json_object_get(answer, "remedy")));
    check_answer(answer);
    json_decref(answer);
}

static void a_model_too_large_for_any_change_is_said_to_be(void **state)
{
    (void)state;
    json_t *answer = fit_on(64, SIZES);
    check_answer(answer);
    assert_true(json_is_null(json_object_get(answer, "remedy")));
    assert_int_equal(change_count(answer, "combined"), 2);
    assert_true(json_is_null(json_object_get(json_object_get(answer, "largest"), "batch")));
    json_decref(answer);
    const struct said *said = MEMTRACE("fit " SIZES "--device sim:64MiB");
    assert_int_equal(said->code, MT_FAILED);
    assert_says(said->out, "None of these makes it fit: the parameters, their gradients and the optimizer's two");
    assert_says(said->out, "none (batch 1 does not fit either)");
    assert_says(said->err, "does not fit sim:64MiB");
}

static void the_largest_model_and_the_smallest_card_are_the_edge(void **state)
{
    (void)state;
    json_t *answer = fit("--device sim:16GiB --model 2.7B --seq 128 --mode fwd --steps 1");
    const char *command = text_of(answer, "command");
    const char *card = text_of(answer, "smallest_card");
    assert_string_equal(text_of(json_object_get(answer, "largest"), "model"), "xl");
    assert_fits(command, "--model xl");
    assert_does_not_fit(command, "--model 2.7B");
    assert_string_equal(card, "a10g");
    assert_fits(command, "--device sim:a10g");
    assert_does_not_fit(command, "--device sim:v100-16gb");
    json_decref(answer);
}

/* The RTX 3070 has room, and no units for fp8. Sequences need not be multiples of 16. */
static void a_run_in_fp8_is_looked_for_on_cards_that_take_it(void **state)
{
    (void)state;
    json_t *answer =
        fit("--device sim:5GiB --impl fused --autocast bf16 --matmul fp8 --model small --seq 1000 --steps 1");
    const char *card = text_of(answer, "smallest_card");
    assert_string_equal(card, "rtx4060");
    assert_fits(text_of(answer, "command"), "--seq 250");
    json_decref(answer);
    const struct said *said = MEMTRACE("fit --device sim:t4 --impl fused --autocast bf16 --matmul fp8 --model small");
    assert_int_equal(said->code, MT_USAGE);
    assert_says(said->err, "compute capability 7.5");
}

static void the_trace_is_asked_where_no_option_describes_a_run(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("run " SIZES "--device sim --name first")->code, 0);
    assert_int_equal(MEMTRACE("run " SIZES "--device cpu:1GiB --steps 1 --layers 1 --seq 8 --mode fwd")->code, 0);
    json_t *answer = fit("");
    assert_int_equal(integer_of(answer, "run"), 2);
    assert_string_equal(text_of(answer, "device"), "cpu:1GiB");
    assert_string_equal(text_of(answer, "simulated_device"), "sim:1024MiB");
    assert_int_equal(integer_of(answer, "reserve_bytes"), 0);
    assert_int_equal(integer_of(answer, "seq"), 8);
    assert_string_equal(text_of(answer, "mode"), "fwd");
    assert_int_equal(integer_of(answer, "steps"), 1);
    json_decref(answer);
    answer = fit("--run first --device sim:100MiB");
    assert_int_equal(integer_of(answer, "run"), 1);
    assert_string_equal(text_of(answer, "name"), "first");
    check_answer(answer);
    json_decref(answer);
    answer = fit("--device sim:1GiB " SIZES);
    assert_true(json_is_null(json_object_get(answer, "run")));
    json_decref(answer);
}

static void a_run_that_ended_out_of_memory_is_asked_about_on_its_device(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("run " SIZES "--device sim:200MiB --steps 2")->code, MT_OUT_OF_MEMORY);
    json_t *answer = fit("");
    assert_string_equal(text_of(answer, "device"), "sim:200MiB");
    assert_false(json_is_true(json_object_get(answer, "fits")));
    assert_fits(text_of(answer, "remedy"), "");
    json_decref(answer);
}

static void delete_setting(const char *path, const char *name)
{
    char sql[128];
    sqlite3 *trace;
    snprintf(sql, sizeof sql, "DELETE FROM setting WHERE name = '%s'", name);
    assert_int_equal(sqlite3_open(path, &trace), SQLITE_OK);
    assert_int_equal(sqlite3_exec(trace, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(trace);
}

/* Checks that a trace without the setting reads as custom, the only attention before the setting
 * existed. */
static void a_trace_from_before_attention_was_a_setting_reads_as_custom(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("run " SIZES "--device sim:230MiB --alloc policy=torch --steps 1")->code,
                     MT_OUT_OF_MEMORY);
    json_t *said = fit("");
    delete_setting("memtrace.db", "attention");
    json_t *answer = fit("");
    assert_true(json_equal(said, answer));
    assert_null(strstr(text_of(answer, "command"), "--attention"));
    json_decref(answer);
    json_decref(said);
}

static void what_can_not_be_answered_gets_a_sentence(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("run " SIZES "--device sim --steps 1")->code, 0);
    static const struct {
        const char *arguments, *says;
        int code;
    } cases[] = {
        {"--trace none.db", "memtrace run", MT_BAD_TRACE},
        {"--device cuda", "this needs a simulated device", MT_USAGE},
        {"--device sim:rtx409", "\"rtx4090\"", MT_NO_DEVICE},
        {"--run 1 --seq 8", "leave the options out", MT_USAGE},
        {"--run 7", "there is no run \"7\"", MT_USAGE},
        {"--model smal", "\"small\"", MT_USAGE},
        {"--trace damaged.db", "it has no setting \"batch\"", MT_USAGE},
        {"--trace damaged.db", "options of memtrace run", MT_USAGE},
    };
    assert_int_equal(MEMTRACE("run " SIZES "--device sim --steps 1 --trace damaged.db")->code, 0);
    delete_setting("damaged.db", "batch");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("\"$M\" fit %s", cases[i].arguments);
        if (said->code != cases[i].code)
            fail_msg("%s: exit code %d: %s", cases[i].arguments, said->code, said->err);
        assert_says(said->err, cases[i].says);
    }
}

/* Nothing trains on one token. */
static void a_sequence_is_not_cut_below_a_quarter(void **state)
{
    (void)state;
    json_t *answer = fit_on(64, SIZES), *changes = json_object_get(answer, "changes");
    assert_string_equal(text_of(json_array_get(changes, json_array_size(changes) - 1), "change"), "--seq 32");
    json_decref(answer);
    assert_null(strstr(MEMTRACE("fit --device sim:64MiB " SIZES)->out, "--seq 1 "));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, leave_folder)
    const struct CMUnitTest tests[] = {
        TEST(a_run_that_fits_needs_no_change),
        TEST(single_changes_are_what_run_finds),
        TEST(the_edges_are_right_wherever_the_limit_is),
        TEST(a_size_is_found_above_smaller_ones_that_do_not_fit),
        TEST(of_a_card_the_context_is_kept_free),
        TEST(a_reserve_counts_in_every_claim),
        TEST(a_deep_cut_comes_with_a_gentler_one),
        TEST(a_cut_that_is_not_needed_is_not_made),
        TEST(the_fused_model_is_a_change_and_has_its_own),
        TEST(casts_are_not_spoken_of_where_there_are_none),
        TEST(what_would_do_was_seen_to_do),
        TEST(what_the_exit_code_says_is_in_the_manual),
        TEST(changes_are_combined_where_no_single_one_suffices),
        TEST(a_model_too_large_for_any_change_is_said_to_be),
        TEST(the_largest_model_and_the_smallest_card_are_the_edge),
        TEST(a_run_in_fp8_is_looked_for_on_cards_that_take_it),
        TEST(the_trace_is_asked_where_no_option_describes_a_run),
        TEST(a_run_that_ended_out_of_memory_is_asked_about_on_its_device),
        TEST(a_trace_from_before_attention_was_a_setting_reads_as_custom),
        TEST(a_sequence_is_not_cut_below_a_quarter),
        TEST(what_can_not_be_answered_gets_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
