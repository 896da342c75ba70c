#include "producers/file/torch_labels.h"

#include "base/memory.h"
#include "base/number_map.h"
#include "producers/file/block_lives.h"
#include "producers/file/forward_tape.h"
#include "producers/file/import_spans.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A block that may be annotated, and its label. The label's op belongs to the callers' names. */
struct annotatable {
    struct mt_torch_request request;
    struct mt_label label;
};

/* Invariant: `blocks` maps each address to the place in annotatable[…] of its last block; both are empty in a snapshot
 * without annotated blocks. */
struct mt_torch_labels {
    const struct mt_torch_snapshot *snapshot;
    struct mt_torch_callers callers;
    struct mt_torch_course course;
    struct mt_block_lives *lives;
    struct mt_bounded_names bounded;
    struct mt_sink sink; /* of bounded names */
    struct mt_foreign *foreign;
    struct mt_forward_tape *tape;
    struct mt_torch_annotations open;     /* at the latest event */
    struct mt_number_map parameter_bytes; /* the sizes of all parameters */
    bool has_annotated;
    struct mt_number_map blocks;
    struct annotatable *annotatable;
    size_t annotatable_count;
    int phase;                /* of the last request; MT_RULE_SILENT: none yet */
    uint64_t time_ns;         /* of the latest event */
    uint64_t recorded_before; /* blocks from before the recording with a call stack */
    struct mt_step_times times;
    struct mt_import_coverage coverage;
};

/* Blocks from before the recording belong to init. */
static mt_phase phase_of(const struct mt_torch_labels *labels, const struct mt_torch_request *request)
{
    return request->event == NULL ? MT_PHASE_INIT
                                  : (mt_phase)labels->course.moments[request->event - labels->snapshot->events].phase;
}

struct mt_torch_labels *mt_torch_labels_create(const struct mt_torch_snapshot *snapshot, const struct mt_rules *rules,
                                               const struct mt_sink *sink, struct mt_foreign *foreign)
{
    struct mt_torch_labels *labels = mt_host_alloc(sizeof *labels);
    labels->snapshot = snapshot;
    mt_torch_callers_create(&labels->callers, rules);
    mt_torch_course_create(&labels->course, snapshot, &labels->callers);
    labels->lives = mt_block_lives_create(snapshot, &labels->course, &labels->callers);
    mt_bounded_names_create(&labels->bounded, sink);
    labels->sink = mt_bounded_names_sink(&labels->bounded);
    labels->foreign = foreign;
    labels->tape = mt_forward_tape_create();
    labels->phase = MT_RULE_SILENT;
    mt_number_map_create(&labels->parameter_bytes);
    mt_number_map_create(&labels->blocks);
    for (size_t i = 0; i < snapshot->event_count; i++)
        labels->has_annotated |= snapshot->events[i].action == MT_TORCH_ANNOTATE;
    return labels;
}

void mt_torch_labels_destroy(struct mt_torch_labels *labels)
{
    if (labels == NULL)
        return;
    mt_block_lives_destroy(labels->lives);
    mt_torch_course_release(&labels->course);
    mt_torch_callers_release(&labels->callers);
    mt_number_map_release(&labels->parameter_bytes);
    mt_number_map_release(&labels->blocks);
    free(labels->annotatable);
    mt_forward_tape_destroy(labels->tape);
    mt_step_times_release(&labels->times);
    mt_bounded_names_release(&labels->bounded);
    free(labels);
}

/* Returns the properties that rules set for a block if it has this metadata. */
static struct mt_rule_answer ask_again(struct mt_torch_labels *labels, const struct annotatable *block,
                                       const char *metadata)
{
    struct mt_rule_subject subject = mt_torch_subject(&block->request, &labels->open);
    struct mt_rule_answer answer;
    subject.metadata = metadata;
    subject.phase = block->label.phase;
    subject.life = mt_block_lives_role(labels->lives, &block->request);
    subject.outlives_phase = subject.life != MT_ROLE_TEMPORARY;
    const struct mt_torch_caller *caller = mt_torch_callers_find(&labels->callers, block->request.frames);
    mt_rules_ask(labels->callers.rules, &caller->choice, &subject, &answer);
    return answer;
}

/* Changes the metadata of a live block, and the properties that rules set because of it, or else its category. */
static void annotate(struct mt_torch_labels *labels, const struct mt_torch_event *event)
{
    uint64_t place;
    if (!mt_number_map_get(&labels->blocks, event->address, &place))
        return;
    struct annotatable *block = &labels->annotatable[place];
    const struct mt_rule_answer old = ask_again(labels, block, ""),
                                new = ask_again(labels, block, mt_torch_metadata(event));
    struct mt_label *label = &block->label;
    const mt_category named = mt_sink_category(&labels->sink, mt_torch_metadata(event));
    if (new.category != NULL &&new.category != old.category)
        label->category = mt_sink_category(&labels->sink, new.category);
    else if (named != MT_CATEGORY_OTHER)
        label->category = named;
    if (new.role != MT_RULE_SILENT &&new.role != old.role)
        label->role = (mt_role) new.role;
    if (new.op != NULL &&new.op != old.op)
        label->op = new.op;
    if (new.span != NULL &&new.span != old.span)
        label->span = mt_span_of_path(&labels->sink, new.span);
    mt_label_id id = labels->sink.intern_label(labels->sink.context, label);
    mt_foreign_relabel(labels->foreign, labels->time_ns, event->address, id, label->span);
}

/* Begins steps and phases before the request that shows them. */
static void note_moment(void *context, const struct mt_torch_event *event, uint64_t time_ns)
{
    assert(event >= ((struct mt_torch_labels *)context)->snapshot->events);
    struct mt_torch_labels *labels = context;
    const struct mt_torch_moment *moment = &labels->course.moments[event - labels->snapshot->events];
    labels->time_ns = time_ns > labels->time_ns ? time_ns : labels->time_ns;
    mt_torch_annotations_pass(&labels->open, labels->snapshot, event->time_us);
    if (event->action == MT_TORCH_ANNOTATE)
        annotate(labels, event);
    if (!moment->is_request)
        return;
    if (moment->begins_step) {
        if (mt_foreign_step(labels->foreign) != MT_NO_STEP)
            mt_foreign_step_end(labels->foreign, labels->time_ns);
        mt_foreign_step_begin(labels->foreign, labels->time_ns);
        mt_step_times_begin(&labels->times, (mt_phase)moment->phase, labels->time_ns);
    }
    if (moment->begins_step || labels->phase != (int)moment->phase) {
        mt_foreign_phase(labels->foreign, labels->time_ns, (mt_phase)moment->phase);
        mt_step_times_phase(&labels->times, (mt_phase)moment->phase, labels->time_ns);
    }
    labels->phase = (int)moment->phase;
}

/* Returns the operator that a request of backward helps to undo. A block that the engine allocates between two nodes
 * belongs to the node before, with two exceptions. A sum of gradients belongs to the operator that made the input. A
 * cast of a gradient belongs to an addition of two precisions, if that is next, since its node allocates nothing. */
static const struct mt_forward_op *find_forward(struct mt_torch_labels *labels, const struct mt_torch_caller *caller,
                                                const struct mt_torch_request *request, mt_phase phase)
{
    if (phase != MT_PHASE_BACKWARD || !mt_call_stack_is_backward(&caller->stack))
        return NULL;
    if (caller->stack.node[0] != '\0' && strcmp(caller->stack.node, "AccumulateGrad") != 0)
        mt_forward_tape_undo(labels->tape, caller->stack.node, request->requested_bytes);
    if (caller->stack.is_input_sum)
        return mt_forward_tape_source(labels->tape);
    return mt_call_stack_is_between(&caller->stack) && strcmp(caller->stack.recorded, "_to_copy") == 0
               ? mt_forward_tape_passed(labels->tape)
               : mt_forward_tape_current(labels->tape);
}

static mt_role role_of(const struct mt_rule_subject *subject, int said)
{
    assert(said >= MT_RULE_SILENT && said < MT_ROLE_COUNT);
    if (said != MT_RULE_SILENT)
        return (mt_role)said;
    return subject->life;
}

/* Returns the operator's name in forward, and the node's and the operator's names in backward. The metadata replaces an
 * unknown operator. */
static const char *op_of(const struct mt_torch_caller *caller, const char *metadata, struct mt_text *text)
{
    if (caller->stack.node[0] == '\0' && caller->op[0] == '\0')
        return metadata[0] != '\0' ? metadata : "unknown";
    if (caller->stack.node[0] == '\0')
        return caller->op;
    mt_text_add(text, "%s%s%s", caller->stack.node, caller->op[0] != '\0' ? "." : "", caller->op);
    return mt_text_get(text);
}

/* Returns the caller of forward that a request of backward undoes; NULL if the request does not record it. */
static struct mt_torch_caller *forward_caller(struct mt_torch_labels *labels, const struct mt_torch_request *request)
{
    const struct mt_value *frames = request->event != NULL ? mt_torch_forward_frames(request->event) : NULL;
    return frames != NULL && mt_value_count(frames) > 0 ? mt_torch_callers_find(&labels->callers, frames) : NULL;
}

static mt_span_id span_of_caller(struct mt_torch_labels *labels, struct mt_torch_caller *caller)
{
    if (!caller->has_span)
        caller->span = mt_span_of_stack(&labels->sink, &caller->stack);
    caller->has_span = true;
    return caller->span;
}

static mt_span_id span_of(struct mt_torch_labels *labels, struct mt_torch_caller *caller, const char *said,
                          const struct mt_forward_op *forward)
{
    if (said != NULL)
        return mt_span_of_path(&labels->sink, said);
    mt_span_id span = span_of_caller(labels, caller);
    return span == 0 && forward != NULL ? forward->span : span;
}

static mt_category category_of(struct mt_torch_labels *labels, const char *said, const struct mt_forward_op *forward)
{
    if (said != NULL)
        return mt_sink_category(&labels->sink, said);
    return forward != NULL ? forward->category : MT_CATEGORY_OTHER;
}

/* Returns the category that a block's metadata names; MT_CATEGORY_OTHER if it has none, or a rule with a condition on
 * it set the category of `answer`. */
static mt_category named_category(struct mt_torch_labels *labels, const struct mt_torch_caller *caller,
                                  const struct mt_rule_subject *subject, const struct mt_rule_answer *answer)
{
    struct mt_rule_subject silent = *subject;
    struct mt_rule_answer otherwise;
    if (subject->metadata[0] == '\0')
        return MT_CATEGORY_OTHER;
    silent.metadata = "";
    mt_rules_ask(labels->callers.rules, &caller->choice, &silent, &otherwise);
    return answer->category == otherwise.category ? mt_sink_category(&labels->sink, subject->metadata)
                                                  : MT_CATEGORY_OTHER;
}

static void count_coverage(struct mt_torch_labels *labels, struct mt_torch_caller *caller,
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

/* Records parameters and operators of forward, since later requests refer to them. */
static void note_request(struct mt_torch_labels *labels, const struct mt_torch_caller *caller, uint64_t bytes,
                         const struct mt_label *label)
{
    if (label->role == MT_ROLE_PARAMETER)
        mt_number_map_put(&labels->parameter_bytes, bytes, 1);
    if (!mt_call_stack_is_forward(&caller->stack))
        return;
    mt_forward_tape_add(labels->tape, &(struct mt_forward_op){.name = caller->stack.recorded,
                                                              .category = label->category,
                                                              .span = label->span,
                                                              .bytes = bytes,
                                                              .caller = (uint32_t)(caller - labels->callers.callers)});
}

/* Keeps a label that an annotation may change. */
static void keep_label(struct mt_torch_labels *labels, const struct mt_torch_request *request,
                       const struct mt_label *label)
{
    struct annotatable kept = {*request, *label};
    if (!labels->has_annotated)
        return;
    mt_call_frame_keep(mt_call_frames_names(labels->callers.frames), label->op, strlen(label->op), &kept.label.op);
    mt_number_map_put(&labels->blocks, request->address, labels->annotatable_count);
    *MT_HOST_ADD(labels->annotatable, labels->annotatable_count) = kept;
}

static void give_label(void *context, const struct mt_torch_request *request, mt_label_id *out_label,
                       mt_span_id *out_span)
{
    struct mt_torch_labels *labels = context;
    struct mt_torch_caller *undone = forward_caller(labels, request);
    mt_span_id told = undone != NULL ? span_of_caller(labels, undone) : 0;
    struct mt_torch_caller *caller = mt_torch_callers_find(&labels->callers, request->frames);
    struct mt_rule_subject subject = mt_torch_subject(request, &labels->open);
    struct mt_rule_answer answer;
    struct mt_text op = {0};
    uint64_t ignored;
    subject.phase = phase_of(labels, request);
    subject.life = mt_block_lives_role(labels->lives, request);
    const struct mt_forward_op *forward = find_forward(labels, caller, request, subject.phase);
    subject.is_forward_known = forward != NULL;
    subject.undone = forward != NULL ? &labels->callers.callers[forward->caller].stack : NULL;
    subject.outlives_phase = subject.life != MT_ROLE_TEMPORARY;
    subject.halves_parameter = mt_number_map_get(&labels->parameter_bytes, request->requested_bytes * 2, &ignored);
    mt_rules_ask(labels->callers.rules, &caller->choice, &subject, &answer);
    const bool is_workspace = request->event != NULL && request->event->is_workspace;
    const mt_category named = is_workspace ? MT_CATEGORY_OTHER : named_category(labels, caller, &subject, &answer);
    const struct mt_label label = {
        .category = named != MT_CATEGORY_OTHER ? named : category_of(labels, answer.category, forward),
        .role = role_of(&subject, answer.role),
        .role_source = MT_ROLE_SOURCE_INFERRED,
        .phase = subject.phase,
        .op = answer.op != NULL ? answer.op : op_of(caller, subject.metadata, &op),
        .span = told != 0 && answer.span == NULL ? told : span_of(labels, caller, answer.span, forward),
        .layer = -1};
    *out_label = labels->sink.intern_label(labels->sink.context, &label);
    *out_span = label.span;
    keep_label(labels, request, &label);
    mt_text_release(&op);
    count_coverage(labels, caller, request, label.category);
    note_request(labels, caller, request->requested_bytes, &label);
}

static mt_stack_id give_stack(void *context, const struct mt_torch_request *request)
{
    struct mt_torch_labels *labels = context;
    const struct mt_sink *sink = &labels->bounded.behind;
    struct mt_torch_caller *undone = forward_caller(labels, request);
    mt_stack_id outer = undone != NULL ? mt_torch_callers_store(&labels->callers, undone, sink) : 0;
    struct mt_torch_caller *caller = mt_torch_callers_find(&labels->callers, request->frames);
    return outer != 0 ? mt_torch_callers_store_within(&labels->callers, caller, outer, sink)
                      : mt_torch_callers_store(&labels->callers, caller, sink);
}

struct mt_torch_labeler mt_torch_labels_labeler(struct mt_torch_labels *labels)
{
    const struct mt_torch_snapshot *snapshot = labels->snapshot;
    return (struct mt_torch_labeler){.context = labels,
                                     .start_us = snapshot->event_count > 0 ? snapshot->events[0].time_us : 0,
                                     .moment = note_moment,
                                     .label = give_label,
                                     .stack = give_stack};
}

void mt_torch_labels_end(struct mt_torch_labels *labels)
{
    if (mt_foreign_step(labels->foreign) != MT_NO_STEP)
        mt_foreign_step_end(labels->foreign, labels->time_ns);
    mt_step_times_end(&labels->times, labels->time_ns);
}

void mt_torch_labels_report(struct mt_torch_labels *labels, struct mt_import_report *out)
{
    out->torch.times = labels->times;
    labels->times = (struct mt_step_times){0};
    mt_torch_callers_report(&labels->callers, out);
    out->coverage = labels->coverage;
    out->torch.before.recorded = labels->recorded_before;
}
