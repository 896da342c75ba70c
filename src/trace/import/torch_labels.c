#include "trace/import/torch_labels.h"

#include "base/memory.h"
#include "base/number_map.h"
#include "base/order.h"
#include "trace/import/forward_tape.h"
#include "trace/import/import_spans.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Rules look at all open annotations for every block, and a damaged file may have any number. So within
 * MOST_OPEN_ANNOTATIONS further ones are ignored, as are names of over MOST_ANNOTATION_BYTES. */
enum { MOST_OPEN_ANNOTATIONS = 16, MOST_ANNOTATION_BYTES = 255 };

/* The annotations that are open at a moment, such as "Optimizer.step#AdamW.step". All zero: before the first.
 * Invariant: names[0 .. count) are those of the snapshot's first `passed` annotations that have no end among these, in the
 * order of their beginnings. */
struct open_annotations {
    size_t passed;
    uint32_t count;
    const char *names[MOST_OPEN_ANNOTATIONS]; /* the snapshot's */
};

/* The lifetimes of a snapshot's blocks, in its events. */
struct lifetimes {
    size_t count;    /* of events */
    uint8_t *phases; /* the mt_phase of each event */
    uint32_t *ends;  /* of an allocation: the event that freed it; UINT32_MAX: none */
};

/* A call stack, which many events share. */
struct caller {
    struct mt_call_stack stack;
    struct mt_rule_choice choice;
    const char *op;
    mt_span_id span;
    bool has_span;
    uint64_t other_bytes, other_blocks;
};

struct mt_torch_labels {
    const struct mt_torch_snapshot *snapshot;
    const struct mt_rules *rules;
    struct mt_bounded_names bounded;
    struct mt_sink sink; /* of bounded names */
    struct mt_foreign *foreign;
    struct mt_name_set *names;
    struct mt_forward_tape *tape;
    struct lifetimes lives;
    struct open_annotations open;        /* at the latest event */
    struct mt_number_map caller_numbers; /* by the address of the frames */
    struct caller *callers;
    size_t caller_count;
    struct mt_number_map parameter_bytes; /* the sizes of all parameters */
    int phase;                            /* of the last allocation; MT_RULE_SILENT: none yet */
    bool step_just_began;
    uint64_t time_ns;         /* of the latest event */
    uint64_t recorded_before; /* blocks from before the recording with a call stack */
    struct mt_import_coverage coverage;
};

/* Ends the last annotation of that name: several threads may have opened it. Equal texts of a snapshot are one. */
static void end_annotation(struct open_annotations *open, const char *name)
{
    for (uint32_t i = open->count; i > 0; i--)
        if (open->names[i - 1] == name) {
            open->count--;
            memmove(open->names + i - 1, open->names + i, (open->count + 1 - i) * sizeof *open->names);
            return;
        }
}

static void begin_annotation(struct open_annotations *open, const char *name)
{
    assert(open->count <= MOST_OPEN_ANNOTATIONS);
    if (open->count < MOST_OPEN_ANNOTATIONS && strlen(name) <= MOST_ANNOTATION_BYTES)
        open->names[open->count++] = name;
}

/* Passes the annotations up to a time. */
static void pass_annotations(struct open_annotations *open, const struct mt_torch_snapshot *snapshot, int64_t time_us)
{
    for (; open->passed < snapshot->annotation_count; open->passed++) {
        const struct mt_torch_annotation *next = &snapshot->annotations[open->passed];
        if (next->time_us > time_us)
            return;
        if (next->is_end)
            end_annotation(open, next->name);
        else
            begin_annotation(open, next->name);
    }
}

/* Finds the event that frees each allocation. */
static void find_ends(struct lifetimes *lives, const struct mt_torch_snapshot *snapshot)
{
    struct mt_number_map live;
    mt_number_map_create(&live);
    lives->count = snapshot->event_count;
    lives->phases = mt_host_alloc(lives->count + 1);
    lives->ends = mt_host_alloc((lives->count + 1) * sizeof *lives->ends);
    for (size_t i = 0; i < lives->count; i++) {
        const struct mt_torch_event *event = &snapshot->events[i];
        uint64_t began;
        lives->ends[i] = UINT32_MAX;
        if (event->action == MT_TORCH_ALLOC)
            mt_number_map_put(&live, event->address, i);
        else if (event->action == MT_TORCH_FREE_COMPLETED && mt_number_map_take(&live, event->address, &began))
            lives->ends[began] = (uint32_t)i;
    }
    mt_number_map_release(&live);
}

static void lifetimes_release(struct lifetimes *lives)
{
    free(lives->phases);
    free(lives->ends);
}

/* Forward and loss count as one phase: a tensor that forward makes for the loss is freed before backward. */
static mt_phase whole_phase(uint8_t phase)
{
    return phase == MT_PHASE_LOSS ? MT_PHASE_FORWARD : (mt_phase)phase;
}

static bool outlives_phase(const struct lifetimes *lives, size_t number)
{
    assert(number < lives->count && lives->phases[number] < MT_PHASE_COUNT);
    uint32_t end = lives->ends[number];
    return end == UINT32_MAX || whole_phase(lives->phases[end]) != whole_phase(lives->phases[number]);
}

/* Returns the caller with these frames. Valid until the next call. */
static struct caller *find_caller(struct mt_torch_labels *labels, const struct mt_value *frames)
{
    uint64_t key = frames->kind == MT_VALUE_LIST ? (uint64_t)(uintptr_t)frames->items : 0, number;
    if (mt_number_map_get(&labels->caller_numbers, key, &number))
        return &labels->callers[number];
    labels->callers = mt_host_room(labels->callers, labels->caller_count, sizeof *labels->callers);
    mt_number_map_put(&labels->caller_numbers, key, labels->caller_count);
    struct caller *caller = &labels->callers[labels->caller_count++];
    *caller = (struct caller){0};
    mt_call_stack_read(frames, labels->names, &caller->stack);
    mt_rules_choose(labels->rules, &caller->stack, &caller->choice);
    caller->op = mt_call_stack_op(&caller->stack, labels->names);
    return caller;
}

static const char *metadata_of(const struct mt_torch_request *request)
{
    struct mt_value_key key = MT_VALUE_KEY("user_metadata");
    return request->event != NULL ? mt_value_text(mt_value_get(request->event->event, &key)) : "";
}

/* Borrows the open annotations. */
static struct mt_rule_subject subject_of(const struct mt_torch_request *request, const struct open_annotations *open)
{
    return (struct mt_rule_subject){.bytes = request->requested_bytes,
                                    .metadata = metadata_of(request),
                                    .annotations = open->names,
                                    .annotation_count = open->count,
                                    .was_before = request->event == NULL};
}

/* Returns the phase that rules set. Where they set none, an allocation keeps the phase before it. */
static mt_phase phase_of(struct mt_torch_labels *labels, const struct caller *caller,
                         const struct mt_rule_subject *subject, int before)
{
    int phase = mt_rules_phase(labels->rules, &caller->choice, subject);
    if (phase != MT_RULE_SILENT)
        return (mt_phase)phase;
    return before != MT_RULE_SILENT ? (mt_phase)before : MT_PHASE_FORWARD;
}

/* Finds the phase of every event: that of the last allocation until then. */
static void find_lives(struct mt_torch_labels *labels)
{
    const struct mt_torch_snapshot *snapshot = labels->snapshot;
    struct open_annotations open = {0};
    int phase = MT_RULE_SILENT;
    find_ends(&labels->lives, snapshot);
    for (size_t i = 0; i < snapshot->event_count; i++) {
        const struct mt_torch_event *event = &snapshot->events[i];
        if (event->action == MT_TORCH_ALLOC) {
            const struct mt_torch_request request = {event->bytes, event->frames, event};
            pass_annotations(&open, snapshot, event->time_us);
            const struct mt_rule_subject subject = subject_of(&request, &open);
            phase = (int)phase_of(labels, find_caller(labels, event->frames), &subject, phase);
        }
        labels->lives.phases[i] = (uint8_t)(phase != MT_RULE_SILENT ? phase : MT_PHASE_INIT);
    }
}

struct mt_torch_labels *mt_torch_labels_create(const struct mt_torch_snapshot *snapshot, const struct mt_rules *rules,
                                               const struct mt_sink *sink, struct mt_foreign *foreign)
{
    assert(snapshot->event_count < UINT32_MAX);
    struct mt_torch_labels *labels = mt_host_alloc(sizeof *labels);
    labels->snapshot = snapshot;
    labels->rules = rules;
    mt_bounded_names_create(&labels->bounded, sink);
    labels->sink = mt_bounded_names_sink(&labels->bounded);
    labels->foreign = foreign;
    labels->names = mt_name_set_create();
    labels->tape = mt_forward_tape_create();
    labels->phase = MT_RULE_SILENT;
    mt_number_map_create(&labels->caller_numbers);
    mt_number_map_create(&labels->parameter_bytes);
    find_lives(labels);
    return labels;
}

void mt_torch_labels_destroy(struct mt_torch_labels *labels)
{
    if (labels == NULL)
        return;
    for (size_t i = 0; i < labels->caller_count; i++) {
        mt_call_stack_release(&labels->callers[i].stack);
        mt_rule_choice_release(&labels->callers[i].choice);
    }
    free(labels->callers);
    mt_number_map_release(&labels->caller_numbers);
    mt_number_map_release(&labels->parameter_bytes);
    lifetimes_release(&labels->lives);
    mt_forward_tape_destroy(labels->tape);
    mt_name_set_destroy(labels->names);
    mt_bounded_names_release(&labels->bounded);
    free(labels);
}

static bool is_step_begun_by(const struct mt_torch_labels *labels, const struct mt_rule_answer *answer, mt_phase phase)
{
    if (answer->begins_step)
        return !labels->step_just_began;
    bool is_forward = phase == MT_PHASE_FORWARD || phase == MT_PHASE_LOSS;
    return is_forward && (labels->phase == MT_PHASE_OPTIMIZER || labels->phase == MT_RULE_SILENT);
}

/* Begins steps and phases before the allocation that shows them. */
static void note_moment(void *context, const struct mt_torch_event *event, uint64_t time_ns)
{
    assert(event >= ((struct mt_torch_labels *)context)->snapshot->events);
    struct mt_torch_labels *labels = context;
    labels->time_ns = time_ns > labels->time_ns ? time_ns : labels->time_ns;
    pass_annotations(&labels->open, labels->snapshot, event->time_us);
    if (event->action != MT_TORCH_ALLOC)
        return;
    const struct mt_torch_request request = {event->bytes, event->frames, event};
    struct mt_rule_subject subject = subject_of(&request, &labels->open);
    struct mt_rule_answer answer;
    subject.phase = (mt_phase)labels->lives.phases[event - labels->snapshot->events];
    mt_rules_ask(labels->rules, &find_caller(labels, event->frames)->choice, &subject, &answer);
    bool begins_step = is_step_begun_by(labels, &answer, subject.phase);
    if (begins_step) {
        if (mt_foreign_step(labels->foreign) != MT_NO_STEP)
            mt_foreign_step_end(labels->foreign, time_ns);
        mt_foreign_step_begin(labels->foreign, time_ns);
    }
    if (begins_step || labels->phase != (int)subject.phase)
        mt_foreign_phase(labels->foreign, time_ns, subject.phase);
    labels->step_just_began = answer.begins_step;
    labels->phase = (int)subject.phase;
}

/* Returns the operator that a request of backward helps to undo. A block that the engine takes between two nodes
 * belongs to the node before, with two exceptions. A sum of gradients belongs to the operator that made the input. A
 * cast of a gradient belongs to an addition of two precisions, if that is next, since its node allocates nothing. */
static const struct mt_forward_op *find_forward(struct mt_torch_labels *labels, const struct caller *caller,
                                                mt_phase phase)
{
    if (phase != MT_PHASE_BACKWARD || !mt_call_stack_is_backward(&caller->stack))
        return NULL;
    if (caller->stack.node[0] != '\0' && strcmp(caller->stack.node, "AccumulateGrad") != 0)
        mt_forward_tape_undo(labels->tape, caller->stack.node);
    if (caller->stack.is_input_sum)
        return mt_forward_tape_source(labels->tape);
    return mt_call_stack_is_between(&caller->stack) && strcmp(caller->stack.recorded, "_to_copy") == 0
               ? mt_forward_tape_passed(labels->tape)
               : mt_forward_tape_current(labels->tape);
}

static bool outlives(const struct mt_torch_labels *labels, const struct mt_torch_request *request)
{
    return request->event == NULL ||
           outlives_phase(&labels->lives, (size_t)(request->event - labels->snapshot->events));
}

static mt_role role_of(const struct mt_rule_subject *subject, int said)
{
    assert(said >= MT_RULE_SILENT && said < MT_ROLE_COUNT);
    if (said != MT_RULE_SILENT)
        return (mt_role)said;
    return subject->outlives_phase ? MT_ROLE_ACTIVATION : MT_ROLE_TEMPORARY;
}

/* Returns the operator's name in forward, and the node's and the operator's in backward. */
static const char *op_of(const struct caller *caller, struct mt_text *text)
{
    if (caller->stack.node[0] == '\0')
        return caller->op[0] != '\0' ? caller->op : "unknown";
    mt_text_add(text, "%s%s%s", caller->stack.node, caller->op[0] != '\0' ? "." : "", caller->op);
    return mt_text_get(text);
}

static mt_span_id span_of(struct mt_torch_labels *labels, struct caller *caller, const char *said,
                          const struct mt_forward_op *forward)
{
    if (said != NULL)
        return mt_span_of_path(&labels->sink, said);
    if (!caller->has_span)
        caller->span = mt_span_of_stack(&labels->sink, &caller->stack);
    caller->has_span = true;
    return caller->span == 0 && forward != NULL ? forward->span : caller->span;
}

static mt_category category_of(struct mt_torch_labels *labels, const char *said, const struct mt_forward_op *forward)
{
    if (said != NULL)
        return mt_sink_category(&labels->sink, said);
    return forward != NULL ? forward->category : MT_CATEGORY_OTHER;
}

static void count_coverage(struct mt_torch_labels *labels, struct caller *caller,
                           const struct mt_torch_request *request, mt_category category)
{
    assert(caller->other_blocks <= labels->coverage.all_blocks);
    if (request->event != NULL && request->event->action == MT_TORCH_OOM)
        return; /* the request got no block */
    mt_import_coverage_add(&labels->coverage, request->requested_bytes, category);
    labels->recorded_before += request->event == NULL && caller->stack.frame_count > 0;
    if (category != MT_CATEGORY_OTHER)
        return;
    caller->other_bytes += request->requested_bytes;
    caller->other_blocks++;
}

/* Notes parameters and operators of forward, which later requests refer to. */
static void note_request(struct mt_torch_labels *labels, const struct caller *caller, uint64_t bytes,
                         const struct mt_label *label)
{
    if (label->role == MT_ROLE_PARAMETER)
        mt_number_map_put(&labels->parameter_bytes, bytes, 1);
    if (!mt_call_stack_is_forward(&caller->stack))
        return;
    mt_forward_tape_add(labels->tape, &(struct mt_forward_op){.name = caller->stack.recorded,
                                                              .category = label->category,
                                                              .span = label->span,
                                                              .caller = (uint32_t)(caller - labels->callers)});
}

static void give_label(void *context, const struct mt_torch_request *request, mt_label_id *out_label,
                       mt_span_id *out_span)
{
    struct mt_torch_labels *labels = context;
    struct caller *caller = find_caller(labels, request->frames);
    struct mt_rule_subject subject = subject_of(request, &labels->open);
    struct mt_rule_answer answer;
    struct mt_text op = {0};
    uint64_t ignored;
    subject.phase = request->event == NULL ? phase_of(labels, caller, &subject, MT_PHASE_INIT)
                                           : (mt_phase)labels->lives.phases[request->event - labels->snapshot->events];
    const struct mt_forward_op *forward = find_forward(labels, caller, subject.phase);
    subject.is_forward_known = forward != NULL;
    subject.undone = forward != NULL ? &labels->callers[forward->caller].stack : NULL;
    subject.outlives_phase = outlives(labels, request);
    subject.halves_parameter = mt_number_map_get(&labels->parameter_bytes, request->requested_bytes * 2, &ignored);
    mt_rules_ask(labels->rules, &caller->choice, &subject, &answer);
    const struct mt_label label = {.category = category_of(labels, answer.category, forward),
                                   .role = role_of(&subject, answer.role),
                                   .role_source = MT_ROLE_SOURCE_INFERRED,
                                   .phase = subject.phase,
                                   .op = answer.op != NULL ? answer.op : op_of(caller, &op),
                                   .span = span_of(labels, caller, answer.span, forward),
                                   .layer = -1};
    *out_label = labels->sink.intern_label(labels->sink.context, &label);
    *out_span = label.span;
    mt_text_release(&op);
    count_coverage(labels, caller, request, label.category);
    note_request(labels, caller, request->requested_bytes, &label);
}

struct mt_torch_labeler mt_torch_labels_labeler(struct mt_torch_labels *labels)
{
    const struct mt_torch_snapshot *snapshot = labels->snapshot;
    return (struct mt_torch_labeler){.context = labels,
                                     .start_us = snapshot->event_count > 0 ? snapshot->events[0].time_us : 0,
                                     .moment = note_moment,
                                     .label = give_label};
}

void mt_torch_labels_end(struct mt_torch_labels *labels)
{
    if (mt_foreign_step(labels->foreign) != MT_NO_STEP)
        mt_foreign_step_end(labels->foreign, labels->time_ns);
}

/* Describes a caller, for the user to free, as conditions of a rule: its innermost frame of Python, its operator and its node. */
static char *describe(const struct caller *caller)
{
    struct mt_text text = {0};
    for (uint32_t i = 0; i < caller->stack.frame_count && text.length == 0; i++)
        if (caller->stack.frames[i].is_python)
            mt_text_add(&text, "function=%s file=%s line=%" PRId64, caller->stack.frames[i].name,
                        caller->stack.frames[i].file, caller->stack.frames[i].line);
    if (caller->stack.operator_count > 0)
        mt_text_add(&text, "%soperator=%s", text.length > 0 ? " " : "",
                    caller->stack.operators[caller->stack.operator_count - 1]);
    if (caller->stack.node[0] != '\0')
        mt_text_add(&text, "%snode=%s", text.length > 0 ? " " : "", caller->stack.node);
    if (text.length == 0)
        mt_text_add(&text, "%s", caller->stack.frame_count == 0 ? "no frames were recorded" : "frames of C++ only");
    return text.data;
}

static int compare_uncovered(const void *left, const void *right)
{
    const struct caller *a = *(const struct caller *const *)left, *b = *(const struct caller *const *)right;
    int order = MT_COMPARE(b->other_bytes, a->other_bytes);
    return order != 0 ? order : MT_COMPARE(a, b);
}

void mt_torch_labels_report(const struct mt_torch_labels *labels, struct mt_import_report *out)
{
    const struct caller **found = mt_host_alloc((labels->caller_count + 1) * sizeof *found);
    size_t count = 0;
    for (size_t i = 0; i < labels->caller_count; i++)
        if (labels->callers[i].other_blocks > 0)
            found[count++] = &labels->callers[i];
    qsort(found, count, sizeof *found, compare_uncovered);
    out->uncovered_count = count < MT_IMPORT_MOST_UNCOVERED ? count : MT_IMPORT_MOST_UNCOVERED;
    for (size_t i = 0; i < out->uncovered_count; i++)
        out->uncovered[i] =
            (struct mt_import_uncovered){describe(found[i]), found[i]->other_bytes, found[i]->other_blocks};
    out->coverage = labels->coverage;
    out->torch.before.recorded = labels->recorded_before;
    free(found);
}
