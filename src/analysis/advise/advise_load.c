/* Reads the events of a run, or of a window of it, as the input of advice. */
#include "analysis/advise/advise.h"

#include "base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Narrows the input to the step with the peak of requested bytes and its two neighbours. */
static mt_status narrow(const struct mt_question *question, struct mt_advice_material *material)
{
    const struct mt_run *run = question->run;
    struct mt_advice_input *input = &material->input;
    struct mt_peak_row peak;
    mt_status status = mt_trace_peak(question->trace, run, MT_MEASURE_REQUESTED, &peak);
    int64_t step = peak.step, ignored;
    mt_peak_row_release(&peak);
    MT_TRY(status);
    material->first_step = step > 0 ? step - 1 : 0;
    material->last_step = step + 1 < run->steps ? step + 1 : run->steps - 1;
    if (step > 0)
        MT_TRY(mt_trace_step_events(question->trace, run, material->first_step, &input->first_event, &ignored));
    return mt_trace_step_events(question->trace, run, material->last_step, &ignored, &input->last_event);
}

/* Narrows the input to the step of its last event and the step before it. */
static mt_status narrow_to_end(const struct mt_question *question, struct mt_advice_material *material)
{
    struct mt_advice_input *input = &material->input;
    int64_t step = question->run->steps, first, ignored;
    mt_status status = MT_OK;
    do {
        step--;
        status = mt_trace_step_events(question->trace, question->run, step, &first, &ignored);
    } while (status == MT_OK && step > 0 && first > input->last_event);
    material->first_step = step > 0 ? step - 1 : 0;
    material->last_step = step;
    if (status == MT_OK && step > 0)
        status = mt_trace_step_events(question->trace, question->run, step - 1, &input->first_event, &ignored);
    return status;
}

/* Sets the window. `narrow_long` narrows the window of a run that is too long to be read as a whole. */
static mt_status find_window(const struct mt_question *question, int64_t last_event,
                             mt_status (*narrow_long)(const struct mt_question *, struct mt_advice_material *),
                             struct mt_advice_material *material)
{
    const struct mt_run *run = question->run;
    struct mt_advice_input *input = &material->input;
    input->first_event = run->first_event;
    input->last_event = last_event;
    material->is_whole = last_event - run->first_event < MT_ADVICE_WHOLE_EVENTS || run->steps == 0;
    if (!material->is_whole)
        MT_TRY(narrow_long(question, material));
    if (input->first_event < 1 || input->last_event > INT64_MAX / 4)
        return mt_fail(MT_BAD_TRACE, "the trace is damaged: run %" PRId64 " has events %" PRId64 " to %" PRId64,
                       run->id, input->first_event, input->last_event);
    int64_t count = input->last_event - input->first_event + 1;
    if (count < 1 || count > MT_ADVICE_MOST_EVENTS)
        return mt_fail(MT_USAGE, "%" PRId64 " events are to be looked at, and advice is for 1 to %d: trace fewer steps",
                       count, MT_ADVICE_MOST_EVENTS);
    return MT_OK;
}

struct mt_alloc_settings mt_advice_alternative(const struct mt_advice_input *input)
{
    struct mt_alloc_settings other = input->settings;
    if (input->program.kind != MT_PROGRAM_PYTORCH || other.policy != MT_POLICY_TORCH)
        return mt_alloc_settings_of(other.policy == MT_POLICY_TIGHT ? MT_POLICY_TORCH : MT_POLICY_TIGHT);
    other.expandable_segments = !other.expandable_segments;
    return other;
}

/* Loads the settings of the run's allocator. PyTorch snapshots show in other settings whether segments are
 * expandable. */
static mt_status load_settings(const struct mt_question *question, struct mt_advice_input *input)
{
    struct mt_settings settings;
    MT_TRY(mt_settings_load(question->trace, question->run, &settings));
    const char *alloc = mt_settings_value(&settings, "alloc");
    input->program = mt_program_of_settings(&settings);
    mt_status status = mt_alloc_settings_parse(alloc, &input->settings);
    if (input->program.grows_segments && input->settings.policy == MT_POLICY_TORCH)
        input->settings.expandable_segments = true;
    mt_settings_release(&settings);
    uint64_t capacity = question->run->capacity_bytes;
    input->capacity_bytes = capacity > 0 ? capacity : INT64_MAX;
    return status;
}

static mt_status load_blocks(const struct mt_question *question, struct mt_advice_material *material)
{
    struct mt_trace *trace = question->trace;
    struct mt_advice_input *input = &material->input;
    MT_TRY(mt_trace_blocks(trace, question->run, input->first_event, input->last_event, &material->blocks,
                           &input->block_count));
    material->uses = mt_host_alloc((input->block_count + 1) * sizeof *material->uses);
    input->blocks = material->blocks;
    input->uses = material->uses;
    return mt_trace_uses(trace, question->run, material->blocks, input->block_count, material->uses);
}

/* True if the program allocated in a phase of its steps. */
static bool has_phase(const struct mt_advice_input *input, mt_phase phase)
{
    for (size_t i = 0; i < input->label_count; i++)
        if (strcmp(input->labels[i].phase, mt_phase_name(phase)) == 0)
            return true;
    return false;
}

/* Sets whether the program runs forward and backward. */
static void find_passes(const struct mt_run *run, struct mt_advice_input *input)
{
    const bool is_complete = mt_run_is(run, MT_RUN_DONE) && input->program.kind == MT_PROGRAM_PYTORCH;
    input->program.runs_backward = has_phase(input, MT_PHASE_BACKWARD);
    input->program.only_infers = is_complete && !input->program.runs_backward && has_phase(input, MT_PHASE_FORWARD);
}

/* Loads everything but the blocks and their uses. */
static mt_status load_rest(const struct mt_question *question, struct mt_advice_material *material)
{
    struct mt_trace *trace = question->trace;
    const struct mt_run *run = question->run;
    struct mt_advice_input *input = &material->input;
    MT_TRY(mt_trace_labels(trace, run, &material->labels, &input->label_count));
    MT_TRY(mt_trace_marks(trace, run, input->first_event, input->last_event, &material->marks, &input->mark_count));
    MT_TRY(mt_trace_segments(trace, run, &material->segments, &input->segment_count));
    MT_TRY(mt_trace_parts(trace, run, &material->parts, &input->part_count));
    mt_status status = mt_trace_leaks(trace, run, &material->leaks);
    if (status != MT_OK && status != MT_USAGE) /* the run is too short for leaks */
        return status;
    input->labels = material->labels;
    find_passes(run, input);
    input->marks = material->marks;
    input->segments = material->segments;
    input->parts = material->parts;
    input->leaks = material->leaks.row_of_label != NULL ? &material->leaks : NULL;
    return MT_OK;
}

static mt_status load_window(const struct mt_question *question, struct mt_advice_material *out)
{
    MT_TRY(load_settings(question, &out->input));
    MT_TRY(load_blocks(question, out));
    return load_rest(question, out);
}

/* Makes the answer one about another allocator. */
static void replace_allocator(const struct mt_alloc_settings *alloc, struct mt_advice_input *input)
{
    input->is_another = !mt_alloc_settings_are_equal(alloc, &input->settings);
    input->settings = *alloc;
}

mt_status mt_advice_material_load(const struct mt_question *question, const struct mt_alloc_settings *alloc,
                                  struct mt_advice_material *out)
{
    *out = (struct mt_advice_material){0};
    int64_t last_event = question->run->first_event + question->run->event_count - 1;
    MT_TRY(find_window(question, last_event, narrow, out));
    MT_TRY(load_window(question, out));
    out->input.has_failed = mt_run_is(question->run, MT_RUN_FAILED) && out->input.last_event == last_event;
    if (alloc != NULL)
        replace_allocator(alloc, &out->input);
    return MT_OK;
}

mt_status mt_advice_material_load_until(const struct mt_question *question, int64_t last_event,
                                        struct mt_advice_material *out)
{
    *out = (struct mt_advice_material){0};
    MT_TRY(find_window(question, last_event, narrow_to_end, out));
    return load_window(question, out);
}

void mt_advice_material_release(struct mt_advice_material *material)
{
    free(material->blocks);
    free(material->uses);
    free(material->labels);
    free(material->marks);
    free(material->segments);
    free(material->parts);
    mt_leaks_release(&material->leaks);
    *material = (struct mt_advice_material){0};
}
