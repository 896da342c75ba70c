/* memtrace export: what a trace holds, in the formats of other tools. */
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

typedef enum export_what { WHAT_BLOCKS, WHAT_EVENTS, WHAT_PEAKS, WHAT_STACKS, WHAT_RUN, WHAT_COUNT } export_what;
typedef enum export_format {
    FORMAT_CSV,
    FORMAT_JSON,
    FORMAT_FOLDED,
    FORMAT_PPROF,
    FORMAT_TORCH,
    FORMAT_PICKLE,
    FORMAT_PERFETTO,
    FORMAT_NSYS,
    FORMAT_RMM,
    FORMAT_PARQUET
} export_format;

/* An option of a choice that was not given. */
enum { NOT_GIVEN = -1 };

struct export_options {
    struct mt_trace_options trace;
    const char *subject; /* a word of `whats`, or what is exported as Parquet; NULL: not said */
    int what;            /* export_what */
    int format;          /* export_format */
    int moment;          /* mt_stack_moment */
    int64_t step;
    bool merge_layers;
    const char *output, *diff;
};

static const char *const whats[] = {"blocks", "events", "peaks", "stacks", "run", NULL};
static const char *const formats[] = {"csv",      "json", "folded", "pprof",   "torch", "pickle",
                                      "perfetto", "nsys", "rmm",    "parquet", NULL};
static const char *const moments[] = {[MT_STACKS_AT_PEAK] = "peak", [MT_STACKS_WHOLE_RUN] = "run", NULL};

static const struct mt_option options[] = {
    MT_OPTION(TEXT, struct export_options, subject, "WHAT", .choices = whats,
              .help = "what is written (blocks, or what the format is of); of parquet, a trace or a folder of ranks"),
    MT_OPTION(CHOICE, struct export_options, format, "--format", .value = "FORMAT", .choices = formats,
              .help = "by the end of the output's name unless given: .csv, .json, .folded, .pb.gz, .pickle, .sqlite"),
    MT_OPTION(TEXT, struct export_options, output, "--output", .alias = "-o", .value = "FILE", .takes = MT_TAKES_FILE,
              .help = "where it goes (stdout unless given); through gzip if FILE ends in .gz"),
    MT_OPTION(INTEGER, struct export_options, step, "--step", .value = "N", .low = 0, .high = INT64_MAX,
              .help = "of tables: only this step; steps count from 0"),
    MT_OPTION(CHOICE, struct export_options, moment, "--at", .value = "MOMENT", .choices = moments,
              .help = "of folded: what was live at the peak of allocated bytes (peak), or all that was allocated; of"
                      " torch and pickle: the memory that is shown, of the peak, or of the run's end (run)"),
    MT_OPTION(TEXT, struct export_options, diff, "--diff", .value = "N|NAME|FILE:RUN", .takes = MT_TAKES_RUN,
              .help = "of folded: put the bytes of this run before those of --run"),
    MT_OPTION(FLAG, struct export_options, merge_layers, "--merge-layers",
              .help = "of stacks: one frame for all layers"),
    MT_TRACE_OPTIONS,
};

/* The answer of `export blocks`. Other tables have rows of their own. */
static const struct mt_field answer_fields[] = {MT_STREAMED("rows", &mt_export_block_type, NULL), MT_FIELDS_END};
static const struct mt_row_type answer_type = {.fields = answer_fields};

/* The ends of names that imply a format. */
enum { END_COUNT = 7 };
static const char *const ends[END_COUNT] = {".csv", ".json", ".folded", ".pb", ".pprof", ".pickle", ".sqlite"};
static const export_format formats_of_ends[END_COUNT] = {FORMAT_CSV,   FORMAT_JSON,   FORMAT_FOLDED, FORMAT_PPROF,
                                                         FORMAT_PPROF, FORMAT_PICKLE, FORMAT_NSYS};

/* Copies the end of a file's name, without .gz, with its dot, into `out`; "" if it has none. */
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

/* Returns the format that the end of a name implies; NOT_GIVEN if it implies none. */
static int format_of_end(const char *end)
{
    for (size_t i = 0; i < END_COUNT; i++)
        if (strcmp(end, ends[i]) == 0)
            return (int)formats_of_ends[i];
    return NOT_GIVEN;
}

/* Returns the contents of a format: blocks stand for all tables. */
static export_what what_of_format(int format)
{
    if (format == FORMAT_CSV || format == FORMAT_JSON)
        return WHAT_BLOCKS;
    return format == FORMAT_FOLDED || format == FORMAT_PPROF ? WHAT_STACKS : WHAT_RUN;
}

static export_what kind_of(int what)
{
    return what == WHAT_STACKS || what == WHAT_RUN ? (export_what)what : WHAT_BLOCKS;
}

/* Chooses the format by the output's name, unless it was given. Fails for an end that implies none. */
static mt_status choose_by_name(struct export_options *export)
{
    char end[LONGEST_END] = "";
    if (export->output != NULL)
        find_end(export->output, end);
    int named = format_of_end(end);
    if (export->format == FORMAT_TORCH && named == FORMAT_PICKLE)
        export->format = FORMAT_PICKLE;
    if (export->format == NOT_GIVEN && named == NOT_GIVEN && end[0] != '\0')
        return mt_fail_hint(mt_fail_unknown("ending", end, ends, END_COUNT), "--format FORMAT writes to any name");
    if (export->format == NOT_GIVEN)
        export->format = named;
    if (export->format == NOT_GIVEN && export->what == WHAT_RUN)
        return mt_fail(MT_USAGE, "a run can be exported in several formats: say --format torch, pickle, perfetto, nsys"
                                 " or rmm");
    if (export->format == NOT_GIVEN)
        export->format = export->what == WHAT_STACKS ? FORMAT_FOLDED : FORMAT_CSV;
    return MT_OK;
}

static mt_status choose_format(struct export_options *export)
{
    static const char *const kinds[WHAT_COUNT] = {[WHAT_BLOCKS] = "tables are csv or json",
                                                  [WHAT_STACKS] = "stacks are folded or pprof",
                                                  [WHAT_RUN] = "a run is torch, pickle, perfetto, nsys or rmm"};
    if (export->trace.json && export->format != NOT_GIVEN && export->format != FORMAT_JSON)
        return mt_fail(MT_USAGE, "--json and --format %s exclude each other", formats[export->format]);
    if (export->trace.json)
        export->format = FORMAT_JSON;
    MT_TRY(choose_by_name(export));
    if (export->what == NOT_GIVEN)
        export->what = what_of_format(export->format);
    if (kind_of(export->what) == what_of_format(export->format))
        return MT_OK;
    return mt_fail(MT_USAGE, "%s can't be exported as %s: %s", whats[export->what], formats[export->format],
                   kinds[kind_of(export->what)]);
}

static mt_status fail_meaningless(const struct export_options *export, const char *option, const char *advice)
{
    return mt_fail(MT_USAGE, "%s means nothing for %s as %s%s", option, whats[export->what], formats[export->format],
                   advice);
}

static bool is_snapshot(const struct export_options *export)
{
    return export->format == FORMAT_TORCH || export->format == FORMAT_PICKLE;
}

/* Fails for options of another format. */
static mt_status check_options(const struct export_options *export)
{
    bool is_pprof = export->format == FORMAT_PPROF;
    bool has_moment = export->format == FORMAT_FOLDED || is_snapshot(export);
    if (export->diff != NULL && export->format != FORMAT_FOLDED)
        return fail_meaningless(export, "--diff", is_pprof ? ": export both runs, and use pprof -diff_base" : "");
    if (export->moment != NOT_GIVEN && !has_moment)
        return fail_meaningless(export, "--at", is_pprof ? ": a profile has both, as inuse_space and alloc_space" : "");
    if (export->step != MT_ALL_STEPS && kind_of(export->what) != WHAT_BLOCKS)
        return fail_meaningless(export, "--step", "");
    if (export->merge_layers && export->what != WHAT_STACKS)
        return fail_meaningless(export, "--merge-layers", "");
    return MT_OK;
}

static mt_status write_folded(const struct export_options *export, const struct mt_export_run *from,
                              struct mt_output_file *file, mt_stack_layers layers)
{
    mt_stack_moment moment = export->moment == NOT_GIVEN ? MT_STACKS_AT_PEAK : (mt_stack_moment) export->moment;
    if (export->diff == NULL)
        return mt_export_folded(from, NULL, file, moment, layers);
    struct mt_question before;
    MT_TRY(mt_question_open_named(export->trace.trace, export->diff, &before));
    mt_status status = mt_export_folded(from, &(struct mt_export_run){before.trace, before.run}, file, moment, layers);
    mt_question_close(&before);
    return status;
}

/* Fails if a binary format would go to a terminal. */
static mt_status check_terminal(const struct export_options *export, const struct mt_output_file *file)
{
    bool is_text = export->format != FORMAT_PICKLE && export->format != FORMAT_NSYS;
    if (is_text || !mt_output_file_is_terminal(file))
        return MT_OK;
    return mt_fail(MT_USAGE, "%s is not for a terminal: name a file with -o", formats[export->format]);
}

static mt_status write_run(const struct export_options *export, const struct mt_export_run *from,
                           struct mt_output_file *file)
{
    MT_TRY(check_terminal(export, file));
    mt_snapshot_moment moment = export->moment == MT_STACKS_AT_PEAK ? MT_SNAPSHOT_AT_PEAK : MT_SNAPSHOT_AT_END;
    switch (export->format) {
    case FORMAT_TORCH:
        return mt_export_torch(from, file, MT_PLAIN_JSON, moment);
    case FORMAT_PICKLE:
        return mt_export_torch(from, file, MT_PLAIN_PICKLE, moment);
    case FORMAT_PERFETTO:
        return mt_export_perfetto(from, file);
    case FORMAT_NSYS:
        return mt_export_nsys(from, file);
    default:
        return mt_export_rmm(from, file);
    }
}

static mt_status write_stacks(const struct export_options *export, const struct mt_export_run *from,
                              struct mt_output_file *file)
{
    mt_stack_layers layers = export->merge_layers ? MT_LAYERS_MERGED : MT_LAYERS_EACH;
    return export->format == FORMAT_PPROF ? mt_export_pprof(from, file, layers)
                                          : write_folded(export, from, file, layers);
}

static mt_status write_export(const struct export_options *export, const struct mt_export_run *from,
                              struct mt_output_file *file)
{
    assert(export->what != NOT_GIVEN && kind_of(export->what) == what_of_format(export->format));
    mt_row_form form = export->format == FORMAT_JSON ? MT_ROWS_JSON : MT_ROWS_CSV;
    switch ((export_what) export->what) {
    case WHAT_BLOCKS:
        return mt_export_blocks(from, file, form, export->step);
    case WHAT_EVENTS:
        return mt_export_events(from, file, form, export->step);
    case WHAT_PEAKS:
        return mt_export_peaks(from, file, form, export->step);
    case WHAT_STACKS:
        return write_stacks(export, from, file);
    default:
        return write_run(export, from, file);
    }
}

static void note_size(const char *output)
{
    struct stat written;
    char size[MT_BYTES_TEXT];
    if (stat(output, &written) == 0 && S_ISREG(written.st_mode))
        mt_note("wrote %s, %s", output, mt_format_bytes((uint64_t)written.st_size, size));
}

/* Returns the most bytes of an export: a trace of 2 MB with long call stacks could fill a disk. */
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
    mt_output_form compression = export->format == FORMAT_PPROF ? MT_OUTPUT_COMPRESSED : MT_OUTPUT_BY_NAME;
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

/* Has the Python package write Parquet, and exits with its code: it has said what was wrong. */
static mt_status export_parquet(const struct export_options *export)
{
    const char *const words[] = {export->subject != NULL ? export->subject : export->trace.trace, export->output, NULL};
    int code;
    if (export->output == NULL)
        return mt_fail(MT_USAGE, "parquet is written into a folder: name it with -o");
    if (export->trace.run != NULL || export->step != MT_ALL_STEPS || export->moment != NOT_GIVEN ||
        export->diff != NULL || export->merge_layers || export->trace.json)
        return mt_fail(MT_USAGE, "parquet takes a trace or a folder of ranks, -o FOLDER, and nothing else");
    MT_TRY(mt_package_module_run("memtrace._parquet", words, &code));
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
        "Tables are CSV or JSON. Stacks are what flame graphs are drawn of: the parts of the span, the category,\n"
        "the op; folded for flamegraph.pl, inferno and speedscope, or a profile for pprof. Bytes are those of\n"
        "blocks, so that the stacks at the peak sum to the peak of allocated bytes. A run is a memory snapshot of\n"
        "PyTorch, in JSON (torch) or as a pickle, for pytorch.org/memory_viz; a trace for ui.perfetto.dev; the\n"
        "tables of Nsight Systems in SQLite (nsys); or a log of RMM in CSV. Parquet is written by the Python package,\n"
        "with pyarrow, into a folder that memtrace fleet asks: of a trace, or of a folder of ranks' traces.\n",
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
