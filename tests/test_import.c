/* memtrace import of measured snapshots, against PyTorch's own figures and against our own run of the same step. */
#include "module_spans.h"
#include "program.h"
#include "same_rows.h"

#include "base/status.h"

#include <sqlite3.h>

#define REFERENCE(name) "\"$D\"/import/pytorch_h200_2.7B_seq256_" name ".pickle.gz"

/* The measured runs as fp32 and autocast, and our own under the same names in own.db. */
static int set_up(void **state)
{
    *state = enter_folder("test_import");
    expect_success(MEMTRACE("import " REFERENCE("fp32") " --trace theirs.db --name fp32 --json >fp32.json"));
    expect_success(
        MEMTRACE("import " REFERENCE("autocast") " --trace theirs.db --name autocast --json >autocast.json"));
    for (int i = 0; i < 2; i++)
        expect_success(shell("\"$M\" run --model 2.7B --seq 256 --mode fwd_bwd --device sim --alloc policy=torch"
                             " --steps 4 --trace own.db --name %s",
                             i == 0 ? "fp32" : "autocast --autocast bf16"));
    return 0;
}

static json_t *load(const char *path)
{
    json_error_t error;
    json_t *json = json_load_file(path, 0, &error);
    if (json == NULL)
        fail_msg("%s:%d: %s", path, error.line, error.text);
    return json;
}

static const char *const runs[] = {"fp32", "autocast"};

static void activations_lie_in_modules(void **state)
{
    (void)state;
    for (int run = 1; run <= 2; run++) {
        expect_activations_in_modules("theirs.db", run);
        expect_hardly_any_other("theirs.db", run);
    }
}

static void all_events_are_accounted_for(void **state)
{
    (void)state;
    static const struct {
        json_int_t events, allocs, requested, allocated, reserved;
    } expected[] = {{105479, 35374, 68028792960, 68167778304, 71032635392},
                    {127214, 42598, 69851035712, 70012041216, 71525466112}};
    for (int i = 0; i < 2; i++) {
        char path[32];
        const char *kind;
        json_t *count;
        json_int_t sum = 0;
        snprintf(path, sizeof path, "%s.json", runs[i]);
        json_t *said = load(path), *before = json_object_get(said, "before");
        assert_schema(said, "memtrace.import/2");
        json_object_foreach(json_object_get(said, "by_kind"), kind, count) sum += json_integer_value(count);
        assert_int_equal(sum, expected[i].events);
        assert_int_equal(integer_of(said, "events"), expected[i].events);
        assert_int_equal(integer_of(json_object_get(said, "by_kind"), "alloc"), expected[i].allocs);
        assert_int_equal(integer_of(said, "requested_bytes"), expected[i].requested);
        assert_int_equal(integer_of(said, "allocated_bytes"), expected[i].allocated);
        assert_int_equal(integer_of(said, "reserved_bytes"), expected[i].reserved);
        assert_int_equal(integer_of(before, "blocks"), 325);
        assert_int_equal(integer_of(before, "freed"), 0);
        assert_int_equal(integer_of(before, "recorded"), 2); /* cuBLAS's workspaces, which an earlier recording saw */
        assert_true(json_is_false(json_object_get(said, "lost_beginning")));
        json_object_foreach(json_object_get(said, "contradictions"), kind, count)
            assert_int_equal(json_integer_value(count), 0);
        json_decref(said);
    }
}

static void hardly_a_byte_has_no_category(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        char path[32];
        snprintf(path, sizeof path, "%s.json", runs[i]);
        json_t *said = load(path), *categories = json_object_get(said, "categories");
        assert_true(integer_of(categories, "bytes") > 100 * integer_of(categories, "bytes_without"));
        json_decref(said);
    }
}

/* The measured row of a run. */
static const json_t *find_measured(const json_t *reference, const char *autocast)
{
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(reference, "cs336"), i,
                       row) if (strcmp(text_of(row, "mode"), "fwd_bwd") == 0 && integer_of(row, "seq") == 256 &&
                                strcmp(text_of(row, "autocast"), autocast) == 0 &&
                                json_object_get(row, "category_max_bytes") != NULL) return row;
    fail_msg("no row of autocast %s", autocast);
    return NULL;
}

static const json_t *find_row(const json_t *rows, const char *category)
{
    size_t i;
    const json_t *row;
    json_array_foreach(rows, i, row) if (strcmp(text_of(row, "category"), category) == 0) return row;
    fail_msg("no category %s", category);
    return NULL;
}

/* Returns the number of blocks of a category that a step requests in a phase. */
static json_int_t count_in(const char *run, const char *phase, const char *category)
{
    json_t *said = json_of(shell("\"$M\" categories --trace theirs.db --run %s --phase %s --json", run, phase)), *row;
    json_int_t count = 0;
    size_t i;
    json_array_foreach(json_object_get(said, "rows"), i, row) if (strcmp(text_of(row, "category"), category) == 0)
        count = integer_of(row, "per_step");
    json_decref(said);
    return count;
}

/* The measurement counts requests of forward and loss and, for categories without such requests, all. It has no
 * category for some blocks, which are Other there, and averages the first step's state over all steps. */
static void categories_are_those_that_were_measured(void **state)
{
    (void)state;
    json_t *reference = load(MT_TEST_DATA "/pytorch_h200.json");
    for (int i = 0; i < 2; i++) {
        const json_t *measured = find_measured(reference, i == 0 ? "off" : "bf16");
        json_t *said = json_of(shell("\"$M\" categories --trace theirs.db --run %s --json", runs[i])), *bytes;
        const json_t *rows = json_object_get(said, "rows"),
                     *per_step = json_object_get(measured, "category_allocs_per_step");
        const char *category;
        int compared = 0;
        json_object_foreach(json_object_get(measured, "category_max_bytes"), category, bytes)
        {
            if (strcmp(category, "Other") == 0)
                continue;
            const json_t *row = find_row(rows, category);
            bool is_forward = !json_is_null(json_object_get(row, "forward_max_bytes"));
            assert_int_equal(integer_of(row, is_forward ? "forward_max_bytes" : "max_bytes"),
                             json_integer_value(bytes));
            json_int_t count = (json_int_t)json_number_value(json_object_get(per_step, category));
            if (is_forward)
                assert_int_equal(count_in(runs[i], "forward", category) + count_in(runs[i], "loss", category), count);
            else if (strcmp(category, "Opt State") != 0 && strcmp(category, "Gradient") != 0)
                assert_int_equal(integer_of(row, "per_step"), count);
            compared++;
        }
        assert_int_equal(compared, 14);
        json_decref(said);
    }
    json_decref(reference);
}

/* True if a cause of our own runs has its name here, too. For narrower tensors we only know that they got smaller. */
static void expect_cause(const json_t *diff, const json_t *expected)
{
    size_t i;
    const json_t *row;
    char name[128];
    const char *said = text_of(expected, "cause"), *halved = strstr(said, "halved");
    snprintf(name, sizeof name, "%.*s%s", halved != NULL ? (int)(halved - said) : (int)strlen(said), said,
             halved != NULL ? "smaller" : "");
    json_array_foreach(json_object_get(diff, "causes"), i, row) if (strcmp(text_of(row, "cause"), name) == 0)
    {
        assert_int_equal(integer_of(row, "bytes"), integer_of(expected, "bytes"));
        return;
    }
    fail_msg("no cause: %s", name);
}

/* Autocast grows by the causes of our own runs, byte for byte. Rounding differs by the places of free pieces. */
static void a_diff_gives_the_causes_of_our_own_runs(void **state)
{
    (void)state;
    json_t *theirs = json_of(MEMTRACE("diff fp32 autocast --trace theirs.db --json"));
    json_t *own = json_of(MEMTRACE("diff fp32 autocast --trace own.db --json"));
    json_t *causes = json_object_get(own, "causes");
    size_t i;
    const json_t *row;
    assert_int_equal(json_array_size(causes), 13);
    assert_int_equal(json_array_size(json_object_get(theirs, "causes")), 13);
    json_array_foreach(causes, i, row) if (strncmp(text_of(row, "cause"), "rounding", 8) != 0)
        expect_cause(theirs, row);
    json_decref(theirs);
    json_decref(own);
}

/* A step of a run, event by event: requests and frees with their phases and labels. */
static void our_own_step_is_theirs_event_by_event(void **state)
{
    (void)state;
    for (int run = 1; run <= 2; run++) {
        char sql[600];
        snprintf(sql, sizeof sql,
                 "SELECT event.kind, event.requested_bytes, phase, category"
                 " FROM event JOIN step ON step.run = %d AND step.number = 3"
                 " LEFT JOIN label ON label.id = event.label AND label.run = %d"
                 " WHERE event.id BETWEEN first_event AND last_event AND event.kind IN (2, 3) ORDER BY event.id",
                 run, run);
        assert_int_equal(expect_same("theirs.db", sql, "own.db", sql), run == 1 ? 8698 : 10504);
    }
}

/* A snapshot has no batch, so the batch is not known to differ. The allocator is in both, and the same. */
static void what_an_import_does_not_say_is_unknown(void **state)
{
    (void)state;
    json_t *diff = json_of(MEMTRACE("diff theirs.db:fp32 own.db:fp32 --json"));
    assert_int_equal(json_array_size(json_object_get(diff, "settings")), 0);
    assert_true(json_array_size(json_object_get(diff, "unknown_settings")) > 10);
    json_decref(diff);
}

static void every_question_has_an_answer(void **state)
{
    (void)state;
    static const char *const questions[] = {"runs",
                                            "peak",
                                            "top 5",
                                            "categories",
                                            "events --step 1",
                                            "steps",
                                            "diff",
                                            "advise",
                                            "kernels",
                                            "timeline -o page.html",
                                            "check --max-allocated 64GiB --run fp32",
                                            "export stacks",
                                            "export peaks"};
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++)
        expect_success(shell("\"$M\" %s --trace theirs.db", questions[i]));
    assert_int_equal(MEMTRACE("check --max-allocated 63GiB --run fp32 --trace theirs.db")->code, 1);
}

/* A replay of PyTorch's rules gives PyTorch's own peak, so its predictions of a change can be trusted. */
static void advice_finds_gradients_that_live_through_forward(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("advise --trace theirs.db --run fp32");
    expect_success(said);
    assert_says(said->out, "gradients stay allocated during the next forward");
    assert_says(said->out, "replayed  63.36 GiB  63.49 GiB  66.15 GiB");
}

/* It has none of the options of memtrace run. */
static void advice_to_pytorch_is_in_its_words(void **state)
{
    (void)state;
    static const char *const extents[] = {"", "--all"};
    for (size_t i = 0; i < 2; i++) {
        const struct said *said = shell("\"$M\" advise --trace theirs.db --run autocast %s", extents[i]);
        expect_success(said);
        assert_says(said->out, "\n→ in PyTorch, optimizer.zero_grad(set_to_none=True)");
        assert_null(strstr(said->out, "memtrace run"));
        assert_null(strstr(said->out, "--impl"));
        assert_null(strstr(said->out, "--weight-cast"));
    }
}

/* The snapshot says whether its segments grew: here the same one with another setting. */
static void expandable_segments_are_for_who_has_none(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("advise --all --trace theirs.db --run fp32");
    assert_says(said->out, "expandable_segments:True");
    sqlite3 *trace;
    expect_success(shell("cp theirs.db grown.db"));
    assert_int_equal(sqlite3_open("grown.db", &trace), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(trace, "UPDATE setting SET value = 'on' WHERE name = 'expandable_segments'", NULL, NULL, NULL),
        SQLITE_OK);
    assert_true(sqlite3_changes(trace) > 0);
    sqlite3_close(trace);
    said = MEMTRACE("advise --all --trace grown.db --run fp32");
    expect_success(said);
    assert_null(strstr(said->out, "CONF=expandable_segments:True"));
    assert_says(said->out, "policy=torch,expandable_segments=on");
}

static void rules_of_a_user_come_first(void **state)
{
    (void)state;
    expect_success(shell("printf '%%s\\n' 'function=softmax -> category=\"My softmax\" role=temporary' >mine.rules"));
    expect_success(MEMTRACE("import " REFERENCE("fp32") " --rules mine.rules --trace rules.db"));
    json_t *said = json_of(MEMTRACE("categories --trace rules.db --json"));
    assert_int_equal(integer_of(find_row(json_object_get(said, "rows"), "My softmax"), "max_bytes"),
                     67108864); /* backward's too */
    json_decref(said);
    expect_success(shell("echo 'file=x -> category' >mine.rules"));
    const struct said *refused = MEMTRACE("import " REFERENCE("fp32") " --rules mine.rules --trace rules.db");
    assert_int_equal(refused->code, MT_USAGE);
    assert_says(refused->err, "mine.rules, line 1");
    refused = MEMTRACE("import " REFERENCE("fp32") " --rules none.rules --trace rules.db");
    assert_int_equal(refused->code, MT_FAILED);
    assert_says(refused->err, "can't open none.rules");
    assert_null(strstr(refused->err, "--trace")); /* the trace's place does not matter */
}

/* Checks that the import names the device that it chose, and says what to do if nothing was recorded. */
static void what_is_not_in_the_run_is_told(void **state)
{
    (void)state;
    static const char event[] = "{\"action\":\"alloc\",\"addr\":512,\"size\":512}";
    expect_success(shell("printf '{\"segments\":[],\"device_traces\":[[%s],[%s,%s],[]]}' >cards.json;"
                         " echo '{\"segments\":[],\"device_traces\":[[]]}' >none.json",
                         event, event, event));
    const struct said *said = MEMTRACE("import cards.json --trace cards.db");
    assert_says(said->out, "That is device 1 alone: 1 more event of the file is about other devices");
    json_t *json = json_of(MEMTRACE("import cards.json --trace cards.db --device 2 --json"));
    assert_int_equal(integer_of(json, "device"), 2);
    assert_int_equal(integer_of(json, "elsewhere"), 3);
    json_decref(json);
    expect_success(shell("echo '{\"segments\":[{\"device\":1,\"address\":2097152,\"total_size\":2097152,\"stream\":0,"
                         "\"blocks\":[]}],\"device_traces\":[[{\"action\":\"snapshot\"}],[]]}' >marker.json"));
    json = json_of(MEMTRACE("import marker.json --trace cards.db --json"));
    assert_int_equal(integer_of(json, "device"), 1); /* a marker is no event of memory */
    json_decref(json);
    said = MEMTRACE("import marker.json --trace cards.db --device 0");
    assert_says(said->out, "about other devices, where 2.00 MiB are reserved");
    said = MEMTRACE("import none.json --trace cards.db");
    assert_says(said->out, "No events were recorded");
    assert_says(said->out, "_record_memory_history");
}

/* A megabyte of gzip that grows to a thousand, and a file without an end. */
static void what_would_take_too_much_memory_is_refused(void **state)
{
    (void)state;
    assert_int_equal(shell("head -c 400000000 /dev/zero | gzip > zeros.gz")->code, 0);
    const struct said *said = MEMTRACE("import zeros.gz --memory 64MiB --trace large.db");
    assert_int_equal(said->code, 3);
    assert_says(said->err,
                "needs more than 64.00 MiB of memory, the most that an import may take; --memory SIZE allows more");
    said = MEMTRACE("import /dev/zero --memory 64MiB --trace large.db");
    assert_int_equal(said->code, 3);
    assert_says(said->err, "needs more than 64.00 MiB");
    /* a pickle that refers to one event a million times, in two bytes each */
    said = shell("python3 -c \"import pickle; e = {'action': 'alloc', 'addr': 4096, 'size': 512, 'stream': 0};"
                 " pickle.dump({'segments': [], 'device_traces': [[e] * 1000000]}, open('same.pickle', 'wb'))\""
                 " && \"$M\" import same.pickle --trace large.db");
    assert_int_equal(said->code, 3);
    assert_says(said->err, "the most that an import may take; --memory SIZE allows more");
    assert_int_equal(shell("test -e large.db")->code, 1);
}

/* A file that can't be imported is named, and adds no run. */
static void what_is_none_of_them_is_refused(void **state)
{
    (void)state;
    static const char *const makes[] = {"echo hello",
                                        "echo '{}'",
                                        "echo '{\"segments\":[],\"device_traces\":5}'",
                                        "printf 'Thread,Time,Action,Pointer,Size,Stream\\n1,x,free,0x1,5,0\\n'",
                                        "printf 'Thread,Time,Action,Pointer,Size,Stream\\n1,1:2:3.5,walk,0x1,5,0\\n'",
                                        "printf 'SQLite format 3\\0 and nothing'",
                                        "cat own.db",
                                        "cat own.db | gzip",
                                        "true",
                                        "gzip -c out.txt | head -c 15"};
    for (size_t i = 0; i < sizeof makes / sizeof makes[0]; i++) {
        expect_success(shell("%s >none; rm -f none.db*", makes[i]));
        const struct said *said = MEMTRACE("import none --trace none.db");
        if (said->code != MT_BAD_TRACE)
            fail_msg("%s: exit code %d: %s", makes[i], said->code, said->err);
        assert_says(said->err, "none");
        assert_int_not_equal(access("none.db", F_OK), 0);
    }
    assert_int_equal(MEMTRACE("import")->code, MT_USAGE);
    assert_int_equal(MEMTRACE("import not-there --trace none.db")->code, MT_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_events_are_accounted_for),
        cmocka_unit_test(activations_lie_in_modules),
        cmocka_unit_test(hardly_a_byte_has_no_category),
        cmocka_unit_test(categories_are_those_that_were_measured),
        cmocka_unit_test(a_diff_gives_the_causes_of_our_own_runs),
        cmocka_unit_test(our_own_step_is_theirs_event_by_event),
        cmocka_unit_test(what_an_import_does_not_say_is_unknown),
        cmocka_unit_test(every_question_has_an_answer),
        cmocka_unit_test(advice_finds_gradients_that_live_through_forward),
        cmocka_unit_test(advice_to_pytorch_is_in_its_words),
        cmocka_unit_test(expandable_segments_are_for_who_has_none),
        cmocka_unit_test(rules_of_a_user_come_first),
        cmocka_unit_test(what_is_not_in_the_run_is_told),
        cmocka_unit_test(what_would_take_too_much_memory_is_refused),
        cmocka_unit_test(what_is_none_of_them_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
