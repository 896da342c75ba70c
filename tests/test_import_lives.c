/* The roles, phases and steps of imported snapshots, by what blocks do: programs of a few events each, as PyTorch's
 * snapshots in JSON have them. */
#include "folder.h"
#include "recorder_fixture.h"

#include "analysis/advise/advise.h"
#include "analysis/fragmentation.h"
#include "producers/file/import.h"

#define FRAME(name, file) "{\"name\":\"" name "\",\"filename\":\"" file "\",\"line\":7}"
#define CALL FRAME("_call_impl", "/usr/lib/python3/dist-packages/torch/nn/modules/module.py")
#define ENGINE "{\"name\":\"torch::autograd::Engine::evaluate_function()\",\"filename\":\"??\",\"line\":0}"
#define MAIN FRAME("main", "/home/me/train.py")
#define TRAIN FRAME("compute_loss", "/home/me/train.py") "," MAIN
#define OPTIM "/usr/lib/python3/dist-packages/torch/optim/sgd.py"

/* Call stacks, innermost first. */
static const char to_device[] = FRAME("convert", "/usr/lib/python3/dist-packages/torch/nn/modules/module.py") "," MAIN;
static const char data[] = MAIN;
static const char forward[] = FRAME("forward", "/home/me/model.py") "," CALL "," TRAIN;
static const char loss[] = FRAME("cross_entropy", "/usr/lib/python3/dist-packages/torch/nn/functional.py") "," TRAIN;
static const char backward[] = ENGINE;
static const char update[] = FRAME("step", OPTIM) "," MAIN;
static const char fused_update[] = FRAME("step", OPTIM) "," FRAME("hook", "/home/me/train.py") "," ENGINE;
static const char closure[] = FRAME("forward", "/home/me/model.py") "," CALL "," FRAME("step", OPTIM) "," MAIN;

/* A snapshot that is being written. Blocks have addresses that the test gives. */
struct story {
    FILE *file;
    int events;
};

static struct story begin(void)
{
    struct story story = {.file = fopen("story.json", "w")};
    assert_non_null(story.file);
    fputs("{\"device_traces\":[[", story.file);
    return story;
}

static void add(struct story *story, const char *action, int address, int bytes, const char *frames)
{
    fprintf(story->file, "%s{\"action\":\"%s\",\"addr\":%d,\"size\":%d,\"stream\":0,\"time_us\":%d,\"frames\":[%s]}",
            story->events > 0 ? "," : "", action, address * 1048576, bytes, story->events * 10, frames);
    story->events++;
}

static void take(struct story *story, int address, int bytes, const char *frames)
{
    add(story, "alloc", address, bytes, frames);
}

static void give(struct story *story, int address, int bytes)
{
    add(story, "free_completed", address, bytes, "");
}

/* Forward and backward of a micro-batch: data, an activation, the loss and a temporary of backward. */
static void pass(struct story *story, const char *model)
{
    take(story, 50, 64, data);
    take(story, 51, 5000, model);
    take(story, 52, 4, loss);
    take(story, 53, 6000, backward);
    give(story, 53, 6000);
    give(story, 51, 5000);
}

static void end_pass(struct story *story)
{
    give(story, 50, 64);
    give(story, 52, 4);
}

/* Ends the snapshot with so many blocks at its end, of these sizes, that were there before it, and more members.
 * Imports it. */
static void import(struct story *story, const int *sizes, int count, const char *members)
{
    struct mt_import_report report;
    const struct mt_import_plan plan = {.file = "story.json", .trace = "story.db", .device = MT_IMPORT_ANY_DEVICE};
    fputs("]],\"segments\":[", story->file);
    for (int i = 0; i < count; i++)
        fprintf(story->file,
                "%s{\"device\":0,\"address\":%lld,\"total_size\":134217728,\"stream\":0,\"blocks\":[{\"address\":%lld,"
                "\"size\":%d,\"requested_size\":%d,\"state\":\"active_allocated\",\"frames\":[]}]}",
                i > 0 ? "," : "", (1000LL + 200 * i) << 20, (1000LL + 200 * i) << 20, (sizes[i] + 511) / 512 * 512,
                sizes[i]);
    fprintf(story->file, "]%s}", members);
    fclose(story->file);
    unlink("story.db");
    if (mt_import(&plan, &report) != MT_OK)
        fail_msg("%s", mt_last_error());
    mt_import_report_release(&report);
}

static int64_t bytes_of(const char *role)
{
    char sql[200];
    snprintf(sql, sizeof sql,
             "SELECT ifnull(sum(requested_bytes), 0) FROM event JOIN label ON label.id = label WHERE kind = 2 AND role "
             "= '%s'",
             role);
    return sql_integer("story.db", sql);
}

static int64_t count_steps(void)
{
    return sql_integer("story.db", "SELECT count(*) FROM step");
}

/* Expects what advise would say of segments without a block. */
static void expect_idle(uint64_t bytes)
{
    struct mt_advice_material material;
    struct mt_trace *trace;
    const struct mt_run *run = NULL;
    if (mt_trace_open("story.db", &trace) != MT_OK || mt_trace_find_run(trace, NULL, &run) != MT_OK)
        fail_msg("%s", mt_last_error());
    const struct mt_question question = {.trace = trace, .run = run};
    if (mt_advice_material_load(&question, NULL, &material) != MT_OK)
        fail_msg("%s", mt_last_error());
    assert_int_equal(mt_fragmentation_find(&material.input).idle_bytes, bytes);
    mt_advice_material_release(&material);
    mt_trace_close(trace);
}

static void a_copy_of_the_gradient_that_stays_is_momentum(void **state)
{
    (void)state;
    struct story story = begin();
    take(&story, 1, 100000, to_device);
    for (int step = 0; step < 2; step++) {
        pass(&story, forward);
        take(&story, 2, 100000, backward);
        if (step == 0)
            take(&story, 3, 100000, update);
        take(&story, 4, 300, update);
        give(&story, 4, 300);
        give(&story, 2, 100000);
        end_pass(&story);
    }
    import(&story, NULL, 0, "");
    assert_int_equal(bytes_of("parameter"), 100000);
    assert_int_equal(bytes_of("optimizer state"), 100000);
    assert_int_equal(bytes_of("gradient"), 200000);
    assert_int_equal(bytes_of("activation"), 2 * (5000 + 4));
    assert_int_equal(bytes_of("input"), 128);
    assert_int_equal(count_steps(), 2);
    assert_int_equal(sql_integer("story.db", "SELECT count(*) FROM label WHERE role_source <> 'inferred'"), 0);
}

/* Of three blocks of a gradient's size two are moments; what has no gradient is frozen; two workspaces are cuBLAS's. */
static void sizes_tell_what_was_there_before(void **state)
{
    (void)state;
    static const int sizes[] = {100000, 100000, 100000, 100000, 100000,   100000,
                                700,    700,    700,    900000, 33554432, 33554432};
    struct story story = begin();
    for (int step = 0; step < 2; step++) {
        pass(&story, forward);
        for (int i = 0; i < 3; i++)
            take(&story, 2 + i, i < 2 ? 100000 : 700, backward);
        take(&story, 9, 300, update);
        give(&story, 9, 300);
        for (int i = 0; i < 3; i++)
            give(&story, 2 + i, i < 2 ? 100000 : 700);
        end_pass(&story);
    }
    import(&story, sizes, sizeof sizes / sizeof sizes[0], "");
    assert_int_equal(bytes_of("parameter"), 2 * 100000 + 700 + 900000);
    assert_int_equal(bytes_of("optimizer state"), 4 * 100000 + 2 * 700);
    assert_int_equal(bytes_of("workspace"), 2 * 33554432);
}

/* All memory was reserved before the recording, so the first moment is as high as any other. */
static void memory_from_before_is_shown_at_its_fullest(void **state)
{
    (void)state;
    static const int sizes[] = {100000, 200000};
    struct story story = begin();
    take(&story, 1001, 50000, forward);
    take(&story, 1201, 60000, forward);
    give(&story, 1001, 50000);
    take(&story, 1002, 512, forward);
    import(&story, sizes, 2, "");
    assert_int_equal(sql_integer("story.db", "SELECT bytes FROM summary_peak WHERE step = -2 AND measure = 'reserved'"),
                     2 * 134217728);
    assert_int_equal(sql_integer("story.db",
                                 "SELECT requested_bytes FROM event JOIN summary_peak ON event.id = "
                                 "summary_peak.event WHERE summary_peak.step = -2 AND measure = 'reserved'"),
                     60000);
    assert_int_equal(sql_integer("story.db",
                                 "SELECT sum(requested_bytes) FROM summary_peak_category WHERE step = -2 AND "
                                 "measure = 'reserved'"),
                     100000 + 200000 + 50000 + 60000);
    expect_idle(0);
}

/* The optimizer allocates new weights and moments, and frees the old ones. The weight came first. */
static void an_optimizer_that_replaces_blocks_keeps_their_roles(void **state)
{
    (void)state;
    struct story story = begin();
    for (int i = 1; i <= 3; i++)
        take(&story, i, 100000, i == 1 ? to_device : data);
    for (int step = 0; step < 3; step++) {
        const int old = 10 * step, new = old + 10;
        pass(&story, forward);
        take(&story, 5, 100000, backward);
        for (int i = 3; i >= 1; i--) {
            take(&story, new + i, 100000, update);
            give(&story, old + i, 100000);
        }
        give(&story, 5, 100000);
        end_pass(&story);
    }
    import(&story, NULL, 0, "");
    assert_int_equal(bytes_of("parameter"), 4 * 100000);
    assert_int_equal(bytes_of("optimizer state"), 4 * 200000);
    assert_int_equal(bytes_of("gradient"), 3 * 100000);
    assert_int_equal(bytes_of("input"), 3 * 64);
}

/* The thread of backward has a workspace of its own, which is no gradient. */
static void a_workspace_of_backward_leaves_the_other_one_a_workspace(void **state)
{
    (void)state;
    static const int sizes[] = {8519680, 100000};
    struct story story = begin();
    for (int step = 0; step < 2; step++) {
        pass(&story, forward);
        if (step == 0)
            take(&story, 60, 8519680,
                 "{\"name\":\"at::cuda::getNewWorkspace()\",\"filename\":\"??\",\"line\":0}," ENGINE);
        take(&story, 2, 100000, backward);
        take(&story, 9, 300, update);
        give(&story, 9, 300);
        give(&story, 2, 100000);
        end_pass(&story);
    }
    import(&story, sizes, 2, "");
    assert_int_equal(bytes_of("workspace"), 2 * 8519680);
    assert_int_equal(bytes_of("parameter"), 100000);
}

/* Nothing shows the roles of blocks in a snapshot without events. A free that was requested before the recording
 * completes in it: PyTorch no longer counts that block. */
static void a_snapshot_without_requests_has_unknown_roles(void **state)
{
    (void)state;
    static const int sizes[] = {100000, 700};
    struct story story = begin();
    give(&story, 3, 5000);
    import(&story, sizes, 2, "");
    assert_int_equal(bytes_of("unknown"), 100000 + 700);
    assert_int_equal(bytes_of("other") + bytes_of("parameter"), 0);
}

static void many_blocks_of_a_workspaces_size_are_weights(void **state)
{
    (void)state;
    static const int sizes[] = {33554432, 33554432, 33554432};
    struct story story = begin();
    take(&story, 51, 5000, forward);
    import(&story, sizes, 3, "");
    assert_int_equal(bytes_of("workspace"), 0);
    assert_int_equal(bytes_of("parameter"), 3 * 33554432);
}

/* Without a backward nothing is kept for one. */
static void a_cache_of_keys_is_no_activation(void **state)
{
    (void)state;
    struct story story = begin();
    take(&story, 1, 100000, to_device);
    for (int token = 0; token < 3; token++) {
        take(&story, 10 + token, 2000, forward);
        take(&story, 20, 3000, forward);
        give(&story, 20, 3000);
    }
    import(&story, NULL, 0, "");
    assert_int_equal(bytes_of("parameter"), 100000);
    assert_int_equal(bytes_of("kept"), 3 * 2000);
    assert_int_equal(bytes_of("temporary"), 3 * 3000);
    assert_int_equal(bytes_of("activation"), 0);
}

/* Gradients that stay from one micro-batch to the next show that no optimizer ran, though it takes nothing itself. */
static void four_micro_batches_are_one_step(void **state)
{
    (void)state;
    struct story story = begin();
    take(&story, 1, 100000, to_device);
    for (int batch = 0; batch < 8; batch++) {
        pass(&story, forward);
        if (batch % 4 == 0)
            take(&story, 2, 100000, backward);
        if (batch % 4 == 3)
            give(&story, 2, 100000);
        end_pass(&story);
    }
    import(&story, NULL, 0, "");
    assert_int_equal(count_steps(), 2);
    assert_int_equal(bytes_of("gradient"), 200000);
}

#define SAID(stage, name, us) "{\"device\":0,\"stage\":\"" stage "\",\"name\":\"" name "\",\"time_us\":" us "}"

/* Gradients that are set to zero stay, and SGD takes nothing. PyTorch annotates its updates. */
static void an_annotation_of_the_update_ends_a_step(void **state)
{
    (void)state;
    struct story story = begin();
    take(&story, 1, 100000, to_device);
    for (int step = 0; step < 3; step++) {
        pass(&story, forward);
        if (step == 0)
            take(&story, 2, 100000, backward);
        end_pass(&story);
    }
    import(&story, NULL, 0,
           ",\"external_annotations\":[" SAID("START", "Optimizer.step#SGD.step",
                                              "165") "," SAID("END", "Optimizer.step#SGD.step", "166") "]");
    assert_int_equal(count_steps(), 2);
    assert_int_equal(bytes_of("gradient"), 100000);
}

static void the_profilers_steps_are_steps(void **state)
{
    (void)state;
    struct story story = begin();
    for (int step = 0; step < 3; step++) {
        take(&story, 51, 5000, forward);
        give(&story, 51, 5000);
    }
    import(&story, NULL, 0,
           ",\"external_annotations\":[" SAID("START", "ProfilerStep#1", "15") "," SAID("START", "ProfilerStep#2",
                                                                                        "35") "]");
    assert_int_equal(count_steps(), 3);
}

static void an_update_within_backward_is_the_optimizers(void **state)
{
    (void)state;
    struct story story = begin();
    take(&story, 1, 100000, to_device);
    take(&story, 51, 5000, forward);
    take(&story, 2, 100000, backward);
    take(&story, 3, 100000, fused_update);
    give(&story, 2, 100000);
    take(&story, 4, 700, backward);
    give(&story, 4, 700);
    give(&story, 51, 5000);
    import(&story, NULL, 0, "");
    assert_int_equal(bytes_of("optimizer state"), 100000);
    assert_int_equal(bytes_of("gradient"), 100000);
    assert_int_equal(bytes_of("temporary"), 700);
}

/* An optimizer that calls a closure has its frame around all of a step. */
static void a_closure_of_the_optimizer_is_what_it_calls(void **state)
{
    (void)state;
    struct story story = begin();
    take(&story, 1, 100000, to_device);
    pass(&story, closure);
    import(&story, NULL, 0, "");
    assert_int_equal(bytes_of("activation"), 5000 + 4);
    assert_int_equal(bytes_of("optimizer state"), 0);
}

static void a_refused_request_of_backward_is_in_backward(void **state)
{
    (void)state;
    struct story story = begin();
    take(&story, 1, 100000, to_device);
    take(&story, 51, 5000, forward);
    take(&story, 52, 4, loss);
    add(&story, "oom", 0, 100000, backward);
    give(&story, 52, 4);
    give(&story, 51, 5000);
    import(&story, NULL, 0, "");
    assert_string_equal(sql_text("story.db", "SELECT phase FROM event JOIN label ON label.id = label WHERE kind = 4"),
                        "backward");
    assert_int_equal(bytes_of("activation"), 5000 + 4); /* freed because of the error */
}

/* The second time shows nothing: the recording ends. */
static void what_the_end_cuts_off_is_as_its_like(void **state)
{
    (void)state;
    struct story story = begin();
    take(&story, 1, 100000, to_device);
    pass(&story, forward);
    end_pass(&story);
    take(&story, 9, 300, update);
    give(&story, 9, 300);
    take(&story, 51, 5000, forward);
    take(&story, 53, 6000, backward);
    import(&story, NULL, 0, "");
    assert_int_equal(bytes_of("temporary"), 300 + 2 * 6000);
}

static const char *span_of(const char *frames)
{
    struct story story = begin();
    take(&story, 51, 5000, frames);
    import(&story, NULL, 0, "");
    return sql_text("story.db", "SELECT path FROM span ORDER BY length(path) DESC LIMIT 1");
}

static void a_librarys_functions_are_spans_and_pytorchs_are_not(void **state)
{
    (void)state;
    assert_string_equal(
        span_of(FRAME("forward", "/v/lib/python3.12/site-packages/torch/nn/modules/linear.py") "," CALL "," FRAME(
            "forward", "/v/lib/python3.12/site-packages/timm/vit.py") "," CALL "," MAIN),
        "vit/forward:7");
    assert_string_equal(
        span_of(FRAME("mlp", "/home/me/model.py") "," FRAME("forward", "/home/me/model.py") "," CALL "," MAIN),
        "model/forward:7.mlp:7");
}

static void paths_of_windows_are_understood(void **state)
{
    (void)state;
    assert_string_equal(span_of(FRAME("forward", "C:\\\\v\\\\Lib\\\\site-packages\\\\torch\\\\nn\\\\modules\\\\linear."
                                                 "py") "," CALL "," FRAME("forward", "C:\\\\me\\\\model.py") "," CALL),
                        "model/forward:7");
    assert_string_equal(sql_text("story.db", "SELECT category FROM label"), "einsum");
}

static void inductors_files_have_one_name(void **state)
{
    (void)state;
    assert_string_equal(span_of(FRAME("call", "/tmp/torchinductor_me/ab/cabcdef.py") "," CALL), "inductor/call:7");
}

/* A live block that gets other metadata is another one to rules with a condition on it. */
static void an_annotated_block_is_asked_for_again(void **state)
{
    (void)state;
    struct mt_import_report report;
    const struct mt_import_plan plan = {
        .file = "story.json", .trace = "rules.db", .rules = "my.rules", .device = MT_IMPORT_ANY_DEVICE};
    struct story story = begin();
    FILE *rules = fopen("my.rules", "w");
    assert_non_null(rules);
    fputs("metadata=cache -> category=\"KV cache\" role=workspace\nsize=5000 -> category=Mine\n", rules);
    fclose(rules);
    take(&story, 51, 5000, forward);
    take(&story, 52, 5000, forward);
    add(&story, "annotate", 51, 5000, "],\"user_metadata\":\"cache\",\"none\":[");
    add(&story, "annotate", 99, 5000, "],\"user_metadata\":\"cache\",\"none\":[");
    import(&story, NULL, 0, "");
    assert_int_equal(mt_import(&plan, &report), MT_OK);
    mt_import_report_release(&report);
    assert_string_equal(sql_text("rules.db", "SELECT group_concat(kind || ' ' || category || ' ' || role, ', ') FROM"
                                             " event JOIN label ON label.id = label WHERE kind IN (2, 10)"),
                        "2 Mine kept, 2 Mine kept, 10 KV cache workspace");
}

#define PRINTED(function, file, line) "\"  File \\\"" file "\\\", line " #line ", in " function "\\n    x = f(x)\\n\""

/* With anomalies looked for, PyTorch keeps the call stack of forward, outermost first. */
static void backward_is_told_its_forward(void **state)
{
    (void)state;
    struct story story = begin();
    take(&story, 51, 5000, forward);
    take(&story, 53, 6000,
         ENGINE "],\"forward_frames\":[" PRINTED("main", "/home/me/train.py", 3) "," PRINTED(
             "_call_impl", "/v/lib/python3.12/site-packages/torch/nn/modules/module.py",
             1) "," PRINTED("forward", "/home/me/model.py", 40) ",\"no frame\"");
    import(&story, NULL, 0, "");
    static const char told[] = " FROM event JOIN label ON label.id = label JOIN span ON span.id = label.span"
                               " WHERE kind = 2 AND requested_bytes = 6000";
    char sql[300];
    snprintf(sql, sizeof sql, "SELECT path || ' ' || phase%s", told);
    assert_string_equal(sql_text("story.db", sql), "model/forward:40 backward");
    assert_int_equal(sql_integer("story.db", "WITH RECURSIVE up(id) AS (SELECT stack FROM event WHERE kind = 2 AND"
                                             " requested_bytes = 6000 UNION ALL SELECT parent FROM up JOIN stack"
                                             " USING (id)) SELECT count(*) FROM up WHERE id > 0"),
                     5);
}

static int set_up(void **state)
{
    *state = enter_folder("test_import_lives");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_of_the_gradient_that_stays_is_momentum),
        cmocka_unit_test(sizes_tell_what_was_there_before),
        cmocka_unit_test(memory_from_before_is_shown_at_its_fullest),
        cmocka_unit_test(an_optimizer_that_replaces_blocks_keeps_their_roles),
        cmocka_unit_test(a_workspace_of_backward_leaves_the_other_one_a_workspace),
        cmocka_unit_test(a_snapshot_without_requests_has_unknown_roles),
        cmocka_unit_test(many_blocks_of_a_workspaces_size_are_weights),
        cmocka_unit_test(a_cache_of_keys_is_no_activation),
        cmocka_unit_test(four_micro_batches_are_one_step),
        cmocka_unit_test(an_annotation_of_the_update_ends_a_step),
        cmocka_unit_test(the_profilers_steps_are_steps),
        cmocka_unit_test(an_update_within_backward_is_the_optimizers),
        cmocka_unit_test(a_closure_of_the_optimizer_is_what_it_calls),
        cmocka_unit_test(a_refused_request_of_backward_is_in_backward),
        cmocka_unit_test(what_the_end_cuts_off_is_as_its_like),
        cmocka_unit_test(a_librarys_functions_are_spans_and_pytorchs_are_not),
        cmocka_unit_test(paths_of_windows_are_understood),
        cmocka_unit_test(an_annotated_block_is_asked_for_again),
        cmocka_unit_test(backward_is_told_its_forward),
        cmocka_unit_test(inductors_files_have_one_name),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
