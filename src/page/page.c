#include "page/page.h"

#include "mt_page_shell.h"
#include "page/page_description.h"
#include "page/page_press.h"

#include <stdlib.h>
#include <string.h>

/* The line of the shell that the chunks take the place of. */
static const char CHUNKS[] = "<!-- chunks -->\n";

static mt_status write_description(const struct mt_page_output *out, const struct mt_page_plan *plan,
                                   const struct mt_page_run *runs, const struct mt_page_names *names)
{
    char *description;
    mt_status status = mt_page_describe(plan, runs, names, &description);
    if (status != MT_OK)
        return status;
    size_t length = 0;
    char *chunk =
        mt_page_chunk_make(0, MT_PAGE_REPEATS, (const unsigned char *)description, strlen(description), &length);
    free(description);
    if (chunk == NULL)
        return mt_fail(MT_FAILED, "zlib can't compress the page's description");
    out->write(out->context, chunk, length);
    free(chunk);
    return MT_OK;
}

/* What the first picture needs of every run goes before the rest of any. */
static const enum mt_page_table_id stages[] = {0, MT_PAGE_REST, MT_PAGE_TABLE_COUNT};
enum { STAGES = sizeof stages / sizeof stages[0] - 1 };

static mt_status measure_tables(const struct mt_page_plan *plan, struct mt_page_run *runs)
{
    size_t next_chunk = 1;
    mt_status status = MT_OK;
    for (size_t stage = 0; stage < STAGES; stage++)
        for (size_t i = 0; i < plan->source_count && status == MT_OK; i++)
            status = mt_page_run_measure(&runs[i], stages[stage], stages[stage + 1], &next_chunk);
    return status;
}

static mt_status write_chunks(const struct mt_page_output *out, const struct mt_page_plan *plan,
                              const struct mt_page_run *runs, const struct mt_page_names *names)
{
    mt_status status = write_description(out, plan, runs, names);
    for (size_t stage = 0; stage < STAGES; stage++)
        for (size_t i = 0; i < plan->source_count && status == MT_OK; i++)
            status = mt_page_press(out, &runs[i].tables[stages[stage]], stages[stage + 1] - stages[stage]);
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
    mt_status status = MT_OK;
    mt_page_names_create(&names);
    for (size_t i = 0; i < plan->source_count && status == MT_OK; i++)
        status =
            mt_page_run_load(plan->sources[i].trace, plan->sources[i].path, plan->sources[i].run, &names, &runs[i]);
    if (status == MT_OK)
        status = measure_tables(plan, runs);
    if (status == MT_OK)
        status = write_page(out, plan, runs, &names);
    for (size_t i = 0; i < MT_PAGE_MOST_RUNS; i++)
        mt_page_run_release(&runs[i]);
    mt_page_names_release(&names);
    return status;
}
