#include "words/oom_words.h"

#include "answer/answer.h"
#include "base/memory.h"
#include "words/change_words.h"
#include "words/finding_words.h"
#include "words/observed_words.h"
#include "words/run_words.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#define ROW struct mt_oom_request_row
static const struct mt_field asked_fields[] = {
    MT_BYTES(ROW, refusal.mark.value, "requested_bytes", NULL, NULL),
    MT_BYTES(ROW, refusal.need.block_bytes, "block_bytes", NULL, "rounded up"),
    MT_BYTES(ROW, refusal.needed_bytes, "segment_bytes", NULL, "that the policy would have reserved for it"),
    MT_FLAG(ROW, refusal.grows, "grows", NULL, "true if a segment would have grown by them; else a new one was needed"),
    MT_INTEGER(ROW, refusal.mark.event, "event", NULL, "its id"),
    MT_STREAM(ROW, refusal.mark.stream, "stream", NULL, NULL),
    MT_STEP(ROW, step, "step", NULL, "null: before the first"),
    MT_COUNT(ROW, refusal.alike, "alike_before", NULL,
             "earlier requests of its size, equal except for the layer, that succeeded"),
    MT_NAME(ROW, label.category, "category", NULL, "the kind of tensor"),
    MT_NAME(ROW, label.role, "role", NULL, NULL),
    MT_NAME(ROW, label.op, "op", NULL, "what allocated it"),
    MT_NAME(ROW, label.phase, "phase", NULL, NULL),
    MT_NAME(ROW, label.dtype, "dtype", NULL, NULL),
    MT_NAME(ROW, label.shape, "shape", NULL, NULL),
    MT_NAME(ROW, label.span, "span", NULL, "the module that allocated"),
    MT_NAME(ROW, label.place, "place", NULL, "the module, with `*` for the number of the layer"),
    MT_FIELDS_END,
};
static const struct mt_row_type asked_type = MT_ROW_TYPE(ROW, asked_fields);

static const struct mt_field memory_fields[] = {
    MT_BYTES(ROW, refusal.reserved_bytes, "reserved_bytes", NULL, "= `allocated_bytes` + `hole_bytes`"),
    MT_BYTES(ROW, refusal.allocated_bytes, "allocated_bytes", NULL, "of live blocks"),
    MT_BYTES(ROW, refusal.hole_bytes, "hole_bytes", NULL, "free between blocks"),
    MT_COUNT(ROW, refusal.hole_count, "hole_count", NULL, NULL),
    MT_BYTES(ROW, refusal.largest_hole_bytes, "largest_hole_bytes", NULL, NULL),
    MT_BYTES(ROW, refusal.given_back_bytes, "given_back_bytes", NULL, "for this request, in vain"),
    MT_COUNT(ROW, refusal.given_back_segments, "given_back_segments", NULL,
             "idle segments, or parts, with these bytes"),
    MT_KNOWN(ROW, capacity_bytes, "capacity_bytes", NULL, "of the device; null: the trace does not say"),
    MT_KNOWN(ROW, left_bytes, "left_bytes", NULL, "not reserved; null: the trace does not say"),
    MT_KNOWN(
        ROW, refusal.device_free_bytes, "device_free_bytes", NULL,
        "by the driver, when it refused; at least `segment_bytes`: a limit of the process refused; null: not known"),
    MT_SOME_BYTES(ROW, refusal.short_bytes, "short_bytes", NULL,
                  "`segment_bytes` - `device_free_bytes` or, if that is null, `left_bytes`; null: no more was needed"),
    MT_BYTES(ROW, limit_bytes, "limit_bytes", NULL,
             "the memory that changes had to fit: the capacity, or what the run held if others held the rest"),
    MT_FIELDS_END,
};
static const struct mt_row_type memory_type = MT_ROW_TYPE(ROW, memory_fields);
#undef ROW

#define ROW struct mt_oom_hole_row
static const struct mt_field hole_fields[] = {
    MT_TEXT(ROW, reason, "reason", NULL, "`too small`, `other pool`, `other stream` or `not taken`"),
    MT_STREAM(ROW, group.stream, "stream", NULL, "of their segments"),
    MT_TEXT(ROW, pool, "pool", NULL, "of their segments, `small` or `large`"),
    MT_COUNT(ROW, group.count, "count", "gaps", NULL),
    MT_BYTES(ROW, group.bytes, "bytes", "size", NULL),
    MT_BYTES(ROW, group.largest_bytes, "largest_bytes", "largest", NULL),
    MT_SHOWN(TEXT, const char *, ROW, segments, "segments", "gaps in segments"),
    MT_SHOWN_OWNED(TEXT, ROW, why, "why", "why they could not serve"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_oom_hole_type = MT_ROW_TYPE(ROW, hole_fields);
#undef ROW

#define SHARE_FIELDS(name)                                                                                             \
    MT_TEXT(struct mt_oom_share, category, name, NULL, NULL),                                                          \
        MT_BYTES(struct mt_oom_share, allocated_bytes, "allocated_bytes", NULL, NULL),                                 \
        MT_BYTES(struct mt_oom_share, requested_bytes, "requested_bytes", NULL, NULL),                                 \
        MT_COUNT(struct mt_oom_share, blocks, "blocks", NULL, NULL)
static const struct mt_field role_fields[] = {SHARE_FIELDS("role"), MT_FIELDS_END};
static const struct mt_field category_fields[] = {SHARE_FIELDS("category"), MT_FIELDS_END};
static const struct mt_field place_fields[] = {
    SHARE_FIELDS("category"),
    MT_NAME(struct mt_oom_share, place, "place", NULL, "the module, with `*` for the number of the layer"),
    MT_FIELDS_END,
};
static const struct mt_row_type role_type = MT_ROW_TYPE(struct mt_oom_share, role_fields);
static const struct mt_row_type category_type = MT_ROW_TYPE(struct mt_oom_share, category_fields);
static const struct mt_row_type place_type = MT_ROW_TYPE(struct mt_oom_share, place_fields);

#define ROW struct mt_oom_change_row
static const struct mt_field change_fields[] = {
    MT_OWNED(ROW, change, "change", "enough", "in words or as options"),
    MT_TEXT(ROW, proof_name, "proof", "proved by",
            "`simulation`: the whole run with it ran to its end; `replay`: the run up to the request, which was met"),
    MT_BYTES(ROW, reserved_bytes, "reserved_bytes", "peak reserved", "the peak with it"),
    MT_BYTES(ROW, room_bytes, "room_bytes", "to spare", "what that leaves of `limit_bytes`"),
    MT_TEXT(ROW, pattern, "pattern", NULL, "as of memtrace.advise, or null"),
    MT_OWNED(ROW, command, "command", NULL, "to run, of a simulation; otherwise null"),
    MT_OWNED(ROW, hint, "hint", NULL, "what to do, of a replay; otherwise null"),
    MT_SHOWN(INTEGER, int64_t, ROW, number, "number", "#"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_oom_change_type = MT_ROW_TYPE(ROW, change_fields);
#undef ROW

#define ROW struct mt_oom_row
static const struct mt_field answer_fields[] = {
    MT_ROW(ROW, request, "asked", &asked_type, "the request; texts are null if its label says nothing"),
    MT_ROW(ROW, request, "memory", &memory_type, "what there was then"),
    MT_PART(ROW, observations, &mt_observations_type),
    MT_OWNED(ROW, verdict, "verdict", NULL, "in words, if a limit refused, too little was free, or none in one piece"),
    MT_ROWS(ROW, holes, hole_count, "holes", &mt_oom_hole_type,
            "by why they could not serve; they sum to `hole_bytes`"),
    MT_ROWS(ROW, roles.items, roles.count, "by_role", &role_type, "what was live"),
    MT_ROWS(ROW, categories.items, categories.count, "by_category", &category_type, "the same by category"),
    MT_ROWS(ROW, places.items, places.count, "by_place", &place_type, "the same by place"),
    MT_ROWS(ROW, changes, change_count, "changes", &mt_oom_change_type,
            "that are enough; simulated ones first, each kind from cheapest to most expensive"),
    MT_KNOWN(ROW, needs_bytes, "needs_bytes", NULL, "of the whole run as it was, by simulation; null: not known"),
    MT_FLAG(ROW, is_reproduced, "replayed", NULL, "false: a replay does not end at the request, so none was tried"),
    MT_TEXT(ROW, smallest_card, "smallest_card", NULL,
            "that the run as it is fits, looked for where no simulated change does; otherwise null"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_oom_type = MT_ROW_TYPE(ROW, answer_fields);
#undef ROW

/* Adds why the holes of the group could not serve. */
static void add_reason(const struct mt_refusal *refusal, const struct mt_hole_group *group, struct mt_text *out)
{
    switch (group->reason) {
    case MT_HOLE_TOO_SMALL:
        mt_text_add(out, "each is smaller than the %s that it takes", MT_SIZE(refusal->need.block_bytes));
        return;
    case MT_HOLE_OTHER_POOL:
        mt_text_add(out, "kept for requests %s %s", group->is_small ? "up to" : "above",
                    MT_SIZE(refusal->need.small_limit_bytes));
        return;
    case MT_HOLE_OTHER_STREAM:
        mt_text_add(out, "kept for stream %u; the request was on stream %u", group->stream, refusal->mark.stream);
        return;
    case MT_HOLE_NOT_TAKEN:
        mt_text_add(out, "large enough, but passed over: too large to be split, or too far down its list");
        return;
    case MT_HOLE_REASON_COUNT:
        break;
    }
    assert(false);
}

static void create_holes(const struct mt_refusal *refusal, struct mt_oom_row *out)
{
    out->hole_count = refusal->group_count;
    out->holes = mt_host_alloc((refusal->group_count + 1) * sizeof *out->holes);
    for (size_t i = 0; i < refusal->group_count; i++) {
        const struct mt_hole_group *group = &refusal->groups[i];
        assert(group->largest_bytes <= group->bytes);
        out->holes[i] = (struct mt_oom_hole_row){.group = *group,
                                                 .reason = mt_hole_reason_name(group->reason),
                                                 .pool = group->is_small ? "small" : "large",
                                                 .segments = group->is_small ? "of small blocks" : "of large blocks"};
        add_reason(refusal, group, &out->holes[i].why);
    }
}

static void add_replayed(const struct mt_replayed_change *replayed, const struct mt_program *program,
                         struct mt_oom_change_row *out)
{
    switch (replayed->kind) {
    case MT_REPLAYED_PROGRAM:
        mt_change_add(&replayed->program, program, &out->change);
        mt_change_add_hint(&replayed->program, program, &out->hint);
        return;
    case MT_REPLAYED_PATTERN:
        out->pattern = mt_finding_kinds[replayed->finding.pattern].name;
        mt_finding_add_mended(&replayed->finding, program, &out->change);
        mt_finding_add_hint(&replayed->finding, program, &out->hint);
        return;
    case MT_REPLAYED_POLICY:
        mt_alternative_add(&replayed->alloc, program, &out->change);
        mt_hint_add(mt_alloc_grows(&replayed->alloc) ? MT_HINT_POLICY_TIGHT : MT_HINT_POLICY_TORCH, program,
                    &out->hint);
        return;
    case MT_REPLAYED_USED_ONLY:
        mt_text_add(&out->change, "every block from its first to its last use only");
        mt_text_add(&out->hint, "free at the last use and allocate at the first: memtrace advise shows where that saves"
                                " most");
    }
}

static void create_changes(const struct mt_oom_answer *answer, struct mt_oom_row *out)
{
    out->change_count = answer->change_count;
    out->changes = mt_host_alloc(MT_MOST_OOM_CHANGES * sizeof *out->changes);
    for (size_t i = 0; i < answer->change_count; i++) {
        const struct mt_oom_change *change = &answer->changes[i];
        struct mt_oom_change_row *row = &out->changes[i];
        assert(change->reserved_bytes <= answer->limit_bytes);
        *row = (struct mt_oom_change_row){.number = (int64_t)i + 1,
                                          .proof = change->proof,
                                          .proof_name = mt_oom_proof_name(change->proof),
                                          .reserved_bytes = change->reserved_bytes,
                                          .room_bytes = answer->limit_bytes - change->reserved_bytes};
        if (change->proof == MT_PROOF_REPLAY) {
            add_replayed(&change->replayed, &answer->material.input.program, row);
        } else {
            mt_fit_remedy_add_changes(&change->remedy, &row->change);
            mt_run_command_add(&change->remedy.plan, &row->command);
        }
        assert((row->command.length > 0) != (row->hint.length > 0));
    }
}

/* Adds that a limit refused what the device could have given, and the limit that would have done. */
static void add_limit(const struct mt_oom_answer *answer, struct mt_text *out)
{
    const struct mt_refusal *refusal = &answer->refusal;
    bool is_pytorch = answer->material.input.program.kind == MT_PROGRAM_PYTORCH;
    uint64_t enough = refusal->reserved_bytes + refusal->needed_bytes;
    mt_text_add(out, "The device had %s free, enough for it: a limit of the process refused it, such as %s.",
                MT_SIZE((uint64_t)refusal->device_free_bytes),
                is_pytorch ? "torch.cuda.set_per_process_memory_fraction() or a quota" : "a quota");
    mt_text_add(out, " Raise the limit to %s (%" PRIu64 " bytes) or more: the reserved memory plus the request.",
                MT_SIZE(enough), enough);
}

/* Adds that the device had too little free, and what others held of it as far as that is known. */
static void add_device_full(const struct mt_oom_answer *answer, struct mt_text *out)
{
    const struct mt_refusal *refusal = &answer->refusal;
    mt_text_add(out, "The device had %s free, and the allocator held %s", MT_SIZE((uint64_t)refusal->device_free_bytes),
                MT_SIZE(refusal->reserved_bytes));
    if (mt_oom_knows_capacity(answer))
        mt_text_add(out, ": %s were held by others or by the context.", MT_SIZE(mt_refusal_elsewhere(refusal)));
    else
        mt_text_add(out, ". What others held is not known, since the trace does not say how much memory the device "
                         "has.");
}

/* Adds the sentence that tells if a limit refused, if too few bytes were free, or if none in one piece. */
static void add_verdict(const struct mt_oom_answer *answer, struct mt_text *out)
{
    const struct mt_refusal *refusal = &answer->refusal;
    uint64_t left = mt_refusal_left(&answer->refusal), all = left + refusal->hole_bytes,
             needed = refusal->need.block_bytes;
    if (mt_refusal_is_limited(refusal))
        add_limit(answer, out);
    else if (mt_oom_knows_free(answer))
        add_device_full(answer, out);
    else if (!mt_oom_knows_capacity(answer))
        mt_text_add(out, "The trace does not say how much memory the device has.");
    else if (refusal->short_bytes == 0)
        mt_text_add(out,
                    "The device refused %s though %s were not reserved: others held a part, such as CUDA's context.",
                    MT_SIZE(refusal->needed_bytes), MT_SIZE(left));
    else if (left >= needed)
        mt_text_add(out, "%s are not reserved, enough for the request, but for its size the policy reserves %s.",
                    MT_SIZE(left), MT_SIZE(refusal->needed_bytes));
    else if (all >= needed)
        mt_text_add(
            out, "%s are free, which is enough, but not in one piece: %s of reserved memory is in gaps between blocks.",
            MT_SIZE(all),
            mt_format_share((double)refusal->hole_bytes, (double)refusal->reserved_bytes, (char[MT_BYTES_TEXT]){0}));
    else
        mt_text_add(out, "Memory is full: even in one piece, the %s that are free would be %s too few.", MT_SIZE(all),
                    MT_SIZE(needed - all));
}

void mt_oom_row_create(const struct mt_oom_answer *answer, struct mt_oom_row *out)
{
    const struct mt_refusal *refusal = &answer->refusal;
    bool knows_capacity = answer->question->run->capacity_bytes > 0;
    *out = (struct mt_oom_row){.request = {.refusal = *refusal,
                                           .label = answer->material.input.labels[refusal->mark.label],
                                           .step = answer->step,
                                           .capacity_bytes = knows_capacity ? (int64_t)refusal->capacity_bytes : -1,
                                           .left_bytes = knows_capacity ? (int64_t)mt_refusal_left(refusal) : -1,
                                           .limit_bytes = answer->limit_bytes},
                               .roles = answer->roles,
                               .categories = answer->categories,
                               .places = answer->places,
                               .needs_bytes = answer->is_simulated ? (int64_t)answer->fit.fit.enough_bytes : -1,
                               .is_reproduced = answer->replayed.is_reproduced,
                               .smallest_card = answer->smallest_card,
                               .observations = answer->observations};
    add_verdict(answer, &out->verdict);
    create_holes(refusal, out);
    create_changes(answer, out);
}

void mt_oom_row_release(struct mt_oom_row *row)
{
    mt_rows_release(&mt_oom_hole_type, row->holes, row->hole_count);
    mt_rows_release(&mt_oom_change_type, row->changes, row->change_count);
    mt_text_release(&row->verdict);
    *row = (struct mt_oom_row){0};
}

json_t *mt_oom_json(const struct mt_oom_answer *answer)
{
    struct mt_oom_row row;
    mt_oom_row_create(answer, &row);
    json_t *object = mt_answer_begin("oom", answer->question->run);
    mt_row_add_json(&mt_oom_type, &row, object);
    mt_oom_row_release(&row);
    return object;
}
