#include "producers/file/torch_annotations.h"

#include "producers/file/glob.h"

#include <assert.h>
#include <string.h>

/* Ends the last annotation of that name: several threads may have opened it. Equal texts of a snapshot are one. */
static void end_annotation(struct mt_torch_annotations *open, const char *name)
{
    open->update_ended |= mt_glob_fits("Optimizer.step#*", name);
    for (uint32_t i = open->count; i > 0; i--)
        if (open->names[i - 1] == name) {
            open->count--;
            memmove(open->names + i - 1, open->names + i, (open->count + 1 - i) * sizeof *open->names);
            return;
        }
}

static void begin_annotation(struct mt_torch_annotations *open, const char *name)
{
    assert(open->count <= MT_MOST_OPEN_ANNOTATIONS);
    open->step_began |= mt_glob_fits("ProfilerStep#*", name);
    if (open->count < MT_MOST_OPEN_ANNOTATIONS && strlen(name) <= MT_MOST_ANNOTATION_BYTES)
        open->names[open->count++] = name;
}

void mt_torch_annotations_pass(struct mt_torch_annotations *open, const struct mt_torch_snapshot *snapshot,
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
