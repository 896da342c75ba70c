#include "producers/file/import_reader.h"

#include <assert.h>
#include <inttypes.h>

void mt_import_coverage_add(struct mt_import_coverage *coverage, uint64_t bytes, mt_category category)
{
    bool is_other = category == MT_CATEGORY_OTHER;
    coverage->all_bytes += bytes;
    coverage->all_blocks++;
    coverage->other_bytes += is_other ? bytes : 0;
    coverage->other_blocks += is_other;
    assert(coverage->other_bytes <= coverage->all_bytes && coverage->other_blocks <= coverage->all_blocks);
}

void mt_import_count(struct mt_import_report *report, const char *what, uint64_t count)
{
    assert(report->count_count < MT_IMPORT_MOST_COUNTS);
    report->counts[report->count_count++] = (struct mt_import_count){what, count};
    report->entries += count;
}

mt_status mt_import_sizes_add(struct mt_import_sizes *sizes, uint64_t bytes)
{
    assert(sizes->sum <= MT_IMPORT_MOST_SUM);
    if (bytes > MT_IMPORT_MOST_BYTES)
        return mt_fail(MT_BAD_TRACE, "a size of %" PRIu64 " bytes is above the limit of %" PRIu64, bytes,
                       MT_IMPORT_MOST_BYTES);
    if (bytes > MT_IMPORT_MOST_SUM - sizes->sum)
        return mt_fail(MT_BAD_TRACE, "with %" PRIu64 " more bytes, the sum of all sizes is above the limit of %" PRIu64,
                       bytes, MT_IMPORT_MOST_SUM);
    sizes->sum += bytes;
    return MT_OK;
}
