/* memtrace oom: what it says of a run that ended out of memory is what the trace's events add up to, and what it claims
 * would have sufficed does. */
#include "program.h"

#include "alloc/alloc.h"
#include "base/random.h"
#include "seed.h"
#include "trace/store/recorder.h"

#include <inttypes.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

/* A model of some hundred MiB. */
#define SIZES "--vocab 1000 --d-model 256 --d-ff 1024 --layers 4 --heads 4 --seq 128 --batch 8 "

static int set_up(void **state)
{
    *state = enter_folder("test_oom");
    assert_int_equal(shell("ln -s \"$M\" memtrace")->code, 0);
    return 0;
}

/* The one number that a query answers with. */
static json_int_t number_of(const char *query)
{
    json_t *answer = json_of(shell("\"$M\" sql --json \"%s\"", query));
    json_t *row = json_array_get(json_object_get(answer, "rows"), 0);
    json_int_t number = json_integer_value(json_array_get(row, 0));
    json_decref(answer);
    return number;
}

static json_int_t sum_of(const json_t *object, const char *rows, const char *key)
{
    json_int_t sum = 0;
    const json_t *row;
    size_t i;
    json_array_foreach(json_object_get(object, rows), i, row)
    {
        sum += integer_of(row, key);
    }
    return sum;
}

/* Rows are ordered by what they hold. */
static void check_order(const json_t *object, const char *rows, const char *key)
{
    const json_t *list = json_object_get(object, rows);
    for (size_t i = 1; i < json_array_size(list); i++)
        assert_true(integer_of(json_array_get(list, i - 1), key) >= integer_of(json_array_get(list, i), key));
}

static void check_sums(const json_t *answer)
{
    const json_t *memory = json_object_get(answer, "memory"), *asked = json_object_get(answer, "asked");
    json_int_t allocated = integer_of(memory, "allocated_bytes"), reserved = integer_of(memory, "reserved_bytes");
    assert_int_equal(sum_of(answer, "by_category", "allocated_bytes"), allocated);
    assert_int_equal(sum_of(answer, "by_place", "allocated_bytes"), allocated);
    assert_int_equal(sum_of(answer, "by_category", "blocks"), sum_of(answer, "by_place", "blocks"));
    assert_int_equal(sum_of(answer, "holes", "bytes"), integer_of(memory, "hole_bytes"));
    assert_int_equal(sum_of(answer, "holes", "count"), integer_of(memory, "hole_count"));
    assert_int_equal(reserved, allocated + integer_of(memory, "hole_bytes"));
    assert_int_equal(integer_of(memory, "left_bytes"), integer_of(memory, "capacity_bytes") - reserved);
    assert_int_equal(integer_of(memory, "short_bytes"),
                     integer_of(asked, "segment_bytes") - integer_of(memory, "left_bytes"));
    assert_true(integer_of(memory, "short_bytes") > 0);
    check_order(answer, "by_category", "allocated_bytes");
    check_order(answer, "by_place", "allocated_bytes");
}

/* Checks the answer against sums over the events of the newest run. Kinds: 0 map, 1 unmap, 2 alloc, 3 free, 4 oom. */
static void check_events(const json_t *answer)
{
    const json_t *memory = json_object_get(answer, "memory"), *asked = json_object_get(answer, "asked");
#define UNTIL "(SELECT max(id) FROM event WHERE kind = 4)"
    json_int_t event = number_of("SELECT max(id) FROM event WHERE kind = 4");
    assert_int_equal(integer_of(asked, "event"), event);
    assert_int_equal(integer_of(asked, "requested_bytes"),
                     number_of("SELECT requested_bytes FROM event WHERE id = " UNTIL));
    assert_int_equal(integer_of(memory, "allocated_bytes"),
                     number_of("SELECT sum(CASE kind WHEN 2 THEN block_bytes ELSE -block_bytes END) FROM event"
                               " WHERE kind IN (2, 3) AND id < " UNTIL
                               " AND id >= (SELECT max(first_event) FROM run)"));
    assert_int_equal(integer_of(memory, "reserved_bytes"),
                     number_of("SELECT sum(CASE kind WHEN 0 THEN block_bytes ELSE -block_bytes END) FROM event"
                               " WHERE kind IN (0, 1) AND id < " UNTIL
                               " AND id >= (SELECT max(first_event) FROM run)"));
}

/* That every change that was simulated is one with which the program runs, with the peak that is told. Returns how many
 * there were. */
static size_t check_simulated(const json_t *answer)
{
    size_t count = 0, i;
    const json_t *change;
    json_array_foreach(json_object_get(answer, "changes"), i, change)
    {
        if (strcmp(text_of(change, "proof"), "simulation") != 0)
            continue;
        json_t *run = json_of(shell("PATH=$PWD:$PATH; %s --no-trace --json", text_of(change, "command")));
        assert_int_equal(integer_of(json_object_get(run, "peak"), "reserved_bytes"),
                         integer_of(change, "reserved_bytes"));
        assert_true(integer_of(change, "room_bytes") >= 0);
        json_decref(run);
        count++;
    }
    return count;
}

/* Runs out of memory, asks why and checks the answer, which is the caller's. */
static json_t *ask_about(const char *options)
{
    const struct said *said = shell("rm -f memtrace.db*; \"$M\" run %s", options);
    if (said->code != MT_OUT_OF_MEMORY)
        fail_msg("ends with %d: %s", said->code, options);
    assert_says(said->err, "memtrace oom, which says why");
    json_t *answer = json_of(MEMTRACE("oom --json"));
    assert_schema(answer, "memtrace.oom/2");
    check_sums(answer);
    check_events(answer);
    return answer;
}

/* Of the first change; NULL: there is none. */
static const char *first_proof(const json_t *answer)
{
    const json_t *change = json_array_get(json_object_get(answer, "changes"), 0);
    return change != NULL ? text_of(change, "proof") : NULL;
}

static void a_change_that_was_simulated_lets_the_run_end(void **state)
{
    (void)state;
    static const char *const runs[] = {SIZES "--device sim:230MiB --alloc policy=torch --steps 2",
                                       SIZES "--device sim:120MiB --mode fwd --autocast bf16 --steps 1"};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        json_t *answer = ask_about(runs[i]);
        assert_true(check_simulated(answer) > 0);
        assert_true(integer_of(answer, "needs_bytes") >
                    integer_of(json_object_get(answer, "memory"), "capacity_bytes"));
        json_decref(answer);
    }
}

static void wherever_the_limit_is_the_answer_adds_up(void **state)
{
    (void)state;
    uint64_t seed = take_seed();
    for (uint64_t i = 0; i < 2; i++) {
        char options[512];
        snprintf(options, sizeof options, SIZES "--device sim:%" PRIu64 "KiB --alloc policy=%s --steps 2",
                 30 * 1024 + mt_splitmix64(seed + i) % (200 * 1024), i % 2 == 0 ? "tight" : "torch");
        print_message("%s\n", options);
        json_t *answer = ask_about(options);
        check_simulated(answer);
        json_decref(answer);
    }
}

static void a_large_model_that_ends_in_init_is_told_about(void **state)
{
    (void)state;
    json_t *answer = ask_about("--device sim:12GiB --model 2.7B --mode infer --steps 1");
    const json_t *asked = json_object_get(answer, "asked");
    assert_string_equal(text_of(asked, "category"), "Param");
    assert_string_equal(text_of(asked, "phase"), "init");
    assert_true(json_is_null(json_object_get(asked, "step")));
    assert_string_equal(text_of(asked, "span"), "model.layers.30.ffn.w1");
    assert_int_equal(integer_of(asked, "alike_before"), 30);
    assert_int_equal(check_simulated(answer), 0);
    assert_string_equal(text_of(answer, "smallest_card"), "t4");
    json_decref(answer);
}

static void one_screen_says_it_all(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("run --device sim:3GiB --model small --steps 2 --trace m.db")->code, MT_OUT_OF_MEMORY);
    const struct said *said = MEMTRACE("oom --trace m.db");
    assert_int_equal(said->code, 0);
    static const char *const parts[] = {
        ("The device refused 3.00 MiB (3145728 bytes) of einsum, for einsum: temporary, fp32 (1,1024,768)\n"
         "at model.layers.8.attn.k_proj, in forward of step 1. 20 such requests succeeded before.\n"),
        "  2.00 MiB     2097152  needed, less what is not reserved",
        "why they could not serve",
        "each is smaller than the 3.00 MiB",
        "Simulated to its end, the run as it is needs ",
        "Opt State          981.33 MiB  32.2 %     222\n",
        "others)",
        "memtrace run --device sim:3GiB --model small --seq 256 --batch 2 --steps 2\n",
        "Replay: with the change, the run up to"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        assert_says(said->out, parts[i]);
    size_t lines = 0;
    for (const char *at = said->out; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    assert_true(lines <= 55);
}

/* Fills two segments of 20 MiB, leaves a gap next to every other block, and requests more than each gap has: none
 * is large enough, though all together would be. */
static void scatter(struct mt_alloc *alloc, mt_label_id label)
{
    enum { BLOCKS = 10 };
    struct mt_block *blocks[BLOCKS], *refused;
    for (int i = 0; i < BLOCKS; i++)
        assert_int_equal(mt_alloc_take(alloc, 4 * MIB, 0, label, 0, &blocks[i]), MT_OK);
    for (int i = 0; i < BLOCKS; i += 2)
        mt_alloc_give(alloc, blocks[i]);
    assert_int_equal(mt_alloc_take(alloc, 6 * MIB, 0, label, 0, &refused), MT_OUT_OF_MEMORY);
}

/* A run of a program that says nothing of itself. */
struct scattered {
    const char *trace;
    const char *told; /* what it says of its policy; NULL: nothing */
    const char *device;
    uint64_t capacity; /* as the trace says */
    uint64_t free;     /* by the driver, when it refused; 0: not measured */
};

static void record_scattered(const struct scattered *scattered)
{
    struct mt_device *device;
    struct mt_alloc_settings settings;
    struct mt_recorder *recorder;
    struct mt_alloc *alloc;
    const struct mt_run_setting setting = {"alloc", scattered->told};
    const struct mt_run_info info = {.device = scattered->device,
                                     .capacity_bytes = scattered->capacity,
                                     .settings = &setting,
                                     .setting_count = scattered->told != NULL};
    assert_int_equal(mt_device_open("sim:40MiB", &device), MT_OK);
    assert_int_equal(mt_alloc_settings_parse("policy=torch", &settings), MT_OK);
    assert_int_equal(mt_recorder_open(scattered->trace, &info, &recorder), MT_OK);
    assert_int_equal(mt_alloc_create(device, mt_recorder_sink(recorder), &settings, &alloc), MT_OK);
    struct mt_label label = {.category = MT_CATEGORY_BLOCK, .role = MT_ROLE_TEMPORARY, .op = "add", .layer = -1};
    scatter(alloc, mt_alloc_intern_label(alloc, &label));
    if (scattered->free > 0)
        mt_recorder_measure(recorder, MT_FREE_AT_REFUSAL, -1, (double)scattered->free);
    mt_alloc_destroy(alloc);
    assert_int_equal(mt_recorder_close(recorder, MT_RUN_OOM), MT_OK);
    mt_device_close(device);
}

static void holes_that_suffice_only_together_are_told(void **state)
{
    (void)state;
    record_scattered(&(struct scattered){
        .trace = "scattered.db", .told = "policy=torch", .device = "sim:40MiB", .capacity = 40 * MIB});
    json_t *answer = json_of(MEMTRACE("oom --trace scattered.db --json"));
    const json_t *memory = json_object_get(answer, "memory"), *asked = json_object_get(answer, "asked");
    check_sums(answer);
    assert_int_equal(integer_of(memory, "allocated_bytes"), 5 * 4 * MIB);
    assert_true(integer_of(memory, "hole_bytes") >= integer_of(asked, "block_bytes"));
    assert_true(integer_of(memory, "largest_hole_bytes") < integer_of(asked, "block_bytes"));
    assert_int_equal(integer_of(asked, "segment_bytes"), 20 * MIB);
    assert_int_equal(integer_of(asked, "alike_before"), 0);
    assert_true(json_is_null(json_object_get(answer, "needs_bytes")));
    const json_t *change = json_array_get(json_object_get(answer, "changes"), 0);
    assert_string_equal(first_proof(answer), "replay");
    assert_string_equal(text_of(change, "change"), "policy=tight");
    assert_true(integer_of(change, "reserved_bytes") <= (json_int_t)(40 * MIB));
    json_decref(answer);
    const struct said *said = MEMTRACE("oom --trace scattered.db");
    assert_says(said->out, "are free, which is enough, but not in one piece");
    assert_says(said->out, "1. the allocator's setting policy=tight\n");
    assert_null(strstr(said->out, "memtrace run"));
}

static void a_run_without_holes_has_no_empty_table(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("run --device sim:30MiB --model small --trace tight.db")->code, MT_OUT_OF_MEMORY);
    assert_says(MEMTRACE("oom --trace tight.db")->out, "gaps in segments");
    assert_int_equal(MEMTRACE("run --device sim:64KiB --model small --trace none.db")->code, MT_OUT_OF_MEMORY);
    const struct said *said = MEMTRACE("oom --trace none.db");
    assert_null(strstr(said->out, "gaps in segments"));
    assert_null(strstr(said->out, "\n\n\n"));
}

/* The trace says 64 MiB where 40 MiB were to be had: as on a card that others use, too. */
static void what_others_held_is_not_counted_on(void **state)
{
    (void)state;
    record_scattered(&(struct scattered){
        .trace = "shared.db", .told = "policy=torch", .device = "cuda:0 (NVIDIA X)", .capacity = 64 * MIB});
    json_t *answer = json_of(MEMTRACE("oom --trace shared.db --json"));
    const json_t *memory = json_object_get(answer, "memory");
    assert_int_equal(integer_of(memory, "reserved_bytes"), 40 * MIB);
    assert_int_equal(integer_of(memory, "limit_bytes"), 40 * MIB);
    assert_true(json_is_null(json_object_get(memory, "short_bytes")));
    assert_true(json_is_true(json_object_get(answer, "replayed")));
    json_decref(answer);
    assert_says(MEMTRACE("oom --trace shared.db")->out, "others held a part");
}

/* The driver had 10 MiB free of 64, where the allocator held 40. */
static void what_the_driver_called_free_tells_what_others_held(void **state)
{
    (void)state;
    record_scattered(&(struct scattered){"read.db", "policy=torch", "cuda:0 (NVIDIA X)", 64 * MIB, 10 * MIB});
    json_t *answer = json_of(MEMTRACE("oom --trace read.db --json"));
    const json_t *memory = json_object_get(answer, "memory");
    assert_int_equal(integer_of(memory, "device_free_bytes"), 10 * MIB);
    assert_int_equal(integer_of(memory, "left_bytes"), 24 * MIB);
    assert_int_equal(integer_of(memory, "short_bytes"), 10 * MIB);
    json_decref(answer);
    assert_says(MEMTRACE("oom --trace read.db")->out,
                "10.00 MiB free, and the allocator held 40.00 MiB: 14.00 MiB were "
                "held by others");
}

/* A snapshot of PyTorch on a card with 76 GiB free, whose program had limited itself to 2.38 GiB. */
static void a_limit_of_the_process_is_told_from_a_full_device(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("import \"$D\"/import/pytorch_limited.json.gz --trace limited.db")->code, 0);
    json_t *answer = json_of(MEMTRACE("oom --trace limited.db --json"));
    const json_t *memory = json_object_get(answer, "memory");
    assert_int_equal(integer_of(memory, "device_free_bytes"), 81852039168);
    assert_true(json_is_null(json_object_get(memory, "short_bytes")));
    json_int_t enough =
        integer_of(memory, "reserved_bytes") + integer_of(json_object_get(answer, "asked"), "segment_bytes");
    json_decref(answer);
    const struct said *said = MEMTRACE("oom --trace limited.db");
    char limit[64];
    snprintf(limit, sizeof limit, "Raise the limit to 2.60 GiB (%lld bytes)", (long long)enough);
    assert_says(said->out, "76.23 GiB free, enough for it: a limit of the process refused it");
    assert_says(said->out, "set_per_process_memory_fraction()");
    assert_says(said->out, limit);
    assert_null(strstr(said->out, "others held"));
}

/* Imports a snapshot of one block of 20 MiB, in use, after which as much again was refused; `says` is a member of the
 * refusal. */
static json_t *ask_about_snapshot(const char *says)
{
    FILE *file = fopen("full.json", "w");
    assert_non_null(file);
    fprintf(file,
            "{\"segments\":[],\"device_traces\":[[{\"action\":\"segment_alloc\",\"addr\":2097152,\"size\":20971520},"
            "{\"action\":\"alloc\",\"addr\":2097152,\"size\":20971520},{\"action\":\"oom\",%s\"size\":20971520}]]}",
            says);
    fclose(file);
    assert_int_equal(shell("rm -f full.db && \"$M\" import full.json --trace full.db")->code, 0);
    return json_of(MEMTRACE("oom --trace full.db --json"));
}

/* An export of ours has to state a number, too, but computes it. */
static void what_an_export_computed_is_no_reading(void **state)
{
    (void)state;
    json_decref(ask_about_snapshot("\"device_free\":3145728,"));
    assert_int_equal(
        shell("\"$M\" export --format torch --trace full.db -o own.json && \"$M\" import own.json --trace own.db")
            ->code,
        0);
    json_t *answer = json_of(MEMTRACE("oom --trace own.db --json"));
    assert_true(json_is_null(json_object_get(json_object_get(answer, "memory"), "device_free_bytes")));
    json_decref(answer);
}

static void a_full_device_says_how_much_must_go(void **state)
{
    (void)state;
    json_t *answer = ask_about_snapshot("\"device_free\":3145728,");
    const json_t *memory = json_object_get(answer, "memory");
    assert_int_equal(integer_of(memory, "device_free_bytes"), 3 * MIB);
    assert_int_equal(integer_of(memory, "short_bytes"), 17 * MIB);
    json_decref(answer);
    const struct said *said = MEMTRACE("oom --trace full.db");
    assert_says(said->out, "The device had 3.00 MiB free, and the allocator held 20.00 MiB.");
    assert_says(said->out, "by its driver, when it refused");
    assert_says(said->out, "at least 17.00 MiB of live memory, or of other processes");
    answer = ask_about_snapshot("");
    assert_true(json_is_null(json_object_get(json_object_get(answer, "memory"), "device_free_bytes")));
    json_decref(answer);
    assert_says(MEMTRACE("oom --trace full.db")->out, "The trace does not say how much memory the device has.");
}

/* As a program that takes memory of the driver. */
static void a_program_without_a_pool_is_offered_no_policy(void **state)
{
    (void)state;
    record_scattered(
        &(struct scattered){.trace = "watched.db", .told = NULL, .device = "cuda:0 (NVIDIA X)", .capacity = 40 * MIB});
    const struct said *said = MEMTRACE("oom --trace watched.db");
    assert_int_equal(said->code, 0);
    assert_null(strstr(said->out, "policy="));
    said = MEMTRACE("advise --all --trace watched.db");
    assert_int_equal(said->code, 0);
    assert_null(strstr(said->out, "policy="));
    assert_null(strstr(said->out, "fragmentation"));
}

static void a_question_without_an_answer_says_what_to_do(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("oom --trace absent.db")->code, MT_BAD_TRACE);
    assert_int_equal(MEMTRACE("run --device sim " SIZES "--steps 1 --trace fine.db")->code, 0);
    const struct said *said = MEMTRACE("oom --trace fine.db");
    assert_int_equal(said->code, MT_USAGE);
    assert_says(said->err, "memtrace runs");
    said = MEMTRACE("oom --trace fine.db --run 1");
    assert_int_equal(said->code, MT_USAGE);
    assert_says(said->err, "run 1 did not run out of memory (its state is done)");
    assert_int_equal(MEMTRACE("oom --trace fine.db --run 7")->code, MT_USAGE);
}

static void the_newest_run_that_ended_so_is_spoken_of(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("run --device sim:30MiB --mode infer " SIZES "--trace two.db")->code, MT_OUT_OF_MEMORY);
    assert_int_equal(MEMTRACE("run --device sim " SIZES "--steps 1 --trace two.db")->code, 0);
    json_t *answer = json_of(MEMTRACE("oom --json --trace two.db"));
    assert_int_equal(integer_of(answer, "run"), 1);
    json_decref(answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_that_was_simulated_lets_the_run_end),
        cmocka_unit_test(wherever_the_limit_is_the_answer_adds_up),
        cmocka_unit_test(a_large_model_that_ends_in_init_is_told_about),
        cmocka_unit_test(one_screen_says_it_all),
        cmocka_unit_test(holes_that_suffice_only_together_are_told),
        cmocka_unit_test(a_run_without_holes_has_no_empty_table),
        cmocka_unit_test(what_others_held_is_not_counted_on),
        cmocka_unit_test(what_the_driver_called_free_tells_what_others_held),
        cmocka_unit_test(a_limit_of_the_process_is_told_from_a_full_device),
        cmocka_unit_test(a_full_device_says_how_much_must_go),
        cmocka_unit_test(what_an_export_computed_is_no_reading),
        cmocka_unit_test(a_program_without_a_pool_is_offered_no_policy),
        cmocka_unit_test(a_question_without_an_answer_says_what_to_do),
        cmocka_unit_test(the_newest_run_that_ended_so_is_spoken_of),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
