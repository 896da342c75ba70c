#include "trace/import/nsys_tables.h"

#include "base/text.h"

#include <string.h>

mt_status mt_nsys_has_column(struct mt_database *database, const char *table, const char *column, bool *out)
{
    struct mt_statement *statement;
    *out = false;
    mt_status status = mt_database_prepare(
        database,
        "SELECT 1 FROM sqlite_schema AS s JOIN pragma_table_info(s.name) AS c WHERE s.type = 'table' AND s.name = ?1"
        " AND s.rootpage > 0 AND (?2 = '' OR c.name = ?2)",
        &statement);
    if (status != MT_OK)
        return status;
    mt_statement_bind_text(statement, 1, table);
    mt_statement_bind_text(statement, 2, column);
    status = mt_statement_step(statement, out);
    mt_statement_finalize(statement);
    return status;
}

/* A column that is computed may take any time for every row. */
static mt_status check_columns(struct mt_database *database, const char *table)
{
    struct mt_statement *statement;
    bool is_computed = false;
    mt_status status =
        mt_database_prepare(database, "SELECT 1 FROM pragma_table_xinfo(?1) WHERE hidden IN (2, 3)", &statement);
    if (status != MT_OK)
        return status;
    mt_statement_bind_text(statement, 1, table);
    status = mt_statement_step(statement, &is_computed);
    mt_statement_finalize(statement);
    return status == MT_OK && is_computed
               ? mt_fail(MT_BAD_TRACE, "its table %s has columns that are computed, which Nsight Systems makes none of",
                         table)
               : status;
}

/* Pages that are there twice make many rows of few, and long texts of short ones: what is sound is read in proportion to
 * the file. */
static mt_status check_pages(struct mt_database *database, const char *table)
{
    struct mt_statement *statement = NULL;
    struct mt_text sql = {0};
    bool row;
    mt_text_add(&sql, "PRAGMA quick_check(%s)", table);
    mt_status status = mt_database_prepare(database, mt_text_get(&sql), &statement);
    if (status == MT_OK)
        status = mt_statement_step(statement, &row);
    const char *said = status == MT_OK && row ? mt_statement_text(statement, 0) : NULL;
    if (status == MT_OK && (said == NULL || strcmp(said, "ok") != 0))
        status = mt_fail(MT_BAD_TRACE, "its table %s is damaged (%s)", table,
                         said != NULL ? said : "nothing is known of it");
    mt_statement_finalize(statement);
    mt_text_release(&sql);
    return status;
}

mt_status mt_nsys_check_table(struct mt_database *database, const char *table)
{
    bool is_there;
    mt_status status = mt_nsys_has_column(database, table, "", &is_there);
    if (status == MT_OK && is_there)
        status = check_columns(database, table);
    return status == MT_OK && is_there ? check_pages(database, table) : status;
}
