/* The bytes of a file, all at once, and what they were before gzip packed them. */
#ifndef MT_TRACE_IMPORT_WHOLE_FILE_H
#define MT_TRACE_IMPORT_WHOLE_FILE_H

#include "base/status.h"

#include <stddef.h>

struct mt_whole_file {
    unsigned char *data;
    size_t length;
};

/* Reads the file to its end; gzip is undone, also of several files packed one after another. MT_FAILED if it can't be read
 * or there is no memory for it; MT_BAD_TRACE if gzip's data are damaged, cut off, or grow to hundreds of times their size,
 * as nothing does that is worth reading. Release in any case. */
mt_status mt_whole_file_read(const char *path, struct mt_whole_file *out);
void mt_whole_file_release(struct mt_whole_file *file);

#endif
