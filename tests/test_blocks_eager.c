/* Every block of a run of the eager model, with the label that the model gave it. */
#include "alloc_opening.h"
#include "blocks_fixture.h"

#include "producers/model/training.h"
#include "recording.h"
#include "synthetic.h"

/* A small run of the eager model, its events and labels kept and recorded. */
struct training {
    struct mt_recorder *recorder;
    struct recording kept;
};

static void train_emit(void *context, const struct mt_event *event)
{
    struct training *training = context;
    const struct mt_sink *sink = mt_recorder_sink(training->recorder);
    recording_emit(&training->kept, event);
    sink->emit(sink->context, event);
}

static mt_label_id train_label(void *context, const struct mt_label *label)
{
    struct training *training = context;
    const struct mt_sink *sink = mt_recorder_sink(training->recorder);
    recording_label(&training->kept, label);
    return sink->intern_label(sink->context, label);
}

static mt_span_id train_span(void *context, mt_span_id parent, const char *name)
{
    struct training *training = context;
    const struct mt_sink *sink = mt_recorder_sink(training->recorder);
    recording_span(&training->kept, parent, name);
    return sink->intern_span(sink->context, parent, name);
}

static void train(struct training *training, const char *path)
{
    struct mt_training_config config = mt_training_config_default();
    config.model = (struct mt_model_config){
        .name = "custom", .vocab = 97, .d_model = 40, .d_ff = 72, .layers = 3, .heads = 5, .rope = true};
    config.autocast = true;
    config.batch = 3, config.seq = 13;
    struct mt_run_info info = {.device = "sim", .capacity_bytes = 1u << 30};
    struct mt_sink sink = {
        .context = training, .emit = train_emit, .intern_label = train_label, .intern_span = train_span};
    recording_open(&training->kept);
    assert_int_equal(mt_recorder_open(path, &info, &training->recorder), MT_OK);
    struct mt_device *device = open_device("sim:1GiB");
    struct mt_alloc *alloc = create_alloc(device, "policy=torch", &sink);
    assert_int_equal(mt_training_run(device, alloc, &config, NULL), MT_OK);
    mt_alloc_destroy(alloc);
    mt_device_close(device);
    assert_int_equal(mt_recorder_close(training->recorder, MT_RUN_DONE), MT_OK);
}

static void expect_shape(const char *shape, const struct mt_label *label)
{
    char text[128] = "";
    for (int i = 0; i < label->dims; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%" PRId64, i == 0 ? "" : ",", label->shape[i]);
    assert_string_equal(shape, text);
}

static void expect_label(const struct mt_label_row *row, const struct mt_label *label, const struct recording *kept)
{
    const struct mt_span *span = mt_interner_find_span(kept->interner, label->span);
    assert_string_equal(row->category, mt_category_name(label->category));
    assert_string_equal(row->role, mt_role_name(label->role));
    assert_string_equal(row->op, label->op);
    assert_string_equal(row->phase, mt_phase_name(label->phase));
    assert_string_equal(row->dtype, mt_dtype_name(label->dtype));
    assert_string_equal(row->span, span != NULL ? span->path : "");
    assert_int_equal(row->layer, label->layer);
    assert_int_equal(strstr(row->place, ".layers.*") != NULL, label->layer >= 0);
    expect_shape(row->shape, label);
}

static void every_block_of_an_eager_run_has_the_label_that_it_was_given(void **state)
{
    (void)state;
    struct training training;
    struct fixture eager;
    name_trace(&eager, "eager");
    train(&training, eager.path);
    struct mt_trace *trace;
    const struct mt_run *run;
    struct mt_label_row *labels;
    struct mt_block_row *blocks;
    size_t label_count, block_count;
    if (mt_trace_open(eager.path, &trace) != MT_OK)
        fail_msg("%s", mt_last_error());
    assert_int_equal(mt_trace_find_run(trace, NULL, &run), MT_OK);
    assert_int_equal(mt_trace_labels(trace, run, &labels, &label_count), MT_OK);
    assert_int_equal(mt_trace_blocks(trace, run, 0, INT64_MAX, &blocks, &block_count), MT_OK);
    assert_true(block_count > 1000);
    for (size_t i = 0; i < block_count; i++) {
        const struct mt_event *event = &training.kept.events[blocks[i].alloc_event - run->first_event];
        expect_label(&labels[blocks[i].label], recording_label_of(&training.kept, event), &training.kept);
    }
    check_peak(trace, run);
    free(labels);
    free(blocks);
    recording_close(&training.kept);
    mt_trace_close(trace);
    unlink(eager.path);
}

static int enter(void **state)
{
    *state = enter_folder("test_blocks_eager");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_block_of_an_eager_run_has_the_label_that_it_was_given),
    };
    return cmocka_run_group_tests(tests, enter, leave_folder);
}
