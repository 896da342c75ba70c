/* memtrace advise: its claims about gradients against runs that free them earlier; its output, and its refusals. */
#include "base/status.h"
#include "base/text.h"
#include "page_reader.h"
#include "program.h"
#include "trace_edit.h"

/* Returns the finding about gradients in an answer of the program. Also checks the properties of all findings. */
static const json_t *gradients_of(const json_t *answer)
{
    const json_t *found = NULL, *findings = json_object_get(answer, "findings"), *finding;
    static const char *const measures[] = {"requested_bytes", "allocated_bytes", "reserved_bytes"};
    for (int i = 0; i < 3; i++) /* the run replayed without a change is the run */
        assert_int_equal(integer_of(json_object_get(answer, "peak"), measures[i]),
                         integer_of(json_object_get(answer, "replayed"), measures[i]));
    size_t index;
    json_array_foreach(findings, index, finding)
    {
        assert_int_equal(integer_of(finding, "claimed_bytes"),
                         integer_of(json_object_get(finding, "replayed"), "requested_bytes"));
        if (strcmp(text_of(finding, "pattern"), "gradients in forward") == 0)
            found = finding;
    }
    assert_non_null(found);
    return found;
}

static void expect_claim_to_come_true(const char *settings, const char *alloc)
{
    const char *run = "\"$M\" run --device sim --steps 2 --json";
    json_t *answer = json_of(shell("%s %s --alloc %s >run.json && \"$M\" advise --all --top 30 --json --alloc %s", run,
                                   settings, alloc, alloc));
    json_t *mended = json_of(
        shell("%s %s --alloc %s --zero-grad before-forward >run.json && \"$M\" peak --json", run, settings, alloc));
    const json_t *finding = gradients_of(answer), *replayed = json_object_get(finding, "replayed");
    assert_schema(answer, "memtrace.advise/4");
    assert_true(integer_of(finding, "saved_bytes") > 0);
    static const char *const measures[] = {"requested_bytes", "allocated_bytes", "reserved_bytes"};
    for (int i = 0; i < 3; i++)
        if (integer_of(replayed, measures[i]) != integer_of(mended, measures[i]))
            fail_msg("%s: %s", settings, measures[i]);
    json_decref(answer);
    json_decref(mended);
}

/* Of requested, allocated and reserved bytes. */
static void earlier_zero_grad_lowers_the_peaks_by_what_was_claimed(void **state)
{
    (void)state;
    static const char *const settings[][2] = {
        {"--model small", "policy=tight"},
        {"--model small --autocast bf16", "policy=torch"},
        {"--model 2.7B", "policy=torch"},
        {"--model 2.7B --autocast bf16", "policy=tight"},
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        expect_claim_to_come_true(settings[i][0], settings[i][1]);
}

static void sentences_explain_what_the_table_tells(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("run --device sim --model small --seq 64 --steps 2")->code, 0);
    const struct said *said = MEMTRACE("advise");
    assert_int_equal(said->code, 0);
    assert_says(said->out, " can fall by ");
    assert_true(strstr(said->out, " can fall by ") < strchr(said->out, '\n'));
    assert_says(said->out, "gradients in forward");
    assert_says(said->out, "--zero-grad before-forward");
    assert_says(said->out, "used only");
    assert_int_equal(MEMTRACE("advise --trace none.db")->code, MT_BAD_TRACE);
    assert_int_equal(MEMTRACE("advise --run 9")->code, MT_USAGE);
    assert_int_equal(MEMTRACE("advise --top 0")->code, MT_USAGE);
    assert_int_equal(MEMTRACE("run --device sim:rtx4090 --seq 512 --json")->code, MT_OUT_OF_MEMORY);
    said = MEMTRACE("advise --all --alloc policy=torch");
    assert_int_equal(said->code, 0);
    assert_says(said->out, "idle between uses");
    assert_says(said->out, "(policy=torch), until memory ended");
    assert_null(strstr(said->out, "With memtrace run"));
}

/* Offloading the optimizer's state saves more here, but takes time in every step. */
static void what_costs_nothing_comes_first_and_parts_follow_their_whole(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("run --device sim --model 2.7B --seq 128 --steps 2 --alloc policy=torch")->code, 0);
    const struct said *said = MEMTRACE("advise");
    assert_says(said->out, " can fall by ");
    assert_says(said->out, ": gradients stay allocated during the next forward");
    const char *option = strstr(said->out, "1  5.30 GiB  gradients in forward"),
               *time = strstr(said->out, "optimizer state");
    assert_non_null(option);
    assert_true(time != NULL && time > option);
    assert_null(strstr(said->out, "FFN activation"));
    said = MEMTRACE("advise --all");
    const char *whole = strstr(said->out, "  activation  "), *part = strstr(said->out, "· FFN activation");
    assert_true(whole != NULL && part != NULL && part > whole);
    json_t *all = json_of(MEMTRACE("advise --all --json")), *few = json_of(MEMTRACE("advise --json"));
    size_t found = json_array_size(json_object_get(all, "findings"));
    assert_int_equal(integer_of(all, "unlisted"), 0);
    assert_true(found >= json_array_size(json_object_get(few, "findings")) + (size_t)integer_of(few, "unlisted"));
    json_decref(all);
    json_decref(few);
}

/* Peaks of named options are peaks of runs with these options. Returns their number. */
static size_t check_simulated(const char *settings)
{
    json_t *answer =
        json_of(shell("\"$M\" run --device sim --steps 2 %s >run.txt && \"$M\" advise --all --json", settings));
    const json_t *rows = json_object_get(answer, "simulated"), *row;
    static const char *const measures[] = {"requested_bytes", "allocated_bytes", "reserved_bytes"};
    json_int_t before = integer_of(json_object_get(answer, "peak"), "requested_bytes");
    size_t index, count = json_array_size(rows);
    json_array_foreach(rows, index, row)
    {
        json_t *run = json_of(shell("PATH=$PWD:$PATH; %s --no-trace --json", text_of(row, "command")));
        const json_t *told = json_object_get(row, "peak"), *found = json_object_get(run, "peak");
        for (int i = 0; i < 3; i++)
            assert_int_equal(integer_of(told, measures[i]), integer_of(found, measures[i]));
        assert_int_equal(integer_of(row, "saved_bytes"), before - integer_of(found, "requested_bytes"));
        assert_int_equal(integer_of(json_object_get(answer, "simulated_as_it_is"), "requested_bytes"), before);
        json_decref(run);
    }
    json_decref(answer);
    return count;
}

static void options_that_are_named_have_the_figures_of_a_run_with_them(void **state)
{
    (void)state;
    assert_int_equal(shell("ln -s \"$M\" memtrace")->code, 0);
    assert_int_equal(check_simulated("--model small --seq 64"), 5); /* fused, and with it all four */
    assert_int_equal(check_simulated("--model small --seq 64 --impl fused --autocast bf16"), 4);
    assert_says(MEMTRACE("advise")->out, "--checkpoint block");
    assert_says(MEMTRACE("advise")->out, "--moments 8bit");
    assert_true(check_simulated("--model small --seq 64 --mode fwd") > 0);
}

static void a_run_that_can_not_be_made_again_has_no_simulated_figures(void **state)
{
    (void)state;
    assert_int_equal(
        shell("printf 'Thread,Time,Action,Pointer,Size,Stream\\n1,10:00:00:000001,allocate,0x1000,4096,0\\n'"
              " >log.csv && \"$M\" import log.csv")
            ->code,
        0);
    json_t *answer = json_of(MEMTRACE("advise --all --json"));
    assert_int_equal(json_array_size(json_object_get(answer, "simulated")), 0);
    assert_true(json_is_null(json_object_get(answer, "simulated_as_it_is")));
    json_decref(answer);
}

/* Checks that findings of the answer are the first of `more`. */
static void assert_begins(const json_t *few, const json_t *more)
{
    size_t index;
    const json_t *finding;
    json_array_foreach(few, index, finding)
    {
        assert_true(json_equal(finding, json_array_get(more, index)));
    }
}

/* A larger saving that takes time must not come first if only one is requested. */
static void fewer_findings_are_the_first_of_more(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("run --device sim --model 2.7B --seq 128 --steps 2")->code, 0);
    json_t *usual = json_of(MEMTRACE("advise --json")), *findings = json_object_get(usual, "findings");
    assert_string_equal(text_of(json_array_get(findings, 0), "pattern"), "gradients in forward");
    for (int top = 1; top <= 4; top++) {
        json_t *few = json_of(shell("\"$M\" advise --top %d --json", top));
        assert_int_equal(json_array_size(json_object_get(few, "findings")), top);
        assert_begins(json_object_get(few, "findings"), findings);
        json_decref(few);
    }
    const json_t *finding;
    size_t index;
    json_array_foreach(findings, index, finding)
    {
        assert_true(integer_of(finding, "saved_bytes") > 0);
    }
    json_decref(usual);
}

static void assert_headline(const struct said *said, const char *before, json_int_t bytes, const char *after)
{
    char size[MT_BYTES_TEXT], words[256];
    snprintf(words, sizeof words, "%s%s%s", before, mt_format_bytes((uint64_t)bytes, size), after);
    assert_says(said->out, words);
}

static void the_headline_names_savings_of_the_tables(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("run --device sim --model 2.7B --seq 128 --steps 2")->code, 0);
    json_t *answer = json_of(MEMTRACE("advise --json")), *options = json_object_get(answer, "simulated");
    json_int_t first = integer_of(json_array_get(json_object_get(answer, "findings"), 0), "saved_bytes"), most = 0;
    for (size_t i = 0; i < json_array_size(options); i++)
        if (integer_of(json_array_get(options, i), "saved_bytes") > most)
            most = integer_of(json_array_get(options, i), "saved_bytes");
    assert_true(most > first);
    const struct said *said = shell("\"$M\" advise | head -5 | tr '\\n' ' '");
    assert_headline(said, " requested can fall by ", first, ": gradients");
    assert_headline(said, "--moments 8bit, the peak of requested bytes falls by ", most, ".");
    json_decref(answer);
}

static void offers_are_about_the_runs_own_allocator_unless_told_otherwise(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("run --device sim --model 2.7B --seq 128 --steps 2")->code, 0);
    const struct said *said = MEMTRACE("advise --all --alloc policy=torch");
    assert_says(said->out, "Each was replayed with PyTorch's allocator (policy=torch)");
    assert_says(said->out, "→ in PyTorch, PYTORCH_ALLOC_CONF=expandable_segments:True");
    assert_null(strstr(said->out, "--alloc policy=tight"));
    said = MEMTRACE("advise");
    assert_says(said->out, "Each was replayed with memtrace's allocator (policy=tight)");
    assert_null(strstr(said->out, "expandable_segments"));
    json_t *torch = json_of(MEMTRACE("advise --alloc policy=torch --json")), *own = json_of(MEMTRACE("advise --json"));
    assert_string_equal(text_of(own, "alloc"), "policy=tight");
    assert_true(json_equal(json_object_get(own, "replayed"), json_object_get(own, "simulated_as_it_is")));
    assert_true(integer_of(json_object_get(torch, "replayed"), "reserved_bytes") >
                integer_of(json_object_get(own, "replayed"), "reserved_bytes"));
    json_decref(torch);
    json_decref(own);
    said = MEMTRACE("advise --alloc policy=none");
    assert_int_equal(said->code, MT_USAGE);
    assert_says(said->err, "--alloc: unknown allocator policy");
}

static const char *const measured[] = {"requested_bytes", "allocated_bytes", "reserved_bytes"};

static void expect_equal_peaks(const json_t *a, const json_t *b)
{
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++)
        assert_int_equal(integer_of(a, measured[i]), integer_of(b, measured[i]));
}

/* Returns what the page of the newest run says under "what_if", a new reference. */
static json_t *what_the_page_says(void)
{
    struct page page;
    assert_int_equal(MEMTRACE("timeline -o page.html")->code, 0);
    FILE *file = fopen("page.html", "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    size_t bytes = (size_t)ftell(file);
    char *text = calloc(bytes + 1, 1);
    rewind(file);
    assert_int_equal(fread(text, 1, bytes, file), bytes);
    fclose(file);
    page_read(text, bytes, &page);
    json_t *answers = page_description(&page, "answers-"), *what_if = json_incref(json_object_get(answers, "what_if"));
    assert_non_null(what_if);
    json_decref(answers);
    page_release(&page);
    return what_if;
}

/* Expects each change that the page and advise list to have the same peaks. Returns their number. */
static size_t compare_changes(const json_t *changes, const json_t *advised, const char *peaks)
{
    const json_t *change, *other;
    size_t i, j, found = 0;
    json_array_foreach(changes, i, change)
    {
        json_array_foreach(advised, j, other)
        {
            if (strcmp(text_of(change, "change"), text_of(other, "change")) != 0)
                continue;
            expect_equal_peaks(change, json_object_get(other, peaks));
            found++;
        }
    }
    return found;
}

static void compare_page_and_advice(const char *make)
{
    assert_int_equal(shell("%s", make)->code, 0);
    json_t *answer = json_of(MEMTRACE("advise --json")), *page = what_the_page_says(),
           *as_it_was = json_object_get(page, "as_it_was");
    expect_equal_peaks(as_it_was, json_object_get(answer, "replayed"));
    assert_string_equal(text_of(as_it_was, "alloc"), text_of(answer, "alloc"));
    const json_t *changes = json_object_get(page, "changes");
    assert_true(compare_changes(changes, json_object_get(answer, "simulated"), "peak") +
                    compare_changes(changes, json_object_get(answer, "changes"), "replayed") >
                0);
    json_decref(page);
    json_decref(answer);
}

static void the_page_and_advise_replay_with_the_runs_own_allocator(void **state)
{
    (void)state;
    compare_page_and_advice("\"$M\" run --device sim --model small --steps 2");
    compare_page_and_advice("\"$M\" run --device sim --model small --steps 2 --alloc policy=torch");
    compare_page_and_advice("\"$M\" run --device sim --model small --steps 2 "
                            "--alloc policy=torch,expandable_segments=on,max_split=40MiB");
    compare_page_and_advice("\"$M\" import '" MT_TEST_DATA "/import/program_expandable_llama.pickle.gz'");
}

/* Options come first, and SGD last. */
static void changes_are_in_one_order_and_each_saves(void **state)
{
    (void)state;
    assert_int_equal(shell("\"$M\" import '" MT_TEST_DATA "/import/program_oom_gpt2.pickle.gz'")->code, 0);
    json_t *answer = json_of(MEMTRACE("advise --json")), *changes = json_object_get(answer, "changes"), *change;
    size_t i;
    bool is_sgd = false;
    assert_true(json_array_size(changes) > 1);
    json_array_foreach(changes, i, change)
    {
        const bool was_sgd = is_sgd;
        is_sgd = strncmp(text_of(change, "change"), "SGD", 3) == 0;
        assert_true(is_sgd || !was_sgd);
        assert_true(integer_of(change, "difference_bytes") < 0);
    }
    json_decref(answer);
}

/* Without training little else can be saved, and several findings of a few kilobytes would come before it. */
static void fragmentation_has_its_place_and_trifles_have_none(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("run --device sim --model small --mode infer --alloc policy=torch")->code, 0);
    json_t *answer = json_of(MEMTRACE("advise --json")), *findings = json_object_get(answer, "findings"), *finding;
    json_int_t peak = integer_of(json_object_get(answer, "peak"), "requested_bytes");
    size_t index;
    assert_string_equal(text_of(json_array_get(findings, 0), "pattern"), "fragmentation");
    json_array_foreach(findings, index, finding)
    {
        assert_true(integer_of(finding, "saved_bytes") >= peak / 100);
    }
    json_decref(answer);
    assert_int_equal(MEMTRACE("run --device sim --model small --mode infer")->code, 0);
    assert_says(MEMTRACE("advise --alloc policy=torch")->out, "With PyTorch's allocator (policy=torch) the peak of ");
}

static int set_up(void **state)
{
    *state = enter_folder("test_advise");
    return 0;
}

static void set_recorded(const char *value)
{
    char sql[128];
    snprintf(sql, sizeof sql, "INSERT OR REPLACE INTO setting VALUES (1, 'recorded', '%s')", value);
    edit_trace("memtrace.db", sql);
}

/* A dry run has searched for the holder already. */
static void growth_without_a_holder_is_to_be_searched_or_moved(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("run --device sim --model small --seq 64 --steps 2")->code, 0);
    edit_trace("memtrace.db",
               "DELETE FROM setting; INSERT INTO setting VALUES (1, 'alloc', 'policy=torch'); "
               "INSERT INTO caveat VALUES (1, 'growth', 'validate', 'val.py', 7, 100, NULL, 536870912, NULL)");
    set_recorded("PyTorch");
    assert_says(MEMTRACE("advise")->out, "names the variable");
    set_recorded("dry");
    assert_says(MEMTRACE("advise")->out, "move what the loop collects");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(earlier_zero_grad_lowers_the_peaks_by_what_was_claimed, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(sentences_explain_what_the_table_tells, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(what_costs_nothing_comes_first_and_parts_follow_their_whole, set_up,
                                        leave_folder),
        cmocka_unit_test_setup_teardown(options_that_are_named_have_the_figures_of_a_run_with_them, set_up,
                                        leave_folder),
        cmocka_unit_test_setup_teardown(a_run_that_can_not_be_made_again_has_no_simulated_figures, set_up,
                                        leave_folder),
        cmocka_unit_test_setup_teardown(fragmentation_has_its_place_and_trifles_have_none, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(fewer_findings_are_the_first_of_more, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(the_headline_names_savings_of_the_tables, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(offers_are_about_the_runs_own_allocator_unless_told_otherwise, set_up,
                                        leave_folder),
        cmocka_unit_test_setup_teardown(the_page_and_advise_replay_with_the_runs_own_allocator, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(changes_are_in_one_order_and_each_saves, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(growth_without_a_holder_is_to_be_searched_or_moved, set_up, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
