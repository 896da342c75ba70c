/* Damage to a page of a trace is found when the page is read: no answer differs in silence. */
#include "program.h"
#include "seed.h"
#include "trace_edit.h"

enum { PAGE_BYTES = 16384, DAMAGES = 60, QUESTIONS = 6 };

/* Questions about summaries, events, texts and blobs. */
static const char *const questions[QUESTIONS] = {
    "peak",       "top --each", "advise",
    "categories", "events",     "sql 'SELECT count(*), sum(block_bytes), max(time_ns) FROM event'"};

/* A file in memory. */
struct content {
    char *data;
    size_t bytes;
};

static struct content read_content(const char *path)
{
    struct content content = {0};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    content.bytes = (size_t)ftell(file);
    content.data = malloc(content.bytes);
    rewind(file);
    assert_int_equal(fread(content.data, 1, content.bytes, file), content.bytes);
    fclose(file);
    return content;
}

static void write_content(const char *path, struct content content)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(content.data, 1, content.bytes, file), content.bytes);
    fclose(file);
}

static void record_trace(void)
{
    const struct said *said =
        MEMTRACE("run --device sim:h100 --model small --layers 4 --batch 2 --seq 128 --steps 3 --trace trace.db");
    if (said->code != 0)
        fail_msg("%s", said->err);
}

static int set_up(void **state)
{
    *state = enter_folder("page_file");
    return 0;
}

/* The exit code and the output of each question, apart from the trace's own name. */
struct answers {
    int codes[QUESTIONS];
    char *texts[QUESTIONS];
};

static void ask(struct answers *out)
{
    for (int i = 0; i < QUESTIONS; i++) {
        const struct said *said = shell("\"$M\" %s --trace trace.db", questions[i]);
        out->codes[i] = said->code;
        out->texts[i] = strdup(said->out);
    }
}

static void release(struct answers *answers)
{
    for (int i = 0; i < QUESTIONS; i++)
        free(answers->texts[i]);
}

/* Compares the answers with those of the whole trace. Returns the number of those that say that it is damaged. */
static int check_answers(const struct answers *whole, const char *damage, size_t place)
{
    struct answers answers;
    int found = 0;
    ask(&answers);
    for (int i = 0; i < QUESTIONS; i++) {
        if (answers.codes[i] == 3) {
            found++;
            continue;
        }
        if (answers.codes[i] != whole->codes[i] || strcmp(answers.texts[i], whole->texts[i]) != 0)
            fail_msg("%s at byte %zu: %s says something else, with exit code %d", damage, place, questions[i],
                     answers.codes[i]);
    }
    release(&answers);
    return found;
}

/* A sector, a page or a bit, at any place. */
static void no_damage_gives_another_answer(void **state)
{
    (void)state;
    uint64_t seed = take_seed();
    struct answers whole;
    int found = 0;
    record_trace();
    ask(&whole);
    struct content content = read_content("trace.db");
    for (uint64_t i = 0; i < attack_count(DAMAGES); i++) {
        static const size_t bytes[] = {512, 4096, PAGE_BYTES};
        uint64_t random = mt_splitmix64(seed * DAMAGES + i);
        size_t count = bytes[random % 3], place = random / 3 % (content.bytes / count) * count;
        bool is_bit = i % 2 == 0;
        if (is_bit)
            count = 1, place = random % content.bytes;
        char *before = malloc(count);
        memcpy(before, content.data + place, count);
        if (is_bit)
            content.data[place] ^= (char)(1 << random / content.bytes % 8);
        else
            memset(content.data + place, 0, count);
        write_content("trace.db", content);
        found += check_answers(&whole, is_bit ? "a changed bit" : "zeros", place);
        memcpy(content.data + place, before, count);
        free(before);
    }
    assert_true(found > 0);
    release(&whole);
    free(content.data);
}

/* It has a right checksum, of another page. */
static void a_page_in_another_place_is_damage(void **state)
{
    (void)state;
    record_trace();
    struct content content = read_content("trace.db");
    const size_t last = content.bytes / PAGE_BYTES - 1;
    for (size_t page = 1; page < last; page++)
        memcpy(content.data + page * PAGE_BYTES, content.data + last * PAGE_BYTES, PAGE_BYTES);
    write_content("trace.db", content);
    const struct said *said = MEMTRACE("peak --trace trace.db");
    assert_int_equal(said->code, 3);
    assert_says(said->err, "does not match");
    free(content.data);
}

static void a_trace_that_another_program_changed_is_read(void **state)
{
    (void)state;
    struct answers whole;
    record_trace();
    ask(&whole);
    edit_trace("trace.db", "CREATE VIEW mine AS SELECT count(*) FROM event; CREATE INDEX also_mine ON event (label)");
    assert_int_equal(check_answers(&whole, "a view", 0), 0);
    MEMTRACE("run --device sim:h100 --model small --layers 1 --batch 1 --seq 64 --steps 1 --trace trace.db");
    assert_int_equal(MEMTRACE("peak --trace trace.db")->code, 0);
    release(&whole);
}

static void missing_events_are_noticed(void **state)
{
    (void)state;
    record_trace();
    edit_trace("trace.db", "DELETE FROM event WHERE id % 7 = 2");
    for (int i = 0; i < QUESTIONS; i++) {
        const struct said *said = shell("\"$M\" %s --trace trace.db", questions[i]);
        assert_int_equal(said->code, 3);
        assert_says(said->err, " of its ");
    }
}

static void a_second_run_keeps_the_checksums(void **state)
{
    (void)state;
    record_trace();
    record_trace();
    struct content content = read_content("trace.db");
    assert_memory_equal(content.data + 24, content.data + PAGE_BYTES - 16, 4); /* the counter and its copy */
    content.data[content.bytes - PAGE_BYTES / 2] ^= 1;
    write_content("trace.db", content);
    const struct said *said = MEMTRACE("sql 'PRAGMA integrity_check' --trace trace.db");
    assert_true(said->code == 3 || strstr(said->out, "ok") == NULL);
    free(content.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_damage_gives_another_answer, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(a_page_in_another_place_is_damage, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(a_trace_that_another_program_changed_is_read, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(missing_events_are_noticed, set_up, leave_folder),
        cmocka_unit_test_setup_teardown(a_second_run_keeps_the_checksums, set_up, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
