/* The uses of blocks that the model notes, in whole runs and of single ops. */
#include "alloc_opening.h"
#include "producers/model/ops.h"
#include "producers/model/use.h"
#include "recorded_training.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

/* ---- Whole runs ---- */

static struct mt_training_config tiny(bool autocast)
{
    struct mt_training_config config = mt_training_config_default();
    config.model = (struct mt_model_config){
        .name = "custom", .vocab = 97, .d_model = 24, .d_ff = 40, .layers = 2, .heads = 3, .rope = autocast};
    config.mode = MT_MODE_FWD_BWD;
    config.autocast = autocast;
    config.batch = 2;
    config.seq = 9;
    config.steps = 3;
    return config;
}

static void drop_norm(void *context, const char *parameter, double norm)
{
    (void)context;
    (void)parameter;
    (void)norm;
}

static void record(struct recording *recording, const char *device, bool autocast)
{
    const struct mt_training_observer observer = {.grad_norm = drop_norm};
    const struct mt_training_config config = tiny(autocast);
    recording_open(recording);
    if (recording_train(recording, device, "", &config, &observer, NULL) != MT_OK)
        fail_msg("%s", mt_last_error());
}

/* The use of every block by the sequence of its alloc; NULL if none was emitted. Allocated. */
static const struct mt_use **uses_by_block(const struct recording *recording)
{
    const struct mt_use **uses = mt_host_alloc(recording->count * sizeof *uses);
    for (size_t i = 0; i < recording->use_count; i++) {
        assert_true(recording->uses[i].block < recording->count);
        assert_null(uses[recording->uses[i].block]);
        uses[recording->uses[i].block] = &recording->uses[i];
    }
    return uses;
}

/* Returns the alloc of the block that `end`, a free, gives back. */
static const struct mt_event *alloc_of(const struct recording *recording, const struct mt_event *end)
{
    const struct mt_event *event = end - 1;
    while (event >= recording->events &&
           !(event->kind == MT_EVENT_ALLOC && event->segment == end->segment && event->offset == end->offset))
        event--;
    assert_true(event >= recording->events);
    return event;
}

static mt_phase phase_at(const struct recording *recording, uint64_t moment)
{
    while (recording->events[moment].kind != MT_EVENT_PHASE)
        moment--;
    return (mt_phase)recording->events[moment].value;
}

static void check_moments(const struct mt_use *use, const struct mt_event *begin, const struct mt_event *end)
{
    if (use->reads + use->writes == 0) {
        assert_true(use->first == 0 && use->last == 0 && use->idle_to == 0 && !use->unread);
        return;
    }
    assert_true(use->first >= begin->sequence);
    assert_true(use->last >= use->first && use->last < end->sequence);
    if (use->idle_to == use->idle_from)
        return;
    assert_true(use->idle_from >= use->first && use->idle_to > use->idle_from && use->idle_to <= use->last);
}

static void every_block_has_a_use_and_is_used_while_it_is_live(void **state)
{
    (void)state;
    for (int autocast = 0; autocast < 2; autocast++) {
        struct recording recording;
        record(&recording, "sim", autocast);
        const struct mt_use **uses = uses_by_block(&recording);
        size_t frees = 0;
        for (size_t i = 0; i < recording.count; i++) {
            const struct mt_event *end = &recording.events[i];
            if (end->kind != MT_EVENT_FREE)
                continue;
            const struct mt_event *begin = alloc_of(&recording, end);
            assert_non_null(uses[begin->sequence]);
            check_moments(uses[begin->sequence], begin, end);
            assert_true(uses[begin->sequence]->writes > 0);
            frees++;
        }
        assert_true(frees > 1000);
        assert_int_equal(recording.use_count, frees);
        free(uses);
        recording_close(&recording);
    }
}

static bool uses_equal(const struct mt_use *a, const struct mt_use *b)
{
    return a->block == b->block && a->reads == b->reads && a->writes == b->writes && a->first == b->first &&
           a->last == b->last && a->idle_from == b->idle_from && a->idle_to == b->idle_to &&
           a->copied_from == b->copied_from && a->unread == b->unread;
}

static void uses_are_the_same_where_nothing_is_computed(void **state)
{
    (void)state;
    for (int autocast = 0; autocast < 2; autocast++) {
        struct recording planned, executed;
        record(&planned, "sim:1GiB", autocast);
        record(&executed, "cpu:1GiB", autocast);
        assert_int_equal(planned.use_count, executed.use_count);
        for (size_t i = 0; i < planned.use_count; i++)
            if (!uses_equal(&planned.uses[i], &executed.uses[i]))
                fail_msg("use %zu, of block %llu, differs", i, (unsigned long long)planned.uses[i].block);
        recording_close(&planned);
        recording_close(&executed);
    }
}

/* Checks that blocks of a role are used last in this phase, except those of one op. Returns their number. */
static size_t expect_last_phase(const struct recording *recording, mt_role role, mt_phase phase, const char *but)
{
    size_t count = 0;
    for (size_t i = 0; i < recording->use_count; i++) {
        const struct mt_use *use = &recording->uses[i];
        const struct mt_label *label = recording_label_of(recording, &recording->events[use->block]);
        if (label->role != role || strcmp(label->op, but) == 0)
            continue;
        if (phase_at(recording, use->last) != phase)
            fail_msg("block %llu (%s) was used last in phase %s", (unsigned long long)use->block, label->op,
                     mt_phase_name(phase_at(recording, use->last)));
        count++;
    }
    return count;
}

static void gradients_are_used_last_by_the_optimizer(void **state)
{
    (void)state;
    struct recording recording;
    record(&recording, "sim", true);
    assert_int_equal(expect_last_phase(&recording, MT_ROLE_GRADIENT, MT_PHASE_OPTIMIZER, ""), 3 * (2 * 9 + 3));
    recording_close(&recording);
}

/* The exception is kept only for its shape, as in PyTorch. */
static void what_is_saved_is_used_last_by_backward(void **state)
{
    (void)state;
    struct recording recording;
    record(&recording, "sim", true);
    assert_true(expect_last_phase(&recording, MT_ROLE_ACTIVATION, MT_PHASE_BACKWARD, "cross_entropy.sub") > 100);
    recording_close(&recording);
}

static void a_weights_cast_says_which_parameter_it_is_a_copy_of(void **state)
{
    (void)state;
    struct recording recording;
    size_t casts = 0;
    record(&recording, "sim", true);
    for (size_t i = 0; i < recording.use_count; i++) {
        const struct mt_use *use = &recording.uses[i];
        const struct mt_label *label = recording_label_of(&recording, &recording.events[use->block]);
        if (label->role != MT_ROLE_WEIGHT_CAST)
            continue;
        const struct mt_event *source = &recording.events[use->copied_from];
        const struct mt_label *copied = recording_label_of(&recording, source);
        assert_int_equal(source->kind, MT_EVENT_ALLOC);
        assert_int_equal(copied->role, MT_ROLE_PARAMETER);
        assert_memory_equal(copied->shape, label->shape, sizeof label->shape);
        casts++;
    }
    assert_int_equal(casts, 3 * (2 * 7 + 1)); /* the products of a layer, and the head's */
    recording_close(&recording);
}

/* ---- Single ops ---- */

struct laboratory {
    struct recording recording;
    struct mt_device *device;
    struct mt_alloc *alloc;
    struct mt_runtime rt;
};

static int open_laboratory(void **state)
{
    struct laboratory *lab = mt_host_alloc(sizeof *lab);
    recording_open(&lab->recording);
    const struct mt_sink sink = recording_sink(&lab->recording);
    lab->device = open_device("sim");
    lab->alloc = create_alloc(lab->device, "", &sink);
    mt_runtime_open(&lab->rt, lab->device, lab->alloc);
    mt_scope_enter(&lab->rt, "test", MT_CATEGORY_BLOCK, "test");
    *state = lab;
    return 0;
}

static int close_laboratory(void **state)
{
    struct laboratory *lab = *state;
    mt_op_workspaces_release(&lab->rt);
    mt_alloc_destroy(lab->alloc);
    mt_device_close(lab->device);
    recording_close(&lab->recording);
    free(lab);
    return 0;
}

static struct mt_tensor *make(struct laboratory *lab, mt_dtype dtype, int64_t rows, int64_t columns)
{
    const int64_t shape[] = {rows, columns};
    return mt_tensor_empty(&lab->rt, MT_ROLE_TEMPORARY, NULL, dtype, columns > 0 ? 2 : 1, shape);
}

/* Releases a tensor, and returns the use of its block. */
static const struct mt_use *release(struct laboratory *lab, struct mt_tensor *tensor)
{
    size_t told = lab->recording.use_count;
    assert_int_equal(lab->rt.status, MT_OK);
    mt_tensor_release(&lab->rt, tensor);
    assert_int_equal(lab->recording.use_count, told + 1);
    return &lab->recording.uses[told];
}

/* Emits some events that are no uses. Returns the moment after them. */
static uint64_t pass_time(struct laboratory *lab, int events)
{
    for (int i = 0; i < events; i++)
        mt_runtime_phase(&lab->rt, MT_PHASE_FORWARD);
    return mt_alloc_events(lab->alloc) - 1;
}

static void expect_counts(const struct mt_use *use, uint32_t reads, uint32_t writes, bool unread)
{
    assert_int_equal(use->reads, reads);
    assert_int_equal(use->writes, writes);
    assert_int_equal(use->unread, unread);
}

static void a_block_that_no_op_uses_is_emitted_as_never_used(void **state)
{
    struct laboratory *lab = *state;
    struct mt_tensor *tensor = make(lab, MT_F32, 4, 4);
    uint64_t alloc = mt_alloc_events(lab->alloc) - 1;
    const struct mt_use *use = release(lab, tensor);
    expect_counts(use, 0, 0, false);
    assert_int_equal(use->block, alloc);
    assert_true(use->first == 0 && use->last == 0 && use->idle_from == 0 && use->idle_to == 0);
}

static void what_is_written_last_and_never_read_is_unread(void **state)
{
    struct laboratory *lab = *state;
    struct mt_tensor *a = make(lab, MT_F32, 4, 4), *b = make(lab, MT_F32, 4, 4);
    mt_op_fill(&lab->rt, a, 1);
    mt_op_unary(&lab->rt, MTK_EXP, 0, b, a);
    expect_counts(release(lab, a), 1, 1, false);
    expect_counts(release(lab, b), 0, 1, true);
}

static void an_output_that_is_also_read_is_read_before_it_is_written(void **state)
{
    struct laboratory *lab = *state;
    struct mt_tensor *a = make(lab, MT_F32, 4, 4), *b = make(lab, MT_F32, 1, 4);
    mt_op_fill(&lab->rt, a, 1);
    mt_op_fill(&lab->rt, b, 1);
    mt_op_binary(&lab->rt, MTK_ADD, 0, a, a, b);
    expect_counts(release(lab, a), 1, 2, true);
    expect_counts(release(lab, b), 1, 1, false);
}

static void what_is_added_to_is_read_and_written(void **state)
{
    struct laboratory *lab = *state;
    struct mt_tensor *table = make(lab, MT_F32, 8, 4), *index = make(lab, MT_I64, 3, 0),
                     *rows = make(lab, MT_F32, 3, 4);
    mt_op_scatter_add_rows(&lab->rt, table, index, rows);
    mt_op_gather_rows(&lab->rt, rows, table, index);
    expect_counts(release(lab, table), 2, 1, false);
    expect_counts(release(lab, index), 2, 0, false);
    expect_counts(release(lab, rows), 1, 1, true);

    struct mt_tensor *wide = make(lab, MT_F32, 3, 8), *picked = make(lab, MT_F32, 3, 0), *at = make(lab, MT_I64, 3, 0);
    mt_op_pick(&lab->rt, picked, wide, at);
    mt_op_place_add(&lab->rt, wide, at, picked);
    expect_counts(release(lab, wide), 2, 1, true);
    expect_counts(release(lab, at), 2, 0, false);
    expect_counts(release(lab, picked), 1, 1, false);
}

static void a_product_uses_its_workspace(void **state)
{
    struct laboratory *lab = *state;
    const int64_t shape[] = {1, 4, 4};
    struct mt_tensor *m[3];
    for (int i = 0; i < 3; i++)
        m[i] = mt_tensor_empty(&lab->rt, MT_ROLE_TEMPORARY, NULL, MT_F32, 3, shape);
    mt_op_product(&lab->rt, 1, 0, m[0], m[1], m[2]);
    struct mt_tensor *workspace = mt_tensor_retain(lab->rt.workspaces[0]);
    expect_counts(release(lab, m[0]), 0, 1, true);
    expect_counts(release(lab, m[1]), 1, 0, false);
    expect_counts(release(lab, m[2]), 1, 0, false);
    mt_tensor_release(&lab->rt, workspace);
    mt_op_workspaces_release(&lab->rt);
    expect_counts(&lab->recording.uses[lab->recording.use_count - 1], 1, 1, false);
}

static void a_view_counts_for_its_block(void **state)
{
    struct laboratory *lab = *state;
    const int64_t shape[] = {2, 4}, stride[] = {4, 1};
    struct mt_tensor *whole = make(lab, MT_F32, 4, 4), *copy = make(lab, MT_F32, 2, 4);
    struct mt_tensor *half = mt_tensor_view(&lab->rt, whole, 2, shape, stride, 8);
    mt_op_fill(&lab->rt, half, 0);
    mt_op_unary(&lab->rt, MTK_COPY, 0, copy, half);
    mt_tensor_release(&lab->rt, half);
    expect_counts(release(lab, whole), 1, 1, false);
    assert_int_equal(release(lab, copy)->copied_from, 0);
}

static void the_longest_pause_is_found(void **state)
{
    struct laboratory *lab = *state;
    struct mt_tensor *a = make(lab, MT_F32, 4, 4), *sink = make(lab, MT_F32, 4, 4);
    uint64_t begin = pass_time(lab, 3);
    mt_op_fill(&lab->rt, a, 1);
    mt_op_unary(&lab->rt, MTK_NEGATE, 0, sink, a);
    uint64_t short_pause = pass_time(lab, 5);
    mt_op_unary(&lab->rt, MTK_NEGATE, 0, sink, a);
    uint64_t long_pause = pass_time(lab, 7);
    mt_op_unary(&lab->rt, MTK_NEGATE, 0, sink, a);
    uint64_t end = pass_time(lab, 7);
    mt_op_unary(&lab->rt, MTK_NEGATE, 0, sink, a);
    pass_time(lab, 100);
    const struct mt_use *use = release(lab, a);
    assert_int_equal(use->first, begin);
    assert_int_equal(use->idle_from, short_pause);
    assert_int_equal(use->idle_to, long_pause);
    assert_int_equal(use->last, end);
    mt_tensor_release(&lab->rt, sink);
}

/* By then another block lies where the source was. */
static void a_copy_keeps_its_source_when_that_is_freed(void **state)
{
    struct laboratory *lab = *state;
    struct mt_tensor *source = make(lab, MT_F32, 64, 64);
    uint64_t alloc = mt_alloc_events(lab->alloc) - 1;
    mt_addr address = source->address;
    struct mt_tensor *copy = make(lab, MT_BF16, 64, 64);
    mt_op_fill(&lab->rt, source, 1);
    mt_op_unary(&lab->rt, MTK_COPY, 0, copy, source);
    release(lab, source);
    struct mt_tensor *other = make(lab, MT_F32, 64, 64);
    assert_true(other->address == address);
    assert_int_equal(release(lab, copy)->copied_from, alloc);
    mt_tensor_release(&lab->rt, other);
}

static void only_a_first_write_in_another_precision_makes_a_copy(void **state)
{
    struct laboratory *lab = *state;
    struct mt_tensor *source = make(lab, MT_F32, 4, 4), *same = make(lab, MT_F32, 4, 4);
    struct mt_tensor *second = make(lab, MT_BF16, 4, 4), *index = make(lab, MT_I64, 4, 4);
    mt_op_fill(&lab->rt, second, 0);
    mt_op_unary(&lab->rt, MTK_COPY, 0, second, source);
    mt_op_unary(&lab->rt, MTK_COPY, 0, same, source);
    mt_op_unary(&lab->rt, MTK_COPY, 0, index, source);
    assert_int_equal(release(lab, second)->copied_from, 0);
    assert_int_equal(release(lab, same)->copied_from, 0);
    assert_int_equal(release(lab, index)->copied_from, 0);
    mt_tensor_release(&lab->rt, source);
}

static void the_host_reads_and_writes_too(void **state)
{
    struct laboratory *lab = *state;
    struct mt_tensor *a = make(lab, MT_F32, 4, 4);
    mt_use_write(&lab->rt, a);
    mt_use_read(&lab->rt, a);
    expect_counts(release(lab, a), 1, 1, false);
}

/* An op that is refused notes no use. */
static void a_refused_op_is_no_use(void **state)
{
    struct laboratory *lab = *state;
    struct mt_tensor *a = make(lab, MT_F32, 4, 4), *b = make(lab, MT_F32, 3, 3);
    mt_op_binary(&lab->rt, MTK_ADD, 0, a, a, b);
    assert_int_equal(lab->rt.status, MT_FAILED);
    lab->rt.status = MT_OK;
    expect_counts(release(lab, a), 0, 0, false);
    expect_counts(release(lab, b), 0, 0, false);
}

#define ON_OPS(test) cmocka_unit_test_setup_teardown(test, open_laboratory, close_laboratory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_block_has_a_use_and_is_used_while_it_is_live),
        cmocka_unit_test(uses_are_the_same_where_nothing_is_computed),
        cmocka_unit_test(gradients_are_used_last_by_the_optimizer),
        cmocka_unit_test(what_is_saved_is_used_last_by_backward),
        cmocka_unit_test(a_weights_cast_says_which_parameter_it_is_a_copy_of),
        ON_OPS(a_block_that_no_op_uses_is_emitted_as_never_used),
        ON_OPS(what_is_written_last_and_never_read_is_unread),
        ON_OPS(an_output_that_is_also_read_is_read_before_it_is_written),
        ON_OPS(what_is_added_to_is_read_and_written),
        ON_OPS(a_product_uses_its_workspace),
        ON_OPS(a_view_counts_for_its_block),
        ON_OPS(the_longest_pause_is_found),
        ON_OPS(a_copy_keeps_its_source_when_that_is_freed),
        ON_OPS(only_a_first_write_in_another_precision_makes_a_copy),
        ON_OPS(the_host_reads_and_writes_too),
        ON_OPS(a_refused_op_is_no_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
