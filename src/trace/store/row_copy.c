#include "trace/store/row_copy.h"

#include <sqlite3.h>

static struct mt_bound value_of(const struct mt_statement *row, int column)
{
    size_t bytes;
    switch (mt_statement_column_type(row, column)) {
    case SQLITE_INTEGER:
        return MT_BIND_INTEGER(mt_statement_integer(row, column));
    case SQLITE_FLOAT:
        return MT_BIND_REAL(mt_statement_real(row, column));
    case SQLITE_TEXT:
        return MT_BIND_TEXT(mt_statement_text(row, column));
    case SQLITE_BLOB: {
        const void *data = mt_statement_blob(row, column, &bytes);
        return MT_BIND_BLOB(data, bytes);
    }
    default:
        return MT_BIND_NULL;
    }
}

mt_status mt_row_copy(const struct mt_statement *row, struct mt_statement *insert)
{
    for (int i = 0; i < mt_statement_columns(row); i++)
        mt_statement_bind(insert, i + 1, value_of(row, i));
    return mt_statement_run(insert);
}

mt_status mt_row_copy_prepare(struct mt_database *to, const char *table, struct mt_text *columns,
                              struct mt_statement **out)
{
    mt_status status = MT_OK;
    struct mt_text sql = {0}, values = {0};
    MT_EACH_ROW (row, status, to, "SELECT name FROM pragma_table_info(?1)", MT_BIND_TEXT(table)) {
        mt_text_add(columns, "%s%s", columns->length > 0 ? ", " : "", mt_statement_text(row, 0));
        mt_text_add(&values, "%s?", values.length > 0 ? ", " : "");
    }
    mt_text_add(&sql, "INSERT OR IGNORE INTO %s (%s) VALUES (%s)", table, mt_text_get(columns), mt_text_get(&values));
    *out = NULL;
    MT_THEN(status, mt_database_prepare(to, mt_text_get(&sql), out));
    mt_text_release(&sql);
    mt_text_release(&values);
    return status;
}
