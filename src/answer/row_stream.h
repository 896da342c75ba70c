/* Rows that are written one by one, so that long answers need little memory: CSV (RFC 4180, with a header) or JSON
 * ({…head…, "rows": [{…}, …]}). */
#pragma once

#include "answer/output_file.h"
#include "answer/row.h"

typedef enum mt_row_form { MT_ROWS_CSV, MT_ROWS_JSON } mt_row_form;

/* A stream of rows in progress. */
struct mt_row_stream {
    struct mt_output_file *file;    /* borrowed */
    const struct mt_row_type *type; /* without fields that are rows */
    mt_row_form form;
    uint64_t count; /* of rows so far */
};

/* Begins the answer: a header of CSV, or the members of `head`, an object that is not empty. Takes `head`. */
void mt_row_stream_begin(struct mt_row_stream *stream, struct mt_output_file *file, mt_row_form form,
                         const struct mt_row_type *type, json_t *head);

/* Writes a row. Fails with MT_NOT_WRITTEN if a write has failed. */
mt_status mt_row_stream_add(struct mt_row_stream *stream, const void *row);

void mt_row_stream_end(struct mt_row_stream *stream);
