#include "trace/import/open_annotations.h"

#include <string.h>

/* The last of that name: threads may have opened it more than once. Equal texts of a snapshot are one. */
static void end_annotation(struct mt_open_annotations *open, const char *name)
{
    for (uint32_t i = open->count; i > 0; i--)
        if (open->names[i - 1] == name) {
            open->count--;
            memmove(open->names + i - 1, open->names + i, (open->count + 1 - i) * sizeof *open->names);
            return;
        }
}

static void begin_annotation(struct mt_open_annotations *open, const char *name)
{
    if (open->count < MT_MOST_OPEN_ANNOTATIONS && strlen(name) <= MT_MOST_ANNOTATION_BYTES)
        open->names[open->count++] = name;
}

void mt_open_annotations_move(struct mt_open_annotations *open, const struct mt_torch_snapshot *snapshot,
                              int64_t time_us)
{
    for (; open->passed < snapshot->annotation_count; open->passed++) {
        const struct mt_torch_annotation *next = &snapshot->annotations[open->passed];
        if (next->time_us > time_us)
            return;
        if (next->is_end)
            end_annotation(open, next->name);
        else
            begin_annotation(open, next->name);
    }
}
