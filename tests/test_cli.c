/* The program from outside: exit codes, what goes where, JSON that parses and has the keys that others rely on. */
#include "base/status.h"
#include "program.h"

#include <dlfcn.h>
#include <sqlite3.h>

/* A model that runs in no time. */
#define TINY "run --vocab 64 --d-model 16 --d-ff 32 --layers 3 --heads 2 --seq 8 --batch 2 "

static size_t count_lines(const char *text)
{
    size_t lines = 0;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

/* Whether every row has these keys, and there is a row. */
static void assert_rows(const json_t *object, size_t count, const char *const *keys)
{
    const json_t *rows = json_object_get(object, "rows");
    assert_true(json_array_size(rows) > 0);
    for (size_t i = 0; i < json_array_size(rows); i++)
        for (size_t key = 0; key < count; key++)
            if (json_object_get(json_array_get(rows, i), keys[key]) == NULL)
                fail_msg("row %zu has no %s", i, keys[key]);
}

#define ASSERT_ROWS(object, ...)                                                                                       \
    do {                                                                                                               \
        static const char *const keys[] = {__VA_ARGS__};                                                               \
        assert_rows(object, sizeof keys / sizeof keys[0], keys);                                                       \
    } while (0)

/* Every test in a folder of its own, with a trace of two runs. */
static int set_up(void **state)
{
    *state = enter_folder("test_cli");
    assert_int_equal(MEMTRACE(TINY "--device sim --steps 2 --name first")->code, 0);
    assert_int_equal(MEMTRACE(TINY "--device cpu --mode fwd_bwd --name second --init reference --data reference")->code,
                     0);
    return 0;
}

static void every_command_explains_itself_with_examples(void **state)
{
    (void)state;
    static const char *const commands[] = {"run",    "sweep", "fit",   "runs", "peak",    "top", "categories",
                                           "events", "used",  "steps", "sql",  "version", "help"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        const struct said *said = shell("\"$M\" %s --help", commands[i]);
        assert_int_equal(said->code, 0);
        assert_string_equal(said->err, "");
        assert_true(strcspn(said->out, ".\n") == strcspn(said->out, ".")); /* the first line is a sentence */
        assert_says(said->out, "Examples:\n  memtrace ");
        assert_says(shell("\"$M\" help %s", commands[i])->out, "Examples:");
        assert_says(MEMTRACE("")->out, commands[i]);
    }
}

/* Runs the lines under "Examples:" of each command, as printed; the programs that they name do nothing, and the
 * snapshots are our own. */
static void the_examples_work(void **state)
{
    (void)state;
    const struct said *said =
        shell("PATH=$PWD:$PATH; ln -s \"$M\" memtrace; set -e;"
              " for program in python3 simulate; do echo '#!/bin/sh' >$program; chmod +x $program; done;"
              " for name in snapshot.pickle before.pickle.gz after.pickle.gz; do"
              "   memtrace export --run first --format pickle -o $name; done; echo '# none' >mine.rules;"
              " for c in $(memtrace help | sed -n 's/^  \\([a-z]*\\)  .*/\\1/p'); do"
              "   memtrace $c --help | sed '1,/^Examples:/d' >examples.sh; echo; echo $c $(wc -l <examples.sh);"
              "   sh -e examples.sh >examples.txt;"
              " done");
    if (said->code != 0)
        fail_msg("%s\n%s", said->out, said->err);
    assert_says(said->out, "categories 3");
}

static void unknown_words_are_wrong_usage_with_the_nearest_and_the_list(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *nearest;
        int code;
    } cases[] = {
        {"pek", "\"peak\"", MT_USAGE},
        {"run --modell small", "\"--model\"", MT_USAGE},
        {"run --modl=2.7B", "\"--model\"", MT_USAGE},
        {"run --device smi", "\"sim\"", MT_NO_DEVICE},
        {"run --model 2.7b", "\"2.7B\"", MT_USAGE},
        {"run --mode forward", "fwd_bwd", MT_USAGE},
        {"run --autocast fp16", "\"bf16\"", MT_USAGE},
        {"run --matmul tf33", "\"tf32\"", MT_USAGE},
        {"run --device simm", "\"sim\"", MT_NO_DEVICE},
        {"run --device sim:h20", "\"h200\"", MT_NO_DEVICE},
        {"run --alloc polcy=torch", "\"policy\"", MT_USAGE},
        {"peak --run secnd", "\"second\"", MT_USAGE},
        {"categories --phase backwards", "\"backward\"", MT_USAGE},
        {"help toop", "\"top\"", MT_USAGE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("\"$M\" %s", cases[i].arguments);
        if (said->code != cases[i].code)
            fail_msg("%s: exit code %d: %s", cases[i].arguments, said->code, said->err);
        assert_string_equal(said->out, "");
        assert_says(said->err, cases[i].nearest);
        assert_says(said->err, "here are ");
    }
}

static void values_out_of_range_are_wrong_usage(void **state)
{
    (void)state;
    static const char *const cases[] = {"run --steps 0",
                                        "run --steps",
                                        "run --steps 1x",
                                        "run --batch -1",
                                        "run --heads 7",
                                        "run --json=yes",
                                        "run --seq 99999999999999999999",
                                        "top 0",
                                        "top ten",
                                        "top 1 2",
                                        "events --step -1",
                                        "events --step 99",
                                        "events --csv --json",
                                        "sql",
                                        "run --device sim:12parsecs"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("\"$M\" %s", cases[i]);
        bool refused = said->code == MT_USAGE || (said->code == MT_NO_DEVICE && strstr(cases[i], "--device") != NULL);
        if (!refused || said->out[0] != '\0' || said->err[0] == '\0')
            fail_msg("%s: exit code %d: %s", cases[i], said->code, said->err);
    }
}

static void what_is_said_names_what_could_be_meant(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"run --device sim:24GX", "\"24GX\" is not a size"},
        {"run --device sim:24GX", "or name a card"},
        {"run --model nope.json", "nope.json: "},
        {"run --device sim --data .", "no regular file"},
        {"run --device sim --data /dev/zero", "no regular file"},
        {"run --device sim --name ''", "--name"},
        {"run --device sim --name 12", "--name"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("\"$M\" %s", cases[i][0]);
        assert_int_not_equal(said->code, 0);
        assert_says(said->err, cases[i][1]);
        assert_null(strstr(said->err, "line -1"));
    }
}

static void a_run_without_a_block_has_no_peak(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("run --device sim:2MiB --model small --trace none.db");
    assert_int_equal(said->code, MT_OUT_OF_MEMORY);
    assert_says(said->out, "-     -      -        -\n");
    assert_null(strstr(said->out, "init"));
}

static void hints_quote_the_path_for_a_shell(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE(TINY "--device sim --trace \"it's my.db\"");
    assert_says(said->out, "top 10 --at peak --trace 'it'\\''s my.db' ");
    assert_says(MEMTRACE(TINY "--device sim --trace my.db")->out, "top 10 --at peak --trace my.db ");
    /* What a terminal would obey is spelled, and still the same word. */
    said = shell("name=$(printf 'a\\033[31m'\\''b.db'); \"$M\" " TINY "--device sim --trace \"$name\"");
    assert_says(said->out, "top 10 --at peak --trace $'a\\x1b[31m\\'b.db' ");
}

static void run_tells_what_it_found(void **state)
{
    (void)state;
    json_t *run = json_of(MEMTRACE(TINY "--device cpu --json --warmup 1 --steps 2 --trace other.db"));
    assert_schema(run, "memtrace.run/1");
    assert_int_equal(integer_of(run, "run"), 1);
    assert_string_equal(json_string_value(json_object_get(run, "device")), "cpu");
    assert_int_equal(json_array_size(json_object_get(run, "losses")), 3);
    assert_int_equal(json_array_size(json_object_get(run, "step_ms")), 2);
    assert_int_equal(json_array_size(json_object_get(run, "wall_ms")), 2);
    assert_true(json_real_value(json_array_get(json_object_get(run, "wall_ms"), 1)) > 0);
    assert_true(json_real_value(json_array_get(json_object_get(run, "losses"), 0)) > 0);
    const json_t *norms = json_object_get(run, "grad_norms");
    assert_int_equal(json_object_size(norms), 3 + 9 * 3);
    assert_true(json_real_value(json_object_get(norms, "layers.2.ffn.w2.weight")) > 0);
    assert_true(integer_of(run, "events") > 0);
    const json_t *peak = json_object_get(run, "peak");
    assert_true(integer_of(peak, "allocated_bytes") >= integer_of(peak, "requested_bytes"));
    assert_true(integer_of(peak, "reserved_bytes") >= integer_of(peak, "allocated_bytes"));
    assert_true(json_array_size(json_object_get(peak, "by_category")) > 5);
    json_decref(run);
}

static void a_loss_that_was_not_computed_is_absent(void **state)
{
    (void)state;
    assert_says(MEMTRACE(TINY "--device sim")->out, "not computed");
    json_t *run = json_of(MEMTRACE(TINY "--device sim --json"));
    const json_t *losses = json_object_get(run, "losses");
    assert_int_equal(json_array_size(losses), 3);
    assert_true(json_is_null(json_array_get(losses, 0)));
    assert_int_equal(json_array_size(json_object_get(run, "wall_ms")), 0);
    json_decref(run);
}

static void a_run_without_a_trace_leaves_none(void **state)
{
    (void)state;
    json_t *traced = json_of(MEMTRACE(TINY "--device sim --json --trace a.db"));
    json_t *untraced = json_of(MEMTRACE(TINY "--device sim --json --no-trace --trace b.db"));
    assert_int_equal(access("b.db", F_OK), -1);
    static const char *const keys[] = {"allocated_bytes", "requested_bytes", "reserved_bytes"};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(integer_of(json_object_get(traced, "peak"), keys[i]),
                         integer_of(json_object_get(untraced, "peak"), keys[i]));
    assert_true(json_is_null(json_object_get(untraced, "run")));
    json_decref(traced);
    json_decref(untraced);
}

static void auto_takes_a_gpu_or_says_that_nothing_is_executed(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE(TINY "--json");
    bool is_noted = strstr(said->err, "nothing is executed") != NULL;
    json_t *run = json_of(said);
    const char *device = json_string_value(json_object_get(run, "device"));
    assert_int_equal(strncmp(device, is_noted ? "sim" : "cuda", 3), 0);
    json_decref(run);
}

static void kernels_that_can_not_be_watched_leave_a_note_and_the_run(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE(TINY "--device cpu --kernels --json");
    assert_says(said->err, "without records of kernels");
    json_decref(json_of(said));
    assert_string_equal(MEMTRACE("sql --csv \"SELECT value FROM setting WHERE run = :run AND name = 'kernels'\"")->out,
                        "value\noff\n");
}

/* They are read back from the device, which takes long where it is large. */
static void gradients_are_read_back_only_for_json(void **state)
{
    (void)state;
#define COUNT_NORMS "sql --csv \"SELECT count(*) AS n FROM measurement WHERE run = :run AND name LIKE 'grad_norm:%%'\""
    assert_string_equal(MEMTRACE(COUNT_NORMS)->out, "n\n0\n");
    assert_int_equal(MEMTRACE(TINY "--device cpu --json --no-grad-norms")->code, 0);
    assert_string_equal(MEMTRACE(COUNT_NORMS)->out, "n\n0\n");
    assert_int_equal(MEMTRACE(TINY "--device cpu --json")->code, 0);
    assert_string_equal(MEMTRACE(COUNT_NORMS)->out, "n\n30\n");
}

static void steps_tells_times_without_warmup_run_by_run(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE(TINY "--device cpu --warmup 2 --steps 3")->code, 0);
    json_t *steps = json_of(MEMTRACE("steps --json"));
    assert_schema(steps, "memtrace.steps/1");
    ASSERT_ROWS(steps, "run", "name", "state", "device", "model", "batch", "seq", "mode", "precision", "warmup",
                "estimated", "ms", "oom");
    const json_t *rows = json_object_get(steps, "rows"), *last = json_array_get(rows, 2);
    assert_int_equal(json_array_size(rows), 3);
    assert_true(json_is_true(json_object_get(json_array_get(rows, 0), "estimated")));
    assert_true(json_is_false(json_object_get(last, "estimated")));
    static const char *const parts[] = {"forward", "loss", "backward", "optimizer", "step"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const json_t *ms = json_object_get(json_object_get(last, "ms"), parts[i]);
        assert_int_equal(integer_of(ms, "count"), 3);
        assert_true(json_real_value(json_object_get(ms, "min")) <= json_real_value(json_object_get(ms, "median")));
        assert_true(json_real_value(json_object_get(ms, "mean")) <= json_real_value(json_object_get(ms, "max")));
    }
    json_decref(steps);
    assert_says(MEMTRACE("steps")->out, " ± ");
    assert_says(MEMTRACE("steps")->out, "Times on sim are estimates");
    assert_null(strstr(MEMTRACE("steps --run 3")->out, "estimates"));
    assert_int_equal(count_lines(MEMTRACE("steps --run 3 --full")->out), 1 + 5);
}

static void steps_of_a_run_without_memory_are_oom(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("run --device sim:1GiB --model small --steps 1 --trace oom.db")->code, MT_OUT_OF_MEMORY);
    assert_says(MEMTRACE("steps --trace oom.db")->out, "OOM: ");
    json_t *steps = json_of(MEMTRACE("steps --trace oom.db --json"));
    const json_t *oom = json_object_get(json_array_get(json_object_get(steps, "rows"), 0), "oom");
    assert_true(integer_of(oom, "requested_bytes") > 0);
    assert_string_equal(json_string_value(json_object_get(oom, "phase")), "forward");
    json_decref(steps);
}

static json_int_t number_of(const char *trace, const char *sql)
{
    json_t *answer = json_of(shell("\"$M\" sql --trace %s --json \"%s\"", trace, sql));
    json_int_t number = json_integer_value(json_array_get(json_array_get(json_object_get(answer, "rows"), 0), 0));
    json_decref(answer);
    return number;
}

/* Of category einsum. */
static json_int_t products_per_step(const char *trace)
{
    json_t *answer = json_of(shell("\"$M\" categories --trace %s --json", trace));
    const json_t *rows = json_object_get(answer, "rows");
    json_int_t count = -1;
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(rows, i), "category")), "einsum") == 0)
            count = integer_of(json_array_get(rows, i), "per_step");
    json_decref(answer);
    return count;
}

/* The second step holds the optimizer's state from its beginning, so it needs more than the first. */
static void a_step_that_ran_out_of_memory_does_not_count_as_full(void **state)
{
    (void)state;
    static const char step_ends[] = "SELECT count(last_event) * 10 + count(*) FROM step";
    assert_int_equal(MEMTRACE("run --device sim --model small --seq 128 --steps 1 --trace whole.db")->code, 0);
    assert_int_equal(
        MEMTRACE("run --device sim:2500MiB --model small --seq 128 --warmup 0 --steps 3 --trace short.db")->code,
        MT_OUT_OF_MEMORY);
    assert_int_equal(number_of("short.db", step_ends), 12);
    assert_true(products_per_step("whole.db") > 0);
    assert_int_equal(products_per_step("short.db"), products_per_step("whole.db"));
    assert_int_equal(number_of("short.db", "SELECT count(*) FROM measurement WHERE name = 'step_ms' AND step = 1"), 0);
}

/* What a card's driver would have said, put where a run on a card puts it. */
static void add_driver_readings(void)
{
    static const char sql[] =
        "INSERT INTO measurement VALUES (2, 'memory:driver_used', 2, 1000), (2, 'memory:requested', 2, 600),"
        " (2, 'memory:allocated', 2, 640), (2, 'memory:reserved', 2, 700), (2, 'memory:context', 2, 250),"
        " (2, 'memory:library', 2, 60)";
    sqlite3 *trace;
    assert_int_equal(sqlite3_open("memtrace.db", &trace), SQLITE_OK);
    assert_int_equal(sqlite3_exec(trace, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(trace);
}

static void used_adds_up_to_the_drivers_figure(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("used");
    assert_int_equal(said->code, MT_USAGE);
    assert_says(said->err, "no driver");
    add_driver_readings();
    json_t *used = json_of(MEMTRACE("used --json"));
    assert_schema(used, "memtrace.used/1");
    ASSERT_ROWS(used, "name", "bytes", "share");
    const json_t *rows = json_object_get(used, "rows");
    json_int_t sum = 0;
    for (size_t i = 0; i < json_array_size(rows); i++)
        sum += integer_of(json_array_get(rows, i), "bytes");
    assert_int_equal(sum, integer_of(used, "used_bytes"));
    assert_int_equal(integer_of(used, "unexplained_bytes"), -10);
    assert_true(json_is_null(json_object_get(used, "card_free_bytes")));
    json_decref(used);
    assert_says(MEMTRACE("used")->out, "at the end of step 2");
    assert_says(MEMTRACE("used")->out, "-10 B   -1.00 %");
}

static void out_of_memory_exits_with_5_and_leaves_a_readable_trace(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("run --device sim:1GiB --model small --steps 1 --trace oom.db");
    assert_int_equal(said->code, MT_OUT_OF_MEMORY);
    assert_says(said->err, "out of device memory");
    json_t *runs = json_of(MEMTRACE("runs --trace oom.db --json"));
    const json_t *run = json_array_get(json_object_get(runs, "rows"), 0);
    assert_string_equal(json_string_value(json_object_get(run, "state")), "oom");
    json_t *peak = json_of(MEMTRACE("peak --trace oom.db --json"));
    assert_in_range(integer_of(peak, "reserved_bytes"), 900 << 20, 1 << 30);
    json_decref(peak);
    json_decref(runs);
}

/* Where there is a driver it can't be missed. */
static void a_driver_that_is_missing_is_named_and_exits_with_4(void **state)
{
    (void)state;
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver != NULL) {
        dlclose(driver);
        skip();
    }
    const struct said *said = MEMTRACE(TINY "--device cuda --trace none.db");
    assert_int_equal(said->code, MT_NO_DEVICE);
    assert_int_equal(said->code, 4);
    assert_says(said->err, "no NVIDIA driver");
    assert_says(said->err, "libcuda.so.1");
    assert_int_equal(access("none.db", F_OK), -1);
}

/* The same whether the run is traced or not, since the allocator tells it. */
static void out_of_memory_says_who_asked_and_what_was_live(void **state)
{
    (void)state;
    static const char run[] = "\"$M\" run --device sim:24GiB --model 2.7B --seq 256 %s";
    static const char *const parts[] = {
        "asked for 10.00 MiB (10485760 bytes) of einsum; 23.95 GiB are live",
        "\n  asked by    model.layers.28.ffn.w2 for einsum: einsum, temporary, in forward\n",
        "\n  live        23.95 GiB: Param 12.69 GiB, FFN 3.40 GiB, ",
        "\n  given back  nothing: no segment was idle\n",
    };
    static const char *const ways[] = {"--no-trace", "--trace oom.db"};
    for (size_t way = 0; way < sizeof ways / sizeof ways[0]; way++) {
        const struct said *said = shell(run, ways[way]);
        assert_int_equal(said->code, MT_OUT_OF_MEMORY);
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
            assert_says(said->err, parts[i]);
    }
}

static void every_setting_of_a_run_is_in_the_trace(void **state)
{
    (void)state;
    json_t *runs = json_of(MEMTRACE("runs --run second --json"));
    const json_t *settings = json_object_get(json_array_get(json_object_get(runs, "rows"), 0), "settings");
    static const char *const expected[][2] = {{"model", "custom"},   {"vocab", "64"},
                                              {"d_model", "16"},     {"d_ff", "32"},
                                              {"layers", "3"},       {"heads", "2"},
                                              {"rope", "off"},       {"batch", "2"},
                                              {"seq", "8"},          {"mode", "fwd_bwd"},
                                              {"autocast", "off"},   {"steps", "3"},
                                              {"matmul", "fp32"},    {"kernels", "off"},
                                              {"warmup", "0"},       {"seed", "0"},
                                              {"init", "reference"}, {"data", "reference"},
                                              {"impl", "eager"},     {"alloc", "policy=tight"},
                                              {"device", "cpu"},     {"zero_grad", "before-backward"}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const char *value = json_string_value(json_object_get(settings, expected[i][0]));
        assert_non_null(value);
        assert_string_equal(value, expected[i][1]);
    }
    json_decref(runs);
}

static void a_model_may_come_from_a_file(void **state)
{
    (void)state;
    const struct said *said = shell("echo '{\"vocab\": 32, \"d_model\": 8, \"d_ff\": 16, \"layers\": 1, \"heads\": 2,"
                                    " \"rope\": true}' >model.json; \"$M\" run --model model.json --layers 2 --seq 4"
                                    " --device sim --json --name from_file");
    json_decref(json_of(said));
    json_t *answer =
        json_of(MEMTRACE("sql --json \"SELECT group_concat(value) FROM setting WHERE run = :run AND name IN"
                         " ('d_model', 'layers', 'rope')\""));
    const json_t *row = json_array_get(json_object_get(answer, "rows"), 0);
    assert_string_equal(json_string_value(json_array_get(row, 0)), "8,2,on");
    json_decref(answer);
}

static void peak_sums_to_the_byte(void **state)
{
    (void)state;
    json_t *peak = json_of(MEMTRACE("peak --json --run first"));
    assert_schema(peak, "memtrace.peak/1");
    const json_t *shares = json_object_get(peak, "by_category");
    json_int_t sum = 0;
    for (size_t i = 0; i < json_array_size(shares); i++) {
        sum += integer_of(json_array_get(shares, i), "allocated_bytes");
        assert_true(integer_of(json_array_get(shares, i), "blocks") > 0);
    }
    assert_int_equal(sum, integer_of(peak, "allocated_bytes"));
    assert_true(integer_of(peak, "requested_bytes") <= sum);
    assert_true(integer_of(peak, "reserved_bytes") >= sum);
    assert_int_equal(integer_of(json_object_get(peak, "reserved"), "bytes"), integer_of(peak, "reserved_bytes"));
    json_decref(peak);
}

static void top_and_categories_have_the_promised_keys(void **state)
{
    (void)state;
    json_t *top = json_of(MEMTRACE("top 4 --json")), *each = json_of(MEMTRACE("top 4 --each --at peak --json"));
    assert_schema(top, "memtrace.top/1");
    ASSERT_ROWS(top, "bytes", "count", "category", "op", "phase", "span", "role", "dtype", "shape");
    ASSERT_ROWS(each, "bytes", "count", "category", "op", "phase", "span", "role", "dtype", "shape");
    assert_int_equal(json_array_size(json_object_get(top, "rows")), 4);
    json_t *categories = json_of(MEMTRACE("categories --json"));
    assert_schema(categories, "memtrace.categories/1");
    ASSERT_ROWS(categories, "category", "max_bytes", "per_step", "total_bytes");
    json_decref(categories);
    json_decref(top);
    json_decref(each);
}

static void no_line_of_a_table_ends_in_blanks(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("run --device sim --model small --seq 64 --steps 3")->code, 0);
    assert_int_equal(MEMTRACE("run --device sim --model small --seq 128 --steps 3")->code, 0);
    static const char *const commands[] = {"runs",       "peak",   "top",  "diff 1 2",
                                           "categories", "events", "used", "top --at peak --each",
                                           "steps",      "advise", "help", "sql 'SELECT name, NULL AS b FROM run'"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        const struct said *said = shell("\"$M\" %s | grep -n ' $'", commands[i]);
        if (said->out[0] != '\0')
            fail_msg("%s: %.200s", commands[i], said->out);
    }
}

static void events_are_the_same_as_table_csv_and_json(void **state)
{
    (void)state;
    json_t *events = json_of(MEMTRACE("events --step 1 --json"));
    assert_schema(events, "memtrace.events/1");
    ASSERT_ROWS(events, "n", "action", "id", "bytes", "category", "op", "phase", "span");
    size_t count = json_array_size(json_object_get(events, "rows"));
    const char *csv = MEMTRACE("events --step 1 --csv")->out;
    assert_int_equal(strncmp(csv, "n,action,id,bytes,category,op,phase,span\n0,alloc,", 49), 0);
    assert_int_equal(count_lines(csv), count + 1);
    assert_int_equal(count_lines(MEMTRACE("events --step 1 --run second")->out), count + 1);
    json_decref(events);
}

static void sql_reads_and_does_not_write(void **state)
{
    (void)state;
    json_t *answer = json_of(MEMTRACE("sql --json 'SELECT id, name, NULL, 0.5 FROM run'"));
    assert_schema(answer, "memtrace.sql/1");
    assert_int_equal(json_array_size(json_object_get(answer, "columns")), 4);
    assert_int_equal(json_array_size(json_object_get(answer, "rows")), 2);
    json_decref(answer);
    assert_string_equal(MEMTRACE("sql --csv \"SELECT 1 AS a, 'x,y' AS b\"")->out, "a,b\n1,\"x,y\"\n");
    assert_int_equal(MEMTRACE("sql 'SELECT 1 AS \"\"'")->code, 0);
    assert_string_equal(MEMTRACE("sql \"SELECT 1 AS number, 'x' AS text\"")->out, "number  text\n     1  x\n");
    assert_says(MEMTRACE("sql --csv \"SELECT name FROM pragma_table_info('run')\"")->out, "name\nid\n");
    assert_string_equal(MEMTRACE("sql --csv \"SELECT sum(value) AS s FROM json_each('[1,2]')\"")->out, "s\n3\n");
    assert_says(MEMTRACE("sql 'SELECT * FROM pragma_journal_mode'")->err, "only statements that read");
    assert_says(MEMTRACE("sql \"UPDATE sqlite_master SET sql = ''\"")->err, "memtrace: ");
    const struct said *said = MEMTRACE("sql 'DELETE FROM event'");
    assert_int_equal(said->code, MT_USAGE);
    assert_says(said->err, "only statements that read");
    assert_true(count_lines(MEMTRACE("events --run first")->out) > 100);
}

static void the_title_says_which_implementation_ran(void **state)
{
    (void)state;
    assert_says(MEMTRACE(TINY "--device sim --no-trace")->out, "parameters), eager, batch 2");
    assert_says(MEMTRACE(TINY "--device sim --no-trace --impl fused")->out, "parameters), fused, batch 2");
}

/* In backward, where that updates parameters. */
static void the_optimizers_state_is_counted_wherever_it_was_made(void **state)
{
    (void)state;
    static const char *const runs[] = {"off", "on"};
    for (int run = 0; run < 2; run++) {
        assert_int_equal(shell("\"$M\" " TINY "--device sim --impl fused --optimizer-in-backward %s", runs[run])->code,
                         0);
        json_t *answer = json_of(MEMTRACE("categories --json")), *row;
        size_t i, found = 0;
        json_array_foreach(json_object_get(answer, "rows"), i, row)
        {
            found += strcmp(text_of(row, "category"), "Opt State") == 0;
        }
        assert_int_equal(found, 1);
        json_decref(answer);
    }
}

static void names_from_a_trace_do_not_reach_a_terminal_raw(void **state)
{
    (void)state;
    assert_int_equal(shell("\"$M\" " TINY "--device sim --name \"$(printf 'a\\033[31mb\\302\\233c\\377d')\"")->code, 0);
    assert_says(MEMTRACE("runs")->out, "a\\x1b[31mb\\xc2\\x9bc\\xffd");
    json_t *runs = json_of(MEMTRACE("runs --json"));
    const json_t *run = json_array_get(json_object_get(runs, "rows"), 2);
    assert_string_equal(json_string_value(json_object_get(run, "name")), "a\033[31mb\302\233c\357\277\275d");
    json_decref(runs);
}

static void what_is_no_trace_exits_with_3(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("peak --trace missing.db");
    assert_int_equal(said->code, MT_BAD_TRACE);
    assert_says(said->err, "memtrace run --trace missing.db");
    assert_int_equal(shell("echo no trace >text.db; \"$M\" peak --trace text.db")->code, MT_BAD_TRACE);
    assert_int_equal(shell("head -c 20000 memtrace.db >cut.db; \"$M\" events --trace cut.db")->code, MT_BAD_TRACE);
}

static void a_reader_who_leaves_is_no_failure_and_a_full_disk_is_one(void **state)
{
    (void)state;
    const struct said *said = shell("{ \"$M\" events; echo $? >&2; } | head -n 1");
    assert_string_equal(said->err, "0\n");
    assert_int_equal(count_lines(said->out), 1);
    assert_int_equal(shell("\"$M\" peak >/dev/full")->code, MT_FAILED);
    assert_int_equal(shell("\"$M\" peak >&-")->code, MT_FAILED);
}

/* A run with its stdout closed must not write its answer into a file that got its number. */
static void a_closed_stdout_does_not_damage_the_trace(void **state)
{
    (void)state;
    assert_int_equal(shell("\"$M\" " TINY "--device sim --trace closed.db >&- 2>&-")->code, MT_FAILED);
    assert_string_equal(MEMTRACE("sql --trace closed.db --csv 'PRAGMA integrity_check'")->out, "integrity_check\nok\n");
}

static void ctrl_c_leaves_a_trace_that_can_be_read(void **state)
{
    (void)state;
    const struct said *said = shell("\"$M\" run --device sim --model small --steps 100000 --trace cut_off.db"
                                    " & pid=$!; sleep 0.5; kill -TERM $pid; wait $pid");
    assert_int_equal(said->code, 128 + 15);
    json_t *runs = json_of(MEMTRACE("runs --json --trace cut_off.db"));
    const json_t *run = json_array_get(json_object_get(runs, "rows"), 0);
    assert_string_equal(json_string_value(json_object_get(run, "state")), "interrupted");
    assert_true(integer_of(run, "events") > 1000);
    json_t *peak = json_of(MEMTRACE("peak --json --trace cut_off.db"));
    assert_true(integer_of(peak, "allocated_bytes") > 0);
    json_decref(peak);
    json_decref(runs);
}

int main(void)
{
#define CLI_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, leave_folder)
    const struct CMUnitTest tests[] = {
        CLI_TEST(every_command_explains_itself_with_examples),
        CLI_TEST(the_examples_work),
        CLI_TEST(unknown_words_are_wrong_usage_with_the_nearest_and_the_list),
        CLI_TEST(values_out_of_range_are_wrong_usage),
        CLI_TEST(what_is_said_names_what_could_be_meant),
        CLI_TEST(a_run_without_a_block_has_no_peak),
        CLI_TEST(hints_quote_the_path_for_a_shell),
        CLI_TEST(run_tells_what_it_found),
        CLI_TEST(a_loss_that_was_not_computed_is_absent),
        CLI_TEST(a_run_without_a_trace_leaves_none),
        CLI_TEST(auto_takes_a_gpu_or_says_that_nothing_is_executed),
        CLI_TEST(kernels_that_can_not_be_watched_leave_a_note_and_the_run),
        CLI_TEST(gradients_are_read_back_only_for_json),
        CLI_TEST(steps_tells_times_without_warmup_run_by_run),
        CLI_TEST(steps_of_a_run_without_memory_are_oom),
        CLI_TEST(a_step_that_ran_out_of_memory_does_not_count_as_full),
        CLI_TEST(a_driver_that_is_missing_is_named_and_exits_with_4),
        CLI_TEST(used_adds_up_to_the_drivers_figure),
        CLI_TEST(out_of_memory_exits_with_5_and_leaves_a_readable_trace),
        CLI_TEST(out_of_memory_says_who_asked_and_what_was_live),
        CLI_TEST(every_setting_of_a_run_is_in_the_trace),
        CLI_TEST(a_model_may_come_from_a_file),
        CLI_TEST(peak_sums_to_the_byte),
        CLI_TEST(top_and_categories_have_the_promised_keys),
        CLI_TEST(events_are_the_same_as_table_csv_and_json),
        CLI_TEST(no_line_of_a_table_ends_in_blanks),
        CLI_TEST(sql_reads_and_does_not_write),
        CLI_TEST(the_title_says_which_implementation_ran),
        CLI_TEST(the_optimizers_state_is_counted_wherever_it_was_made),
        CLI_TEST(names_from_a_trace_do_not_reach_a_terminal_raw),
        CLI_TEST(what_is_no_trace_exits_with_3),
        CLI_TEST(a_reader_who_leaves_is_no_failure_and_a_full_disk_is_one),
        CLI_TEST(a_closed_stdout_does_not_damage_the_trace),
        CLI_TEST(ctrl_c_leaves_a_trace_that_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
