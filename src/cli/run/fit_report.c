#include "cli/run/fit_report.h"

#include "answer/table.h"
#include "cli/output/output.h"
#include "cli/run/run_options.h"

#include <inttypes.h>
#include <stdio.h>

/* Prints "run 3 (baseline): ". */
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

/* Prints "on sim:rtx4090 with 24.00 GiB, 600.00 MiB of which are kept free: 23.41 GiB". */
static void print_device(const struct mt_fit_device *device)
{
    char memory[MT_BYTES_TEXT], reserve[MT_BYTES_TEXT], rest[MT_BYTES_TEXT];
    fputs("on ", stdout);
    mt_print_name(device->name);
    printf(" with %s", mt_format_bytes(device->memory_bytes, memory));
    if (device->reserve_bytes > 0)
        printf(", %s of which are kept free: %s for the run", mt_format_bytes(device->reserve_bytes, reserve),
               mt_format_bytes(device->memory_bytes - device->reserve_bytes, rest));
    puts("\n");
}

static void print_title(const struct mt_fit_question *question)
{
    const struct mt_training_config *config = &question->plan->config;
    struct mt_text alloc = {0};
    print_run(question->run);
    mt_print_name(config->model.name);
    fputs(" (", stdout);
    mt_print_parameter_count(mt_model_parameter_count(&config->model));
    mt_alloc_settings_format_short(&question->plan->alloc, &alloc);
    if (question->plan->follows_plan)
        mt_text_add(&alloc, ", plan on");
    printf("), %s, batch %" PRId64 ", sequence %" PRId64 ", %s, %s, %s\n",
           mt_implementation_names[config->implementation], config->batch, config->seq, mt_mode_names[config->mode],
           config->autocast ? "bf16 autocast" : mt_matmul_names[config->math], mt_text_get(&alloc));
    mt_text_release(&alloc);
    print_device(question->device);
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
    char bytes[MT_BYTES_TEXT], room[MT_BYTES_TEXT];
    if (!fit->fits) {
        printf("It does not fit: %s would do, %s more than there is.\n", mt_format_bytes(fit->enough_bytes, bytes),
               mt_format_bytes((uint64_t)-mt_fit_room_bytes(fit), room));
        return;
    }
    printf("It fits: it reserves %s at its peak, which leaves %s.\n", mt_format_bytes(fit->reserved_bytes, bytes),
           mt_format_bytes((uint64_t)mt_fit_room_bytes(fit), room));
    print_squeeze(fit);
}

static void add_bytes_if(struct mt_table *table, bool is_known, uint64_t bytes)
{
    if (is_known)
        mt_table_add_bytes(table, bytes);
    else
        mt_table_add(table, "-");
}

static void add_remedies(struct mt_table *table, const struct mt_fit_remedy *remedies, size_t count)
{
    char room[MT_BYTES_TEXT];
    for (size_t i = 0; i < count; i++) {
        const struct mt_fit *fit = &remedies[i].fit;
        struct mt_text changes = {0};
        mt_fit_remedy_add_changes(&remedies[i], &changes);
        mt_table_add(table, mt_text_get(&changes));
        mt_table_add(table, fit->fits ? "yes" : "no");
        add_bytes_if(table, fit->fits, fit->reserved_bytes);
        add_bytes_if(table, !fit->fits, fit->enough_bytes);
        mt_table_add(table, mt_format_difference(mt_fit_room_bytes(fit), room));
        mt_text_release(&changes);
    }
}

static void print_remedies(const struct mt_fit_answer *answer)
{
    static const struct mt_column columns[] = {{"with the change", MT_ALIGN_LEFT},
                                               {"fits", MT_ALIGN_LEFT},
                                               {"reserves", MT_ALIGN_RIGHT},
                                               {"would do", MT_ALIGN_RIGHT},
                                               {"room", MT_ALIGN_RIGHT}};
    if (answer->single_count == 0)
        return;
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    add_remedies(table, answer->single, answer->single_count);
    add_remedies(table, answer->combined, answer->combined_count);
    add_remedies(table, &answer->gentler, answer->has_gentler);
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

/* Returns the bytes of parameters and, where they are trained, of their gradients and the optimizer's two moments. */
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
    if (answer->has_gentler) {
        bool cuts = answer->gentler.changes.has[MT_SETTING_BATCH] || answer->gentler.changes.has[MT_SETTING_SEQ];
        printf("With what computes the same in less memory, %s has to be cut:\n", cuts ? "less" : "nothing");
        print_command(&answer->gentler);
    }
}

static void print_size(const char *what, const struct mt_fit_largest *largest)
{
    if (largest->size > 0)
        printf("  %-10s %" PRId64 " (", what, largest->size);
    else
        printf("  %-10s none (", what);
    if (largest->is_certain && largest->size == 0)
        printf("%s 1 does not fit either", what);
    else if (largest->is_certain)
        printf("no larger one fits");
    else
        printf("%" PRId64 " to %" PRId64 " do not fit; larger ones were not all tried", largest->size + 1,
               largest->tried_to);
    puts(")");
}

static void print_largest(const struct mt_fit_answer *answer)
{
    puts("\nThe largest that fit, with everything else as it is:");
    print_size("batch", &answer->batch);
    print_size("sequence", &answer->seq);
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

/* Prints what the figures are of. */
static void print_basis(const struct mt_fit_question *question, const struct mt_fit_answer *answer)
{
    int64_t steps = simulated_steps(&question->plan->config);
    printf("\nEach figure is of a simulation of %" PRId64 " step%s.", steps, steps == 1 ? "" : "s");
    if (answer->single_count > 0)
        printf(" \"reserves\" is the peak of reserved bytes;\n"
               "\"would do\" is a memory in which it would fit, where 2 MiB less is too little.");
    putchar('\n');
}

/* Prints the memory that is kept free. */
static void print_reserve(const struct mt_fit_device *device)
{
    char reserve[MT_BYTES_TEXT];
    if (device->reserve_bytes == 0) {
        puts("Nothing is kept free: CUDA's context and libraries take about 0.6 GiB of a card (--reserve 600MiB).");
        return;
    }
    printf("%s are kept free", mt_format_bytes(device->reserve_bytes, reserve));
    if (device->reserve_bytes == MT_CARD_RESERVE_BYTES)
        printf(" for CUDA's context and libraries, what they took on an H200");
    printf(" (--reserve SIZE);\nmemtrace run --device %s has what is left, to try each claim.\n", device->simulated);
}

void mt_fit_print_text(const struct mt_fit_question *question, const struct mt_fit_answer *answer)
{
    print_title(question);
    print_verdict(&answer->fit);
    print_remedies(answer);
    print_advice(question, answer);
    print_largest(answer);
    print_basis(question, answer);
    print_reserve(question->device);
}

static json_t *bytes_json_if(bool is_known, uint64_t bytes)
{
    return is_known ? json_integer((json_int_t)bytes) : json_null();
}

/* Adds the members of a run that fits or does not. */
static void add_fit_json(const struct mt_fit *fit, json_t *object)
{
    json_object_set_new(object, "fits", json_boolean(fit->fits));
    json_object_set_new(object, "reserved_bytes", bytes_json_if(fit->fits, fit->reserved_bytes));
    json_object_set_new(object, "enough_bytes", bytes_json_if(!fit->fits, fit->enough_bytes));
    json_object_set_new(object, "room_bytes", json_integer(mt_fit_room_bytes(fit)));
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

static json_t *largest_json(const struct mt_fit_answer *answer)
{
    json_t *object = json_object();
    const struct {
        const char *key, *tried_key, *certain_key;
        const struct mt_fit_largest *largest;
    } sizes[] = {{"batch", "batch_tried_to", "batch_is_certain", &answer->batch},
                 {"seq", "seq_tried_to", "seq_is_certain", &answer->seq}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const struct mt_fit_largest *largest = sizes[i].largest;
        json_object_set_new(object, sizes[i].key, largest->size > 0 ? json_integer(largest->size) : json_null());
        json_object_set_new(object, sizes[i].tried_key, json_integer(largest->tried_to));
        json_object_set_new(object, sizes[i].certain_key, json_boolean(largest->is_certain));
    }
    json_object_set_new(object, "model", mt_json_text(answer->largest_model));
    return object;
}

/* Adds the run that is asked about. */
static void add_plan_json(const struct mt_run_plan *plan, json_t *object)
{
    mt_setting settings[MT_SETTING_COUNT];
    size_t count = mt_settings_in_order(MT_ORDER_OF_ANSWER, settings);
    struct mt_text value = {0};
    json_object_set_new(object, "model", mt_json_text(plan->config.model.name));
    json_object_set_new(object, "parameters", json_integer((json_int_t)mt_model_parameter_count(&plan->config.model)));
    for (size_t i = 0; i < count; i++) {
        value.length = 0;
        mt_setting_format_short(settings[i], plan, &value);
        json_object_set_new(object, mt_setting_table[settings[i]].name,
                            mt_run_setting_json(settings[i], mt_text_get(&value)));
    }
    mt_text_release(&value);
}

/* Adds the device, and the memory of it that the run may have. */
static void add_device_json(const struct mt_fit_device *device, json_t *object)
{
    json_object_set_new(object, "device", mt_json_text(device->name));
    json_object_set_new(object, "simulated_device", mt_json_text(device->simulated));
    json_object_set_new(object, "memory_bytes", json_integer((json_int_t)device->memory_bytes));
    json_object_set_new(object, "reserve_bytes", json_integer((json_int_t)device->reserve_bytes));
}

void mt_fit_print_json(const struct mt_fit_question *question, const struct mt_fit_answer *answer)
{
    const struct mt_run *run = question->run;
    const struct mt_fit_remedy *best = mt_fit_best_remedy(answer);
    json_t *object = json_pack("{s:s, s:o, s:o}", "schema", "memtrace.fit/1", "run",
                               run != NULL ? json_integer(run->id) : json_null(), "name",
                               mt_json_text(run != NULL ? run->name : NULL));
    add_plan_json(question->plan, object);
    add_device_json(question->device, object);
    json_object_set_new(object, "capacity_bytes", json_integer((json_int_t)answer->fit.capacity_bytes));
    json_object_set_new(object, "steps", json_integer(simulated_steps(&question->plan->config)));
    add_fit_json(&answer->fit, object);
    json_object_set_new(object, "changes", remedies_json(answer->single, answer->single_count));
    json_object_set_new(object, "combined", remedies_json(answer->combined, answer->combined_count));
    json_object_set_new(object, "gentler", remedies_json(&answer->gentler, answer->has_gentler));
    json_object_set_new(object, "command", command_json(question->plan));
    json_object_set_new(object, "remedy", best != NULL ? command_json(&best->plan) : json_null());
    json_object_set_new(object, "largest", largest_json(answer));
    json_object_set_new(object, "smallest_card", mt_json_text(answer->smallest_card));
    mt_json_print(object);
}
