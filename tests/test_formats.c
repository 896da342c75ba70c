/* Traces of formats 1 to 5, which programs of those formats recorded (data/formats): they are read as traces of the
 * newest format, as they are and after a run was added. */
#include "program.h"
#include "trace_edit.h"
#include "trace_path.h"

#include "trace/query/blocks.h"
#include "trace/query/caveats.h"
#include "trace/store/trace_format.h"

#include <zlib.h>

enum { FILE_BYTES = 8 << 20, BLOCKS = 1024 };

/* Unpacks the trace of that format to the test's path. */
static void unpack(int format)
{
    char name[300], *bytes = malloc(FILE_BYTES);
    snprintf(name, sizeof name, "%s/formats/format_%d.db.gz", MT_TEST_DATA, format);
    gzFile packed = gzopen(name, "rb");
    assert_non_null(packed);
    int count = gzread(packed, bytes, FILE_BYTES);
    assert_in_range(count, 1, FILE_BYTES - 1);
    gzclose(packed);
    FILE *file = fopen(path, "w");
    assert_int_equal(fwrite(bytes, 1, (size_t)count, file), count);
    fclose(file);
    free(bytes);
}

static void expect_peaks(struct mt_trace *trace, const struct mt_run *run)
{
    static const uint64_t peaks[MT_MEASURE_COUNT] = {
        [MT_MEASURE_ALLOCATED] = 69059584, [MT_MEASURE_REQUESTED] = 69047816, [MT_MEASURE_RESERVED] = 69206016};
    for (int i = 0; i < MT_MEASURE_COUNT; i++) {
        struct mt_peak_row peak;
        assert_int_equal(mt_trace_peak(trace, run, (mt_measure)i, &peak), MT_OK);
        assert_int_equal(peak.bytes, peaks[i]);
        if (i == MT_MEASURE_ALLOCATED) {
            assert_string_equal(peak.shares[0].name, "Workspace");
            assert_int_equal(peak.shares[0].allocated_bytes, 67108864);
        }
        mt_peak_row_release(&peak);
    }
}

static void expect_roles(struct mt_trace *trace, const struct mt_run *run, const char *source)
{
    static const struct {
        const char *name;
        int labels;
    } roles[] = {{"parameter", 21}, {"gradient", 21}, {"optimizer state", 42}, {"activation", 52}, {"temporary", 223},
                 {"workspace", 2},  {"input", 3}};
    struct mt_label_row *labels;
    size_t count, found, all = 0;
    assert_int_equal(mt_trace_labels(trace, run, &labels, &count), MT_OK);
    for (size_t r = 0; r < sizeof roles / sizeof roles[0]; r++, all += found) {
        found = 0;
        for (size_t i = 1; i < count; i++)
            found += strcmp(labels[i].role, roles[r].name) == 0;
        assert_int_equal(found, roles[r].labels);
    }
    assert_int_equal(all, count - 1);
    assert_string_equal(labels[1].role_source, source);
    free(labels);
}

/* Checks the blocks, and that their uses are known where the format has them. */
static void expect_blocks(struct mt_trace *trace, const struct mt_run *run, bool has_uses)
{
    struct mt_block_row *blocks;
    size_t count, known = 0, freed = 0;
    assert_int_equal(mt_trace_blocks(trace, run, 1, INT64_MAX / 8, &blocks, &count), MT_OK);
    assert_int_equal(count, BLOCKS);
    struct mt_use_row *uses = calloc(count + 1, sizeof *uses);
    assert_int_equal(mt_trace_uses(trace, run, blocks, count, uses), MT_OK);
    for (size_t i = 0; i < count; i++) {
        known += uses[i].known;
        freed += blocks[i].free_event != 0;
    }
    assert_int_equal(known, has_uses ? freed : 0);
    assert_true(freed > BLOCKS / 2);
    free(uses);
    free(blocks);
}

static void expect_parts(struct mt_trace *trace, const struct mt_run *run)
{
    struct mt_part_row *parts;
    size_t count;
    uint64_t bytes = 0;
    assert_int_equal(mt_trace_parts(trace, run, &parts, &count), MT_OK);
    for (size_t i = 0; i < count; i++)
        bytes += parts[i].bytes;
    assert_int_equal(bytes, 69206016);
    free(parts);
}

/* Checks that nothing is known which these formats do not store. */
static void expect_no_caveats(struct mt_trace *trace, const struct mt_run *run)
{
    struct mt_caveat *rows;
    size_t count;
    assert_null(run->ended_by);
    assert_int_equal(mt_trace_caveats(trace, run, &rows, &count), MT_OK);
    assert_int_equal(count, 0);
    free(rows);
}

/* Checks what the file says of run 1, which a program of that format recorded. */
static void expect_answers(int format)
{
    struct mt_trace *trace;
    const struct mt_run *run;
    char name[16];
    if (mt_trace_open(path, &trace) != MT_OK)
        fail_msg("format %d: %s", format, mt_last_error());
    assert_int_equal(mt_trace_find_run(trace, "1", &run), MT_OK);
    snprintf(name, sizeof name, "format %d", format);
    assert_string_equal(run->name, name);
    assert_int_equal(run->steps, 3);
    assert_int_equal(run->missing_records, 0);
    expect_peaks(trace, run);
    expect_roles(trace, run, format > MT_TRACE_FORMAT_OF_OLD_ROLES ? "declared" : "");
    expect_blocks(trace, run, format > MT_TRACE_FORMAT_WITHOUT_USES);
    expect_parts(trace, run);
    expect_no_caveats(trace, run);
    mt_trace_close(trace);
}

static void older_traces_are_read_and_left_as_they_are(void **state)
{
    (void)state;
    for (int format = 1; format < MT_TRACE_FORMAT; format++) {
        unpack(format);
        expect_answers(format);
        assert_int_equal(sql_integer(path, "PRAGMA user_version"), format);
        assert_int_equal(sql_integer(path, "SELECT count(*) FROM label WHERE role = 'parameter'"),
                         format > MT_TRACE_FORMAT_OF_OLD_ROLES ? 21 : 0);
    }
}

static void a_run_that_is_added_brings_an_older_trace_up_to_date(void **state)
{
    (void)state;
    for (int format = 1; format < MT_TRACE_FORMAT; format++) {
        unpack(format);
        fixture_record(path, 2, 3000);
        expect_answers(format);
        assert_int_equal(sql_integer(path, "PRAGMA user_version"), MT_TRACE_FORMAT);
        assert_int_equal(sql_integer(path, "SELECT count(*) FROM label WHERE role = 'parameter' AND run = 1"), 21);
        assert_int_equal(sql_integer(path, "SELECT count(*) FROM event_kind"), MT_EVENT_KIND_COUNT);
        assert_int_equal(fixture_check_run(path, 2, 2), 3000);
    }
}

/* The order of columns counts: rows are stored without naming them. */
static void a_trace_brought_up_to_date_has_the_tables_of_a_new_one(void **state)
{
    (void)state;
    static const char tables[] =
        "SELECT group_concat(t || '.' || c, ' ') FROM (SELECT m.name AS t, c.name AS c FROM sqlite_schema AS m"
        " JOIN pragma_table_info(m.name) AS c WHERE m.type IN ('table', 'view') ORDER BY m.name, c.cid)";
    fixture_record(path, 1, 100);
    char *expected = strdup(sql_text(path, tables));
    for (int format = 1; format < MT_TRACE_FORMAT; format++) {
        unpack(format);
        fixture_record(path, 1, 100);
        assert_string_equal(sql_text(path, tables), expected);
    }
    free(expected);
}

/* Leaves a run of `events` events whose process died, in a trace of format 4. */
static void leave_killed_run_of_format_4(uint64_t seed, uint64_t events)
{
    const pid_t child = fork();
    if (child == 0) {
        struct mt_recorder *recorder = fixture_open(path, 0);
        struct script script = script_begin(seed, mt_recorder_sink(recorder));
        script_emit(&script, events / 2);
        mt_recorder_flush(recorder);
        script_emit(&script, events - events / 2);
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    edit_trace(path,
               "DROP TABLE caveat; DROP TABLE program_phase; DROP TABLE pool; DROP TABLE holder; DROP TABLE finding;"
               " ALTER TABLE run DROP COLUMN ended_by; ALTER TABLE segment DROP COLUMN pool;"
               " ALTER TABLE segment DROP COLUMN card; PRAGMA user_version = 4");
}

static void a_ring_of_an_older_trace_is_stored(void **state)
{
    (void)state;
    struct mt_trace *trace;
    leave_killed_run_of_format_4(7, 5000);
    assert_int_equal(mt_trace_open(path, &trace), MT_OK);
    mt_trace_close(trace);
    assert_int_equal(sql_integer(path, "PRAGMA user_version"), MT_TRACE_FORMAT);
    assert_int_equal(fixture_check_run(path, 1, 7), 5000);
    assert_string_equal(sql_text(path, "SELECT state FROM run"), "interrupted");
}

static int set_up_folder(void **state)
{
    *state = enter_folder("test_formats");
    snprintf(path, sizeof path, "trace.db");
    return 0;
}

/* Checks that commands answer about a trace of an older format. */
static void expect_commands_to_answer(void)
{
    static const struct {
        const char *command, *says;
    } questions[] = {
        {"runs", "65.86 MiB"},
        {"runs --json", "\"ended_by\": null"},
        {"peak --bytes", "69059584"},
        {"peak --json", "\"shortened\": []"},
        {"peak --by module", "model.lm_head"},
        {"top 5", "32.00 MiB"},
        {"top 5 --each --at peak", "Workspace"},
        {"categories", "Softmax"},
        {"events --step 1", "einsum"},
        {"steps", "step"},
        {"diff 1 1", "65.86 MiB"},
        {"advise", "memtrace"},
        {"verify", "whole"},
        {"sql \"SELECT count(*) FROM run LEFT JOIN caveat ON caveat.run = run.id LEFT JOIN program_phase AS phase"
         " ON phase.run = run.id LEFT JOIN pool ON pool.run = run.id LEFT JOIN holder ON holder.run = run.id"
         " LEFT JOIN finding ON finding.run = run.id LEFT JOIN segment ON segment.pool = pool.id AND segment.card = 0"
         " WHERE run.ended_by IS NULL AND caveat.kind IS NULL\"",
         "1"},
    };
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        const struct said *said = shell("\"$M\" %s --trace trace.db", questions[i].command);
        if (said->code != 0)
            fail_msg("memtrace %s: %s", questions[i].command, said->err);
        assert_says(said->out, questions[i].says);
    }
}

static void commands_answer_about_older_traces(void **state)
{
    (void)state;
    for (int format = 1; format < MT_TRACE_FORMAT; format++) {
        unpack(format);
        expect_commands_to_answer();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(older_traces_are_read_and_left_as_they_are, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_run_that_is_added_brings_an_older_trace_up_to_date, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_trace_brought_up_to_date_has_the_tables_of_a_new_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_ring_of_an_older_trace_is_stored, set_up, tear_down),
        cmocka_unit_test_setup_teardown(commands_answer_about_older_traces, set_up_folder, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
