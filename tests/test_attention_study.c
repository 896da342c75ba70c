/* One attention layer alone: its memory equals the formula and others' measurements, all devices have the same sequence
 * of events, running out of memory is a result, and the command prints its measurements. With "cuda" as argument: the
 * tests of a card. */
#include "base/random.h"
#include "gpu.h"
#include "model_device.h"
#include "program.h"
#include "recording.h"
#include "seed.h"
#include "study/attention_study.h"

#include <inttypes.h>
#include <math.h>

#include <cmocka.h>

enum { KINDS = MT_ATTENTION_FLASH + 1, WORKSPACES = 64 };

static const char *const kind_names[KINDS] = {"custom", "softmax", "weights", "flash"};

/* A case that was run, and the counters it left. */
struct outcome {
    struct recording recording;
    struct mt_attention_kept kept;
    struct mt_alloc_stats stats; /* after the last block was freed */
    mt_status status;
};

static struct outcome run_case(const char *spelling, const struct mt_attention_case *study)
{
    struct outcome outcome;
    recording_open(&outcome.recording);
    const struct mt_sink sink = recording_sink(&outcome.recording);
    struct mt_device *device = open_model_device(spelling);
    struct mt_alloc *alloc = create_alloc(device, "", &sink);
    outcome.status = mt_attention_study_run(device, alloc, study, NULL, &outcome.kept);
    mt_alloc_stats(alloc, &outcome.stats);
    assert_int_equal(mt_alloc_check(alloc), MT_OK);
    mt_alloc_destroy(alloc);
    mt_device_close(device);
    return outcome;
}

/* The live bytes when the last backward begins, counted from the events, without workspaces. */
struct counted {
    uint64_t bytes, square_bytes; /* all, and of shape (…,T,T) */
    int squares;                  /* of the latter, tensors of floating point */
};

static bool is_square(const struct mt_label *label, int64_t length)
{
    return label->dims >= 2 && label->shape[label->dims - 1] == length && label->shape[label->dims - 2] == length;
}

static struct counted count_live(const struct recording *recording, int64_t length)
{
    struct counted live = {0}, at_backward = {0};
    for (size_t i = 0; i < recording->count; i++) {
        const struct mt_event *event = &recording->events[i];
        if (event->kind == MT_EVENT_PHASE && event->value == MT_PHASE_BACKWARD)
            at_backward = live;
        if (event->kind != MT_EVENT_ALLOC && event->kind != MT_EVENT_FREE)
            continue;
        const struct mt_label *label = recording_label_of(recording, event);
        if (label->category == MT_CATEGORY_WORKSPACE)
            continue;
        int change = event->kind == MT_EVENT_ALLOC ? 1 : -1;
        live.bytes += (uint64_t)change * event->requested_bytes;
        if (!is_square(label, length))
            continue;
        live.square_bytes += (uint64_t)change * event->requested_bytes;
        live.squares += label->dtype != MT_BOOL ? change : 0;
    }
    return at_backward;
}

static void expect_formula(const struct mt_attention_case *study)
{
    static const int squares[KINDS] = {3, 1, 1, 0};
    struct outcome outcome = run_case("sim", study);
    struct counted live = count_live(&outcome.recording, study->seq);
    uint64_t square_bytes, bytes = mt_attention_account_bytes(study, &square_bytes);
    bool told = outcome.status == MT_OK && outcome.kept.is_known && outcome.kept.requested_bytes == bytes &&
                live.bytes == bytes && live.square_bytes == square_bytes && live.squares == squares[study->attention];
    if (!told)
        fail_msg("%s, %s, batch %" PRId64 ", %" PRId64 " heads, d %" PRId64 ", seq %" PRId64 "%s%s: formula %" PRIu64
                 ", counter %" PRIu64 ", events %" PRIu64 "; of size T² formula %" PRIu64 ", events %" PRIu64,
                 kind_names[study->attention], mt_dtype_name(study->dtype), study->batch, study->heads, study->d_model,
                 study->seq, study->without_projections ? ", without projections" : "",
                 study->without_mask ? ", without a mask" : "", bytes, outcome.kept.requested_bytes, live.bytes,
                 square_bytes, live.square_bytes);
    assert_int_equal(outcome.stats.all.blocks, 0);
    recording_close(&outcome.recording);
}

static void what_is_kept_is_what_the_formula_says(void **state)
{
    (void)state;
    uint64_t seed = take_seed(), drawn = 0;
    for (int i = 0; i < 200; i++) {
        struct mt_attention_case study = {.repeats = 1 + i % 2, .attention = (mt_attention_kind)(i % KINDS)};
        study.batch = 1 + (int64_t)(mt_splitmix64(seed + drawn++) % 9);
        study.heads = 1 + (int64_t)(mt_splitmix64(seed + drawn++) % 4);
        study.d_model = study.heads * 8 * (2 + (int64_t)(mt_splitmix64(seed + drawn++) % 15));
        do { /* a length that differs from every other size of the layer, so that shapes show the tensors of size T² */
            study.seq = 2 + (int64_t)(mt_splitmix64(seed + drawn++) % 3000);
        } while (study.seq == study.d_model || study.seq == study.d_model / study.heads);
        study.dtype = mt_splitmix64(seed + drawn++) % 2 == 0 ? MT_F32 : MT_BF16;
        study.without_projections = mt_splitmix64(seed + drawn++) % 2 == 0;
        study.without_mask = study.attention <= MT_ATTENTION_SOFTMAX && mt_splitmix64(seed + drawn++) % 2 == 0;
        expect_formula(&study);
    }
}

/* The measured process held both workspaces. Its rows are rounded to 0.001 MiB, its blocks to 512 bytes. */
static void expect_measured(const json_t *row, mt_attention_kind kind)
{
    struct mt_attention_case study = {.batch = 8, .heads = 1, .repeats = 1, .attention = kind};
    study.d_model = integer_of(row, "d");
    study.seq = integer_of(row, "seq");
    study.dtype = strcmp(text_of(row, "dtype"), "torch.float32") == 0 ? MT_F32 : MT_BF16;
    double measured = json_number_value(json_object_get(row, "mem_before_bwd_mib"));
    struct outcome outcome = run_case("sim", &study);
    double ours = (double)outcome.kept.requested_bytes / (1 << 20) + WORKSPACES;
    if (!(fabs(ours - measured) <= 0.003))
        fail_msg("%s, %s, d %" PRId64 ", seq %" PRId64 ": %.3f MiB, measured %.3f", kind_names[kind],
                 mt_dtype_name(study.dtype), study.d_model, study.seq, ours, measured);
    recording_close(&outcome.recording);
}

static void what_is_kept_is_what_pytorch_keeps(void **state)
{
    (void)state;
    json_error_t error;
    json_t *data = json_load_file(MT_TEST_DATA "/pytorch_h200.json", 0, &error);
    assert_non_null(data);
    json_t *rows = json_object_get(json_object_get(data, "attention"), "rows"), *row;
    size_t i;
    int compared = 0;
    json_array_foreach(rows, i, row)
    {
        const char *variant = text_of(row, "variant");
        expect_measured(row, strcmp(variant, "custom") == 0            ? MT_ATTENTION_CUSTOM
                             : strcmp(variant, "builtin_softmax") == 0 ? MT_ATTENTION_SOFTMAX
                                                                       : MT_ATTENTION_FLASH);
        compared++;
    }
    assert_int_equal(compared, 75);
    json_decref(data);
}

/* Every step keeps five gradients: of the four weights, and of the input. */
static void backward_goes_to_the_weights_and_to_the_input(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        const struct mt_attention_case study = {.batch = 3,
                                                .heads = 2,
                                                .d_model = 32,
                                                .seq = 40,
                                                .repeats = 1,
                                                .attention = (mt_attention_kind)kind,
                                                .dtype = MT_BF16};
        struct outcome outcome = run_case("cpu:1GiB", &study);
        assert_int_equal(outcome.status, MT_OK);
        uint64_t live = 0, at_end = 0;
        for (size_t i = 0; i < outcome.recording.count; i++) {
            const struct mt_event *event = &outcome.recording.events[i];
            if (event->kind == MT_EVENT_ALLOC)
                live += event->requested_bytes;
            if (event->kind == MT_EVENT_FREE)
                live -= event->requested_bytes;
            if (event->kind == MT_EVENT_STEP_END)
                at_end = live;
        }
        uint64_t weights = 4 * 32 * 32 * 2, input = 3 * 40 * 32 * 2, workspaces = (uint64_t)WORKSPACES << 20;
        assert_int_equal(at_end, 2 * (weights + input) + workspaces);
        recording_close(&outcome.recording);
    }
}

static void expect_equal_events(const struct recording *a, const struct recording *b)
{
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        const struct mt_event *x = &a->events[i], *y = &b->events[i];
        if (!recording_event_equal(x, y))
            fail_msg("event %zu: %s of %" PRIu64 " bytes, and %s of %" PRIu64, i,
                     mt_event_kind_name((mt_event_kind)x->kind), x->requested_bytes,
                     mt_event_kind_name((mt_event_kind)y->kind), y->requested_bytes);
    }
}

/* sim has the memory of the reference card. The same rules serve a device of gigabytes. */
static void expect_one_sequence(const char *device)
{
    for (int i = 0; i < 2 * KINDS; i++) {
        const struct mt_attention_case study = {.batch = 2,
                                                .heads = 1 + i % 3 % 2,
                                                .d_model = 64,
                                                .seq = 48,
                                                .repeats = 2,
                                                .attention = (mt_attention_kind)(i % KINDS),
                                                .dtype = i < KINDS ? MT_F32 : MT_BF16};
        struct outcome simulated = run_case("sim", &study), computed = run_case(device, &study);
        assert_int_equal(computed.status, MT_OK);
        expect_equal_events(&simulated.recording, &computed.recording);
        recording_close(&simulated.recording);
        recording_close(&computed.recording);
    }
}

static void sim_and_cpu_tell_one_sequence(void **state)
{
    (void)state;
    expect_one_sequence("cpu:4GiB");
}

static void sim_and_cuda_tell_one_sequence(void **state)
{
    (void)state;
    expect_one_sequence("cuda");
}

static void running_out_of_memory_gives_everything_back(void **state)
{
    (void)state;
    int before_backward = 0, in_backward = 0;
    for (int mebibytes = 64; mebibytes <= 640; mebibytes += 32) {
        char device[32];
        snprintf(device, sizeof device, "sim:%dMiB", mebibytes);
        const struct mt_attention_case study = {
            .batch = 8, .heads = 1, .d_model = 64, .seq = 1024, .repeats = 1, .dtype = MT_F32};
        struct outcome outcome = run_case(device, &study);
        assert_true(outcome.status == MT_OK || outcome.status == MT_OUT_OF_MEMORY);
        assert_int_equal(outcome.stats.all.blocks, 0);
        if (outcome.status == MT_OUT_OF_MEMORY)
            ++*(outcome.kept.is_known ? &in_backward : &before_backward);
        recording_close(&outcome.recording);
    }
    assert_true(before_backward > 0 && in_backward > 0);
}

static json_t *command_json(const char *arguments)
{
    return json_of(shell("\"$M\" attention --device sim --json %s", arguments));
}

/* Every cell of the published study. */
static void the_whole_study_agrees_with_its_formulas(void **state)
{
    (void)state;
    json_t *answer = command_json("--no-trace --precision fp32,tf32,bf16 --repeat 1"), *row;
    json_t *rows = json_object_get(answer, "rows");
    size_t i, done = 0;
    assert_schema(answer, "memtrace.attention/1");
    assert_int_equal(json_array_size(rows), 3 * 4 * 6 * 4);
    assert_int_equal(access("memtrace.db", F_OK), -1);
    json_array_foreach(rows, i, row)
    {
        const json_t *kept = json_object_get(row, "kept");
        bool is_done = strcmp(text_of(row, "state"), "done") == 0;
        done += is_done;
        assert_int_equal(json_is_null(json_object_get(row, "oom")), is_done);
        const double seq = (double)integer_of(row, "seq");
        const json_t *by_square = json_object_get(row, "kept_by_square");
        assert_int_equal(json_is_null(by_square), json_is_null(kept));
        if (!json_is_null(kept)) {
            assert_int_equal(integer_of(kept, "difference_bytes"), 0);
            assert_true(fabs(json_number_value(by_square) * seq * seq - (double)integer_of(kept, "requested_bytes")) <
                        1);
        }
        assert_int_equal(json_number_value(json_object_get(row, "forward_ms")) > 0, is_done);
        assert_int_equal(json_number_value(json_object_get(row, "backward_ms")) > 0, is_done);
        if (integer_of(row, "seq") == 65536)
            assert_int_equal(is_done, strcmp(text_of(row, "attention"), "flash") == 0);
        else
            assert_true(is_done);
    }
    assert_int_equal(done, 3 * 4 * (5 * 4 + 1));
    json_decref(answer);
}

/* The bound on the memory of flash. */
static void flash_keeps_97_mebibytes_at_16384(void **state)
{
    (void)state;
    json_t *answer = command_json("--no-trace --d 64 --seq 16384 --attention flash --precision bf16");
    const json_t *row = json_array_get(json_object_get(answer, "rows"), 0);
    assert_in_range(integer_of(json_object_get(row, "kept"), "requested_bytes"), 96 << 20, 97 << 20);
    json_decref(answer);
}

/* The printed figures equal the trace's, except for the workspaces. */
static void each_cell_is_a_run_of_the_trace(void **state)
{
    (void)state;
    json_t *answer = command_json("--d 32 --seq 256,512 --precision bf16 --trace s.db --name study"), *row;
    size_t i;
    json_array_foreach(json_object_get(answer, "rows"), i, row)
    {
        const json_t *peak = json_object_get(row, "peak");
        json_t *asked = json_of(shell("\"$M\" peak --json --trace s.db --run study-%s-bf16-d32-%d",
                                      text_of(row, "attention"), (int)integer_of(row, "seq")));
        assert_int_equal(integer_of(asked, "run"), integer_of(row, "run"));
        assert_int_equal(integer_of(asked, "requested_bytes"),
                         integer_of(peak, "requested_bytes") + integer_of(peak, "workspace_bytes"));
        assert_int_equal(integer_of(asked, "allocated_bytes"),
                         integer_of(peak, "allocated_bytes") + integer_of(peak, "workspace_bytes"));
        json_decref(asked);
    }
    assert_int_equal(i, 8);
    assert_says(shell("\"$M\" diff --trace s.db study-custom-bf16-d32-512 study-flash-bf16-d32-512")->out,
                "custom → flash");
    assert_says(shell("\"$M\" steps --trace s.db --run 1")->out, "forward ms");
    json_decref(answer);
}

/* The clock of each run begins at zero, though all share a device. */
static void every_run_begins_at_zero(void **state)
{
    (void)state;
    json_decref(command_json("--d 32 --seq 256 --precision bf16 --trace t.db"));
    json_t *answer =
        json_of(shell("\"$M\" sql --json --trace t.db \"SELECT max(time_ns), count(*) FROM run JOIN event ON "
                      "event.id = run.first_event\""));
    const json_t *row = json_array_get(json_object_get(answer, "rows"), 0);
    assert_int_equal(json_integer_value(json_array_get(row, 0)), 0);
    assert_int_equal(json_integer_value(json_array_get(row, 1)), 4);
    json_decref(answer);
}

static bool fits(const char *device, const char *kind, int64_t length)
{
    json_t *answer = json_of(shell("\"$M\" attention --device %s --json --no-trace --d 64 --precision bf16 --repeat 1 "
                                   "--attention %s --seq %" PRId64,
                                   device, kind, length));
    const json_t *row = json_array_get(json_object_get(answer, "rows"), 0);
    bool is_done = strcmp(text_of(row, "state"), "done") == 0;
    json_decref(answer);
    return is_done;
}

static void the_longest_sequence_fits_and_the_next_does_not(void **state)
{
    (void)state;
    json_t *answer = json_of(
        shell("\"$M\" attention --device sim:3GiB --json --no-trace --d 64 --precision bf16 --seq 256 --repeat 1"));
    json_t *limit;
    size_t i;
    json_array_foreach(json_object_get(answer, "limits"), i, limit)
    {
        int64_t longest = integer_of(limit, "longest_seq");
        assert_true(longest >= 256 && longest % 256 == 0);
        assert_true(fits("sim:3GiB", kind_names[i], longest));
        assert_false(fits("sim:3GiB", kind_names[i], longest + 256));
    }
    assert_int_equal(i, KINDS);
    json_decref(answer);
}

static double square_share(mt_attention_kind kind, int64_t length)
{
    const struct mt_attention_case study = {
        .batch = 8, .heads = 1, .d_model = 64, .seq = length, .attention = kind, .dtype = MT_BF16};
    uint64_t square_bytes, bytes = mt_attention_account_bytes(&study, &square_bytes);
    return (double)square_bytes / (double)bytes;
}

static void terms_of_size_t_squared_are_most_from_the_length_told(void **state)
{
    (void)state;
    json_t *answer = command_json("--no-trace --d 64 --precision bf16 --seq 256 --repeat 1"), *limit;
    size_t i;
    json_array_foreach(json_object_get(answer, "limits"), i, limit)
    {
        if (i == MT_ATTENTION_FLASH) {
            assert_true(json_is_null(json_object_get(limit, "square_from")));
            continue;
        }
        int64_t from = integer_of(limit, "square_from");
        assert_true(square_share((mt_attention_kind)i, from) > 0.5);
        assert_false(square_share((mt_attention_kind)i, from - 1) > 0.5);
    }
    json_decref(answer);
}

/* Each cell shows the measurement of its own layer; a layer without a measurement shows none. */
static void the_peer_stands_beside_its_own_cells(void **state)
{
    (void)state;
    json_t *answer = command_json("--no-trace --peer --precision bf16 --d 32,64 --seq 16384,65536 --repeat 1"), *row;
    size_t i;
    json_array_foreach(json_object_get(answer, "rows"), i, row)
    {
        const json_t *peer = json_object_get(row, "peer");
        bool is_wide = integer_of(row, "d") == 64 && integer_of(row, "seq") == 16384;
        bool is_flash = is_wide && strcmp(text_of(row, "attention"), "flash") == 0;
        bool is_custom = is_wide && strcmp(text_of(row, "attention"), "custom") == 0;
        assert_int_equal(json_is_object(peer), is_flash || is_custom);
        if (!is_flash)
            continue;
        assert_true(json_number_value(json_object_get(peer, "backward_ms")) == 2.2);
        assert_in_range(integer_of(peer, "kept_bytes"), 96.5 * (1 << 20), 96.6 * (1 << 20));
    }
    json_decref(answer);
    answer = command_json("--no-trace --peer --precision bf16 --d 64 --seq 256 --batch 4 --repeat 1");
    json_array_foreach(json_object_get(answer, "rows"), i, row) assert_true(json_is_null(json_object_get(row, "peer")));
    json_decref(answer);
    const struct said *said = MEMTRACE("attention --device sim --no-trace --peer --d 64 --precision bf16 --seq 16384");
    assert_says(said->out, "64  16384  flash    96.53 MiB  96.53 MiB");
}

static void people_are_told_what_follows(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("attention --device sim --no-trace --d 64 --precision bf16");
    assert_int_equal(said->code, 0);
    assert_says(said->out, "estimates");
    assert_says(said->out, "measured less formula is 0 B in all 23");
    assert_says(said->out, "custom has 12.34 GiB live before backward and flash 96.53 MiB: 131 times as\nmuch.");
    assert_says(said->out, "(196.38 GiB) / oom");
    said = MEMTRACE("attention --device sim --no-trace --d 64 --precision bf16 --seq 256,65536 --format csv");
    assert_says(said->out, "\nbf16,8,1,64,65536,custom,oom,210858180610,,,,,\n");
    said = MEMTRACE("attention --device cpu:1GiB --no-trace --d 16 --seq 32 --repeat 1");
    assert_int_equal(said->code, 0);
    assert_says(said->out, "medians, by the device's clock");
}

static void what_can_not_be_run_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *arguments, *says;
    } cases[] = {
        {"--seq 256,25x", "--seq 25x"},
        {"--seq 256,256", "twice"},
        {"--seq ''", "--seq"},
        {"--attention flsh", "did you mean \"flash\""},
        {"--precision bf16,fp64", "fp64"},
        {"--d 12", "flash attention supports heads of 16 to 128"},
        {"--heads 3", "3 heads do not divide d_model 16"},
        {"--repeat 0", "--repeat"},
        {"--batch 9000000000000000000", "batch"},
        {"--json --format csv", "choose one"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("\"$M\" attention --device sim --no-trace %s", cases[i].arguments);
        if (said->code != MT_USAGE)
            fail_msg("%s: exit code %d", cases[i].arguments, said->code);
        assert_says(said->err, cases[i].says);
    }
}

static int set_up(void **state)
{
    *state = enter_folder("test_attention_study");
    return 0;
}

int main(int count, char **arguments)
{
    const struct CMUnitTest on_a_card[] = {
        cmocka_unit_test(sim_and_cuda_tell_one_sequence),
    };
    if (count > 1 && strcmp(arguments[1], "cuda") == 0)
        return gpu_is_there() ? cmocka_run_group_tests(on_a_card, NULL, NULL) : SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_is_what_the_formula_says),
        cmocka_unit_test(what_is_kept_is_what_pytorch_keeps),
        cmocka_unit_test(backward_goes_to_the_weights_and_to_the_input),
        cmocka_unit_test(sim_and_cpu_tell_one_sequence),
        cmocka_unit_test(running_out_of_memory_gives_everything_back),
        cmocka_unit_test(the_whole_study_agrees_with_its_formulas),
        cmocka_unit_test(flash_keeps_97_mebibytes_at_16384),
        cmocka_unit_test(each_cell_is_a_run_of_the_trace),
        cmocka_unit_test(every_run_begins_at_zero),
        cmocka_unit_test(the_longest_sequence_fits_and_the_next_does_not),
        cmocka_unit_test(terms_of_size_t_squared_are_most_from_the_length_told),
        cmocka_unit_test(the_peer_stands_beside_its_own_cells),
        cmocka_unit_test(people_are_told_what_follows),
        cmocka_unit_test(what_can_not_be_run_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
