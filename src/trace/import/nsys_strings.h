/* The texts that rows of an export of Nsight Systems refer to by number, read once: looking each up in the file takes an
 * index, which a damaged or hostile file need not have.
 *
 * Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_NSYS_STRINGS_H
#define MT_TRACE_IMPORT_NSYS_STRINGS_H

#include "base/number_map.h"
#include "trace/store/database.h"

/* Invariant: `places` has where in `texts` the text of each number begins. */
struct mt_nsys_strings {
    char *texts;
    size_t length, capacity;
    struct mt_number_map places;
};

/* Reads the table `name`, which must have the columns id and value. Release it in any case; zeros are one without texts. */
mt_status mt_nsys_strings_read(struct mt_database *database, const char *name, struct mt_nsys_strings *out);
void mt_nsys_strings_release(struct mt_nsys_strings *strings);

/* NULL if there is none. Of equal numbers the last one counts. */
const char *mt_nsys_strings_find(const struct mt_nsys_strings *strings, int64_t id);

#endif
