#include "cli/write/import_report.h"

#include "answer/table.h"
#include "cli/output/output.h"

#include <inttypes.h>
#include <stdio.h>

/* What did not fit the rest: the word for it in JSON, and what one of it is. */
struct contradiction {
    const char *name, *noun, *words;
    uint64_t count;
};
enum { CONTRADICTIONS = 8 };

static void list_contradictions(const struct mt_foreign_counts *counts, struct contradiction *out)
{
    const struct contradiction all[CONTRADICTIONS] = {
        {"unseen_frees", "free", "of blocks that nobody took", counts->unseen_gives},
        {"lost_frees", "block", "whose free is missing", counts->lost_gives},
        {"unmapped_blocks", "block", "whose memory was given back first", counts->unmapped_gives},
        {"lost_unmaps", "segment", "whose end is missing", counts->lost_unmaps},
        {"unseen_unmaps", "end", "of segments that nobody took", counts->unseen_unmaps},
        {"straddling_blocks", "block", "across segments", counts->straddles},
        {"refused", "event", "of no bytes, or beyond all addresses", counts->refused},
        {"times_back", "time", "going back", counts->times_back},
    };
    for (int i = 0; i < CONTRADICTIONS; i++)
        out[i] = all[i];
}

/* What was live at the allocated peak, as it was asked for. */
static uint64_t requested_at_peak(const struct mt_imported_run *imported)
{
    const struct mt_peak_row *peak = &imported->peaks->of[MT_MEASURE_ALLOCATED];
    uint64_t requested = 0;
    for (size_t i = 0; i < peak->share_count; i++)
        requested += peak->shares[i].requested_bytes;
    return requested;
}

static void print_entries(const struct mt_import_report *report)
{
    static const struct mt_column columns[] = {{"came in", MT_ALIGN_LEFT}, {"events", MT_ALIGN_RIGHT}};
    struct mt_table *table = mt_table_create(columns, 2);
    for (size_t i = 0; i < report->count_count; i++) {
        if (report->counts[i].count == 0)
            continue;
        mt_table_add(table, report->counts[i].what);
        mt_table_add_number(table, (int64_t)report->counts[i].count);
    }
    mt_table_add(table, "total");
    mt_table_add_number(table, (int64_t)report->entries);
    mt_table_print(table);
    mt_table_destroy(table);
    putchar('\n');
}

static void print_sentence(struct mt_text *text)
{
    mt_print_wrapped(mt_text_get(text), 0);
    mt_text_release(text);
    *text = (struct mt_text){0};
}

static void add_count(struct mt_text *text, uint64_t count, const char *noun)
{
    mt_text_add(text, "%" PRIu64 " %s%s", count, noun, count == 1 ? "" : "s");
}

static void print_beginning(const struct mt_import_report *report)
{
    char requested[MT_BYTES_TEXT], reserved[MT_BYTES_TEXT];
    struct mt_text text = {0};
    const struct mt_torch_before *before = &report->torch.before;
    if (report->entries == 0)
        mt_text_add(&text, "No events were recorded, which torch.cuda.memory._record_memory_history() begins. ");
    mt_text_add(&text, "Live before the first event: ");
    add_count(&text, before->blocks, "block");
    mt_text_add(&text, " of %s, in ", mt_format_bytes(before->requested_bytes, requested));
    add_count(&text, before->segments, "segment");
    mt_text_add(&text, " of %s", mt_format_bytes(before->reserved_bytes, reserved));
    mt_text_add(&text, before->freed > 0 ? "; %" PRIu64 " of them were freed later." : ".", before->freed);
    if (report->torch.lost_beginning)
        mt_text_add(&text,
                    " The beginning is lost: with %" PRIu64 " events the recording was full (max_entries), and "
                    "overwrote its oldest; what came and went until then is not in the file.",
                    report->entries);
    else if (before->recorded > 0)
        mt_text_add(&text, " An earlier recording saw %" PRIu64 " of them taken; its events are not in the file.",
                    before->recorded);
    print_sentence(&text);
}

/* Only where there was a choice. */
static void print_device(const struct mt_import_report *report)
{
    struct mt_text text = {0};
    if (report->elsewhere == 0)
        return;
    mt_text_add(&text, "That is device %" PRId64 " alone: ", report->device);
    add_count(&text, report->elsewhere, "more event");
    mt_text_add(&text, " of the file %s about other devices%s.", report->elsewhere == 1 ? "is" : "are",
                report->kind == MT_IMPORT_NSYS ? " or processes" : ", which --device N imports");
    print_sentence(&text);
}

static void print_contradictions(const struct mt_import_report *report)
{
    struct contradiction all[CONTRADICTIONS];
    struct mt_text text = {0};
    list_contradictions(&report->foreign, all);
    for (int i = 0; i < CONTRADICTIONS; i++)
        if (all[i].count > 0) {
            mt_text_add(&text, "%s", text.length > 0 ? ", " : "It contradicts itself, and was mended: ");
            add_count(&text, all[i].count, all[i].noun);
            mt_text_add(&text, " %s", all[i].words);
        }
    if (text.length > 0) {
        mt_text_add(&text, ".");
        print_sentence(&text);
    }
}

static void print_rounding(const struct mt_imported_run *imported)
{
    char added[MT_BYTES_TEXT];
    struct mt_text text = {0};
    uint64_t allocated = imported->peaks->of[MT_MEASURE_ALLOCATED].bytes;
    mt_text_add(
        &text,
        "Rounding, and remainders that were too small to be split off, add %s to what was asked for at the peak.",
        mt_format_bytes(allocated - requested_at_peak(imported), added));
    if (imported->report->torch.rounds_by_size)
        mt_text_add(&text, " PyTorch was told to round by steps that differ with size, which advise does not replay.");
    print_sentence(&text);
}

static void print_coverage(const struct mt_import_report *report)
{
    char size[MT_BYTES_TEXT];
    struct mt_text text = {0};
    mt_text_add(&text, "%s of all bytes have no category (%zu rules).",
                mt_format_share((double)report->coverage.other_bytes, (double)report->coverage.all_bytes, size),
                report->rule_count);
    if (report->uncovered_count > 0)
        mt_text_add(&text, " Rules of your own (--rules) could go by:");
    print_sentence(&text);
    for (size_t i = 0; i < report->uncovered_count; i++) {
        const struct mt_import_uncovered *row = &report->uncovered[i];
        printf("  %10s in %" PRIu64 " block%s  ", mt_format_bytes(row->bytes, size), row->blocks,
               row->blocks == 1 ? " " : "s");
        mt_print_name(row->who);
        putchar('\n');
    }
}

void mt_import_print(const struct mt_imported_run *imported)
{
    printf("%s, read in %.2f s\n", imported->report->format, imported->seconds);
    mt_question_print_title(imported->question);
    print_entries(imported->report);
    mt_run_peaks_print(imported->peaks);
    putchar('\n');
    if (imported->report->kind == MT_IMPORT_TORCH) {
        print_rounding(imported);
        print_beginning(imported->report);
    }
    print_device(imported->report);
    print_contradictions(imported->report);
    if (imported->report->kind != MT_IMPORT_OWN && imported->report->coverage.all_bytes > 0)
        print_coverage(imported->report);
}

static json_t *json_of_events(const struct mt_import_report *report)
{
    json_t *events = json_object();
    for (size_t i = 0; i < report->count_count; i++)
        json_object_set_new(events, report->counts[i].what, json_integer((json_int_t)report->counts[i].count));
    return events;
}

static json_t *json_of_before(const struct mt_import_report *report)
{
    const struct mt_torch_before *before = &report->torch.before;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "blocks", (json_int_t)before->blocks, "requested_bytes",
                     (json_int_t)before->requested_bytes, "freed", (json_int_t)before->freed, "recorded",
                     (json_int_t)before->recorded, "segments", (json_int_t)before->segments, "reserved_bytes",
                     (json_int_t)before->reserved_bytes);
}

static json_t *json_of_contradictions(const struct mt_import_report *report)
{
    struct contradiction all[CONTRADICTIONS];
    json_t *object = json_object();
    list_contradictions(&report->foreign, all);
    for (int i = 0; i < CONTRADICTIONS; i++)
        json_object_set_new(object, all[i].name, json_integer((json_int_t)all[i].count));
    return object;
}

static json_t *json_of_coverage(const struct mt_import_report *report)
{
    const struct mt_import_coverage *coverage = &report->coverage;
    json_t *rows = json_array();
    for (size_t i = 0; i < report->uncovered_count; i++)
        json_array_append_new(rows, json_pack("{s:o, s:I, s:I}", "who", mt_json_text(report->uncovered[i].who), "bytes",
                                              (json_int_t)report->uncovered[i].bytes, "blocks",
                                              (json_int_t)report->uncovered[i].blocks));
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "rules", (json_int_t)report->rule_count, "bytes",
                     (json_int_t)coverage->all_bytes, "bytes_without", (json_int_t)coverage->other_bytes, "blocks",
                     (json_int_t)coverage->all_blocks, "blocks_without", (json_int_t)coverage->other_blocks, "largest",
                     rows);
}

void mt_import_print_json(const struct mt_imported_run *imported)
{
    const struct mt_import_report *report = imported->report;
    json_t *object = mt_question_json(imported->question, "import");
    json_object_set_new(object, "file", mt_json_text(imported->file));
    json_object_set_new(object, "format", json_string(report->format));
    json_object_set_new(object, "trace", mt_json_text(imported->trace));
    json_object_set_new(object, "seconds", json_real(imported->seconds));
    json_object_set_new(object, "events", json_integer((json_int_t)report->entries));
    json_object_set_new(object, "device",
                        report->device != MT_IMPORT_ANY_DEVICE ? json_integer(report->device) : json_null());
    json_object_set_new(object, "elsewhere", json_integer((json_int_t)report->elsewhere));
    json_object_set_new(object, "by_kind", json_of_events(report));
    mt_run_peaks_add_json(imported->peaks, object);
    json_object_set_new(
        object, "rounding_bytes",
        json_integer((json_int_t)(imported->peaks->of[MT_MEASURE_ALLOCATED].bytes - requested_at_peak(imported))));
    json_object_set_new(object, "before", json_of_before(report));
    json_object_set_new(object, "lost_beginning", json_boolean(report->torch.lost_beginning));
    json_object_set_new(object, "contradictions", json_of_contradictions(report));
    json_object_set_new(object, "categories", json_of_coverage(report));
    mt_json_print(object);
}
