#include "page/page.h"

#include "mt_page_shell.h"
#include "page/page_description.h"

#include <stdlib.h>
#include <string.h>

/* The line of the shell that the chunks take the place of. */
static const char CHUNKS[] = "<!-- chunks -->\n";

static mt_status write_chunk(const struct mt_page_output *out, size_t number, const unsigned char *bytes, size_t count)
{
    unsigned char *compressed;
    size_t compressed_count;
    mt_status status = mt_page_chunk_compress(bytes, count, &compressed, &compressed_count);
    if (status != MT_OK)
        return status;
    mt_page_chunk_write(out, number, compressed, compressed_count);
    free(compressed);
    return MT_OK;
}

static mt_status write_table(const struct mt_page_output *out, const struct mt_page_table *table)
{
    mt_status status = MT_OK;
    for (size_t part = 0; part < mt_page_table_chunks(table) && status == MT_OK; part++) {
        size_t count;
        unsigned char *bytes = mt_page_table_encode(table, part, &count);
        status = write_chunk(out, table->first_chunk + part, bytes, count);
        free(bytes);
    }
    return status;
}

static mt_status write_run(const struct mt_page_output *out, const struct mt_page_run *page)
{
    mt_status status = MT_OK;
    for (int i = 0; i < MT_PAGE_TABLE_COUNT && status == MT_OK; i++)
        if (page->tables[i].name != NULL)
            status = write_table(out, &page->tables[i]);
    return status;
}

static mt_status write_chunks(const struct mt_page_output *out, const struct mt_page_plan *plan,
                              const struct mt_page_run *runs, const struct mt_page_names *names)
{
    char *description;
    mt_status status = mt_page_describe(plan, runs, names, &description);
    if (status == MT_OK)
        status = write_chunk(out, 0, (const unsigned char *)description, strlen(description));
    for (size_t i = 0; i < plan->source_count && status == MT_OK; i++)
        status = write_run(out, &runs[i]);
    free(description);
    return status;
}

static mt_status write_page(const struct mt_page_output *out, const struct mt_page_plan *plan,
                            const struct mt_page_run *runs, const struct mt_page_names *names)
{
    const char *chunks = strstr(mt_page_shell, CHUNKS);
    out->write(out->context, mt_page_shell, (size_t)(chunks - mt_page_shell));
    mt_status status = write_chunks(out, plan, runs, names);
    mt_page_output_text(out, chunks + strlen(CHUNKS));
    return status;
}

mt_status mt_page_write(const struct mt_page_plan *plan, const struct mt_page_output *out)
{
    struct mt_page_names names;
    struct mt_page_run runs[MT_PAGE_MOST_RUNS] = {{0}};
    size_t next_chunk = 1;
    mt_status status = MT_OK;
    mt_page_names_create(&names);
    for (size_t i = 0; i < plan->source_count && status == MT_OK; i++)
        status = mt_page_run_load(plan->sources[i].trace, plan->sources[i].run, &names, &next_chunk, &runs[i]);
    if (status == MT_OK)
        status = write_page(out, plan, runs, &names);
    for (size_t i = 0; i < MT_PAGE_MOST_RUNS; i++)
        mt_page_run_release(&runs[i]);
    mt_page_names_release(&names);
    return status;
}
