#include "cli/run/fit_report.h"

#include "base/memory.h"
#include "cli/output/question.h"
#include "cli/run/run_options.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A run on the device, for the answer. */
struct fitted {
    struct mt_fit fit;
    int64_t room_bytes;
};

static const struct mt_field fitted_fields[] = {
    MT_FLAG(struct fitted, fit.fits, "fits", "fits", NULL),
    MT_SOME_BYTES(struct fitted, fit.reserved_bytes, "reserved_bytes", "reserves", "the peak"),
    MT_SOME_BYTES(struct fitted, fit.enough_bytes, "enough_bytes", "needs", "that suffice, where 2 MiB less do not"),
    MT_DIFFERENCE(struct fitted, room_bytes, "room_bytes", "room", "capacity less the one of the two that there is"),
    MT_BYTES(struct fitted, fit.unlimited_bytes, "unlimited_bytes", NULL, "the peak with unlimited memory"),
    MT_FIELDS_END,
};
static const struct mt_row_type fitted_type = MT_ROW_TYPE(struct fitted, fitted_fields);

/* A run with changes. */
struct remedy_row {
    struct fitted fitted; /* first, so that tables find its columns */
    struct mt_text change, command;
    const char *shown_change, *shown_command; /* data of the two texts */
};

static const struct mt_field remedy_fields[] = {
    MT_TEXT(struct remedy_row, shown_change, "change", "with the change", "the options"),
    MT_TEXT(struct remedy_row, shown_command, "command", NULL, "to run it"),
    MT_PART(struct remedy_row, fitted, &fitted_type),
    MT_FIELDS_END,
};
static const struct mt_row_type remedy_type = MT_ROW_TYPE(struct remedy_row, remedy_fields);

static const struct mt_field largest_fields[] = {
    MT_POSITIVE(struct mt_fit_answer, batch.size, "batch", NULL, NULL),
    MT_INTEGER(struct mt_fit_answer, batch.tried_to, "batch_tried_to", NULL,
               "no larger batch up to this one fits, by simulation"),
    MT_FLAG(struct mt_fit_answer, batch.is_certain, "batch_is_certain", NULL,
            "no other fits either: all ask for too many bytes at once"),
    MT_POSITIVE(struct mt_fit_answer, seq.size, "seq", NULL, NULL),
    MT_INTEGER(struct mt_fit_answer, seq.tried_to, "seq_tried_to", NULL, NULL),
    MT_FLAG(struct mt_fit_answer, seq.is_certain, "seq_is_certain", NULL, NULL),
    MT_TEXT(struct mt_fit_answer, largest_model, "model", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type largest_type = MT_ROW_TYPE(struct mt_fit_answer, largest_fields);

enum { MOST_REMEDIES = MT_SETTING_COUNT + MT_MOST_COMBINED + 1 };

/* The answer. Invariant: remedies has the single ones, then the combined, then the gentler. */
struct answer {
    int64_t run; /* 0: options described it */
    const char *name, *model, *device, *simulated_device, *command, *best_command, *smallest_card;
    uint64_t parameters, memory_bytes, reserve_bytes;
    json_t *settings;
    int64_t steps;
    bool lacks_bf16;
    struct fitted fitted;
    struct remedy_row remedies[MOST_REMEDIES], *single, *combined, *gentler;
    size_t single_count, combined_count, gentler_count;
    const struct mt_fit_answer *found;
    struct mt_text command_text, best_text;
};

static const struct mt_field answer_fields[] = {
    MT_POSITIVE(struct answer, run, "run", NULL, NULL),
    MT_TEXT(struct answer, name, "name", NULL, NULL),
    MT_TEXT(struct answer, model, "model", NULL, NULL),
    MT_COUNT(struct answer, parameters, "parameters", NULL, NULL),
    MT_MEMBERS(struct answer, settings,
               "settings of the run by name: `mode`, `autocast`, `autocast_end`, `attention`, `impl`, `weight_cast`, "
               "`checkpoint`, `optimizer_in_backward`, `moments`, `loss_slices`, `optimizer`, `zero_grad`, "
               "`keep_output`, `batch`, "
               "`seq`, `alloc`, `plan`"),
    MT_TEXT(struct answer, device, "device", NULL, NULL),
    MT_TEXT(struct answer, simulated_device, "simulated_device", NULL, "one of `capacity_bytes`, for `memtrace run`"),
    MT_BYTES(struct answer, memory_bytes, "memory_bytes", NULL, "the device's memory, as its driver reports it"),
    MT_BYTES(struct answer, reserve_bytes, "reserve_bytes", NULL, "kept free: by default, the context of a card"),
    MT_BYTES(struct answer, fitted.fit.capacity_bytes, "capacity_bytes", NULL, "`memory_bytes` less `reserve_bytes`"),
    MT_INTEGER(struct answer, steps, "steps", NULL, "simulated for each figure: 12 at most"),
    MT_PART(struct answer, fitted, &fitted_type),
    MT_ROWS(struct answer, single, single_count, "changes", &remedy_type,
            "single ones, the cheapest for the training first; empty if the run fits"),
    MT_ROWS(struct answer, combined, combined_count, "combined", &remedy_type, "where no single one suffices"),
    MT_ROWS(struct answer, gentler, gentler_count, "gentler", &remedy_type,
            "one or none: the least cut of batch or sequence, with all that costs nothing"),
    MT_TEXT(struct answer, command, "command", NULL, "the run on that device"),
    MT_TEXT(struct answer, best_command, "remedy", NULL, "the run with the least change that fits"),
    MT_ROW_OR_NULL(struct answer, found, "largest", &largest_type, "that fit with everything else as it is, or null"),
    MT_TEXT(struct answer, smallest_card, "smallest_card", NULL, "that the run fits as it is, or null"),
    MT_FLAG(struct answer, lacks_bf16, "lacks_bf16", NULL, "the card emulates it: autocast is no change to offer"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_fit_answer_type = MT_ROW_TYPE(struct answer, answer_fields);

static const char *command_of(const struct mt_run_plan *plan, struct mt_text *out)
{
    mt_run_command_add(plan, out);
    return mt_text_get(out);
}

static struct fitted fitted_of(const struct mt_fit *fit)
{
    assert(fit->fits ? fit->enough_bytes == 0 : fit->reserved_bytes == 0 && fit->enough_bytes > fit->capacity_bytes);
    return (struct fitted){*fit, mt_fit_room_bytes(fit)};
}

static void fill_remedies(const struct mt_fit_remedy *remedies, size_t count, struct remedy_row *out)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = (struct remedy_row){.fitted = fitted_of(&remedies[i].fit)};
        mt_fit_remedy_add_changes(&remedies[i], &out[i].change);
        out[i].shown_change = mt_text_get(&out[i].change);
        out[i].shown_command = command_of(&remedies[i].plan, &out[i].command);
    }
}

/* Returns the run's settings as an object. */
static json_t *settings_json(const struct mt_run_plan *plan)
{
    mt_setting settings[MT_SETTING_COUNT];
    size_t count = mt_settings_in_order(MT_ORDER_OF_ANSWER, settings);
    struct mt_text value = {0};
    json_t *object = json_object();
    for (size_t i = 0; i < count; i++) {
        value.length = 0;
        mt_setting_format_short(settings[i], plan, &value);
        json_object_set_new(object, mt_setting_table[settings[i]].name,
                            mt_run_setting_json(settings[i], mt_text_get(&value)));
    }
    mt_text_release(&value);
    return object;
}

static int64_t simulated_steps(const struct mt_training_config *config)
{
    int64_t steps = config->steps + config->warmup;
    return steps < MT_SIMULATED_STEPS ? steps : MT_SIMULATED_STEPS;
}

static void fill(const struct mt_fit_question *question, const struct mt_fit_answer *found, struct answer *out)
{
    const struct mt_run_plan *plan = question->plan;
    const struct mt_fit_remedy *best = mt_fit_best_remedy(found);
    *out = (struct answer){.run = question->run != NULL ? question->run->id : 0,
                           .name = question->run != NULL ? question->run->name : NULL,
                           .model = plan->config.model.name,
                           .parameters = mt_model_parameter_count(&plan->config.model),
                           .settings = settings_json(plan),
                           .device = question->device->name,
                           .simulated_device = question->device->simulated,
                           .memory_bytes = question->device->memory_bytes,
                           .reserve_bytes = question->device->reserve_bytes,
                           .steps = simulated_steps(&plan->config),
                           .fitted = fitted_of(&found->fit),
                           .single_count = found->single_count,
                           .combined_count = found->combined_count,
                           .gentler_count = found->has_gentler,
                           .found = found,
                           .smallest_card = found->smallest_card,
                           .lacks_bf16 = found->lacks_bf16};
    assert(out->single_count + out->combined_count + out->gentler_count <= MOST_REMEDIES);
    out->single = out->remedies;
    out->combined = out->single + out->single_count;
    out->gentler = out->combined + out->combined_count;
    fill_remedies(found->single, found->single_count, out->single);
    fill_remedies(found->combined, found->combined_count, out->combined);
    fill_remedies(&found->gentler, found->has_gentler, out->gentler);
    out->command = command_of(plan, &out->command_text);
    out->best_command = best != NULL ? command_of(&best->plan, &out->best_text) : NULL;
}

static void release(struct answer *answer)
{
    for (size_t i = 0; i < MOST_REMEDIES; i++) {
        mt_text_release(&answer->remedies[i].change);
        mt_text_release(&answer->remedies[i].command);
    }
    mt_text_release(&answer->command_text);
    mt_text_release(&answer->best_text);
    json_decref(answer->settings);
}

void mt_fit_device_print(const struct mt_fit_device *device)
{
    struct mt_text line = {0};
    mt_text_add(&line, "on %s with %s", device->name, MT_SIZE(device->memory_bytes));
    if (device->reserve_bytes > 0)
        mt_text_add(&line, "; %s are kept free, so the run has %s", MT_SIZE(device->reserve_bytes),
                    MT_SIZE(device->memory_bytes - device->reserve_bytes));
    mt_print_line(&line);
    putchar('\n');
}

static void print_title(const struct mt_fit_question *question)
{
    const struct mt_training_config *config = &question->plan->config;
    struct mt_text line = {0};
    if (question->run != NULL) {
        mt_text_add_run_name(&line, question->run);
        mt_text_add(&line, ": ");
    }
    mt_text_add(&line, "%s (", config->model.name);
    mt_text_add_parameter_count(&line, mt_model_parameter_count(&config->model));
    mt_text_add(&line, "), %s, batch %" PRId64 ", sequence %" PRId64 ", %s, %s, ",
                mt_implementation_names[config->implementation], config->batch, config->seq,
                mt_mode_names[config->mode], mt_precision_words(config));
    mt_alloc_settings_format_short(&question->plan->alloc, &line);
    if (question->plan->follows_plan)
        mt_text_add(&line, ", plan on");
    mt_print_line(&line);
    mt_fit_device_print(question->device);
}

static void print_squeeze(const struct mt_fit *fit)
{
    if (fit->fits && fit->unlimited_bytes > fit->capacity_bytes)
        mt_say("Only just: with more memory it would reserve %s, so here the allocator gives cached segments back and "
               "takes others, which costs time on a card.",
               MT_SIZE(fit->unlimited_bytes));
}

static void print_verdict(const struct mt_fit *fit)
{
    if (!fit->fits) {
        mt_say("It does not fit: it needs %s, %s more than there is.", MT_SIZE(fit->enough_bytes),
               MT_SIZE((uint64_t)-mt_fit_room_bytes(fit)));
        return;
    }
    mt_say("It fits: it reserves %s at its peak, which leaves %s.", MT_SIZE(fit->reserved_bytes),
           MT_SIZE((uint64_t)mt_fit_room_bytes(fit)));
    print_squeeze(fit);
}

/* Returns the bytes of the parameters and, in training, of their gradients and the optimizer's two moments. */
static uint64_t state_bytes(const struct mt_training_config *config)
{
    uint64_t bytes = mt_model_parameter_count(&config->model) * mt_dtype_bytes(config->parameter_dtype);
    if (config->mode != MT_MODE_FWD_BWD)
        return bytes;
    return config->optimizer == MT_OPTIMIZER_NONE ? 2 * bytes : 4 * bytes;
}

/* Returns the names of the other parts of state_bytes, in addition to parameters. */
static const char *state_words(const struct mt_training_config *config)
{
    if (config->mode != MT_MODE_FWD_BWD)
        return "";
    return config->optimizer == MT_OPTIMIZER_NONE ? " and their gradients"
                                                  : ", their gradients and the optimizer's two moments";
}

static void print_no_remedy(const struct mt_fit_question *question, const struct mt_fit *fit)
{
    const struct mt_training_config *config = &question->plan->config;
    uint64_t bytes = state_bytes(config);
    if (bytes <= fit->capacity_bytes)
        mt_say("\nNone of these makes it fit.");
    else
        mt_say("\nNone of these makes it fit: the parameters%s alone are %s.", state_words(config), MT_SIZE(bytes));
}

static void print_advice(const struct mt_fit_question *question, const struct mt_fit_answer *answer,
                         const struct answer *rows)
{
    if (answer->fit.fits)
        return;
    if (rows->best_command == NULL) {
        print_no_remedy(question, &answer->fit);
        return;
    }
    mt_say(answer->combined_count > 0 ? "\nNo single change suffices. The least that does:"
                                      : "\nThe least change that makes it fit:");
    printf("  %s\n", rows->best_command);
    if (answer->has_gentler) {
        bool cuts = answer->gentler.changes.has[MT_SETTING_BATCH] || answer->gentler.changes.has[MT_SETTING_SEQ];
        mt_say("With what computes the same in less memory, %s has to be cut:", cuts ? "less" : "nothing");
        printf("  %s\n", rows->gentler->shown_command);
    }
}

static void print_size(const char *what, const struct mt_fit_largest *largest)
{
    struct mt_text line = {0};
    if (largest->size > 0)
        mt_text_add(&line, "  %-10s %" PRId64 " (", what, largest->size);
    else
        mt_text_add(&line, "  %-10s none (", what);
    if (largest->is_certain && largest->size == 0)
        mt_text_add(&line, "%s 1 does not fit either)", what);
    else if (largest->is_certain)
        mt_text_add(&line, "no larger one fits)");
    else
        mt_text_add(&line, "%" PRId64 " to %" PRId64 " do not fit; larger ones were not all tried)", largest->size + 1,
                    largest->tried_to);
    mt_print_line(&line);
}

static void print_largest(const struct mt_fit_answer *answer)
{
    mt_say("\nThe largest that fit, with everything else as it is:");
    print_size("batch", &answer->batch);
    print_size("sequence", &answer->seq);
    printf("  %-10s %s\n", "model", answer->largest_model != NULL ? answer->largest_model : "none");
    if (answer->smallest_card != NULL)
        mt_say("The smallest known card that fits the unchanged run: sim:%s", answer->smallest_card);
    else
        mt_say("The unchanged run fits none of the known cards.");
}

/* True if a listed run's change is memtrace's own policy. */
static bool changes_policy(const struct answer *answer)
{
    for (size_t i = 0; i < answer->single_count; i++)
        if (answer->found->single[i].changes.has[MT_SETTING_ALLOC])
            return true;
    return false;
}

/* Prints the assumptions of the figures. */
static void print_basis(const struct mt_fit_question *question, const struct answer *answer)
{
    mt_policy policy = question->plan->alloc.policy;
    struct mt_text text = {0};
    mt_text_add(&text, "\nEach figure is of a simulation of %" PRId64 " step%s with %s allocator (--alloc policy=%s).",
                answer->steps, answer->steps == 1 ? "" : "s",
                policy == MT_POLICY_TORCH ? "PyTorch's" : "memtrace's own", mt_policy_name(policy));
    if (answer->single_count > 0)
        mt_text_add(&text, " \"reserves\" is the peak of reserved bytes; \"needs\" is a memory in which it fits, where "
                           "2 MiB less is too little.");
    if (changes_policy(answer))
        mt_text_add(&text, " What comes nearest to policy=tight in PyTorch is expandable_segments:True.");
    mt_print_line(&text);
}

/* Prints what the card lacks for the run, or for a change that is usually offered. */
static void print_lacks(const struct mt_fit_question *question, const struct mt_fit_answer *found)
{
    const mt_autocast autocast = question->plan->config.autocast;
    if (!found->lacks_bf16 || autocast == MT_AUTOCAST_FP16)
        return;
    mt_say("%s has no units for bf16: %s", question->device->name,
           autocast == MT_AUTOCAST_BF16 ? "autocast works there, but is emulated and slow."
                                        : "autocast would be emulated there, and slow, so it is not offered.");
}

/* Prints how much memory is kept free. */
static void print_reserve(const struct mt_fit_device *device)
{
    if (device->reserve_bytes == 0) {
        mt_say("Nothing is kept free: CUDA's context and libraries take 0.2 to 0.7 GiB of a card (memtrace cards).");
        return;
    }
    bool is_usual = device->asked_reserve_bytes == MT_RESERVE_UNSET;
    mt_say("%s are kept free%s (memtrace cards; --reserve SIZE); memtrace run --device %s has the rest, to try each "
           "claim.",
           MT_SIZE(device->reserve_bytes), is_usual ? " for CUDA's context and libraries" : "", device->simulated);
}

static void print_text(const struct mt_fit_question *question, const struct mt_fit_answer *found,
                       const struct answer *answer)
{
    print_title(question);
    print_verdict(&found->fit);
    if (found->single_count > 0) {
        putchar('\n');
        mt_rows_print(&remedy_type, "change fits reserved_bytes enough_bytes room_bytes", NULL, answer->remedies,
                      answer->single_count + answer->combined_count + answer->gentler_count);
    }
    print_advice(question, found, answer);
    print_largest(found);
    print_basis(question, answer);
    print_lacks(question, found);
    print_reserve(question->device);
}

void mt_fit_report(const struct mt_fit_question *question, const struct mt_fit_answer *found, mt_report_form form)
{
    struct answer *answer = mt_host_alloc(sizeof *answer);
    fill(question, found, answer);
    if (form == MT_REPORT_JSON)
        mt_answer_print_json("fit", &mt_fit_answer_type, answer);
    else
        print_text(question, found, answer);
    release(answer);
    free(answer);
}
