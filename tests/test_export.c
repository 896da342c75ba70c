/* Exports from outside: files that are there only when they are complete, and names and runs that trouble formats. */
#include "csv_reader.h"
#include "export_fixture.h"
#include "folded_reader.h"
#include "trace_edit.h"

#include "synthetic.h"

#include <sys/stat.h>

static void what_is_compressed_is_what_is_not(void **state)
{
    (void)state;
    static const char *const names[] = {"a.csv", "a.json", "a.folded"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char packed[32];
        struct stat small, large;
        snprintf(packed, sizeof packed, "%s.gz", names[i]);
        char *plain = export_to("", names[i]), *unpacked = export_to("", packed);
        assert_string_equal(plain, unpacked);
        assert_int_equal(stat(packed, &small), 0);
        assert_int_equal(stat(names[i], &large), 0);
        assert_true(small.st_size * 3 < large.st_size);
        expect_success(
            shell("gzip -t %s && \"$M\" export --format %s | cmp - %s", packed, strchr(names[i], '.') + 1, names[i]));
        free(plain);
        free(unpacked);
    }
    expect_success(MEMTRACE("export --format pprof | gzip -dc > a.pb"));
    expect_success(MEMTRACE("export -o - | cmp - a.csv"));
}

static void a_write_that_fails_leaves_nothing(void **state)
{
    (void)state;
    static const char *const names[] = {"new.csv", "new.json", "old.csv"};
    expect_success(shell("echo old > old.csv; mkdir full"));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct said *said = shell("trap '' XFSZ; ulimit -f 8; \"$M\" export events -o full/%s", names[i]);
        assert_int_equal(said->code, MT_NOT_WRITTEN);
        assert_says(said->err, "can't write");
        assert_says(said->err, names[i]);
        assert_string_equal(shell("ls -A full")->out, "");
    }
    expect_success(shell("trap '' XFSZ; ulimit -f 8; ! \"$M\" export events -o old.csv && grep -qx old old.csv"));
    assert_int_equal(MEMTRACE("export events -o /dev/full")->code, MT_NOT_WRITTEN);
    assert_int_equal(MEMTRACE("export events >/dev/full")->code, MT_NOT_WRITTEN);
    assert_int_equal(MEMTRACE("export events -o nowhere/a.csv")->code, MT_NOT_WRITTEN);
    expect_success(shell("{ \"$M\" export events; echo $? > code; } | head -n 1; grep -qx 0 code"));
}

static void an_ending_that_no_format_has_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"x.xyz", "x.xyz.gz", "a.folder/x.txt", ".x.csv2"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct said *said = shell("\"$M\" export -o %s", names[i]);
        assert_int_equal(said->code, MT_USAGE);
        assert_says(said->err, "unknown ending \".");
        assert_says(said->err, ".csv, .json, .folded, .pb, .pprof, .pickle, .sqlite; --format");
        assert_int_equal(access(names[i], F_OK), -1);
    }
    expect_success(MEMTRACE("export --format csv -o x.xyz"));
    expect_success(shell("mkdir a.folder && \"$M\" export -o a.folder/x && cmp x.xyz a.folder/x"));
    expect_success(shell("\"$M\" export -o .x && \"$M\" export -o x.gz && gzip -dc x.gz | cmp - .x"));
}

static void a_file_that_is_replaced_stays_where_it_is(void **state)
{
    (void)state;
    expect_success(shell("mkdir there && echo old > there/a.csv && ln -s there/a.csv link.csv &&"
                         " \"$M\" export -o link.csv && test -L link.csv && grep -q ^id, there/a.csv &&"
                         " test \"$(ls there)\" = a.csv"));
    expect_success(MEMTRACE("export -o /dev/null"));
    expect_success(shell("test -c /dev/null"));
}

static void what_makes_no_sense_is_wrong_usage(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"stacks --format csv", "folded or pprof"},
        {"blocks --format folded", "csv or json"},
        {"peaks -o run.pb.gz", "csv or json"},
        {"--json --format csv", "exclude each other"},
        {"--format pprof --diff 1", "-diff_base"},
        {"--format pprof --at run", "alloc_space"},
        {"events --at peak", "--at means nothing"},
        {"stacks --step 1", "--step means nothing"},
        {"blocks --merge-layers", "--merge-layers means nothing"},
        {"blocks --diff 1", "--diff means nothing"},
        {"blocks --step 2", "has no step 2: it has 2"},
        {"events --step 2", "has no step 2: it has 2"},
        {"peaks --step 2", "has no step 2: it has 2"},
        {"blocs", "\"blocks\""},
        {"--format jsn", "\"json\""},
        {"--outptu a.csv", "\"--output\""},
        {"-o", "--output needs a value"},
        {"--diff nope --format folded", "there is no run \"nope\""},
        {"-o memtrace.db", "memtrace.db is a trace"},
        {"-o ./memtrace.db", "./memtrace.db is a trace"},
        {"-o memtrace.db-ring", "memtrace.db-ring would belong to a trace"},
        {"-o memtrace.db-ring-damaged-12", "memtrace.db-ring-damaged-12 would belong to a trace"},
        {"-o ./memtrace.db-wal --format csv", "memtrace.db-wal would belong to a trace"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("\"$M\" export %s", cases[i][0]);
        if (said->code != MT_USAGE || said->out[0] != '\0')
            fail_msg("%s: exit code %d: %s", cases[i][0], said->code, said->err);
        assert_says(said->err, cases[i][1]);
    }
    expect_success(MEMTRACE("runs")); /* the trace is unchanged */
}

static void an_option_has_its_short_name(void **state)
{
    (void)state;
    assert_says(MEMTRACE("export --help")->out, "  -o, --output FILE ");
    expect_success(shell("\"$M\" export -o=a.csv && \"$M\" export --output b.csv && cmp a.csv b.csv"));
}

/* Of the label of Data: an op that is hard to write in every format. */
static void names_of_any_kind_break_no_format(void **state)
{
    static const char op[] = "a\"b\";c,\r\nd 12";
    expect_success(shell("cp memtrace.db odd.db"));
    edit_trace("odd.db",
               "UPDATE label SET op = 'a\"b\";c,' || char(13, 10) || 'd 12', span = 0 WHERE category = 'Data';"
               "UPDATE label SET op = CAST(x'fffe' AS TEXT) WHERE category = 'Param'");
    size_t found = 0;
    struct csv csv = csv_begin(export_to("blocks --trace odd.db", "odd.csv"));
    while (csv_next(&csv))
        found += strcmp(csv_get(&csv, "category"), "Data") == 0 && strcmp(csv_get(&csv, "op"), op) == 0;
    assert_true(found > 0);
    free(csv.text);
    expect_success(shell("\"$M\" export blocks --trace odd.db --format csv | cat >piped &&"
                         " grep -q 'c,.x0d.x0ad 12' piped && ! grep -q '^d 12' piped"));

    char *text = export_to("blocks --trace odd.db", "odd.json");
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    json_decref(json);
    free(text);

    text = export_to("--trace odd.db", "odd.folded");
    assert_non_null(strstr(text, "Data;a\"b\"_c,__d_12 "));
    assert_int_equal(sum_of_column(text, 1, 0), peak_bytes(*state, "cast", MT_MEASURE_ALLOCATED));
    free(text);

    struct profile profile = export_profile("--trace odd.db");
    bool has_op = false, has_repaired = false;
    for (size_t i = 0; i < profile.string_count; i++) {
        has_op = has_op || strcmp(profile.strings[i], op) == 0;
        has_repaired = has_repaired || strcmp(profile.strings[i], "\xEF\xBF\xBD\xEF\xBF\xBD") == 0;
    }
    assert_true(has_op && has_repaired);
    profile_release(&profile);
}

static void a_run_of_nothing_is_a_table_of_no_rows(void **state)
{
    (void)state;
    struct synthetic run;
    assert_int_equal(synthetic_open(&run, "empty.db", NULL, 1, 1), MT_OK);
    assert_int_equal(synthetic_close(&run), MT_OK);
    static const char *const tables[] = {"blocks", "events", "peaks"};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        assert_int_equal(count_of_lines(shell("\"$M\" export %s --trace empty.db", tables[i])->out), 1);
        json_t *json = json_of(shell("\"$M\" export %s --trace empty.db --json", tables[i]));
        assert_true(json_is_array(json_object_get(json, "rows")));
        assert_int_equal(json_array_size(json_object_get(json, "rows")), 0);
        json_decref(json);
    }
    assert_string_equal(MEMTRACE("export stacks --trace empty.db")->out, "");
    struct profile profile = export_profile("--trace empty.db");
    assert_int_equal(profile.sample_count, 0);
    assert_int_equal(profile.type_count, PROFILE_VALUES);
    profile_release(&profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_compressed_is_what_is_not),
        cmocka_unit_test(a_write_that_fails_leaves_nothing),
        cmocka_unit_test(an_ending_that_no_format_has_is_refused),
        cmocka_unit_test(a_file_that_is_replaced_stays_where_it_is),
        cmocka_unit_test(what_makes_no_sense_is_wrong_usage),
        cmocka_unit_test(an_option_has_its_short_name),
        cmocka_unit_test(names_of_any_kind_break_no_format),
        cmocka_unit_test(a_run_of_nothing_is_a_table_of_no_rows),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
