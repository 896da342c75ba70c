#include "words/oom_report.h"

#include "answer/escape.h"
#include "answer/table.h"
#include "base/order.h"
#include "words/observed_words.h"
#include "words/oom_words.h"
#include "words/run_words.h"

#include <assert.h>
#include <inttypes.h>

/* ---- the request ---- */

/* Prints "The device refused 16.00 MiB (16777216 bytes) of FFN, for swiglu.silu: saved, fp32 (4,256,4096)". */
static void print_what(const struct mt_oom_request_row *request, const struct mt_screen *screen)
{
    const struct mt_label_row *label = &request->label;
    uint64_t bytes = request->refusal.mark.value;
    bool has_dtype = label->dtype[0] != '\0', has_shape = label->shape[0] != '\0';
    mt_screen_say(screen, "The device refused %s (%" PRIu64 " bytes) of %s, for %s: %s%s%s%s%s%s", MT_SIZE(bytes),
                  bytes, label->category, label->op, label->role, has_dtype ? ", " : "", label->dtype,
                  has_shape ? " (" : "", label->shape, has_shape ? ")" : "");
}

static void print_where(const struct mt_oom_answer *answer, const struct mt_oom_request_row *request,
                        const struct mt_screen *screen)
{
    const struct mt_label_row *label = &request->label;
    uint64_t alike = answer->refusal.alike;
    char step[MT_BYTES_TEXT];
    struct mt_text line = {0};
    const char *span = label->span[0] != '\0' ? label->span : answer->refusal.mark.span;
    mt_text_add(&line, "%s%s%sin %s", span[0] != '\0' ? "at " : "", span, span[0] != '\0' ? ", " : "", label->phase);
    if (answer->step != MT_NO_STEP)
        mt_text_add(&line, " of %s", mt_format_step(answer->step, step));
    mt_text_add(&line, ". ");
    if (alike == 0)
        mt_text_add(&line, "No such request came before");
    else
        mt_text_add(&line, "%" PRIu64 " such request%s succeeded before", alike, alike == 1 ? "" : "s");
    if (!answer->material.is_whole)
        mt_text_add(&line, " since step %" PRId64, answer->material.first_step);
    mt_text_add(&line, ".");
    mt_screen_line(screen, &line);
}

/* ---- the memory that there was ---- */

/* A line of the table of memory. */
struct memory_line {
    const char *name;
    uint64_t bytes;
    const char *meaning;
};

static const struct mt_field memory_fields[] = {
    MT_SHOWN(TEXT, const char *, struct memory_line, name, "name", "memory"),
    MT_SHOWN(BYTES, uint64_t, struct memory_line, bytes, "size", "size"),
    MT_SHOWN(COUNT, uint64_t, struct memory_line, bytes, "bytes", "bytes"),
    MT_SHOWN(TEXT, const char *, struct memory_line, meaning, "meaning", ""),
    MT_FIELDS_END,
};
static const struct mt_row_type memory_type = MT_ROW_TYPE(struct memory_line, memory_fields);

static void add_given_back(const struct mt_refusal *refusal, struct mt_text *out)
{
    bool is_one = refusal->given_back_segments == 1;
    if (refusal->given_back_segments == 0)
        mt_text_add(out, "no segment was idle, so none could be freed");
    else
        mt_text_add(out, "after %" PRIu64 " idle segment%s of %s %s freed, which was not enough",
                    refusal->given_back_segments, is_one ? "" : "s", MT_SIZE(refusal->given_back_bytes),
                    is_one ? "was" : "were");
}

static void add_holes(const struct mt_refusal *refusal, struct mt_text *out)
{
    mt_text_add(out, "free between blocks, in %" PRIu64 " gap%s", refusal->hole_count,
                refusal->hole_count == 1 ? "" : "s");
    if (refusal->hole_count > 0)
        mt_text_add(out, ", the largest of %s", MT_SIZE(refusal->largest_hole_bytes));
}

static void print_memory(const struct mt_oom_answer *answer, const struct mt_screen *screen)
{
    const struct mt_refusal *refusal = &answer->refusal;
    bool knows_capacity = mt_oom_knows_capacity(answer), knows_free = mt_oom_knows_free(answer);
    struct mt_text given_back = {0}, holes = {0};
    assert(refusal->reserved_bytes == refusal->allocated_bytes + refusal->hole_bytes);
    add_given_back(refusal, &given_back);
    add_holes(refusal, &holes);
    const struct {
        bool is_shown;
        struct memory_line line;
    } lines[] = {
        {knows_capacity, {"capacity", refusal->capacity_bytes, ""}},
        {true, {"reserved", refusal->reserved_bytes, mt_text_get(&given_back)}},
        {true, {"  live", refusal->allocated_bytes, ""}},
        {true, {"  gaps", refusal->hole_bytes, mt_text_get(&holes)}},
        {knows_capacity, {"not reserved", mt_refusal_left(refusal), ""}},
        {true,
         {"needed", refusal->needed_bytes,
          refusal->grows ? "no free gap was large enough; a segment would have had to grow by this"
                         : "for a new segment: no free gap was large enough"}},
        {knows_free, {"device free", (uint64_t)refusal->device_free_bytes, "by its driver, when it refused"}},
        {refusal->short_bytes > 0,
         {"short", refusal->short_bytes,
          knows_free ? "needed, less what the device had free" : "needed, less what is not reserved"}},
    };
    struct memory_line shown[sizeof lines / sizeof lines[0]];
    size_t count = 0;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (lines[i].is_shown)
            shown[count++] = lines[i].line;
    mt_screen_gap(screen);
    mt_screen_rows(screen, &memory_type, "name size bytes meaning", NULL, shown, count);
    mt_text_release(&given_back);
    mt_text_release(&holes);
}

static void print_need_of_run(const struct mt_oom_answer *answer, const struct mt_screen *screen)
{
    const struct mt_fit *fit = &answer->fit.fit;
    if (!answer->is_simulated)
        return;
    assert(!fit->fits && fit->enough_bytes > fit->capacity_bytes);
    mt_screen_say(screen, "Simulated to its end, the run as it is needs %s, %s more than there is.",
                  MT_SIZE(fit->enough_bytes), MT_SIZE((uint64_t)-mt_fit_room_bytes(fit)));
    if (answer->smallest_card != NULL)
        mt_screen_say(
            screen,
            "No change that was simulated makes it fit; the smallest of the known cards that it fits is sim:%s.",
            answer->smallest_card);
}

/* ---- what was live ---- */

/* Live blocks of one kind, as a table has them. */
struct live_line {
    struct mt_text name;
    uint64_t bytes, blocks;
    double share;
};

static const struct mt_field live_fields[] = {
    MT_SHOWN_OWNED(TEXT, struct live_line, name, "role", "live, by role"),
    MT_SHOWN_OWNED(TEXT, struct live_line, name, "category", "live, by category"),
    MT_SHOWN_OWNED(TEXT, struct live_line, name, "place", "live, by place"),
    MT_SHOWN(BYTES, uint64_t, struct live_line, bytes, "bytes", "allocated"),
    MT_SHOWN(SHARE, double, struct live_line, share, "share", "share"),
    MT_SHOWN(COUNT, uint64_t, struct live_line, blocks, "blocks", "blocks"),
    MT_FIELDS_END,
};
static const struct mt_row_type live_type = MT_ROW_TYPE(struct live_line, live_fields);

/* Prints up to SHARE_ROWS rows, the last of which is the sum of the others. */
static void print_shares(const struct mt_oom_answer *answer, const struct mt_oom_shares *shares, const char *fields,
                         const struct mt_screen *screen)
{
    enum { SHARE_ROWS = 6 };
    struct live_line lines[SHARE_ROWS] = {{{0}, 0, 0, 0}};
    size_t named = shares->count <= SHARE_ROWS ? shares->count : SHARE_ROWS - 1;
    size_t count = mt_smaller(shares->count, SHARE_ROWS);
    for (size_t i = 0; i < shares->count; i++) {
        const struct mt_oom_share *share = &shares->items[i];
        struct live_line *line = &lines[mt_smaller(i, named)];
        if (i < named)
            mt_text_add(&line->name, "%s%s%s", share->category, share->place[0] != '\0' ? " at " : "", share->place);
        else if (i == named)
            mt_text_add(&line->name, "(%zu others)", shares->count - named);
        line->bytes += share->allocated_bytes;
        line->blocks += share->blocks;
        line->share = (double)line->bytes / (double)answer->refusal.allocated_bytes;
    }
    mt_screen_gap(screen);
    mt_screen_rows(screen, &live_type, fields, NULL, lines, count);
    for (size_t i = 0; i < count; i++)
        mt_text_release(&lines[i].name);
}

/* Prints what was live. Categories of our model say most; of others roles are known better. */
static void print_live(const struct mt_oom_answer *answer, const struct mt_screen *screen)
{
    if (answer->categories.count == 0) {
        mt_screen_say(screen, "\nNothing was live.");
        return;
    }
    if (answer->is_ours)
        print_shares(answer, &answer->categories, "category bytes share blocks", screen);
    else
        print_shares(answer, &answer->roles, "role bytes share blocks", screen);
    print_shares(answer, &answer->places, "place bytes share blocks", screen);
}

/* ---- changes ---- */

static bool has_proof(const struct mt_oom_row *row, mt_oom_proof proof)
{
    for (size_t i = 0; i < row->change_count; i++)
        if (row->changes[i].proof == proof)
            return true;
    return false;
}

/* Prints the changes, under them the command or the hint of each, and how they were proved. */
static void print_changes(const struct mt_oom_answer *answer, const struct mt_oom_row *row,
                          const struct mt_screen *screen)
{
    mt_screen_gap(screen);
    mt_screen_rows(screen, &mt_oom_change_type, "number change proof reserved_bytes room_bytes", NULL, row->changes,
                   row->change_count);
    for (size_t i = 0; i < row->change_count; i++) {
        const struct mt_oom_change_row *change = &row->changes[i];
        struct mt_text command = {0};
        mt_text_add_visible(&command, mt_text_get(&change->command));
        if (change->command.length == 0)
            mt_screen_say(screen, "%zu. %s", i + 1, mt_text_get(&change->hint));
        else /* in one piece, so that it can be copied */
            fprintf(screen->file, "%zu. %s\n", i + 1, command.data);
        mt_text_release(&command);
    }
    mt_screen_gap(screen);
    if (has_proof(row, MT_PROOF_SIMULATION))
        mt_screen_say(screen, "Simulation: the whole run with the change, on %s, ran to its end.",
                      answer->simulated_device);
    if (has_proof(row, MT_PROOF_REPLAY))
        mt_screen_say(screen, "Replay: with the change, the run up to and including this request fits; later requests "
                              "of the step are unknown.");
}

/* Prints the bytes that would have to go, where no change that was tried suffices. */
static void print_nothing_suffices(const struct mt_oom_answer *answer, const struct mt_screen *screen)
{
    if (mt_refusal_is_limited(&answer->refusal))
        mt_screen_say(screen, "\nNo change that was tried fits under the limit.");
    else if (answer->refusal.short_bytes > 0)
        mt_screen_say(screen, "\nNo change that was tried is enough: at least %s of live memory%s must go.",
                      MT_SIZE(answer->refusal.short_bytes),
                      mt_oom_knows_free(answer) ? ", or of other processes' memory," : "");
    else
        mt_screen_say(screen, "\nNo change that was tried is enough: other processes on the device may have to end.");
}

/* Prints the changes that were simulated in vain, and the bytes that each lacks. */
static void print_in_vain(const struct mt_oom_answer *answer, const struct mt_screen *screen)
{
    struct mt_text line = {0};
    for (size_t i = 0; i < answer->fit.single_count; i++) {
        const struct mt_fit_remedy *remedy = &answer->fit.single[i];
        if (remedy->fit.fits)
            continue;
        mt_text_add(&line, line.length == 0 ? "Simulated too, and not enough: " : ", ");
        mt_fit_remedy_add_changes(remedy, &line);
        mt_text_add(&line, " (%s short)", MT_SIZE((uint64_t)-mt_fit_room_bytes(&remedy->fit)));
    }
    if (line.length > 0)
        mt_screen_line(screen, &line);
}

static void print_notes(const struct mt_oom_answer *answer, const struct mt_screen *screen)
{
    if (answer->is_ours && !answer->is_simulated)
        mt_screen_say(screen,
                      "Simulated on %s, the run as it is does not run out of memory: changes to it were not simulated.",
                      answer->simulated_device);
    if (!answer->replayed.is_reproduced)
        mt_screen_say(screen, "A replay does not run out of memory where the run did: changes were not replayed.");
    if (mt_oom_knows_capacity(answer) && answer->limit_bytes != answer->refusal.capacity_bytes)
        mt_screen_say(screen, "Changes had to fit into the %s that the run held at the request: %s the rest.",
                      MT_SIZE(answer->limit_bytes),
                      mt_refusal_is_limited(&answer->refusal) ? "a limit kept it from" : "others held");
}

/* Adds what keeps memory, and what to do about it. */
static void add_observed(const struct mt_observed *observed, struct mt_text *line)
{
    if (observed->holder != NULL) {
        mt_text_add(line, "; the cause is ");
        mt_holder_add_name(observed->holder, line);
    }
    mt_text_add(line, "; first remedy: %s", mt_observed_change_words(observed->change));
}

/* Prints the answer in one line: what was short and where, the largest part of what was live, and the first change. */
static void print_headline(const struct mt_oom_answer *answer, const struct mt_oom_row *row,
                           const struct mt_screen *screen)
{
    const struct mt_refusal *refusal = &answer->refusal;
    const struct mt_oom_shares *parts = answer->is_ours ? &answer->categories : &answer->roles;
    struct mt_text line = {0};
    char step[MT_BYTES_TEXT];
    if (mt_refusal_is_limited(refusal))
        mt_text_add(&line, "A limit of the process refused %s", MT_SIZE(refusal->mark.value));
    else if (refusal->short_bytes > 0)
        mt_text_add(&line, "Short by %s", MT_SIZE(refusal->short_bytes));
    else
        mt_text_add(&line, "No room for %s", MT_SIZE(refusal->mark.value));
    mt_text_add(&line, " in %s", row->request.label.phase);
    if (answer->step != MT_NO_STEP)
        mt_text_add(&line, " of %s", mt_format_step(answer->step, step));
    if (parts->count > 0 && refusal->allocated_bytes > 0)
        mt_text_add(&line, "; %s is %.0f %% of the %s that were live", parts->items[0].category,
                    100 * (double)parts->items[0].allocated_bytes / (double)refusal->allocated_bytes,
                    MT_SIZE(refusal->allocated_bytes));
    if (answer->observations.count > 0)
        add_observed(&answer->observations.items[0], &line);
    else if (row->change_count > 0)
        mt_text_add(&line, "; first remedy: %s", mt_text_get(&row->changes[0].change));
    mt_text_add(&line, ".");
    mt_screen_line(screen, &line);
}

void mt_oom_print(const struct mt_oom_answer *answer, const struct mt_screen *screen)
{
    struct mt_oom_row row;
    mt_oom_row_create(answer, &row);
    print_headline(answer, &row, screen);
    mt_run_title_print(answer->question->run, screen);
    print_what(&row.request, screen);
    print_where(answer, &row.request, screen);
    print_memory(answer, screen);
    mt_screen_say(screen, "\n%s", mt_text_get(&row.verdict));
    print_need_of_run(answer, screen);
    if (row.hole_count > 0) {
        mt_screen_gap(screen);
        mt_screen_rows(screen, &mt_oom_hole_type, "segments count bytes largest_bytes why", "bytes count", row.holes,
                       row.hole_count);
    }
    print_live(answer, screen);
    if (mt_observations_have_words(&answer->observations))
        mt_screen_gap(screen);
    mt_observations_print(&answer->observations, screen);
    if (row.change_count > 0)
        print_changes(answer, &row, screen);
    else
        print_nothing_suffices(answer, screen);
    print_in_vain(answer, screen);
    print_notes(answer, screen);
    mt_oom_row_release(&row);
}
