/* JSON: values are read as they are written and as a pickle has them, and all other bytes end in a status. */
#include "plain_values.h"

#include "producers/file/document.h"
#include "producers/file/json_reader.h"
#include "producers/file/pickle.h"
#include "seed.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#define DATA MT_TEST_DATA "/import/"
enum { FLIPS = 4000, MOST_WALKED = 20000, TREES = 300 };

static mt_status read_bytes(const void *data, size_t length, struct mt_value_store **store, struct mt_value *out)
{
    const struct mt_value_limits limits = mt_value_limits_of(length, UINT64_MAX);
    *store = mt_value_store_create(&limits);
    unsigned char *copy = malloc(length + !length); /* so that a sanitizer knows its end */
    memcpy(copy, data, length);
    mt_status status = mt_json_read(copy, length, *store, out);
    free(copy);
    return status;
}

static struct mt_value read_text(const char *text, struct mt_value_store **store)
{
    struct mt_value value;
    if (read_bytes(text, strlen(text), store, &value) != MT_OK)
        fail_msg("%s: %s", text, mt_last_error());
    return value;
}

static void expect_text(const char *json, const char *expected, size_t length)
{
    struct mt_value_store *store;
    struct mt_value value = read_text(json, &store);
    const struct mt_value *text = mt_value_at(&value, 0);
    assert_int_equal(text->kind, MT_VALUE_TEXT);
    assert_int_equal(text->length, length);
    assert_memory_equal(text->text, expected, length + 1);
    mt_value_store_destroy(store);
}
#define EXPECT_TEXT(json, expected) expect_text(json, expected, sizeof(expected) - 1)

static void escapes_are_undone(void **state)
{
    (void)state;
    EXPECT_TEXT("[\"plain\"]", "plain");
    EXPECT_TEXT("[\"\"]", "");
    EXPECT_TEXT("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]", "\"\\/\b\f\n\r\t");
    EXPECT_TEXT("[\"\\u0041\\u00e4\\u6f22\\uD83E\\udd86\"]", "A\xc3\xa4\xe6\xbc\xa2\xf0\x9f\xa6\x86");
    EXPECT_TEXT("[\"a\\u0000b\"]", "a\0b");
    EXPECT_TEXT("[\"\xc3\xa4\\n\xff\"]", "\xc3\xa4\n\xff");
    EXPECT_TEXT("[\"\\ud83ex\"]", "\xef\xbf\xbdx");
    EXPECT_TEXT("[\"\\ud83e\\u0041\"]", "\xef\xbf\xbd"
                                        "A");
    EXPECT_TEXT("[\"\\ud83e\\ud83e\\udd86\"]", "\xef\xbf\xbd\xf0\x9f\xa6\x86");
    EXPECT_TEXT("[\"\\udd86\\ud83e\"]", "\xef\xbf\xbd\xef\xbf\xbd");
}

static void numbers_are_what_they_spell(void **state)
{
    (void)state;
    static const char json[] = "[0, -0, 9223372036854775807, -9223372036854775808, 9223372036854775808,"
                               " 0.5, -1e3, 1E-2, 1e+2, 123456789012345678901234567890]";
    static const int64_t integers[] = {0, 0, INT64_MAX, INT64_MIN};
    static const double reals[] = {9223372036854775808.0, 0.5, -1000, 0.01, 100, 123456789012345678901234567890.0};
    struct mt_value_store *store;
    struct mt_value value = read_text(json, &store);
    assert_int_equal(mt_value_count(&value), 10);
    for (uint32_t i = 0; i < 4; i++) {
        int64_t integer;
        assert_true(mt_value_integer(mt_value_at(&value, i), &integer));
        assert_int_equal(integer, integers[i]);
    }
    for (uint32_t i = 4; i < 10; i++) {
        assert_int_equal(mt_value_at(&value, i)->kind, MT_VALUE_REAL);
        assert_true(mt_value_at(&value, i)->real == reals[i - 4]);
    }
    mt_value_store_destroy(store);
}

static void what_is_no_json_is_refused_where_it_goes_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *json, *reason;
    } cases[] = {
        {"", "byte 0 of the JSON: it ends where a value should come"},
        {"[", "byte 1 of the JSON: it ends"},
        {"[1 2]", "byte 3 of the JSON: there is 0x32 where a comma or the end of a list should come"},
        {"[1,]", "byte 3 of the JSON: there is 0x5d where a value"},
        {"[1}", "where a comma or the end of a list"},
        {"{\"a\":1]", "where a comma or the end of an object"},
        {"{\"a\" 1}", "where a colon"},
        {"{\"a\":}", "where a value"},
        {"{\"a\":1,}", "where a key"},
        {"{1:2}", "where a key"},
        {"[1] x", "byte 4 of the JSON: there is 0x78 where the end should come"},
        {"[01]", "byte 2 of the JSON: there is 0x31 where the rest of a number that begins with 0"},
        {"[-]", "where a value"},
        {"[1.]", "where a digit"},
        {"[1e]", "where a digit"},
        {"[.5]", "where a value"},
        {"[+1]", "where a value"},
        {"[NaN]", "where a value"},
        {"[tru]", "where a value"},
        {"[\"a\nb\"]", "byte 3 of the JSON: there is 0x0a where the rest of a text"},
        {"[\"abc", "where the rest of a text"},
        {"[\"\\x\"]", "where what a backslash may be followed by"},
        {"[\"\\u12g4\"]", "where a hexadecimal digit"},
        {"[\"\\", "it ends where what a backslash"},
        {"[\"\\ud800\\u", "it ends where a hexadecimal digit"},
        {"\xef\xbb\xbf[]", "0xef where a value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_value_store *store;
        struct mt_value value;
        assert_int_equal(read_bytes(cases[i].json, strlen(cases[i].json), &store, &value), MT_BAD_TRACE);
        if (strstr(mt_last_error(), cases[i].reason) == NULL)
            fail_msg("%s: \"%s\" does not say: %s", cases[i].json, mt_last_error(), cases[i].reason);
        mt_value_store_destroy(store);
    }
}

/* A random value, written as JSON and as a pickle. */
struct writer {
    struct bytes json, pickle;
    uint64_t random;
};

static uint64_t draw(struct writer *writer, uint64_t below)
{
    writer->random = mt_splitmix64(writer->random);
    return (writer->random >> 20) % below;
}

static void write_integer(struct writer *writer)
{
    char text[32];
    uint64_t bits = mt_splitmix64(writer->random) >> draw(writer, 64);
    int64_t integer = draw(writer, 2) == 0 ? (int64_t)(bits >> 1) : -(int64_t)(bits >> 1);
    snprintf(text, sizeof text, "%" PRId64, integer);
    bytes_add_text(&writer->json, text);
    bytes_add(&writer->pickle, "\x8a\x8", 2);
    bytes_add_number(&writer->pickle, (uint64_t)integer, 8);
}

static void write_text(struct writer *writer)
{
    static const struct {
        const char *plain, *json;
    } pieces[] = {{"a", "a"},
                  {"\n", "\\n"},
                  {"\"", "\\\""},
                  {"\xc3\xa4", "\\u00e4"},
                  {"\xe6\xbc\xa2", "\xe6\xbc\xa2"},
                  {"forward", "forward"}};
    struct bytes plain = {0};
    bytes_add_text(&writer->json, "\"");
    for (uint64_t count = draw(writer, 12); count > 0; count--) {
        uint64_t piece = draw(writer, sizeof pieces / sizeof pieces[0]);
        bytes_add_text(&plain, pieces[piece].plain);
        bytes_add_text(&writer->json, pieces[piece].json);
    }
    bytes_add_text(&writer->json, "\"");
    bytes_add_text(&writer->pickle, "X");
    bytes_add_number(&writer->pickle, plain.length, 4);
    bytes_add(&writer->pickle, plain.data != NULL ? plain.data : (unsigned char *)"", plain.length);
    free(plain.data);
}

static void write_space(struct writer *writer)
{
    bytes_add_text(&writer->json, draw(writer, 4) == 0 ? "\n\t " : "");
}

static void write_value(struct writer *writer, int depth);

static void write_list(struct writer *writer, bool is_dict, int depth)
{
    bytes_add_text(&writer->json, is_dict ? "{" : "[");
    bytes_add_text(&writer->pickle, is_dict ? "}(" : "](");
    for (uint64_t i = 0, count = draw(writer, 5); i < count; i++) {
        bytes_add_text(&writer->json, i > 0 ? "," : "");
        write_space(writer);
        if (is_dict) {
            write_text(writer);
            bytes_add_text(&writer->json, ":");
        }
        write_value(writer, depth - 1);
        write_space(writer);
    }
    bytes_add_text(&writer->json, is_dict ? "}" : "]");
    bytes_add_text(&writer->pickle, is_dict ? "u" : "e");
}

static void write_value(struct writer *writer, int depth)
{
    static const struct {
        const char *json, *pickle;
    } words[] = {{"null", "N"}, {"true", "\x88"}, {"false", "\x89"}};
    uint64_t what = draw(writer, depth > 0 ? 9 : 5);
    if (what < 3) {
        bytes_add_text(&writer->json, words[what].json);
        bytes_add_text(&writer->pickle, words[what].pickle);
        return;
    }
    if (what == 3)
        write_integer(writer);
    else if (what == 4)
        write_text(writer);
    else
        write_list(writer, what % 2 == 0, depth);
}

static void check_tree(struct writer *writer)
{
    const struct mt_value_limits limits = mt_value_limits_of(writer->pickle.length, UINT64_MAX);
    struct mt_value_store *pickle_store = mt_value_store_create(&limits), *store;
    struct mt_value pickle, json;
    assert_int_equal(mt_pickle_read(writer->pickle.data, writer->pickle.length, pickle_store, &pickle), MT_OK);
    assert_int_equal(read_bytes(writer->json.data, writer->json.length, &store, &json), MT_OK);
    assert_true(values_are_same(&pickle, &json));
    mt_value_store_destroy(pickle_store);
    mt_value_store_destroy(store);
}

static void json_and_pickle_say_the_same(void **state)
{
    (void)state;
    uint64_t seed = take_seed();
    for (uint64_t i = 0; i < TREES; i++) {
        struct writer writer = {.random = seed + i};
        bytes_add(&writer.pickle, "\x80\x2", 2);
        write_list(&writer, i % 2 == 0, 6);
        bytes_add_text(&writer.pickle, ".");
        check_tree(&writer);
        free(writer.json.data);
        free(writer.pickle.data);
    }
}

static void spelling_does_not_matter(void **state)
{
    (void)state;
    struct mt_document *spaced, *plain;
    assert_int_equal(mt_document_open(DATA "small.json", &spaced), MT_OK);
    assert_int_equal(mt_document_open(DATA "small_plain.json", &plain), MT_OK);
    assert_string_equal(mt_document_format(plain), "JSON");
    assert_true(values_are_same(mt_document_root(spaced), mt_document_root(plain)));
    mt_document_close(spaced);
    mt_document_close(plain);
}

/* A call stack for each of many events takes as much memory as for one. */
static void what_is_repeated_is_kept_once(void **state)
{
    (void)state;
    struct bytes bytes = {0};
    bytes_add_text(&bytes, "[");
    for (int i = 0; i < 1000; i++) {
        bytes_add_text(&bytes, i > 0 ? ",[" : "[");
        for (int frame = 0; frame < 50; frame++)
            bytes_add_text(&bytes, frame > 0 ? ",{\"name\": \"f\", \"line\": 7}" : "{\"name\": \"g\", \"line\": 7}");
        bytes_add_text(&bytes, "]");
    }
    bytes_add_text(&bytes, "]");
    struct mt_value_store *store;
    struct mt_value value;
    assert_int_equal(read_bytes(bytes.data, bytes.length, &store, &value), MT_OK);
    assert_int_equal(mt_value_count(&value), 1000);
    assert_ptr_equal(mt_value_at(&value, 0)->items, mt_value_at(&value, 999)->items);
    assert_in_range(mt_value_store_bytes(store), 1, 200000);
    mt_value_store_destroy(store);
    free(bytes.data);
}

static void check_damaged(const unsigned char *data, size_t length)
{
    struct mt_value_store *store;
    struct mt_value value;
    mt_status status = read_bytes(data, length, &store, &value);
    assert_true(status == MT_OK || status == MT_BAD_TRACE);
    uint64_t left = MOST_WALKED;
    assert_in_range(value_depth(&value, &left), 0, mt_value_store_limits(store)->depth);
    mt_value_store_destroy(store);
}

static void prefixes_and_random_damage_end_in_a_status(void **state)
{
    (void)state;
    struct mt_whole_file file;
    uint64_t seed = take_seed();
    assert_int_equal(mt_whole_file_read(DATA "small_plain.json", MT_IMPORT_USUAL_BYTES, &file), MT_OK);
    for (size_t length = 0; length < file.length; length++) {
        struct mt_value_store *store;
        struct mt_value value;
        assert_int_equal(read_bytes(file.data, length, &store, &value), MT_BAD_TRACE);
        mt_value_store_destroy(store);
    }
    unsigned char *data = malloc(file.length);
    for (uint64_t i = 0; i < FLIPS; i++) {
        static const char often[] = "[]{}\",:\\u0-e.";
        uint64_t random = mt_splitmix64(seed + i);
        memcpy(data, file.data, file.length);
        for (uint64_t flips = 1 + random % 4; flips > 0; flips--, random = mt_splitmix64(random))
            data[(random >> 8) % file.length] =
                random % 2 == 0 ? (unsigned char)(random >> 56) : (unsigned char)often[(random >> 40) % 13];
        check_damaged(data, file.length);
    }
    free(data);
    mt_whole_file_release(&file);
}

static void depth_and_memory_are_bounded(void **state)
{
    (void)state;
    struct bytes lists = {0}, dicts = {0}, numbers = {0};
    struct mt_value_store *store;
    struct mt_value value;
    bytes_add_byte(&lists, '[', 1 << 20);
    assert_int_equal(read_bytes(lists.data, lists.length, &store, &value), MT_BAD_TRACE);
    assert_non_null(strstr(mt_last_error(), "byte 201 of the JSON: its lists are nested more than 200 deep"));
    mt_value_store_destroy(store);
    for (int i = 0; i < 300; i++)
        bytes_add_text(&dicts, "{\"\":");
    assert_int_equal(read_bytes(dicts.data, dicts.length, &store, &value), MT_BAD_TRACE);
    assert_non_null(strstr(mt_last_error(), "deep"));
    mt_value_store_destroy(store);
    bytes_add_text(&numbers, "[1");
    while (numbers.length < 1 << 20)
        bytes_add_text(&numbers, ",1");
    const struct mt_value_limits limits = {.bytes = 1 << 20, .depth = 100};
    store = mt_value_store_create(&limits);
    assert_int_equal(mt_json_read(numbers.data, numbers.length, store, &value), MT_BAD_TRACE);
    assert_non_null(strstr(mt_last_error(), "needs more than 1.00 MiB of memory"));
    mt_value_store_destroy(store);
    free(lists.data);
    free(dicts.data);
    free(numbers.data);
}

static void write_file(const char *path, const void *data, size_t length)
{
    FILE *file = fopen(path, "wb");
    assert_int_equal(fwrite(data, 1, length, file), length);
    fclose(file);
}

static void expect_unreadable(const char *path, mt_status status, const char *reason)
{
    struct mt_document *document;
    assert_int_equal(mt_document_open(path, &document), status);
    assert_null(document);
    if (strstr(mt_last_error(), reason) == NULL || strstr(mt_last_error(), path) == NULL)
        fail_msg("\"%s\" does not say %s and %s", mt_last_error(), path, reason);
}

/* Makes a gzip file and returns its bytes. */
static size_t pack(const char *path, size_t zeros, unsigned char *out, size_t room)
{
    static const char block[1 << 16];
    gzFile packed = gzopen(path, "wb9");
    for (; zeros > 0; zeros -= zeros < sizeof block ? zeros : sizeof block)
        gzwrite(packed, block, (unsigned)(zeros < sizeof block ? zeros : sizeof block));
    gzclose(packed);
    FILE *file = fopen(path, "rb");
    size_t length = fread(out, 1, room, file);
    fclose(file);
    return length;
}

static void files_that_are_none_are_told(void **state)
{
    (void)state;
    char path[100];
    static unsigned char data[1 << 17];
    snprintf(path, sizeof path, "/tmp/mt_document_%d", getpid());
    unlink(path);
    expect_unreadable(path, MT_FAILED, "can't open");
    expect_unreadable("/tmp", MT_FAILED, "can't be read");
    write_file(path, "", 0);
    expect_unreadable(path, MT_BAD_TRACE, "can't be imported: it is empty");
    write_file(path, "SQLite format 3\0 and more", 25);
    expect_unreadable(path, MT_BAD_TRACE, "gunzip it first");
    write_file(path, "(dp0\n.", 6);
    expect_unreadable(path, MT_BAD_TRACE, "neither a pickle of protocol 2 to 5 nor JSON");
    write_file(path, "[1", 2);
    expect_unreadable(path, MT_BAD_TRACE, "can't be imported: byte 2 of the JSON");
    size_t length = pack(path, 1000, data, sizeof data);
    for (size_t cut = 2; cut < length; cut++) {
        write_file(path, data, cut);
        expect_unreadable(path, MT_BAD_TRACE, "gzip data are cut off");
    }
    data[length / 2] ^= 0x55;
    write_file(path, data, length);
    expect_unreadable(path, MT_BAD_TRACE, "gzip data are");
    pack(path, 60 << 20, data, sizeof data);
    expect_unreadable(path, MT_BAD_TRACE, "neither a pickle of protocol 2 to 5 nor JSON"); /* whatever it grows to */
    unlink(path);
}

/* Editors of some systems begin a text with one. */
static void a_mark_before_a_text_is_left_out(void **state)
{
    (void)state;
    char path[100];
    struct mt_document *document;
    snprintf(path, sizeof path, "/tmp/mt_document_%d", getpid());
    write_file(path, "\xEF\xBB\xBF[1, [[]]]", 12);
    assert_int_equal(mt_document_open(path, &document), MT_OK);
    assert_int_equal(mt_value_count(mt_document_root(document)), 2);
    mt_document_close(document);
    write_file(path, "\xEF\xBB\xBF", 3);
    expect_unreadable(path, MT_BAD_TRACE, "it is empty");
    unlink(path);
}

static void several_files_packed_one_after_another_are_one(void **state)
{
    (void)state;
    char path[100];
    snprintf(path, sizeof path, "/tmp/mt_document_%d", getpid());
    for (int i = 0; i < 2; i++) {
        gzFile packed = gzopen(path, i == 0 ? "wb" : "ab");
        gzputs(packed, i == 0 ? " [1, 2" : ", 3]\n");
        gzclose(packed);
    }
    struct mt_document *document;
    assert_int_equal(mt_document_open(path, &document), MT_OK);
    assert_int_equal(mt_value_count(mt_document_root(document)), 3);
    mt_document_close(document);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_are_undone),
        cmocka_unit_test(numbers_are_what_they_spell),
        cmocka_unit_test(what_is_no_json_is_refused_where_it_goes_wrong),
        cmocka_unit_test(json_and_pickle_say_the_same),
        cmocka_unit_test(spelling_does_not_matter),
        cmocka_unit_test(what_is_repeated_is_kept_once),
        cmocka_unit_test(prefixes_and_random_damage_end_in_a_status),
        cmocka_unit_test(depth_and_memory_are_bounded),
        cmocka_unit_test(files_that_are_none_are_told),
        cmocka_unit_test(a_mark_before_a_text_is_left_out),
        cmocka_unit_test(several_files_packed_one_after_another_are_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
