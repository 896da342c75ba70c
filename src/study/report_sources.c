/* The runs that the page was made from. */
#include "study/report_sections.h"

#include <inttypes.h>

mt_status mt_report_sources(struct mt_report *report)
{
    static const struct mt_column columns[] = {
        {"run", MT_ALIGN_RIGHT},   {"name", MT_ALIGN_LEFT},      {"device", MT_ALIGN_LEFT},
        {"model", MT_ALIGN_LEFT},  {"batch", MT_ALIGN_RIGHT},    {"seq", MT_ALIGN_RIGHT},
        {"pass", MT_ALIGN_LEFT},   {"precision", MT_ALIGN_LEFT}, {"warm-up", MT_ALIGN_RIGHT},
        {"steps", MT_ALIGN_RIGHT}, {"allocator", MT_ALIGN_LEFT}, {"ended", MT_ALIGN_LEFT}};
    struct mt_page *page = report->page;
    mt_page_section(page, "runs", "Runs");
    mt_page_table(page, "runs", "The runs of this page", columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < report->run_count; i++) {
        const struct mt_report_run *run = &report->runs[i];
        mt_page_cell_count(page, run->run->id);
        mt_page_cell(page, run->run->name != NULL ? run->run->name : "");
        mt_page_cell(page, run->run->device);
        mt_page_cell(page, run->model);
        mt_page_cell_count(page, run->batch);
        mt_page_cell_count(page, run->seq);
        mt_page_cell(page, mt_report_mode(run));
        mt_page_cell(page, run->steps.precision);
        mt_page_cell_count(page, run->steps.warmup);
        mt_page_cell_count(page, run->run->steps);
        mt_page_cell(page, run->allocator);
        mt_page_cell(page, run->run->state);
    }
    return MT_OK;
}
