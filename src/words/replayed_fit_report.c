#include "words/replayed_fit_report.h"

#include "answer/answer.h"
#include "words/advice_words.h"
#include "words/change_words.h"
#include "words/run_words.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>

/* The answer as JSON has it. */
struct fit_row {
    const char *device, *smallest_card;
    uint64_t memory_bytes, reserve_bytes, capacity_bytes;
    struct mt_text alloc;
    bool fits, is_assumed, knows_batch;
    struct mt_replay_result had, as_it_was;
    int64_t room_bytes, batch;
    double batch_factor;
    const struct mt_replay_result *checked, *other_had;
    struct mt_change_rows changes;
};

#define ROW struct fit_row
static const struct mt_field fit_fields[] = {
    MT_TEXT(ROW, device, "on", NULL, "the device that is asked about"),
    MT_BYTES(ROW, memory_bytes, "memory_bytes", NULL, NULL),
    MT_BYTES(ROW, reserve_bytes, "reserve_bytes", NULL, NULL),
    MT_BYTES(ROW, capacity_bytes, "capacity_bytes", NULL, NULL),
    MT_OWNED(ROW, alloc, "alloc", NULL, NULL),
    MT_FLAG(ROW, fits, "fits", NULL, NULL),
    MT_INTEGER(ROW, room_bytes, "room_bytes", NULL, NULL),
    MT_ROW(ROW, had, "peak", &mt_replay_peak_type, NULL),
    MT_ROW(ROW, as_it_was, "replayed", &mt_replay_peak_type, NULL),
    MT_ROWS(ROW, changes.items, changes.count, "changes", &mt_change_type, NULL),
    MT_ROWS(ROW, changes.gaps, changes.gap_count, "left_out", &mt_gap_type, NULL),
    MT_POSITIVE(ROW, batch, "largest_batch", NULL, NULL),
    MT_NUMBER(ROW, batch_factor, "largest_batch_factor", NULL, NULL),
    MT_FLAG(ROW, is_assumed, "batch_is_assumed", NULL, NULL),
    MT_ROW_OR_NULL(ROW, checked, "other_replayed", &mt_replay_peak_type, NULL),
    MT_ROW_OR_NULL(ROW, other_had, "other_peak", &mt_replay_peak_type, NULL),
    MT_TEXT(ROW, smallest_card, "smallest_card", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type fit_type = MT_ROW_TYPE(ROW, fit_fields);
#undef ROW

/* Returns the largest batch as a multiple of the run's; NAN if none fits. */
static double factor_of(const struct mt_replayed_question *question, const struct mt_replayed_fit *fit)
{
    double batch = (double)(fit->knows_batch ? question->batch : MT_BATCH_UNKNOWN);
    return fit->largest_batch > 0 ? (double)fit->largest_batch / batch : NAN;
}

static struct mt_change_rows rows_of(const struct mt_replayed_fit *fit)
{
    struct mt_change_rows rows;
    mt_change_rows_create(&fit->unlimited, &fit->material.input.program, &rows);
    return rows;
}

static int64_t room_of(const struct mt_replayed_question *question, const struct mt_replayed_fit *fit)
{
    return (int64_t)question->capacity_bytes - (int64_t)fit->unlimited.as_it_was.reserved_bytes;
}

json_t *mt_replayed_fit_json(const struct mt_replayed_question *question, const struct mt_fit_device *device,
                             const struct mt_replayed_fit *fit)
{
    struct fit_row row = {.device = device->name,
                          .memory_bytes = device->memory_bytes,
                          .reserve_bytes = device->reserve_bytes,
                          .capacity_bytes = question->capacity_bytes,
                          .fits = fit->fits,
                          .room_bytes = room_of(question, fit),
                          .had = fit->had,
                          .as_it_was = fit->unlimited.as_it_was,
                          .changes = rows_of(fit),
                          .batch = fit->knows_batch ? fit->largest_batch : 0,
                          .batch_factor = factor_of(question, fit),
                          .is_assumed = fit->is_assumed,
                          .checked = fit->is_assumed ? NULL : &fit->checked,
                          .other_had = fit->is_assumed ? NULL : &fit->other_had,
                          .smallest_card = fit->smallest_card};
    mt_alloc_settings_format_short(&fit->material.input.settings, &row.alloc);
    json_t *object = mt_answer_begin("fit_replay", question->run->run);
    mt_row_add_json(&fit_type, &row, object);
    mt_text_release(&row.alloc);
    mt_change_rows_release(&row.changes);
    return object;
}

/* Adds "1.58 GiB where it had 1.63 GiB (3.1 % less)" or "1.63 GiB, as it had". */
static void add_nearness(struct mt_text *out, uint64_t replayed_bytes, uint64_t had_bytes)
{
    char share[MT_BYTES_TEXT];
    uint64_t difference = replayed_bytes > had_bytes ? replayed_bytes - had_bytes : had_bytes - replayed_bytes;
    mt_text_add(out, "%s", MT_SIZE(replayed_bytes));
    if (difference == 0)
        mt_text_add(out, ", to the byte what it had");
    else
        mt_text_add(out, " where it had %s (%s %s)", MT_SIZE(had_bytes),
                    mt_format_share((double)difference, (double)had_bytes, share),
                    replayed_bytes > had_bytes ? "more" : "less");
}

static void print_verdict(const struct mt_replayed_question *question, const struct mt_fit_device *device,
                          const struct mt_replayed_fit *fit, const struct mt_screen *screen)
{
    char capacity[MT_BYTES_TEXT], reserved[MT_BYTES_TEXT], room[MT_BYTES_TEXT];
    int64_t left = room_of(question, fit);
    mt_format_bytes(question->capacity_bytes, capacity);
    mt_format_bytes(fit->unlimited.as_it_was.reserved_bytes, reserved);
    mt_format_bytes((uint64_t)(left < 0 ? -left : left), room);
    if (!fit->had.fits)
        mt_screen_say(screen, "The run ended out of memory: what follows is of the part until then.");
    if (fit->fits && left >= 0)
        mt_screen_say(screen, "It fits %s: it reserves %s of the %s that a run can have, and leaves %s.", device->name,
                      reserved, capacity, room);
    else if (fit->fits)
        mt_screen_say(
            screen,
            "It fits %s, but only because cached memory is freed: otherwise it reserves %s of the %s that a run "
            "can have.",
            device->name, reserved, capacity);
    else
        mt_screen_say(screen, "It does not fit %s: it reserves %s, %s more than the %s that a run can have.",
                      device->name, reserved, room, capacity);
}

/* Prints how near the replay comes to the run, of which only the allocator that it had can tell. */
static void print_nearness(const struct mt_replayed_fit *fit, const struct mt_screen *screen)
{
    struct mt_text line = {0};
    mt_text_add(&line, "Each figure is of a replay of the run's own blocks with ");
    mt_replayed_allocator_add(&fit->material.input, &line);
    if (fit->material.input.is_another) {
        mt_text_add(&line, ", which the run did not have.");
    } else {
        mt_text_add(&line, ". As it was, it reserves ");
        add_nearness(&line, fit->unlimited.as_it_was.reserved_bytes, fit->had.reserved_bytes);
        mt_text_add(&line, ".");
    }
    mt_screen_line(screen, &line);
}

static void print_assumed_batch(const struct mt_replayed_question *question, const struct mt_replayed_fit *fit,
                                const struct mt_screen *screen)
{
    if (fit->knows_batch)
        mt_screen_say(screen,
                      "\nThe largest batch that fits is %" PRId64
                      ", if inputs and what forward and backward take grow with "
                      "the batch, and nothing else does.",
                      fit->largest_batch);
    else
        mt_screen_say(
            screen,
            "\n%.2f times the run's batch fits, if inputs and what forward and backward take grow with the batch, "
            "and nothing else does.",
            factor_of(question, fit));
    mt_screen_say(
        screen,
        "That is assumed, and its error is not known: a run with another batch shows it (--with RUN --batches A,B).");
}

/* Prints the largest batch, and what it rests on. */
static void print_batch(const struct mt_replayed_question *question, const struct mt_replayed_fit *fit,
                        const struct mt_screen *screen)
{
    struct mt_text line = {0};
    if (!fit->had.fits)
        return;
    if (fit->largest_batch == 0 || fit->is_largest_of_all) {
        mt_screen_say(screen, "\n%s",
                      fit->largest_batch == 0 ? "No batch fits." : "Any batch fits: nothing grows with it.");
        return;
    }
    if (fit->is_assumed) {
        print_assumed_batch(question, fit, screen);
        return;
    }
    mt_screen_say(screen,
                  "\nThe largest batch that fits is %" PRId64
                  ": by both runs, each kind of block is linear in the batch.",
                  fit->largest_batch);
    mt_text_add(&line, "Replayed with the other run's batch of %" PRId64 ", this one reserves ", question->other_batch);
    add_nearness(&line, fit->checked.reserved_bytes, fit->other_had.reserved_bytes);
    mt_text_add(&line, ".");
    mt_screen_line(screen, &line);
}

void mt_replayed_fit_print(const struct mt_replayed_question *question, const struct mt_fit_device *device,
                           const struct mt_replayed_fit *fit, const struct mt_screen *screen)
{
    struct mt_change_rows rows = rows_of(fit);
    mt_run_title_print(question->run->run, screen);
    print_verdict(question, device, fit, screen);
    print_nearness(fit, screen);
    mt_change_rows_print(&rows, "change fits allocated reserved difference_bytes", screen);
    print_batch(question, fit, screen);
    if (fit->smallest_card != NULL)
        mt_screen_say(screen, "\nThe smallest of the known cards that the run as it is fits is sim:%s.",
                      fit->smallest_card);
    mt_screen_say(screen, "%s are kept free for CUDA's context, libraries and NCCL (--reserve SIZE).",
                  MT_SIZE(device->reserve_bytes));
    mt_change_rows_release(&rows);
}
