/* memtrace attention: one attention layer, in each of its variants, at increasing lengths. */
#include "base/memory.h"
#include "cli/command.h"
#include "cli/output/output.h"
#include "cli/output/report_form.h"
#include "cli/run/told_session.h"
#include "producers/model/settings.h"
#include "study/attention_answer.h"
#include "study/attention_session.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum format { FORMAT_TEXT, FORMAT_CSV } format;
static const char *const format_names[] = {[FORMAT_TEXT] = "text", [FORMAT_CSV] = "csv", NULL};

typedef enum switch_value { SWITCH_ON, SWITCH_OFF } switch_value;
static const char *const switch_names[] = {[SWITCH_ON] = "on", [SWITCH_OFF] = "off", NULL};

struct attention_options {
    bool help, json, no_trace, peer;
    const char *seq, *d, *attention, *precision, *device, *alloc, *trace, *name;
    int64_t batch, heads, repeat, seed;
    int format, projections, causal;
};

#define OPTION(value_kind, field, ...)                                                                                 \
    {                                                                                                                  \
        .kind = MT_OPTION_##value_kind, .offset = offsetof(struct attention_options, field), __VA_ARGS__               \
    }
static const struct mt_option options[] = {
    OPTION(TEXT, seq, .name = "--seq", .value = "N,...",
           .help = "tokens in a sequence (256,1024,4096,8192,16384,65536; on cpu 256)"),
    OPTION(TEXT, d, .name = "--d", .value = "N,...", .help = "features of the layer (16,32,64,128)"),
    OPTION(TEXT, attention, .name = "--attention", .value = "custom|softmax|weights|flash,...",
           .help = "the variants (all four)", .choices = mt_attention_names),
    OPTION(TEXT, precision, .name = "--precision", .value = "fp32|tf32|bf16,...",
           .help = "of input and weights; tf32: fp32 with matmuls on the tensor cores (fp32,bf16)",
           .choices = mt_study_precision_names),
    OPTION(INTEGER, batch, .name = "--batch", .value = "N", .help = "sequences (8)", .low = 1, .high = INT64_MAX),
    OPTION(INTEGER, heads, .name = "--heads", .value = "N", .help = "heads, each of d / N features (1)", .low = 1,
           .high = INT64_MAX),
    OPTION(CHOICE, projections, .name = "--projections", .value = "on|off",
           .help = "of q, k, v and the output; off: q, k and v are inputs (on)", .choices = switch_names),
    OPTION(CHOICE, causal, .name = "--causal", .value = "on|off",
           .help = "off: no mask; with --attention custom,softmax (on)", .choices = switch_names),
    OPTION(INTEGER, repeat, .name = "--repeat", .value = "N",
           .help = "steps that are timed, after one to warm up; times are their medians (5)", .low = 1, .high = 1000),
    OPTION(INTEGER, seed, .name = "--seed", .value = "N", .help = "of random weights and input (0)", .low = 0,
           .high = INT64_MAX),
    OPTION(TEXT, alloc, .name = "--alloc", .value = "SETTINGS", .help = "as for memtrace run (policy=tight)"),
    OPTION(TEXT, device, .name = "--device", .value = "DEVICE", .help = "as for memtrace run (auto)",
           .takes = MT_TAKES_DEVICE),
    OPTION(TEXT, trace, .name = "--trace", .value = "FILE",
           .help = "where the runs are added, one for each cell (" MT_DEFAULT_TRACE ")", .takes = MT_TAKES_FILE),
    OPTION(FLAG, no_trace, .name = "--no-trace", .help = "write no trace"),
    OPTION(TEXT, name, .name = "--name", .value = "TEXT",
           .help = "how the names of the runs begin (attention): attention-flash-bf16-d64-16384"),
    OPTION(FLAG, peer, .name = "--peer", .help = "compare with PyTorch on an H200, where that was measured"),
    OPTION(CHOICE, format, .name = "--format", .value = "FORMAT",
           .help = "tables and sentences, or a line a cell (text)", .choices = format_names),
    MT_OPTION_JSON(struct attention_options),
    MT_OPTION_HELP(struct attention_options),
    MT_OPTIONS_END,
};
#undef OPTION

/* The allowed values of a list: names from choices, or numbers. */
struct rule {
    const char *option;
    const char *const *choices; /* NULL: numbers */
    int64_t low, high;
};

static mt_status read_choice(const struct rule *rule, const char *text, int64_t *out)
{
    size_t count = 0;
    for (; rule->choices[count] != NULL; count++) {
        if (strcmp(rule->choices[count], text) != 0)
            continue;
        *out = (int64_t)count;
        return MT_OK;
    }
    mt_status status = mt_fail_unknown("value", text, rule->choices, count);
    return mt_fail_context(status, "%s", rule->option);
}

static mt_status add_value(const struct rule *rule, const char *text, struct mt_value_list *out)
{
    int64_t value = 0;
    if (out->count == MT_MOST_LIST_VALUES)
        return mt_fail(MT_USAGE, "%s: a list has %d values at most", rule->option, MT_MOST_LIST_VALUES);
    MT_TRY(rule->choices != NULL ? read_choice(rule, text, &value)
                                 : mt_parse_integer(rule->option, text, rule->low, rule->high, &value));
    for (size_t i = 0; i < out->count; i++)
        if (out->values[i] == value)
            return mt_fail(MT_USAGE, "%s: the list has %s twice", rule->option, text);
    out->values[out->count++] = value;
    return MT_OK;
}

/* Parses distinct values separated by commas ("256,1024"). Fails with MT_USAGE for other text, an empty list, or a
 * repeated value. */
static mt_status read_list(const struct rule *rule, const char *text, struct mt_value_list *out)
{
    char *copy = mt_host_strdup(text), *rest = copy;
    mt_status status = MT_OK;
    *out = (struct mt_value_list){0};
    while (rest != NULL && status == MT_OK)
        status = add_value(rule, strsep(&rest, ","), out);
    free(copy);
    return status;
}

/* Default lengths are the published study's; on the slow CPU device, one length that takes seconds in plain C. */
static mt_status fill_grid(const struct attention_options *given, const struct mt_device *device,
                           struct mt_attention_grid *out)
{
    bool is_slow = strcmp(mt_device_kind(device), "cpu") == 0;
    const char *usual_lengths = is_slow ? "256" : "256,1024,4096,8192,16384,65536";
    *out = (struct mt_attention_grid){.batch = given->batch,
                                      .heads = given->heads,
                                      .repeats = given->repeat,
                                      .seed = given->seed,
                                      .without_projections = given->projections == SWITCH_OFF,
                                      .without_mask = given->causal == SWITCH_OFF};
    const struct {
        struct rule rule;
        const char *text;
        struct mt_value_list *values;
    } lists[] = {
        {{"--seq", NULL, 1, MT_STUDY_LONGEST}, given->seq != NULL ? given->seq : usual_lengths, &out->lengths},
        {{"--d", NULL, 1, INT32_MAX}, given->d, &out->widths},
        {{"--attention", mt_attention_names, 0, 0}, given->attention, &out->variants},
        {{"--precision", mt_study_precision_names, 0, 0}, given->precision, &out->precisions},
    };
    mt_status status = MT_OK;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0] && status == MT_OK; i++)
        status = read_list(&lists[i].rule, lists[i].text, lists[i].values);
    return status == MT_OK ? mt_attention_grid_check(out) : status;
}

/* Prints progress on a line that overwrites itself. */
static void show_progress(size_t cell, size_t count, const struct mt_attention_case *study)
{
    struct mt_text text = {0};
    if (!mt_notes_are_on_terminal())
        return;
    mt_attention_case_describe(study, &text);
    fprintf(stderr, "\rcell %zu of %zu: %s\033[K%s", cell + 1, count, text.data, cell + 1 < count ? "" : "\r\033[K");
    fflush(stderr);
    mt_text_release(&text);
}

static mt_status run_cells(struct mt_attention_session *session, struct mt_attention_answer *answer)
{
    mt_status status = MT_OK;
    for (size_t i = 0; i < answer->cell_count && status == MT_OK; i++) {
        struct mt_attention_cell *cell = &answer->cells[i];
        cell->of = mt_attention_grid_cell(&answer->grid, i);
        show_progress(i, answer->cell_count, &cell->of);
        status = mt_attention_session_run(session, &cell->of, &cell->result);
        if (session->is_untraceable)
            mt_fail_writing_hint(status, "--no-trace");
        if (status == MT_OK)
            mt_attention_cell_fill(cell);
        else
            mt_fail_context(status, "cell %zu of %zu", i + 1, answer->cell_count);
    }
    return mt_status_keep(status, mt_attention_session_close(session));
}

/* Returns the bytes available to a run: on a card, those that no process uses. */
static uint64_t usable_bytes(struct mt_device *device)
{
    struct mt_device_memory memory;
    if (mt_device_memory(device, &memory) == MT_OK && memory.free_bytes < device->capacity_bytes)
        return memory.free_bytes;
    return device->capacity_bytes;
}

/* There is one limit for all cells that differ only in length. */
static mt_status find_limits(const struct mt_attention_session *session, struct mt_attention_answer *answer)
{
    const struct mt_attention_grid *grid = &answer->grid;
    const size_t variants = grid->variants.count;
    mt_status status = MT_OK;
    for (size_t i = 0; i < answer->limit_count && status == MT_OK; i++) {
        struct mt_attention_limit *limit = &answer->limits[i];
        limit->of = mt_attention_grid_cell(grid, i / variants * grid->lengths.count * variants + i % variants);
        limit->square_from = mt_attention_square_from(&limit->of);
        status = mt_attention_longest(&limit->of, &session->alloc, &session->device->card, answer->memory_bytes,
                                      &limit->longest);
        mt_attention_limit_fill(limit);
    }
    return status;
}

/* Prints the commands for the runs of the trace. */
static void print_next(const struct mt_attention_answer *answer)
{
    int64_t first = answer->cells[0].run, last = answer->cells[answer->cell_count - 1].run;
    struct mt_text file = {0};
    if (answer->trace == NULL)
        return;
    mt_text_add_shell_word(&file, answer->trace);
    mt_say("Each cell is a run of %s, %" PRId64 " to %" PRId64
           ": memtrace runs lists them, memtrace peak --run %" PRId64 " asks about one.",
           mt_text_get(&file), first, last, last);
    mt_text_release(&file);
}

static mt_status print_answer(const struct attention_options *given, const struct mt_attention_answer *answer)
{
    if (given->format == FORMAT_CSV)
        return mt_rows_print_csv(&mt_attention_csv_type, answer->cells, answer->cell_count);
    if (given->json) {
        mt_json_print(mt_attention_json(answer));
    } else {
        mt_attention_write_text(answer);
        print_next(answer);
    }
    return MT_OK;
}

static mt_status study_grid(const struct attention_options *given, struct mt_attention_session *session,
                            const struct mt_attention_grid *grid)
{
    struct mt_attention_answer answer = {.grid = *grid,
                                         .memory_bytes = usable_bytes(session->device),
                                         .workspace_bytes = session->device->card.matmul_workspace_bytes,
                                         .trace = session->trace,
                                         .schema = "memtrace.attention/1",
                                         .device_name = session->device->name,
                                         .executes = mt_device_executes(session->device),
                                         .has_peer = given->peer,
                                         .has_projections = !grid->without_projections,
                                         .is_causal = !grid->without_mask,
                                         .screen = mt_output_screen()};
    answer.cell_count = mt_attention_grid_count(grid);
    answer.limit_count = answer.cell_count / grid->lengths.count;
    answer.cells = mt_host_alloc(answer.cell_count * sizeof *answer.cells);
    answer.limits = mt_host_alloc(answer.limit_count * sizeof *answer.limits);
    mt_status status = run_cells(session, &answer);
    MT_THEN(status, find_limits(session, &answer));
    MT_THEN(status, print_answer(given, &answer));
    free(answer.cells);
    free(answer.limits);
    return status;
}

static mt_status run_attention(const void *options_given)
{
    const struct attention_options *given = options_given;
    struct mt_attention_session session = {.trace = given->no_trace ? NULL : given->trace, .name = given->name};
    struct mt_attention_grid grid;
    if (given->json && given->format != FORMAT_TEXT)
        return mt_fail(MT_USAGE, "--json and --format csv are two ways to print the same: choose one");
    MT_TRY(mt_alloc_settings_parse(given->alloc, &session.alloc));
    MT_TRY(mt_told_device_open(given->device, &session.device));
    mt_status status = fill_grid(given, session.device, &grid);
    MT_THEN(status, study_grid(given, &session, &grid));
    mt_device_close(session.device);
    return status;
}

const struct mt_command mt_command_attention = {
    .name = "attention",
    .summary = "Runs one attention layer alone, in four variants, and reports the memory it keeps and its time.",
    .usage = "[OPTIONS]",
    .details =
        "Inputs and weights have one precision, without autocast. Backward starts from a gradient of ones, as for\n"
        "the output's sum, and reaches the weights and the input. Each cell shows the memory live before backward\n"
        "next to its value by formula, the peak, and the times of forward and backward. Running out of memory is a\n"
        "result. Workspaces of matmuls are not included.\n"
        "\n"
        "Options whose value ends in ,... accept several values, separated by commas. Each cell is a run of the\n"
        "trace, for memtrace peak, top and diff. On sim, memory is exact and times are estimates: nothing is\n"
        "computed.\n",
    .examples =
        "  memtrace attention --device sim --no-trace\n"
        "  memtrace attention --device sim --no-trace --d 64 --peer\n"
        "  memtrace attention --device sim --no-trace --d 64 --seq 4096 --format csv\n"
        "  memtrace attention --device sim --no-trace --attention custom,softmax --projections off --causal off\n"
        "  memtrace attention --device sim:a100-80gb --d 64 --precision bf16 --seq 1024,4096 --trace attention.db\n"
        "  memtrace diff attention-custom-bf16-d64-4096 attention-flash-bf16-d64-4096 --trace attention.db\n",
    .options = options,
    MT_OPTIONS_OF(struct attention_options, .d = "16,32,64,128", .attention = "custom,softmax,weights,flash",
                  .precision = "fp32,bf16", .alloc = "", .device = MT_DEVICE_AUTO, .batch = 8, .heads = 1, .repeat = 5,
                  .trace = MT_DEFAULT_TRACE, .name = "attention"),
    .answer = &mt_attention_answer_type,
    .run = run_attention,
};
