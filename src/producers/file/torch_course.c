#include "producers/file/torch_course.h"

#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>

/* A course under construction. */
struct finder {
    struct mt_torch_course *course;
    const struct mt_torch_snapshot *snapshot;
    struct mt_torch_callers *callers;
    bool has_calls; /* rules gave some request the phase forward */

    /* For each event: an annotation before it marks a step of the profiler, or the end of an optimizer's update, or
     * rules begin a step with it. */
    bool *profiler_steps, *updates, *rule_steps;
};

/* True for a block that is freed before an event. */
static bool is_freed_before(const struct mt_torch_moment *moment, size_t event)
{
    return moment->partner != MT_NO_EVENT && moment->partner < event;
}

/* Pairs allocations with their frees. Frees between a refused request and the next allocation are its consequence. */
static void pair_events(struct finder *finder)
{
    struct mt_torch_moment *moments = finder->course->moments;
    struct mt_number_map live;
    uint32_t refused = MT_NO_EVENT;
    mt_number_map_create(&live);
    for (size_t i = 0; i < finder->course->count; i++) {
        const struct mt_torch_event *event = &finder->snapshot->events[i];
        uint64_t began;
        moments[i].partner = MT_NO_EVENT;
        moments[i].known = (uint32_t)finder->course->count - 1;
        moments[i].is_request = event->action == MT_TORCH_ALLOC || event->action == MT_TORCH_OOM;
        if (moments[i].is_request)
            refused = event->action == MT_TORCH_OOM ? (uint32_t)i : MT_NO_EVENT;
        if (event->action == MT_TORCH_ALLOC)
            mt_number_map_put(&live, event->address, i);
        if (event->action != MT_TORCH_FREE_COMPLETED || !mt_number_map_take(&live, event->address, &began))
            continue;
        moments[began].known = refused != MT_NO_EVENT ? refused : (uint32_t)i;
        moments[began].partner = refused != MT_NO_EVENT ? MT_NO_EVENT : (uint32_t)i;
        moments[i].partner = (uint32_t)began;
    }
    mt_number_map_release(&live);
}

/* Evaluates the rules for a request. If they set no phase, a call stack with Python code is forward, and one without
 * keeps the phase before it. */
static mt_phase ask_request(struct finder *finder, size_t event, mt_phase before, struct mt_torch_annotations *open)
{
    const struct mt_torch_event *what = &finder->snapshot->events[event];
    const struct mt_torch_request request = {.requested_bytes = what->bytes, .event = what};
    const struct mt_torch_caller *caller = mt_torch_callers_find(finder->callers, what->frames);
    struct mt_rule_answer answer;
    mt_torch_annotations_pass(open, finder->snapshot, what->time_us);
    struct mt_rule_subject subject = mt_torch_subject(&request, open);
    int said = mt_rules_phase(finder->callers->rules, &caller->choice, &subject);
    finder->course->moments[event].is_said = said != MT_RULE_SILENT;
    subject.phase = caller->stack.has_python ? MT_PHASE_FORWARD : before;
    subject.phase = said != MT_RULE_SILENT ? (mt_phase)said : subject.phase;
    mt_rules_ask(finder->callers->rules, &caller->choice, &subject, &answer);
    finder->rule_steps[event] = answer.begins_step;
    finder->profiler_steps[event] = open->step_began;
    finder->updates[event] = open->update_ended;
    open->step_began = open->update_ended = false;
    return subject.phase;
}

/* Finds the phase of each event: the phase of the last request up to it. */
static void ask_rules(struct finder *finder)
{
    struct mt_torch_annotations open = {0};
    mt_phase phase = MT_PHASE_FORWARD;
    for (size_t i = 0; i < finder->course->count; i++) {
        struct mt_torch_moment *moment = &finder->course->moments[i];
        if (moment->is_request)
            phase = ask_request(finder, i, phase, &open);
        moment->phase = (uint8_t)phase;
        finder->course->has_backward |= moment->is_request && phase == MT_PHASE_BACKWARD;
        finder->has_calls |= moment->is_request && moment->is_said && phase == MT_PHASE_FORWARD;
    }
}

/* True for a request that shows that training, or a model's call, has begun. */
static bool is_work(const struct finder *finder, size_t event)
{
    const struct mt_torch_moment *moment = &finder->course->moments[event];
    return moment->is_request && moment->phase != MT_PHASE_INIT &&
           (moment->is_said || moment->phase != MT_PHASE_FORWARD || finder->rule_steps[event]);
}

/* Marks the requests that are inputs of forward: those since the previous work that are live when it begins. */
static void note_given(struct finder *finder)
{
    struct mt_torch_moment *moments = finder->course->moments;
    bool follows_forward = false;
    for (size_t i = 0, first = 0; i < finder->course->count; i++) {
        if (!is_work(finder, i))
            continue;
        bool is_forward = moments[i].phase == MT_PHASE_FORWARD;
        for (size_t k = first; k < i && is_forward && !(follows_forward && finder->course->has_backward); k++)
            moments[k].is_given = moments[k].is_request && !moments[k].is_said && !is_freed_before(&moments[k], i);
        follows_forward = is_forward;
        first = i + 1;
    }
}

/* Returns the first event of work. If no module is called, it is the first block that backward frees. */
static size_t find_work(const struct finder *finder)
{
    const struct mt_torch_moment *moments = finder->course->moments;
    size_t count = finder->course->count, first = count;
    for (size_t i = 0; i < count && first == count; i++)
        if (is_work(finder, i))
            first = i;
    if (first == count || moments[first].phase == MT_PHASE_FORWARD)
        return first == count ? 0 : first;
    for (size_t i = 0; i < first; i++)
        if (moments[i].is_request && moments[i].partner != MT_NO_EVENT &&
            moments[moments[i].partner].phase == MT_PHASE_BACKWARD)
            return i;
    return first;
}

/* Returns the last allocation. */
static size_t find_last(const struct finder *finder)
{
    size_t last = finder->course->count;
    while (last > 0 && finder->snapshot->events[last - 1].action != MT_TORCH_ALLOC)
        last--;
    return last > 0 ? last - 1 : 0;
}

/* Sets the phase of events before work. Inputs of the work, which the program frees later, belong to its step. */
static void find_init(struct finder *finder)
{
    struct mt_torch_moment *moments = finder->course->moments;
    size_t work = find_work(finder), last = find_last(finder);
    while (work > 0) {
        const struct mt_torch_moment *before = &moments[work - 1];
        if (before->is_request && !(before->is_given && is_freed_before(before, last)))
            break;
        work--;
    }
    for (size_t i = 0; i < work; i++) {
        moments[i].phase = MT_PHASE_INIT;
        moments[i].is_given = false;
    }
}

static void count_sections(struct finder *finder)
{
    struct mt_torch_moment *moments = finder->course->moments;
    for (size_t i = 1; i < finder->course->count; i++) {
        mt_phase before = (mt_phase)moments[i - 1].phase, phase = (mt_phase)moments[i].phase;
        bool is_forward = phase == MT_PHASE_FORWARD || phase == MT_PHASE_LOSS;
        bool was_forward = before == MT_PHASE_FORWARD || before == MT_PHASE_LOSS;
        moments[i].section = moments[i - 1].section + (is_forward ? !was_forward : phase != before);
    }
}

/* The steps up to an event. `held` are the live bytes that backward had allocated, at its last request. */
struct steps {
    bool is_open, is_updated, is_profiled, was_told, any_update;
    uint64_t live, held;
    uint32_t pending; /* the forward after the last backward, if it began no step; MT_NO_EVENT: none */
    mt_phase phase;   /* of the last backward, or start of forward */
};

/* The pending forward did begin a step if most of backward's memory is free when the next backward begins. */
static void pass_backward(struct finder *finder, struct steps *steps, uint64_t bytes)
{
    bool begins = steps->phase != MT_PHASE_BACKWARD;
    if (begins && steps->pending != MT_NO_EVENT && steps->live < steps->held / 2) {
        finder->course->moments[steps->pending].begins_step = true;
        steps->any_update = true;
    }
    if (begins)
        steps->pending = MT_NO_EVENT;
    steps->live += bytes;
    steps->held = steps->live;
}

/* True for a request of forward with which a step may begin: the code between steps does not call modules. */
static bool is_start(const struct finder *finder, size_t event)
{
    const struct mt_torch_moment *moment = &finder->course->moments[event];
    bool is_forward = moment->phase == MT_PHASE_FORWARD || moment->phase == MT_PHASE_LOSS;
    bool is_alloc = finder->snapshot->events[event].action == MT_TORCH_ALLOC;
    return moment->is_request && is_forward &&
           (moment->is_said || moment->is_given || finder->rule_steps[event] || (is_alloc && !finder->has_calls));
}

static void pass_start(struct finder *finder, struct steps *steps, uint32_t event)
{
    bool is_told = finder->rule_steps[event] && !steps->was_told;
    bool begins = is_told || steps->is_profiled || !steps->is_open || steps->is_updated;
    finder->course->moments[event].begins_step = begins;
    steps->is_open = true;
    if (begins)
        steps->is_updated = steps->is_profiled = false;
    else if (steps->phase == MT_PHASE_BACKWARD)
        steps->pending = event;
}

static void pass_request(struct finder *finder, struct steps *steps, uint32_t event)
{
    mt_phase phase = (mt_phase)finder->course->moments[event].phase;
    bool starts = is_start(finder, event);
    steps->is_profiled |= finder->profiler_steps[event];
    steps->is_updated |= steps->is_open && (finder->updates[event] || phase == MT_PHASE_OPTIMIZER);
    steps->any_update |= steps->is_updated;
    if (phase == MT_PHASE_BACKWARD)
        pass_backward(finder, steps, finder->snapshot->events[event].bytes);
    if (starts)
        pass_start(finder, steps, event);
    if (starts || phase == MT_PHASE_BACKWARD)
        steps->phase = phase;
    steps->was_told = finder->rule_steps[event];
}

static void pass_free(const struct finder *finder, struct steps *steps, uint32_t event)
{
    uint32_t began = finder->course->moments[event].partner;
    if (began != MT_NO_EVENT && finder->course->moments[began].phase == MT_PHASE_BACKWARD)
        steps->live -= finder->snapshot->events[began].bytes;
}

/* Each backward ends a step if nothing shows an update. */
static void end_steps_with_backward(struct finder *finder)
{
    bool is_ended = false;
    for (size_t i = 0; i < finder->course->count; i++) {
        struct mt_torch_moment *moment = &finder->course->moments[i];
        bool starts = is_start(finder, i);
        moment->begins_step |= is_ended && starts;
        is_ended = (is_ended || (moment->is_request && moment->phase == MT_PHASE_BACKWARD)) && !starts;
    }
}

static void find_steps(struct finder *finder)
{
    struct steps steps = {.pending = MT_NO_EVENT};
    for (size_t i = 0; i < finder->course->count; i++) {
        if (finder->course->moments[i].is_request)
            pass_request(finder, &steps, (uint32_t)i);
        else if (finder->snapshot->events[i].action == MT_TORCH_FREE_COMPLETED)
            pass_free(finder, &steps, (uint32_t)i);
    }
    if (!steps.any_update)
        end_steps_with_backward(finder);
}

void mt_torch_course_create(struct mt_torch_course *course, const struct mt_torch_snapshot *snapshot,
                            struct mt_torch_callers *callers)
{
    assert(snapshot->event_count < MT_NO_EVENT);
    size_t count = snapshot->event_count;
    *course = (struct mt_torch_course){.count = count};
    course->moments = mt_host_alloc((count + 1) * sizeof *course->moments);
    struct finder finder = {.course = course, .snapshot = snapshot, .callers = callers};
    finder.rule_steps = mt_host_alloc(count + 1);
    finder.profiler_steps = mt_host_alloc(count + 1);
    finder.updates = mt_host_alloc(count + 1);
    pair_events(&finder);
    ask_rules(&finder);
    note_given(&finder);
    find_init(&finder);
    count_sections(&finder);
    find_steps(&finder);
    free(finder.rule_steps);
    free(finder.profiler_steps);
    free(finder.updates);
}

void mt_torch_course_release(struct mt_torch_course *course)
{
    free(course->moments);
}
