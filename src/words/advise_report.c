#include "words/advise_report.h"

#include "answer/table.h"
#include "base/order.h"
#include "words/advice_words.h"
#include "words/change_words.h"
#include "words/finding_words.h"
#include "words/first_remedies.h"
#include "words/observed_words.h"
#include "words/run_words.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* What the parts of the answer are printed from. */
struct report {
    const struct mt_screen *screen;
    const struct mt_advice_answer *answer;
    const struct mt_advice_input *input;
    const struct mt_advice *advice;
    struct mt_finding_row *rows; /* of advice->findings */
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

/* True of a program whose allocator is not known: reserved bytes of replays say nothing of it. */
static bool is_watched(const struct report *report)
{
    return report->input->program.kind == MT_PROGRAM_WATCHED;
}

/* ---- the headline ---- */

/* Prints which tensors the peak consists of. */
static void print_largest(const struct report *report)
{
    struct mt_text line = {0};
    mt_peak_tensor_add(report->answer, &line);
    if (line.length > 0)
        mt_screen_line(report->screen, &line);
    mt_text_release(&line);
}

/* Prints the answer in a few words. */
static void print_headline(const struct report *report)
{
    struct mt_remedy_list remedies = {0};
    mt_first_remedies_add_waste(&remedies, report->answer);
    if (remedies.count == 0 && report->answer->observations.count == 0)
        mt_screen_say(report->screen, "No waste was found that keeps up the peak of %s requested.",
                      MT_SIZE(report->advice->peak_bytes));
    mt_first_remedies_add_option(&remedies, report->answer);
    if (remedies.count > 0 && report->answer->observations.count == 0)
        print_largest(report);
    for (size_t i = 0; i < remedies.count; i++)
        mt_remedy_print(&remedies.items[i], report->screen);
    if (remedies.count > 0 || report->answer->observations.count == 0)
        mt_screen_gap(report->screen);
    mt_remedy_list_release(&remedies);
}

/* ---- peaks ---- */

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

static void print_peaks(const struct report *report)
{
    const struct mt_advice *advice = report->advice;
    struct mt_text moment = {0}, replayed = {0};
    struct peak_line lines[3] = {{.name = "now", .peaks = mt_advice_peaks(report->answer)}};
    size_t count = 1;
    add_moment(&moment, &report->answer->peaks[MT_MEASURE_REQUESTED]);
    lines[0].meaning = mt_text_get(&moment);
    mt_text_add(&replayed, "with ");
    mt_replayed_allocator_add(report->input, &replayed);
    mt_text_add(&replayed, advice->as_it_was.fits ? "; what follows is compared with this" : ", until memory ended");
    if (!is_watched(report) && !are_equal(&advice->as_it_was, &lines[0].peaks))
        lines[count++] = (struct peak_line){"replayed", advice->as_it_was, mt_text_get(&replayed)};
    if (advice->knows_uses)
        lines[count++] = (struct peak_line){"used only", advice->used_only,
                                            "if every block were there from its first to its last use only"};
    mt_screen_rows(report->screen, &peak_type, "name requested allocated reserved meaning", NULL, lines, count);
    mt_text_release(&moment);
    mt_text_release(&replayed);
}

/* ---- findings ---- */

static bool has_reserved(const struct mt_advice *advice)
{
    for (size_t i = 0; i < advice->count; i++)
        if (mt_finding_is_of_reserved(&advice->findings[i]))
            return true;
    return false;
}

static void print_findings(const struct report *report)
{
    const char *fields = is_watched(report) ? "number saved_bytes pattern what known_blocks bytes for cost"
                                            : "number saved_bytes pattern what known_blocks bytes for cost reserved";
    struct mt_text line = {0};
    mt_screen_gap(report->screen);
    mt_screen_rows(report->screen, &mt_finding_type, fields, "known_blocks cost for bytes", report->rows,
                   report->advice->count);
    mt_text_add(&line, "\nEach was replayed");
    if (!is_watched(report)) {
        mt_text_add(&line, " with ");
        mt_replayed_allocator_add(report->input, &line);
    }
    mt_text_add(&line, ": the peak of requested bytes%s falls by the bytes shown.",
                has_reserved(report->advice) ? " (for fragmentation, of reserved bytes)" : "");
    mt_screen_line(report->screen, &line);
}

/* Adds the places of the free bytes, and the block that the last segment was mapped for. */
static void add_places(struct mt_text *out, const struct mt_fragmentation *found, const struct mt_finding *finding)
{
    struct mt_text what = {0};
    mt_text_add(out, "When %s were reserved, %s were in %" PRIu64 " gap%s between blocks",
                MT_SIZE(found->reserved_bytes), MT_SIZE(found->hole_bytes), found->hole_count,
                found->hole_count == 1 ? "" : "s");
    if (found->hole_bytes > 0) {
        mt_finding_add_blocks(finding, &what);
        mt_text_add(out, " (most next to %s)", mt_text_get(&what));
    }
    mt_text_add(
        out, " and %s in segments without a block; the largest of these pieces was %s, and memory was mapped for %s.",
        MT_SIZE(found->idle_bytes), MT_SIZE(found->largest_bytes), MT_SIZE(found->asked_bytes));
    if (found->pool_bytes > 0)
        mt_text_add(out, " %s of it is in private pools, such as pools of CUDA graphs, which serve no other blocks.",
                    MT_SIZE(found->pool_bytes));
    mt_text_release(&what);
}

/* Adds what is reserved in vain, by the run or, with another allocator, by its replay. */
static void add_reserved(struct mt_text *out, const struct report *report, const struct mt_finding *finding)
{
    const struct mt_replay_result *replayed = &report->advice->as_it_was;
    if (report->input->is_another)
        mt_text_add(out, "For %s allocated at most %s are reserved.", MT_SIZE(replayed->allocated_bytes),
                    MT_SIZE(replayed->reserved_bytes));
    else
        add_places(out, &report->advice->fragmentation, finding);
    mt_text_add(out, " Replayed with ");
    mt_alloc_settings_format_short(&finding->alloc, out);
    mt_text_add(out, ", it is %s.", MT_SIZE(finding->replay.reserved_bytes));
}

/* True if one sentence explains both findings: they are of one pattern and have one hint, which may name the holder. */
static bool are_alike(const struct mt_advice *advice, size_t a, size_t b)
{
    const struct mt_finding *one = &advice->findings[a], *other = &advice->findings[b];
    return one->pattern == other->pattern && mt_finding_hint(one) == mt_finding_hint(other) &&
           (one->pattern != MT_PATTERN_LEAK || one->holder == other->holder);
}

static bool is_first_of_its_kind(const struct mt_advice *advice, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (are_alike(advice, i, index))
            return false;
    return true;
}

/* Adds "180 ms (5462 events)" of one finding, "176 ms to 182 ms" of several. */
static void add_durations(struct mt_text *out, const struct mt_advice *advice, size_t first)
{
    uint64_t least = advice->findings[first].ns, most = least;
    size_t count = 0;
    char from[DURATION_TEXT], to[DURATION_TEXT];
    for (size_t i = first; i < advice->count; i++) {
        if (!are_alike(advice, i, first))
            continue;
        least = mt_smaller(advice->findings[i].ns, least);
        most = mt_larger(advice->findings[i].ns, most);
        count++;
    }
    mt_text_add(out, "%s", format_duration(least, from));
    if (count == 1)
        mt_text_add(out, " (%" PRId64 " events)", advice->findings[first].events);
    else if (strcmp(from, format_duration(most, to)) != 0)
        mt_text_add(out, " to %s", to);
}

/* Prints the sentence about a finding and those like it, and the hint. */
static void print_explanation(const struct report *report, size_t first)
{
    const struct mt_finding *finding = &report->advice->findings[first];
    const struct mt_finding_words *words = &mt_finding_words[finding->pattern];
    struct mt_text text = {0};
    for (size_t i = first; i < report->advice->count; i++)
        if (are_alike(report->advice, i, first))
            mt_text_add(&text, "%s%" PRId64, i > first ? ", " : "", report->rows[i].number);
    mt_text_add(&text, ". ");
    if (mt_finding_is_of_reserved(finding)) {
        add_reserved(&text, report, finding);
    } else {
        mt_text_add(&text, "%s ", words->before);
        add_durations(&text, report->advice, first);
        mt_text_add(&text, "%s.", words->after);
    }
    mt_screen_line(report->screen, &text);
    mt_screen_say(report->screen, "   → %s", mt_text_get(&report->rows[first].hint));
}

static void print_explanations(const struct report *report)
{
    const struct mt_advice *advice = report->advice;
    mt_screen_gap(report->screen);
    for (size_t i = 0; i < advice->count; i++)
        if (is_first_of_its_kind(advice, i))
            print_explanation(report, i);
    for (size_t i = 0; i < advice->count; i++)
        if (!advice->findings[i].replay.fits)
            mt_screen_say(report->screen,
                          "%" PRId64
                          ". Replayed with this change, the run is out of memory: its blocks leave larger gaps.",
                          report->rows[i].number);
}

/* ---- the rest ---- */

static void print_notes(const struct report *report)
{
    const struct mt_advice_material *material = &report->answer->material;
    size_t left_out = report->advice->left_out;
    assert(material->is_whole || material->first_step <= material->last_step);
    if (!report->advice->knows_uses)
        mt_screen_say(
            report->screen,
            "\nThis trace does not record tensor uses, so blocks that are freed too late were not looked for.");
    if (!material->is_whole)
        mt_screen_say(report->screen,
                      "\nReplays use the events of steps %" PRId64 " to %" PRId64
                      ", around the peak, of the run's %" PRId64 ", and begin with the blocks that were live then.",
                      material->first_step, material->last_step, report->answer->question->run->event_count);
    if (left_out > 0)
        mt_screen_say(report->screen, "\n%zu more kind%s of blocks could be freed earlier; --all lists them.", left_out,
                      left_out == 1 ? "" : "s");
}

static void print_simulated(const struct report *report)
{
    const struct mt_simulated_advice *simulated = &report->answer->simulated;
    if (simulated->count == 0)
        return;
    struct mt_advice_option_row *rows = mt_advice_options_create(simulated);
    mt_screen_say(report->screen, "\nOptions of memtrace run, on %s, each in a whole run with it:", simulated->device);
    mt_screen_rows(report->screen, &mt_advice_option_type, "change requested allocated reserved difference", NULL, rows,
                   simulated->count + 1);
    mt_rows_release(&mt_advice_option_type, rows, simulated->count + 1);
}

/* Prints the lines of the program that asked for most of the peak; of a dry run, also how changes of it can be
 * tried. */
static void print_lines(const struct report *report)
{
    const struct mt_peak_lines *lines = &report->answer->lines;
    if (lines->count > 0) {
        mt_screen_say(report->screen, "\nMost of the peak was allocated by:");
        mt_screen_rows(report->screen, &mt_peak_line_type, NULL, "blocks", lines->items, lines->count);
    }
    if (report->input->program.is_dry)
        mt_screen_say(report->screen,
                      "\nmemtrace fit -- PROGRAM runs the program dry with changes, and shows what each saves.");
}

void mt_advise_print(const struct mt_advice_answer *answer, const struct mt_screen *screen)
{
    const struct mt_advice_input *input = &answer->material.input;
    struct report report = {.screen = screen,
                            .answer = answer,
                            .input = input,
                            .advice = &answer->advice,
                            .rows = mt_finding_rows_create(&answer->advice, &input->program)};
    mt_observations_print(&answer->observations, screen);
    if (mt_observations_have_words(&answer->observations))
        mt_screen_gap(screen);
    print_headline(&report);
    mt_run_title_print(answer->question->run, screen);
    print_peaks(&report);
    if (answer->advice.count > 0) {
        print_findings(&report);
        print_explanations(&report);
    }
    print_notes(&report);
    print_simulated(&report);
    mt_changes_print(&answer->changes, &input->program, screen);
    print_lines(&report);
    mt_rows_release(&mt_finding_type, report.rows, answer->advice.count);
}
