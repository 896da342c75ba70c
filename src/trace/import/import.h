/* Files of other programs as runs of a trace.
 *
 *   file ──▶ what is it? ──▶ its reader ──▶ struct mt_foreign ──▶ recorder ──▶ a run of the trace
 *
 * What a file is shows in what it holds, not in its name. Nothing of it is executed, and what damaged and hostile files make
 * of memory and time is bounded (document.h). If the reading fails, nothing is added to the trace.
 *
 * Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_IMPORT_H
#define MT_TRACE_IMPORT_IMPORT_H

#include "base/status.h"
#include "trace/import/torch_labels.h"
#include "trace/import/torch_replay.h"
#include "trace/store/foreign.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum mt_import_kind { MT_IMPORT_TORCH, MT_IMPORT_OWN, MT_IMPORT_NSYS, MT_IMPORT_RMM } mt_import_kind;

struct mt_import_plan {
    const char *file;  /* to read */
    const char *trace; /* to add a run to; made if there is none */
    const char *name;  /* of the run; NULL: as the file has it, if it does */
    const char *rules; /* a file of rules that come before ours; NULL: none */
    int64_t device;    /* of a file about several; MT_TORCH_ANY_DEVICE: the one with most events */
};

enum { MT_IMPORT_MOST_UNCOVERED = 5 };

/* What came in. Texts and rows belong to it. */
struct mt_import_report {
    mt_import_kind kind;
    const char *format; /* "PyTorch memory snapshot (pickle)"; static */
    int64_t run;        /* its number in the trace */
    int64_t device;     /* of the file, which the run is about; MT_TORCH_ANY_DEVICE: it does not say */
    uint64_t elsewhere; /* events of memory of other devices, or other processes, which are not in the run */
    uint64_t entries;   /* of the file about the device, all of which are counted below */
    struct mt_import_count {
        const char *what; /* static */
        uint64_t count;
    } counts[MT_TORCH_ACTION_COUNT];
    size_t count_count;
    struct mt_torch_tally before;     /* of what was live before the recording */
    bool ends_refused;                /* what was asked for last was refused: the program ended out of memory */
    bool lost_beginning;              /* the recording was full, and overwrote its oldest events */
    bool rounds_by_size;              /* PyTorch rounded up by steps that no setting of our allocator says */
    struct mt_foreign_counts foreign; /* what of it did not fit the rest */
    struct mt_torch_coverage coverage;
    size_t rule_count;
    size_t uncovered_count;
    struct mt_import_uncovered {
        char *who;
        uint64_t bytes, blocks;
    } uncovered[MT_IMPORT_MOST_UNCOVERED];
};

/* Reads the file and adds a run to the trace. MT_FAILED if a file can't be read or written, MT_BAD_TRACE for a file that is
 * none of the known kinds, or damaged, MT_USAGE for rules that are none. Release the report in any case. */
mt_status mt_import(const struct mt_import_plan *plan, struct mt_import_report *out);
void mt_import_report_release(struct mt_import_report *report);

#endif
