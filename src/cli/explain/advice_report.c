#include "cli/explain/advice_report.h"

#include "answer/table.h"
#include "base/memory.h"
#include "cli/explain/hint_words.h"
#include "cli/output/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DURATION_TEXT = 32 };

/* "12.3 us", "4.56 ms", "1.20 s": into `text` of DURATION_TEXT bytes, which it returns. */
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

static void add_peaks(struct mt_table *table, const char *what, const uint64_t bytes[MT_MEASURE_COUNT],
                      const char *meaning)
{
    mt_table_add(table, what);
    mt_table_add_bytes(table, bytes[MT_MEASURE_REQUESTED]);
    mt_table_add_bytes(table, bytes[MT_MEASURE_ALLOCATED]);
    mt_table_add_bytes(table, bytes[MT_MEASURE_RESERVED]);
    mt_table_add(table, meaning);
}

static void add_replay(struct mt_table *table, const char *what, const struct mt_replay_result *replay,
                       const char *meaning)
{
    const uint64_t bytes[MT_MEASURE_COUNT] = {[MT_MEASURE_REQUESTED] = replay->requested_bytes,
                                              [MT_MEASURE_ALLOCATED] = replay->allocated_bytes,
                                              [MT_MEASURE_RESERVED] = replay->reserved_bytes};
    add_peaks(table, what, bytes, meaning);
}

/* The replay of what was: what it is compared with, where that is not the run's own peaks. */
static bool is_as_recorded(const struct mt_run_peaks *peaks, const struct mt_replay_result *replay)
{
    return replay->requested_bytes == peaks->of[MT_MEASURE_REQUESTED].bytes &&
           replay->allocated_bytes == peaks->of[MT_MEASURE_ALLOCATED].bytes &&
           replay->reserved_bytes == peaks->of[MT_MEASURE_RESERVED].bytes;
}

/* When the peak of requested bytes was, and who asked then. */
static void add_moment(struct mt_text *out, const struct mt_peak_row *peak)
{
    char step[MT_BYTES_TEXT];
    if (peak->bytes == 0)
        return;
    mt_text_add(out, "reached in %s, %s", mt_format_step(peak->step, step), peak->phase);
    if (peak->span != NULL && peak->span[0] != '\0')
        mt_text_add(out, ", by %s", peak->span);
}

static void print_peaks(const struct mt_run_peaks *peaks, const struct mt_advice *advice)
{
    static const struct mt_column columns[] = {{"peak", MT_ALIGN_LEFT},
                                               {"requested", MT_ALIGN_RIGHT},
                                               {"allocated", MT_ALIGN_RIGHT},
                                               {"reserved", MT_ALIGN_RIGHT},
                                               {"", MT_ALIGN_LEFT}};
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    struct mt_text moment = {0};
    uint64_t now[MT_MEASURE_COUNT];
    for (int measure = 0; measure < MT_MEASURE_COUNT; measure++)
        now[measure] = peaks->of[measure].bytes;
    add_moment(&moment, &peaks->of[MT_MEASURE_REQUESTED]);
    add_peaks(table, "now", now, mt_text_get(&moment));
    if (!is_as_recorded(peaks, &advice->as_it_was))
        add_replay(table, "replayed", &advice->as_it_was, "without a change; what follows is compared with this");
    if (advice->knows_uses)
        add_replay(table, "used only", &advice->used_only, "if every block were there from its first to its last use");
    mt_table_print(table);
    mt_table_destroy(table);
    mt_text_release(&moment);
}

/* A finding in its place. */
struct shown {
    const struct mt_finding *finding;
    size_t number; /* from 1 */
    bool is_part;  /* of the last one before it that is not */
};

/* The findings as they are shown. */
struct order {
    struct shown *items;
    size_t count;
    uint64_t most_bytes; /* the largest saving of requested bytes */
};

/* What one option mends comes first, if that is worth it; what saves reserved bytes is not compared with what saves
 * requested ones. */
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

static void place(struct order *order, const struct mt_finding *finding, bool is_part)
{
    if (is_placed(order, finding))
        return;
    order->items[order->count] = (struct shown){.finding = finding, .number = order->count + 1, .is_part = is_part};
    order->count++;
}

static void place_parts(struct order *order, const struct mt_advice *advice, const struct mt_finding *whole)
{
    for (size_t i = 0; i < advice->count; i++)
        if (mt_finding_is_part(&advice->findings[i], whole))
            place(order, &advice->findings[i], true);
}

static bool has_whole(const struct mt_advice *advice, const struct mt_finding *finding)
{
    for (size_t i = 0; i < advice->count; i++)
        if (mt_finding_is_part(finding, &advice->findings[i]))
            return true;
    return false;
}

/* By rank, inside of it as they come, which is by savings; parts follow their whole. Release the items. */
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
            place(&order, finding, false);
            place_parts(&order, advice, finding);
        }
    return order;
}

/* "einsum backward, model.layers.*.ffn": what the blocks of a finding have in common. */
static void add_what(struct mt_text *out, const struct mt_finding *finding)
{
    bool has_op = finding->op[0] != '\0';
    const char *const words[] = {finding->category, has_op ? "" : finding->role, finding->op, finding->phase};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (words[i][0] != '\0' && (i != 2 || strcmp(finding->op, finding->category) != 0))
            mt_text_add(out, "%s%s", out->length > 0 ? " " : "", words[i]);
    if (finding->place[0] != '\0')
        mt_text_add(out, ", %s", finding->place);
}

/* The same in few characters: the op, or category and role, and the place in its layer. */
static void add_short_what(struct mt_text *out, const struct mt_finding *finding)
{
    static const char layers[] = "layers.*.";
    const char *layer = strstr(finding->place, layers);
    if (finding->op[0] != '\0')
        mt_text_add(out, "%s", finding->op);
    else
        mt_text_add(out, "%s%s%s", finding->category, finding->category[0] != '\0' ? " " : "", finding->role);
    if (finding->place[0] != '\0')
        mt_text_add(out, ", %s", layer != NULL ? layer + strlen(layers) : finding->place);
}

static void add_finding(struct mt_table *table, const struct shown *shown)
{
    const struct mt_finding *finding = shown->finding;
    bool is_timed = finding->pattern != MT_PATTERN_FRAGMENTATION;
    char milliseconds[DURATION_TEXT];
    struct mt_text what = {0};
    mt_text_add(&what, "%s", shown->is_part ? "· " : "");
    add_short_what(&what, finding);
    snprintf(milliseconds, sizeof milliseconds, "%.2f ms", (double)finding->ns * 1e-6);
    mt_table_add_number(table, (int64_t)shown->number);
    mt_table_add_bytes(table, finding->saved_bytes);
    mt_table_add(table, mt_pattern_name(finding->pattern));
    mt_table_add(table, mt_text_get(&what));
    mt_table_add_number(table, (int64_t)finding->blocks);
    mt_table_add_bytes(table, finding->bytes);
    mt_table_add(table, is_timed ? milliseconds : "");
    mt_table_add(table, mt_remedy_cost_name(mt_finding_cost(finding)));
    mt_table_add_bytes(table, finding->replay.reserved_bytes);
    mt_text_release(&what);
}

static void print_findings(const struct order *order)
{
    static const struct mt_column columns[] = {
        {"#", MT_ALIGN_RIGHT},   {"saves", MT_ALIGN_RIGHT},  {"pattern", MT_ALIGN_LEFT},
        {"what", MT_ALIGN_LEFT}, {"blocks", MT_ALIGN_RIGHT}, {"bytes", MT_ALIGN_RIGHT},
        {"for", MT_ALIGN_RIGHT}, {"costs", MT_ALIGN_LEFT},   {"reserved then", MT_ALIGN_RIGHT}};
    static const char *const spare[] = {"blocks", "costs", "for", "bytes", NULL};
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    mt_table_spare(table, spare);
    for (size_t i = 0; i < order->count; i++)
        add_finding(table, &order->items[i]);
    putchar('\n');
    mt_table_print(table);
    mt_table_destroy(table);
    puts("\nEach was replayed: the peak of requested bytes falls by what is said (of fragmentation, that of reserved "
         "ones).");
}

/* What a pattern says of its blocks, before and after for how long. */
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

/* Where the free bytes are, and what the last segment was needed for. */
static void add_fragmentation(struct mt_text *out, const struct mt_fragmentation *found,
                              const struct mt_finding *finding)
{
    char text[MT_BYTES_TEXT];
    struct mt_text what = {0};
    mt_text_add(out, "When %s were reserved, ", mt_format_bytes(found->reserved_bytes, text));
    mt_text_add(out, "%s were in %" PRIu64 " hole%s between blocks", mt_format_bytes(found->hole_bytes, text),
                found->hole_count, found->hole_count == 1 ? "" : "s");
    if (found->hole_bytes > 0) {
        add_what(&what, finding);
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

/* "180 ms (5462 events)" of one finding, "176 ms to 182 ms" of several. */
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
            mt_text_add(out, "%s%zu", i > first ? ", " : "", order->items[i].number);
}

/* What is the matter with a finding and those like it, and what to do. */
static void print_explanation(const struct mt_advice *advice, const struct order *order, size_t first)
{
    const struct mt_finding *finding = order->items[first].finding;
    struct mt_text text = {0};
    add_numbers(&text, order, first);
    mt_text_add(&text, ". ");
    if (finding->pattern == MT_PATTERN_FRAGMENTATION) {
        add_fragmentation(&text, &advice->fragmentation, finding);
    } else {
        mt_text_add(&text, "%s ", explanations[finding->pattern].before);
        add_durations(&text, order, first);
        mt_text_add(&text, "%s.", explanations[finding->pattern].after);
    }
    mt_print_name(mt_text_get(&text));
    printf("\n   → %s\n", mt_hint_words(mt_finding_hint(finding)));
    mt_text_release(&text);
}

static void print_explanations(const struct mt_advice *advice, const struct order *order)
{
    putchar('\n');
    for (size_t i = 0; i < order->count; i++)
        if (is_first_of_its_kind(order, i))
            print_explanation(advice, order, i);
    for (size_t i = 0; i < order->count; i++)
        if (!order->items[i].finding->replay.fits)
            printf("%zu. Replayed so, the run would be out of memory: its segments would lie less well.\n",
                   order->items[i].number);
}

/* What the blocks of a finding do, in a sentence that goes on with what they are. */
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

/* The answer in one sentence: what saves most, or nearly as much and costs nothing. */
static void print_headline(const struct mt_advice *advice, const struct order *order)
{
    char peak[MT_BYTES_TEXT], saved[MT_BYTES_TEXT], bytes[MT_BYTES_TEXT];
    mt_format_bytes(advice->peak_bytes, peak);
    if (order->most_bytes == 0) {
        printf("Nothing was found that would lower the peak of %s.\n\n", peak);
        return;
    }
    const struct mt_finding *finding = order->items[0].finding;
    struct mt_text text = {0};
    mt_text_add(&text, "The peak of %s can fall by %s: %s (", peak, mt_format_bytes(finding->saved_bytes, saved),
                reasons[finding->pattern]);
    add_short_what(&text, finding);
    mt_text_add(&text, ", %s in %" PRIu64 " block%s).", mt_format_bytes(finding->bytes, bytes), finding->blocks,
                finding->blocks == 1 ? "" : "s");
    mt_print_name(mt_text_get(&text));
    printf("\n→ %s\n\n", mt_hint_words(mt_finding_hint(finding)));
    mt_text_release(&text);
}

static void print_notes(const struct mt_question *question, const struct mt_advice_material *material,
                        const struct mt_advice *advice)
{
    if (!advice->knows_uses)
        puts("\nThe run's program told no use of any block: only what can be said without is said here.");
    if (!material->is_whole)
        printf("\nOf the run's %" PRId64 " events these are those of steps %" PRId64 " to %" PRId64
               ", around the peak: replays begin with what was live then.\n",
               question->run->event_count, material->first_step, material->last_step);
    if (advice->left_out > 0)
        printf("\n%zu more kind%s of blocks could be there for less time: --all tells of them.\n", advice->left_out,
               advice->left_out == 1 ? "" : "s");
}

void mt_advice_print(const struct mt_question *question, const struct mt_advice_material *material,
                     const struct mt_run_peaks *peaks, const struct mt_advice *advice)
{
    struct order order = order_findings(advice);
    print_headline(advice, &order);
    mt_question_print_title(question);
    print_peaks(peaks, advice);
    if (order.count > 0) {
        print_findings(&order);
        print_explanations(advice, &order);
    }
    print_notes(question, material, advice);
    free(order.items);
}
