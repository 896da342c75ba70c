#include "words/diff_answer.h"

#include "answer/answer.h"
#include "base/memory.h"
#include "words/diff_words.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A side as JSON has it. */
struct side_row {
    struct mt_run run;
    struct mt_diff_side side;
};

#define ROW struct mt_diff_side
static const struct mt_field peak_fields[] = {
    MT_STEP(ROW, step, "step", NULL, NULL),
    MT_TEXT(ROW, phase, "phase", NULL, NULL),
    MT_TEXT(ROW, span, "span", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type peak_type = MT_ROW_TYPE(ROW, peak_fields);

static const struct mt_field segment_fields[] = {
    MT_STEP(ROW, reserved_step, "step", NULL, NULL),
    MT_TEXT(ROW, reserved_phase, "phase", NULL, NULL),
    MT_TEXT(ROW, reserved_span, "span", NULL, NULL),
    MT_SOME_BYTES(ROW, asked_bytes, "asked_bytes", NULL, "for the block that needed it; null: not known"),
    MT_BYTES(ROW, free_bytes, "free_bytes", NULL, "in the other segments"),
    MT_COUNT(ROW, holes, "holes", NULL, "that these are in"),
    MT_BYTES(ROW, widest_hole, "widest_hole_bytes", NULL, NULL),
    MT_BYTES(ROW, idle_bytes, "idle_bytes", NULL, "of `free_bytes`, in segments without a block"),
    MT_BYTES(ROW, live_bytes, "live_bytes", NULL, NULL),
    MT_BYTES(ROW, segment_bytes, "segment_bytes", NULL,
             "of it, or by which it grew; with `live_bytes` and `free_bytes` it sums to `reserved_bytes`"),
    MT_FLAG(ROW, is_plan, "plan", NULL, "true if a plan took it before the first block"),
    MT_FIELDS_END,
};
static const struct mt_row_type segment_type = MT_ROW_TYPE(ROW, segment_fields);
#undef ROW

#define ROW struct side_row
static const struct mt_field side_fields[] = {
    MT_INTEGER(ROW, run.id, "run", NULL, NULL),
    MT_TEXT(ROW, run.name, "name", NULL, NULL),
    MT_TEXT(ROW, run.state, "state", NULL, NULL),
    MT_TEXT(ROW, run.device, "device", NULL, NULL),
    MT_BYTES(ROW, side.allocated_bytes, "allocated_bytes", NULL, "the peak"),
    MT_BYTES(ROW, side.reserved_bytes, "reserved_bytes", NULL, "the peak"),
    MT_BYTES(ROW, side.requested_bytes, "requested_bytes", NULL, "live at the peak of allocated bytes"),
    MT_COUNT(ROW, side.blocks, "blocks", NULL, "live then"),
    MT_ROW(ROW, side, "peak", &peak_type, "the moment of the peak of allocated bytes"),
    MT_ROW(ROW, side, "last_segment", &segment_type,
           "that was reserved, or grew, when the peak of reserved bytes was reached"),
    MT_FIELDS_END,
};
static const struct mt_row_type side_type = MT_ROW_TYPE(ROW, side_fields);
#undef ROW

#define ROW struct mt_setting_pair
static const struct mt_field setting_fields[] = {
    MT_TEXT(ROW, name, "name", NULL, NULL),
    MT_NAME(ROW, a, "a", NULL, "its value; null: not known"),
    MT_NAME(ROW, b, "b", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type setting_type = MT_ROW_TYPE(ROW, setting_fields);
#undef ROW

#define ROW struct mt_diff_row
static const struct mt_field row_fields[] = {
    MT_TEXT(ROW, category, "category", "category", NULL),
    MT_TEXT(ROW, role, "role", "role", NULL),
    MT_TEXT(ROW, phase, "phase", "phase", NULL),
    MT_TEXT(ROW, op, "op", "op", NULL),
    MT_BYTES(ROW, a_bytes, "a_bytes", "A", "of blocks, rounding included"),
    MT_BYTES(ROW, b_bytes, "b_bytes", "B", NULL),
    MT_DIFFERENCE(ROW, delta_bytes, "delta_bytes", "difference", "b less a"),
    MT_COUNT(ROW, a_blocks, "a_blocks", "blocks A", NULL),
    MT_COUNT(ROW, b_blocks, "b_blocks", "blocks B", NULL),
    MT_FIELDS_END,
};
const struct mt_row_type mt_diff_row_type = MT_ROW_TYPE(ROW, row_fields);
#undef ROW

/* A cause with its words. */
struct cause_row {
    struct mt_diff_cause cause;
    const char *kind;
    struct mt_text title, evidence;
};

#define ROW struct cause_row
static const struct mt_field cause_fields[] = {
    MT_OWNED(ROW, title, "cause", NULL, "in words"),
    MT_TEXT(ROW, kind, "kind", NULL, NULL),
    MT_NAME(ROW, cause.category, "category", NULL, "of activations; otherwise null"),
    MT_DIFFERENCE(ROW, cause.bytes, "bytes", NULL, "b less a; they sum to the difference of the peaks"),
    MT_OWNED(ROW, evidence, "evidence", NULL, "a sentence with numbers"),
    MT_FIELDS_END,
};
static const struct mt_row_type cause_type = MT_ROW_TYPE(ROW, cause_fields);
#undef ROW

#define ROW struct mt_diff_group
static const struct mt_field category_fields[] = {
    MT_TEXT(ROW, name, "category", "category", NULL),
    MT_BYTES(ROW, bytes[MT_SIDE_A], "a_max_bytes", "A", "requested"),
    MT_BYTES(ROW, bytes[MT_SIDE_B], "b_max_bytes", "B", NULL),
    MT_DIFFERENCE(ROW, delta_bytes, "delta_bytes", "difference", NULL),
    MT_FIELDS_END,
};
const struct mt_row_type mt_diff_category_type = MT_ROW_TYPE(ROW, category_fields);

#define X(KEY, text)                                                                                                   \
    static const struct mt_field group_fields_##KEY[] = {                                                              \
        MT_TEXT(ROW, name, text, text, NULL),                                                                          \
        MT_BYTES(ROW, bytes[MT_SIDE_A], "a_bytes", "A", NULL),                                                         \
        MT_BYTES(ROW, bytes[MT_SIDE_B], "b_bytes", "B", NULL),                                                         \
        MT_DIFFERENCE(ROW, delta_bytes, "delta_bytes", "difference", NULL),                                            \
        MT_COUNT(ROW, blocks[MT_SIDE_A], "a_blocks", "blocks A", NULL),                                                \
        MT_COUNT(ROW, blocks[MT_SIDE_B], "b_blocks", "blocks B", NULL),                                                \
        MT_FIELDS_END,                                                                                                 \
    };
MT_GROUP_KEYS(X)
#undef X
#define X(KEY, text) [MT_GROUP_##KEY] = MT_ROW_TYPE(ROW, group_fields_##KEY),
const struct mt_row_type mt_diff_group_types[] = {MT_GROUP_KEYS(X)};
#undef X
#undef ROW

#define ROW struct mt_diff_published
static const struct mt_field published_fields[] = {
    MT_NUMBER(ROW, gib[MT_SIDE_A], "a_gib", NULL, "as published; null: out of memory"),
    MT_NUMBER(ROW, gib[MT_SIDE_B], "b_gib", NULL, NULL),
    MT_NUMBER(ROW, delta_gib, "delta_gib", NULL, NULL),
    MT_BYTES(ROW, measured_bytes[MT_SIDE_A], "a_measured_bytes", NULL, "with PyTorch on an H200"),
    MT_BYTES(ROW, measured_bytes[MT_SIDE_B], "b_measured_bytes", NULL, NULL),
    MT_DIFFERENCE(ROW, delta_measured_bytes, "delta_measured_bytes", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type published_type = MT_ROW_TYPE(ROW, published_fields);
#undef ROW

#define ROW struct mt_diff_length
static const struct mt_field length_fields[] = {
    MT_INTEGER(ROW, seq, "seq", "seq", NULL),
    MT_INTEGER(ROW, run[MT_SIDE_A], "a_run", NULL, NULL),
    MT_INTEGER(ROW, run[MT_SIDE_B], "b_run", NULL, NULL),
    MT_BYTES(ROW, reserved_bytes[MT_SIDE_A], "a_reserved_bytes", "A", NULL),
    MT_BYTES(ROW, reserved_bytes[MT_SIDE_B], "b_reserved_bytes", "B", NULL),
    MT_DIFFERENCE(ROW, delta_bytes, "delta_bytes", "difference", NULL),
    MT_ROW_OR_NULL(ROW, of_both, "published", &published_type,
                   "reserved memory of both; null: none, or not comparable with PyTorch's"),
    MT_SHOWN_AS(ROW, percent, "percent", "percent", "%+.1f %%"),
    MT_SHOWN_AS(ROW, published.gib[MT_SIDE_A], "a_gib", "published A", "%.2f GiB"),
    MT_SHOWN_AS(ROW, published.gib[MT_SIDE_B], "b_gib", "published B", "%.2f GiB"),
    MT_SHOWN_AS(ROW, published.delta_gib, "delta_gib", "published diff", "%+.2f GiB"),
    MT_SHOWN(DIGITS, char *, ROW, measured.data, "measured", "PyTorch, H200"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_diff_length_type = MT_ROW_TYPE(ROW, length_fields);
#undef ROW

/* The answer as JSON has it. */
struct answer_row {
    struct side_row a, b;
    const char *predicted;
    const struct mt_setting_pair *different, *unknown;
    size_t different_count, unknown_count;
    struct mt_diff_parts allocated, reserved; /* borrowed */
    struct cause_row *causes, *reserved_causes;
    const struct mt_diff_group *categories;
    const struct mt_diff_length *lengths;
    size_t category_count, length_count;
};

#define ROW struct answer_row
static const struct mt_field answer_fields[] = {
    MT_ROW(ROW, a, "a", &side_type, NULL),
    MT_ROW(ROW, b, "b", &side_type, NULL),
    MT_NAME(ROW, predicted, "predicted_by", NULL,
            "`a` or `b` if that is a dry run and the other a recording, which are grouped by op; null: it is no "
            "prediction"),
    MT_ROWS(ROW, different, different_count, "settings", &setting_type, "that differ and could change memory"),
    MT_ROWS(ROW, unknown, unknown_count, "unknown_settings", &setting_type, "that only one of the two stores"),
    MT_DIFFERENCE(ROW, allocated.delta_bytes, "allocated_delta_bytes", NULL, "of the peaks, b less a"),
    MT_DIFFERENCE(ROW, reserved.delta_bytes, "reserved_delta_bytes", NULL, NULL),
    MT_ROWS(ROW, allocated.rows, allocated.row_count, "rows", &mt_diff_row_type,
            "live at the peaks of allocated bytes, the largest difference first"),
    MT_ROWS(ROW, reserved.rows, reserved.row_count, "reserved_rows", &mt_diff_row_type,
            "the same, and a row of the category `(cached)`: reserved beyond the peak of allocated bytes"),
    MT_ROWS(ROW, causes, allocated.cause_count, "causes", &cause_type, "of the difference of allocated bytes"),
    MT_ROWS(ROW, reserved_causes, reserved.cause_count, "reserved_causes", &cause_type, "of reserved bytes"),
    MT_ROWS(ROW, categories, category_count, "categories", &mt_diff_category_type,
            "the largest allocation of each, over all phases"),
    MT_ROWS(ROW, lengths, length_count, "lengths", &mt_diff_length_type,
            "runs of the two traces with the same settings but for the sequence length"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_diff_type = MT_ROW_TYPE(ROW, answer_fields);
#undef ROW

static struct side_row side_row_of(const struct mt_diff_answer *answer, mt_side which)
{
    return (struct side_row){*answer->question[which].run, answer->diff.side[which]};
}

/* Returns the causes with their words. Release them. */
static struct cause_row *causes_create(const struct mt_diff *diff, const struct mt_diff_parts *parts)
{
    struct cause_row *rows = mt_host_alloc((parts->cause_count + 1) * sizeof *rows);
    int64_t sum = 0;
    for (size_t i = 0; i < parts->cause_count; i++) {
        const struct mt_diff_cause *cause = &parts->causes[i];
        rows[i] = (struct cause_row){.cause = *cause, .kind = mt_cause_name(cause->kind)};
        mt_diff_cause_add_title(diff, cause, &rows[i].title);
        mt_diff_cause_add_evidence(diff, cause, &rows[i].evidence);
        sum += cause->bytes;
    }
    assert(sum == parts->delta_bytes);
    (void)sum;
    return rows;
}

/* Adds the groups, and the key that they are of. */
static void add_groups(const struct mt_diff_answer *answer, json_t *object)
{
    assert(answer->key < MT_GROUP_KEY_COUNT);
    json_object_set_new(object, "by", json_string(mt_group_key_names[answer->key]));
    json_object_set_new(object, "groups",
                        mt_rows_json(&mt_diff_group_types[answer->key], answer->groups, answer->group_count));
}

json_t *mt_diff_json(const struct mt_diff_answer *answer)
{
    const struct mt_diff *diff = &answer->diff;
    const struct mt_settings_difference *changes = &answer->changes;
    static const char *const sides[MT_SIDE_COUNT + 1] = {"a", "b", ""};
    const struct answer_row row = {.a = side_row_of(answer, MT_SIDE_A),
                                   .b = side_row_of(answer, MT_SIDE_B),
                                   .predicted = sides[mt_diff_predicted(answer)],
                                   .different = changes->different,
                                   .different_count = changes->different_count,
                                   .unknown = changes->unknown,
                                   .unknown_count = changes->unknown_count,
                                   .allocated = diff->allocated,
                                   .reserved = diff->reserved,
                                   .causes = causes_create(diff, &diff->allocated),
                                   .reserved_causes = causes_create(diff, &diff->reserved),
                                   .categories = answer->categories,
                                   .category_count = answer->category_count,
                                   .lengths = answer->lengths,
                                   .length_count = answer->length_count};
    json_t *object = mt_schema_json("diff");
    mt_row_add_json(&mt_diff_type, &row, object);
    if (answer->key != MT_NO_GROUPS)
        add_groups(answer, object);
    mt_rows_release(&cause_type, row.causes, diff->allocated.cause_count);
    mt_rows_release(&cause_type, row.reserved_causes, diff->reserved.cause_count);
    return object;
}

static bool is_dry(const struct mt_diff_answer *answer, mt_side side)
{
    return strcmp(mt_settings_value(&answer->settings[side], "recorded"), "dry") == 0;
}

static bool is_recording(const struct mt_diff_answer *answer, mt_side side)
{
    const struct mt_settings *settings = &answer->settings[side];
    return !is_dry(answer, side) &&
           (mt_settings_value(settings, "recorded")[0] != '\0' || mt_settings_value(settings, "format")[0] != '\0');
}

mt_side mt_diff_predicted(const struct mt_diff_answer *answer)
{
    for (mt_side side = 0; side < MT_SIDE_COUNT; side++)
        if (is_dry(answer, side) && is_recording(answer, MT_SIDE_COUNT - 1 - side))
            return side;
    return MT_SIDE_COUNT;
}

static struct mt_text *add_doubt(struct mt_diff_answer *answer)
{
    assert(answer->doubt_count < MT_MOST_DIFF_DOUBTS);
    return &answer->doubts[answer->doubt_count++];
}

static bool is_cut_short(const struct mt_run *run)
{
    return mt_run_is(run, MT_RUN_OOM) || mt_run_is(run, MT_RUN_FAILED);
}

static void doubt_ends(struct mt_diff_answer *answer)
{
    for (int side = 0; side < MT_SIDE_COUNT; side++) {
        const struct mt_run *run = answer->question[side].run;
        if (is_cut_short(run))
            mt_text_add(add_doubt(answer), "run %" PRId64 " %s: its peaks are those until then", run->id,
                        mt_run_state_words(run->state));
    }
    const struct mt_run *a = answer->question[MT_SIDE_A].run, *b = answer->question[MT_SIDE_B].run;
    if (answer->doubt_count == 0 && a->steps != b->steps && (a->steps < 2 || b->steps < 2))
        mt_text_add(add_doubt(answer),
                    "%" PRId64 " and %" PRId64
                    " steps: a first step has no gradients and no optimizer state before its "
                    "backward; repeat the shorter run with --steps 2",
                    a->steps, b->steps);
}

/* Finds what makes the runs hard to compare. They are compared all the same: the bytes add up anyway. */
static void find_doubts(struct mt_diff_answer *answer)
{
    const struct mt_settings_difference *changes = &answer->changes;
    assert(answer->doubt_count == 0);
    doubt_ends(answer);
    if (changes->different_count > 1)
        mt_text_add(add_doubt(answer), "the runs differ in %zu settings, so no cause can be put down to one of them",
                    changes->different_count);
    if (changes->unknown_count == 0)
        return;
    struct mt_text *unknown = add_doubt(answer);
    mt_settings_add_unknown(changes, answer->question[MT_SIDE_A].run, answer->question[MT_SIDE_B].run, unknown);
    mt_text_add(unknown, ", so the two may differ in other ways, too");
}

mt_status mt_diff_answer_load(struct mt_diff_answer *answer)
{
    const struct mt_question *a = &answer->question[MT_SIDE_A], *b = &answer->question[MT_SIDE_B];
    MT_TRY(mt_settings_load(a->trace, a->run, &answer->settings[MT_SIDE_A]));
    MT_TRY(mt_settings_load(b->trace, b->run, &answer->settings[MT_SIDE_B]));
    MT_TRY(mt_trace_diff(a, b, &answer->diff));
    mt_settings_compare(&answer->settings[MT_SIDE_A], &answer->settings[MT_SIDE_B], MT_SETTINGS_OF_MEMORY,
                        &answer->changes);
    MT_TRY(mt_diff_categories(a, b, &answer->categories, &answer->category_count));
    if (answer->key == MT_NO_GROUPS && mt_diff_predicted(answer) != MT_SIDE_COUNT)
        answer->key = MT_GROUP_OP;
    if (answer->key != MT_NO_GROUPS)
        MT_TRY(mt_diff_groups(a, b, (mt_group_key)answer->key, &answer->groups, &answer->group_count));
    find_doubts(answer);
    return MT_OK;
}

void mt_diff_answer_release(struct mt_diff_answer *answer)
{
    mt_diff_release(&answer->diff);
    for (int side = 0; side < MT_SIDE_COUNT; side++)
        mt_settings_release(&answer->settings[side]);
    for (size_t i = 0; i < answer->doubt_count; i++)
        mt_text_release(&answer->doubts[i]);
    for (size_t i = 0; i < answer->length_count; i++)
        mt_text_release(&answer->lengths[i].measured);
    free(answer->categories);
    free(answer->groups);
    free(answer->lengths);
}

enum { NAMED_CAUSES = 2 }; /* that the sentence names for each direction */

static const char side_letter[MT_SIDE_COUNT] = {[MT_SIDE_A] = 'A', [MT_SIDE_B] = 'B'};

/* Adds "+4.28 GiB". */
static void add_difference(struct mt_text *out, int64_t bytes)
{
    mt_text_add(out, "%s", MT_SIZE_DIFFERENCE(bytes));
}

static bool has_sign(const struct mt_diff_cause *cause, bool is_up)
{
    return (cause->bytes > 0) == is_up;
}

/* Returns the number of causes of one direction, and their sum. */
static size_t count_causes(const struct mt_diff_parts *parts, bool is_up, int64_t *out_bytes)
{
    size_t count = 0;
    *out_bytes = 0;
    for (size_t i = 0; i < parts->cause_count; i++) {
        if (!has_sign(&parts->causes[i], is_up))
            continue;
        count++;
        *out_bytes += parts->causes[i].bytes;
    }
    return count;
}

/* Adds the causes of one direction: "weight casts cached for the autocast region (+6.30 GiB), … and 3 more causes
 * (+…)". Returns how many there are. */
static size_t add_causes_of(const struct mt_diff *diff, bool is_up, struct mt_text *out)
{
    const struct mt_diff_parts *parts = &diff->allocated;
    int64_t rest;
    size_t count = count_causes(parts, is_up, &rest), named = 0;
    for (size_t i = 0; i < parts->cause_count && named < NAMED_CAUSES; i++) {
        const struct mt_diff_cause *cause = &parts->causes[i];
        if (!has_sign(cause, is_up))
            continue;
        mt_text_add(out, "%s", named == 0 ? "" : named + 1 == count ? " and " : ", ");
        mt_diff_cause_add_title(diff, cause, out);
        mt_text_add(out, " (");
        add_difference(out, cause->bytes);
        mt_text_add(out, ")");
        rest -= cause->bytes;
        named++;
    }
    if (count > named) {
        mt_text_add(out, " and %zu more cause%s (", count - named, count - named == 1 ? "" : "s");
        add_difference(out, rest);
        mt_text_add(out, ")");
    }
    return count;
}

static bool differ_in_one(const struct mt_diff_answer *answer)
{
    return answer->changes.different_count == 1 && answer->changes.unknown_count == 0;
}

/* Adds "with autocast bf16" where that is the one thing that differs; "B" otherwise. */
static void add_subject(const struct mt_diff_answer *answer, mt_side side, struct mt_text *out)
{
    if (!differ_in_one(answer)) {
        mt_text_add(out, "%c", side_letter[side]);
        return;
    }
    const struct mt_setting_pair *change = &answer->changes.different[0];
    mt_text_add(out, "%s %s ", side == MT_SIDE_A ? "with" : "With", change->name);
    mt_setting_add_value(change->name, side == MT_SIDE_A ? change->a : change->b, out);
}

static bool ran_out(const struct mt_diff_answer *answer, mt_side side)
{
    return mt_run_is(answer->question[side].run, MT_RUN_OOM);
}

/* Adds "With autocast bf16 the run needs 4.28 GiB more than with autocast off". A run that ran out of memory needs more
 * than it had, by an unknown amount: it needs "at least" so much more if it is the one that needs more. Otherwise the
 * other one needs more "before memory ran out". */
static void add_comparison(const struct mt_diff_answer *answer, struct mt_text *out)
{
    int64_t bytes = answer->diff.allocated.delta_bytes;
    bool is_a_oom = ran_out(answer, MT_SIDE_A), is_b_oom = ran_out(answer, MT_SIDE_B);
    bool is_bound = (is_b_oom && !is_a_oom && bytes > 0) || (is_a_oom && !is_b_oom && bytes < 0);
    add_subject(answer, MT_SIDE_B, out);
    mt_text_add(out, "%s %s ", differ_in_one(answer) ? " the run" : "", is_b_oom && !is_bound ? "reached" : "needs");
    if (bytes == 0)
        mt_text_add(out, "as much as ");
    else
        mt_text_add(out, "%s%s %s than ", is_bound ? "at least " : "", MT_SIZE((uint64_t)llabs(bytes)),
                    bytes > 0 ? "more" : "less");
    add_subject(answer, MT_SIDE_A, out);
    if (is_a_oom && is_b_oom)
        mt_text_add(out, " before both ran out of memory");
    else if ((is_a_oom || is_b_oom) && !is_bound)
        mt_text_add(out, " before memory ran out");
}

/* Adds "The dry run predicts 1.24 GiB allocated at the peak; the recording has 1.26 GiB, 1.6 % more." */
static void add_prediction(const struct mt_diff_answer *answer, mt_side predicted, struct mt_text *out)
{
    const uint64_t before = answer->diff.side[predicted].allocated_bytes;
    const uint64_t after = answer->diff.side[MT_SIDE_COUNT - 1 - predicted].allocated_bytes;
    mt_text_add(out, "The dry run predicts %s allocated at the peak; the recording has ", MT_SIZE(before));
    if (before == after)
        mt_text_add(out, "as much, to the byte. ");
    else
        mt_text_add(out, "%s, %.2g %% %s. ", MT_SIZE(after), fabs(mt_diff_percent(before, after)),
                    after > before ? "more" : "less");
}

/* Adds the operators whose blocks at the peak differ: "aten::addmm +2.00 MiB". */
static void add_operators(const struct mt_diff_answer *answer, struct mt_text *out)
{
    enum { MOST_NAMED = 3 };
    size_t count = 0;
    while (count < answer->group_count && answer->groups[count].delta_bytes != 0)
        count++;
    if (count == 0)
        return;
    mt_text_add(out, "By operator, B has ");
    for (size_t i = 0; i < count && i < MOST_NAMED; i++) {
        const struct mt_diff_group *group = &answer->groups[i];
        mt_text_add(out, "%s%s of %s", i > 0 ? ", " : "", MT_SIZE_DIFFERENCE(group->delta_bytes),
                    group->name[0] != '\0' ? group->name : "blocks without an operator");
    }
    if (count > MOST_NAMED)
        mt_text_add(out, " and differs in %zu more", count - MOST_NAMED);
    mt_text_add(out, ". ");
}

void mt_diff_add_sentence(const struct mt_diff_answer *answer, struct mt_text *out)
{
    const mt_side predicted = mt_diff_predicted(answer);
    if (predicted != MT_SIDE_COUNT) {
        add_prediction(answer, predicted, out);
        if (answer->key == MT_GROUP_OP)
            add_operators(answer, out);
    }
    const struct mt_diff_parts *parts = &answer->diff.allocated;
    struct mt_text against = {0};
    add_comparison(answer, out);
    if (parts->delta_bytes != 0) {
        mt_text_add(out, ", because of ");
        add_causes_of(&answer->diff, parts->delta_bytes > 0, out);
        if (add_causes_of(&answer->diff, parts->delta_bytes < 0, &against) > 0)
            mt_text_add(out, ", offset by %s", mt_text_get(&against));
    }
    mt_text_add(out, ".");
    mt_text_release(&against);
}
