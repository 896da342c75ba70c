#include "trace/import/import_sizes.h"

#include <inttypes.h>

mt_status mt_import_sizes_add(struct mt_import_sizes *sizes, uint64_t bytes)
{
    if (bytes > MT_IMPORT_MOST_BYTES)
        return mt_fail(MT_BAD_TRACE, "a size of %" PRIu64 " bytes is beyond the most that is read, %" PRIu64, bytes,
                       MT_IMPORT_MOST_BYTES);
    if (bytes > MT_IMPORT_MOST_SUM - sizes->sum)
        return mt_fail(MT_BAD_TRACE,
                       "with %" PRIu64 " more bytes, all sizes sum to over the most that is read, %" PRIu64, bytes,
                       MT_IMPORT_MOST_SUM);
    sizes->sum += bytes;
    return MT_OK;
}
