/* Exports of a run: tables, stacks, and whole runs in the formats of other programs. Each writes to an open file. */
#pragma once

#include "answer/output_file.h"
#include "answer/row_stream.h"
#include "trace/export/plain_writer.h"
#include "trace/query/trace.h"

/* Each layer has its own frames, or all share one, "*". */
typedef enum mt_stack_layers { MT_LAYERS_EACH, MT_LAYERS_MERGED } mt_stack_layers;

/* The blocks to include: those live at the peak of allocated bytes, or all. */
typedef enum mt_stack_moment { MT_STACKS_AT_PEAK, MT_STACKS_WHOLE_RUN } mt_stack_moment;

/* The run to export. Both are borrowed. */
struct mt_export_run {
    struct mt_trace *trace;
    const struct mt_run *run;
};

/* The tables: a row for every block, for every allocation and free, or for every category of every peak. */
typedef enum mt_export_table { MT_EXPORT_BLOCKS, MT_EXPORT_EVENTS, MT_EXPORT_PEAKS } mt_export_table;

/* The descriptions of their rows. */
extern const struct mt_row_type mt_export_block_type, mt_export_event_type, mt_export_peak_type;

/* The contents of a format: tables, stacks, or a whole run. */
typedef enum mt_export_kind { MT_EXPORT_TABLES, MT_EXPORT_STACKS, MT_EXPORT_RUNS, MT_EXPORT_KINDS } mt_export_kind;

/* Properties of a format. */
enum {
    MT_EXPORT_HAS_MOMENT = 1, /* it shows one moment, or the whole run */
    MT_EXPORT_HAS_BEFORE = 2, /* it compares two runs */
    MT_EXPORT_IS_BINARY = 4,  /* it is not for a terminal */
    MT_EXPORT_IS_PACKED = 8   /* it is always compressed */
};

/* The formats: name, kind, file name endings that imply it, properties, writer. The first of a kind is its default,
 * except that runs have none.
 *
 *   folded      "frame;…;frame bytes", with the bytes of another run in front, for flame graphs
 *   pprof       a profile
 *   torch       a memory snapshot of PyTorch in JSON, and as a pickle
 *   perfetto    for ui.perfetto.dev
 *   nsys        the tables of Nsight Systems in SQLite
 *   rmm         a log of RMM */
#define MT_EXPORT_FORMATS(X)                                                                                           \
    X(CSV, "csv", TABLES, ".csv", "", 0, tables)                                                                       \
    X(JSON, "json", TABLES, ".json", "", 0, tables)                                                                    \
    X(FOLDED, "folded", STACKS, ".folded", "", MT_EXPORT_HAS_MOMENT | MT_EXPORT_HAS_BEFORE, folded)                    \
    X(PPROF, "pprof", STACKS, ".pb", ".pprof", MT_EXPORT_IS_PACKED, pprof)                                             \
    X(TORCH, "torch", RUNS, "", "", MT_EXPORT_HAS_MOMENT, torch)                                                       \
    X(PICKLE, "pickle", RUNS, ".pickle", "", MT_EXPORT_HAS_MOMENT | MT_EXPORT_IS_BINARY, torch)                        \
    X(PERFETTO, "perfetto", RUNS, "", "", 0, perfetto)                                                                 \
    X(NSYS, "nsys", RUNS, ".sqlite", "", MT_EXPORT_IS_BINARY, nsys)                                                    \
    X(RMM, "rmm", RUNS, "", "", 0, rmm)

#define X(number, name, kind, ending, other_ending, properties, writer) MT_EXPORT_##number,
typedef enum mt_export_format { MT_EXPORT_FORMATS(X) MT_EXPORT_FORMAT_COUNT } mt_export_format;
#undef X

/* An export. Everything is borrowed. */
struct mt_export_request {
    struct mt_export_run from;
    mt_export_format format;
    mt_export_table table; /* of tables */
    int64_t step; /* of tables: MT_ALL_STEPS, or one step, with the blocks that were live at some moment of it */
    mt_stack_layers layers;             /* of stacks */
    mt_stack_moment moment;             /* of formats with a moment; a snapshot of the whole run shows its end */
    const struct mt_export_run *before; /* of folded stacks: the run with the first column of bytes; NULL: none */
};

/* A format, and the function that writes it to an open file. */
struct mt_export_format_row {
    const char *name, *endings[2]; /* ".csv"; "": none */
    mt_export_kind kind;
    unsigned properties;
    mt_status (*write)(const struct mt_export_request *request, struct mt_output_file *file);
};
extern const struct mt_export_format_row mt_export_formats[MT_EXPORT_FORMAT_COUNT];

/* Writes the export to an open file. */
mt_status mt_export(const struct mt_export_request *request, struct mt_output_file *file);

/* The writers of the table. */
#define X(number, name, kind, ending, other_ending, properties, writer)                                                \
    mt_status mt_export_##writer(const struct mt_export_request *request, struct mt_output_file *file);
MT_EXPORT_FORMATS(X)
#undef X
