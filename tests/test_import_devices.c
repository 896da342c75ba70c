/* memtrace import of snapshots of devices other than CUDA's, of pinned memory, and of annotated memory. */
#include "program.h"
#include "same_rows.h"

#define PEAK(measure) "SELECT bytes FROM summary_peak WHERE measure = '" measure "' AND step = -2"
#define PINNED "\"$D\"/import/pinned.pickle"

enum { MIB = 1 << 20 };

static int set_up(void **state)
{
    *state = enter_folder("test_import_devices");
    return 0;
}

/* Imports what devices.py writes for this kind of device. */
static const struct said *import_kind(const char *kind)
{
    return shell("rm -f x.db*; python3 \"$D\"/import/devices.py %s x.file && \"$M\" import x.file --trace x.db", kind);
}

/* A kind of device, and what its file shows. */
struct kind {
    const char *name, *device;
    uint64_t allocated, reserved;
};

static void each_device_is_named_and_has_its_peaks(void **state)
{
    (void)state;
    const uint64_t pytorch = 1024 + 9 * MIB, large = 22 * MIB, workspace = 6 * MIB;
    const struct kind kinds[] = {
        {"xpu", "XPU (PyTorch snapshot)", pytorch, large},
        {"mtia", "MTIA (PyTorch snapshot)", pytorch, large},
        {"neuron", "Neuron (PyTorch snapshot)", pytorch, large},
        {"ascend", "Ascend NPU (PyTorch snapshot)", 1536 + 9 * MIB + 2 * 512 + workspace, large + workspace},
        {"ascend950", "Ascend NPU (PyTorch snapshot)", pytorch + workspace, large + workspace},
        {"mlx", "MLX (snapshot)", 1000 + 9 * MIB, large},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const struct said *said = import_kind(kinds[i].name);
        expect_success(said);
        assert_null(strstr(said->out, "contradicts"));
        assert_string_equal(sql_text("x.db", "SELECT device FROM run"), kinds[i].device);
        assert_int_equal(sql_integer("x.db", PEAK("allocated")), kinds[i].allocated);
        assert_int_equal(sql_integer("x.db", PEAK("reserved")), kinds[i].reserved);
        json_t *top = json_of(MEMTRACE("top --trace x.db --json"));
        const json_t *first = json_array_get(json_object_get(top, "rows"), 0);
        assert_int_equal(integer_of(first, "bytes"), strstr(kinds[i].name, "ascend") != NULL ? workspace : 5 * MIB);
        json_decref(top);
    }
}

/* torch_npu lists its workspaces before the first event. It writes no times. */
static void workspaces_of_ascend_live_from_the_beginning(void **state)
{
    (void)state;
    assert_says(import_kind("ascend")->out, "The file has no times: each event counts as one microsecond.");
    assert_string_equal(sql_text("x.db", "SELECT category || ' ' || role || ' ' || op || ' ' || time_ns FROM event JOIN"
                                         " label ON label.id = label WHERE kind = 2 ORDER BY event.id LIMIT 1"),
                        "Workspace workspace workspace 2000");
    assert_int_equal(sql_integer("x.db", "SELECT max(time_ns) FROM event"), 11000);
}

static void the_settings_of_xpu_are_kept(void **state)
{
    (void)state;
    expect_success(import_kind("xpu"));
    assert_string_equal(sql_text("x.db", "SELECT value FROM setting WHERE name = 'pytorch_alloc_conf'"),
                        "expandable_segments:False");
}

/* The operations of MLX are the texts of its blocks. */
static void operations_of_mlx_are_categories(void **state)
{
    (void)state;
    expect_success(import_kind("mlx"));
    assert_int_equal(sql_integer("x.db", "SELECT count(*) FROM event JOIN label ON label.id = label WHERE kind = 2 AND"
                                         " category = 'Matmul' AND op = 'Matmul'"),
                     4);
    assert_int_equal(sql_integer("x.db", "SELECT count(*) FROM setting WHERE name = 'alloc'"), 0);
}

/* 1000 B, 3 MiB and 5000 B are rounded to powers of two, and a freed block of 1 KiB serves 700 B. */
static void pinned_memory_is_a_device_of_its_own(void **state)
{
    (void)state;
    expect_success(MEMTRACE("import " PINNED " --device host --trace pinned.db"));
    assert_string_equal(sql_text("pinned.db", "SELECT device FROM run"), "pinned host memory (PyTorch snapshot)");
    assert_int_equal(sql_integer("pinned.db", PEAK("allocated")), 1024 + 4 * MIB + 8192);
    assert_int_equal(sql_integer("pinned.db", PEAK("reserved")), 1024 + 4 * MIB + 8192);
    assert_int_equal(sql_integer("pinned.db", "SELECT count(*) FROM event WHERE kind = 2"), 4);
    assert_says(MEMTRACE("top --trace pinned.db")->out, "4.00 MiB");
}

static void the_gpu_is_imported_and_pinned_memory_named(void **state)
{
    (void)state;
    const struct said *said = MEMTRACE("import " PINNED " --trace gpu.db");
    assert_int_equal(sql_integer("gpu.db", PEAK("allocated")), 11 * MIB);
    assert_says(said->out, "They include the host's pinned memory (--device host).");
    said = shell("python3 \"$D\"/import/devices.py xpu x.file; \"$M\" import x.file --device host --trace none.db");
    assert_int_equal(said->code, 2);
    assert_says(said->err, "record_pinned_host_memory=True");
}

/* record_cuda=False records pinned memory alone. */
static void pinned_memory_alone_is_imported_without_asking(void **state)
{
    (void)state;
    expect_success(shell("python3 -c \"import pickle; s = pickle.load(open('%s', 'rb')); s['segments'] = [];"
                         " s['device_traces'] = [[]]; pickle.dump(s, open('alone.pickle', 'wb'))\""
                         " && \"$M\" import alone.pickle --trace alone.db",
                         MT_TEST_DATA "/import/pinned.pickle"));
    assert_int_equal(sql_integer("alone.db", PEAK("allocated")), 1024 + 4 * MIB + 8192);
}

/* The program set the text of one block as it took it, and that of another afterwards. */
static void annotations_are_categories(void **state)
{
    (void)state;
    expect_success(MEMTRACE("import " PINNED " --trace noted.db"));
    assert_string_equal(sql_text("noted.db", "SELECT group_concat(requested_bytes || ' ' || category, ', ') FROM event"
                                             " JOIN label ON label.id = label WHERE kind IN (2, 10)"),
                        "6291456 kv cache, 3145728 Other, 2097152 Other, 3145728 adapter");
    expect_success(shell("echo 'metadata=adapter -> category=Param role=parameter' >my.rules; \"$M\" import " PINNED
                         " --rules my.rules --trace ruled.db"));
    assert_string_equal(
        sql_text("ruled.db",
                 "SELECT category || ' ' || role FROM event JOIN label ON label.id = label WHERE kind = 10"),
        "Param parameter");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_device_is_named_and_has_its_peaks),
        cmocka_unit_test(workspaces_of_ascend_live_from_the_beginning),
        cmocka_unit_test(the_settings_of_xpu_are_kept),
        cmocka_unit_test(operations_of_mlx_are_categories),
        cmocka_unit_test(pinned_memory_is_a_device_of_its_own),
        cmocka_unit_test(the_gpu_is_imported_and_pinned_memory_named),
        cmocka_unit_test(pinned_memory_alone_is_imported_without_asking),
        cmocka_unit_test(annotations_are_categories),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
