/* Values of the page's descriptions, in JSON. */
#ifndef MT_PAGE_PAGE_JSON_H
#define MT_PAGE_PAGE_JSON_H

#include <jansson.h>
#include <stdint.h>

/* Return a value that the caller owns. Text may have any encoding; NULL becomes null. */
json_t *mt_page_json_text(const char *text);
json_t *mt_page_json_number(uint64_t number);

#endif
