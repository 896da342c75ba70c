/* The answer of `memtrace oom` as memtrace.oom/1 of docs/json.md. */
#include "cli/explain/oom_words.h"
#include "cli/output/output.h"

static json_t *bytes_json(uint64_t bytes)
{
    return json_integer((json_int_t)bytes);
}

/* A text, or null where there is none. */
static json_t *text_json(const char *text)
{
    return text[0] != '\0' ? mt_json_text(text) : json_null();
}

static json_t *asked_json(const struct mt_oom_answer *answer)
{
    const struct mt_refusal *refusal = &answer->refusal;
    const struct mt_label_row *label = &answer->material.input.labels[refusal->mark.label];
    json_t *asked = json_pack(
        "{s:I, s:I, s:I, s:b, s:I, s:i, s:o, s:I}", "requested_bytes", (json_int_t)refusal->mark.value, "block_bytes",
        (json_int_t)refusal->need.block_bytes, "segment_bytes", (json_int_t)refusal->needed_bytes, "grows",
        (int)refusal->grows, "event", (json_int_t)refusal->mark.event, "stream", (int)refusal->mark.stream, "step",
        answer->step >= 0 ? json_integer(answer->step) : json_null(), "alike_before", (json_int_t)refusal->alike);
    const struct {
        const char *key, *text;
    } texts[] = {{"category", label->category}, {"role", label->role},   {"op", label->op},
                 {"phase", label->phase},       {"dtype", label->dtype}, {"shape", label->shape},
                 {"span", label->span},         {"place", label->place}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        json_object_set_new(asked, texts[i].key, text_json(texts[i].text));
    return asked;
}

static json_t *memory_json(const struct mt_oom_answer *answer)
{
    const struct mt_refusal *refusal = &answer->refusal;
    bool knows_capacity = answer->question->run->capacity_bytes > 0;
    json_t *memory =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "reserved_bytes", (json_int_t)refusal->reserved_bytes,
                  "allocated_bytes", (json_int_t)refusal->allocated_bytes, "hole_bytes",
                  (json_int_t)refusal->hole_bytes, "hole_count", (json_int_t)refusal->hole_count, "largest_hole_bytes",
                  (json_int_t)refusal->largest_hole_bytes, "given_back_bytes", (json_int_t)refusal->given_back_bytes,
                  "given_back_segments", (json_int_t)refusal->given_back_segments);
    json_object_set_new(memory, "capacity_bytes", knows_capacity ? bytes_json(refusal->capacity_bytes) : json_null());
    json_object_set_new(memory, "left_bytes",
                        knows_capacity ? bytes_json(mt_refusal_left(&answer->refusal)) : json_null());
    json_object_set_new(memory, "short_bytes",
                        refusal->short_bytes > 0 ? bytes_json(refusal->short_bytes) : json_null());
    json_object_set_new(memory, "limit_bytes", bytes_json(answer->limit_bytes));
    return memory;
}

static json_t *holes_json(const struct mt_refusal *refusal)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < refusal->group_count; i++) {
        const struct mt_hole_group *group = &refusal->groups[i];
        json_array_append_new(rows,
                              json_pack("{s:s, s:i, s:s, s:I, s:I, s:I}", "reason", mt_hole_reason_name(group->reason),
                                        "stream", (int)group->stream, "pool", group->is_small ? "small" : "large",
                                        "count", (json_int_t)group->count, "bytes", (json_int_t)group->bytes,
                                        "largest_bytes", (json_int_t)group->largest_bytes));
    }
    return rows;
}

/* Shares of places say the place, too. */
static json_t *shares_json(const struct mt_oom_shares *shares, const char *place_key)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < shares->count; i++) {
        const struct mt_oom_share *share = &shares->items[i];
        json_t *row = json_pack("{s:o, s:I, s:I, s:I}", "category", mt_json_text(share->category), "allocated_bytes",
                                (json_int_t)share->allocated_bytes, "requested_bytes",
                                (json_int_t)share->requested_bytes, "blocks", (json_int_t)share->blocks);
        if (place_key != NULL)
            json_object_set_new(row, place_key, text_json(share->place));
        json_array_append_new(rows, row);
    }
    return rows;
}

static json_t *way_json(const struct mt_oom_change *change)
{
    struct mt_text text = {0};
    mt_oom_change_add_way(change, &text);
    json_t *json = mt_json_text(mt_text_get(&text));
    mt_text_release(&text);
    return json;
}

static json_t *change_json(const struct mt_oom_answer *answer, const struct mt_oom_change *change)
{
    struct mt_text text = {0};
    mt_oom_change_add(change, &text);
    bool is_simulated = change->proof == MT_PROOF_SIMULATION;
    bool is_pattern = !is_simulated && change->replayed.kind == MT_REPLAYED_PATTERN;
    json_t *row =
        json_pack("{s:o, s:s, s:I, s:I, s:o, s:o, s:o}", "change", mt_json_text(mt_text_get(&text)), "proof",
                  mt_oom_proof_name(change->proof), "reserved_bytes", (json_int_t)change->reserved_bytes, "room_bytes",
                  (json_int_t)(answer->limit_bytes - change->reserved_bytes), "pattern",
                  is_pattern ? json_string(mt_pattern_name(change->replayed.finding.pattern)) : json_null(), "command",
                  is_simulated ? way_json(change) : json_null(), "hint", is_simulated ? json_null() : way_json(change));
    mt_text_release(&text);
    return row;
}

static json_t *changes_json(const struct mt_oom_answer *answer)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < answer->change_count; i++)
        json_array_append_new(rows, change_json(answer, &answer->changes[i]));
    return rows;
}

void mt_oom_answer_print_json(const struct mt_oom_answer *answer)
{
    json_t *object = mt_question_json(answer->question, "oom");
    json_object_set_new(object, "asked", asked_json(answer));
    json_object_set_new(object, "memory", memory_json(answer));
    json_object_set_new(object, "holes", holes_json(&answer->refusal));
    json_object_set_new(object, "by_category", shares_json(&answer->categories, NULL));
    json_object_set_new(object, "by_place", shares_json(&answer->places, "place"));
    json_object_set_new(object, "changes", changes_json(answer));
    json_object_set_new(object, "needs_bytes",
                        answer->is_simulated ? bytes_json(answer->fit.fit.enough_bytes) : json_null());
    json_object_set_new(object, "replayed", json_boolean(answer->replayed.is_reproduced));
    json_object_set_new(object, "smallest_card", mt_json_text(answer->smallest_card));
    mt_json_print(object);
}
