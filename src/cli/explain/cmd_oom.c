/* memtrace oom: why a run ended out of memory, and what would have kept it going. */
#include "cli/command.h"
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "words/oom_words.h"
#include "words/run_words.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

static const struct mt_label_row *label_of(const struct mt_oom_answer *answer)
{
    assert(answer->refusal.mark.label < answer->material.input.label_count);
    return &answer->material.input.labels[answer->refusal.mark.label];
}

/* Prints "It asked for 16.00 MiB (16777216 bytes) of FFN, for swiglu.silu: saved, fp32 (4,256,4096)". */
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
    mt_print_line(&line);
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
    mt_print_line(&line);
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

static void print_memory(const struct mt_oom_answer *answer)
{
    const struct mt_refusal *refusal = &answer->refusal;
    struct mt_text given_back = {0}, holes = {0};
    assert(refusal->reserved_bytes == refusal->allocated_bytes + refusal->hole_bytes);
    add_given_back(refusal, &given_back);
    add_holes(refusal, &holes);
    const struct {
        bool is_shown;
        struct memory_line line;
    } lines[] = {
        {mt_oom_knows_capacity(answer), {"capacity", refusal->capacity_bytes, ""}},
        {true, {"reserved", refusal->reserved_bytes, mt_text_get(&given_back)}},
        {true, {"  live", refusal->allocated_bytes, ""}},
        {true, {"  holes", refusal->hole_bytes, mt_text_get(&holes)}},
        {mt_oom_knows_capacity(answer), {"not reserved", mt_refusal_left(refusal), ""}},
        {true,
         {"needed", refusal->needed_bytes,
          refusal->grows ? "by so much a segment would have grown, since no hole served"
                         : "a new segment, since no hole served"}},
        {mt_oom_knows_free(answer),
         {"device free", (uint64_t)refusal->device_free_bytes, "by its driver, when it refused"}},
        {refusal->short_bytes > 0,
         {"short", refusal->short_bytes,
          mt_oom_knows_free(answer) ? "needed, less what the device had free" : "needed, less what is not reserved"}},
    };
    struct memory_line shown[sizeof lines / sizeof lines[0]];
    size_t count = 0;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        if (lines[i].is_shown)
            shown[count++] = lines[i].line;
    putchar('\n');
    mt_rows_print(&memory_type, "name size bytes meaning", NULL, shown, count);
    mt_text_release(&given_back);
    mt_text_release(&holes);
}

static void print_need_of_run(const struct mt_oom_answer *answer)
{
    const struct mt_fit *fit = &answer->fit.fit;
    char needs[MT_BYTES_TEXT], more[MT_BYTES_TEXT];
    if (!answer->is_simulated)
        return;
    assert(!fit->fits && fit->enough_bytes > fit->capacity_bytes);
    mt_say("Simulated to its end, the run as it is needs %s, %s more than there is.",
           mt_format_bytes(fit->enough_bytes, needs), mt_format_bytes((uint64_t)-mt_fit_room_bytes(fit), more));
    if (answer->smallest_card != NULL)
        mt_say("No change that was simulated makes it fit; the smallest of the known cards that it fits is sim:%s.",
               answer->smallest_card);
}

/* Live blocks of one kind, as a table has them. */
struct live_line {
    struct mt_text name;
    uint64_t bytes, blocks;
    double share;
};

static const struct mt_field live_fields[] = {
    MT_SHOWN(TEXT, char *, struct live_line, name.data, "role", "live, by role"),
    MT_SHOWN(TEXT, char *, struct live_line, name.data, "category", "live, by category"),
    MT_SHOWN(TEXT, char *, struct live_line, name.data, "place", "live, by place"),
    MT_SHOWN(BYTES, uint64_t, struct live_line, bytes, "bytes", "allocated"),
    MT_SHOWN(SHARE, double, struct live_line, share, "share", "share"),
    MT_SHOWN(COUNT, uint64_t, struct live_line, blocks, "blocks", "blocks"),
    MT_FIELDS_END,
};
static const struct mt_row_type live_type = MT_ROW_TYPE(struct live_line, live_fields);

/* Prints up to SHARE_ROWS rows, the last of which is the sum of the others. */
static void print_shares(const struct mt_oom_answer *answer, const struct mt_oom_shares *shares, const char *fields)
{
    enum { SHARE_ROWS = 6 };
    struct live_line lines[SHARE_ROWS] = {{{0}, 0, 0, 0}};
    size_t named = shares->count <= SHARE_ROWS ? shares->count : SHARE_ROWS - 1;
    size_t count = shares->count <= SHARE_ROWS ? shares->count : SHARE_ROWS;
    uint64_t sum = 0;
    for (size_t i = 0; i < shares->count; i++) {
        const struct mt_oom_share *share = &shares->items[i];
        struct live_line *line = &lines[i < named ? i : named];
        if (i < named)
            mt_text_add(&line->name, "%s%s%s", share->category, share->place[0] != '\0' ? " at " : "", share->place);
        else if (i == named)
            mt_text_add(&line->name, "(%zu others)", shares->count - named);
        line->bytes += share->allocated_bytes;
        line->blocks += share->blocks;
        line->share = (double)line->bytes / (double)answer->refusal.allocated_bytes;
        sum += share->allocated_bytes;
    }
    assert(sum == answer->refusal.allocated_bytes);
    (void)sum;
    putchar('\n');
    mt_rows_print(&live_type, fields, NULL, lines, count);
    for (size_t i = 0; i < count; i++)
        mt_text_release(&lines[i].name);
}

/* Prints what was live. Categories of our model say most; of others roles are known better. */
static void print_live(const struct mt_oom_answer *answer)
{
    if (answer->categories.count == 0) {
        mt_say("\nNothing was live.");
        return;
    }
    if (answer->is_ours)
        print_shares(answer, &answer->categories, "category bytes share blocks");
    else
        print_shares(answer, &answer->roles, "role bytes share blocks");
    print_shares(answer, &answer->places, "place bytes share blocks");
}

/* Prints the changes, and under them the command or the hint of each. */
static void print_changes(const struct mt_oom_row *row)
{
    putchar('\n');
    mt_rows_print(&mt_oom_change_type, "number change proof reserved_bytes room_bytes", NULL, row->changes,
                  row->change_count);
    for (size_t i = 0; i < row->change_count; i++) {
        const struct mt_oom_change_row *change = &row->changes[i];
        assert(change->number == (int64_t)i + 1);
        if (change->command.length == 0) {
            mt_say("%zu. %s", i + 1, mt_text_get(&change->hint));
            continue;
        }
        printf("%zu. ", i + 1); /* in one piece, so that it can be copied */
        mt_print_name(change->command.data);
        putchar('\n');
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
        mt_say("Simulation: the whole run with the change, on %s, ran to its end.", answer->simulated_device);
    if (has_proof(answer, MT_PROOF_REPLAY))
        mt_say("Replay: the run up to this request with the change, and the request was met; what the rest of the step "
               "would have asked for is not known.");
}

/* Prints the changes that were simulated in vain, and the bytes that each lacks. */
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
        mt_print_line(&line);
}

/* Prints the bytes that would have to go, where no change that was tried suffices. */
static void print_nothing_suffices(const struct mt_oom_answer *answer)
{
    char size[MT_BYTES_TEXT];
    if (mt_refusal_is_limited(&answer->refusal))
        mt_say("\nNo change that was tried would have sufficed under the limit.");
    else if (answer->refusal.short_bytes > 0)
        mt_say("\nNo change that was tried would have sufficed: at least %s of what was live%s would have to go.",
               mt_format_bytes(answer->refusal.short_bytes, size),
               mt_oom_knows_free(answer) ? ", or of what others held," : "");
    else
        mt_say("\nNo change that was tried would have sufficed: what others held of the device may have to go.");
}

static void print_notes(const struct mt_oom_answer *answer)
{
    char limit[MT_BYTES_TEXT];
    if (answer->is_ours && !answer->is_simulated)
        mt_say("Simulated on %s, the run as it is does not run out of memory: changes to it were not simulated.",
               answer->simulated_device);
    if (!answer->replayed.is_reproduced)
        mt_say("A replay does not run out of memory where the run did: changes were not replayed.");
    if (mt_oom_knows_capacity(answer) && answer->limit_bytes != answer->refusal.capacity_bytes)
        mt_say("Changes had to do with the %s that the run held when it asked: %s the rest.",
               mt_format_bytes(answer->limit_bytes, limit),
               mt_refusal_is_limited(&answer->refusal) ? "a limit kept it from" : "others held");
}

static void print_answer(const struct mt_oom_answer *answer)
{
    struct mt_oom_row row;
    mt_oom_row_create(answer, &row);
    mt_question_print_title(answer->question);
    print_what(answer);
    print_where(answer);
    print_memory(answer);
    mt_say("\n%s", mt_text_get(&row.verdict));
    print_need_of_run(answer);
    if (row.hole_count > 0) {
        putchar('\n');
        mt_rows_print(&mt_oom_hole_type, "segments count bytes largest_bytes why", "bytes count", row.holes,
                      row.hole_count);
    }
    print_live(answer);
    if (row.change_count > 0) {
        print_changes(&row);
        print_proofs(answer);
    } else {
        print_nothing_suffices(answer);
    }
    print_in_vain(answer);
    print_notes(answer);
    mt_oom_row_release(&row);
}

static const struct mt_option options[] = {MT_RUN_ARGUMENT, MT_TRACE_OPTIONS};

static mt_status run_oom(const void *given)
{
    const struct mt_trace_options *asked = given;
    struct mt_question question;
    MT_TRY(mt_question_open_ended(asked, MT_RUN_OOM, &question));
    struct mt_oom_answer answer;
    mt_status status = mt_oom_answer_load(&question, &answer);
    if (status == MT_USAGE && answer.event == 0 && !mt_run_is(question.run, MT_RUN_OOM))
        mt_fail_hint(status,
                     "memtrace runs lists those that did, memtrace fit --run %" PRId64
                     " --device sim:24GiB tells whether this one fits another device",
                     question.run->id);
    if (status == MT_OK)
        asked->json ? mt_json_print(mt_oom_json(&answer)) : print_answer(&answer);
    mt_oom_answer_release(&answer);
    mt_question_close(&question);
    return status;
}

const struct mt_command mt_command_oom = {
    .name = "oom",
    .summary = "Tells why a run ended out of memory, and what would have kept it going.",
    .usage = "[RUN|FILE] [OPTIONS]",
    .details =
        "It speaks of the newest run of the trace that ended so: of what was asked for and by whom, what the device\n"
        "had left, what was reserved but free and why that could not serve, what was live, and of the changes that\n"
        "would have sufficed, from the one that costs training least. Each of these was tried:\n"
        "\n"
        "Simulation: the whole run was made again with the change, on a simulated device of the same size, and ran to\n"
        "its end. Only a run of memtrace run can be made again.\n"
        "\n"
        "Replay: the allocations up to the request were made again with the change, and the request was met. What\n"
        "would have been asked for after it is not known.\n",
    .examples = "  memtrace run --device sim:2GiB --model small || memtrace oom\n"
                "  memtrace oom --json | jq -r '.changes[0].command'\n",
    .options = options,
    MT_OPTIONS_OF(struct mt_trace_options, .trace = MT_DEFAULT_TRACE),
    .answer = &mt_oom_type,
    .run = run_oom,
};
