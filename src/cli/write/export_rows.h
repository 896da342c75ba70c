/* Rows of an export, as CSV (RFC 4180, with a header) or as JSON ({…head…, "rows": [{…}, …]}): written as they come, so
 * that an export of any length needs little memory. */
#ifndef MT_CLI_EXPORT_ROWS_H
#define MT_CLI_EXPORT_ROWS_H

#include "answer/output_file.h"

#include <jansson.h>
#include <stdint.h>

typedef enum mt_export_form { MT_EXPORT_CSV, MT_EXPORT_JSON } mt_export_form;

/* Invariant: `next` < column_count fields of the current row have been added. */
struct mt_export_rows {
    struct mt_output_file *file; /* borrowed */
    mt_export_form form;
    const char *const *columns; /* borrowed */
    size_t column_count, next;
    int64_t count; /* of the rows that are complete */
};

/* Takes `head`, an object that is not empty. */
void mt_export_rows_begin(struct mt_export_rows *rows, struct mt_output_file *file, mt_export_form form, json_t *head,
                          const char *const *columns, size_t column_count);

/* The next field of the row. What is not known is empty in CSV and null in JSON. */
void mt_export_add_integer(struct mt_export_rows *rows, int64_t value);
void mt_export_add_size(struct mt_export_rows *rows, uint64_t value);
void mt_export_add_text(struct mt_export_rows *rows, const char *value);
void mt_export_add_unknown(struct mt_export_rows *rows);

/* After the last field. MT_FAILED once nobody reads any more: what a visitor of rows returns. */
mt_status mt_export_row_end(struct mt_export_rows *rows);

void mt_export_rows_end(struct mt_export_rows *rows);

#endif
