/* memtrace cards: the cards that can be simulated, and the card of this machine. */
#include "answer/report_page.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/output/output.h"
#include "cli/output/report_form.h"
#include "device/device.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cards_options {
    bool help;
    bool json;
    int format;       /* an index of mt_report_format_names */
    const char *card; /* NULL: all */
};

static const struct mt_option options[] = {
    MT_OPTION(TEXT, struct cards_options, card, "CARD", .takes = MT_TAKES_FILE,
              .help = "a card's name, or a FILE.json that describes one (default: all known cards)"),
    MT_OPTION(CHOICE, struct cards_options, format, "--format", .value = "FORMAT", .choices = mt_report_format_names,
              .help = "of the table (text); csv has every field"),
    MT_OPTION_JSON(struct cards_options),
    MT_OPTION_HELP(struct cards_options),
    MT_OPTIONS_END,
};

/* A card, for the answer. Borrows text from `card`; do not move. */
struct card_row {
    struct mt_card card;
    const char *name, *product, *source;
    int64_t capability, multiprocessors, threads_per_multiprocessor;
    uint64_t launch_ns, eager_launch_ns;
    uint64_t run_bytes; /* available to a run */
    struct mt_figure shown_capability, bandwidth, fp32, tf32, bf16, fp16;
};

#define ROW struct card_row
static const struct mt_field card_fields[] = {
    MT_TEXT(ROW, name, "name", "card", "as in `--device sim:NAME`"),
    MT_TEXT(ROW, product, "product", NULL, "as the driver names it"),
    MT_BYTES(ROW, card.memory_bytes, "memory_bytes", "memory", "as the driver reports it"),
    MT_BYTES(ROW, card.context_bytes, "context_bytes", "context", "of that, CUDA's context and libraries"),
    MT_INTEGER(ROW, capability, "capability", NULL, "of CUDA, times ten: 90 is 9.0"),
    MT_INTEGER(ROW, multiprocessors, "multiprocessors", "SMs", NULL),
    MT_INTEGER(ROW, threads_per_multiprocessor, "threads_per_multiprocessor", NULL, "resident at once"),
    MT_BYTES(ROW, card.l2_bytes, "l2_bytes", "L2", "the cache that all multiprocessors share"),
    MT_BYTES(ROW, card.block_shared_bytes, "block_shared_bytes", NULL, "the most shared memory of a block"),
    MT_BYTES(ROW, card.multiprocessor_shared_bytes, "multiprocessor_shared_bytes", NULL, NULL),
    MT_BYTES(ROW, card.matmul_workspace_bytes, "matmul_workspace_bytes", "workspace",
             "PyTorch's for cuBLAS, for each thread that computes products"),
    MT_COUNT(ROW, launch_ns, "launch_ns", NULL, "the least time from a kernel's begin to the next one's"),
    MT_COUNT(ROW, eager_launch_ns, "eager_launch_ns", NULL, "of PyTorch's eager mode to launch a kernel"),
    MT_NUMBER(ROW, card.bytes_per_second, "bytes_per_second", NULL, NULL),
    MT_NUMBER(ROW, card.fp64_rate, "fp64_rate", NULL, "operations a second, outside of the matrix units"),
    MT_NUMBER(ROW, card.fp32_rate, "fp32_rate", NULL, NULL),
    MT_NUMBER(ROW, card.tf32_matrix_rate, "tf32_matrix_rate", NULL, "of the matrix units, dense; 0: they take none"),
    MT_NUMBER(ROW, card.bf16_matrix_rate, "bf16_matrix_rate", NULL, NULL),
    MT_NUMBER(ROW, card.fp16_matrix_rate, "fp16_matrix_rate", NULL, NULL),
    MT_NUMBER(ROW, card.fp8_matrix_rate, "fp8_matrix_rate", NULL, NULL),
    MT_TEXT(ROW, source, "source", NULL, "of the memory"),
    MT_FIELDS_END,
};
static const struct mt_row_type card_type = MT_ROW_TYPE(ROW, card_fields);

/* The same for tables. */
static const struct mt_field shown_fields[] = {
    MT_FIELDS_OF(&card_type),
    MT_SHOWN(BYTES, uint64_t, ROW, run_bytes, "run_bytes", "for a run"),
    MT_SHOWN(FIGURE, struct mt_figure, ROW, shown_capability, "shown_capability", "CC"),
    MT_SHOWN(FIGURE, struct mt_figure, ROW, bandwidth, "bandwidth", "TB/s"),
    MT_SHOWN(FIGURE, struct mt_figure, ROW, fp32, "fp32", "fp32"),
    MT_SHOWN(FIGURE, struct mt_figure, ROW, tf32, "tf32", "tf32"),
    MT_SHOWN(FIGURE, struct mt_figure, ROW, bf16, "bf16", "bf16"),
    MT_SHOWN(FIGURE, struct mt_figure, ROW, fp16, "fp16", "fp16"),
    MT_FIELDS_END,
};
static const struct mt_row_type shown_type = MT_ROW_TYPE(ROW, shown_fields);

static const struct mt_field page_fields[] = {
    MT_COLUMN(TEXT, const char *, ROW, name, "card"),
    MT_COLUMN(BYTES, uint64_t, ROW, card.memory_bytes, "memory"),
    MT_COLUMN(BYTES, uint64_t, ROW, card.context_bytes, "context"),
    MT_COLUMN(BYTES, uint64_t, ROW, run_bytes, "for a run"),
    MT_COLUMN(FIGURE, struct mt_figure, ROW, shown_capability, "CC"),
    MT_COLUMN(INTEGER, int64_t, ROW, multiprocessors, "SMs"),
    MT_COLUMN(BYTES, uint64_t, ROW, card.l2_bytes, "L2"),
    MT_COLUMN(BYTES, uint64_t, ROW, card.matmul_workspace_bytes, "workspace"),
    MT_COLUMN(FIGURE, struct mt_figure, ROW, bandwidth, "TB/s"),
    MT_COLUMN(FIGURE, struct mt_figure, ROW, fp32, "fp32"),
    MT_COLUMN(FIGURE, struct mt_figure, ROW, tf32, "tf32"),
    MT_COLUMN(FIGURE, struct mt_figure, ROW, bf16, "bf16"),
    MT_COLUMN(FIGURE, struct mt_figure, ROW, fp16, "fp16"),
    MT_COLUMN(TEXT, const char *, ROW, source, "source of the memory"),
    MT_FIELDS_END,
};
static const struct mt_row_type page_type = MT_ROW_TYPE(ROW, page_fields);
#undef ROW

struct cards_answer {
    struct card_row *machine; /* of cuda:0; NULL: none */
    struct card_row *rows;
    size_t count;
};
static const struct mt_field answer_fields[] = {
    MT_ROW_OR_NULL(struct cards_answer, machine, "machine", &card_type, "the card of cuda:0, or null"),
    MT_ROWS(struct cards_answer, rows, count, "rows", &card_type, "of one card its fields alone"),
    MT_FIELDS_END,
};
static const struct mt_row_type answer_type = MT_ROW_TYPE(struct cards_answer, answer_fields);

static struct mt_figure tera(double rate)
{
    return rate > 0 ? mt_figure_number(rate * 1e-12, "%.4g", rate * 1e-12) : (struct mt_figure){0};
}

/* Sets the fields that derive from row->card. */
static void fill(struct card_row *row)
{
    const struct mt_card *card = &row->card;
    row->name = card->name;
    row->product = card->product;
    row->source = card->source;
    row->capability = card->capability;
    row->multiprocessors = card->multiprocessors;
    row->threads_per_multiprocessor = card->threads_per_multiprocessor;
    row->launch_ns = card->launch_ns;
    row->eager_launch_ns = card->eager_launch_ns;
    row->run_bytes = mt_card_usable_bytes(card);
    row->shown_capability = mt_figure_number(card->capability / 10.0, "%.1f", card->capability / 10.0);
    row->bandwidth = tera(card->bytes_per_second);
    row->fp32 = tera(card->fp32_rate);
    row->tf32 = tera(card->tf32_matrix_rate);
    row->bf16 = tera(card->bf16_matrix_rate);
    row->fp16 = tera(card->fp16_matrix_rate);
}

/* Returns the machine's card; NULL if there is none. Its context exists while the device is open. */
static struct card_row *find_machine(void)
{
    struct mt_device *device;
    struct mt_device_memory memory;
    if (mt_device_open("cuda", &device) != MT_OK)
        return NULL;
    struct card_row *row = mt_host_alloc(sizeof *row);
    *row = (struct card_row){.card = device->card};
    if (mt_device_memory(device, &memory) == MT_OK)
        row->card.context_bytes = memory.context_bytes + memory.library_bytes;
    mt_device_close(device);
    fill(row);
    return row;
}

static mt_status list_known(struct cards_answer *answer)
{
    const char *const *names = mt_card_names();
    while (names[answer->count] != NULL)
        answer->count++;
    answer->rows = mt_host_alloc(answer->count * sizeof *answer->rows);
    for (size_t i = 0; i < answer->count; i++) {
        bool is_known = mt_card_find(names[i], &answer->rows[i].card);
        assert(is_known);
        (void)is_known;
        fill(&answer->rows[i]);
    }
    return MT_OK;
}

static mt_status find_one(const char *name, struct cards_answer *answer)
{
    char spelling[256];
    struct mt_card card;
    snprintf(spelling, sizeof spelling, "sim:%s", name);
    MT_TRY(mt_device_find_card(spelling, &card));
    answer->count = 1;
    answer->rows = mt_host_alloc(sizeof *answer->rows);
    answer->rows[0] = (struct card_row){.card = card};
    fill(answer->rows);
    return MT_OK;
}

static void print_table(const struct card_row *rows, size_t count)
{
    mt_rows_print(&shown_type,
                  "name memory_bytes context_bytes run_bytes shown_capability multiprocessors matmul_workspace_bytes "
                  "bandwidth fp32 tf32 bf16 fp16",
                  "fp16 bandwidth matmul_workspace_bytes context_bytes", rows, count);
}

static void print_text(const struct cards_answer *answer)
{
    if (answer->machine != NULL) {
        printf("In this machine, cuda:0: %s\n", answer->machine->product);
        print_table(answer->machine, 1);
        puts("\nKnown cards:");
    }
    print_table(answer->rows, answer->count);
    putchar('\n');
    mt_print_wrapped(
        "Memory is what the driver reports; context is the part that CUDA and its libraries use. TB/s and "
        "TFLOP/s are peaks: of fp32, and of matrices, where the card has units for them. docs/cards.md has "
        "the sources.",
        0);
}

static mt_status print_answer(const struct cards_options *given, mt_report_form form, const struct cards_answer *answer)
{
    if (form == MT_REPORT_CSV)
        return mt_rows_print_csv(&card_type, answer->rows, answer->count);
    if (form == MT_REPORT_MARKDOWN)
        return mt_rows_print_markdown("Cards", "cards", "TFLOP/s of fp32 and of matrices", &page_type, answer->rows,
                                      answer->count);
    if (form == MT_REPORT_JSON && given->card != NULL)
        mt_answer_print_json("card", &card_type, answer->rows);
    else if (form == MT_REPORT_JSON)
        mt_answer_print_json("cards", &answer_type, answer);
    else
        print_text(answer);
    return MT_OK;
}

static mt_status run_cards(const void *given)
{
    const struct cards_options *asked = given;
    struct cards_answer answer = {0};
    mt_report_form form;
    MT_TRY(mt_report_form_find(asked->json, asked->format, &form));
    mt_status status = asked->card != NULL ? find_one(asked->card, &answer) : list_known(&answer);
    if (status == MT_OK && asked->card == NULL && (form == MT_REPORT_TEXT || form == MT_REPORT_JSON))
        answer.machine = find_machine();
    MT_THEN(status, print_answer(asked, form, &answer));
    free(answer.machine);
    free(answer.rows);
    return status;
}

const struct mt_command mt_command_cards = {
    .name = "cards",
    .summary = "Lists the cards that sim can simulate, with their usable memory, and the card in this machine.",
    .usage = "[CARD] [OPTIONS]",
    .details =
        "To describe a card of your own, print a similar one to a file, edit it, and pass the file as the device:\n"
        "sim:FILE.json. Missing fields are taken from the card that its field \"like\" names, or from the H200.\n"
        "sim:CARD:SIZE is a card with another amount of memory.\n",
    .examples = "  memtrace cards\n"
                "  memtrace cards --json\n"
                "  memtrace cards rtx4090 --json >mine.json\n"
                "  memtrace fit --device sim:mine.json --model small --seq 512\n",
    .options = options,
    MT_OPTIONS_OF(struct cards_options, 0),
    .answer = &answer_type,
    .run = run_cards,
};
