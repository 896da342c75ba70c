/* memtrace export: converts a trace to the formats of other tools. */
#include "cli/output/output.h"
#include "cli/output/question.h"
#include "cli/output/run_word.h"
#include "producers/program/package_module.h"
#include "trace/export/export.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The words for what to export: the tables, then the other kinds. */
typedef enum export_what { WHAT_BLOCKS, WHAT_EVENTS, WHAT_PEAKS, WHAT_STACKS, WHAT_RUN, WHAT_COUNT } export_what;

/* The Python package writes Parquet. */
enum { FORMAT_PARQUET = MT_EXPORT_FORMAT_COUNT };

/* The value of a choice that was not given. */
enum { NOT_GIVEN = -1 };

struct export_options {
    struct mt_trace_options trace;
    const char *subject; /* a word of `whats`, or the Parquet table; NULL: not given */
    int what;            /* export_what */
    int format;          /* mt_export_format, or FORMAT_PARQUET */
    int moment;          /* mt_stack_moment */
    int64_t step;
    bool merge_layers;
    const char *output, *diff;
};

static const char *const whats[] = {"blocks", "events", "peaks", "stacks", "run", NULL};
#define X(number, name, kind, ending, other_ending, properties, writer) name,
static const char *const formats[] = {MT_EXPORT_FORMATS(X) "parquet", NULL};
#undef X
static const char *const moments[] = {[MT_STACKS_AT_PEAK] = "peak", [MT_STACKS_WHOLE_RUN] = "run", NULL};

static const struct mt_option options[] = {
    MT_OPTION(
        TEXT, struct export_options, subject, "WHAT", .choices = whats,
        .help = "what to write (default: blocks, or what the format holds); for parquet, a trace or a folder of ranks"),
    MT_OPTION(CHOICE, struct export_options, format, "--format", .value = "FORMAT", .choices = formats,
              .help = "default: by the ending of the output's name: .csv, .json, .folded, .pb.gz, .pickle, .sqlite"),
    MT_OPTION(TEXT, struct export_options, output, "--output", .alias = "-o", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "the output file (default: stdout); compressed with gzip if FILE ends in .gz"),
    MT_OPTION(INTEGER, struct export_options, step, "--step", .value = "N", .low = 0, .high = INT64_MAX,
              .help = "tables: only this step; steps count from 0"),
    MT_OPTION(CHOICE, struct export_options, moment, "--at", .value = "MOMENT", .choices = moments,
              .help = "folded: blocks live at the peak of allocated bytes (peak), or all blocks; torch and pickle: the "
                      "state at the peak, or at the run's end (run)"),
    MT_OPTION(TEXT, struct export_options, diff, "--diff", .value = "N|NAME|FILE:RUN", .takes = MT_TAKES_RUN,
              .help = "folded: write the bytes of this run before the bytes of --run"),
    MT_OPTION(FLAG, struct export_options, merge_layers, "--merge-layers", .help = "stacks: one frame for all layers"),
    MT_TRACE_OPTIONS,
};

/* The answer of `export blocks`. Other tables have other rows. */
static const struct mt_field answer_fields[] = {MT_STREAMED("rows", &mt_export_block_type, NULL), MT_FIELDS_END};
static const struct mt_row_type answer_type = {.fields = answer_fields};

/* Copies the extension of a file's name, with its dot and without .gz, into `out`; "" if it has none. */
enum { LONGEST_END = 32 };
static void find_end(const char *name, char out[LONGEST_END])
{
    const char *slash = strrchr(name, '/'), *base = slash != NULL ? slash + 1 : name;
    size_t length = strlen(base);
    if (length > 3 && strcmp(base + length - 3, ".gz") == 0)
        length -= 3;
    size_t dot = length;
    while (dot > 0 && base[--dot] != '.')
        continue;
    snprintf(out, LONGEST_END, "%.*s", dot > 0 ? (int)(length - dot) : 0, base + dot);
}

/* Lists the extensions that imply a format. Returns their number. */
static size_t list_ends(const char *out[2 * MT_EXPORT_FORMAT_COUNT], int out_formats[2 * MT_EXPORT_FORMAT_COUNT])
{
    size_t count = 0;
    for (int format = 0; format < MT_EXPORT_FORMAT_COUNT; format++)
        for (int i = 0; i < 2; i++)
            if (mt_export_formats[format].endings[i][0] != '\0') {
                out_formats[count] = format;
                out[count++] = mt_export_formats[format].endings[i];
            }
    return count;
}

/* Adds the names of the formats of a kind: "torch, pickle, perfetto, nsys or rmm". */
static void add_formats(mt_export_kind kind, struct mt_text *out)
{
    int last = MT_EXPORT_FORMAT_COUNT - 1;
    bool is_first = true;
    while (mt_export_formats[last].kind != kind)
        last--;
    for (int format = 0; format <= last; format++)
        if (mt_export_formats[format].kind == kind) {
            mt_text_add(out, "%s%s", is_first ? "" : format == last ? " or " : ", ", formats[format]);
            is_first = false;
        }
}

static mt_export_kind kind_of(int what)
{
    if (what == WHAT_STACKS)
        return MT_EXPORT_STACKS;
    return what == WHAT_RUN ? MT_EXPORT_RUNS : MT_EXPORT_TABLES;
}

/* Returns the default format of a kind; NOT_GIVEN for whole runs. */
static int usual_format(mt_export_kind kind)
{
    int format = 0;
    while (mt_export_formats[format].kind != kind)
        format++;
    return kind == MT_EXPORT_RUNS ? NOT_GIVEN : format;
}

/* Fails with a list of the formats of a kind. */
static mt_status fail_formats(const char *before, mt_export_kind kind)
{
    struct mt_text text = {0};
    mt_text_add(&text, "%s", before);
    add_formats(kind, &text);
    mt_status status = mt_fail(MT_USAGE, "%s", mt_text_get(&text));
    mt_text_release(&text);
    return status;
}

/* Chooses the format by the output's name, unless it was given. Fails for an extension that implies none. */
static mt_status choose_by_name(struct export_options *export)
{
    const char *ends[2 * MT_EXPORT_FORMAT_COUNT];
    int formats_of_ends[2 * MT_EXPORT_FORMAT_COUNT], named = NOT_GIVEN;
    char end[LONGEST_END] = "";
    const size_t count = list_ends(ends, formats_of_ends);
    if (export->output != NULL)
        find_end(export->output, end);
    for (size_t i = 0; i < count; i++)
        if (strcmp(end, ends[i]) == 0)
            named = formats_of_ends[i];
    if (export->format == MT_EXPORT_TORCH && named == MT_EXPORT_PICKLE)
        export->format = MT_EXPORT_PICKLE;
    if (export->format == NOT_GIVEN && named == NOT_GIVEN && end[0] != '\0')
        return mt_fail_hint(mt_fail_unknown("ending", end, ends, count), "--format FORMAT writes to any name");
    if (export->format == NOT_GIVEN)
        export->format = named;
    if (export->format == NOT_GIVEN)
        export->format = usual_format(kind_of(export->what));
    return export->format != NOT_GIVEN
               ? MT_OK
               : fail_formats("a run can be exported in several formats: say --format ", MT_EXPORT_RUNS);
}

static mt_status choose_format(struct export_options *export)
{
    static const char *const plurals[MT_EXPORT_KINDS] = {
        [MT_EXPORT_TABLES] = "tables are", [MT_EXPORT_STACKS] = "stacks are", [MT_EXPORT_RUNS] = "a run is"};
    static const export_what first[MT_EXPORT_KINDS] = {
        [MT_EXPORT_TABLES] = WHAT_BLOCKS, [MT_EXPORT_STACKS] = WHAT_STACKS, [MT_EXPORT_RUNS] = WHAT_RUN};
    if (export->trace.json && export->format != NOT_GIVEN && export->format != MT_EXPORT_JSON)
        return mt_fail(MT_USAGE, "--json and --format %s exclude each other", formats[export->format]);
    if (export->trace.json)
        export->format = MT_EXPORT_JSON;
    MT_TRY(choose_by_name(export));
    if (export->what == NOT_GIVEN)
        export->what = (int)first[mt_export_formats[export->format].kind];
    const mt_export_kind kind = kind_of(export->what);
    if (kind == mt_export_formats[export->format].kind)
        return MT_OK;
    struct mt_text before = {0};
    mt_text_add(&before, "%s can't be exported as %s: %s ", whats[export->what], formats[export->format],
                plurals[kind]);
    mt_status status = fail_formats(mt_text_get(&before), kind);
    mt_text_release(&before);
    return status;
}

static mt_status fail_meaningless(const struct export_options *export, const char *option, const char *advice)
{
    return mt_fail(MT_USAGE, "%s means nothing for %s as %s%s", option, whats[export->what], formats[export->format],
                   advice);
}

static bool has(const struct export_options *export, unsigned property)
{
    return (mt_export_formats[export->format].properties & property) != 0;
}

/* Fails for options of other formats. */
static mt_status check_options(const struct export_options *export)
{
    bool is_pprof = export->format == MT_EXPORT_PPROF;
    if (export->diff != NULL && !has(export, MT_EXPORT_HAS_BEFORE))
        return fail_meaningless(export, "--diff", is_pprof ? ": export both runs, and use pprof -diff_base" : "");
    if (export->moment != NOT_GIVEN && !has(export, MT_EXPORT_HAS_MOMENT))
        return fail_meaningless(export, "--at", is_pprof ? ": a profile has both, as inuse_space and alloc_space" : "");
    if (export->step != MT_ALL_STEPS && kind_of(export->what) != MT_EXPORT_TABLES)
        return fail_meaningless(export, "--step", "");
    if (export->merge_layers && export->what != WHAT_STACKS)
        return fail_meaningless(export, "--merge-layers", "");
    return MT_OK;
}

/* Returns the moment to show: by default the peak for stacks, and the end for snapshots. */
static mt_stack_moment moment_of(const struct export_options *export)
{
    if (export->moment != NOT_GIVEN)
        return (mt_stack_moment) export->moment;
    return export->what == WHAT_STACKS ? MT_STACKS_AT_PEAK : MT_STACKS_WHOLE_RUN;
}

static mt_status write_export(const struct export_options *export, const struct mt_export_run *from,
                              struct mt_output_file *file)
{
    struct mt_question other = {0};
    struct mt_export_run before;
    struct mt_export_request request = {.from = *from,
                                        .format = (mt_export_format) export->format,
                                        .table = (mt_export_table) export->what,
                                        .step = export->step,
                                        .layers = export->merge_layers ? MT_LAYERS_MERGED : MT_LAYERS_EACH,
                                        .moment = moment_of(export)};
    if (has(export, MT_EXPORT_IS_BINARY) && mt_output_file_is_terminal(file))
        return mt_fail(MT_USAGE, "%s is not for a terminal: name a file with -o", formats[export->format]);
    if (export->diff == NULL)
        return mt_export(&request, file);
    MT_TRY(mt_question_open_named(export->trace.trace, export->diff, &other));
    before = (struct mt_export_run){other.trace, other.run};
    request.before = &before;
    mt_status status = mt_export(&request, file);
    mt_question_close(&other);
    return status;
}

static void note_size(const char *output)
{
    struct stat written;
    if (stat(output, &written) == 0 && S_ISREG(written.st_mode))
        mt_note("wrote %s, %s", output, MT_SIZE((uint64_t)written.st_size));
}

/* Returns a limit for the size of an export, since a trace of 2 MB with long call stacks could fill a disk. */
static uint64_t most_bytes(const char *trace)
{
    enum { FACTOR = 500 };
    const uint64_t always = UINT64_C(4) << 30;
    struct stat about;
    const uint64_t bytes = stat(trace, &about) == 0 ? FACTOR * (uint64_t)about.st_size : 0;
    return bytes > always ? bytes : always;
}

static mt_status export_run(const struct export_options *export, const struct mt_question *question)
{
    const struct mt_export_run from = {question->trace, question->run};
    struct mt_output_file *file;
    mt_output_form compression = has(export, MT_EXPORT_IS_PACKED) ? MT_OUTPUT_COMPRESSED : MT_OUTPUT_BY_NAME;
    MT_TRY(mt_output_file_open(export->output, compression, &file));
    mt_output_file_limit(file, most_bytes(export->trace.trace),
                         "this format writes what repeats each time. Try pickle or parquet");
    mt_status status = mt_output_file_close(file, write_export(export, &from, file));
    if (status == MT_OK && export->output != NULL)
        note_size(export->output);
    return status;
}

static mt_status ask_export(const struct mt_question *question, struct export_options *export)
{
    MT_TRY(mt_output_file_check("-o", export->output, NULL));
    MT_TRY(choose_format(export));
    MT_TRY(check_options(export));
    return export_run(export, question);
}

/* Writes Parquet with the Python package, and exits with its exit code. The package prints its own errors. */
static mt_status export_parquet(const struct export_options *export)
{
    const char *const words[] = {export->subject != NULL ? export->subject : export->trace.trace, export->output, NULL};
    int code;
    if (export->output == NULL)
        return mt_fail(MT_USAGE, "parquet is written into a folder: name it with -o");
    if (export->trace.run != NULL || export->step != MT_ALL_STEPS || export->moment != NOT_GIVEN ||
        export->diff != NULL || export->merge_layers || export->trace.json)
        return mt_fail(MT_USAGE, "parquet takes a trace or a folder of ranks, -o FOLDER, and nothing else");
    MT_TRY(mt_package_module_run("python3", "memtrace._parquet", words, MT_OWN_OUTPUT, &code));
    exit(code);
}

static mt_status choose_what(struct export_options *export)
{
    for (int i = 0; export->subject != NULL && i < WHAT_COUNT; i++)
        if (strcmp(export->subject, whats[i]) == 0)
            export->what = i;
    if (export->subject == NULL || export->what != NOT_GIVEN)
        return MT_OK;
    return mt_run_word_hint(export->subject, mt_fail_unknown("WHAT", export->subject, whats, WHAT_COUNT));
}

static mt_status run_export(const void *given)
{
    struct export_options export = *(const struct export_options *)given;
    struct mt_question question;
    if (export.format == FORMAT_PARQUET)
        return export_parquet(&export);
    MT_TRY(choose_what(&export));
    MT_TRY(mt_question_open(&export.trace, &question));
    mt_status status = ask_export(&question, &export);
    mt_question_close(&question);
    return status;
}

const struct mt_command mt_command_export = {
    .name = "export",
    .summary = "Writes blocks, events, peaks, stacks or whole runs in the formats of other tools.",
    .usage = "[WHAT] [--format FORMAT] [-o FILE] [OPTIONS]",
    .details =
        "Tables are CSV or JSON. Stacks are the input of flame graphs: the parts of the span, the category, the op;\n"
        "folded for flamegraph.pl, inferno and speedscope, or a profile for pprof. Bytes are block sizes, so the\n"
        "stacks at the peak sum to the peak of allocated bytes. A run is a memory snapshot of PyTorch, in JSON\n"
        "(torch) or as a pickle, for pytorch.org/memory_viz; a trace for ui.perfetto.dev; the tables of Nsight\n"
        "Systems in SQLite (nsys); or a log of RMM in CSV. Parquet is written by the Python package, with pyarrow,\n"
        "into a folder that memtrace fleet reads, from a trace or a folder of ranks' traces.\n",
    .examples =
        "  memtrace export blocks -o blocks.csv.gz\n"
        "  memtrace export events --step 0 --format json | head\n"
        "  memtrace export --merge-layers -o peak.folded  # flamegraph.pl --countname bytes peak.folded >peak.svg\n"
        "  memtrace export stacks --diff 1 > diff.folded  # flamegraph.pl --countname bytes diff.folded >diff.svg\n"
        "  memtrace export -o run.pb.gz                   # go tool pprof -http : run.pb.gz\n"
        "  memtrace export -o run.pickle                  # drop it on https://pytorch.org/memory_viz\n"
        "  memtrace export --format parquet . -o fleet    # pip install pyarrow\n"
        "  memtrace export --format perfetto -o run.json.gz  # open it in https://ui.perfetto.dev\n",
    .options = options,
    MT_OPTIONS_OF(struct export_options, .trace.trace = MT_DEFAULT_TRACE, .what = NOT_GIVEN, .format = NOT_GIVEN,
                  .moment = NOT_GIVEN, .step = MT_ALL_STEPS),
    .answer = &answer_type,
    .run = run_export,
};
