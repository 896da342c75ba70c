/* Lists the tables or columns of a trace when SQL names one that it lacks. SQLite says only which name it does not
 * know. */
#include "base/memory.h"
#include "base/text.h"
#include "trace/query/query.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Names of tables or columns, kept by the trace. */
struct names {
    const char **items;
    size_t count;
};

static bool has_name(const struct names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->items[i], name) == 0)
            return true;
    return false;
}

/* Adds the first column of each row, unless it is there. `text` is bound to the statement's parameter if it has one. */
static mt_status add_names(struct mt_trace *trace, const char *sql, const char *text, struct names *out)
{
    mt_status status = MT_OK;
    const struct mt_bound values[] = {MT_BIND_TEXT(text)};
    struct mt_statement *rows = mt_statement_begin(trace->database, sql, values, text != NULL, &status);
    while (mt_statement_advance(rows, &status)) {
        const char *name = mt_query_text(trace, rows, 0);
        if (!has_name(out, name))
            *MT_HOST_ADD(out->items, out->count) = name;
    }
    return status;
}

/* Adds the tables of the file, and the views that stand for those that an old format lacks. */
static mt_status add_tables(struct mt_trace *trace, struct names *out)
{
    return add_names(trace,
                     "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%'"
                     " UNION SELECT name FROM sqlite_temp_master WHERE type = 'view' ORDER BY name",
                     NULL, out);
}

static bool is_word_part(char letter)
{
    return isalnum((unsigned char)letter) || letter == '_';
}

/* True if the text has the word, in any case. */
static bool has_word(const char *text, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = text; *at != '\0'; at++)
        if ((at == text || !is_word_part(at[-1])) && strncasecmp(at, word, length) == 0 && !is_word_part(at[length]))
            return true;
    return false;
}

/* Adds the columns of the tables that `sql` names, and to *out_tables the tables: "run, label". */
static mt_status add_columns(struct mt_trace *trace, const char *sql, const struct names *tables, struct names *out,
                             struct mt_text *out_tables)
{
    for (size_t i = 0; i < tables->count; i++) {
        const char *table = tables->items[i];
        if (!has_word(sql, table))
            continue;
        mt_text_add(out_tables, "%s%s", out_tables->length > 0 ? ", " : "", table);
        MT_TRY(add_names(trace, "SELECT name FROM pragma_table_info(?)", table, out));
    }
    return MT_OK;
}

/* Fails with the columns of the tables that `sql` names. Returns MT_OK if it names none. */
static mt_status fail_column(struct mt_trace *trace, const char *sql, const char *word, const struct names *tables)
{
    struct names columns = {NULL, 0};
    struct mt_text named = {0}, what = {0};
    mt_status status = add_columns(trace, sql, tables, &columns, &named);
    mt_text_add(&what, "column of %s", mt_text_get(&named));
    if (status == MT_OK && columns.count > 0)
        status = mt_fail_unknown(what.data, word, columns.items, columns.count);
    mt_text_release(&named);
    mt_text_release(&what);
    free(columns.items);
    return status;
}

/* Returns the name that SQLite does not know, if its message begins so: "no such table: main.events" has "events". The
 * caller frees it. NULL: the message is another. */
static char *unknown_name(const char *message, const char *begin)
{
    size_t length = strlen(begin);
    if (strncmp(message, begin, length) != 0)
        return NULL;
    const char *dot = strrchr(message + length, '.');
    return mt_host_strdup(dot != NULL ? dot + 1 : message + length);
}

mt_status mt_query_explain_sql(struct mt_trace *trace, const char *sql)
{
    const struct mt_error error = mt_error_save(MT_USAGE);
    struct names tables = {NULL, 0};
    char *table = unknown_name(error.text, "no such table: "), *column = unknown_name(error.text, "no such column: ");
    mt_status status = table != NULL || column != NULL ? add_tables(trace, &tables) : MT_OK;
    if (status == MT_OK && table != NULL)
        status = mt_fail_unknown("table", table, tables.items, tables.count);
    else if (status == MT_OK && column != NULL)
        status = fail_column(trace, sql, column, &tables);
    free(tables.items);
    free(table);
    free(column);
    return status == MT_OK ? mt_error_restore(&error, MT_OK) : status;
}
