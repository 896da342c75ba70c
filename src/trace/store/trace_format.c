#include "trace/store/trace_format.h"

#include "base/event.h"
#include "base/text.h"
#include "mt_schema_sql.h"
#include "trace/store/schema_check.h"

#include <assert.h>
#include <string.h>

/* The tables of a trace. Every trace has the tables of format 1. */
static const struct {
    const char *name;
    int64_t since; /* the format that added it */
} tables[] = {
    {"run", 1},
    {"setting", 1},
    {"measurement", 1},
    {"span", 1},
    {"label", 1},
    {"event", 1},
    {"kernel", 1},
    {"kernel_name", 1},
    {"event_kind", 1},
    {"segment", 1},
    {"step", 1},
    {"checkpoint", 1},
    {"summary_peak", 1},
    {"summary_peak_category", 1},
    {"summary_category", 1},
    {"summary_allocation", 1},
    {"block_use", MT_TRACE_FORMAT_WITHOUT_USES + 1},
    {"segment_part", MT_TRACE_FORMAT_OF_WHOLE_SEGMENTS + 1},
    {"frame", MT_TRACE_FORMAT_OF_OLD_ROLES + 1},
    {"stack", MT_TRACE_FORMAT_OF_OLD_ROLES + 1},
    {"outside", MT_TRACE_FORMAT_OF_OLD_ROLES + 1},
    {"batch", MT_TRACE_FORMAT_OF_OLD_ROLES + 1},
    {"summary_peak_role", MT_TRACE_FORMAT_OF_OLD_ROLES + 1},
    {"caveat", MT_TRACE_FORMAT_WITHOUT_CAVEATS + 1},
    {"program_phase", MT_TRACE_FORMAT_WITHOUT_CAVEATS + 1},
    {"pool", MT_TRACE_FORMAT_WITHOUT_CAVEATS + 1},
    {"holder", MT_TRACE_FORMAT_WITHOUT_CAVEATS + 1},
    {"finding", MT_TRACE_FORMAT_WITHOUT_CAVEATS + 1},
};

/* Columns that were added later than their tables, after the earlier ones. They are NULL in rows of older formats. */
static const struct {
    const char *table, *column;
    int64_t since;
} later_columns[] = {
    {"run", "missing_records", MT_TRACE_FORMAT_OF_OLD_ROLES + 1},
    {"run", "rank", MT_TRACE_FORMAT_OF_OLD_ROLES + 1},
    {"run", "local_rank", MT_TRACE_FORMAT_OF_OLD_ROLES + 1},
    {"run", "world_size", MT_TRACE_FORMAT_OF_OLD_ROLES + 1},
    {"run", "host", MT_TRACE_FORMAT_OF_OLD_ROLES + 1},
    {"run", "job", MT_TRACE_FORMAT_OF_OLD_ROLES + 1},
    {"run", "pid", MT_TRACE_FORMAT_OF_OLD_ROLES + 1},
    {"label", "role_source", MT_TRACE_FORMAT_OF_OLD_ROLES + 1},
    {"event", "stack", MT_TRACE_FORMAT_OF_OLD_ROLES + 1},
    {"run", "ended_by", MT_TRACE_FORMAT_WITHOUT_CAVEATS + 1},
    {"segment", "pool", MT_TRACE_FORMAT_WITHOUT_CAVEATS + 1},
    {"segment", "card", MT_TRACE_FORMAT_WITHOUT_CAVEATS + 1},
    {"program_phase", "peak_bytes", MT_TRACE_FORMAT_WITHOUT_LOOPS + 1},
    {"program_phase", "peak_event", MT_TRACE_FORMAT_WITHOUT_LOOPS + 1},
    {"holder", "loop_file", MT_TRACE_FORMAT_WITHOUT_LOOPS + 1},
    {"holder", "loop_line", MT_TRACE_FORMAT_WITHOUT_LOOPS + 1},
};

enum { TABLES = sizeof tables / sizeof tables[0], LATER_COLUMNS = sizeof later_columns / sizeof later_columns[0] };

/* The role in format 4, from the role in formats 1 to 3. */
#define ROLE_OF_OLD_ROLE                                                                                               \
    "CASE role WHEN 'param' THEN 'parameter' WHEN 'grad' THEN 'gradient' WHEN 'opt_state' THEN 'optimizer state'"      \
    " WHEN 'saved' THEN 'activation' WHEN 'weight_cast' THEN 'weight cast' WHEN 'data' THEN 'input' ELSE role END"

/* The segments of an older trace, each mapped and unmapped as a whole, as rows of table segment_part. */
#define WHOLE_SEGMENTS "SELECT run, id AS segment, 0 AS offset, mapped_event, bytes, unmapped_event FROM main.segment"

/* Returns the format that added a column to its table; 0: the table always had it. */
static int64_t column_since(const char *table, const char *column)
{
    for (size_t i = 0; i < LATER_COLUMNS; i++)
        if (strcmp(later_columns[i].table, table) == 0 && strcmp(later_columns[i].column, column) == 0)
            return later_columns[i].since;
    return 0;
}

static int64_t table_since(const char *table)
{
    for (size_t i = 0; i < TABLES; i++)
        if (strcmp(tables[i].name, table) == 0)
            return tables[i].since;
    assert(!"every table is listed");
    return MT_TRACE_FORMAT;
}

static mt_schema_need needs(const struct mt_schema_column *column, int64_t format)
{
    const int64_t since = column_since(column->table, column->name);
    if (table_since(column->table) > format || since > format)
        return MT_SCHEMA_ABSENT;
    return since > 0 ? MT_SCHEMA_NAMED : MT_SCHEMA_SAME;
}

/* Adds the columns that a trace of a format lacks to its existing tables. */
static mt_status add_later_columns(struct mt_database *database, int64_t format)
{
    mt_status status = MT_OK;
    for (size_t i = 0; i < LATER_COLUMNS && status == MT_OK; i++) {
        struct mt_text sql = {0};
        if (later_columns[i].since <= format || table_since(later_columns[i].table) > format)
            continue;
        mt_text_add(&sql, "ALTER TABLE %s ADD COLUMN %s", later_columns[i].table, later_columns[i].column);
        status = mt_database_execute(database, mt_text_get(&sql));
        mt_text_release(&sql);
    }
    return status;
}

mt_status mt_trace_format_check(struct mt_database *database, int64_t format)
{
    return mt_schema_check(database, format, needs);
}

/* Hides a table behind a view that also has the columns that its format lacks. */
static mt_status add_view(struct mt_database *database, int64_t format, const char *table)
{
    struct mt_text sql = {0};
    mt_text_add(&sql, "CREATE TEMP VIEW %s AS SELECT *", table);
    for (size_t i = 0; i < LATER_COLUMNS; i++)
        if (strcmp(later_columns[i].table, table) == 0 && later_columns[i].since > format)
            mt_text_add(&sql, ", NULL AS %s", later_columns[i].column);
    mt_text_add(&sql, " FROM main.%s", table);
    mt_status status = mt_database_execute(database, sql.data);
    mt_text_release(&sql);
    return status;
}

/* The kinds in the SQL of views, which has no parameters. */
_Static_assert(MT_EVENT_ALLOC == 2, "views say kind = 2");
_Static_assert(MT_EVENT_FREE == 3, "views say kind = 3");
_Static_assert(MT_EVENT_RELABEL == 10, "views and indexes say kind = 10");

/* Only the relabels, by their blocks. An index of them makes that fast. */
#define RELABEL_VIEW "VIEW relabel AS SELECT allocation, id AS event, label, span FROM event WHERE kind = 10;"

/* For users' SQL: events with their run, and a row for each block, with its last label. */
#define VIEWS(create)                                                                                                  \
    create                                                                                                             \
        "VIEW run_event AS SELECT run.id AS run, event.* FROM run CROSS JOIN event"                                    \
        " ON event.id >= run.first_event AND event.id < run.first_event + run.event_count;" create                     \
        "VIEW block AS SELECT begun.run, begun.id AS allocation, named.label, label.category, label.role, "            \
        "label.role_source,"                                                                                           \
        " label.op, span.path AS span, label.phase, label.layer, label.dtype, label.shape, begun.requested_bytes,"     \
        " begun.block_bytes, begun.stream, begun.segment, begun.offset, begun.stack, begun.time_ns AS begin_ns,"       \
        " ended.id AS end_event, ended.time_ns AS end_ns, (SELECT max(number) FROM step WHERE step.run = begun.run"    \
        " AND step.first_event <= begun.id) AS step FROM run_event AS begun"                                           \
        " LEFT JOIN (SELECT allocation, id, time_ns FROM event WHERE kind = 3) AS ended"                               \
        " ON ended.allocation = begun.id"                                                                              \
        " LEFT JOIN event AS named ON named.id = ifnull((SELECT max(relabel.event) FROM relabel"                       \
        " WHERE relabel.allocation = begun.id), begun.id)"                                                             \
        " LEFT JOIN label ON label.run = begun.run AND label.id = named.label"                                         \
        " LEFT JOIN span ON span.run = begun.run AND span.id = ifnull(named.span, label.span) WHERE begun.kind = 2;"

/* Replace the tables that format 4 added. */
static const char views_of_format_4[] =
    "CREATE TEMP VIEW relabel AS SELECT 0 AS allocation, 0 AS event, 0 AS label, 0 AS span WHERE 0;"
    "CREATE TEMP VIEW batch AS SELECT 0 AS run, 0 AS first_event, 0 AS event_count, 0 AS checksum WHERE 0;"
    "CREATE TEMP VIEW summary_peak_role AS SELECT 0 AS run, 0 AS step, '' AS measure, '' AS role, 0 AS allocated_bytes,"
    " 0 AS requested_bytes, 0 AS blocks WHERE 0;"
    "CREATE TEMP VIEW frame AS SELECT 0 AS run, 0 AS id, '' AS function, '' AS file, 0 AS line WHERE 0;"
    "CREATE TEMP VIEW stack AS SELECT 0 AS run, 0 AS id, 0 AS parent, 0 AS frame WHERE 0;"
    "CREATE TEMP VIEW outside AS SELECT 0 AS run, 0 AS event, 0 AS time_ns, '' AS kind, '' AS name, 0 AS bytes WHERE 0";

/* Replace the tables that format 5 added. */
static const char views_of_format_5[] =
    "CREATE TEMP VIEW caveat AS SELECT 0 AS run, '' AS kind, '' AS name, '' AS file, 0 AS line, 0 AS count, 0 AS total,"
    " 0 AS bytes, 0.0 AS value WHERE 0;"
    "CREATE TEMP VIEW program_phase AS SELECT 0 AS run, 0 AS id, '' AS name, 0 AS first_event, 0 AS last_event,"
    " 0 AS begin_ns, 0 AS end_ns, 0 AS peak_bytes, 0 AS peak_event WHERE 0;"
    "CREATE TEMP VIEW pool AS SELECT 0 AS run, 0 AS id, '' AS kind, '' AS name, 0 AS first_event, 0 AS last_event"
    " WHERE 0;"
    "CREATE TEMP VIEW holder AS SELECT 0 AS run, 0 AS allocation, 0 AS id, '' AS kind, '' AS name, '' AS owner,"
    " '' AS file, 0 AS line, 0 AS held_bytes, '' AS loop_file, 0 AS loop_line WHERE 0;"
    "CREATE TEMP VIEW finding AS SELECT 0 AS run, 0 AS id, '' AS detector, '' AS subject, '' AS change, '' AS cost,"
    " 0 AS saved_bytes, '' AS tried WHERE 0";

mt_status mt_trace_format_view(struct mt_database *database, int64_t format)
{
    if (format <= MT_TRACE_FORMAT_OF_WHOLE_SEGMENTS)
        MT_TRY(mt_database_execute(database, "CREATE TEMP VIEW segment_part AS " WHOLE_SEGMENTS));
    if (format == MT_TRACE_FORMAT_WITHOUT_LOOPS) {
        MT_TRY(add_view(database, format, "program_phase"));
        MT_TRY(add_view(database, format, "holder"));
    }
    if (format > MT_TRACE_FORMAT_WITHOUT_CAVEATS)
        return MT_OK;
    MT_TRY(add_view(database, format, "run"));
    MT_TRY(add_view(database, format, "segment"));
    MT_TRY(mt_database_execute(database, views_of_format_5));
    if (format > MT_TRACE_FORMAT_OF_OLD_ROLES)
        return MT_OK;
    MT_TRY(add_view(database, format, "event"));
    MT_TRY(mt_database_execute(database, views_of_format_4));
    MT_TRY(mt_database_execute(database, VIEWS("CREATE TEMP ")));
    return mt_database_execute(database, "CREATE TEMP VIEW label AS SELECT run, id, category, " ROLE_OF_OLD_ROLE
                                         " AS role, op, span, phase, layer, dtype, shape, NULL AS role_source"
                                         " FROM main.label");
}

static mt_status add_event_kinds(struct mt_database *database)
{
    struct mt_statement *statement;
    mt_status status = mt_database_prepare_insert(database, "event_kind", "id, name", &statement);
    for (int kind = 0; kind < MT_EVENT_KIND_COUNT && status == MT_OK; kind++) {
        mt_statement_bind_integer(statement, 1, kind);
        mt_statement_bind_text(statement, 2, mt_event_kind_name((mt_event_kind)kind));
        status = mt_statement_run(statement);
    }
    mt_statement_finalize(statement);
    return status;
}

/* Upgrades rows of an older program; format 0 has none. */
static mt_status change_rows(struct mt_database *database, int64_t format)
{
    if (format > 0 && format <= MT_TRACE_FORMAT_OF_WHOLE_SEGMENTS)
        MT_TRY(mt_database_execute(database, "INSERT OR IGNORE INTO segment_part " WHOLE_SEGMENTS));
    if (format > 0 && format <= MT_TRACE_FORMAT_OF_OLD_ROLES)
        MT_TRY(mt_database_execute(database, "UPDATE label SET role = " ROLE_OF_OLD_ROLE));
    return add_event_kinds(database);
}

static mt_status set_identity(struct mt_database *database, int application_id)
{
    struct mt_text sql = {0};
    mt_text_add(&sql, "PRAGMA application_id = %d; PRAGMA user_version = %d", application_id, MT_TRACE_FORMAT);
    mt_status status = mt_database_execute(database, sql.data);
    mt_text_release(&sql);
    return status;
}

static mt_status upgrade(struct mt_database *database, int64_t format, int application_id)
{
    if (format > 0)
        MT_TRY(add_later_columns(database, format));
    MT_TRY(mt_database_execute(database, mt_schema_sql));
    if (format <= MT_TRACE_FORMAT_OF_OLD_ROLES)
        MT_TRY(mt_database_execute(database, "CREATE " RELABEL_VIEW VIEWS("CREATE ")));
    MT_TRY(change_rows(database, format));
    return set_identity(database, application_id);
}

mt_status mt_trace_format_upgrade(struct mt_database *database, int64_t format, int application_id)
{
    MT_TRY(mt_database_begin(database));
    mt_status status = upgrade(database, format, application_id);
    if (status == MT_OK)
        return mt_database_commit(database);
    mt_database_rollback(database);
    return status;
}
