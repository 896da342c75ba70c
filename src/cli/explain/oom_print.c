/* The answer of `memtrace oom` on one screen. */
#include "answer/table.h"
#include "cli/explain/oom_words.h"
#include "cli/output/output.h"
#include "cli/run/fit_report.h"

#include <inttypes.h>
#include <stdio.h>

enum { SHARE_ROWS = 6 };

static const struct mt_label_row *label_of(const struct mt_oom_answer *answer)
{
    return &answer->material.input.labels[answer->refusal.mark.label];
}

static bool knows_capacity(const struct mt_oom_answer *answer)
{
    return answer->question->run->capacity_bytes > 0;
}

static void print_line(struct mt_text *line)
{
    mt_print_name(mt_text_get(line));
    putchar('\n');
    mt_text_release(line);
}

/* "It asked for 16.00 MiB (16777216 bytes) of FFN, for swiglu.silu: saved, fp32 (4,256,4096)". */
static void print_what(const struct mt_oom_answer *answer)
{
    const struct mt_label_row *label = label_of(answer);
    char asked[MT_BYTES_TEXT];
    struct mt_text line = {0};
    mt_text_add(&line, "It asked for %s (%" PRIu64 " bytes) of %s, for %s: %s",
                mt_format_bytes(answer->refusal.mark.value, asked), answer->refusal.mark.value, label->category,
                label->op, label->role);
    if (label->dtype[0] != '\0')
        mt_text_add(&line, ", %s", label->dtype);
    if (label->shape[0] != '\0')
        mt_text_add(&line, " (%s)", label->shape);
    print_line(&line);
}

static void print_where(const struct mt_oom_answer *answer)
{
    const struct mt_label_row *label = label_of(answer);
    char step[MT_BYTES_TEXT];
    struct mt_text line = {0};
    const char *span = label->span[0] != '\0' ? label->span : answer->refusal.mark.span;
    mt_text_add(&line, "%s%s%sin %s", span[0] != '\0' ? "at " : "", span, span[0] != '\0' ? ", " : "", label->phase);
    if (answer->step != MT_NO_STEP)
        mt_text_add(&line, " of %s", mt_format_step(answer->step, step));
    mt_text_add(&line, ". ");
    if (answer->refusal.alike == 0)
        mt_text_add(&line, "It was the first such request");
    else
        mt_text_add(&line, "%" PRIu64 " such request%s had been met", answer->refusal.alike,
                    answer->refusal.alike == 1 ? "" : "s");
    if (!answer->material.is_whole)
        mt_text_add(&line, " since step %" PRId64, answer->material.first_step);
    mt_text_add(&line, ".");
    print_line(&line);
}

static void add_memory(struct mt_table *table, const char *what, uint64_t bytes, const char *meaning)
{
    mt_table_add(table, what);
    mt_table_add_bytes(table, bytes);
    mt_table_add_number(table, (int64_t)bytes);
    mt_table_add(table, meaning);
}

static void add_given_back(const struct mt_refusal *refusal, struct mt_text *out)
{
    char size[MT_BYTES_TEXT];
    if (refusal->given_back_segments == 0)
        mt_text_add(out, "no segment was idle, so nothing could be given back");
    else
        mt_text_add(out, "after %" PRIu64 " idle segment%s of %s %s given back, in vain", refusal->given_back_segments,
                    refusal->given_back_segments == 1 ? "" : "s", mt_format_bytes(refusal->given_back_bytes, size),
                    refusal->given_back_segments == 1 ? "was" : "were");
}

static void add_holes(const struct mt_refusal *refusal, struct mt_text *out)
{
    char size[MT_BYTES_TEXT];
    mt_text_add(out, "free between blocks, in %" PRIu64 " hole%s", refusal->hole_count,
                refusal->hole_count == 1 ? "" : "s");
    if (refusal->hole_count > 0)
        mt_text_add(out, ", the largest of %s", mt_format_bytes(refusal->largest_hole_bytes, size));
}

static void print_memory(const struct mt_oom_answer *answer)
{
    static const struct mt_column columns[] = {
        {"memory", MT_ALIGN_LEFT}, {"size", MT_ALIGN_RIGHT}, {"bytes", MT_ALIGN_RIGHT}, {"", MT_ALIGN_LEFT}};
    const struct mt_refusal *refusal = &answer->refusal;
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    struct mt_text given_back = {0}, holes = {0};
    add_given_back(refusal, &given_back);
    add_holes(refusal, &holes);
    if (knows_capacity(answer))
        add_memory(table, "capacity", refusal->capacity_bytes, "");
    add_memory(table, "reserved", refusal->reserved_bytes, mt_text_get(&given_back));
    add_memory(table, "  live", refusal->allocated_bytes, "");
    add_memory(table, "  holes", refusal->hole_bytes, mt_text_get(&holes));
    if (knows_capacity(answer))
        add_memory(table, "not reserved", mt_refusal_left(&answer->refusal), "");
    add_memory(table, "needed", refusal->needed_bytes,
               refusal->grows ? "by so much a segment would have grown, since no hole served"
                              : "a new segment, since no hole served");
    if (refusal->short_bytes > 0)
        add_memory(table, "short", refusal->short_bytes, "needed, less what is not reserved");
    putchar('\n');
    mt_table_print(table);
    mt_table_destroy(table);
    mt_text_release(&given_back);
    mt_text_release(&holes);
}

/* Whether it was for want of bytes, or of bytes in one piece. */
static void print_verdict(const struct mt_oom_answer *answer)
{
    const struct mt_refusal *refusal = &answer->refusal;
    uint64_t left = mt_refusal_left(&answer->refusal), all = left + refusal->hole_bytes,
             needed = refusal->need.block_bytes;
    char first[MT_BYTES_TEXT], second[MT_BYTES_TEXT];
    if (!knows_capacity(answer))
        puts("\nHow much memory the device has, the trace does not say.");
    else if (refusal->short_bytes == 0)
        printf("\nThe device refused %s though %s were not reserved: others held of it, such as CUDA's context.\n",
               mt_format_bytes(refusal->needed_bytes, first), mt_format_bytes(left, second));
    else if (left >= needed)
        printf("\n%s are not reserved, enough for it, but for its size the policy takes %s.\n",
               mt_format_bytes(left, first), mt_format_bytes(refusal->needed_bytes, second));
    else if (all >= needed)
        printf("\n%s are free, enough for it, but not in one piece: %s of what is reserved lies in holes.\n",
               mt_format_bytes(all, first),
               mt_format_share((double)refusal->hole_bytes, (double)refusal->reserved_bytes, second));
    else
        printf("\nMemory is full: even in one piece, the %s that are free would be %s too few.\n",
               mt_format_bytes(all, first), mt_format_bytes(needed - all, second));
}

static void print_need_of_run(const struct mt_oom_answer *answer)
{
    const struct mt_fit *fit = &answer->fit.fit;
    char needs[MT_BYTES_TEXT], more[MT_BYTES_TEXT];
    if (!answer->is_simulated)
        return;
    printf("Simulated to its end, the run as it is needs %s, %s more than there is.\n",
           mt_format_bytes(fit->enough_bytes, needs), mt_format_bytes((uint64_t)-mt_fit_room_bytes(fit), more));
    if (answer->smallest_card != NULL)
        printf("No change that was simulated makes it fit; the smallest of the known cards that it fits is sim:%s.\n",
               answer->smallest_card);
}

/* Why these holes could not serve. */
static void add_reason(const struct mt_refusal *refusal, const struct mt_hole_group *group, struct mt_text *out)
{
    char size[MT_BYTES_TEXT];
    switch (group->reason) {
    case MT_HOLE_TOO_SMALL:
        mt_text_add(out, "each is smaller than the %s that it takes", mt_format_bytes(refusal->need.block_bytes, size));
        return;
    case MT_HOLE_OTHER_POOL:
        mt_text_add(out, "kept for requests %s %s", group->is_small ? "up to" : "above",
                    mt_format_bytes(refusal->need.small_limit_bytes, size));
        return;
    case MT_HOLE_OTHER_STREAM:
        mt_text_add(out, "kept for stream %u; it was asked for on stream %u", group->stream, refusal->mark.stream);
        return;
    case MT_HOLE_NOT_TAKEN:
        mt_text_add(out, "large enough, but passed over: too large to be split, or too far down its list");
        return;
    case MT_HOLE_REASON_COUNT:
        return;
    }
}

static void print_holes(const struct mt_refusal *refusal)
{
    static const struct mt_column columns[] = {{"holes in segments", MT_ALIGN_LEFT},
                                               {"holes", MT_ALIGN_RIGHT},
                                               {"size", MT_ALIGN_RIGHT},
                                               {"largest", MT_ALIGN_RIGHT},
                                               {"why they could not serve", MT_ALIGN_LEFT}};
    if (refusal->group_count == 0)
        return;
    static const char *const spare[] = {"size", "holes", NULL};
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    mt_table_spare(table, spare);
    for (size_t i = 0; i < refusal->group_count; i++) {
        const struct mt_hole_group *group = &refusal->groups[i];
        struct mt_text reason = {0};
        add_reason(refusal, group, &reason);
        mt_table_add(table, group->is_small ? "of small blocks" : "of large blocks");
        mt_table_add_number(table, (int64_t)group->count);
        mt_table_add_bytes(table, group->bytes);
        mt_table_add_bytes(table, group->largest_bytes);
        mt_table_add(table, mt_text_get(&reason));
        mt_text_release(&reason);
    }
    mt_table_print(table);
    mt_table_destroy(table);
}

static void add_share(struct mt_table *table, const struct mt_oom_share *share, uint64_t whole)
{
    mt_table_add_bytes(table, share->allocated_bytes);
    mt_table_add_share(table, (double)share->allocated_bytes, (double)whole);
    mt_table_add_number(table, (int64_t)share->blocks);
}

/* Up to SHARE_ROWS rows, the last of which is what the others add up to. */
static void print_shares(const struct mt_oom_answer *answer, const struct mt_oom_shares *shares,
                         const struct mt_column *columns)
{
    uint64_t whole = answer->refusal.allocated_bytes;
    size_t shown = shares->count <= SHARE_ROWS ? shares->count : SHARE_ROWS - 1;
    struct mt_oom_share others = {0};
    struct mt_table *table = mt_table_create(columns, 4);
    struct mt_text name = {0};
    for (size_t i = 0; i < shown; i++) {
        const struct mt_oom_share *share = &shares->items[i];
        name.length = 0;
        mt_text_add(&name, "%s%s%s", share->category, share->place[0] != '\0' ? " at " : "", share->place);
        mt_table_add(table, mt_text_get(&name));
        add_share(table, share, whole);
    }
    for (size_t i = shown; i < shares->count; i++) {
        others.allocated_bytes += shares->items[i].allocated_bytes;
        others.blocks += shares->items[i].blocks;
    }
    if (shown < shares->count) {
        name.length = 0;
        mt_text_add(&name, "(%zu others)", shares->count - shown);
        mt_table_add(table, mt_text_get(&name));
        add_share(table, &others, whole);
    }
    putchar('\n');
    mt_table_print(table);
    mt_table_destroy(table);
    mt_text_release(&name);
}

static void print_live(const struct mt_oom_answer *answer)
{
    static const struct mt_column categories[] = {{"live, by category", MT_ALIGN_LEFT},
                                                  {"allocated", MT_ALIGN_RIGHT},
                                                  {"share", MT_ALIGN_RIGHT},
                                                  {"blocks", MT_ALIGN_RIGHT}};
    static const struct mt_column places[] = {{"live, by place", MT_ALIGN_LEFT},
                                              {"allocated", MT_ALIGN_RIGHT},
                                              {"share", MT_ALIGN_RIGHT},
                                              {"blocks", MT_ALIGN_RIGHT}};
    if (answer->categories.count == 0) {
        puts("\nNothing was live.");
        return;
    }
    print_shares(answer, &answer->categories, categories);
    print_shares(answer, &answer->places, places);
}

static void print_changes(const struct mt_oom_answer *answer)
{
    static const struct mt_column columns[] = {{"#", MT_ALIGN_RIGHT},
                                               {"would have sufficed", MT_ALIGN_LEFT},
                                               {"proved by", MT_ALIGN_LEFT},
                                               {"peak reserved", MT_ALIGN_RIGHT},
                                               {"to spare", MT_ALIGN_RIGHT}};
    struct mt_table *table = mt_table_create(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < answer->change_count; i++) {
        const struct mt_oom_change *change = &answer->changes[i];
        struct mt_text text = {0};
        mt_oom_change_add(change, &text);
        mt_table_add_number(table, (int64_t)i + 1);
        mt_table_add(table, mt_text_get(&text));
        mt_table_add(table, mt_oom_proof_name(change->proof));
        mt_table_add_bytes(table, change->reserved_bytes);
        mt_table_add_bytes(table, answer->limit_bytes - change->reserved_bytes);
        mt_text_release(&text);
    }
    putchar('\n');
    mt_table_print(table);
    mt_table_destroy(table);
}

static void print_ways(const struct mt_oom_answer *answer)
{
    for (size_t i = 0; i < answer->change_count; i++) {
        struct mt_text text = {0};
        mt_oom_change_add_way(&answer->changes[i], &text);
        printf("%zu. ", i + 1);
        print_line(&text);
    }
}

static bool has_proof(const struct mt_oom_answer *answer, mt_oom_proof proof)
{
    for (size_t i = 0; i < answer->change_count; i++)
        if (answer->changes[i].proof == proof)
            return true;
    return false;
}

static void print_proofs(const struct mt_oom_answer *answer)
{
    putchar('\n');
    if (has_proof(answer, MT_PROOF_SIMULATION))
        printf("Simulation: the whole run with the change, on %s, ran to its end.\n", answer->simulated_device);
    if (has_proof(answer, MT_PROOF_REPLAY))
        puts("Replay: the run up to this request with the change, and the request was met; what the rest of the step\n"
             "would have asked for is not known.");
}

/* What was simulated in vain, and by how much. */
static void print_in_vain(const struct mt_oom_answer *answer)
{
    struct mt_text line = {0};
    char size[MT_BYTES_TEXT];
    for (size_t i = 0; i < answer->fit.single_count; i++) {
        const struct mt_fit_remedy *remedy = &answer->fit.single[i];
        if (remedy->fit.fits)
            continue;
        mt_text_add(&line, line.length == 0 ? "Simulated too, and not enough: " : ", ");
        mt_fit_remedy_add_changes(remedy, &line);
        mt_text_add(&line, " (%s short)", mt_format_bytes((uint64_t)-mt_fit_room_bytes(&remedy->fit), size));
    }
    if (line.length > 0)
        print_line(&line);
    mt_text_release(&line);
}

/* What would have to go, where nothing that was tried suffices. */
static void print_nothing_suffices(const struct mt_oom_answer *answer)
{
    char size[MT_BYTES_TEXT];
    printf("\nNo change that was tried would have sufficed: ");
    if (answer->refusal.short_bytes > 0)
        printf("at least %s of what was live would have to go.\n", mt_format_bytes(answer->refusal.short_bytes, size));
    else
        puts("what others held of the device may have to go.");
}

static void print_notes(const struct mt_oom_answer *answer)
{
    char limit[MT_BYTES_TEXT];
    if (answer->is_ours && !answer->is_simulated)
        printf("Simulated on %s, the run as it is does not run out of memory: changes to it were not simulated.\n",
               answer->simulated_device);
    if (!answer->replayed.is_reproduced)
        puts("A replay does not run out of memory where the run did: changes were not replayed.");
    if (knows_capacity(answer) && answer->limit_bytes != answer->refusal.capacity_bytes)
        printf("Changes had to do with the %s that the run held when it asked: others held the rest.\n",
               mt_format_bytes(answer->limit_bytes, limit));
}

void mt_oom_answer_print(const struct mt_oom_answer *answer)
{
    mt_question_print_title(answer->question);
    print_what(answer);
    print_where(answer);
    print_memory(answer);
    print_verdict(answer);
    print_need_of_run(answer);
    putchar('\n');
    print_holes(&answer->refusal);
    print_live(answer);
    if (answer->change_count > 0) {
        print_changes(answer);
        print_ways(answer);
        print_proofs(answer);
    } else {
        print_nothing_suffices(answer);
    }
    print_in_vain(answer);
    print_notes(answer);
}
