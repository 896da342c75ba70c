#include "cli/run/told_session.h"

#include "cli/output/output.h"
#include "cli/output/question.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void print_note(void *context, const char *text)
{
    (void)context;
    mt_note("%s", text);
}

/* Prints the step on a line that overwrites itself. */
static void show_progress(void *context, int64_t step, int64_t total, double loss)
{
    (void)context;
    if (!mt_notes_are_on_terminal())
        return;
    fprintf(stderr, "\rstep %" PRId64 " of %" PRId64, step + 1, total);
    if (!isnan(loss))
        fprintf(stderr, ", loss %.4f", loss);
    fputs(step + 1 < total ? "  " : "\r\033[K", stderr);
    fflush(stderr);
}

static void add_asker(const struct mt_alloc_refusal *refusal, const struct mt_interner *interner, struct mt_text *out)
{
    const struct mt_label *label = mt_interner_find_label(interner, refusal->label);
    const struct mt_span *span = mt_interner_find_span(interner, refusal->span);
    if (label == NULL)
        return;
    mt_text_add(out, "\nasked by    %s for %s: %s, %s, in %s", span != NULL ? span->path : "the program", label->op,
                mt_interner_category_name(interner, label->category), mt_role_name(label->role),
                mt_phase_name(label->phase));
}

/* Returns the category with most live bytes, and sets it to 0; MT_MOST_CATEGORIES if none is left. */
static mt_category take_largest(uint64_t *live_bytes, uint64_t *out_bytes)
{
    mt_category largest = MT_MOST_CATEGORIES;
    *out_bytes = 0;
    for (mt_category c = 0; c < MT_MOST_CATEGORIES; c++) {
        if (live_bytes[c] <= *out_bytes)
            continue;
        *out_bytes = live_bytes[c];
        largest = c;
    }
    assert((largest == MT_MOST_CATEGORIES) == (*out_bytes == 0));
    if (largest != MT_MOST_CATEGORIES)
        live_bytes[largest] = 0;
    return largest;
}

/* Adds the live bytes by category, largest first. Categories below a hundredth are combined. */
static void add_live(struct mt_alloc_refusal refusal, const struct mt_interner *interner, struct mt_text *out)
{
    uint64_t whole = 0, told = 0, bytes;
    for (int c = 0; c < MT_MOST_CATEGORIES; c++)
        whole += refusal.live_bytes[c];
    mt_text_add(out, "\nlive        %s", MT_SIZE(whole));
    for (mt_category c = take_largest(refusal.live_bytes, &bytes); c != MT_MOST_CATEGORIES && bytes >= whole / 100;
         c = take_largest(refusal.live_bytes, &bytes)) {
        mt_text_add(out, "%s %s %s", told == 0 ? ":" : ",", mt_interner_category_name(interner, c), MT_SIZE(bytes));
        told += bytes;
    }
    if (told < whole)
        mt_text_add(out, "%s the rest %s", told == 0 ? ":" : ",", MT_SIZE(whole - told));
}

static void add_next(const char *trace, struct mt_text *out)
{
    if (trace == NULL)
        return;
    mt_text_add(out, "\nask next    memtrace oom");
    mt_text_add_trace_option(out, trace);
    mt_text_add(out, ", which says why, and which change would have prevented it");
}

/* Adds the lines after the allocator's message: the op of the request, the live bytes by category, the segments that
 * were released without success, and the command to run next if there is a trace. Adds nothing if every request
 * succeeded. */
static void describe_refusal(void *context, const struct mt_alloc_refusal *refusal, const struct mt_interner *interner,
                             struct mt_text *out)
{
    const struct mt_run_plan *plan = context;
    if (refusal->requested_bytes == 0)
        return;
    add_asker(refusal, interner, out);
    add_live(*refusal, interner, out);
    if (refusal->released_bytes > 0)
        mt_text_add(out,
                    "\nfreed       %s of cached segments, which was not enough: every other segment has a live block",
                    MT_SIZE(refusal->released_bytes));
    else
        mt_text_add(out, "\nfreed       nothing: no segment was idle");
    add_next(plan != NULL ? plan->trace : NULL, out);
}

static struct mt_session_observer observer_of(const struct mt_run_plan *plan)
{
    return (struct mt_session_observer){
        .context = (void *)plan, .note = print_note, .step_done = show_progress, .describe_refusal = describe_refusal};
}

mt_status mt_told_device_failure(mt_status status, const char *spelling)
{
    if (status != MT_NO_DEVICE || strncmp(spelling, "cuda", strlen("cuda")) != 0)
        return status;
    return mt_fail_hint(status, "--device sim plans without a GPU");
}

struct mt_session_observer mt_told_observer(void)
{
    return observer_of(NULL);
}

mt_status mt_told_session(const struct mt_run_plan *plan, struct mt_run_result *out)
{
    const struct mt_session_observer observer = observer_of(plan);
    mt_status status = mt_run_session(plan, &observer, out);
    if (out->is_untraceable)
        return mt_fail_writing_hint(status, "memtrace run --no-trace");
    return mt_told_device_failure(status, plan->device);
}

mt_status mt_told_device_open(const char *spelling, struct mt_device **out)
{
    const struct mt_session_observer observer = mt_told_observer();
    return mt_told_device_failure(mt_run_device_open(spelling, &observer, out), spelling);
}

void mt_interrupt_catch(void (*handler)(int number), struct sigaction *out_before)
{
    const struct sigaction catching = {.sa_handler = handler, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    if (sigaction(SIGINT, NULL, out_before) == 0 && out_before->sa_handler != SIG_IGN)
        sigaction(SIGINT, &catching, NULL);
}

void mt_interrupt_release(const struct sigaction *before)
{
    sigaction(SIGINT, before, NULL);
}

void mt_interrupt_say(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return; /* no terminal to write to */
}
