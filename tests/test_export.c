/* Exports from outside: tables that say what the trace says, stacks that sum to the peak, profiles as pprof reads them,
 * and files that are there only when they are complete. */
#include "program.h"

#include "base/text.h"
#include "profile_reader.h"
#include "synthetic.h"
#include "trace/blocks.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <zlib.h>

#define TINY "run --vocab 64 --d-model 16 --d-ff 32 --layers 3 --heads 2 --seq 8 --batch 2 --device sim --steps 2 "

enum { MOST_COLUMNS = 32, WHOLE_BYTES = 1 << 23, LINE_BYTES = 4096 };

/* A trace of two runs, and the program's own reader of the second. */
struct fixture {
    char *folder;
    struct mt_trace *trace;
    const struct mt_run *run;
};

static int set_up(void **state)
{
    struct fixture *fixture = mt_host_alloc(sizeof *fixture);
    fixture->folder = enter_folder("test_export");
    assert_int_equal(MEMTRACE(TINY "--name plain")->code, 0);
    assert_int_equal(MEMTRACE(TINY "--name cast --autocast bf16")->code, 0);
    assert_int_equal(mt_trace_open("memtrace.db", &fixture->trace), MT_OK);
    assert_int_equal(mt_trace_find_run(fixture->trace, "cast", &fixture->run), MT_OK);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    if (fixture == NULL) /* it could not be set up */
        return 0;
    void *folder = fixture->folder;
    mt_trace_close(fixture->trace);
    free(fixture);
    return leave_folder(&folder);
}

static void expect_success(const struct said *said)
{
    if (said->code != 0)
        fail_msg("exit code %d: %s", said->code, said->err);
}

/* What a file holds, unpacked if it is compressed; the caller's. */
static char *contents(const char *path, size_t *out_bytes)
{
    char *text = mt_host_alloc(WHOLE_BYTES + 1);
    gzFile file = gzopen(path, "rb");
    assert_non_null(file);
    int bytes = gzread(file, text, WHOLE_BYTES);
    assert_in_range(bytes, 0, WHOLE_BYTES - 1);
    assert_int_equal(gzclose(file), Z_OK);
    *out_bytes = (size_t)bytes;
    return text;
}

static char *export_to(const char *arguments, const char *path)
{
    size_t bytes;
    expect_success(shell("\"$M\" export %s -o %s", arguments, path));
    return contents(path, &bytes);
}

/* A CSV file under reading: cut into fields in place. */
struct csv {
    char *text, *rest;
    const char *titles[MOST_COLUMNS], *fields[MOST_COLUMNS];
    size_t column_count;
};

/* Cuts one field off; *out_after is what followed it. RFC 4180. */
static const char *csv_field(struct csv *csv, char *out_after)
{
    char *field = csv->rest, *to = field, *from = field;
    bool is_quoted = *from == '"';
    for (from += is_quoted; is_quoted ? *from != '"' || from[1] == '"' : *from != ',' && *from != '\n'; from++) {
        assert_int_not_equal(*from, '\0');
        from += is_quoted && *from == '"';
        *to++ = *from;
    }
    from += is_quoted;
    *out_after = *from;
    *to = '\0';
    csv->rest = from + 1;
    return field;
}

static bool csv_line(struct csv *csv, const char **fields, size_t *out_count)
{
    char after = ',';
    if (*csv->rest == '\0')
        return false;
    for (*out_count = 0; after == ','; ++*out_count) {
        assert_true(*out_count < MOST_COLUMNS);
        fields[*out_count] = csv_field(csv, &after);
    }
    assert_int_equal(after, '\n');
    return true;
}

static struct csv csv_begin(char *text)
{
    struct csv csv = {.text = text, .rest = text};
    assert_true(csv_line(&csv, csv.titles, &csv.column_count));
    return csv;
}

static bool csv_next(struct csv *csv)
{
    size_t count;
    if (!csv_line(csv, csv->fields, &count))
        return false;
    assert_int_equal(count, csv->column_count);
    return true;
}

static const char *csv_get(const struct csv *csv, const char *title)
{
    for (size_t i = 0; i < csv->column_count; i++)
        if (strcmp(csv->titles[i], title) == 0)
            return csv->fields[i];
    fail_msg("there is no column %s", title);
    return NULL;
}

static int64_t csv_integer(const struct csv *csv, const char *title)
{
    char *end;
    const char *text = csv_get(csv, title);
    long long value = strtoll(text, &end, 10);
    if (*text == '\0' || *end != '\0')
        fail_msg("%s is \"%s\"", title, text);
    return value;
}

static void expect_block_fields(const struct csv *csv, const struct mt_block_row *block,
                                const struct mt_label_row *label, int64_t first_event)
{
    assert_int_equal(csv_integer(csv, "id"), block->alloc_event - first_event);
    assert_int_equal(csv_integer(csv, "alloc_ns"), block->alloc_ns);
    if (block->free_event == 0) {
        assert_string_equal(csv_get(csv, "free_id"), "");
        assert_string_equal(csv_get(csv, "free_ns"), "");
    } else {
        assert_int_equal(csv_integer(csv, "free_id"), block->free_event - first_event);
        assert_int_equal(csv_integer(csv, "free_ns"), block->free_ns);
    }
    assert_int_equal(csv_integer(csv, "requested_bytes"), block->requested_bytes);
    assert_int_equal(csv_integer(csv, "block_bytes"), block->block_bytes);
    assert_int_equal(csv_integer(csv, "segment"), block->segment);
    assert_int_equal(csv_integer(csv, "offset"), block->offset);
    assert_int_equal(csv_integer(csv, "stream"), block->stream);
    assert_string_equal(csv_get(csv, "category"), label->category);
    assert_string_equal(csv_get(csv, "role"), label->role);
    assert_string_equal(csv_get(csv, "op"), label->op);
    assert_string_equal(csv_get(csv, "phase"), label->phase);
    assert_string_equal(csv_get(csv, "dtype"), label->dtype);
    assert_string_equal(csv_get(csv, "shape"), label->shape);
    assert_string_equal(csv_get(csv, "span"), label->span);
    assert_int_equal(csv_get(csv, "layer")[0] == '\0', label->layer < 0);
    assert_true(label->layer < 0 || csv_integer(csv, "layer") == label->layer);
}

static void the_table_of_blocks_says_what_the_trace_says(void **state)
{
    struct fixture *fixture = *state;
    struct mt_block_row *blocks;
    struct mt_label_row *labels;
    size_t count, label_count, row = 0;
    struct csv csv = csv_begin(export_to("blocks", "blocks.csv"));
    assert_int_equal(mt_trace_blocks(fixture->trace, fixture->run, 0, INT64_MAX, &blocks, &count), MT_OK);
    assert_int_equal(mt_trace_labels(fixture->trace, fixture->run, &labels, &label_count), MT_OK);
    assert_true(count > 100);
    for (; csv_next(&csv); row++) {
        assert_true(row < count);
        expect_block_fields(&csv, &blocks[row], &labels[blocks[row].label], fixture->run->first_event);
    }
    assert_int_equal(row, count);
    free(csv.text);
    free(blocks);
    free(labels);
}

/* What a value of JSON would be in CSV. */
static void expect_same_value(const json_t *value, const char *field)
{
    char text[32];
    assert_non_null(value);
    if (json_is_integer(value))
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    assert_string_equal(json_is_null(value) ? "" : json_is_integer(value) ? text : json_string_value(value), field);
}

static void json_has_the_rows_of_csv(void **state)
{
    (void)state;
    static const char *const tables[] = {"blocks", "events", "peaks", "blocks --step 1", "events --step 0"};
    for (size_t table = 0; table < sizeof tables / sizeof tables[0]; table++) {
        struct csv csv = csv_begin(export_to(tables[table], "table.csv"));
        char *text = export_to(tables[table], "table.json"), schema[64];
        json_t *json = json_loads(text, 0, NULL), *rows = json_object_get(json, "rows");
        snprintf(schema, sizeof schema, "memtrace.export_%.*s/1", (int)strcspn(tables[table], " "), tables[table]);
        assert_schema(json, schema);
        assert_string_equal(text_of(json, "name"), "cast");
        size_t row = 0;
        for (; csv_next(&csv); row++) {
            const json_t *object = json_array_get(rows, row);
            assert_int_equal(json_object_size(object), csv.column_count);
            for (size_t i = 0; i < csv.column_count; i++)
                expect_same_value(json_object_get(object, csv.titles[i]), csv.fields[i]);
        }
        assert_true(row > 20);
        assert_int_equal(row, json_array_size(rows));
        json_decref(json);
        free(text);
        free(csv.text);
    }
}

static uint64_t peak_bytes(const struct fixture *fixture, const char *run, mt_measure measure)
{
    const struct mt_run *found;
    struct mt_peak_row peak;
    assert_int_equal(mt_trace_find_run(fixture->trace, run, &found), MT_OK);
    assert_int_equal(mt_trace_peak(fixture->trace, found, measure, &peak), MT_OK);
    uint64_t bytes = peak.bytes;
    mt_peak_row_release(&peak);
    return bytes;
}

static void replaying_the_table_of_events_gives_the_peaks(void **state)
{
    struct csv csv = csv_begin(export_to("events", "events.csv"));
    int64_t n = 0, allocated = 0, requested = 0, most_allocated = 0, most_requested = 0;
    for (; csv_next(&csv); n++) {
        bool is_alloc = strcmp(csv_get(&csv, "action"), "alloc") == 0;
        assert_int_equal(csv_integer(&csv, "n"), n);
        assert_true(is_alloc || strcmp(csv_get(&csv, "action"), "free") == 0);
        allocated += csv_integer(&csv, "block_bytes") * (is_alloc ? 1 : -1);
        requested += csv_integer(&csv, "requested_bytes") * (is_alloc ? 1 : -1);
        most_allocated = allocated > most_allocated ? allocated : most_allocated;
        most_requested = requested > most_requested ? requested : most_requested;
    }
    assert_int_equal(most_allocated, peak_bytes(*state, "cast", MT_MEASURE_ALLOCATED));
    assert_int_equal(most_requested, peak_bytes(*state, "cast", MT_MEASURE_REQUESTED));
    free(csv.text);
}

static void rows_of_a_peak_sum_to_it(void **state)
{
    struct csv csv = csv_begin(export_to("peaks", "peaks.csv"));
    char current[LINE_BYTES] = "", of_row[LINE_BYTES];
    int64_t left = 0, groups = 0, of_steps = 0;
    bool has_cached = false;
    while (csv_next(&csv)) {
        snprintf(of_row, sizeof of_row, "%s %s %s", csv_get(&csv, "scope"), csv_get(&csv, "step"),
                 csv_get(&csv, "measure"));
        if (strcmp(of_row, current) != 0) {
            assert_int_equal(left, 0);
            left = csv_integer(&csv, "peak_bytes");
            groups++;
        }
        strcpy(current, of_row);
        left -= csv_integer(&csv, "bytes");
        has_cached = has_cached || strcmp(csv_get(&csv, "category"), "(cached)") == 0;
        if (strcmp(of_row, "run  reserved") == 0)
            assert_int_equal(csv_integer(&csv, "peak_bytes"), peak_bytes(*state, "cast", MT_MEASURE_RESERVED));
        if (strcmp(csv_get(&csv, "scope"), "step") == 0 && strcmp(csv_get(&csv, "measure"), "allocated") == 0)
            of_steps = csv_integer(&csv, "peak_bytes") > of_steps ? csv_integer(&csv, "peak_bytes") : of_steps;
    }
    assert_int_equal(left, 0);
    assert_int_equal(groups, 3 * 4); /* the run, before the first step, two steps */
    assert_int_equal(of_steps, peak_bytes(*state, "cast", MT_MEASURE_ALLOCATED));
    assert_true(has_cached);
    free(csv.text);
}

/* The position in the run of the event that begins or ends step 1. */
static int64_t step_mark(const struct fixture *fixture, mt_event_kind kind)
{
    struct mt_mark_row *marks;
    size_t count;
    int64_t found = -1;
    assert_int_equal(mt_trace_marks(fixture->trace, fixture->run, 0, INT64_MAX, &marks, &count), MT_OK);
    for (size_t i = 0; i < count; i++)
        if (marks[i].kind == kind && marks[i].value == 1)
            found = marks[i].event - fixture->run->first_event;
    free(marks);
    assert_true(found > 0);
    return found;
}

static void blocks_of_a_step_were_live_in_it(void **state)
{
    int64_t begin = step_mark(*state, MT_EVENT_STEP_BEGIN), end = step_mark(*state, MT_EVENT_STEP_END);
    struct csv whole = csv_begin(export_to("blocks", "whole.csv"));
    struct csv part = csv_begin(export_to("blocks --step 1", "part.csv"));
    size_t left_out = 0;
    while (csv_next(&whole)) {
        bool is_freed = csv_get(&whole, "free_id")[0] != '\0';
        if (csv_integer(&whole, "id") > end || (is_freed && csv_integer(&whole, "free_id") < begin)) {
            left_out++;
            continue;
        }
        assert_true(csv_next(&part));
        assert_string_equal(csv_get(&part, "id"), csv_get(&whole, "id"));
        bool is_freed_later = is_freed && csv_integer(&whole, "free_id") > end;
        assert_string_equal(csv_get(&part, "free_id"), is_freed_later ? "" : csv_get(&whole, "free_id"));
    }
    assert_false(csv_next(&part));
    assert_true(left_out > 0);
    free(whole.text);
    free(part.text);
}

/* A line of folded stacks, cut at its columns. */
struct line {
    char stack[LINE_BYTES];
    uint64_t bytes[2];
};

/* Cuts a column of digits off the end. */
static uint64_t cut_column(char *line)
{
    char *blank = strrchr(line, ' ');
    assert_non_null(blank);
    assert_true(blank[1] != '\0' && blank[1 + strspn(blank + 1, "0123456789")] == '\0');
    *blank = '\0';
    return strtoull(blank + 1, NULL, 10);
}

/* The next line of *text; false at the end. */
static bool next_line(char **text, int columns, struct line *out)
{
    size_t length = strcspn(*text, "\n");
    if (**text == '\0')
        return false;
    assert_true(length < LINE_BYTES);
    snprintf(out->stack, sizeof out->stack, "%.*s", (int)length, *text);
    for (int column = columns - 1; column >= 0; column--)
        out->bytes[column] = cut_column(out->stack);
    *text += length + 1;
    return true;
}

static uint64_t sum_of_column(char *text, int columns, int column)
{
    struct line line;
    uint64_t sum = 0;
    while (next_line(&text, columns, &line))
        sum += line.bytes[column];
    return sum;
}

static size_t count_of_lines(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; text++)
        count += *text == '\n';
    return count;
}

static uint64_t all_bytes(const struct fixture *fixture)
{
    struct mt_block_row *blocks;
    size_t count;
    uint64_t sum = 0;
    assert_int_equal(mt_trace_blocks(fixture->trace, fixture->run, 0, INT64_MAX, &blocks, &count), MT_OK);
    for (size_t i = 0; i < count; i++)
        sum += blocks[i].block_bytes;
    free(blocks);
    return sum;
}

static void folded_stacks_sum_to_the_peak_or_to_all_that_was_allocated(void **state)
{
    char *peak = export_to("stacks", "peak.folded"), *run = export_to("--at run", "run.folded.gz");
    char *merged = export_to("--merge-layers", "merged.folded");
    uint64_t bytes = peak_bytes(*state, "cast", MT_MEASURE_ALLOCATED);
    assert_int_equal(sum_of_column(peak, 1, 0), bytes);
    assert_int_equal(sum_of_column(merged, 1, 0), bytes);
    assert_int_equal(sum_of_column(run, 1, 0), all_bytes(*state));
    assert_non_null(strstr(peak, "model;layers;2;ffn;"));
    assert_non_null(strstr(merged, "model;layers;*;ffn;"));
    assert_null(strstr(merged, ";2;"));
    assert_true(count_of_lines(merged) < count_of_lines(peak));
    free(peak);
    free(run);
    free(merged);
}

static void a_stack_has_one_line(void **state)
{
    (void)state;
    static const char *const exports[] = {"stacks", "--at run --merge-layers", "--diff plain"};
    for (size_t i = 0; i < sizeof exports / sizeof exports[0]; i++) {
        char *text = export_to(exports[i], "lines.folded"), *rest = text;
        struct line before = {0}, line;
        for (; next_line(&rest, i == 2 ? 2 : 1, &line); before = line)
            assert_true(strcmp(before.stack, line.stack) < 0);
        free(text);
    }
}

static void the_columns_of_a_difference_sum_to_the_peaks(void **state)
{
    char *text = export_to("stacks --diff plain --run cast", "diff.folded");
    char *back = export_to("stacks --diff memtrace.db:cast --run plain", "back.folded");
    uint64_t plain = peak_bytes(*state, "plain", MT_MEASURE_ALLOCATED);
    uint64_t cast = peak_bytes(*state, "cast", MT_MEASURE_ALLOCATED);
    assert_int_not_equal(plain, cast);
    assert_int_equal(sum_of_column(text, 2, 0), plain);
    assert_int_equal(sum_of_column(text, 2, 1), cast);
    struct line line, flipped;
    for (char *a = text, *b = back; next_line(&a, 2, &line);) {
        assert_true(next_line(&b, 2, &flipped));
        assert_string_equal(line.stack, flipped.stack);
        assert_int_equal(line.bytes[0], flipped.bytes[1]);
        assert_int_equal(line.bytes[1], flipped.bytes[0]);
    }
    free(text);
    free(back);
}

static struct profile export_profile(const char *arguments)
{
    size_t bytes;
    expect_success(shell("\"$M\" export %s --format pprof -o profile.pb.gz", arguments));
    char *data = contents("profile.pb.gz", &bytes);
    struct profile profile = profile_read(data, bytes);
    free(data);
    return profile;
}

static void expect_type(const struct profile *profile, size_t index, const char *type, const char *unit)
{
    assert_string_equal(profile_string(profile, profile->types[index]), type);
    assert_string_equal(profile_string(profile, profile->units[index]), unit);
}

static void a_profile_has_the_values_of_a_heap_profile(void **state)
{
    struct fixture *fixture = *state;
    struct profile profile = export_profile("stacks");
    assert_int_equal(profile.type_count, PROFILE_VALUES);
    expect_type(&profile, 0, "alloc_objects", "count");
    expect_type(&profile, 1, "alloc_space", "bytes");
    expect_type(&profile, 2, "inuse_objects", "count");
    expect_type(&profile, 3, "inuse_space", "bytes");
    assert_string_equal(profile_string(&profile, 0), "");
    assert_string_equal(profile_string(&profile, profile.default_type), "inuse_space");
    uint64_t sums[PROFILE_VALUES] = {0};
    for (size_t i = 0; i < profile.sample_count; i++) {
        assert_int_equal(profile.samples[i].value_count, PROFILE_VALUES);
        for (int value = 0; value < PROFILE_VALUES; value++)
            sums[value] += profile.samples[i].values[value];
    }
    struct mt_block_row *blocks;
    size_t count;
    assert_int_equal(mt_trace_blocks(fixture->trace, fixture->run, 0, INT64_MAX, &blocks, &count), MT_OK);
    free(blocks);
    assert_int_equal(sums[0], count);
    assert_int_equal(sums[1], all_bytes(fixture));
    assert_int_equal(sums[3], peak_bytes(fixture, "cast", MT_MEASURE_ALLOCATED));
    profile_release(&profile);
}

/* The bytes in use of the samples whose frames are those of a folded stack. */
static uint64_t profile_bytes(const struct profile *profile, const char *stack)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < profile->sample_count; i++) {
        struct mt_text line = {0};
        const struct profile_sample *sample = &profile->samples[i];
        for (size_t frame = sample->depth; frame-- > 0;)
            mt_text_add(&line, "%s%s", line.length > 0 ? ";" : "", profile_frame(profile, sample, frame));
        if (strcmp(mt_text_get(&line), stack) == 0)
            sum += sample->values[3];
        mt_text_release(&line);
    }
    return sum;
}

static void stacks_of_a_profile_are_the_folded_ones(void **state)
{
    (void)state;
    struct profile profile = export_profile("--merge-layers");
    char *folded = export_to("--merge-layers", "same.folded"), *rest = folded;
    struct line line;
    while (next_line(&rest, 1, &line))
        assert_int_equal(profile_bytes(&profile, line.stack), line.bytes[0]);
    free(folded);
    profile_release(&profile);
}

static void labels_of_a_profile_split_the_peak_by_category(void **state)
{
    struct fixture *fixture = *state;
    struct profile profile = export_profile("");
    struct mt_peak_row peak;
    assert_int_equal(mt_trace_peak(fixture->trace, fixture->run, MT_MEASURE_ALLOCATED, &peak), MT_OK);
    assert_true(peak.share_count > 3);
    for (size_t share = 0; share < peak.share_count; share++) {
        uint64_t bytes = 0, blocks = 0;
        for (size_t i = 0; i < profile.sample_count; i++) {
            const struct profile_sample *sample = &profile.samples[i];
            assert_non_null(profile_label(&profile, sample, "phase"));
            if (strcmp(profile_label(&profile, sample, "category"), peak.shares[share].category) != 0)
                continue;
            blocks += sample->values[2];
            bytes += sample->values[3];
        }
        assert_int_equal(bytes, peak.shares[share].allocated_bytes);
        assert_int_equal(blocks, peak.shares[share].blocks);
    }
    mt_peak_row_release(&peak);
    profile_release(&profile);
}

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
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("\"$M\" export %s", cases[i][0]);
        if (said->code != MT_USAGE || said->out[0] != '\0')
            fail_msg("%s: exit code %d: %s", cases[i][0], said->code, said->err);
        assert_says(said->err, cases[i][1]);
    }
    expect_success(MEMTRACE("runs")); /* the trace is as it was */
}

static void an_option_has_its_short_name(void **state)
{
    (void)state;
    assert_says(MEMTRACE("export --help")->out, "  -o, --output FILE ");
    expect_success(shell("\"$M\" export -o=a.csv && \"$M\" export --output b.csv && cmp a.csv b.csv"));
}

static void execute(const char *path, const char *sql)
{
    sqlite3 *database;
    char *error = NULL;
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    if (sqlite3_exec(database, sql, NULL, NULL, &error) != SQLITE_OK)
        fail_msg("%s: %s", sql, error);
    sqlite3_close(database);
}

/* Of the label of Data: an op that every format has its own trouble with. */
static void names_of_any_kind_break_no_format(void **state)
{
    static const char op[] = "a\"b\";c,\r\nd 12";
    expect_success(shell("cp memtrace.db odd.db"));
    execute("odd.db", "UPDATE label SET op = 'a\"b\";c,' || char(13, 10) || 'd 12', span = 0 WHERE category = 'Data';"
                      "UPDATE label SET op = CAST(x'fffe' AS TEXT) WHERE category = 'Param'");
    size_t found = 0;
    struct csv csv = csv_begin(export_to("blocks --trace odd.db", "odd.csv"));
    while (csv_next(&csv))
        found += strcmp(csv_get(&csv, "category"), "Data") == 0 && strcmp(csv_get(&csv, "op"), op) == 0;
    assert_true(found > 0);
    free(csv.text);

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
        cmocka_unit_test(the_table_of_blocks_says_what_the_trace_says),
        cmocka_unit_test(json_has_the_rows_of_csv),
        cmocka_unit_test(replaying_the_table_of_events_gives_the_peaks),
        cmocka_unit_test(rows_of_a_peak_sum_to_it),
        cmocka_unit_test(blocks_of_a_step_were_live_in_it),
        cmocka_unit_test(folded_stacks_sum_to_the_peak_or_to_all_that_was_allocated),
        cmocka_unit_test(a_stack_has_one_line),
        cmocka_unit_test(the_columns_of_a_difference_sum_to_the_peaks),
        cmocka_unit_test(a_profile_has_the_values_of_a_heap_profile),
        cmocka_unit_test(stacks_of_a_profile_are_the_folded_ones),
        cmocka_unit_test(labels_of_a_profile_split_the_peak_by_category),
        cmocka_unit_test(what_is_compressed_is_what_is_not),
        cmocka_unit_test(a_write_that_fails_leaves_nothing),
        cmocka_unit_test(a_file_that_is_replaced_stays_where_it_is),
        cmocka_unit_test(what_makes_no_sense_is_wrong_usage),
        cmocka_unit_test(an_option_has_its_short_name),
        cmocka_unit_test(names_of_any_kind_break_no_format),
        cmocka_unit_test(a_run_of_nothing_is_a_table_of_no_rows),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
