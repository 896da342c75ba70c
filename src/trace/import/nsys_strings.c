#include "trace/import/nsys_strings.h"

#include "base/memory.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static void add(struct mt_nsys_strings *strings, int64_t id, const char *text)
{
    size_t bytes = strlen(text) + 1;
    if (bytes > strings->capacity - strings->length) {
        strings->capacity = strings->capacity * 2 + bytes;
        strings->texts = mt_host_resize(strings->texts, strings->capacity, 1);
    }
    memcpy(strings->texts + strings->length, text, bytes);
    mt_number_map_put(&strings->places, (uint64_t)id, strings->length);
    strings->length += bytes;
}

mt_status mt_nsys_strings_read(struct mt_database *database, const char *name, struct mt_nsys_strings *out)
{
    struct mt_statement *statement = NULL;
    struct mt_text sql = {0};
    bool row = true;
    mt_number_map_create(&out->places);
    mt_text_add(&sql, "SELECT id, value FROM %s WHERE value IS NOT NULL", name);
    mt_status status = mt_database_prepare(database, mt_text_get(&sql), &statement);
    while (status == MT_OK && (status = mt_statement_step(statement, &row)) == MT_OK && row)
        add(out, mt_statement_integer(statement, 0), mt_statement_text(statement, 1));
    mt_statement_finalize(statement);
    mt_text_release(&sql);
    return status;
}

void mt_nsys_strings_release(struct mt_nsys_strings *strings)
{
    mt_number_map_release(&strings->places);
    free(strings->texts);
    *strings = (struct mt_nsys_strings){0};
}

const char *mt_nsys_strings_find(const struct mt_nsys_strings *strings, int64_t id)
{
    uint64_t place;
    return strings->texts != NULL && mt_number_map_get(&strings->places, (uint64_t)id, &place) ? strings->texts + place
                                                                                               : NULL;
}
