/* What can be exported, each written to a file that is open already. */
#ifndef MT_CLI_EXPORT_WHAT_H
#define MT_CLI_EXPORT_WHAT_H

#include "answer/output_file.h"
#include "cli/output/question.h"
#include "cli/write/export_rows.h"
#include "cli/write/plain_writer.h"
#include "trace/export/stacks.h"

/* Rows: every block, every allocation and free, every peak and what it was made of. `step` may be MT_ALL_STEPS; of
 * blocks, a step has those that were live at some moment of it. */
mt_status mt_export_blocks(const struct mt_question *question, struct mt_output_file *file, mt_export_form form,
                           int64_t step);
mt_status mt_export_events(const struct mt_question *question, struct mt_output_file *file, mt_export_form form,
                           int64_t step);
mt_status mt_export_peaks(const struct mt_question *question, struct mt_output_file *file, mt_export_form form,
                          int64_t step);

/* Folded stacks, a line each: "frame;…;frame bytes", or with the bytes of `before` in front where that is not NULL. */
mt_status mt_export_folded(const struct mt_question *question, const struct mt_question *before,
                           struct mt_output_file *file, mt_stack_moment moment, mt_stack_layers layers);

/* A profile for pprof. */
mt_status mt_export_pprof(const struct mt_question *question, struct mt_output_file *file, mt_stack_layers layers);

/* A whole run, for other programs: as a memory snapshot of PyTorch, for Perfetto, as a log of RMM, and as the tables of
 * Nsight Systems in a database of SQLite. */
mt_status mt_export_torch(const struct mt_question *question, struct mt_output_file *file, mt_plain_form form);
mt_status mt_export_perfetto(const struct mt_question *question, struct mt_output_file *file);
mt_status mt_export_rmm(const struct mt_question *question, struct mt_output_file *file);
mt_status mt_export_nsys(const struct mt_question *question, struct mt_output_file *file);

#endif
