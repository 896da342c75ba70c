/* Exports for the tools that draw flame graphs: folded stacks and pprof. */
#include "answer/escape.h"
#include "trace/export/export.h"
#include "trace/export/pprof.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* The labels of a run and what they add up to: as many of each. */
struct sums {
    struct mt_label_row *labels;
    struct mt_label_sum *sums;
    size_t count;
};

static void sums_release(struct sums *sums)
{
    free(sums->labels);
    free(sums->sums);
    *sums = (struct sums){0};
}

/* A run that is being written may get labels between the two questions; what is asked for names none of them. */
static mt_status sums_read(const struct mt_export_run *from, struct sums *out)
{
    size_t label_count = 0, sum_count = 0;
    *out = (struct sums){0};
    mt_status status = mt_trace_labels(from->trace, from->run, &out->labels, &label_count);
    if (status == MT_OK)
        status = mt_trace_label_sums(from->trace, from->run, &out->sums, &sum_count);
    if (status != MT_OK)
        sums_release(out);
    out->count = status == MT_OK ? (label_count < sum_count ? label_count : sum_count) : 0;
    return status;
}

/* How stacks are made of labels. */
struct folding {
    mt_stack_moment moment;
    mt_stack_layers layers;
};

static mt_status add_run(const struct mt_export_run *from, const struct folding *folding, int column,
                         struct mt_folded *folded)
{
    struct sums sums;
    mt_status status = sums_read(from, &sums);
    if (status == MT_OK)
        mt_folded_add(folded, sums.labels, sums.sums, sums.count, folding->moment, folding->layers, column);
    sums_release(&sums);
    return status;
}

static void print_line(struct mt_output_file *file, const struct mt_folded_row *row, int columns)
{
    struct mt_text line = {0};
    if (mt_output_file_is_terminal(file))
        mt_text_add_visible(&line, row->stack);
    else
        mt_text_add(&line, "%s", row->stack);
    for (int column = 0; column < columns; column++)
        mt_text_add(&line, " %" PRIu64, row->bytes[column]);
    mt_text_add(&line, "\n");
    mt_output_file_print(file, mt_text_get(&line));
    mt_text_release(&line);
}

mt_status mt_export_folded(const struct mt_export_run *from, const struct mt_export_run *before,
                           struct mt_output_file *file, mt_stack_moment moment, mt_stack_layers layers)
{
    struct folding folding = {moment, layers};
    struct mt_folded folded = {0};
    int columns = 0;
    mt_status status = before != NULL ? add_run(before, &folding, columns++, &folded) : MT_OK;
    if (status == MT_OK)
        status = add_run(from, &folding, columns++, &folded);
    mt_folded_merge(&folded);
    for (size_t i = 0; i < folded.count && status == MT_OK; i++) {
        print_line(file, &folded.rows[i], columns);
        status = mt_output_file_go_on(file);
    }
    mt_folded_release(&folded);
    return status;
}

mt_status mt_export_pprof(const struct mt_export_run *from, struct mt_output_file *file, mt_stack_layers layers)
{
    struct sums sums;
    mt_status status = sums_read(from, &sums);
    if (status != MT_OK)
        return status;
    struct mt_text title = {0};
    struct mt_proto profile = {0};
    const char *name = from->run->name;
    mt_text_add(&title, "memtrace run %" PRId64 "%s%s", from->run->id, name != NULL ? ": " : "",
                name != NULL ? name : "");
    mt_pprof_write(&(struct mt_pprof){mt_text_get(&title), sums.labels, sums.sums, sums.count, layers}, &profile);
    mt_output_file_write(file, profile.data, profile.length);
    mt_proto_release(&profile);
    mt_text_release(&title);
    sums_release(&sums);
    return mt_output_file_go_on(file);
}
