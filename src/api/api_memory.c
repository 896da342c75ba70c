/* Blocks of the run's allocator, identified by their addresses. */
#include "api/run_parts.h"

#include <inttypes.h>

static mt_status fail_unknown(uint64_t address)
{
    return mt_fail(MT_USAGE, "no live block begins at 0x%" PRIx64 ": it was freed, or was never allocated here",
                   address);
}

memtrace_status memtrace_take(memtrace_run *run, uint64_t bytes, uint16_t stream, const memtrace_label *label,
                              uint64_t *out_address)
{
    struct mt_api_purpose purpose;
    MT_API_TRY(mt_api_check_device(run));
    MT_API_TRY(mt_api_label(run, label, &purpose));
    const struct mt_alloc_request request = {
        .bytes = bytes, .stream = stream, .label = purpose.label, .span = purpose.span, .stack = purpose.stack};
    return mt_api_status(mt_live_run_take(run->live, &request, out_address));
}

memtrace_status memtrace_give(memtrace_run *run, uint64_t address)
{
    if (address == 0)
        return MEMTRACE_OK;
    MT_API_TRY(mt_api_check_device(run));
    return mt_api_status(mt_live_run_give(run->live, address) ? MT_OK : fail_unknown(address));
}

memtrace_status memtrace_relabel(memtrace_run *run, uint64_t address, const memtrace_label *label)
{
    struct mt_api_purpose purpose;
    MT_API_TRY(mt_api_check_device(run));
    MT_API_TRY(mt_api_label(run, label, &purpose));
    bool is_known = mt_live_run_relabel(run->live, address, purpose.label, purpose.span);
    return mt_api_status(is_known ? MT_OK : fail_unknown(address));
}

memtrace_status memtrace_use_on(memtrace_run *run, uint64_t address, uint16_t stream)
{
    MT_API_TRY(mt_api_check_device(run));
    return mt_api_status(mt_live_run_use_on(run->live, address, stream) ? MT_OK : fail_unknown(address));
}

memtrace_status memtrace_find(memtrace_run *run, uint64_t address, memtrace_block *out_block)
{
    struct mt_block_view view;
    MT_API_TRY(mt_api_check_device(run));
    if (!mt_alloc_find(run->alloc, address, &view))
        return mt_api_status(mt_fail(MT_USAGE, "no live block holds 0x%" PRIx64, address));
    const memtrace_block known = {.address = view.address,
                                  .requested_bytes = view.requested_bytes,
                                  .allocated_bytes = view.allocated_bytes,
                                  .stream = view.stream};
    return mt_api_status(mt_api_copy_out("memtrace_block", &known, sizeof known, out_block));
}

void *memtrace_stream_handle(memtrace_run *run, uint16_t stream)
{
    return run->device != NULL ? mt_device_stream_handle(run->device, stream) : NULL;
}

void *memtrace_pointer(uint64_t address)
{
    return (void *)(uintptr_t)address;
}

memtrace_status memtrace_release_cached(memtrace_run *run)
{
    MT_API_TRY(mt_api_check_device(run));
    mt_alloc_release_cached(run->alloc);
    return MEMTRACE_OK;
}
