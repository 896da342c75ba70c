/* The blocks of damaged traces, whose numbers may be invalid. */
#include "blocks_fixture.h"
#include "trace_edit.h"

#include "synthetic.h"

/* Makes every query about the second run. The outcome is the first failure; *out_freed: the number of freed blocks. */
static mt_status ask_everything(struct fixture *fixture, size_t *out_freed)
{
    struct mt_block_row *blocks = NULL, *live = NULL;
    struct mt_label_row *labels = NULL;
    struct mt_segment_row *segments = NULL;
    struct mt_part_row *parts = NULL;
    struct mt_mark_row *marks = NULL;
    const struct mt_run *run = &fixture->runs[1];
    size_t count = 0, rest;
    mt_status status = mt_trace_blocks(fixture->trace, run, INT64_MIN, INT64_MAX, &blocks, &count);
    *out_freed = 0;
    for (size_t i = 0; i < count; i++)
        *out_freed += blocks[i].free_event != 0;
    int64_t last = run->first_event + run->event_count - 1;
    status = mt_status_keep(status, mt_trace_live(fixture->trace, run, last, &live, &rest));
    status = mt_status_keep(status, mt_trace_labels(fixture->trace, run, &labels, &rest));
    status = mt_status_keep(status, mt_trace_segments(fixture->trace, run, &segments, &rest));
    status = mt_status_keep(status, mt_trace_parts(fixture->trace, run, &parts, &rest));
    status = mt_status_keep(status, mt_trace_marks(fixture->trace, run, INT64_MIN, INT64_MAX, &marks, &rest));
    free(blocks);
    free(live);
    free(labels);
    free(segments);
    free(parts);
    free(marks);
    return status;
}

/* The newest event of a kind, in SQL. */
#define NEWEST(kind) " WHERE id = (SELECT max(id) FROM event WHERE kind = " #kind ")"

/* Damage to the trace, and the answer to it; `lost_frees`: blocks that lose their end by it. */
static const struct {
    const char *damage;
    mt_status status;
    size_t lost_frees;
} damages[] = {
    {"UPDATE event SET label = 16777215" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET label = -1" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET label = NULL" NEWEST(2), MT_OK, 0},
    {"UPDATE event SET requested_bytes = -5" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET block_bytes = -512" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET block_bytes = 0" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET requested_bytes = 1, block_bytes = 9223372036854775807" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET block_bytes = 1 << 56 WHERE kind = 2", MT_BAD_TRACE, 0},
    {"UPDATE event SET offset = -1" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET segment = 4294967296" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET segment = 1000000" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET stream = 65536" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET time_ns = -1" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET allocation = NULL" NEWEST(3), MT_OK, 1},
    {"UPDATE event SET allocation = -1" NEWEST(3), MT_OK, 1},
    {"UPDATE event SET allocation = id" NEWEST(3), MT_OK, 1},
    {"UPDATE event SET allocation = (SELECT min(id) FROM event WHERE kind = 2)" NEWEST(3), MT_OK, 1},
    {"UPDATE event SET time_ns = -1" NEWEST(3), MT_BAD_TRACE, 0},
    {"UPDATE event SET kind = 77" NEWEST(3), MT_OK, 1},
    {"UPDATE event SET requested_bytes = 5" NEWEST(9), MT_BAD_TRACE, 0},
    {"UPDATE event SET label = 16777215" NEWEST(4), MT_BAD_TRACE, 0},
    {"DELETE FROM label WHERE run = 2 AND id = 1", MT_BAD_TRACE, 0},
    {"UPDATE label SET id = -1 WHERE run = 2 AND id = 1", MT_BAD_TRACE, 0},
    {"UPDATE label SET id = 9000000000 WHERE run = 2 AND id = 2", MT_BAD_TRACE, 0},
    {"UPDATE label SET layer = 9000000000 WHERE run = 2 AND id = 1", MT_BAD_TRACE, 0},
    {"UPDATE label SET span = 999 WHERE run = 2 AND id = 1", MT_OK, 0},
    {"UPDATE label SET category = x'ff00' WHERE run = 2 AND id = 1", MT_OK, 0},
    {"DELETE FROM segment WHERE run = 2 AND id = 1", MT_BAD_TRACE, 0},
    {"UPDATE segment SET stream = -1 WHERE run = 2 AND id = 0", MT_BAD_TRACE, 0},
    {"UPDATE segment SET bytes = -1 WHERE run = 2 AND id = 0", MT_BAD_TRACE, 0},
    {"UPDATE segment SET mapped_event = 1 WHERE run = 2 AND id = 0", MT_BAD_TRACE, 0},
    {"UPDATE checkpoint SET live = x'ff' WHERE run = 2", MT_BAD_TRACE, 0},
    {"UPDATE checkpoint SET live = x'0000' WHERE run = 2", MT_BAD_TRACE, 0},
    {"UPDATE checkpoint SET live = x'ffffffff7f' WHERE run = 2", MT_BAD_TRACE, 0},
    {"UPDATE checkpoint SET live = x'ffffffffffffffff7f' WHERE run = 2", MT_BAD_TRACE, 0},
};

/* Copies the trace in the same folder, damages the copy and opens it. */
static void open_damaged(const struct fixture *whole, const char *damage, struct fixture *out)
{
    char copy[128];
    *out = (struct fixture){0};
    snprintf(out->path, sizeof out->path, "test_blocks_damaged_%d.db", (int)getpid());
    unlink(out->path);
    snprintf(copy, sizeof copy, "VACUUM INTO '%s'", out->path);
    edit_trace(whole->path, copy);
    edit_trace(out->path, damage);
    open_trace(out);
}

static void a_damaged_trace_leads_nowhere(void **state)
{
    struct fixture *whole = *state, damaged;
    size_t freed, freed_before;
    assert_int_equal(ask_everything(whole, &freed_before), MT_OK);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        open_damaged(whole, damages[i].damage, &damaged);
        mt_status status = ask_everything(&damaged, &freed);
        if (status != damages[i].status || (status == MT_OK && freed + damages[i].lost_frees != freed_before))
            fail_msg("%s: status %d (%s), %zu blocks freed of %zu", damages[i].damage, status, mt_last_error(), freed,
                     freed_before);
        clean_up(&damaged);
    }
}

static void a_run_whose_events_have_no_numbers_is_damaged(void **state)
{
    static const char *const cases[] = {"first_event = 9223372036854775807",
                                        "event_count = -1",
                                        "first_event = -5",
                                        "event_count = 9223372036854775807",
                                        "event_count = 4000000000000",
                                        "event_count = event_count + 1",
                                        "first_event = first_event + 1"};
    struct fixture *whole = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture damaged = {.path = "test_blocks_numbers.db"};
        char copy[128], damage[128];
        snprintf(copy, sizeof copy, "VACUUM INTO '%s'", damaged.path);
        snprintf(damage, sizeof damage, "UPDATE run SET %s WHERE id = 2", cases[i]);
        unlink(damaged.path);
        edit_trace(whole->path, copy);
        edit_trace(damaged.path, damage);
        assert_int_equal(mt_trace_open(damaged.path, &damaged.trace), MT_BAD_TRACE);
        unlink(damaged.path);
    }
}

/* Few events, and numbers that claim many: memory for all of them must not be requested. */
static void a_run_of_more_events_than_its_file_could_hold_is_damaged(void **state)
{
    static const char *const last_ids[] = {"1 << 20", "1 << 40", "1 << 60",
                                           "1 << 61", "1 << 62", "9223372036854775806"};
    struct fixture *whole = *state;
    for (size_t i = 0; i < sizeof last_ids / sizeof last_ids[0]; i++) {
        struct fixture damaged = {.path = "test_blocks_sparse.db"};
        char copy[128], damage[256];
        snprintf(copy, sizeof copy, "VACUUM INTO '%s'", damaged.path);
        snprintf(damage, sizeof damage,
                 "UPDATE event SET id = %s WHERE id = (SELECT max(id) FROM event);"
                 "UPDATE run SET event_count = (%s) - first_event + 1 WHERE id = 2",
                 last_ids[i], last_ids[i]);
        unlink(damaged.path);
        edit_trace(whole->path, copy);
        edit_trace(damaged.path, damage);
        assert_int_equal(mt_trace_open(damaged.path, &damaged.trace), MT_BAD_TRACE);
        assert_non_null(strstr(mt_last_error(), "room"));
        unlink(damaged.path);
    }
}

static int enter(void **state)
{
    *state = enter_folder("test_blocks_damaged");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RANDOM_TEST(a_damaged_trace_leads_nowhere),
        RANDOM_TEST(a_run_whose_events_have_no_numbers_is_damaged),
        RANDOM_TEST(a_run_of_more_events_than_its_file_could_hold_is_damaged),
    };
    return cmocka_run_group_tests(tests, enter, leave_folder);
}
