#include "fit_report.h"

#include "output.h"
#include "run_command.h"
#include "run_settings.h"
#include "table.h"

#include <inttypes.h>
#include <stdio.h>

/* What a process takes on a card besides what the allocator reserves: CUDA's context and modules and the libraries'
 * memory, as measured on an H200 (docs/measurements.md). */
static const uint64_t UNCOUNTED_BYTES = (uint64_t)600 << 20; /* "about 0.6 GiB" below */

/* The options that make the change, as the remedy's plan has it. */
static void add_change(const struct mt_run_plan *plan, mt_fit_change change, struct mt_text *out)
{
    switch (change) {
    case MT_CHANGE_ZERO_GRAD:
        mt_text_add(out, "--zero-grad %s", mt_zero_grad_names[plan->config.zero_grad]);
        return;
    case MT_CHANGE_ALLOC:
        mt_text_add(out, "--alloc ");
        mt_alloc_settings_format(&plan->alloc, out);
        return;
    case MT_CHANGE_AUTOCAST:
        mt_text_add(out, "--autocast %s", mt_autocast_names[plan->config.autocast]);
        return;
    case MT_CHANGE_ATTENTION:
        mt_text_add(out, "--attention %s", mt_attention_names[plan->config.attention]);
        return;
    case MT_CHANGE_BATCH:
        mt_text_add(out, "--batch %" PRId64, plan->config.batch);
        return;
    case MT_CHANGE_SEQ:
        mt_text_add(out, "--seq %" PRId64, plan->config.seq);
        return;
    case MT_CHANGE_COUNT:
        return;
    }
}

void mt_fit_remedy_add_changes(const struct mt_fit_remedy *remedy, struct mt_text *out)
{
    const char *before = "";
    for (mt_fit_change change = 0; change < MT_CHANGE_COUNT; change++) {
        if (!remedy->changes.has[change])
            continue;
        mt_text_add(out, "%s", before);
        add_change(&remedy->plan, change, out);
        before = " ";
    }
}

/* "fits, 1.20 GiB to spare", "2.31 GiB short". */
static void add_verdict(const struct mt_fit *fit, struct mt_text *out)
{
    char size[MT_BYTES_TEXT];
    if (fit->fits)
        mt_text_add(out, "fits, %s to spare", mt_format_bytes(fit->capacity_bytes - fit->needs_bytes, size));
    else
        mt_text_add(out, "%s short", mt_format_bytes(fit->needs_bytes - fit->capacity_bytes, size));
}

/* "run 3 (baseline): " */
static void print_run(const struct mt_run *run)
{
    if (run == NULL)
        return;
    printf("run %" PRId64, run->id);
    if (run->name != NULL) {
        fputs(" (", stdout);
        mt_print_name(run->name);
        putchar(')');
    }
    fputs(": ", stdout);
}

static void print_title(const struct mt_fit_question *question, const struct mt_fit *fit)
{
    const struct mt_training_config *config = &question->plan->config;
    char capacity[MT_BYTES_TEXT];
    struct mt_text alloc = {0};
    print_run(question->run);
    mt_print_name(config->model.name);
    mt_alloc_settings_format(&question->plan->alloc, &alloc);
    printf(" (%.2f billion parameters), batch %" PRId64 ", sequence %" PRId64 ", %s, %s, %s\non %s with %s\n\n",
           (double)mt_model_parameter_count(&config->model) / 1e9, config->batch, config->seq,
           mt_mode_names[config->mode], config->autocast ? "bf16 autocast" : mt_matmul_names[config->math],
           mt_text_get(&alloc), question->plan->device, mt_format_bytes(fit->capacity_bytes, capacity));
    mt_text_release(&alloc);
}

static void print_squeeze(const struct mt_fit *fit)
{
    char size[MT_BYTES_TEXT];
    if (fit->fits && fit->unlimited_bytes > fit->capacity_bytes)
        printf("Only just: with more memory it would reserve %s, so here the allocator gives cached segments back and\n"
               "takes others, which costs time on a card.\n",
               mt_format_bytes(fit->unlimited_bytes, size));
}

static void print_verdict(const struct mt_fit *fit)
{
    char needs[MT_BYTES_TEXT], rest[MT_BYTES_TEXT];
    mt_format_bytes(fit->needs_bytes, needs);
    if (!fit->fits) {
        printf("It does not fit: it needs %s, %s more than there is.\n", needs,
               mt_format_bytes(fit->needs_bytes - fit->capacity_bytes, rest));
        return;
    }
    printf("It fits: it reserves %s at its peak, which leaves %s.\n", needs,
           mt_format_bytes(fit->capacity_bytes - fit->needs_bytes, rest));
    print_squeeze(fit);
}

static void add_remedies(struct mt_table *table, const struct mt_fit_remedy *remedies, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct mt_text changes = {0}, verdict = {0};
        mt_fit_remedy_add_changes(&remedies[i], &changes);
        add_verdict(&remedies[i].fit, &verdict);
        mt_table_add(table, mt_text_get(&changes));
        mt_table_add_bytes(table, remedies[i].fit.needs_bytes);
        mt_table_add(table, mt_text_get(&verdict));
        mt_text_release(&changes);
        mt_text_release(&verdict);
    }
}

static void print_remedies(const struct mt_fit_answer *answer)
{
    static const struct mt_column columns[] = {
        {"with the change", MT_ALIGN_LEFT}, {"it needs", MT_ALIGN_RIGHT}, {"on this device", MT_ALIGN_LEFT}};
    if (answer->single_count == 0)
        return;
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    add_remedies(table, answer->single, answer->single_count);
    add_remedies(table, answer->combined, answer->combined_count);
    putchar('\n');
    mt_table_print(table);
    mt_table_destroy(table);
}

static void print_command(const struct mt_fit_remedy *remedy)
{
    struct mt_text text = {0};
    mt_run_command_add(&remedy->plan, &text);
    printf("  %s\n", mt_text_get(&text));
    mt_text_release(&text);
}

/* Parameters and, where they are trained, their gradients and the optimizer's two moments. */
static uint64_t state_bytes(const struct mt_training_config *config)
{
    uint64_t bytes = mt_model_parameter_count(&config->model) * mt_dtype_bytes(config->parameter_dtype);
    return config->mode == MT_MODE_FWD_BWD ? 4 * bytes : bytes;
}

static void print_no_remedy(const struct mt_fit_question *question, const struct mt_fit *fit)
{
    const struct mt_training_config *config = &question->plan->config;
    char size[MT_BYTES_TEXT];
    uint64_t bytes = state_bytes(config);
    if (bytes <= fit->capacity_bytes)
        puts("\nNone of these makes it fit.");
    else
        printf("\nNone of these makes it fit: the parameters%s alone are %s.\n",
               config->mode == MT_MODE_FWD_BWD ? ", their gradients and the optimizer's two moments" : "",
               mt_format_bytes(bytes, size));
}

static void print_advice(const struct mt_fit_question *question, const struct mt_fit_answer *answer)
{
    const struct mt_fit_remedy *best = mt_fit_best_remedy(answer);
    if (answer->fit.fits)
        return;
    if (best == NULL) {
        print_no_remedy(question, &answer->fit);
        return;
    }
    puts(answer->combined_count > 0 ? "\nNo single change suffices. The least that does:"
                                    : "\nThe least change that makes it fit:");
    print_command(best);
}

static void print_size(const char *what, int64_t largest)
{
    if (largest == 0)
        printf("  %-10s none: %s 1 does not fit either\n", what, what);
    else
        printf("  %-10s %" PRId64 " (%" PRId64 " does not fit)\n", what, largest, largest + 1);
}

static void print_largest(const struct mt_fit_answer *answer)
{
    puts("\nThe largest that fit, with everything else as it is:");
    print_size("batch", answer->largest_batch);
    print_size("sequence", answer->largest_seq);
    printf("  %-10s %s\n", "model", answer->largest_model != NULL ? answer->largest_model : "none");
    if (answer->smallest_card != NULL)
        printf("The smallest of the known cards that the run as it is fits: sim:%s\n", answer->smallest_card);
    else
        puts("The run as it is fits none of the known cards.");
}

static int64_t simulated_steps(const struct mt_training_config *config)
{
    int64_t steps = config->steps + config->warmup;
    return steps < MT_SIMULATED_STEPS ? steps : MT_SIMULATED_STEPS;
}

/* What the figures are, and what they leave out. */
static void print_basis(const struct mt_fit_question *question, const struct mt_fit *fit)
{
    int64_t steps = simulated_steps(&question->plan->config);
    bool is_near = fit->fits && fit->capacity_bytes - fit->needs_bytes < UNCOUNTED_BYTES;
    printf("\nFigures are peaks of reserved bytes, each from a simulation of %" PRId64
           " step%s with all of the memory free.\n"
           "CUDA's context and libraries, about 0.6 GiB on a card, come on top%s.\n",
           steps, steps == 1 ? "" : "s", is_near ? ": more than is left, so there it may fail" : "");
}

void mt_fit_print_text(const struct mt_fit_question *question, const struct mt_fit_answer *answer)
{
    const struct mt_fit_remedy *best = mt_fit_best_remedy(answer);
    print_title(question, &answer->fit);
    print_verdict(&answer->fit);
    print_remedies(answer);
    print_advice(question, answer);
    print_largest(answer);
    print_basis(question, best != NULL ? &best->fit : &answer->fit);
}

/* The members of what fits or does not. */
static void add_fit_json(const struct mt_fit *fit, json_t *object)
{
    json_object_set_new(object, "fits", json_boolean(fit->fits));
    json_object_set_new(object, "needs_bytes", json_integer((json_int_t)fit->needs_bytes));
    json_object_set_new(object, "room_bytes",
                        json_integer((json_int_t)fit->capacity_bytes - (json_int_t)fit->needs_bytes));
    json_object_set_new(object, "unlimited_bytes", json_integer((json_int_t)fit->unlimited_bytes));
}

static json_t *command_json(const struct mt_run_plan *plan)
{
    struct mt_text text = {0};
    mt_run_command_add(plan, &text);
    json_t *json = mt_json_text(mt_text_get(&text));
    mt_text_release(&text);
    return json;
}

static json_t *remedies_json(const struct mt_fit_remedy *remedies, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        struct mt_text changes = {0};
        mt_fit_remedy_add_changes(&remedies[i], &changes);
        json_t *object = json_pack("{s:o, s:o}", "change", mt_json_text(mt_text_get(&changes)), "command",
                                   command_json(&remedies[i].plan));
        add_fit_json(&remedies[i].fit, object);
        json_array_append_new(list, object);
        mt_text_release(&changes);
    }
    return list;
}

static json_t *size_json(int64_t largest)
{
    return largest > 0 ? json_integer(largest) : json_null();
}

void mt_fit_print_json(const struct mt_fit_question *question, const struct mt_fit_answer *answer)
{
    const struct mt_run *run = question->run;
    const struct mt_fit_remedy *best = mt_fit_best_remedy(answer);
    json_t *object = json_pack(
        "{s:s, s:o, s:o, s:o, s:I, s:I}", "schema", "memtrace.fit/1", "run",
        run != NULL ? json_integer(run->id) : json_null(), "name", mt_json_text(run != NULL ? run->name : NULL),
        "device", mt_json_text(question->plan->device), "capacity_bytes", (json_int_t)answer->fit.capacity_bytes,
        "steps", (json_int_t)simulated_steps(&question->plan->config));
    add_fit_json(&answer->fit, object);
    json_object_set_new(object, "changes", remedies_json(answer->single, answer->single_count));
    json_object_set_new(object, "combined", remedies_json(answer->combined, answer->combined_count));
    json_object_set_new(object, "command", command_json(question->plan));
    json_object_set_new(object, "remedy", best != NULL ? command_json(&best->plan) : json_null());
    json_object_set_new(object, "largest",
                        json_pack("{s:o, s:o, s:o}", "batch", size_json(answer->largest_batch), "seq",
                                  size_json(answer->largest_seq), "model", mt_json_text(answer->largest_model)));
    json_object_set_new(object, "smallest_card", mt_json_text(answer->smallest_card));
    mt_json_print(object);
}
