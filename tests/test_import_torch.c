/* Imports of snapshots beside their events: a lost beginning, the settings of the allocator, and impossible sizes. */
#include "folder.h"
#include "recorder_fixture.h"

#include "base/text.h"
#include "producers/file/import.h"

#include <inttypes.h>

/* A block that is live at the end and whose allocation is not recorded; with frames, an earlier recording saw it. */
static void write_block(FILE *file, const char *frames)
{
    fprintf(
        file,
        "{\"device\":0,\"address\":2097152,\"total_size\":2097152,\"stream\":0,\"blocks\":["
        "{\"address\":2097152,\"size\":1024,\"requested_size\":700,\"state\":\"active_allocated\",\"frames\":[%s]}]}",
        frames);
}

/* Adds allocations and frees of small blocks beside that one, in turns; before them, perhaps, the free of an unseen
 * block. */
static void write_events(FILE *file, int count, const char *first)
{
    int begin = first[0] != '\0';
    fprintf(file, "%s", first);
    for (int i = begin; i < count; i++)
        fprintf(file, "%s{\"action\":\"%s\",\"addr\":2100000,\"size\":512,\"stream\":0,\"time_us\":%d}",
                i > 0 ? "," : "", (i - begin) % 2 == 0 ? "alloc" : "free_completed", i);
}

/* A snapshot, and the expected state of its beginning. */
struct story {
    const char *frames; /* of the block from before */
    const char *first;  /* event */
    int events;
};

static struct mt_import_report import_story(const struct story *story)
{
    struct mt_import_report report;
    const struct mt_import_plan plan = {.file = "story.json", .trace = "story.db", .device = MT_IMPORT_ANY_DEVICE};
    FILE *file = fopen("story.json", "w");
    assert_non_null(file);
    unlink("story.db");
    fprintf(file, "{\"segments\":[");
    write_block(file, story->frames);
    fprintf(file, "],\"device_traces\":[[");
    write_events(file, story->events, story->first);
    fprintf(file, "]]}");
    fclose(file);
    if (mt_import(&plan, &report) != MT_OK)
        fail_msg("%s", mt_last_error());
    return report;
}

static const char somebody[] = "{\"name\":\"f\",\"filename\":\"model.py\",\"line\":7}";
static const char end_of_another[] = "{\"action\":\"free_completed\",\"addr\":4194304,\"size\":512,\"stream\":0}";

static void a_recording_that_began_late_has_lost_nothing(void **state)
{
    (void)state;
    static const struct story late[] = {
        {"", "", 1000}, {"", end_of_another, 999}, {somebody, end_of_another, 1001}, {somebody, end_of_another, 512}};
    for (size_t i = 0; i < sizeof late / sizeof late[0]; i++) {
        struct mt_import_report report = import_story(&late[i]);
        assert_false(report.torch.lost_beginning);
        assert_int_equal(report.torch.before.blocks, 1 + (late[i].first[0] != '\0'));
        assert_int_equal(report.torch.before.freed, late[i].first[0] != '\0');
        assert_int_equal(report.torch.before.recorded, late[i].frames[0] != '\0');
        mt_import_report_release(&report);
    }
}

/* A full ring has as many events as the user chose, and the live blocks were taken, or are freed, in it. */
static void a_recording_that_was_full_has_lost_its_beginning(void **state)
{
    (void)state;
    static const struct story full[] = {
        {somebody, "", 1000}, {"", end_of_another, 1000}, {somebody, end_of_another, 1024}, {somebody, "", 5000}};
    for (size_t i = 0; i < sizeof full / sizeof full[0]; i++) {
        struct mt_import_report report = import_story(&full[i]);
        assert_int_equal(report.entries, full[i].events);
        assert_true(report.torch.lost_beginning);
        mt_import_report_release(&report);
    }
}

static void the_last_step_ends_when_the_recording_does(void **state)
{
    (void)state;
    struct mt_import_report report = import_story(&(struct story){"", "", 9});
    assert_int_equal(report.foreign.times_back, 0);
    assert_int_equal(sql_integer("story.db", "SELECT end_ns FROM step"), 8000);
    mt_import_report_release(&report);
}

/* The story's clock does not count from 1970, so it does not say when. */
static void a_run_began_at_its_first_event(void **state)
{
    (void)state;
    struct mt_import_report report = import_story(&(struct story){"", "", 9});
    assert_string_equal(sql_text("story.db", "SELECT started_at LIKE '20%' FROM run"), "1");
    mt_import_report_release(&report);
    const struct mt_import_plan plan = {
        .file = MT_TEST_DATA "/import/program_oom_gpt2.pickle.gz", .trace = "began.db", .device = MT_IMPORT_ANY_DEVICE};
    assert_int_equal(mt_import(&plan, &report), MT_OK);
    assert_string_equal(sql_text("began.db", "SELECT started_at FROM run"), "2026-11-22T11:42:49.997738Z");
    mt_import_report_release(&report);
}

/* Newer snapshots say it, whatever the number of events. */
static void a_snapshot_says_that_its_beginning_is_lost(void **state)
{
    (void)state;
    static const char *const said[] = {"true", "false"};
    for (int i = 0; i < 2; i++) {
        struct mt_import_report report;
        const struct mt_import_plan plan = {.file = "f.json", .trace = "f.db", .device = MT_IMPORT_ANY_DEVICE};
        FILE *file = fopen("f.json", "w");
        assert_non_null(file);
        fprintf(file, "{\"segments\":[],\"allocator_settings\":{\"trace_alloc_overflowed\":%s},\"device_traces\":[[",
                said[i]);
        write_events(file, 1000 - i, end_of_another);
        fprintf(file, "]]}");
        fclose(file);
        assert_int_equal(mt_import(&plan, &report), MT_OK);
        assert_int_equal(report.torch.lost_beginning, i == 0);
        mt_import_report_release(&report);
    }
}

/* Imports a snapshot without events, with more members. */
static struct mt_import_report import_settings(const char *members)
{
    struct mt_import_report report;
    const struct mt_import_plan plan = {.file = "set.json", .trace = "set.db", .device = MT_IMPORT_ANY_DEVICE};
    FILE *file = fopen("set.json", "w");
    assert_non_null(file);
    fprintf(file, "{\"segments\":[],\"device_traces\":[[]]%s}", members);
    fclose(file);
    if (mt_import(&plan, &report) != MT_OK)
        fail_msg("%s", mt_last_error());
    return report;
}

/* A setting of the run that such a snapshot becomes; "" if there is none of that name. */
static const char *setting_of(const char *members, const char *name)
{
    char sql[200];
    struct mt_import_report report = import_settings(members);
    snprintf(sql, sizeof sql, "SELECT value FROM setting WHERE run = %" PRId64 " AND name = '%s'", report.run, name);
    mt_import_report_release(&report);
    return sql_text("set.db", sql);
}

#define SETTINGS(text) ",\"allocator_settings\":{\"max_split_size\":" text "}"
#define DIVISIONS(small, large)                                                                                        \
    "-1,\"roundup_power2_divisions\":{\"1\":" #small ",\"2\":" #small ",\"4\":" #small ",\"8\":" #small                \
    ",\"16\":" #small ",\"32\":" #small ",\"64\":" #small ",\"128\":" #small ",\"256\":" #small ",\"512\":" #small     \
    ",\"1024\":" #small ",\"2048\":" #small ",\"4096\":" #small ",\"8192\":" #small ",\"16384\":" #small               \
    ",\"32768\":" #large "}"

static void the_allocators_settings_are_the_runs(void **state)
{
    (void)state;
    static const struct {
        const char *members, *alloc;
    } all[] = {{"", "policy=torch"},
               {SETTINGS("-1,\"roundup_power2_divisions\":{}"), "policy=torch"},
               {SETTINGS("209715200"), "policy=torch,max_split=209715200"},
               {SETTINGS(DIVISIONS(4, 4)), "policy=torch,roundup_power2_divisions=4"},
               {SETTINGS("-1,\"garbage_collection_threshold\":0.8"), "policy=torch,gc_threshold=0.8"},
               {SETTINGS("5,\"garbage_collection_threshold\":7.5"), "policy=torch"}, /* PyTorch never has this value */
               {SETTINGS(DIVISIONS(3, 3)), "policy=torch"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        assert_string_equal(setting_of(all[i].members, "alloc"), all[i].alloc);
    assert_string_equal(setting_of("", "expandable_segments"), "");
    assert_string_equal(setting_of(SETTINGS("-1,\"expandable_segments\":true"), "expandable_segments"), "on");
    assert_string_equal(setting_of(SETTINGS("-1,\"expandable_segments\":false"), "expandable_segments"), "off");
    assert_string_equal(setting_of(SETTINGS("-1,\"PYTORCH_CUDA_ALLOC_CONF\":\"x:y\""), "pytorch_alloc_conf"), "x:y");
}

/* --alloc can't express them. */
static void divisions_that_differ_by_size_are_told(void **state)
{
    (void)state;
    assert_string_equal(setting_of(SETTINGS(DIVISIONS(2, 8)), "alloc"), "policy=torch");
    struct mt_import_report differing = import_settings(SETTINGS(DIVISIONS(2, 8)));
    struct mt_import_report uniform = import_settings(SETTINGS(DIVISIONS(2, 2)));
    assert_true(differing.torch.rounds_by_size);
    assert_false(uniform.torch.rounds_by_size);
    mt_import_report_release(&differing);
    mt_import_report_release(&uniform);
}

/* Imports a file that must be refused with an error that says where. */
static void expect_refusal(const char *name, const char *text, const char *words)
{
    struct mt_import_report report;
    const struct mt_import_plan plan = {.file = name, .trace = "none.db", .device = MT_IMPORT_ANY_DEVICE};
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(mt_import(&plan, &report), MT_BAD_TRACE);
    if (strstr(mt_last_error(), words) == NULL)
        fail_msg("\"%s\" is not in: %s", words, mt_last_error());
    mt_import_report_release(&report);
    assert_int_not_equal(access("none.db", F_OK), 0);
}

#define HUGE "281474976710657" /* 2^48 + 1 */
#define SNAPSHOT(segments, events) "{\"segments\":[" segments "],\"device_traces\":[[" events "]]}"
#define EVENT(action, size) "{\"action\":\"" action "\",\"addr\":512,\"size\":" size "}"
#define SEGMENT(size, blocks) "{\"address\":0,\"total_size\":" size ",\"blocks\":[" blocks "]}"
#define HEADER "Thread,Time,Action,Pointer,Size,Stream\n"

static void a_size_beyond_all_cards_is_refused_where_it_stands(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *words;
    } all[] = {
        {"a.json", SNAPSHOT("", EVENT("alloc", "1") "," EVENT("alloc", HUGE)), "event 1: a size of " HUGE},
        {"a.json", SNAPSHOT("", EVENT("segment_alloc", HUGE)), "event 0"},
        {"a.json", SNAPSHOT("", "{\"action\":\"alloc\",\"addr\":9223372036854775807,\"size\":1}"),
         "event 0 has no size that is within its address space"},
        {"a.json", SNAPSHOT("", EVENT("free_completed", HUGE)), "event 0"},
        {"a.json", SNAPSHOT("", EVENT("alloc", "1,\"block_bytes\":" HUGE)), "event 0"},
        {"a.json", SNAPSHOT(SEGMENT(HUGE, ""), ""), "segment 0"},
        {"a.json", SNAPSHOT(SEGMENT("512", "{\"size\":" HUGE "}"), ""), "block 0"},
        {"a.json", SNAPSHOT(SEGMENT("512", "{\"size\":512,\"requested_size\":" HUGE "}"), ""), "block 0"},
        {"a.csv", HEADER "1,0:0:1,allocate,0x200,1,0\n1,0:0:2,allocate,0x400," HUGE ",0\n", "line 3"},
        {"a.csv", HEADER "1,0:0:1,allocate failure,0x0,18446744073709551615,0\n", "line 2"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        expect_refusal(all[i].name, all[i].text, all[i].words);
}

/* 2^48 each, which is allowed alone: the sum of the 8,193rd is not. */
static void sizes_whose_sum_no_number_holds_are_refused(void **state)
{
    (void)state;
    enum { EVENTS = 10000 };
    struct mt_text text = {0};
    mt_text_add(&text, "{\"segments\":[],\"device_traces\":[[");
    for (int i = 0; i < EVENTS; i++)
        mt_text_add(&text,
                    "%s"
                    "{\"action\":\"%s\",\"addr\":512,\"size\":281474976710656}",
                    i > 0 ? "," : "", i % 2 == 0 ? "alloc" : "free_completed");
    mt_text_add(&text, "]]}");
    expect_refusal("sum.json", mt_text_get(&text), "event 8192");
    mt_text_release(&text);
}

/* A refused request may be of any number of bytes, by a mistake; a trace has room for all of them. */
static void a_refused_request_may_have_any_size(void **state)
{
    (void)state;
    struct mt_import_report report;
    const struct mt_import_plan plan = {.file = "oom.json", .trace = "oom.db", .device = MT_IMPORT_ANY_DEVICE};
    FILE *file = fopen("oom.json", "w");
    assert_non_null(file);
    fputs(SNAPSHOT("", "{\"action\":\"oom\",\"size\":9223372036854775807}"), file);
    fclose(file);
    assert_int_equal(mt_import(&plan, &report), MT_OK);
    assert_int_equal(report.coverage.all_bytes, 0);
    assert_int_equal(sql_integer("oom.db", "SELECT requested_bytes FROM event WHERE kind = 4"),
                     INT64_MAX - (2 << 20) + 1);
    mt_import_report_release(&report);
}

/* Of several refusals the last one counts, and only a number of bytes that a device can have. */
static void what_the_driver_called_free_at_a_refusal_is_kept(void **state)
{
    (void)state;
    static const struct {
        const char *events;
        int64_t count, bytes;
    } all[] = {
        {"{\"action\":\"oom\",\"size\":9,\"device_free\":7},{\"action\":\"oom\",\"size\":9,\"device_free\":8}", 1, 8},
        {"{\"action\":\"oom\",\"size\":9,\"device_free\":0}", 1, 0},
        {"{\"action\":\"oom\",\"size\":9}", 0, 0},
        {"{\"action\":\"oom\",\"size\":9,\"device_free\":-1}", 0, 0},
        {"{\"action\":\"oom\",\"size\":9,\"device_free\":9223372036854775807}", 0, 0},
        {EVENT("alloc", "1"), 0, 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct mt_import_report report;
        const struct mt_import_plan plan = {.file = "free.json", .trace = "free.db", .device = MT_IMPORT_ANY_DEVICE};
        FILE *file = fopen("free.json", "w");
        assert_non_null(file);
        fprintf(file, SNAPSHOT("", "%s"), all[i].events);
        fclose(file);
        unlink("free.db");
        assert_int_equal(mt_import(&plan, &report), MT_OK);
        assert_int_equal(sql_integer("free.db", "SELECT count(*) FROM measurement"), all[i].count);
        assert_int_equal(sql_integer("free.db", "SELECT ifnull(sum(value), 0) FROM measurement WHERE step = -1"),
                         all[i].bytes);
        mt_import_report_release(&report);
    }
}

/* A program that catches the error and requests less has not ended out of memory. */
static void who_takes_memory_after_a_refusal_did_not_end_of_it(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *end;
    } all[] = {
        {"a.json", SNAPSHOT("", "{\"action\":\"oom\",\"size\":9}"), "oom"},
        {"a.json", SNAPSHOT("", EVENT("alloc", "1") ",{\"action\":\"oom\",\"size\":9}," EVENT("free_completed", "1")),
         "oom"},
        {"a.json", SNAPSHOT("", "{\"action\":\"oom\",\"size\":9}," EVENT("alloc", "1")), "done"},
        {"a.csv", HEADER "1,0:0:1,allocate,0x200,1,0\n1,0:0:2,allocate failure,0x0,9,0\n1,0:0:2,free,0x200,1,0\n",
         "oom"},
        {"a.csv", HEADER "1,0:0:1,allocate failure,0x0,9,0\n1,0:0:2,allocate,0x200,1,0\n", "done"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct mt_import_report report;
        const struct mt_import_plan plan = {.file = all[i].name, .trace = "end.db", .device = MT_IMPORT_ANY_DEVICE};
        FILE *file = fopen(all[i].name, "w");
        assert_non_null(file);
        fputs(all[i].text, file);
        fclose(file);
        assert_int_equal(mt_import(&plan, &report), MT_OK);
        assert_string_equal(sql_text("end.db", "SELECT state FROM run ORDER BY id DESC"), all[i].end);
        mt_import_report_release(&report);
    }
}

/* Loss is part of forward: a block that is freed before it is computed was not saved. */
static void what_goes_in_the_loss_is_not_saved(void **state)
{
    (void)state;
    struct mt_import_report report;
    const struct mt_import_plan plan = {
        .file = "loss.json", .trace = "loss.db", .rules = "loss.rules", .device = MT_IMPORT_ANY_DEVICE};
    FILE *file = fopen("loss.rules", "w");
    assert_non_null(file);
    fputs("size=1 -> phase=forward\nsize=2 -> phase=loss\nsize=3 -> phase=backward\n", file);
    fclose(file);
    file = fopen("loss.json", "w");
    assert_non_null(file);
#define AT(action, address, size) "{\"action\":\"" action "\",\"addr\":" address ",\"size\":" size "}"
    fputs(SNAPSHOT(
              "", AT("alloc", "512", "1") "," AT("alloc", "1024", "1") "," AT("alloc", "1536", "2") "," AT(
                      "free_completed", "512", "1") "," AT("alloc", "2048", "3") "," AT("free_completed", "1024", "1")),
          file);
    fclose(file);
    if (mt_import(&plan, &report) != MT_OK)
        fail_msg("%s", mt_last_error());
    assert_string_equal(sql_text("loss.db", "SELECT group_concat(role) FROM event JOIN label ON label.id = label"
                                            " WHERE kind = 2 AND phase = 'forward'"),
                        "temporary,activation");
    mt_import_report_release(&report);
}

static void a_rule_may_begin_a_step_by_its_phase(void **state)
{
    (void)state;
    struct mt_import_report report;
    const struct mt_import_plan plan = {
        .file = "step.json", .trace = "step.db", .rules = "step.rules", .device = MT_IMPORT_ANY_DEVICE};
    FILE *file = fopen("step.rules", "w");
    assert_non_null(file);
    fputs("size=1 -> phase=loss\nsize=2 -> phase=init\nphase=loss -> step\n", file);
    fclose(file);
    file = fopen("step.json", "w");
    assert_non_null(file);
    fputs(SNAPSHOT("", EVENT("alloc", "1") "," EVENT("alloc", "2") "," EVENT("alloc", "1")), file);
    fclose(file);
    if (mt_import(&plan, &report) != MT_OK)
        fail_msg("%s", mt_last_error());
    assert_int_equal(sql_integer("step.db", "SELECT count(*) FROM step"), 2);
    mt_import_report_release(&report);
}

#define SAID(stage, name, us) "{\"device\":0,\"stage\":\"" stage "\",\"name\":\"" name "\",\"time_us\":" us "}"
#define AT_TIME(action, address, us) "{\"action\":\"" action "\",\"addr\":" address ",\"size\":512,\"time_us\":" us "}"

/* An annotation applies to all blocks that are requested until it ends. Several may be open at once, and end out of
 * order or never. */
/* Any number may be open at once. */
static void what_is_said_without_end_is_read(void **state)
{
    (void)state;
    enum { SAID_OFTEN = 1000 };
    struct mt_import_report report;
    const struct mt_import_plan plan = {.file = "open.json", .trace = "open.db", .device = MT_IMPORT_ANY_DEVICE};
    FILE *file = fopen("open.json", "w");
    assert_non_null(file);
    fputs("{\"segments\":[],\"device_traces\":[[" AT_TIME("alloc", "512", "10") "]],\"external_annotations\":[", file);
    for (int i = 0; i < SAID_OFTEN; i++)
        fputs(SAID("START", "again", "5") ",", file);
    fputs(SAID("END", "again", "5") "]}", file);
    fclose(file);
    if (mt_import(&plan, &report) != MT_OK)
        fail_msg("%s", mt_last_error());
    assert_int_equal(report.entries, 1);
    mt_import_report_release(&report);
}

static void rules_go_by_what_the_program_said(void **state)
{
    (void)state;
    struct mt_import_report report;
    const struct mt_import_plan plan = {
        .file = "said.json", .trace = "said.db", .rules = "said.rules", .device = MT_IMPORT_ANY_DEVICE};
    FILE *file = fopen("said.rules", "w");
    assert_non_null(file);
    fputs("annotation=\"Optimizer.step#*\" -> category=Optimizer\n"
          "annotation=\"# forward #\" -> category=FFN\n",
          file);
    fclose(file);
    file = fopen("said.json", "w");
    assert_non_null(file);
    fputs(
        "{\"segments\":[],\"device_traces\":[[" AT_TIME("free_completed", "9216", "5") "," AT_TIME("alloc", "512", "10") "," AT_TIME("alloc", "1024", "20") "," AT_TIME(
            "alloc", "1536",
            "30") "," AT_TIME("alloc", "2048",
                              "40") "," AT_TIME("alloc", "2560",
                                                "50") "," AT_TIME("alloc", "3072",
                                                                  "60") "]],\"external_annotations\":"
                                                                        "[" SAID("START", "# forward #", "20") "," SAID(
                                                                            "STAR"
                                                                            "T",
                                                                            "Opti"
                                                                            "mize"
                                                                            "r."
                                                                            "step"
                                                                            "#Ada"
                                                                            "mW."
                                                                            "ste"
                                                                            "p",
                                                                            "30") "," SAID("END", "# forward #",
                                                                                           "40") "," SAID("END",
                                                                                                          "Optimizer."
                                                                                                          "step#AdamW."
                                                                                                          "step",
                                                                                                          "50") "," SAID("END",
                                                                                                                         "nothing",
                                                                                                                         "55") "," SAID("START",
                                                                                                                                        "# forward #",
                                                                                                                                        "60") "]}",
        file);
    fclose(file);
    if (mt_import(&plan, &report) != MT_OK)
        fail_msg("%s", mt_last_error());
    assert_string_equal(sql_text("said.db", "SELECT group_concat(category) FROM (SELECT category FROM event JOIN label"
                                            " ON label.id = label WHERE kind = 2 ORDER BY event.id)"),
                        "Other,Other,FFN,Optimizer,Optimizer,Other,FFN");
    mt_import_report_release(&report);
}

static int set_up(void **state)
{
    *state = enter_folder("test_import_torch");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_recording_that_began_late_has_lost_nothing),
        cmocka_unit_test(a_recording_that_was_full_has_lost_its_beginning),
        cmocka_unit_test(the_last_step_ends_when_the_recording_does),
        cmocka_unit_test(a_run_began_at_its_first_event),
        cmocka_unit_test(a_snapshot_says_that_its_beginning_is_lost),
        cmocka_unit_test(the_allocators_settings_are_the_runs),
        cmocka_unit_test(divisions_that_differ_by_size_are_told),
        cmocka_unit_test(a_size_beyond_all_cards_is_refused_where_it_stands),
        cmocka_unit_test(sizes_whose_sum_no_number_holds_are_refused),
        cmocka_unit_test(a_refused_request_may_have_any_size),
        cmocka_unit_test(what_is_said_without_end_is_read),
        cmocka_unit_test(rules_go_by_what_the_program_said),
        cmocka_unit_test(a_rule_may_begin_a_step_by_its_phase),
        cmocka_unit_test(what_goes_in_the_loss_is_not_saved),
        cmocka_unit_test(what_the_driver_called_free_at_a_refusal_is_kept),
        cmocka_unit_test(who_takes_memory_after_a_refusal_did_not_end_of_it),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
