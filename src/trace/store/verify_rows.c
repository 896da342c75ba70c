#include "trace/store/verify_rows.h"

#include "base/memory.h"

#include <stdlib.h>

void mt_verify_rows_add(struct mt_verify_rows *rows, int64_t run, const char *what, mt_verify_result result,
                        struct mt_text *found)
{
    *MT_HOST_ADD(rows->rows, rows->count) =
        (struct mt_verify_row){.run = run, .what = what, .result = result, .found = mt_host_strdup(mt_text_get(found))};
    mt_text_release(found);
}

mt_status mt_verify_rows_add_failure(struct mt_verify_rows *rows, int64_t run, const char *what, mt_status status)
{
    struct mt_text found = {0};
    if (status != MT_BAD_TRACE)
        return status;
    mt_text_add(&found, "%s", mt_last_error());
    mt_verify_rows_add(rows, run, what, MT_VERIFY_DAMAGED, &found);
    return MT_OK;
}

void mt_verify_rows_tell(const struct mt_verify_rows *rows, const struct mt_verify_visitor *visitor)
{
    for (size_t i = 0; i < rows->count; i++)
        visitor->row(visitor->context, &rows->rows[i]);
}

void mt_verify_rows_release(struct mt_verify_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++)
        free((char *)rows->rows[i].found);
    free(rows->rows);
    *rows = (struct mt_verify_rows){0};
}
