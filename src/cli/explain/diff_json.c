/* A diff as JSON: docs/json.md, memtrace.diff/1. */
#include "cli/explain/diff_answer.h"

#include "cli/output/output.h"
#include "words/diff_words.h"

#include <math.h>

static json_t *integer(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *step_json(int64_t step)
{
    return step >= 0 ? json_integer(step) : json_null();
}

static json_t *side_json(const struct mt_diff_answer *answer, mt_side which)
{
    const struct mt_run *run = answer->question[which].run;
    const struct mt_diff_side *side = &answer->diff.side[which];
    json_t *object = json_pack("{s:I, s:o, s:o, s:o}", "run", (json_int_t)run->id, "name", mt_json_text(run->name),
                               "state", mt_json_text(run->state), "device", mt_json_text(run->device));
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {{"allocated_bytes", side->allocated_bytes},
                   {"reserved_bytes", side->reserved_bytes},
                   {"requested_bytes", side->requested_bytes},
                   {"blocks", side->blocks}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        json_object_set_new(object, numbers[i].key, integer(numbers[i].value));
    json_object_set_new(object, "peak",
                        json_pack("{s:o, s:o, s:o}", "step", step_json(side->step), "phase", mt_json_text(side->phase),
                                  "span", mt_json_text(side->span)));
    json_object_set_new(object, "last_segment",
                        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b}", "step",
                                  step_json(side->reserved_step), "phase", mt_json_text(side->reserved_phase), "span",
                                  mt_json_text(side->reserved_span), "asked_bytes",
                                  side->asked_bytes > 0 ? integer(side->asked_bytes) : json_null(), "free_bytes",
                                  integer(side->free_bytes), "holes", integer(side->holes), "widest_hole_bytes",
                                  integer(side->widest_hole), "idle_bytes", integer(side->idle_bytes), "live_bytes",
                                  integer(side->live_bytes), "segment_bytes", integer(side->segment_bytes), "plan",
                                  (int)side->is_plan));
    return object;
}

/* null on a side that says nothing of it. */
static json_t *setting_json(const struct mt_setting_pair *setting)
{
    return json_pack("{s:o, s:o, s:o}", "name", mt_json_text(setting->name), "a",
                     mt_json_text(setting->a[0] != '\0' ? setting->a : NULL), "b",
                     mt_json_text(setting->b[0] != '\0' ? setting->b : NULL));
}

static json_t *settings_json(const struct mt_setting_pair *settings, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, setting_json(&settings[i]));
    return list;
}

static json_t *rows_json(const struct mt_diff_parts *parts)
{
    json_t *list = json_array();
    for (size_t i = 0; i < parts->row_count; i++) {
        const struct mt_diff_row *row = &parts->rows[i];
        json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "category",
                                              mt_json_text(row->category), "role", mt_json_text(row->role), "phase",
                                              mt_json_text(row->phase), "op", mt_json_text(row->op), "a_bytes",
                                              integer(row->a_bytes), "b_bytes", integer(row->b_bytes), "delta_bytes",
                                              json_integer(row->delta_bytes), "a_blocks", integer(row->a_blocks),
                                              "b_blocks", integer(row->b_blocks)));
    }
    return list;
}

static json_t *causes_json(const struct mt_diff *diff, const struct mt_diff_parts *parts)
{
    json_t *list = json_array();
    for (size_t i = 0; i < parts->cause_count; i++) {
        const struct mt_diff_cause *cause = &parts->causes[i];
        struct mt_text title = {0}, evidence = {0};
        mt_diff_cause_add_title(diff, cause, &title);
        mt_diff_cause_add_evidence(diff, cause, &evidence);
        json_array_append_new(list, json_pack("{s:o, s:s, s:o, s:I, s:o}", "cause", mt_json_text(mt_text_get(&title)),
                                              "kind", mt_cause_name(cause->kind), "category",
                                              cause->category[0] != '\0' ? mt_json_text(cause->category) : json_null(),
                                              "bytes", (json_int_t)cause->bytes, "evidence",
                                              mt_json_text(mt_text_get(&evidence))));
        mt_text_release(&title);
        mt_text_release(&evidence);
    }
    return list;
}

static json_t *categories_json(const struct mt_diff_answer *answer)
{
    json_t *list = json_array();
    for (size_t i = 0; i < answer->category_count; i++) {
        const struct mt_diff_category *row = &answer->categories[i];
        uint64_t a = row->max_bytes[MT_SIDE_A], b = row->max_bytes[MT_SIDE_B];
        json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:o}", "category", mt_json_text(row->category),
                                              "a_max_bytes", integer(a), "b_max_bytes", integer(b), "delta_bytes",
                                              json_integer((json_int_t)(b - a))));
    }
    return list;
}

static json_t *published_json(const struct mt_diff_length *length)
{
    const struct mt_published_cell *a = length->published[MT_SIDE_A], *b = length->published[MT_SIDE_B];
    int64_t measured;
    if (!mt_diff_length_measured(length, &measured))
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:I}", "a_gib", mt_json_number(a->reserved_gib), "b_gib",
                     mt_json_number(b->reserved_gib), "delta_gib", mt_json_number(mt_diff_length_published_gib(length)),
                     "a_measured_bytes", integer(a->measured_reserved_bytes), "b_measured_bytes",
                     integer(b->measured_reserved_bytes), "delta_measured_bytes", (json_int_t)measured);
}

static json_t *lengths_json(const struct mt_diff_answer *answer)
{
    json_t *list = json_array();
    for (size_t i = 0; i < answer->length_count; i++) {
        const struct mt_diff_length *row = &answer->lengths[i];
        uint64_t a = row->reserved_bytes[MT_SIDE_A], b = row->reserved_bytes[MT_SIDE_B];
        json_array_append_new(list, json_pack("{s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "seq", (json_int_t)row->seq,
                                              "a_run", (json_int_t)row->run[MT_SIDE_A]->id, "b_run",
                                              (json_int_t)row->run[MT_SIDE_B]->id, "a_reserved_bytes", integer(a),
                                              "b_reserved_bytes", integer(b), "delta_bytes",
                                              json_integer((json_int_t)(b - a)), "published", published_json(row)));
    }
    return list;
}

void mt_diff_answer_print_json(const struct mt_diff_answer *answer)
{
    const struct mt_diff *diff = &answer->diff;
    const struct mt_settings_difference *changes = &answer->changes;
    json_t *object =
        json_pack("{s:s, s:o, s:o, s:o, s:o}", "schema", "memtrace.diff/1", "a", side_json(answer, MT_SIDE_A), "b",
                  side_json(answer, MT_SIDE_B), "settings", settings_json(changes->different, changes->different_count),
                  "unknown_settings", settings_json(changes->unknown, changes->unknown_count));
    json_object_set_new(object, "allocated_delta_bytes", json_integer(diff->allocated.delta_bytes));
    json_object_set_new(object, "reserved_delta_bytes", json_integer(diff->reserved.delta_bytes));
    json_object_set_new(object, "rows", rows_json(&diff->allocated));
    json_object_set_new(object, "reserved_rows", rows_json(&diff->reserved));
    json_object_set_new(object, "causes", causes_json(diff, &diff->allocated));
    json_object_set_new(object, "reserved_causes", causes_json(diff, &diff->reserved));
    json_object_set_new(object, "categories", categories_json(answer));
    json_object_set_new(object, "lengths", lengths_json(answer));
    mt_json_print(object);
}
