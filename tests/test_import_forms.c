/* memtrace import of PyTorch's snapshots in other forms: the page of a plot, and a list of segments. */
#include "program.h"
#include "same_rows.h"

/* A snapshot of one segment with two blocks, of which one was taken in the recording, and what Python makes of it. */
static const char snapshot[] =
    "import base64, json, pickle\n"
    "blocks = [{'address': 4194304, 'size': 1024, 'requested_size': 700, 'state': 'active_allocated', 'frames': []},\n"
    " {'address': 4195328, 'size': 2096128, 'requested_size': 2000000, 'state': 'inactive', 'frames': []}]\n"
    "segments = [{'device': device, 'address': 4194304, 'total_size': 2097152, 'stream': 0, 'blocks': blocks}\n"
    " for device in (0, 2, 2)]\n"
    "segments[2] = dict(segments[2], address=8388608, blocks=[])\n"
    "events = [{'action': 'alloc', 'addr': 4194304, 'size': 700, 'stream': 0, 'time_us': 5, 'frames': []}]\n"
    "whole = {'segments': segments, 'device_traces': [events, [], []]}\n"
    "text = base64.b64encode(pickle.dumps(whole) + bytes(3)).decode()\n"
    "page = '<!DOCTYPE html>\\\\n<script>\\\\nconst local_files = [{\\\"name\\\": \\\"snapshot.pickle\\\", "
    "\\\"base64\\\": \\\"' +"
    " text + '\\\"}]\\\\n</script>'\n";

/* Writes what a line of Python says to x, and imports it. */
static const struct said *import_made(const char *python, const char *options)
{
    return shell("rm -f x x.db*; python3 -c \"%s\nopen('x', 'wb').write(%s)\" && \"$M\" import x --trace x.db %s",
                 snapshot, python, options);
}

static void a_plots_page_holds_its_snapshot(void **state)
{
    (void)state;
    expect_success(import_made("b'\\\\n' + page.encode()", ""));
    assert_string_equal(sql_text("x.db", "SELECT group_concat(requested_bytes) FROM event WHERE kind = 2"), "700");
    expect_success(
        import_made("page.replace('!DOCTYPE html', 'HTML').replace('base64\\\": ', 'base64\\\":').encode()", ""));
}

static void a_damaged_page_is_told_where(void **state)
{
    (void)state;
    static const char *const pages[][2] = {
        {"b'<html><body>no plot</body>'", "a page of HTML without a snapshot"},
        {"page.split('base64')[0].encode() + b'base64\\\" '", "a page of HTML without a snapshot"},
        {"page[:200].encode()", "its snapshot in base64 is cut off at byte 200"},
        {"page.replace(text[100:104], '-_-_').encode()", "has another character at byte"},
        {"page.replace(text, text[:40]).encode()", "pickle"}};
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        const struct said *said = import_made(pages[i][0], "");
        assert_int_equal(said->code, MT_BAD_TRACE);
        assert_says(said->err, pages[i][1]);
    }
}

/* A list has no events: what is live is from before them. It names the device of each segment. */
static void a_list_of_segments_is_a_state(void **state)
{
    (void)state;
    static const char reserved[] = "SELECT bytes FROM summary_peak WHERE measure = 'reserved' AND step = -2";
    expect_success(import_made("pickle.dumps(segments)", ""));
    assert_int_equal(sql_integer("x.db", reserved), 4194304);
    expect_success(import_made("json.dumps(segments).encode()", "--device 0"));
    assert_int_equal(sql_integer("x.db", reserved), 2097152);
    assert_string_equal(sql_text("x.db", "SELECT group_concat(requested_bytes) FROM event WHERE kind = 2"), "700");
    assert_says(import_made("pickle.dumps(segments)", "--device 3")->err, "has 3 devices, from 0, and no device 3");
    const struct said *said = import_made("b'[]'", "");
    assert_int_equal(said->code, MT_BAD_TRACE);
    assert_says(said->err, "torch.cuda.memory_snapshot()");
}

/* Of PyTorch 2.0: without addresses, and with the requests that a block served, the last one first. */
static void a_blocks_history_says_what_was_asked_for(void **state)
{
    (void)state;
    expect_success(import_made(
        "pickle.dumps([{'device': 0, 'address': 4194304, 'total_size': 2097152, 'stream': 0, 'blocks': [\n"
        " {'size': 512, 'state': 'inactive', 'history': [{'addr': 4194304, 'real_size': 8, 'frames': []}]},\n"
        " {'size': 1024, 'state': 'active_allocated', 'history': [\n"
        "  {'addr': 4194816, 'real_size': 700, 'frames': [{'name': 'f', 'filename': 'model.py', 'line': 7}]},\n"
        "  {'addr': 4194816, 'real_size': 9, 'frames': []}]}]}])",
        ""));
    assert_string_equal(sql_text("x.db", "SELECT requested_bytes || ' of ' || block_bytes || ' at ' || offset || ', ' "
                                         "|| function || ':' || line FROM event JOIN stack ON stack.id = event.stack"
                                         " JOIN frame ON frame.id = stack.frame"),
                        "700 of 1024 at 512, f:7");
}

/* A CUDA graph's block and what is cached for it. Events of newer versions tell the pool; of older ones, the segment
 * does. */
static const char pools[] =
    "pickle.dumps({'segments': [{'device': 0, 'address': at << 20, 'total_size': 4 << 20, 'stream': 0,\n"
    " 'segment_pool_id': (int(at > 64), 0), 'blocks': [\n"
    "  {'address': at << 20, 'size': 1 << 20, 'requested_size': 1 << 20, 'state': 'active_allocated'}]}\n"
    " for at in (64, 128)], 'device_traces': [[dict({'action': what, 'addr': at << 20, 'size': size << 20,\n"
    "  'stream': 0, 'time_us': 5, 'frames': []}, **({'pool_id': (int(at > 64), 0)} if %d else {}))\n"
    " for at in (64, 128) for what, size in (('segment_alloc', 4), ('alloc', 1))]]})";

static void private_pools_are_told_apart(void **state)
{
    (void)state;
    for (int is_said = 0; is_said < 2; is_said++) {
        char python[sizeof pools + 16];
        snprintf(python, sizeof python, pools, is_said);
        expect_success(import_made(python, ""));
        json_t *said = json_of(MEMTRACE("peak --trace x.db --json"));
        const json_t *all = json_object_get(said, "pools"), *pool = json_array_get(all, 0);
        assert_int_equal(json_array_size(all), 1);
        assert_string_equal(text_of(pool, "pool"), "private pool (1, 0)");
        assert_int_equal(integer_of(pool, "reserved_bytes"), 4 << 20);
        assert_int_equal(integer_of(pool, "allocated_bytes"), 1 << 20);
        json_decref(said);
        assert_says(MEMTRACE("peak --trace x.db")->out, "private pool (1, 0)");
        assert_says(MEMTRACE("top --each --trace x.db")->out, "private pool (1, 0)");
        said = json_of(MEMTRACE("advise --trace x.db --json"));
        assert_int_equal(integer_of(json_object_get(said, "fragmentation"), "pool_bytes"), 3 << 20);
        json_decref(said);
    }
}

static int set_up(void **state)
{
    *state = enter_folder("test_import_forms");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plots_page_holds_its_snapshot), cmocka_unit_test(a_damaged_page_is_told_where),
        cmocka_unit_test(a_list_of_segments_is_a_state),   cmocka_unit_test(a_blocks_history_says_what_was_asked_for),
        cmocka_unit_test(private_pools_are_told_apart),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
