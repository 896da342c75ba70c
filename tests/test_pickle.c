/* Pickles: Python's hold the same as its JSON, and all other bytes end in a status. */
#include "plain_values.h"

#include "producers/file/document.h"
#include "producers/file/pickle.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define DATA MT_TEST_DATA "/import/"
enum { FLIPS = 3000, MOST_WALKED = 20000 };

/* Reads bytes as a pickle; the store is the caller's. */
static mt_status read_bytes(const unsigned char *data, size_t length, struct mt_value_store **store,
                            struct mt_value *out)
{
    const struct mt_value_limits limits = mt_value_limits_of(length, UINT64_MAX);
    *store = mt_value_store_create(&limits);
    unsigned char *copy = malloc(length + !length); /* so that a sanitizer knows its end */
    memcpy(copy, data, length);
    mt_status status = mt_pickle_read(copy, length, *store, out);
    free(copy);
    return status;
}

static void expect_refused(const struct bytes *bytes, const char *reason)
{
    struct mt_value_store *store;
    struct mt_value value;
    mt_status status = read_bytes(bytes->data, bytes->length, &store, &value);
    if (status != MT_BAD_TRACE)
        fail_msg("status %d, where it should be refused since %s", status, reason);
    if (strstr(mt_last_error(), reason) == NULL)
        fail_msg("\"%s\" does not say: %s", mt_last_error(), reason);
    assert_int_equal(strncmp(mt_last_error(), "byte ", 5), 0);
    mt_value_store_destroy(store);
}

static struct mt_document *open_data(const char *name)
{
    char path[4096];
    struct mt_document *document;
    snprintf(path, sizeof path, DATA "%s", name);
    if (mt_document_open(path, &document) != MT_OK)
        fail_msg("%s", mt_last_error());
    return document;
}

/* True if the first pairs of one dict are all of the other. */
static void expect_begins_with(const struct mt_value *longer, const struct mt_value *whole)
{
    assert_int_equal(whole->kind, MT_VALUE_DICT);
    assert_in_range(whole->items->count, 2, longer->items->count);
    for (uint32_t i = 0; i < whole->items->count; i++)
        if (!values_are_same(item_at(whole, i), item_at(longer, i)))
            fail_msg("%s differs", mt_value_text(item_at(whole, i & ~1u)));
}

static void pickles_of_python_say_what_its_json_says(void **state)
{
    (void)state;
    struct mt_document *small = open_data("small.json"), *large = open_data("large.json.gz");
    for (int protocol = 2; protocol <= 5; protocol++)
        for (int which = 0; which < 3; which++) {
            static const char *const names[] = {"small_%d.pickle", "small_%d_python.pickle", "large_%d.pickle.gz"};
            char name[100];
            snprintf(name, sizeof name, names[which], protocol);
            struct mt_document *document = open_data(name);
            assert_string_equal(mt_document_format(document), "pickle");
            expect_begins_with(mt_document_root(document), mt_document_root(which == 2 ? large : small));
            mt_document_close(document);
        }
    mt_document_close(small);
    mt_document_close(large);
}

static void what_a_pickle_shares_is_shared(void **state)
{
    (void)state;
    struct mt_value_key key = MT_VALUE_KEY("shared");
    struct mt_document *document = open_data("small_4.pickle");
    const struct mt_value *shared = mt_value_get(mt_document_root(document), &key);
    const struct mt_value *first = mt_value_at(mt_value_at(shared, 0), 0);
    assert_int_equal(first->kind, MT_VALUE_DICT);
    assert_ptr_equal(first->items, mt_value_at(mt_value_at(shared, 0), 1)->items);
    assert_ptr_equal(first->items, mt_value_at(mt_value_at(shared, 1), 0)->items);
    mt_document_close(document);
}

static void keys_are_found_wherever_they_are(void **state)
{
    (void)state;
    struct mt_value_key key = MT_VALUE_KEY("four"), absent = MT_VALUE_KEY("five"), reals = MT_VALUE_KEY("reals"),
                        numbers = MT_VALUE_KEY("numbers");
    struct mt_document *document = open_data("small_5.pickle");
    const struct mt_value *root = mt_document_root(document);
    int64_t found = 0;
    assert_int_equal(mt_value_get(root, &key)->kind, MT_VALUE_NONE);
    const struct mt_value *four = mt_value_value_at(mt_value_get(root, &numbers), 1);
    assert_true(mt_value_integer(mt_value_get(four, &key), &found));
    assert_int_equal(found, 5);
    assert_int_equal(mt_value_get(four, &absent)->kind, MT_VALUE_NONE);
    assert_int_equal(mt_value_count(mt_value_get(root, &reals)), 5);
    assert_false(mt_value_integer(mt_value_at(mt_value_get(root, &reals), 1), &found));
    assert_int_equal(mt_value_at(mt_value_get(root, &reals), 5)->kind, MT_VALUE_NONE);
    assert_string_equal(mt_value_text(mt_value_get(root, &reals)), "");
    mt_document_close(document);
}

/* Calls `check` with the bytes of each small pickle of Python's. */
/* Values take several times what the file has, and no more than is allowed; a user may allow more. */
static void the_limits_of_a_file_follow_from_its_size(void **state)
{
    (void)state;
    const uint64_t mib = 1 << 20;
    struct mt_whole_file file = {.length = mib, .most_bytes = 2048 * mib};
    assert_int_equal(mt_whole_file_limits(&file).bytes, 80 * mib);
    file.is_asked = true;
    assert_int_equal(mt_whole_file_limits(&file).bytes, 2048 * mib);
    file = (struct mt_whole_file){.length = 1024 * mib, .most_bytes = 2048 * mib};
    assert_int_equal(mt_whole_file_limits(&file).bytes, 2048 * mib);
}

static void expect_number(const struct mt_value *dict, const char *key, int64_t expected)
{
    int64_t number = -1;
    assert_true(mt_value_integer(mt_value_find(dict, key), &number));
    assert_int_equal(number, expected);
}

/* [{"a": 1, "b": 2, "c": 3}, {"a": 4, "b": 5, "c": 6}], and then ["d"] = 7 of the second. */
static void dicts_share_their_keys_until_one_gets_more(void **state)
{
    (void)state;
    static const char pickle[] = "\x80\x02](}(X\1\0\0\0aK\1X\1\0\0\0bK\2X\1\0\0\0cK\3u"
                                 "}(X\1\0\0\0aK\4X\1\0\0\0bK\5X\1\0\0\0cK\6uX\1\0\0\0dK\7se.";
    struct mt_value_store *store;
    struct mt_value value;
    assert_int_equal(read_bytes((const unsigned char *)pickle, sizeof pickle - 1, &store, &value), MT_OK);
    const struct mt_value *shared = mt_value_at(&value, 0), *own = mt_value_at(&value, 1);
    assert_non_null(shared->items->keys);
    assert_null(own->items->keys);
    expect_number(shared, "a", 1), expect_number(shared, "c", 3);
    expect_number(own, "a", 4), expect_number(own, "c", 6), expect_number(own, "d", 7);
    assert_int_equal(mt_value_count(shared), 3);
    assert_int_equal(mt_value_count(own), 4);
    assert_int_equal(mt_value_find(shared, "d")->kind, MT_VALUE_NONE);
    assert_string_equal(mt_value_text(mt_value_key_at(own, 3)), "d");
    assert_int_equal(mt_value_key_at(shared, 3)->kind, MT_VALUE_NONE);
    assert_int_equal(mt_value_value_at(own, 4)->kind, MT_VALUE_NONE);
    mt_value_store_destroy(store);
}

static void for_each_small(void (*check)(const struct mt_whole_file *file))
{
    for (int protocol = 2; protocol <= 5; protocol++) {
        char path[4096];
        struct mt_whole_file file;
        snprintf(path, sizeof path, DATA "small_%d.pickle", protocol);
        assert_int_equal(mt_whole_file_read(path, MT_IMPORT_USUAL_BYTES, &file), MT_OK);
        check(&file);
        mt_whole_file_release(&file);
    }
}

static void check_prefixes(const struct mt_whole_file *file)
{
    for (size_t length = 0; length < file->length; length++) {
        struct mt_value_store *store;
        struct mt_value value;
        assert_int_equal(read_bytes(file->data, length, &store, &value), MT_BAD_TRACE);
        mt_value_store_destroy(store);
    }
}

static void no_prefix_is_a_pickle(void **state)
{
    (void)state;
    for_each_small(check_prefixes);
}

/* A damaged pickle is refused, or is some value within the limits. */
static void check_damaged(const unsigned char *data, size_t length)
{
    struct mt_value_store *store;
    struct mt_value value;
    mt_status status = read_bytes(data, length, &store, &value);
    assert_true(status == MT_OK || status == MT_BAD_TRACE);
    uint64_t left = MOST_WALKED;
    assert_in_range(value_depth(&value, &left), 0, mt_value_store_limits(store)->depth);
    assert_in_range(mt_value_store_bytes(store), 0, mt_value_store_limits(store)->bytes);
    mt_value_store_destroy(store);
}

static uint64_t seed;

static void check_flips(const struct mt_whole_file *file)
{
    unsigned char *data = malloc(file->length);
    for (uint64_t i = 0; i < FLIPS; i++) {
        uint64_t random = mt_splitmix64(seed + i);
        memcpy(data, file->data, file->length);
        for (uint64_t flips = 1 + random % 4; flips > 0; flips--, random = mt_splitmix64(random))
            data[(random >> 8) % file->length] = (unsigned char)(random >> 56);
        check_damaged(data, file->length);
    }
    free(data);
}

static void random_damage_ends_in_a_status(void **state)
{
    (void)state;
    seed = take_seed();
    for_each_small(check_flips);
}

/* Instructions in any order, most of which build something: they reach deeper into the machine than damage does. */
static void random_instructions_end_in_a_status(void **state)
{
    (void)state;
    static const char often[] = "(((]])}}NK\1K\2ttaaesu01 2q\0q\1h\0h\1h\2\x85\x86\x87\x94\x94.";
    uint64_t random = take_seed();
    for (int i = 0; i < FLIPS; i++) {
        unsigned char data[300] = {0x80, 4};
        random = mt_splitmix64(random);
        size_t length = 2 + random % (sizeof data - 2);
        for (size_t at = 2; at < length; at++) {
            random = mt_splitmix64(random);
            data[at] = (unsigned char)(random % 40 == 0 ? random >> 32
                                                        : (unsigned char)often[(random >> 8) % (sizeof often - 1)]);
        }
        check_damaged(data, length);
    }
}

static void every_instruction_that_is_not_plain_data_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *code;
        size_t length;
        const char *reason;
    } cases[] = {
        {"cos\nsystem\n(S'true'\ntR.", 23, "byte 2 of the pickle: the instruction GLOBAL could run any code"},
        {"\x8c\2os\x8c\6system\x93.", 14, "byte 14 of the pickle: the instruction STACK_GLOBAL could run any code"},
        {"N)R.", 4, "byte 4 of the pickle: the instruction REDUCE"},
        {"N}b.", 4, "BUILD"},
        {"(ios\nsystem\n.", 14, "INST"},
        {"(No.", 4, "OBJ"},
        {"N)\x81.", 4, "NEWOBJ"},
        {"N)}\x92.", 5, "NEWOBJ_EX"},
        {"\x82\1.", 3, "EXT1"},
        {"NQ.", 3, "BINPERSID refers to data outside of the file"},
        {"\x97.", 2, "NEXT_BUFFER"},
        {"\x8f(\x90.", 4, "EMPTY_SET builds objects other than plain data"},
        {"I1\n.", 4, "INT is of protocol 0 or 1"},
        {"\xff.", 2, "there is no instruction 0xff"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bytes bytes = {0};
        bytes_add(&bytes, "\x80\4", 2);
        bytes_add(&bytes, cases[i].code, cases[i].length);
        expect_refused(&bytes, cases[i].reason);
        free(bytes.data);
    }
}

/* Adds the beginning, the code and the end of a pickle. */
static struct bytes pickle_of(const char *code, size_t length)
{
    struct bytes bytes = {0};
    bytes_add(&bytes, "\x80\4", 2);
    bytes_add(&bytes, code, length);
    return bytes;
}
#define PICKLE(code) pickle_of(code, sizeof(code) - 1)

static void lengths_beyond_the_end_take_no_memory(void **state)
{
    (void)state;
    static const struct {
        int opcode;
        size_t length_bytes;
    } cases[] = {{0x8C, 1}, {'X', 4}, {0x8D, 8}, {'C', 1},  {'B', 4},  {0x8E, 8},
                 {0x96, 8}, {'U', 1}, {'T', 4},  {0x8A, 1}, {0x8B, 4}, {0x95, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int shift = 0; shift < 2; shift++) {
            struct bytes bytes = PICKLE("");
            bytes_add_byte(&bytes, cases[i].opcode, 1);
            bytes_add_number(&bytes, UINT64_MAX >> shift, cases[i].length_bytes);
            bytes_add_text(&bytes, "few.");
            expect_refused(&bytes, "it says that ");
            free(bytes.data);
        }
}

static void depth_is_bounded(void **state)
{
    (void)state;
    enum { DEPTH = 300000 };
    struct bytes lists = PICKLE(""), tuples = PICKLE("N"), marks = PICKLE(""), dicts = PICKLE("");
    bytes_add_byte(&lists, ']', DEPTH);
    bytes_add_byte(&lists, 'a', DEPTH - 1);
    bytes_add_byte(&tuples, 0x85, DEPTH);
    bytes_add_byte(&marks, '(', DEPTH);
    bytes_add_byte(&marks, 't', DEPTH);
    for (int i = 0; i < DEPTH; i++)
        bytes_add_text(&dicts, "}N");
    bytes_add_byte(&dicts, 'N', 1);
    bytes_add_byte(&dicts, 's', DEPTH);
    struct bytes *const all[] = {&lists, &tuples, &marks, &dicts};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        bytes_add_byte(all[i], '.', 1);
        expect_refused(all[i], "deep");
        free(all[i]->data);
    }
}

static void a_depth_that_is_allowed_is_read(void **state)
{
    (void)state;
    for (uint32_t depth = 199; depth <= 201; depth++) {
        struct bytes bytes = PICKLE("");
        struct mt_value_store *store;
        struct mt_value value;
        uint64_t left = MOST_WALKED;
        bytes_add_byte(&bytes, ']', depth);
        bytes_add_byte(&bytes, 'a', depth - 1);
        bytes_add_byte(&bytes, '.', 1);
        mt_status status = read_bytes(bytes.data, bytes.length, &store, &value);
        assert_int_equal(status, depth <= 200 ? MT_OK : MT_BAD_TRACE);
        assert_int_equal(value_depth(&value, &left), depth <= 200 ? depth : 0);
        mt_value_store_destroy(store);
        free(bytes.data);
    }
}

static void what_is_kept_has_a_number_that_is_near(void **state)
{
    (void)state;
    struct bytes far = PICKLE("Nr\xff\xff\xff\xff."), unknown = PICKLE("Nq\1h\0."), none = PICKLE("\x94."),
                 beyond = PICKLE("j\xff\xff\xff\xff.");
    expect_refused(&far, "it keeps a value as number 4294967295");
    expect_refused(&unknown, "it uses value number 0, which it did not store");
    expect_refused(&none, "an instruction needs more values than the stack holds");
    expect_refused(&beyond, "it uses value number 4294967295");
    free(far.data);
    free(unknown.data);
    free(none.data);
    free(beyond.data);
}

/* Each list is twice in the next one: written out, they would take 2^150 values. */
static void what_is_shared_many_times_over_takes_little(void **state)
{
    (void)state;
    struct bytes bytes = PICKLE("N");
    for (int i = 0; i < 150; i++)
        bytes_add_text(&bytes, "2\x86");
    bytes_add_byte(&bytes, '.', 1);
    struct mt_value_store *store;
    struct mt_value value;
    assert_int_equal(read_bytes(bytes.data, bytes.length, &store, &value), MT_OK);
    assert_in_range(mt_value_store_bytes(store), 1, 2 << 20);
    mt_value_store_destroy(store);
    free(bytes.data);
}

static void nothing_comes_to_hold_itself(void **state)
{
    (void)state;
    struct bytes itself = PICKLE("]\x94h\0a."), round = PICKLE("]\x94]\x94h\0ah\1a."), dict = PICKLE("}\x94Nh\0s."),
                 marked = PICKLE("]\x94(h\0h\0e.");
    expect_refused(&itself, "it adds to a list that is in another one already, or in itself");
    expect_refused(&round, "it adds to a list that is in another one already, or in itself");
    expect_refused(&dict, "it adds to a dict that is in another one already, or in itself");
    expect_refused(&marked, "it adds to a list that is in another one already, or in itself");
    free(itself.data);
    free(round.data);
    free(dict.data);
    free(marked.data);
}

static void the_stack_is_not_left(void **state)
{
    (void)state;
    static const char *const codes[] = {
        "a.", "e.", "u.",   "s.",  "]a.", "](a.", "]Ns.", "(Nu.",  "}(Nu.",  "N(d.",    "t.",      "l.",    "1.",
        "0.", "2.", "N(2.", "NN.", ".",   "(.",   "N(.",  "\x85.", "N\x86.", "N(\x85.", "(N\x87.", "}N(s.", "N(Ne."};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        struct bytes bytes = pickle_of(codes[i], strlen(codes[i]));
        expect_refused(&bytes, "");
        free(bytes.data);
    }
}

static void what_is_empty_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *code;
        mt_value_kind kind;
    } cases[] = {{"(l.", MT_VALUE_LIST},  {"(t.", MT_VALUE_LIST},  {"(d.", MT_VALUE_DICT},  {").", MT_VALUE_LIST},
                 {"](e.", MT_VALUE_LIST}, {"}(u.", MT_VALUE_DICT}, {"(1N.", MT_VALUE_NONE}, {"(0N.", MT_VALUE_NONE}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bytes bytes = pickle_of(cases[i].code, strlen(cases[i].code));
        struct mt_value_store *store;
        struct mt_value value;
        assert_int_equal(read_bytes(bytes.data, bytes.length, &store, &value), MT_OK);
        assert_int_equal(value.kind, cases[i].kind);
        assert_int_equal(mt_value_count(&value), 0);
        mt_value_store_destroy(store);
        free(bytes.data);
    }
}

static void memory_is_bounded(void **state)
{
    (void)state;
    static const char *const codes[] = {"N", "]", "}", "(", "N\x94", "]]a", "2"};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        struct bytes bytes = PICKLE("N");
        const struct mt_value_limits limits = {.bytes = 3 << 20, .depth = 100};
        struct mt_value value;
        while (bytes.length < 1 << 20)
            bytes_add_text(&bytes, codes[i]);
        struct mt_value_store *store = mt_value_store_create(&limits);
        assert_int_equal(mt_pickle_read(bytes.data, bytes.length, store, &value), MT_BAD_TRACE);
        assert_non_null(strstr(mt_last_error(), "needs more than 3.00 MiB of memory"));
        assert_in_range(mt_value_store_bytes(store), 1, limits.bytes);
        mt_value_store_destroy(store);
        free(bytes.data);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_limits_of_a_file_follow_from_its_size),
        cmocka_unit_test(dicts_share_their_keys_until_one_gets_more),
        cmocka_unit_test(pickles_of_python_say_what_its_json_says),
        cmocka_unit_test(what_a_pickle_shares_is_shared),
        cmocka_unit_test(keys_are_found_wherever_they_are),
        cmocka_unit_test(no_prefix_is_a_pickle),
        cmocka_unit_test(random_damage_ends_in_a_status),
        cmocka_unit_test(random_instructions_end_in_a_status),
        cmocka_unit_test(every_instruction_that_is_not_plain_data_is_refused_by_name),
        cmocka_unit_test(lengths_beyond_the_end_take_no_memory),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(a_depth_that_is_allowed_is_read),
        cmocka_unit_test(what_is_kept_has_a_number_that_is_near),
        cmocka_unit_test(what_is_shared_many_times_over_takes_little),
        cmocka_unit_test(nothing_comes_to_hold_itself),
        cmocka_unit_test(the_stack_is_not_left),
        cmocka_unit_test(what_is_empty_is_read),
        cmocka_unit_test(memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
