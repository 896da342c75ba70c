/* memtrace advise: what would lower the peak. */
#include "base/memory.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "words/advice_words.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct advise_options {
    struct mt_trace_options trace;
    int64_t limit;
    bool all;
};

static const struct mt_option options[] = {
    MT_OPTION(INTEGER, struct advise_options, limit, "--top", .value = "N",
              .help = "how many findings (5 unless given; all of them with --all)", .low = 1, .high = INT32_MAX),
    MT_OPTION(FLAG, struct advise_options, all, "--all",
              .help = "tell also of what saves nothing, and of the parts of what is told"),
    MT_TRACE_OPTIONS,
};

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

static void print_peaks(const struct mt_advice_answer *answer)
{
    const struct mt_peak_row *peaks = answer->peaks;
    const struct mt_advice *advice = &answer->advice;
    struct mt_text moment = {0};
    struct peak_line lines[3] = {{"now",
                                  {.requested_bytes = peaks[MT_MEASURE_REQUESTED].bytes,
                                   .allocated_bytes = peaks[MT_MEASURE_ALLOCATED].bytes,
                                   .reserved_bytes = peaks[MT_MEASURE_RESERVED].bytes},
                                  NULL}};
    size_t count = 1;
    add_moment(&moment, &peaks[MT_MEASURE_REQUESTED]);
    lines[0].meaning = mt_text_get(&moment);
    if (!are_equal(&advice->as_it_was, &lines[0].peaks))
        lines[count++] =
            (struct peak_line){"replayed", advice->as_it_was, "without a change; what follows is compared with this"};
    if (advice->knows_uses)
        lines[count++] = (struct peak_line){"used only", advice->used_only,
                                            "if every block were there from its first to its last use only"};
    mt_rows_print(&peak_type, "name requested allocated reserved meaning", NULL, lines, count);
    mt_text_release(&moment);
}

/* A finding in its place, with the texts of its row. */
struct shown {
    const struct mt_finding *finding;
    int64_t number; /* from 1 */
    const char *pattern, *cost;
    struct mt_text blocks, duration;
    uint64_t count, bytes, saved_bytes, reserved_bytes; /* of the finding; the last by its replay */
};

#define ROW struct shown
static const struct mt_field shown_fields[] = {
    MT_SHOWN(INTEGER, int64_t, ROW, number, "number", "#"),
    MT_SHOWN(BYTES, uint64_t, ROW, saved_bytes, "saves", "saves"),
    MT_SHOWN(TEXT, const char *, ROW, pattern, "pattern", "pattern"),
    MT_SHOWN(TEXT, char *, ROW, blocks.data, "what", "what"),
    MT_SHOWN(COUNT, uint64_t, ROW, count, "blocks", "blocks"),
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
    uint64_t most_bytes; /* the largest saving of requested bytes */
};

/* Returns the rank of a finding: one that a single option mends comes first if it saves enough, and fragmentation last,
 * since reserved bytes do not compare with requested ones. */
static int rank_of(const struct order *order, const struct mt_finding *finding)
{
    enum { WORTH_PART = 10 };
    if (finding->pattern == MT_PATTERN_FRAGMENTATION)
        return 2;
    bool is_worth_it = finding->saved_bytes > 0 && finding->saved_bytes >= order->most_bytes / WORTH_PART;
    return mt_finding_cost(finding) == MT_COST_OPTION && is_worth_it ? 0 : 1;
}

static bool is_placed(const struct order *order, const struct mt_finding *finding)
{
    for (size_t i = 0; i < order->count; i++)
        if (order->items[i].finding == finding)
            return true;
    return false;
}

static void place(struct order *order, const struct mt_finding *finding, const char *mark)
{
    if (is_placed(order, finding))
        return;
    assert(finding->saved_bytes == 0 || finding->bytes > 0);
    struct shown *shown = &order->items[order->count++];
    *shown = (struct shown){.finding = finding,
                            .number = (int64_t)order->count,
                            .pattern = mt_pattern_name(finding->pattern),
                            .cost = mt_remedy_cost_name(mt_finding_cost(finding)),
                            .count = finding->blocks,
                            .bytes = finding->bytes,
                            .saved_bytes = finding->saved_bytes,
                            .reserved_bytes = finding->replay.reserved_bytes};
    mt_text_add(&shown->blocks, "%s", mark);
    mt_finding_add_short_blocks(finding, &shown->blocks);
    if (finding->pattern != MT_PATTERN_FRAGMENTATION)
        mt_text_add(&shown->duration, "%.2f ms", (double)finding->ns * 1e-6);
}

static void place_parts(struct order *order, const struct mt_advice *advice, const struct mt_finding *whole)
{
    for (size_t i = 0; i < advice->count; i++)
        if (mt_finding_is_part(&advice->findings[i], whole))
            place(order, &advice->findings[i], "· ");
}

static bool has_whole(const struct mt_advice *advice, const struct mt_finding *finding)
{
    for (size_t i = 0; i < advice->count; i++)
        if (mt_finding_is_part(finding, &advice->findings[i]))
            return true;
    return false;
}

/* Orders findings by rank, and those of one rank by savings, as they come. Parts follow their whole. Release it. */
static struct order order_findings(const struct mt_advice *advice)
{
    struct order order = {.items = mt_host_alloc((advice->count + 1) * sizeof *order.items)};
    for (size_t i = 0; i < advice->count; i++)
        if (advice->findings[i].pattern != MT_PATTERN_FRAGMENTATION &&
            advice->findings[i].saved_bytes > order.most_bytes)
            order.most_bytes = advice->findings[i].saved_bytes;
    for (int rank = 0; rank <= 2; rank++)
        for (size_t i = 0; i < advice->count; i++) {
            const struct mt_finding *finding = &advice->findings[i];
            if (rank_of(&order, finding) != rank || has_whole(advice, finding))
                continue;
            place(&order, finding, "");
            place_parts(&order, advice, finding);
        }
    assert(order.count == advice->count);
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

static void print_findings(const struct order *order)
{
    putchar('\n');
    mt_rows_print(&shown_type, "number saves pattern what blocks bytes for costs reserved", "blocks costs for bytes",
                  order->items, order->count);
    mt_say("\nEach was replayed: the peak of requested bytes falls by what is said (of fragmentation, that of reserved "
           "ones).");
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
static void add_fragmentation(struct mt_text *out, const struct mt_fragmentation *found,
                              const struct mt_finding *finding)
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
    mt_text_add(out, " Replayed with policy=%s.", mt_policy_name(finding->policy));
    mt_text_release(&what);
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

/* Prints the sentence about a finding and those like it, and the hint. */
static void print_explanation(const struct mt_advice *advice, const struct order *order, size_t first)
{
    const struct mt_finding *finding = order->items[first].finding;
    struct mt_text text = {0};
    add_numbers(&text, order, first);
    mt_text_add(&text, ". ");
    if (finding->pattern == MT_PATTERN_FRAGMENTATION) {
        add_fragmentation(&text, &advice->fragmentation, finding);
    } else {
        assert(explanations[finding->pattern].before != NULL);
        mt_text_add(&text, "%s ", explanations[finding->pattern].before);
        add_durations(&text, order, first);
        mt_text_add(&text, "%s.", explanations[finding->pattern].after);
    }
    mt_print_line(&text);
    mt_say("   → %s", mt_hint_words(mt_finding_hint(finding)));
}

static void print_explanations(const struct mt_advice *advice, const struct order *order)
{
    putchar('\n');
    for (size_t i = 0; i < order->count; i++)
        if (is_first_of_its_kind(order, i))
            print_explanation(advice, order, i);
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
};

/* Prints the answer in one sentence: the finding that saves most, or nearly as much for nothing. */
static void print_headline(const struct mt_advice *advice, const struct order *order)
{
    char peak[MT_BYTES_TEXT], saved[MT_BYTES_TEXT], bytes[MT_BYTES_TEXT];
    mt_format_bytes(advice->peak_bytes, peak);
    if (order->most_bytes == 0) {
        mt_say("Nothing was found that would lower the peak of %s.", peak);
        putchar('\n');
        return;
    }
    const struct mt_finding *finding = order->items[0].finding;
    struct mt_text text = {0};
    assert(order->count > 0);
    mt_text_add(&text, "The peak of %s can fall by %s: %s (", peak, mt_format_bytes(finding->saved_bytes, saved),
                reasons[finding->pattern]);
    mt_finding_add_short_blocks(finding, &text);
    mt_text_add(&text, ", %s in %" PRIu64 " block%s).", mt_format_bytes(finding->bytes, bytes), finding->blocks,
                finding->blocks == 1 ? "" : "s");
    mt_print_line(&text);
    mt_say("→ %s", mt_hint_words(mt_finding_hint(finding)));
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
    mt_say("\nOptions that are named, on %s, each in a whole run with it:", simulated->device);
    mt_rows_print(&mt_advice_option_type, "change requested allocated reserved difference", NULL, rows,
                  simulated->count + 1);
    mt_advice_options_release(rows, simulated->count);
}

static void print_answer(const struct mt_advice_answer *answer)
{
    struct order order = order_findings(&answer->advice);
    print_headline(&answer->advice, &order);
    mt_question_print_title(answer->question);
    print_peaks(answer);
    if (order.count > 0) {
        print_findings(&order);
        print_explanations(&answer->advice, &order);
    }
    print_notes(answer);
    print_simulated(&answer->simulated);
    order_release(&order);
}

/* Returns the number of findings to show; whoever asks for all need not say how many that are. */
static size_t count_told(const struct advise_options *advise)
{
    enum { USUAL = 5 };
    if (advise->limit > 0)
        return (size_t)advise->limit;
    return advise->all ? INT32_MAX : USUAL;
}

static mt_status ask_advise(const struct mt_question *question, const void *given)
{
    const struct advise_options *advise = given;
    struct mt_advice_answer answer;
    mt_status status = mt_advice_answer_load(question, advise->all ? MT_ADVICE_ALL : MT_ADVICE_WORTHWHILE,
                                             count_told(advise), &answer);
    if (status == MT_OK)
        advise->trace.json ? mt_json_print(mt_advice_json(&answer)) : print_answer(&answer);
    mt_advice_answer_release(&answer);
    return status;
}

const struct mt_command mt_command_advise = {
    .name = "advise",
    .summary = "Finds what would lower the peak, and checks by replay by how much.",
    .usage = "[OPTIONS]",
    .details =
        "Looks for blocks that are there when nothing needs them: freed late, allocated early, idle between uses, "
        "never\n"
        "used, written and never read, kept in two precisions, left behind by every step, gradients kept through the\n"
        "forward pass; and for reserved memory that holds no block. What it saves is told of the peak of requested\n"
        "bytes (of fragmentation, which comes last, of reserved ones), and each claim is checked: the run's\n"
        "allocations are made again with the change, by an allocator of the same settings. What one option mends\n"
        "comes first if it saves a tenth of the most or more; then the largest saving. Savings do not add up: two\n"
        "findings may speak of the same bytes. Of a run of memtrace run, options that findings name though no replay\n"
        "could tell what they do, checkpointing and the optimizer in backward, are simulated.\n",
    .examples = "  memtrace advise\n"
                "  memtrace advise --all\n"
                "  memtrace advise --run 1 --json | jq '.findings[0]'\n",
    .options = options,
    MT_OPTIONS_OF(struct advise_options, .trace.trace = MT_DEFAULT_TRACE),
    .answer = &mt_advice_type,
    .ask = ask_advise,
};
