/* Chunk 0 of the timeline page: what the page says of itself and of its runs, in JSON. */
#ifndef MT_PAGE_PAGE_DESCRIPTION_H
#define MT_PAGE_PAGE_DESCRIPTION_H

#include "page/page.h"
#include "page/page_run.h"

/* The JSON of the runs that were loaded, one for each source of the plan; the caller's, free(). */
mt_status mt_page_describe(const struct mt_page_plan *plan, const struct mt_page_run *runs,
                           const struct mt_page_names *names, char **out);

#endif
