#include "words/what_if.h"

#include "analysis/advise/advise_answer.h"
#include "analysis/oom/oom.h"
#include "answer/answer.h"
#include "words/advice_words.h"
#include "words/change_words.h"
#include "words/finding_words.h"
#include "words/first_remedies.h"
#include "words/observed_words.h"
#include "words/oom_words.h"
#include "words/run_words.h"

#include <assert.h>

enum { MOST_FINDINGS = 5 };

/* Returns a list of bytes. A replay's are far below 2^63. */
static json_t *list_bytes(const uint64_t *bytes, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_integer((json_int_t)bytes[i]));
    return list;
}

/* Returns the course of a replay. Bin i begins at the event (first + i * width) / 2 of the run. */
static json_t *describe_curve(const struct mt_run *run, const struct mt_replay_curve *curve)
{
    return json_pack("{s:I, s:I, s:o, s:o}", "first", (json_int_t)(curve->first - mt_position_at(run->first_event)),
                     "width", (json_int_t)curve->width, "allocated_bytes",
                     list_bytes(curve->allocated_bytes, curve->count), "reserved_bytes",
                     list_bytes(curve->reserved_bytes, curve->count));
}

/* Adds the peaks, and the course of a replay; NULL for a simulation. */
static void add_peaks(json_t *object, const struct mt_run *run, const struct mt_replay_result *peaks,
                      const struct mt_replay_curve *curve)
{
    mt_row_add_json(&mt_replay_peak_type, peaks, object);
    json_object_set_new(object, "fits", json_boolean(peaks->fits));
    json_object_set_new(object, "curve", curve != NULL ? describe_curve(run, curve) : json_null());
}

static json_t *proof_json(const struct mt_replay_curve *curve)
{
    return json_string(mt_oom_proof_name(curve != NULL ? MT_PROOF_REPLAY : MT_PROOF_SIMULATION));
}

/* A change in words: what it is, and the command or the hint of how to make it. */
struct change_words {
    struct mt_text change, command, hint;
};

/* Appends a change, and releases its words. */
static void append_change(json_t *list, const struct mt_run *run, struct change_words *words,
                          const struct mt_replay_result *peaks, const struct mt_replay_curve *curve)
{
    json_t *object = json_pack("{s:o, s:o, s:o, s:o}", "change", mt_json_text(mt_text_get(&words->change)), "command",
                               mt_json_text(mt_text_get(&words->command)), "hint",
                               mt_json_text(mt_text_get(&words->hint)), "proof", proof_json(curve));
    add_peaks(object, run, peaks, curve);
    json_array_append_new(list, object);
    mt_text_release(&words->change);
    mt_text_release(&words->command);
    mt_text_release(&words->hint);
}

static json_t *describe_cards(void)
{
    json_t *list = json_array();
    for (const char *const *name = mt_card_names(); *name != NULL; name++) {
        struct mt_card card;
        if (!mt_card_find(*name, &card))
            assert(false);
        json_array_append_new(
            list, json_pack("{s:s, s:I}", "name", *name, "usable_bytes", (json_int_t)mt_card_usable_bytes(&card)));
    }
    return list;
}

static json_t *describe(const struct mt_run *run, const struct mt_alloc_settings *settings,
                        const struct mt_replay_result *as_it_was, json_t *changes)
{
    struct mt_text alloc = {0};
    mt_alloc_settings_format_short(settings, &alloc);
    json_t *before =
        json_pack("{s:o, s:o}", "alloc", mt_json_text(mt_text_get(&alloc)), "proof", proof_json(&as_it_was->curve));
    add_peaks(before, run, as_it_was, &as_it_was->curve);
    mt_text_release(&alloc);
    return json_pack("{s:o, s:o, s:o}", "as_it_was", before, "changes", changes, "cards", describe_cards());
}

/* Adds what to change first, and releases the remedies. */
static void add_remedies(json_t *answer, struct mt_remedy_list *remedies)
{
    json_t *list = json_array();
    for (size_t i = 0; i < remedies->count; i++) {
        const struct mt_remedy *remedy = &remedies->items[i];
        json_array_append_new(list, json_pack("{s:o, s:o, s:o}", "what", mt_json_text(mt_text_get(&remedy->what)),
                                              "how", mt_json_text(mt_text_get(&remedy->how)), "change",
                                              mt_json_text(mt_text_get(&remedy->change))));
    }
    json_object_set_new(answer, "remedies", list);
    mt_remedy_list_release(remedies);
}

/* ---- of a run that did not end out of memory: advise ---- */

static void append_options(json_t *list, const struct mt_advice_answer *answer)
{
    const struct mt_simulated_advice *simulated = &answer->simulated;
    struct mt_advice_option_row *rows = mt_advice_options_create(simulated);
    for (size_t i = 1; i <= simulated->count; i++) {
        struct change_words words = {{0}, {0}, {0}};
        mt_text_add(&words.change, "%s", mt_text_get(&rows[i].change));
        mt_text_add(&words.command, "%s", mt_text_get(&rows[i].command));
        append_change(list, answer->question->run, &words, &rows[i].peak, NULL);
    }
    mt_rows_release(&mt_advice_option_type, rows, simulated->count + 1);
}

/* True if the change lowers a peak. */
static bool lowers(const struct mt_replay_result *peaks, const struct mt_replay_result *before)
{
    return peaks->requested_bytes < before->requested_bytes || peaks->allocated_bytes < before->allocated_bytes ||
           peaks->reserved_bytes < before->reserved_bytes;
}

static void append_program_changes(json_t *list, const struct mt_advice_answer *answer)
{
    const struct mt_program *program = &answer->material.input.program;
    for (size_t i = 0; i < answer->changes.count; i++) {
        const struct mt_program_change *change = &answer->changes.items[i];
        struct change_words words = {{0}, {0}, {0}};
        if (!lowers(&change->replay, &answer->advice.as_it_was))
            continue;
        mt_change_add(change, program, &words.change);
        mt_change_add_hint(change, program, &words.hint);
        append_change(list, answer->question->run, &words, &change->replay, &change->replay.curve);
    }
}

/* True if the finding's remedy is a change of the program that was replayed, too. */
static bool is_changed(const struct mt_advice_answer *answer, const struct mt_finding *finding)
{
    return answer->changes.count > 0 && mt_finding_is_optional(finding);
}

static void append_findings(json_t *list, const struct mt_advice_answer *answer)
{
    const struct mt_program *program = &answer->material.input.program;
    for (size_t i = 0; i < answer->advice.count; i++) {
        const struct mt_finding *finding = &answer->advice.findings[i];
        struct change_words words = {{0}, {0}, {0}};
        if (is_changed(answer, finding))
            continue;
        mt_finding_add_mended(finding, program, &words.change);
        mt_finding_add_hint(finding, program, &words.hint);
        append_change(list, answer->question->run, &words, &finding->replay, &finding->replay.curve);
    }
}

static void list_advice(const struct mt_advice_answer *answer, json_t **out)
{
    struct mt_remedy_list remedies = {0};
    json_t *changes = json_array();
    append_program_changes(changes, answer);
    append_options(changes, answer);
    append_findings(changes, answer);
    *out = describe(answer->question->run, &answer->material.input.settings, &answer->advice.as_it_was, changes);
    mt_remedy_list_add_observations(&remedies, &answer->observations);
    mt_first_remedies_add_waste(&remedies, answer);
    mt_first_remedies_add_option(&remedies, answer);
    add_remedies(*out, &remedies);
}

static mt_status tell_advice(const struct mt_question *question, json_t **out)
{
    struct mt_advice_answer answer;
    mt_status status = mt_advice_answer_load(question, NULL, MT_ADVICE_WORTHWHILE, MOST_FINDINGS, &answer);
    if (status == MT_OK)
        list_advice(&answer, out);
    mt_advice_answer_release(&answer);
    return status;
}

/* ---- of a run that did: oom ---- */

static json_t *list_sufficient(const struct mt_oom_answer *answer)
{
    json_t *list = json_array();
    struct mt_oom_row row;
    mt_oom_row_create(answer, &row);
    for (size_t i = 0; i < row.change_count; i++) {
        const struct mt_oom_change *change = &answer->changes[i];
        const struct mt_replay_result *replay = &change->replayed.replay;
        const struct mt_replay_result peaks = {.reserved_bytes = change->reserved_bytes, .fits = true};
        struct change_words words = {row.changes[i].change, row.changes[i].command, row.changes[i].hint};
        row.changes[i].change = row.changes[i].command = row.changes[i].hint = (struct mt_text){0}; /* words own them */
        if (change->proof == MT_PROOF_REPLAY)
            append_change(list, answer->question->run, &words, replay, &replay->curve);
        else
            append_change(list, answer->question->run, &words, &peaks, NULL);
    }
    mt_oom_row_release(&row);
    return list;
}

/* Adds what the program does that takes memory, and then the change that costs training least. */
static void add_sufficient_remedies(json_t *json, const struct mt_oom_answer *answer)
{
    struct mt_remedy_list remedies = {0};
    mt_remedy_list_add_observations(&remedies, &answer->observations);
    const json_t *first = json_array_get(json_object_get(json, "changes"), 0);
    if (first != NULL) {
        struct mt_remedy *remedy = mt_remedy_list_add(&remedies);
        const char *change = json_string_value(json_object_get(first, "change"));
        mt_text_add(&remedy->what, "It fits with %s.", change);
        mt_text_add(&remedy->change, "%s", change);
    }
    add_remedies(json, &remedies);
}

static mt_status tell_oom(const struct mt_question *question, json_t **out)
{
    struct mt_oom_answer answer;
    mt_status status = mt_oom_answer_load(question, &answer);
    if (status == MT_OK) {
        *out = describe(question->run, &answer.material.input.settings, &answer.replayed.as_it_was,
                        list_sufficient(&answer));
        json_object_set_new(*out, "oom", mt_oom_json(&answer));
        add_sufficient_remedies(*out, &answer);
    }
    mt_oom_answer_release(&answer);
    return status;
}

mt_status mt_what_if_json(const struct mt_question *question, json_t **out)
{
    *out = NULL;
    if (question->run->event_count == 0)
        return MT_OK;
    return mt_run_is(question->run, MT_RUN_OOM) ? tell_oom(question, out) : tell_advice(question, out);
}
