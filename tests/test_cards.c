/* Tests of `memtrace cards` and of cards in files. */
#include "program.h"

#include "device/card.h"
#include "device/device.h"
#include "trace_edit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sqlite3.h>

#define SHORT "--model small --layers 1 --seq 128 --steps 1 --no-trace --json"

static void write_card(const char *text)
{
    FILE *file = fopen("card.json", "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void expect_refused(const char *text, const char *reason)
{
    struct mt_device *device;
    write_card(text);
    assert_int_not_equal(mt_device_open("sim:card.json", &device), MT_OK);
    assert_says(mt_last_error(), reason);
}

/* The document's table is the program's. */
static void the_document_has_the_table_as_printed(void **state)
{
    (void)state;
    static char document[OUTPUT_BYTES];
    read_file(MT_TEST_DATA "/../../docs/cards.md", document);
    const struct said *said = MEMTRACE("cards --format markdown");
    assert_int_equal(said->code, MT_OK);
    const char *table = strstr(said->out, "\n| card");
    assert_non_null(table);
    assert_non_null(strstr(document, table));
}

static void all_cards_are_listed_in_every_form(void **state)
{
    (void)state;
    json_t *answer = json_of(MEMTRACE("cards --json"));
    assert_schema(answer, "memtrace.cards/1");
    const json_t *rows = json_object_get(answer, "rows");
    size_t count = 0, i;
    while (mt_card_names()[count] != NULL)
        count++;
    assert_true(json_array_size(rows) == count);
    for (i = 0; i < count; i++) {
        const json_t *row = json_array_get(rows, i);
        assert_string_equal(text_of(row, "name"), mt_card_names()[i]);
        assert_true(strlen(text_of(row, "source")) > 0);
        assert_true(integer_of(row, "context_bytes") > 0);
    }
    json_decref(answer);
    assert_says(MEMTRACE("cards --format csv")->out, "\nt4,Tesla T4,15633219584,");
    assert_says(MEMTRACE("cards")->out, "\nrtx-pro-6000 ");
    assert_int_equal(MEMTRACE("cards --format csv --json")->code, MT_USAGE);
    assert_int_equal(MEMTRACE("cards h2000")->code, MT_NO_DEVICE);
}

/* What is printed of a card is a file of the same card: no figure is lost. */
static void a_printed_card_is_a_file_of_it(void **state)
{
    (void)state;
    for (const char *const *name = mt_card_names(); *name != NULL; name++) {
        struct mt_card known, read;
        assert_int_equal(shell("\"$M\" cards %s --json >card.json", *name)->code, MT_OK);
        assert_true(mt_card_find(*name, &known));
        assert_int_equal(mt_device_find_card("sim:card.json", &read), MT_OK);
        assert_string_equal(read.name, "card.json");
        assert_string_equal(read.product, known.product);
        memcpy(read.name, known.name, sizeof read.name);
        memcpy(read.product, known.product, sizeof read.product);
        read.source = known.source;
        assert_memory_equal(&read, &known, sizeof read);
    }
}

/* L2 and shared memory of a block and of a multiprocessor, as cudaDeviceProp has them on these cards. */
static void caches_are_as_the_driver_reports_them(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t l2, block, multiprocessor;
    } reported[] = {
        {"h200", 62914560, 232448, 233472},      {"h20", 62914560, 232448, 233472},
        {"h100", 52428800, 232448, 233472},      {"b200", 132644864, 232448, 233472},
        {"a100-40gb", 41943040, 166912, 167936}, {"t4", 4194304, 65536, 65536},
        {"rtx3090", 6291456, 101376, 102400},    {"rtx4090", 75497472, 101376, 102400},
        {"rtx5090", 100663296, 101376, 102400},  {"v100-16gb", 6291456, 98304, 98304},
        {"p100", 4194304, 49152, 65536},
    };
    for (size_t i = 0; i < sizeof reported / sizeof reported[0]; i++) {
        struct mt_card card;
        assert_true(mt_card_find(reported[i].name, &card));
        assert_int_equal(card.l2_bytes, reported[i].l2);
        assert_int_equal(card.block_shared_bytes, reported[i].block);
        assert_int_equal(card.multiprocessor_shared_bytes, reported[i].multiprocessor);
    }
}

static void expect_product(const char *text, const char *name)
{
    struct mt_card card;
    bool is_known = mt_card_find_product(text, &card);
    assert_true(is_known == (name != NULL));
    if (name != NULL)
        assert_string_equal(card.name, name);
}

static void a_product_is_found_by_its_whole_name(void **state)
{
    (void)state;
    expect_product("cuda:0 (NVIDIA A100-PCIE-40GB)", "a100-40gb");
    expect_product("cuda:0 (NVIDIA A100 80GB PCIe)", "a100-80gb");
    expect_product("NVIDIA A100-SXM4-80GB", "a100-80gb");
    expect_product("NVIDIA A10G", "a10g");
    expect_product("cuda:1 (NVIDIA A10)", "a10");
    expect_product("cuda:0 (NVIDIA L40S)", "l40s");
    expect_product("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000");
    expect_product("NVIDIA GeForce RTX 3060", "rtx3060");
    expect_product("NVIDIA GeForce RTX 3070", "rtx3070");
    expect_product("NVIDIA GeForce RTX 4060", "rtx4060");
    expect_product("NVIDIA GeForce RTX 4070", "rtx4070");
    expect_product("NVIDIA RTX A4000", "a4000");
    expect_product("NVIDIA RTX A5000", "a5000");
    expect_product("Tesla P100-PCIE-16GB", "p100");
    expect_product("NVIDIA L400", NULL);
    expect_product("NVIDIA A1000", NULL);
    for (const char *const *name = mt_card_names(); *name != NULL; name++) {
        struct mt_card card;
        assert_true(mt_card_find(*name, &card));
        expect_product(card.product, *name);
    }
}

static void what_a_file_leaves_out_is_as_on_the_card_that_it_is_like(void **state)
{
    (void)state;
    struct mt_card card, t4;
    assert_true(mt_card_find("t4", &t4));
    write_card("{\"like\": \"T4\", \"memory_bytes\": 8000000000}");
    assert_int_equal(mt_device_find_card("sim:card.json", &card), MT_OK);
    assert_true(card.memory_bytes == 8000000000 && card.context_bytes == t4.context_bytes);
    assert_true(card.multiprocessors == t4.multiprocessors && card.bf16_matrix_rate == 0);
    write_card("{\"like\": \"t4\", \"capability\": 90}");
    assert_int_equal(mt_device_find_card("sim:card.json", &card), MT_OK);
    assert_true(card.matmul_workspace_bytes == 33554432 && card.threads_per_multiprocessor == 2048);
    assert_true(card.block_shared_bytes == 232448 && card.l2_bytes == t4.l2_bytes);
    struct mt_device *device;
    assert_int_equal(mt_device_open("sim:card.json:2GiB", &device), MT_OK);
    assert_true(device->capacity_bytes == (uint64_t)2 << 30);
    mt_device_close(device);
}

/* The longest path of a card, and a size that is no multiple of MiB. */
static void no_spelling_is_cut(void **state)
{
    (void)state;
    static const char path[] = "a_card_of_which_the_name_is_as_long_as_may.json";
    struct mt_card card, found;
    char spelling[MT_DEVICE_NAME];
    assert_int_equal(strlen(path), MT_CARD_NAME - 1);
    write_card("{\"like\": \"h200\"}");
    assert_int_equal(rename("card.json", path), 0);
    assert_int_equal(mt_card_read(path, &card), MT_OK);
    mt_device_spell_simulated(&card, 150000000001, spelling);
    assert_int_equal(mt_device_find_card(spelling, &found), MT_OK);
    assert_true(found.memory_bytes == 150000000001);
    struct mt_device *device;
    static const char padded[] = "sim:l4:000000000000000000000000000000000000000000000000000000000000000000000000000000"
                                 "00000000000000000008GiB";
    assert_int_equal(mt_device_open(padded, &device), MT_USAGE);
    assert_says(mt_last_error(), "95 characters at most");
}

static void a_wrong_field_is_named(void **state)
{
    (void)state;
    expect_refused("{\"memory_byte\": 1}", "did you mean \"memory_bytes\"");
    expect_refused("{\"memory_bytes\": \"8GiB\"}", "\"memory_bytes\" is not a number");
    expect_refused("{\"multiprocessors\": 0}", "\"multiprocessors\" is 0");
    expect_refused("{\"multiprocessors\": 40.9}", "\"multiprocessors\" is 40.9; it is a whole number");
    expect_refused("{\"context_bytes\": 999999999999}", "\"context_bytes\" is no less than");
    expect_refused("{\"others_bytes\": 999999999999}", "\"others_bytes\" leaves nothing of \"memory_bytes\"");
    expect_refused("{\"like\": \"h2000\"}", "did you mean \"h200\"");
    expect_refused("{\"like\": 4}", "\"like\" is no text");
    expect_refused("[]", "a card is a JSON object");
    expect_refused("{\n\"a\":", "line 2");
    struct mt_device *device;
    assert_int_equal(mt_device_open("sim:none.json", &device), MT_NO_DEVICE);
    assert_says(mt_last_error(), "none.json");
}

static void a_run_takes_what_the_card_in_the_file_takes(void **state)
{
    (void)state;
    assert_int_equal(MEMTRACE("cards a100-80gb --json >card.json")->code, MT_OK);
    json_t *file = json_of(MEMTRACE("run --device sim:card.json " SHORT));
    json_t *known = json_of(MEMTRACE("run --device sim:a100-80gb " SHORT));
    json_t *reference = json_of(MEMTRACE("run --device sim " SHORT));
    assert_true(json_equal(json_object_get(file, "peak"), json_object_get(known, "peak")));
    assert_false(json_equal(json_object_get(file, "peak"), json_object_get(reference, "peak")));
    json_decref(file);
    json_decref(known);
    json_decref(reference);
}

/* Traces a run that ends out of memory, on a card of a file that is gone afterwards. */
static void trace_on_a_lost_card(void)
{
    write_card("{\"like\": \"t4\", \"memory_bytes\": 2100000000, \"context_bytes\": 1000000}");
    assert_int_equal(
        MEMTRACE("run --device sim:card.json --model small --layers 2 --batch 8 --seq 512 --steps 1 --trace a.db")
            ->code,
        MT_OUT_OF_MEMORY);
    assert_int_equal(remove("card.json"), 0);
}

/* What `fit` says of the memory, and `oom` of the device. */
static void expect_answers(const char *memory, const char *simulated)
{
    const struct said *said = MEMTRACE("fit --trace a.db");
    assert_true(said->code == MT_OK || said->code == MT_FAILED);
    assert_says(said->out, memory);
    assert_int_equal(MEMTRACE("advise --trace a.db")->code, MT_OK);
    said = MEMTRACE("oom --trace a.db");
    assert_int_equal(said->code, MT_OK);
    assert_says(said->out, simulated);
}

/* Nor is another file opened that has the name by now. */
static void the_file_of_a_traced_card_is_not_read_again(void **state)
{
    (void)state;
    trace_on_a_lost_card();
    expect_answers(" with 1.96 GiB; 976.56 KiB are kept free", "on sim:card.json:2099000000, ran to its end");
    write_card("no card");
    expect_answers(" with 1.96 GiB; 976.56 KiB are kept free", "on sim:card.json:2099000000, ran to its end");
}

/* Also forgets the card that the run keeps. */
static void rename_traced_device(const char *device)
{
    char *sql = sqlite3_mprintf("UPDATE run SET device = '%q'; DELETE FROM setting WHERE name = 'card'", device);
    edit_trace("a.db", sql);
    sqlite3_free(sql);
}

static void a_traced_gpu_is_simulated_as_its_product(void **state)
{
    (void)state;
    trace_on_a_lost_card();
    rename_traced_device("cuda:0 (NVIDIA L4)");
    expect_answers(" with 1.95 GiB", "on sim:l4:2099000000, ran to its end");
    rename_traced_device("sim:gone");
    expect_answers(" with 1.95 GiB", "on sim:2099000000, ran to its end");
}

static json_int_t simulated_bytes(void)
{
    json_t *advice = json_of(MEMTRACE("advise --trace kept.db --json"));
    json_t *simulated = json_object_get(advice, "simulated_as_it_is");
    json_int_t bytes = integer_of(simulated, "requested_bytes");
    json_decref(advice);
    return bytes;
}

/* Its workspaces are a quarter of the reference card's. */
static void a_run_keeps_the_card_of_a_file(void **state)
{
    (void)state;
    write_card("{\"like\": \"a100-80gb\"}");
    json_t *run = json_of(
        MEMTRACE("run --device sim:card.json --model small --layers 1 --seq 128 --steps 1 --trace kept.db --json"));
    json_int_t bytes = integer_of(json_object_get(run, "peak"), "requested_bytes");
    json_decref(run);
    assert_int_equal(remove("card.json"), 0);
    assert_int_equal(simulated_bytes(), bytes);
    edit_trace("kept.db", "UPDATE setting SET value = '[]' WHERE name = 'card'");
    const struct said *said = MEMTRACE("advise --trace kept.db");
    assert_int_equal(said->code, MT_BAD_TRACE);
    assert_says(said->err, "the card of run 1");
    edit_trace("kept.db", "DELETE FROM setting WHERE name = 'card'");
    assert_true(simulated_bytes() > bytes);
}

/* PyTorch computes in bf16 on any card; without units for it, slowly. */
static void a_card_without_bf16_units_says_so(void **state)
{
    (void)state;
    assert_says(MEMTRACE("run --device sim:t4 --autocast bf16 " SHORT)->err, "sim:t4 has no units for bf16");
    assert_null(strstr(MEMTRACE("run --device sim:t4 " SHORT)->err, "bf16"));
    assert_null(strstr(MEMTRACE("run --device sim:t4 --autocast fp16 " SHORT)->err, "bf16"));
    assert_null(strstr(MEMTRACE("fit --device sim:t4 --autocast fp16 --model small --seq 128")->out, "bf16"));
    assert_null(strstr(MEMTRACE("run --device sim:l4 --autocast bf16 " SHORT)->err, "bf16"));
    assert_null(strstr(
        MEMTRACE("run --device cpu:1GiB --d-model 64 --heads 4 --d-ff 64 --vocab 64 --autocast bf16 " SHORT)->err,
        "bf16"));
}

static void autocast_is_not_offered_on_a_card_without_bf16_units(void **state)
{
    (void)state;
    static const char options[] = "--model medium --seq 512";
    const struct said *said = shell("\"$M\" fit --device sim:t4 %s", options);
    assert_int_equal(said->code, MT_FAILED);
    assert_says(said->out, "sim:t4 has no units for bf16: autocast would be emulated");
    assert_null(strstr(said->out, "--autocast bf16"));
    said = shell("\"$M\" fit --device sim:rtx5080 %s", options);
    assert_int_equal(said->code, MT_FAILED);
    assert_says(said->out, "--autocast bf16");
}

static uint64_t product_ns(const char *spelling, mt_dtype dtype)
{
    struct mt_device *device;
    assert_int_equal(mt_device_open(spelling, &device), MT_OK);
    mt_device_spend(device,
                    &(struct mt_work){.op = "matmul", .operations = 1e12, .dtype = dtype, .matrix_product = true});
    uint64_t ns = mt_device_now_ns(device);
    mt_device_close(device);
    return ns;
}

static void products_take_the_rate_of_their_dtype(void **state)
{
    (void)state;
    assert_true(product_ns("sim:v100-16gb", MT_F16) * 7 < product_ns("sim:v100-16gb", MT_F32));
    assert_true(product_ns("sim:v100-16gb", MT_BF16) == product_ns("sim:v100-16gb", MT_F32));
    assert_true(product_ns("sim:l4", MT_BF16) == product_ns("sim:l4", MT_F16));
}

static void times_on_sim_are_called_estimates(void **state)
{
    (void)state;
    json_t *run = json_of(MEMTRACE("run --device sim " SHORT));
    assert_true(json_is_true(json_object_get(run, "time_is_estimated")));
    json_decref(run);
    assert_says(MEMTRACE("run --device sim --model small --layers 1 --steps 1 --trace a.db")->out, ", est. ");
    assert_says(MEMTRACE("steps --trace a.db")->out, "estimate");
    assert_says(MEMTRACE("sweep --device sim --model small --seq 64 --trace b.db")->out, " est. ");
}

static int set_up(void **state)
{
    *state = enter_folder("cards");
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_document_has_the_table_as_printed),
        TEST(all_cards_are_listed_in_every_form),
        TEST(a_printed_card_is_a_file_of_it),
        TEST(caches_are_as_the_driver_reports_them),
        TEST(a_product_is_found_by_its_whole_name),
        TEST(what_a_file_leaves_out_is_as_on_the_card_that_it_is_like),
        TEST(no_spelling_is_cut),
        TEST(a_wrong_field_is_named),
        TEST(the_file_of_a_traced_card_is_not_read_again),
        TEST(a_run_keeps_the_card_of_a_file),
        TEST(a_traced_gpu_is_simulated_as_its_product),
        TEST(a_card_without_bf16_units_says_so),
        TEST(autocast_is_not_offered_on_a_card_without_bf16_units),
        TEST(products_take_the_rate_of_their_dtype),
        TEST(times_on_sim_are_called_estimates),
        TEST(a_run_takes_what_the_card_in_the_file_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
