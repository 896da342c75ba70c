/* Kernels through the recorder and back: random ones against sums by hand, those of a killed recorder, and the output
 * of the program. */
#include "seed.h"
#include "trace/query/trace.h"
#include "trace_path.h"

#include <jansson.h>
#include <signal.h>
#include <sys/wait.h>

enum { NAMES = 5, LABELS = 60, MOST_KERNELS = 20000 };

static const char *const names[NAMES] = {"sm80_xmma_gemm_f32", "void copy_kernel<float, 4>(float*, long)",
                                         "void (anonymous namespace)::reduce<(int)3>(double)", "exp_kernel(float)",
                                         "k"};
static const char *const ops[] = {"einsum.matmul", "einsum.backward.matmul", "softmax.exp", "norm.mul", "matmul.copy",
                                  "softmax.sum"};
static const char *const places[] = {"attn", "attn.q_proj", "ffn"};

/* A kernel that was handed to the recorder. */
struct given {
    struct mt_kernel kernel;
    bool counts;
};

static struct given given[MOST_KERNELS];
static size_t given_count;
static uint64_t seed, drawn;

static uint64_t draw(uint64_t below)
{
    return mt_splitmix64(seed * 7919 + drawn++) % below;
}

static int begin(void **state)
{
    seed = take_seed();
    drawn = 0;
    given_count = 0;
    return set_up(state);
}

static struct mt_recorder *open_recorder(const char *warmup)
{
    const struct mt_run_setting settings[] = {{"warmup", warmup}, {"batch", "2"}, {"seq", "8"},
                                              {"layers", "3"},    {"heads", "4"}, {"d_model", "64"}};
    const struct mt_run_info info = {.device = "cuda:0",
                                     .capacity_bytes = 1 << 30,
                                     .settings = settings,
                                     .setting_count = sizeof settings / sizeof settings[0]};
    struct mt_recorder *recorder = NULL;
    if (mt_recorder_open(path, &info, &recorder) != MT_OK)
        fail_msg("%s", mt_last_error());
    return recorder;
}

static mt_span_id intern_place(const struct mt_sink *sink, const char *layer, const char *place)
{
    mt_span_id span = sink->intern_span(sink->context, sink->intern_span(sink->context, 0, "model"), layer);
    span = sink->intern_span(sink->context, span, strncmp(place, "attn", 4) == 0 ? "attn" : place);
    return strcmp(place, "attn.q_proj") == 0 ? sink->intern_span(sink->context, span, "q_proj") : span;
}

/* Adds random labels. */
static void make_labels(const struct mt_sink *sink, mt_label_id *ids)
{
    static const mt_category categories[] = {MT_CATEGORY_EINSUM, MT_CATEGORY_SOFTMAX, MT_CATEGORY_NORM};
    for (size_t i = 0; i < LABELS; i++) {
        char layer[16];
        int number = (int)draw(3);
        snprintf(layer, sizeof layer, "%d", number);
        const struct mt_label label = {.category = categories[draw(3)],
                                       .phase = (mt_phase)draw(MT_PHASE_COUNT),
                                       .op = ops[draw(6)],
                                       .span = intern_place(sink, layer, places[draw(3)]),
                                       .layer = number};
        ids[i] = sink->intern_label(sink->context, &label);
    }
}

static void give(const mt_label_id *ids, int64_t step, bool counts)
{
    uint64_t start = given_count * 1000;
    struct given *next = &given[given_count++];
    *next = (struct given){.kernel = {.start_ns = start,
                                      .end_ns = start + draw(5000),
                                      .name = names[draw(NAMES)],
                                      .step = step,
                                      .label = draw(20) == 0 ? 0 : ids[draw(LABELS)],
                                      .stream = (uint32_t)draw(3) + 7},
                           .counts = counts};
}

static void mark(const struct mt_sink *sink, mt_event_kind kind, int64_t step)
{
    const struct mt_event event = {.kind = (uint16_t)kind, .value = (uint64_t)step};
    sink->emit(sink->context, &event);
}

/* Hands over the kernels made since the last time, whose steps may have ended. Every other name lies at the address of
 * another one just before. */
static void hand_over(const struct mt_sink *sink, size_t *handed)
{
    char name[128];
    for (; *handed < given_count; (*handed)++) {
        struct mt_kernel kernel = given[*handed].kernel;
        snprintf(name, sizeof name, "%s", kernel.name);
        kernel.name = draw(2) == 0 ? name : kernel.name;
        sink->kernel(sink->context, &kernel);
    }
}

/* Records some kernels before the first step, then `steps` steps, the last of which does not end. Hands over now and
 * then. */
static void give_run(const struct mt_sink *sink, const mt_label_id *ids, int64_t warmup, int64_t steps)
{
    size_t handed = 0;
    for (uint64_t i = draw(50); i > 0; i--)
        give(ids, MT_NO_STEP, false);
    for (int64_t step = 0; step < steps; step++) {
        bool full = step + 1 < steps;
        mark(sink, MT_EVENT_STEP_BEGIN, step);
        for (uint64_t i = 100 + draw(900); i > 0; i--)
            give(ids, step, full && step >= warmup);
        if (draw(3) == 0)
            hand_over(sink, &handed);
        if (full)
            mark(sink, MT_EVENT_STEP_END, step);
    }
    hand_over(sink, &handed);
}

static void record(int64_t warmup, int64_t steps)
{
    char text[16];
    mt_label_id ids[LABELS];
    snprintf(text, sizeof text, "%d", (int)warmup);
    struct mt_recorder *recorder = open_recorder(text);
    make_labels(mt_recorder_sink(recorder), ids);
    give_run(mt_recorder_sink(recorder), ids, warmup, steps);
    fixture_close(recorder, MT_RUN_DONE);
}

static void kernels_come_back_as_they_were_given(void **state)
{
    (void)state;
    record(1, 4);
    sqlite3 *handle = sql_open(path);
    sqlite3_stmt *row =
        sql_prepare(handle, "SELECT k.id, start_ns, duration_ns, n.name, label, ifnull(step, -1), stream FROM kernel k"
                            " JOIN kernel_name n ON n.run = k.run AND n.id = k.name ORDER BY k.id");
    size_t i = 0;
    for (; sqlite3_step(row) == SQLITE_ROW; i++) {
        const struct mt_kernel *kernel = &given[i].kernel;
        assert_int_equal(sqlite3_column_int64(row, 0), i + 1);
        check_integer(row, 1, kernel->start_ns);
        check_integer(row, 2, kernel->end_ns - kernel->start_ns);
        check_text(row, 3, kernel->name);
        assert_int_equal(sqlite3_column_type(row, 4) == SQLITE_NULL, kernel->label == 0);
        assert_int_equal(sqlite3_column_int64(row, 4), mt_label_number(kernel->label));
        assert_int_equal(sqlite3_column_int64(row, 5), kernel->step);
        check_integer(row, 6, kernel->stream);
    }
    assert_int_equal(i, given_count);
    sqlite3_finalize(row);
    sqlite3_close(handle);
    assert_int_equal(sql_integer(path, "SELECT count(*) FROM kernel_name"), NAMES);
}

static bool is_product(const char *op)
{
    return op != NULL && strlen(op) > 7 && strcmp(op + strlen(op) - 7, ".matmul") == 0;
}

/* The question for the brute-force walk. NULL: any. */
struct question {
    const char *phase, *name;
    int product; /* -1: either */
    const char *op;
};

static struct mt_kernel_row sum_of(sqlite3 *handle, struct question question)
{
    struct mt_kernel_row sum = {0};
    sqlite3_stmt *row = sql_prepare(handle, "SELECT op, phase FROM label WHERE run = 1 AND id = ?");
    for (size_t i = 0; i < given_count; i++) {
        const struct mt_kernel *kernel = &given[i].kernel;
        sqlite3_reset(row);
        sqlite3_bind_int64(row, 1, mt_label_number(kernel->label));
        bool has_label = sqlite3_step(row) == SQLITE_ROW;
        const char *op = has_label ? (const char *)sqlite3_column_text(row, 0) : NULL;
        const char *phase = has_label ? (const char *)sqlite3_column_text(row, 1) : "";
        if (!given[i].counts || (question.phase != NULL && strcmp(phase, question.phase) != 0) ||
            (question.name != NULL && strcmp(kernel->name, question.name) != 0) ||
            (question.product >= 0 && question.product != is_product(op)) ||
            (question.op != NULL && (op == NULL || strcmp(op, question.op) != 0)))
            continue;
        sum.count++;
        sum.total_ns += kernel->end_ns - kernel->start_ns;
    }
    sqlite3_finalize(row);
    return sum;
}

static void assert_sum(sqlite3 *handle, struct question question, uint64_t count, uint64_t total_ns)
{
    const struct mt_kernel_row sum = sum_of(handle, question);
    assert_int_equal(count, sum.count);
    assert_int_equal(total_ns, sum.total_ns);
}

/* The op of a row is the one with the most time, however many labels it has. */
static void check_op(sqlite3 *handle, const struct mt_kernel_phase *phase, const struct mt_kernel_row *row)
{
    const struct question question = {phase->phase, row->name, row->is_product, row->op};
    const uint64_t most_ns = sum_of(handle, question).total_ns;
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        const struct question other = {phase->phase, row->name, row->is_product, ops[i]};
        assert_true(sum_of(handle, other).total_ns <= most_ns);
    }
}

static void check_phase(sqlite3 *handle, const struct mt_kernel_phase *phase)
{
    uint64_t total_ns = 0, last_ns = UINT64_MAX;
    assert_sum(handle, (struct question){phase->phase, NULL, -1, NULL}, phase->count, phase->total_ns);
    assert_int_equal(sum_of(handle, (struct question){phase->phase, NULL, 1, NULL}).total_ns, phase->product_ns);
    for (size_t i = 0; i < phase->row_count; i++) {
        const struct mt_kernel_row *row = &phase->rows[i];
        assert_sum(handle, (struct question){phase->phase, row->name, row->is_product, NULL}, row->count,
                   row->total_ns);
        assert_true(row->total_ns <= last_ns);
        if (phase->phase[0] != '\0')
            check_op(handle, phase, row);
        last_ns = row->total_ns;
        total_ns += row->total_ns;
    }
    assert_int_equal(total_ns, phase->total_ns);
}

static void open_answer(struct mt_trace **trace, struct mt_kernels *kernels)
{
    const struct mt_run *run;
    assert_int_equal(mt_trace_open(path, trace), MT_OK);
    assert_int_equal(mt_trace_find_run(*trace, NULL, &run), MT_OK);
    if (mt_trace_kernels(*trace, run, kernels) != MT_OK)
        fail_msg("%s", mt_last_error());
}

static void sums_by_phase_are_those_of_a_walk(void **state)
{
    (void)state;
    struct mt_trace *trace;
    struct mt_kernels kernels;
    int64_t warmup = (int64_t)draw(3), full = warmup + 1 + (int64_t)draw(4);
    record(warmup, full + 1);
    open_answer(&trace, &kernels);
    sqlite3 *handle = sql_open(path);
    assert_int_equal(kernels.recorded, given_count);
    assert_int_equal(kernels.steps, full - warmup);
    assert_int_equal(kernels.warmup, warmup);
    assert_sum(handle, (struct question){NULL, NULL, -1, NULL}, kernels.count, kernels.total_ns);
    assert_int_equal(sum_of(handle, (struct question){NULL, NULL, 1, NULL}).total_ns, kernels.product_ns);
    assert_int_equal(sum_of(handle, (struct question){"", NULL, -1, NULL}).total_ns,
                     kernels.total_ns - kernels.named_ns);
    assert_int_equal(kernels.phase_count, MT_PHASE_COUNT + 1);
    for (size_t i = 0; i < kernels.phase_count; i++) {
        assert_string_equal(kernels.phases[i].phase, i < MT_PHASE_COUNT ? mt_phase_name((mt_phase)i) : "");
        check_phase(handle, &kernels.phases[i]);
    }
    sqlite3_close(handle);
    mt_kernels_release(&kernels);
    mt_trace_close(trace);
}

static void attention_is_apart_from_its_projections(void **state)
{
    (void)state;
    struct mt_trace *trace;
    struct mt_kernels kernels;
    record(0, 4);
    open_answer(&trace, &kernels);
    assert_int_equal(kernels.softmax_ns,
                     sql_integer(path, "SELECT sum(duration_ns) FROM kernel k JOIN label l ON l.id = k.label"
                                       " WHERE step < 3 AND phase = 'forward' AND category = 'Softmax'"));
    assert_true(kernels.score_product_ns <= kernels.attention_product_ns);
    assert_int_equal(kernels.attention_product_ns,
                     sql_integer(path, "SELECT sum(duration_ns) FROM kernel k JOIN label l ON l.id = k.label JOIN span"
                                       " s ON s.id = l.span WHERE step < 3 AND phase = 'forward' AND category <>"
                                       " 'Softmax' AND op LIKE '%.matmul' AND s.name = 'attn'"));
    mt_kernels_release(&kernels);
    mt_trace_close(trace);
}

static void a_run_of_warm_up_alone_counts_it(void **state)
{
    (void)state;
    struct mt_trace *trace;
    struct mt_kernels kernels;
    record(9, 4);
    open_answer(&trace, &kernels);
    assert_int_equal(kernels.steps, 3);
    assert_int_equal(kernels.warmup, 0);
    assert_true(kernels.total_ns > 0);
    mt_kernels_release(&kernels);
    mt_trace_close(trace);
}

static void give_all(const struct mt_sink *sink, int64_t steps)
{
    mt_label_id ids[LABELS];
    make_labels(sink, ids);
    give_run(sink, ids, 0, steps);
}

/* Records in another process, which dies without closing anything. */
static void record_and_die(int64_t steps)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        give_all(mt_recorder_sink(open_recorder("0")), steps);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void ignore_event(void *context, const struct mt_event *event)
{
    (void)context;
    (void)event;
}

static void ignore_kernel(void *context, const struct mt_kernel *kernel)
{
    (void)context;
    (void)kernel;
}

/* Repeats the draws of the process that died, so that `given` has what it recorded. */
static void kernels_survive_the_process(void **state)
{
    (void)state;
    struct mt_trace *trace;
    struct mt_kernels kernels;
    struct mt_interner *interner = mt_interner_create();
    struct mt_sink sink = mt_sink_discarding(interner);
    sink.emit = ignore_event;
    sink.kernel = ignore_kernel;
    record_and_die(3);
    give_all(&sink, 3);
    mt_interner_destroy(interner);
    open_answer(&trace, &kernels);
    sqlite3 *handle = sql_open(path);
    assert_string_equal(sql_text(path, "SELECT state FROM run"), "interrupted");
    assert_int_equal(kernels.recorded, given_count);
    assert_int_equal(sql_integer(path, "SELECT count(*) FROM kernel"), given_count);
    assert_sum(handle, (struct question){NULL, NULL, -1, NULL}, kernels.count, kernels.total_ns);
    sqlite3_close(handle);
    mt_kernels_release(&kernels);
    mt_trace_close(trace);
}

/* Returns the output of the program. The caller frees it. */
static char *program_says(const char *arguments)
{
    char command[2 * FIXTURE_PATH_BYTES + 256];
    char *text = NULL;
    size_t bytes = 0;
    snprintf(command, sizeof command, "'%s' kernels %s --trace '%s'", MT_PROGRAM, arguments, path);
    FILE *stream = open_memstream(&text, &bytes), *pipe = popen(command, "r");
    for (int c; (c = fgetc(pipe)) != EOF;)
        fputc(c, stream);
    assert_int_equal(pclose(pipe), 0);
    fclose(stream);
    return text;
}

static void the_program_tells_what_the_query_does(void **state)
{
    (void)state;
    struct mt_trace *trace;
    struct mt_kernels kernels;
    record(1, 4);
    open_answer(&trace, &kernels);
    char *text = program_says("2 --json");
    json_t *json = json_loads(text, 0, NULL);
    const json_t *forward = json_array_get(json_object_get(json, "phases"), MT_PHASE_FORWARD);
    const json_t *attention = json_object_get(json, "attention");
    assert_string_equal(json_string_value(json_object_get(json, "schema")), "memtrace.kernels/1");
    assert_string_equal(json_string_value(json_object_get(forward, "phase")), "forward");
    assert_int_equal(json_array_size(json_object_get(forward, "rows")), 2);
    assert_int_equal(json_integer_value(json_object_get(forward, "total_ns")),
                     kernels.phases[MT_PHASE_FORWARD].total_ns);
    assert_false(json_boolean_value(json_object_get(json_object_get(forward, "top_other"), "product")));
    assert_true(json_real_value(json_object_get(attention, "softmax_operations")) == 5.0 * 3 * 2 * 4 * 8 * 8);
    assert_true(json_real_value(json_object_get(attention, "product_operations")) == 4.0 * 3 * 2 * 4 * 8 * 8 * 16);
    json_decref(json);
    free(text);
    mt_kernels_release(&kernels);
    mt_trace_close(trace);
}

static void the_program_shortens_names(void **state)
{
    (void)state;
    record(0, 3);
    char *text = program_says("9 --phase backward");
    assert_non_null(strstr(text, "Kernels of backward:"));
    assert_null(strstr(text, "Kernels of forward:"));
    assert_non_null(strstr(text, "  copy_kernel<float, 4>\n"));
    assert_non_null(strstr(text, "  reduce<(int)3>\n"));
    free(text);
}

static void a_run_without_kernels_says_how_to_get_them(void **state)
{
    (void)state;
    fixture_close(open_recorder("0"), MT_RUN_DONE);
    char *text = program_says("");
    assert_non_null(strstr(text, "memtrace run --kernels"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels_come_back_as_they_were_given, begin, tear_down),
        cmocka_unit_test_setup_teardown(sums_by_phase_are_those_of_a_walk, begin, tear_down),
        cmocka_unit_test_setup_teardown(sums_by_phase_are_those_of_a_walk, begin, tear_down),
        cmocka_unit_test_setup_teardown(attention_is_apart_from_its_projections, begin, tear_down),
        cmocka_unit_test_setup_teardown(a_run_of_warm_up_alone_counts_it, begin, tear_down),
        cmocka_unit_test_setup_teardown(kernels_survive_the_process, begin, tear_down),
        cmocka_unit_test_setup_teardown(the_program_tells_what_the_query_does, begin, tear_down),
        cmocka_unit_test_setup_teardown(the_program_shortens_names, begin, tear_down),
        cmocka_unit_test_setup_teardown(a_run_without_kernels_says_how_to_get_them, begin, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
