#include "cli/output/report_form.h"

#include "answer/report_page.h"
#include "answer/row_stream.h"
#include "base/text.h"

#include <assert.h>

const char *const mt_report_format_names[] = {"text", "csv", "markdown", NULL};
static const mt_report_form forms[] = {MT_REPORT_TEXT, MT_REPORT_CSV, MT_REPORT_MARKDOWN};

mt_status mt_report_form_find(bool json, int format, mt_report_form *out)
{
    assert(format >= 0 && (size_t)format < sizeof forms / sizeof forms[0]);
    if (json && forms[format] != MT_REPORT_TEXT)
        return mt_fail(MT_USAGE, "--json and --format %s exclude each other", mt_report_format_names[format]);
    *out = json ? MT_REPORT_JSON : forms[format];
    return MT_OK;
}

mt_status mt_rows_print_csv(const struct mt_row_type *type, const void *rows, size_t count)
{
    struct mt_output_file *file;
    struct mt_row_stream stream;
    mt_status status = MT_OK;
    MT_TRY(mt_output_file_open(NULL, MT_OUTPUT_BY_NAME, &file));
    mt_row_stream_begin(&stream, file, MT_ROWS_CSV, type, NULL);
    for (size_t i = 0; i < count && status == MT_OK; i++)
        status = mt_row_stream_add(&stream, (const char *)rows + i * type->bytes);
    mt_row_stream_end(&stream);
    return mt_output_file_close(file, status);
}

mt_status mt_rows_print_markdown(const char *page_title, const char *key, const char *title,
                                 const struct mt_row_type *type, const void *rows, size_t count)
{
    struct mt_text text = {0};
    struct mt_page *page = mt_page_create(page_title);
    mt_page_table(page, key, title, type, rows, count);
    mt_page_keep_columns(page);
    mt_page_write_markdown(page, &text);
    mt_status status = mt_output_file_put(NULL, MT_OUTPUT_BY_NAME, mt_text_get(&text));
    mt_text_release(&text);
    mt_page_destroy(page);
    return status;
}
