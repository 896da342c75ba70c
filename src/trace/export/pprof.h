/* A run's memory as a profile of pprof: one sample a label, with what the whole run allocated (alloc_objects,
 * alloc_space) and what was live at the peak of allocated bytes (inuse_objects, inuse_space, which it opens with).
 * Samples carry the labels category, role, phase and dtype.
 * https://github.com/google/pprof/blob/main/proto/profile.proto */
#ifndef MT_TRACE_EXPORT_PPROF_H
#define MT_TRACE_EXPORT_PPROF_H

#include "trace/export/proto.h"
#include "trace/export/stacks.h"

/* What a profile is made of. `title` is what pprof calls the program that was profiled. */
struct mt_pprof {
    const char *title;
    const struct mt_label_row *labels;
    const struct mt_label_sum *sums;
    size_t count;
    mt_stack_layers layers;
};

/* Adds the message Profile to `out`; pprof expects it in gzip. */
void mt_pprof_write(const struct mt_pprof *pprof, struct mt_proto *out);

#endif
