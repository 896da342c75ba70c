/* Flat JSON objects: texts come back byte by byte, and another reader understands them. */
#include "base/flat_json.h"
#include "folder.h"

#include <jansson.h>

static void expect(const char *object, const char *name, const char *value)
{
    char *found = mt_flat_json_find(object, name);
    if (value == NULL)
        assert_null(found);
    else
        assert_string_equal(found, value);
    free(found);
}

static void texts_come_back_as_they_were(void **state)
{
    (void)state;
    static const char *const texts[] = {"/tmp/a.db",         "", "a \"b\" \\c", "two\nlines\t\x01", "name\": \"x",
                                        "gr\xc3\xb6\xc3\x9f"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct mt_text object = {0};
        mt_flat_json_add_text(&object, "before", "x");
        mt_flat_json_add_text(&object, "name", texts[i]);
        mt_flat_json_add_text(&object, "none", NULL);
        mt_flat_json_add_number(&object, "number", 1764323260.125);
        json_t *json = json_loads(object.data, 0, NULL);
        assert_int_equal(json_object_size(json), 3);
        assert_string_equal(json_string_value(json_object_get(json, "name")), texts[i]);
        json_decref(json);
        expect(object.data, "name", texts[i]);
        expect(object.data, "number", "1764323260.125");
        expect(object.data, "none", NULL);
        mt_text_release(&object);
    }
}

static void bytes_that_are_no_utf_8_are_kept(void **state)
{
    (void)state;
    struct mt_text object = {0};
    mt_flat_json_add_text(&object, "path", "/tmp/\xff.db");
    expect(object.data, "path", "/tmp/\xff.db");
    mt_text_release(&object);
}

static void objects_of_other_writers_are_read(void **state)
{
    (void)state;
    expect("{\"a\":1,\"b\":\"x\\/y\\u0009\"}", "b", "x/y\t");
    expect(" { \"a\" : true , \"b\" : \"x\" } ", "a", "true");
    expect("{\"a\": \"1\", \"a\": \"2\"}", "a", "2");
}

static void a_text_that_is_no_object_has_no_members(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "{", "{}", "{\"a", "{\"b\": \"\\", "nonsense", "{\"b\": \"\\u00"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        expect(texts[i], "a", strncmp(texts[i], "{\"a", 3) == 0 ? "" : NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_come_back_as_they_were),
        cmocka_unit_test(bytes_that_are_no_utf_8_are_kept),
        cmocka_unit_test(objects_of_other_writers_are_read),
        cmocka_unit_test(a_text_that_is_no_object_has_no_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
