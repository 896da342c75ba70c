/* Notes of memory that the program allocates elsewhere. */
#include "api/run_parts.h"

#include <assert.h>
#include <inttypes.h>

static mt_status describe(struct memtrace_run *run, uint64_t address, uint64_t bytes, uint64_t stream,
                          const memtrace_label *label, struct mt_foreign_block *out)
{
    struct mt_api_purpose purpose;
    MT_TRY(mt_api_label(run, label, &purpose));
    *out = (struct mt_foreign_block){.address = address,
                                     .requested_bytes = bytes,
                                     .block_bytes = bytes,
                                     .stream = stream,
                                     .label = purpose.label,
                                     .span = purpose.span,
                                     .stack = purpose.stack};
    return MT_OK;
}

memtrace_status memtrace_note_take(memtrace_run *run, uint64_t address, uint64_t bytes, uint64_t stream,
                                   const memtrace_label *label)
{
    struct mt_foreign_block block;
    MT_API_TRY(describe(run, address, bytes, stream, label, &block));
    mt_live_note_take(run->live, &block);
    return MEMTRACE_OK;
}

void memtrace_note_give(memtrace_run *run, uint64_t address)
{
    mt_live_note_give(run->live, address);
}

memtrace_status memtrace_note_relabel(memtrace_run *run, uint64_t address, const memtrace_label *label)
{
    struct mt_api_purpose purpose;
    MT_API_TRY(mt_api_label(run, label, &purpose));
    (void)mt_live_note_relabel(run->live, address, purpose.label, purpose.span);
    return MEMTRACE_OK;
}

memtrace_status memtrace_note_refusal(memtrace_run *run, uint64_t bytes, uint64_t stream, const memtrace_label *label)
{
    struct mt_foreign_block request;
    MT_API_TRY(describe(run, 0, bytes, stream, label, &request));
    mt_live_note_refusal(run->live, &request);
    return MEMTRACE_OK;
}

void memtrace_note_map(memtrace_run *run, uint64_t address, uint64_t bytes, uint64_t stream)
{
    mt_live_note_map(run->live, address, bytes, stream);
}

void memtrace_note_unmap(memtrace_run *run, uint64_t address, uint64_t bytes)
{
    mt_live_note_unmap(run->live, address, bytes);
}

static_assert((int)MEMTRACE_CONTEXT == (int)MT_OUTSIDE_CONTEXT && (int)MEMTRACE_LIBRARY == (int)MT_OUTSIDE_LIBRARY &&
                  (int)MEMTRACE_NCCL == (int)MT_OUTSIDE_NCCL && (int)MEMTRACE_OUTSIDE == (int)MT_OUTSIDE_OTHER,
              "the numbers are the same");

memtrace_status memtrace_note_outside(memtrace_run *run, memtrace_outside kind, const char *name, uint64_t bytes)
{
    if ((size_t)kind >= MT_OUTSIDE_KIND_COUNT)
        return mt_api_status(
            mt_fail(MT_USAGE, "memory outside of kind %d; there are 0 to %d", (int)kind, MT_OUTSIDE_KIND_COUNT - 1));
    if (bytes > INT64_MAX)
        return mt_api_status(
            mt_fail(MT_USAGE, "%" PRIu64 " bytes outside; at most %" PRId64 " can be noted", bytes, INT64_MAX));
    mt_live_run_outside(
        run->live,
        &(struct mt_outside){.kind = (mt_outside_kind)kind, .name = name != NULL ? name : "", .bytes = bytes});
    return MEMTRACE_OK;
}

memtrace_status memtrace_run_note_counts(memtrace_run *run, memtrace_note_counts *out_counts)
{
    const struct mt_foreign_counts counts = mt_live_note_counts(run->live);
    memtrace_note_counts known = {.takes = counts.takes,
                                  .gives = counts.gives,
                                  .maps = counts.maps,
                                  .unmaps = counts.unmaps,
                                  .unseen_gives = counts.unseen_gives,
                                  .lost_gives = counts.lost_gives,
                                  .unmapped_gives = counts.unmapped_gives,
                                  .ignored = counts.refused,
                                  .unseen_relabels = counts.unseen_relabels};
    return mt_api_status(mt_api_copy_out("memtrace_note_counts", &known, sizeof known, out_counts));
}
