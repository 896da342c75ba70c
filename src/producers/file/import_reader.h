/* What readers of all formats share: the plan, the opened file, the report, and the table row that describes a reader.
 * A new format is one file with a `const struct mt_import_reader`, its line below, and its place in import.c's table.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/document.h"
#include "producers/file/rules.h"
#include "producers/file/step_times.h"
#include "trace/store/foreign.h"
#include "trace/store/recorder.h"

/* Selects the extra part of a report. */
typedef enum mt_import_kind {
    MT_IMPORT_TORCH,
    MT_IMPORT_OWN,
    MT_IMPORT_NSYS,
    MT_IMPORT_RMM,
    MT_IMPORT_NCCL
} mt_import_kind;

/* For a file about several devices: the one with most events, the CPU, and the host's pinned memory. */
enum { MT_IMPORT_ANY_DEVICE = -1, MT_IMPORT_CPU = -2, MT_IMPORT_HOST = -3 };

struct mt_import_plan {
    const char *file;    /* to read */
    const char *trace;   /* to add the run to; created if there is none */
    uint64_t most_bytes; /* of memory, as for mt_whole_file_read; 0: MT_IMPORT_USUAL_BYTES */
    int wait_seconds;    /* to wait for another process that writes the trace */
    const char *name;    /* of the run; NULL: the name in the file, if it has one */
    const char *nccl;    /* a file about NCCL's memory, which is outside the file's allocator; NULL: none */
    const char *rules;   /* a file of rules that precede the built-in ones; NULL: none */
    int64_t device;      /* to choose in a file about several, or one of the numbers above */
};

/* The share of blocks that got a category, over the whole file. Invariant: other <= all. */
struct mt_import_coverage {
    uint64_t all_bytes, other_bytes; /* requested */
    uint64_t all_blocks, other_blocks;
};

/* Counts a block of this category. */
void mt_import_coverage_add(struct mt_import_coverage *coverage, uint64_t bytes, mt_category category);

/* The memory that was live before a snapshot's first event. Invariants: freed and recorded are at most blocks. */
struct mt_torch_before {
    uint64_t blocks, requested_bytes;
    uint64_t freed;    /* of these blocks, in the recording */
    uint64_t recorded; /* of these blocks, with a call stack: an earlier recording saw their allocation */
    uint64_t segments, reserved_bytes;
};

/* The last refused request, and the memory of the device that the driver reported as free then. */
struct mt_torch_refusal {
    bool is_known; /* there was one, and the snapshot has the free bytes */
    uint64_t free_bytes;
    int64_t step; /* of the run; MT_NO_STEP: outside of steps */
};

/* The part of a report that only snapshots of PyTorch have; all zero in the others. */
struct mt_import_torch {
    struct mt_torch_before before;
    struct mt_torch_refusal refusal;
    struct mt_step_times times;
    bool has_host;       /* the file also has pinned memory, which was left out */
    bool is_paired;      /* the file has no addresses: a free ends the youngest block of its size */
    bool is_relative;    /* the file has no totals: memory from before it that is never freed does not show */
    bool lost_beginning; /* the recording was full, and overwrote its oldest events */
    bool rounds_by_size; /* PyTorch rounded up in steps that no setting of our allocator describes */
};

enum { MT_IMPORT_MOST_COUNTS = 16, MT_IMPORT_MOST_UNCOVERED = 5 };

/* The result of an import. Owns its rows and their texts. */
struct mt_import_report {
    mt_import_kind kind;
    const char *format;       /* "PyTorch memory snapshot (pickle)"; static */
    int64_t run;              /* its number in the trace */
    int64_t device;           /* of the file, or MT_IMPORT_HOST; MT_IMPORT_ANY_DEVICE: the file does not say */
    uint64_t elsewhere;       /* events of memory of other devices or processes, which are not in the run */
    uint64_t elsewhere_bytes; /* reserved on other devices at the end, as far as the file shows */
    uint64_t entries;         /* of the file about the device: the sum of the counts */
    struct mt_import_count {
        const char *what; /* static */
        uint64_t count;
    } counts[MT_IMPORT_MOST_COUNTS];
    size_t count_count;
    bool is_cut;                      /* the file ends within an event, which was left out */
    bool is_untimed;                  /* the file has no times: the entries before one count as microseconds */
    bool ends_refused;                /* the last request was refused: the program ended out of memory */
    struct mt_foreign_counts foreign; /* contradictions in the file, and how they were resolved */
    struct mt_import_coverage coverage;
    uint64_t nccl_bytes; /* the sum of NCCL's memory, from a separate file */
    size_t rule_count;
    size_t uncovered_count;
    struct mt_import_uncovered {
        char *who; /* "function=forward file=model.py line=12 operator=mul_Tensor" */
        uint64_t bytes, blocks;
    } uncovered[MT_IMPORT_MOST_UNCOVERED];
    struct mt_import_torch torch;
};

/* Adds a row of the report, and its count to the entries. `what` is static. */
void mt_import_count(struct mt_import_report *report, const char *what, uint64_t count);

/* The largest accepted size, and the largest accepted sum of a file's sizes: 256 TiB and 2 EiB. So no sum over a run
 * overflows, here or in a column of the trace. Memory that is freed and allocated again counts each time: at 1 TiB/s, a
 * program reaches the sum after three weeks. */
#define MT_IMPORT_MOST_BYTES (UINT64_C(1) << 48)
#define MT_IMPORT_MOST_SUM (UINT64_C(1) << 61)

/* The sizes of one file. Invariant: sum <= MT_IMPORT_MOST_SUM. */
struct mt_import_sizes {
    uint64_t sum;
};

/* Adds a size to the sum. Fails with MT_BAD_TRACE and the numbers if the size or the sum is too large. */
mt_status mt_import_sizes_add(struct mt_import_sizes *sizes, uint64_t bytes);

struct mt_nccl_holders;

/* A file that is being imported. */
struct mt_import_input {
    const struct mt_import_plan *plan;
    const struct mt_rules *rules;
    bool is_database;                   /* SQLite's: opened by its path, and not read into memory */
    struct mt_whole_file file;          /* its bytes, without gzip; empty for a database */
    const struct mt_nccl_holders *nccl; /* of the plan's file about NCCL; empty: none */
    void *state;                        /* the reader's, between its read and its release; NULL otherwise */
};

/* The parts of a run that the plan does not set. Borrowed. */
struct mt_import_source {
    const char *title;  /* of the format, for people; static */
    const char *format; /* of the format, as a setting of the run: "pickle" */
    const char *device; /* "PyTorch snapshot" */
    const char *name;   /* of the run, if the plan has none; NULL or "": none */
    const char *state;  /* in which the run ended; NULL or unknown: it is derived from the events */
    uint64_t start_us;  /* at which the run began, since 1970; 0: not in the file */
    uint64_t capacity_bytes;
    const struct mt_run_setting *settings;
    size_t setting_count;
};

/* A reader of one format. */
struct mt_import_reader {
    mt_import_kind kind;
    struct mt_import_source source; /* the part that all files of the format share */

    /* True if the beginning of the file has this format. */
    bool (*recognizes)(const struct mt_import_input *input);

    /* Parses the file and completes `source`. After it, replay can't fail. It may release the file's bytes. NULL: only
     * a replay detects all damage, so a replay into a discarding sink comes first. */
    mt_status (*read)(struct mt_import_input *input, struct mt_import_source *source);

    /* Emits the file's events and fills in the report, except for kind, format, run and rule_count. Fails with
     * MT_BAD_TRACE and the position in the file. */
    mt_status (*replay)(const struct mt_import_input *input, const struct mt_sink *sink, struct mt_import_report *out);

    /* Frees the state, also after a failed read. NULL if `read` is NULL. */
    void (*release)(struct mt_import_input *input);
};

/* An export of Nsight Systems to SQLite (nsys_import.c); a log of RMM, the RAPIDS Memory Manager (rmm_import.c); a log
 * of NCCL's memory (nccl_import.c); and a memory snapshot of PyTorch, also one that memtrace exported, or a trace of
 * its profiler (torch_import.c). */
extern const struct mt_import_reader mt_nsys_reader, mt_rmm_reader, mt_nccl_reader, mt_torch_reader;
