#include "page/page_json.h"

#include "base/text.h"

json_t *mt_page_json_text(const char *text)
{
    if (text == NULL)
        return json_null();
    struct mt_text repaired = {0};
    mt_utf8_add_repaired(&repaired, text);
    json_t *json = json_string(mt_text_get(&repaired));
    mt_text_release(&repaired);
    return json;
}

json_t *mt_page_json_number(uint64_t number)
{
    return json_integer((json_int_t)number);
}
