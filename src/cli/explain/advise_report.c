#include "cli/explain/advise_report.h"

#include "base/memory.h"
#include "cli/output/change_report.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "words/advice_words.h"
#include "words/run_words.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DURATION_TEXT = 32 };

/* Writes "12.3 us", "4.56 ms" or "1.20 s" into `text` of DURATION_TEXT bytes and returns it. */
static char *format_duration(uint64_t ns, char *text)
{
    static const struct {
        double ns;
        const char *name;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}};
    size_t unit = 0;
    while (unit < 2 && (double)ns < units[unit].ns)
        unit++;
    snprintf(text, DURATION_TEXT, "%.3g %s", (double)ns / units[unit].ns, units[unit].name);
    return text;
}

/* A line of the table of peaks. */
struct peak_line {
    const char *name;
    struct mt_replay_result peaks;
    const char *meaning;
};

#define ROW struct peak_line
static const struct mt_field peak_fields[] = {
    MT_SHOWN(TEXT, const char *, ROW, name, "name", "peak"),
    MT_SHOWN(BYTES, uint64_t, ROW, peaks.requested_bytes, "requested", "requested"),
    MT_SHOWN(BYTES, uint64_t, ROW, peaks.allocated_bytes, "allocated", "allocated"),
    MT_SHOWN(BYTES, uint64_t, ROW, peaks.reserved_bytes, "reserved", "reserved"),
    MT_SHOWN(TEXT, const char *, ROW, meaning, "meaning", ""),
    MT_FIELDS_END,
};
#undef ROW
static const struct mt_row_type peak_type = MT_ROW_TYPE(struct peak_line, peak_fields);

/* Adds the moment of the peak of requested bytes, and the module that asked then. */
static void add_moment(struct mt_text *out, const struct mt_peak_row *peak)
{
    char step[MT_BYTES_TEXT];
    if (peak->bytes == 0)
        return;
    mt_text_add(out, "reached in %s, %s", mt_format_step(peak->step, step), peak->phase);
    if (peak->span != NULL && peak->span[0] != '\0')
        mt_text_add(out, ", by %s", peak->span);
}

static bool are_equal(const struct mt_replay_result *a, const struct mt_replay_result *b)
{
    return a->requested_bytes == b->requested_bytes && a->allocated_bytes == b->allocated_bytes &&
           a->reserved_bytes == b->reserved_bytes;
}

/* True of a program whose allocator is not known: reserved bytes of replays say nothing of it. */
static bool is_watched(const struct mt_advice_answer *answer)
{
    return answer->material.input.program.kind == MT_PROGRAM_WATCHED;
}

/* Adds "with PyTorch's allocator (policy=torch); what follows is compared with this". */
static void add_replayed(const struct mt_advice_answer *answer, struct mt_text *out)
{
    mt_text_add(out, "with ");
    mt_replayed_allocator_add(&answer->material.input, out);
    mt_text_add(out, answer->advice.as_it_was.fits ? "; what follows is compared with this" : ", until memory ended");
}

static void print_peaks(const struct mt_advice_answer *answer)
{
    const struct mt_peak_row *peaks = answer->peaks;
    const struct mt_advice *advice = &answer->advice;
    struct mt_text moment = {0}, replayed = {0};
    struct peak_line lines[3] = {{"now",
                                  {.requested_bytes = peaks[MT_MEASURE_REQUESTED].bytes,
                                   .allocated_bytes = peaks[MT_MEASURE_ALLOCATED].bytes,
                                   .reserved_bytes = peaks[MT_MEASURE_RESERVED].bytes},
                                  NULL}};
    size_t count = 1;
    add_moment(&moment, &peaks[MT_MEASURE_REQUESTED]);
    lines[0].meaning = mt_text_get(&moment);
    add_replayed(answer, &replayed);
    if (!is_watched(answer) && !are_equal(&advice->as_it_was, &lines[0].peaks))
        lines[count++] = (struct peak_line){"replayed", advice->as_it_was, mt_text_get(&replayed)};
    if (advice->knows_uses)
        lines[count++] = (struct peak_line){"used only", advice->used_only,
                                            "if every block were there from its first to its last use only"};
    mt_rows_print(&peak_type, "name requested allocated reserved meaning", NULL, lines, count);
    mt_text_release(&moment);
    mt_text_release(&replayed);
}

/* A finding in its place, with the texts of its row. */
struct shown {
    const struct mt_finding *finding;
    int64_t number; /* from 1 */
    const char *pattern, *cost;
    struct mt_text blocks, duration;
    int64_t count;                               /* of the finding's blocks; 0: not known */
    uint64_t bytes, saved_bytes, reserved_bytes; /* of the finding; the last by its replay */
};

#define ROW struct shown
static const struct mt_field shown_fields[] = {
    MT_SHOWN(INTEGER, int64_t, ROW, number, "number", "#"),
    MT_SHOWN(BYTES, uint64_t, ROW, saved_bytes, "saves", "saves"),
    MT_SHOWN(TEXT, const char *, ROW, pattern, "pattern", "pattern"),
    MT_SHOWN(TEXT, char *, ROW, blocks.data, "what", "what"),
    MT_SHOWN(POSITIVE, int64_t, ROW, count, "blocks", "blocks"),
    MT_SHOWN(BYTES, uint64_t, ROW, bytes, "bytes", "bytes"),
    MT_SHOWN(DIGITS, char *, ROW, duration.data, "for", "for"),
    MT_SHOWN(TEXT, const char *, ROW, cost, "costs", "costs"),
    MT_SHOWN(BYTES, uint64_t, ROW, reserved_bytes, "reserved", "reserved then"),
    MT_FIELDS_END,
};
#undef ROW
static const struct mt_row_type shown_type = MT_ROW_TYPE(struct shown, shown_fields);

/* The findings as they are shown. Invariant: items[i].number = i + 1. */
struct order {
    struct shown *items;
    size_t count;
};

static bool has_whole(const struct mt_advice *advice, const struct mt_finding *finding)
{
    for (size_t i = 0; i < advice->count; i++)
        if (mt_finding_is_part(finding, &advice->findings[i]))
            return true;
    return false;
}

static struct shown show(const struct mt_advice *advice, size_t index)
{
    const struct mt_finding *finding = &advice->findings[index];
    struct shown shown = {.finding = finding,
                          .number = (int64_t)index + 1,
                          .pattern = mt_finding_kinds[finding->pattern].name,
                          .cost = mt_remedy_cost_name(mt_finding_cost(finding)),
                          .count = (int64_t)finding->blocks,
                          .bytes = finding->bytes,
                          .saved_bytes = finding->saved_bytes,
                          .reserved_bytes = finding->replay.reserved_bytes};
    assert(finding->saved_bytes == 0 || finding->bytes > 0);
    mt_text_add(&shown.blocks, "%s", has_whole(advice, finding) ? "· " : "");
    mt_finding_add_short_blocks(finding, &shown.blocks);
    if (finding->pattern != MT_PATTERN_FRAGMENTATION)
        mt_text_add(&shown.duration, "%.2f ms", (double)finding->ns * 1e-6);
    return shown;
}

/* Returns the findings in the order in which they are shown. The caller releases them. */
static struct order order_create(const struct mt_advice *advice)
{
    struct order order = {.items = mt_host_alloc((advice->count + 1) * sizeof *order.items), .count = advice->count};
    for (size_t i = 0; i < advice->count; i++)
        order.items[i] = show(advice, i);
    return order;
}

static void order_release(struct order *order)
{
    for (size_t i = 0; i < order->count; i++) {
        mt_text_release(&order->items[i].blocks);
        mt_text_release(&order->items[i].duration);
    }
    free(order->items);
}

static bool has_fragmentation(const struct order *order)
{
    for (size_t i = 0; i < order->count; i++)
        if (order->items[i].finding->pattern == MT_PATTERN_FRAGMENTATION)
            return true;
    return false;
}

static void print_findings(const struct mt_advice_answer *answer, const struct order *order)
{
    const char *fields = is_watched(answer) ? "number saves pattern what blocks bytes for costs"
                                            : "number saves pattern what blocks bytes for costs reserved";
    struct mt_text line = {0};
    putchar('\n');
    mt_rows_print(&shown_type, fields, "blocks costs for bytes", order->items, order->count);
    mt_text_add(&line, "Each was replayed");
    if (!is_watched(answer)) {
        mt_text_add(&line, " with ");
        mt_replayed_allocator_add(&answer->material.input, &line);
    }
    mt_text_add(&line, ": the peak of requested bytes falls by what is said%s.",
                has_fragmentation(order) ? " (of fragmentation, that of reserved ones)" : "");
    putchar('\n');
    mt_print_line(&line);
}

/* The sentence about the blocks of a pattern: before their duration, and after it. */
static const struct {
    const char *before, *after;
} explanations[MT_PATTERN_COUNT] = {
    [MT_PATTERN_KEPT_GRADIENTS] = {"Gradients of the last step live on for",
                                   " through a forward pass that has no use of them"},
    [MT_PATTERN_LATE_FREE] = {"They stay for", " after their last use"},
    [MT_PATTERN_EARLY_ALLOCATION] = {"They are there for", " before their first use"},
    [MT_PATTERN_IDLE] = {"Nothing uses them for", " between two uses"},
    [MT_PATTERN_NEVER_USED] = {"They are there for", ", and nothing ever reads or writes them"},
    [MT_PATTERN_DEAD_WRITE] = {"They are there for", ", and what is written to them is never read"},
    [MT_PATTERN_TWO_PRECISIONS] = {"They are copies in another precision of what is there beside them, idle for",
                                   " between two uses"},
    [MT_PATTERN_LEAK] = {"Every step leaves more of them behind; these were there for",
                         " after the step that made them"},
};

/* Adds the places of the free bytes, and the block that the last segment was mapped for. */
static void add_places(struct mt_text *out, const struct mt_fragmentation *found, const struct mt_finding *finding)
{
    char text[MT_BYTES_TEXT];
    struct mt_text what = {0};
    mt_text_add(out, "When %s were reserved, ", mt_format_bytes(found->reserved_bytes, text));
    mt_text_add(out, "%s were in %" PRIu64 " hole%s between blocks", mt_format_bytes(found->hole_bytes, text),
                found->hole_count, found->hole_count == 1 ? "" : "s");
    if (found->hole_bytes > 0) {
        mt_finding_add_blocks(finding, &what);
        mt_text_add(out, " (most beside %s)", mt_text_get(&what));
    }
    mt_text_add(out, " and %s in segments without a block;", mt_format_bytes(found->idle_bytes, text));
    mt_text_add(out, " the largest of these pieces was %s,", mt_format_bytes(found->largest_bytes, text));
    mt_text_add(out, " and memory was mapped for %s.", mt_format_bytes(found->asked_bytes, text));
    if (found->pool_bytes > 0)
        mt_text_add(out, " %s of it is in private pools, as of CUDA graphs, where other blocks never lie.",
                    mt_format_bytes(found->pool_bytes, text));
    mt_text_release(&what);
}

/* Adds what is reserved in vain, by the run or, with another allocator, by its replay. */
static void add_fragmentation(struct mt_text *out, const struct mt_advice_answer *answer,
                              const struct mt_finding *finding)
{
    const struct mt_replay_result *replayed = &answer->advice.as_it_was;
    char text[MT_BYTES_TEXT];
    if (answer->material.input.is_another) {
        mt_text_add(out, "For %s allocated at most ", mt_format_bytes(replayed->allocated_bytes, text));
        mt_text_add(out, "%s are reserved.", mt_format_bytes(replayed->reserved_bytes, text));
    } else {
        add_places(out, &answer->advice.fragmentation, finding);
    }
    mt_text_add(out, " Replayed with ");
    mt_alloc_settings_format_short(&finding->alloc, out);
    mt_text_add(out, ", it is %s.", mt_format_bytes(finding->replay.reserved_bytes, text));
}

/* True if one sentence explains both findings: they are of one pattern and have one hint. */
static bool are_alike(const struct mt_finding *a, const struct mt_finding *b)
{
    return a->pattern == b->pattern && mt_finding_hint(a) == mt_finding_hint(b);
}

static bool is_first_of_its_kind(const struct order *order, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (are_alike(order->items[i].finding, order->items[index].finding))
            return false;
    return true;
}

/* Adds "180 ms (5462 events)" of one finding, "176 ms to 182 ms" of several. */
static void add_durations(struct mt_text *out, const struct order *order, size_t first)
{
    const struct mt_finding *finding = order->items[first].finding;
    uint64_t least = finding->ns, most = finding->ns;
    size_t count = 0;
    for (size_t i = first; i < order->count; i++) {
        const struct mt_finding *other = order->items[i].finding;
        if (!are_alike(other, finding))
            continue;
        least = other->ns < least ? other->ns : least;
        most = other->ns > most ? other->ns : most;
        count++;
    }
    assert(count >= 1 && least <= most);
    char from[DURATION_TEXT], to[DURATION_TEXT];
    mt_text_add(out, "%s", format_duration(least, from));
    if (count == 1)
        mt_text_add(out, " (%" PRId64 " events)", finding->events);
    else if (strcmp(from, format_duration(most, to)) != 0)
        mt_text_add(out, " to %s", to);
}

static void add_numbers(struct mt_text *out, const struct order *order, size_t first)
{
    for (size_t i = first; i < order->count; i++)
        if (are_alike(order->items[i].finding, order->items[first].finding))
            mt_text_add(out, "%s%" PRId64, i > first ? ", " : "", order->items[i].number);
}

static void print_hint(const struct mt_advice_answer *answer, const char *before, const struct mt_finding *finding)
{
    struct mt_text line = {0};
    mt_text_add(&line, "%s→ ", before);
    mt_hint_add(mt_finding_hint(finding), &answer->material.input.program, &line);
    mt_print_line(&line);
}

/* Prints the sentence about a finding and those like it, and the hint. */
static void print_explanation(const struct mt_advice_answer *answer, const struct order *order, size_t first)
{
    const struct mt_finding *finding = order->items[first].finding;
    struct mt_text text = {0};
    add_numbers(&text, order, first);
    mt_text_add(&text, ". ");
    if (finding->pattern == MT_PATTERN_FRAGMENTATION) {
        add_fragmentation(&text, answer, finding);
    } else {
        assert(explanations[finding->pattern].before != NULL);
        mt_text_add(&text, "%s ", explanations[finding->pattern].before);
        add_durations(&text, order, first);
        mt_text_add(&text, "%s.", explanations[finding->pattern].after);
    }
    mt_print_line(&text);
    print_hint(answer, "   ", finding);
}

static void print_explanations(const struct mt_advice_answer *answer, const struct order *order)
{
    putchar('\n');
    for (size_t i = 0; i < order->count; i++)
        if (is_first_of_its_kind(order, i))
            print_explanation(answer, order, i);
    for (size_t i = 0; i < order->count; i++)
        if (!order->items[i].finding->replay.fits)
            mt_say("%" PRId64 ". Replayed so, the run would be out of memory: its segments would lie less well.",
                   order->items[i].number);
}

/* The waste of a pattern, in a sentence that goes on with the blocks. */
static const char *const reasons[MT_PATTERN_COUNT] = {
    [MT_PATTERN_KEPT_GRADIENTS] = "gradients live through a forward pass that has no use of them",
    [MT_PATTERN_LATE_FREE] = "blocks stay after their last use",
    [MT_PATTERN_EARLY_ALLOCATION] = "blocks are there before their first use",
    [MT_PATTERN_IDLE] = "blocks are idle between two uses",
    [MT_PATTERN_NEVER_USED] = "blocks are never used",
    [MT_PATTERN_DEAD_WRITE] = "blocks are written and never read",
    [MT_PATTERN_TWO_PRECISIONS] = "copies are idle beside what they are copies of",
    [MT_PATTERN_LEAK] = "every step leaves blocks behind",
    [MT_PATTERN_FRAGMENTATION] = "free memory does not serve what is asked for",
};

/* Adds "The peak of 66.15 GiB reserved can fall by 2.53 GiB: ", of the first finding. */
static void add_saving(const struct mt_advice_answer *answer, const struct mt_finding *finding, struct mt_text *out)
{
    char peak[MT_BYTES_TEXT], saved[MT_BYTES_TEXT];
    const struct mt_advice *advice = &answer->advice;
    const struct mt_advice_input *input = &answer->material.input;
    bool is_reserved = finding->pattern == MT_PATTERN_FRAGMENTATION;
    if (is_reserved && input->is_another) {
        mt_text_add(out, "With ");
        mt_replayed_allocator_add(input, out);
        mt_text_add(out, " the");
    } else {
        mt_text_add(out, "The");
    }
    mt_text_add(out, " peak of %s %s can fall by %s: ",
                mt_format_bytes(is_reserved ? advice->as_it_was.reserved_bytes : advice->peak_bytes, peak),
                is_reserved ? "reserved" : "requested", mt_format_bytes(finding->saved_bytes, saved));
}

/* Adds "gradients live through a forward pass that has no use of them (gradient, 12.69 GiB in 291 blocks)." */
static void add_waste(const struct mt_finding *finding, struct mt_text *out)
{
    char bytes[MT_BYTES_TEXT];
    struct mt_text blocks = {0};
    mt_finding_add_short_blocks(finding, &blocks);
    mt_text_add(out, "%s (%s%s%s", reasons[finding->pattern], mt_text_get(&blocks), blocks.length > 0 ? ", " : "",
                mt_format_bytes(finding->bytes, bytes));
    if (finding->blocks > 0)
        mt_text_add(out, " in %" PRIu64 " %s%s", finding->blocks,
                    finding->pattern == MT_PATTERN_FRAGMENTATION ? "hole" : "block", finding->blocks == 1 ? "" : "s");
    mt_text_add(out, ").");
    mt_text_release(&blocks);
}

/* Prints the option that lowers the peak most, if that is more than the finding does. The peak of a run that ended out of
 * memory is none to compare with. */
static void print_best_option(const struct mt_simulated_advice *simulated, uint64_t saved_bytes)
{
    const struct mt_simulated_option *best = NULL;
    uint64_t before = simulated->as_it_is.peak_requested_bytes, most_bytes = saved_bytes;
    char text[MT_BYTES_TEXT];
    struct mt_text line = {0};
    for (size_t i = 0; i < simulated->count; i++) {
        uint64_t after = simulated->options[i].simulation.peak_requested_bytes;
        assert(after < before);
        if (before - after <= most_bytes)
            continue;
        best = &simulated->options[i];
        most_bytes = before - after;
    }
    if (best == NULL || !simulated->as_it_is.fits)
        return;
    mt_text_add(&line, "With memtrace run ");
    mt_fit_remedy_add_changes(&best->remedy, &line);
    mt_text_add(&line, ", the peak of requested bytes falls by %s.", mt_format_bytes(most_bytes, text));
    mt_print_line(&line);
}

/* Prints the answer in a few words: the first finding, and the option or change that does more. */
static void print_headline(const struct mt_advice_answer *answer, const struct order *order)
{
    const struct mt_finding *finding = order->count > 0 ? order->items[0].finding : NULL;
    char peak[MT_BYTES_TEXT];
    struct mt_text text = {0};
    if (finding == NULL || finding->saved_bytes == 0) {
        mt_say("No waste was found that keeps up the peak of %s requested.",
               mt_format_bytes(answer->advice.peak_bytes, peak));
    } else {
        add_saving(answer, finding, &text);
        add_waste(finding, &text);
        mt_print_line(&text);
        print_hint(answer, "", finding);
    }
    mt_changes_headline(&answer->changes, &answer->material.input.program);
    print_best_option(&answer->simulated, finding != NULL ? finding->saved_bytes : 0);
    putchar('\n');
}

static void print_notes(const struct mt_advice_answer *answer)
{
    const struct mt_advice_material *material = &answer->material;
    size_t left_out = answer->advice.left_out;
    if (!answer->advice.knows_uses)
        mt_say("\nThe run's program told no use of any block: only what can be said without is said here.");
    if (!material->is_whole)
        mt_say("\nOf the run's %" PRId64 " events these are those of steps %" PRId64 " to %" PRId64
               ", around the peak: replays begin with what was live then.",
               answer->question->run->event_count, material->first_step, material->last_step);
    assert(material->is_whole || material->first_step <= material->last_step);
    if (left_out > 0)
        mt_say("\n%zu more kind%s of blocks could be there for less time: --all tells of them.", left_out,
               left_out == 1 ? "" : "s");
}

static void print_simulated(const struct mt_simulated_advice *simulated)
{
    if (simulated->count == 0)
        return;
    struct mt_advice_option_row *rows = mt_advice_options_create(simulated);
    mt_say("\nOptions of memtrace run, on %s, each in a whole run with it:", simulated->device);
    mt_rows_print(&mt_advice_option_type, "change requested allocated reserved difference", NULL, rows,
                  simulated->count + 1);
    mt_advice_options_release(rows, simulated->count);
}

/* Prints the lines of the program that asked for most of the peak; of a dry run, also how changes of it can be tried. */
static void print_lines(const struct mt_advice_answer *answer)
{
    const char *recorded;
    if (answer->lines.count > 0) {
        mt_say("\nMost of what is live at the peak was asked for by:");
        mt_rows_print(&mt_peak_line_type, NULL, "blocks", answer->lines.items, answer->lines.count);
    }
    if (mt_question_setting(answer->question, "recorded", &recorded) == MT_OK && strcmp(recorded, "dry") == 0)
        mt_say("\nmemtrace fit -- PROGRAM runs the program dry with changes, and tells what each saves.");
}

void mt_advise_report(const struct mt_advice_answer *answer)
{
    struct order order = order_create(&answer->advice);
    print_headline(answer, &order);
    mt_question_print_title(answer->question);
    print_peaks(answer);
    if (order.count > 0) {
        print_findings(answer, &order);
        print_explanations(answer, &order);
    }
    print_notes(answer);
    print_simulated(&answer->simulated);
    mt_changes_report(&answer->changes, &answer->material.input.program);
    print_lines(answer);
    order_release(&order);
}
