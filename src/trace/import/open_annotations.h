/* What the program said that it was doing while a snapshot's events happened: the annotations that have begun and not ended,
 * such as "Optimizer.step#AdamW.step".
 *
 * Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_OPEN_ANNOTATIONS_H
#define MT_TRACE_IMPORT_OPEN_ANNOTATIONS_H

#include "trace/import/torch_snapshot.h"

/* Within more than so many, further ones are not known, nor such with longer names: rules look at all of them for every
 * block, and a damaged file may have any number. */
enum { MT_MOST_OPEN_ANNOTATIONS = 16, MT_MOST_ANNOTATION_BYTES = 255 };

/* Zeros are the beginning. Invariant: names[0 .. count) are those of the snapshot's first `passed` that have no end among
 * these, in the order in which they began. */
struct mt_open_annotations {
    size_t passed;
    uint32_t count;
    const char *names[MT_MOST_OPEN_ANNOTATIONS]; /* the snapshot's */
};

/* To a later time, and what was said then. */
void mt_open_annotations_move(struct mt_open_annotations *open, const struct mt_torch_snapshot *snapshot,
                              int64_t time_us);

#endif
