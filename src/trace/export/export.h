/* Exports of a run: tables, stacks, and whole runs in the formats of other programs. Each writes to an open file. */
#ifndef MT_TRACE_EXPORT_EXPORT_H
#define MT_TRACE_EXPORT_EXPORT_H

#include "answer/output_file.h"
#include "answer/row_stream.h"
#include "trace/export/plain_writer.h"
#include "trace/query/trace.h"

/* Layers have frames of their own, or share one, "*". */
typedef enum mt_stack_layers { MT_LAYERS_EACH, MT_LAYERS_MERGED } mt_stack_layers;

/* The blocks that count: those that were live at the peak of allocated bytes, or all. */
typedef enum mt_stack_moment { MT_STACKS_AT_PEAK, MT_STACKS_WHOLE_RUN } mt_stack_moment;

/* The moment whose memory a snapshot has: the end of the run, but before it gives back all of its blocks; or the peak of
 * allocated bytes. */
typedef enum mt_snapshot_moment { MT_SNAPSHOT_AT_END, MT_SNAPSHOT_AT_PEAK } mt_snapshot_moment;

/* The run to export. Both are borrowed. */
struct mt_export_run {
    struct mt_trace *trace;
    const struct mt_run *run;
};

/* Write a row for every block, for every allocation and free, or for every category of every peak. `step` may be
 * MT_ALL_STEPS; the blocks of a step are those that were live at some moment of it. */
mt_status mt_export_blocks(const struct mt_export_run *from, struct mt_output_file *file, mt_row_form form,
                           int64_t step);
mt_status mt_export_events(const struct mt_export_run *from, struct mt_output_file *file, mt_row_form form,
                           int64_t step);
mt_status mt_export_peaks(const struct mt_export_run *from, struct mt_output_file *file, mt_row_form form,
                          int64_t step);

/* The descriptions of those rows. */
extern const struct mt_row_type mt_export_block_type, mt_export_event_type, mt_export_peak_type;

/* Writes folded stacks, a line each: "frame;…;frame bytes", with the bytes of `before` in front unless that is NULL. */
mt_status mt_export_folded(const struct mt_export_run *from, const struct mt_export_run *before,
                           struct mt_output_file *file, mt_stack_moment moment, mt_stack_layers layers);

/* Writes a profile for pprof. */
mt_status mt_export_pprof(const struct mt_export_run *from, struct mt_output_file *file, mt_stack_layers layers);

/* Write a whole run: as a memory snapshot of PyTorch, for Perfetto, as a log of RMM, and as the tables of Nsight
 * Systems in a SQLite database. */
mt_status mt_export_torch(const struct mt_export_run *from, struct mt_output_file *file, mt_plain_form form,
                          mt_snapshot_moment moment);
mt_status mt_export_perfetto(const struct mt_export_run *from, struct mt_output_file *file);
mt_status mt_export_rmm(const struct mt_export_run *from, struct mt_output_file *file);
mt_status mt_export_nsys(const struct mt_export_run *from, struct mt_output_file *file);

#endif
