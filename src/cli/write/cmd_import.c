/* memtrace import: adds files of other programs to a trace as runs. */
#include "answer/answer.h"
#include "base/clock.h"
#include "base/memory.h"
#include "cli/output/output.h"
#include "cli/output/peak_report.h"
#include "producers/file/import.h"
#include "producers/file/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct import_options {
    bool help, json;
    struct mt_option_list files;
    const char *rules, *trace, *name, *device, *nccl;
    int64_t wait; /* seconds */
    uint64_t memory;
};

static const struct mt_option options[] = {
    MT_OPTION(LIST, struct import_options, files, "FILE", .value = "FILE...", .takes = MT_TAKES_FILE,
              .help = "what to import; each file becomes a run"),
    MT_OPTION(TEXT, struct import_options, rules, "--rules", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "rules for the categories of blocks, applied before the built-in rules"),
    MT_OPTION(TEXT, struct import_options, name, "--name", .value = "TEXT",
              .help = "a name for the run (default: its own if memtrace exported it)"),
    MT_OPTION(TEXT, struct import_options, device, "--device", .value = "N",
              .help = "the device to import from a file about several: its number, cpu, or host for pinned memory "
                      "(default: the GPU with most events, or most memory)"),
    MT_OPTION(TEXT, struct import_options, nccl, "--nccl", .value = "FILE", .takes = MT_TAKES_FILE,
              .help =
                  "what NCCL held meanwhile: a log or dump of Meta's NCCL (NCCL_MEMTRACE), shown as memory outside the "
                  "allocator"),
    MT_OPTION(TEXT, struct import_options, trace, "--trace", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "the trace to add a run to (default: " MT_DEFAULT_TRACE ")"),
    MT_OPTION_WAIT(struct import_options),
    MT_OPTION(
        BYTES, struct import_options, memory, "--memory", .value = "SIZE",
        .help =
            "limit of host memory for reading a file (default: 2GiB, and always at least 16 times its size on disk)"),
    MT_OPTION_JSON(struct import_options),
    MT_OPTION_HELP(struct import_options),
    MT_OPTIONS_END,
};

/* The run that was added. Borrows everything. */
struct imported {
    const struct mt_import_report *report;
    const struct mt_question *question;
    const struct mt_run_peaks *peaks;
    const char *file, *trace;
    double seconds; /* duration of the import */
};

/* Headings are nouns; meanings complete the number: "3 blocks whose free is missing". */
static const struct mt_field contradiction_fields[] = {
    MT_COUNT(struct mt_foreign_counts, unseen_gives, "unseen_frees", "free", "of blocks that were never allocated"),
    MT_COUNT(struct mt_foreign_counts, lost_gives, "lost_frees", "block", "without a free"),
    MT_COUNT(struct mt_foreign_counts, unmapped_gives, "unmapped_blocks", "block", "whose memory was unmapped first"),
    MT_COUNT(struct mt_foreign_counts, lost_unmaps, "lost_unmaps", "segment", "without an end"),
    MT_COUNT(struct mt_foreign_counts, unseen_unmaps, "unseen_unmaps", "end", "of segments that were never mapped"),
    MT_COUNT(struct mt_foreign_counts, straddles, "straddling_blocks", "block", "across segments"),
    MT_COUNT(struct mt_foreign_counts, refused, "refused", "event", "of no bytes, or beyond all addresses"),
    MT_COUNT(struct mt_foreign_counts, times_back, "times_back", "time", "going back"),
    MT_FIELDS_END,
};
static const struct mt_row_type contradictions_type = MT_ROW_TYPE(struct mt_foreign_counts, contradiction_fields);

static const struct mt_field before_fields[] = {
    MT_COUNT(struct mt_import_report, torch.before.blocks, "blocks", NULL, NULL),
    MT_BYTES(struct mt_import_report, torch.before.requested_bytes, "requested_bytes", NULL, NULL),
    MT_COUNT(struct mt_import_report, torch.before.freed, "freed", NULL, "blocks that were freed later"),
    MT_COUNT(struct mt_import_report, torch.before.recorded, "recorded", NULL,
             "blocks that an earlier recording saw allocated"),
    MT_COUNT(struct mt_import_report, torch.before.segments, "segments", NULL, NULL),
    MT_BYTES(struct mt_import_report, torch.before.reserved_bytes, "reserved_bytes", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type before_type = MT_ROW_TYPE(struct mt_import_report, before_fields);

static const struct mt_field uncovered_fields[] = {
    MT_FIELD(TEXT, char *, struct mt_import_uncovered, who, "who", NULL, NULL),
    MT_BYTES(struct mt_import_uncovered, bytes, "bytes", NULL, NULL),
    MT_COUNT(struct mt_import_uncovered, blocks, "blocks", NULL, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type uncovered_type = MT_ROW_TYPE(struct mt_import_uncovered, uncovered_fields);

/* How many blocks have a category from rules. */
struct coverage {
    uint64_t rules;
    struct mt_import_coverage of;
    const struct mt_import_uncovered *largest;
    size_t count;
};

static const struct mt_field coverage_fields[] = {
    MT_COUNT(struct coverage, rules, "rules", NULL, "that were tried"),
    MT_BYTES(struct coverage, of.all_bytes, "bytes", NULL, "requested by all blocks"),
    MT_BYTES(struct coverage, of.other_bytes, "bytes_without", NULL, "by those without a category"),
    MT_COUNT(struct coverage, of.all_blocks, "blocks", NULL, NULL),
    MT_COUNT(struct coverage, of.other_blocks, "blocks_without", NULL, NULL),
    MT_ROWS(struct coverage, largest, count, "largest", &uncovered_type, "without one, by what allocated them"),
    MT_FIELDS_END,
};
static const struct mt_row_type coverage_type = MT_ROW_TYPE(struct coverage, coverage_fields);

struct answer {
    const char *file, *trace;
    double seconds;
    struct mt_import_report report;
    json_t *by_kind;
    struct mt_run_peaks_answer peaks;
    uint64_t rounding_bytes;
    struct coverage coverage;
};

static const struct mt_field answer_fields[] = {
    MT_TEXT(struct answer, file, "file", NULL, NULL),
    MT_TEXT(struct answer, report.format, "format", NULL, NULL),
    MT_TEXT(struct answer, trace, "trace", NULL, NULL),
    MT_NUMBER(struct answer, seconds, "seconds", NULL, "that the import took"),
    MT_COUNT(struct answer, report.entries, "events", NULL, "of the file about the device"),
    MT_KNOWN(struct answer, report.device, "device", NULL,
             "of the file, instead of the run's; null: the CPU, pinned memory, or not stated"),
    MT_COUNT(struct answer, report.elsewhere, "elsewhere", NULL,
             "events of other devices or processes, which were left out"),
    MT_BYTES(struct answer, report.elsewhere_bytes, "elsewhere_bytes", NULL, "reserved on other devices at the end"),
    MT_VALUE(struct answer, by_kind, "by_kind", NULL, "the number of events by the file's word for them"),
    MT_PART(struct answer, peaks, &mt_run_peaks_types[MT_GROUP_ROLE]),
    MT_BYTES(struct answer, rounding_bytes, "rounding_bytes", NULL, "allocated beyond what was requested, at the peak"),
    MT_ROW(struct answer, report, "before", &before_type, "live before the first event"),
    MT_BYTES(struct answer, report.nccl_bytes, "nccl_bytes", NULL, "that NCCL held, by the file of `--nccl`"),
    MT_FLAG(struct answer, report.torch.is_paired, "paired", NULL,
            "the file has no addresses: each free ends the youngest block of its size"),
    MT_FLAG(struct answer, report.torch.is_relative, "relative", NULL,
            "the file has no totals: memory from before it that stays is not counted"),
    MT_FLAG(struct answer, report.is_untimed, "untimed", NULL,
            "the file has no times: times are the number of the events before, in microseconds"),
    MT_FLAG(struct answer, report.torch.lost_beginning, "lost_beginning", NULL,
            "the recording was full, and overwrote its oldest events"),
    MT_FLAG(struct answer, report.is_cut, "cut", NULL, "the file ends within an event, which was left out"),
    MT_ROW(struct answer, report.foreign, "contradictions", &contradictions_type, "in the file, which were mended"),
    MT_ROW(struct answer, coverage, "categories", &coverage_type, NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type answer_type = MT_ROW_TYPE(struct answer, answer_fields);

/* Returns how much rounding added to the live blocks at the allocated peak. */
static uint64_t rounding_at_peak(const struct mt_run_peaks *peaks)
{
    const struct mt_peak_row *peak = &peaks->of[MT_MEASURE_ALLOCATED].by_category;
    uint64_t requested = 0;
    for (size_t i = 0; i < peak->share_count; i++)
        requested += peak->shares[i].requested_bytes;
    return peak->bytes - requested;
}

static const struct mt_field count_fields[] = {
    MT_SHOWN(TEXT, const char *, struct mt_import_count, what, "what", "came in"),
    MT_SHOWN(COUNT, uint64_t, struct mt_import_count, count, "count", "events"),
    MT_FIELDS_END,
};
static const struct mt_row_type count_type = MT_ROW_TYPE(struct mt_import_count, count_fields);

static void print_entries(const struct mt_import_report *report)
{
    const struct mt_import_count total = {"total", report->entries};
    struct mt_table *table = mt_table_of_rows(mt_output_screen(), &count_type, "what count", NULL);
    for (size_t i = 0; i < report->count_count; i++)
        if (report->counts[i].count > 0)
            mt_table_add_rows(table, &report->counts[i], 1);
    mt_table_add_rows(table, &total, 1);
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
    struct mt_text text = {0};
    const struct mt_torch_before *before = &report->torch.before;
    if (report->entries == 0)
        mt_text_add(&text, "No events were recorded, which torch.cuda.memory._record_memory_history() begins. ");
    mt_text_add(&text, "Live before the first event: ");
    add_count(&text, before->blocks, "block");
    mt_text_add(&text, " of %s, in ", MT_SIZE(before->requested_bytes));
    add_count(&text, before->segments, "segment");
    mt_text_add(&text, " of %s", MT_SIZE(before->reserved_bytes));
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

/* Prints which data the file lacks, and what is used instead. */
static void print_absent(const struct mt_import_report *report)
{
    struct mt_text text = {0};
    if (report->is_untimed)
        mt_text_add(&text, "The file has no times: each event counts as one microsecond. ");
    if (report->torch.is_paired)
        mt_text_add(&text,
                    "The file has no addresses: sums over time are right, but which of several blocks of one size a "
                    "free ends is a guess. ");
    if (report->torch.is_relative)
        mt_text_add(&text, "The file has no totals: memory from before it that stays is not counted. ");
    if (report->nccl_bytes > 0)
        mt_text_add(&text, "NCCL's file has no times: the memory held at its peak counts from beginning to end. ");
    if (text.length > 0)
        print_sentence(&text);
}

/* Prints which device was imported, if the file has several. */
static void print_device(const struct mt_import_report *report)
{
    struct mt_text text = {0};
    if (report->elsewhere == 0 && report->elsewhere_bytes == 0)
        return;
    if (report->device == MT_IMPORT_HOST)
        mt_text_add(&text, "That is the host's pinned memory alone: ");
    else
        mt_text_add(&text, "That is device %" PRId64 " alone: ", report->device);
    add_count(&text, report->elsewhere, "more event");
    mt_text_add(&text, " of the file %s about other devices", report->elsewhere == 1 ? "is" : "are");
    if (report->elsewhere_bytes > 0)
        mt_text_add(&text, ", where %s are reserved at the end", MT_SIZE(report->elsewhere_bytes));
    mt_text_add(&text, "%s.", report->kind == MT_IMPORT_NSYS ? " or processes" : ", which --device N imports");
    if (report->torch.has_host)
        mt_text_add(&text, " They include the host's pinned memory (--device host).");
    print_sentence(&text);
}

static void print_cut(const struct mt_import_report *report)
{
    struct mt_text text = {0};
    if (!report->is_cut)
        return;
    mt_text_add(&text, "The file ends within a line, which was left out: the program was killed, or still runs.");
    print_sentence(&text);
}

static void print_contradictions(const struct mt_import_report *report)
{
    struct mt_text text = {0};
    for (const struct mt_field *field = contradiction_fields; field->name != NULL; field++) {
        uint64_t count = *(const uint64_t *)((const char *)&report->foreign + field->offset);
        if (count == 0)
            continue;
        mt_text_add(&text, "%s", text.length > 0 ? ", " : "It contradicts itself, and was mended: ");
        add_count(&text, count, field->heading);
        mt_text_add(&text, " %s", field->meaning);
    }
    if (text.length > 0) {
        mt_text_add(&text, ".");
        print_sentence(&text);
    }
}

static void print_rounding(const struct imported *imported)
{
    struct mt_text text = {0};
    mt_text_add(&text, "Rounding, and remainders too small to split off, add %s to the requested bytes at the peak.",
                MT_SIZE(rounding_at_peak(imported->peaks)));
    if (imported->report->torch.rounds_by_size)
        mt_text_add(&text, " PyTorch rounds by steps that depend on the size (roundup_power2_divisions), which advise "
                           "does not replay.");
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

static void print_text(const struct imported *imported)
{
    mt_say("%s, read in %.2f s", imported->report->format, imported->seconds);
    mt_question_print_title(imported->question);
    print_entries(imported->report);
    mt_run_peaks_print(imported->peaks, &(struct mt_peaks_form){.most_rows = MT_PEAK_ROWS});
    putchar('\n');
    if (imported->report->kind == MT_IMPORT_TORCH) {
        print_rounding(imported);
        print_beginning(imported->report);
    }
    print_absent(imported->report);
    print_device(imported->report);
    print_cut(imported->report);
    print_contradictions(imported->report);
    if (imported->report->kind != MT_IMPORT_OWN && imported->report->coverage.all_bytes > 0)
        print_coverage(imported->report);
}

/* Returns the answer as JSON. */
static json_t *json_of(const struct imported *imported)
{
    const struct mt_import_report *report = imported->report;
    json_t *by_kind = json_object();
    for (size_t i = 0; i < report->count_count; i++)
        json_object_set_new(by_kind, report->counts[i].what, json_integer((json_int_t)report->counts[i].count));
    const struct answer answer = {
        .file = imported->file,
        .trace = imported->trace,
        .seconds = imported->seconds,
        .report = *report,
        .by_kind = by_kind,
        .peaks = mt_run_peaks_answer_of(imported->peaks),
        .rounding_bytes = rounding_at_peak(imported->peaks),
        .coverage = {report->rule_count, report->coverage, report->uncovered, report->uncovered_count}};
    json_t *object = mt_question_json(imported->question, "import");
    mt_row_add_json(&answer_type, &answer, object);
    json_decref(by_kind);
    return object;
}

/* The runs of several files: a list of answers, and a table with one line each. */
#define LINE struct import_line
LINE
{
    const char *file;
    int64_t run, rank;
    uint64_t events, allocated_bytes, reserved_bytes;
};

static const struct mt_field line_fields[] = {
    MT_SHOWN(TEXT, const char *, LINE, file, "file", "file"),
    MT_SHOWN(INTEGER, int64_t, LINE, run, "run", "run"),
    MT_SHOWN(KNOWN, int64_t, LINE, rank, "rank", "rank"),
    MT_SHOWN(COUNT, uint64_t, LINE, events, "events", "events"),
    MT_SHOWN(BYTES, uint64_t, LINE, allocated_bytes, "allocated", "peak allocated"),
    MT_SHOWN(BYTES, uint64_t, LINE, reserved_bytes, "reserved", "reserved"),
    MT_FIELDS_END,
};
static const struct mt_row_type line_type = MT_ROW_TYPE(LINE, line_fields);
#undef LINE

struct several {
    json_t *answers;
    struct import_line *lines;
    size_t count;
};

static void add_line(const struct imported *imported, struct several *several)
{
    const struct mt_run *run = imported->question->run;
    *MT_HOST_ADD(several->lines, several->count) =
        (struct import_line){.file = imported->file,
                             .run = run->id,
                             .rank = run->rank,
                             .events = imported->report->entries,
                             .allocated_bytes = imported->peaks->of[MT_MEASURE_ALLOCATED].by_category.bytes,
                             .reserved_bytes = imported->peaks->of[MT_MEASURE_RESERVED].by_category.bytes};
}

/* Prints the run, or adds it to the list. */
static mt_status tell_run(const struct import_options *import, struct imported *imported,
                          const struct mt_question *question, struct several *several)
{
    struct mt_run_peaks peaks;
    mt_status status = mt_run_peaks_load(question, MT_GROUP_ROLE, &peaks);
    imported->question = question;
    imported->peaks = &peaks;
    if (status == MT_OK && several != NULL && import->json)
        json_array_append_new(several->answers, json_of(imported));
    else if (status == MT_OK && several != NULL)
        add_line(imported, several);
    else if (status == MT_OK && import->json)
        mt_json_print(json_of(imported));
    else if (status == MT_OK)
        print_text(imported);
    mt_run_peaks_release(&peaks);
    return status;
}

/* Loads the run from the trace, so that the answer agrees with all other commands. */
static mt_status show_import(const struct import_options *import, const struct imported *done, struct several *several)
{
    char number[MT_BYTES_TEXT];
    struct mt_question question;
    struct imported imported = *done;
    snprintf(number, sizeof number, "%" PRId64, done->report->run);
    const struct mt_trace_options asked = {.trace = import->trace, .run = number};
    MT_TRY(mt_question_open(&asked, &question));
    mt_status status = tell_run(import, &imported, &question, several);
    mt_question_close(&question);
    return status;
}

static bool is_readable(const char *path)
{
    struct stat about;
    return access(path, R_OK) == 0 && stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

/* Parses --device: a number, cpu or host. */
static mt_status read_device(const char *text, int64_t *out)
{
    const bool is_host = text != NULL && strcmp(text, "host") == 0, is_cpu = text != NULL && strcmp(text, "cpu") == 0;
    *out = is_host ? MT_IMPORT_HOST : is_cpu ? MT_IMPORT_CPU : MT_IMPORT_ANY_DEVICE;
    return text == NULL || is_host || is_cpu ? MT_OK : mt_parse_integer("--device", text, 0, INT32_MAX, out);
}

/* Imports one file; `several` is NULL if it is the only one. */
static mt_status import_file(const struct import_options *import, const char *file, struct several *several)
{
    struct mt_import_plan plan = {.file = file,
                                  .trace = import->trace,
                                  .most_bytes = import->memory,
                                  .wait_seconds = (int)import->wait,
                                  .name = import->name,
                                  .nccl = import->nccl,
                                  .rules = import->rules};
    struct mt_import_report report;
    MT_TRY(read_device(import->device, &plan.device));
    const uint64_t begin = mt_clock_ns();
    mt_status status = mt_import(&plan, &report);
    if (status == MT_BAD_TRACE && mt_ends_with(mt_last_error(), MT_VALUE_OVER))
        mt_fail(status, "%s; --memory SIZE allows more", mt_last_error());
    if (is_readable(file) && (import->rules == NULL || is_readable(import->rules)) &&
        (import->nccl == NULL || is_readable(import->nccl))) /* writing failed */
        mt_fail_writing_hint(status, NULL);
    const struct imported done = {
        .report = &report, .file = file, .trace = import->trace, .seconds = (double)(mt_clock_ns() - begin) / 1e9};
    MT_THEN(status, show_import(import, &done, several));
    mt_import_report_release(&report);
    return status;
}

static void print_several(const struct import_options *import, struct several *several)
{
    if (import->json) {
        json_t *object = mt_schema_json("imports");
        json_object_set(object, "rows", several->answers);
        mt_json_print(object);
    } else if (several->count > 0) {
        mt_rows_print(&line_type, "file run rank events allocated reserved", "events rank", several->lines,
                      several->count);
    }
}

/* Imports each file. Continues after a file that fails. */
static mt_status import_several(const struct import_options *import)
{
    struct several several = {.answers = json_array()};
    struct mt_error first = {0};
    for (size_t i = 0; i < import->files.count; i++) {
        mt_status status = import_file(import, import->files.items[i], &several);
        if (status != MT_OK && first.status == MT_OK)
            first = mt_error_save(status);
        else if (status != MT_OK)
            mt_note("%s", mt_last_error());
    }
    print_several(import, &several);
    json_decref(several.answers);
    free(several.lines);
    return mt_error_restore(&first, MT_OK);
}

static mt_status run_import(const void *given)
{
    const struct import_options *import = given;
    if (import->files.count == 0)
        return mt_fail(MT_USAGE, "name the file to import, such as snapshot.pickle");
    if (import->files.count > 1 && import->nccl != NULL)
        return mt_fail(MT_USAGE, "--nccl belongs to one file: import the others by themselves");
    return import->files.count == 1 ? import_file(import, import->files.items[0], NULL) : import_several(import);
}

const struct mt_command mt_command_import = {
    .name = "import",
    .summary = "Imports a file that another program wrote as a run: PyTorch, Nsight Systems, RMM or NCCL.",
    .usage = "FILE... [OPTIONS]",
    .details =
        "FILE is a memory snapshot of PyTorch, as torch.cuda.memory._dump_snapshot() writes it, as a pickle or as\n"
        "JSON; a trace of torch.profiler with profile_memory=True; an export of Nsight Systems to SQLite; a log of\n"
        "RMM in CSV; or a log of the memory events of Meta's NCCL. All but SQLite may be compressed with gzip.\n"
        "The file is read as data: nothing in it is executed. All other commands work on the run: peak, top, diff,\n"
        "categories, advise, check, timeline. Categories come from rules about the code that allocated;\n"
        "docs/import.md explains how to write your own. A file's name may contain its rank: rank3.pickle.\n",
    .examples = "  memtrace import snapshot.pickle\n"
                "  memtrace import before.pickle.gz --name before && memtrace import after.pickle.gz --name after\n"
                "  memtrace diff before after\n"
                "  memtrace import snapshot.pickle --rules mine.rules\n"
                "  memtrace import step.pt.trace.json.gz\n"
                "  memtrace import rank0.pickle --nccl nccl_memory.Rank_0.scribe\n"
                "  memtrace import rank*.pickle --trace job.db && memtrace ranks job.db\n",
    .options = options,
    MT_OPTIONS_OF(struct import_options, .trace = MT_DEFAULT_TRACE, .wait = MT_USUAL_WAIT),
    .answer = &answer_type,
    .run = run_import,
};
