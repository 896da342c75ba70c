/* Opens and closes a run, and stores its metadata. */
#include "base/interner.h"
#include "base/memory.h"
#include "run/live_parts.h"

#include <assert.h>
#include <stdlib.h>

/* ---- opening and closing ---- */

/* Opens a recorder, or begins another run with one that is kept open. */
static mt_status open_recorder(const struct mt_live_settings *settings, const struct mt_run_info *info,
                               struct mt_recorder **out)
{
    if (settings->kept != NULL && *settings->kept != NULL) {
        MT_TRY(mt_recorder_begin(*settings->kept, info));
        *out = *settings->kept;
        return MT_OK;
    }
    MT_TRY(mt_recorder_open(settings->trace, info, out));
    if (settings->kept != NULL)
        *settings->kept = *out;
    return MT_OK;
}

static mt_status open_trace(struct mt_live_run *run, const struct mt_live_settings *settings)
{
    struct mt_run_info info = settings->info;
    if (run->device != NULL) {
        info.device = run->device->name;
        info.capacity_bytes = run->device->capacity_bytes;
    }
    run->capacity_bytes = info.capacity_bytes;
    run->is_kept = settings->kept != NULL;
    if (settings->trace == NULL)
        return MT_OK;
    MT_TRY(open_recorder(settings, &info, &run->recorder));
    run->number = mt_recorder_run(run->recorder);
    return MT_OK;
}

static void create_sink(struct mt_live_run *run, const struct mt_live_settings *settings)
{
    const bool has_both = run->device != NULL && settings->has_notes;
    const struct mt_sink *target = run->recorder != NULL ? mt_recorder_sink(run->recorder) : NULL;
    mt_locked_sink_create(&run->locked, target, has_both ? 2 : 1);
    assert(!has_both || settings->access == MT_LIVE_ANY_THREAD);
    run->sink = settings->access == MT_LIVE_ONE_THREAD
                    ? run->locked.target
                    : run->locked.sources[has_both ? MT_LIVE_NOTES : MT_LIVE_ALLOCATOR].sink;
}

static mt_status create_alloc(struct mt_live_run *run, const struct mt_live_settings *settings)
{
    const struct mt_sink *sink = settings->has_notes ? &run->locked.sources[MT_LIVE_ALLOCATOR].sink : &run->sink;
    return run->device != NULL ? mt_alloc_create(run->device, sink, settings->alloc, &run->alloc) : MT_OK;
}

mt_status mt_live_run_open(const struct mt_live_settings *settings, struct mt_live_run **out)
{
    struct mt_live_run *run = mt_host_alloc(sizeof *run);
    mt_lock_create(&run->blocks_lock, MT_RANK_BLOCKS);
    mt_lock_create(&run->notes_lock, MT_RANK_NOTES);
    mt_lock_create(&run->held_lock, MT_RANK_HELD);
    run->device = settings->device;
    if (settings->alloc != NULL)
        run->settings = *settings->alloc;
    mt_number_map_create(&run->blocks);
    mt_number_map_create(&run->uses);
    *out = NULL;
    mt_status status = open_trace(run, settings);
    create_sink(run, settings);
    if (settings->has_notes)
        run->foreign = mt_foreign_create(&run->sink);
    MT_THEN(status, create_alloc(run, settings));
    if (status == MT_OK) {
        *out = run;
        return MT_OK;
    }
    const struct mt_error error = mt_error_save(status);
    return mt_error_restore(&error, mt_live_run_close(run, MT_RUN_FAILED));
}

mt_status mt_live_run_end_trace(struct mt_live_run *run, mt_run_state state)
{
    mt_live_run_store_uses(run);
    mt_live_run_store_bounds(run);
    mt_locked_sink_end(&run->locked);
    struct mt_recorder *recorder = run->recorder;
    run->recorder = NULL;
    if (run->is_kept)
        return recorder != NULL ? mt_recorder_end(recorder, state) : MT_OK;
    return mt_recorder_close(recorder, state);
}

mt_status mt_live_run_close(struct mt_live_run *run, mt_run_state state)
{
    if (run == NULL)
        return MT_OK;
    mt_live_run_store_uses(run);
    mt_alloc_destroy(run->alloc);
    mt_foreign_destroy(run->foreign);
    mt_status status = mt_live_run_end_trace(run, state);
    mt_locked_sink_release(&run->locked);
    mt_number_map_release(&run->blocks);
    mt_number_map_release(&run->uses);
    mt_live_bounds_destroy(run->bounds);
    free(run->ranges);
    free(run);
    return status;
}

mt_run_state mt_live_run_state(mt_status status)
{
    if (status == MT_OUT_OF_MEMORY)
        return MT_RUN_OOM;
    return status == MT_OK ? MT_RUN_DONE : MT_RUN_FAILED;
}

void mt_live_run_disown(struct mt_live_run *run)
{
    if (run->recorder != NULL)
        mt_recorder_disown(run->recorder);
}

/* ---- parts ---- */

const struct mt_sink *mt_live_run_sink(struct mt_live_run *run)
{
    return &run->sink;
}

const struct mt_interner *mt_live_run_interner(const struct mt_live_run *run)
{
    return run->recorder != NULL ? mt_recorder_interner(run->recorder) : run->locked.names;
}

struct mt_alloc *mt_live_run_alloc(const struct mt_live_run *run)
{
    return run->alloc;
}

struct mt_device *mt_live_run_device(const struct mt_live_run *run)
{
    return run->device;
}

int64_t mt_live_run_number(const struct mt_live_run *run)
{
    return run->number;
}

bool mt_live_run_is_traced(const struct mt_live_run *run)
{
    return atomic_load_explicit(&run->locked.is_open, memory_order_relaxed);
}

uint64_t mt_live_run_now_ns(const struct mt_live_run *run)
{
    return mt_locked_sink_now_ns(&run->locked);
}

/* ---- metadata of the run ---- */

/* Locks, and returns the recorder; NULL if the trace has ended. */
static struct mt_recorder *enter(struct mt_live_run *run)
{
    (void)mt_locked_sink_enter(&run->locked);
    return mt_live_run_is_traced(run) ? run->recorder : NULL;
}

void mt_live_run_measure(struct mt_live_run *run, const char *name, int64_t step, double value)
{
    struct mt_recorder *recorder = enter(run);
    if (recorder != NULL)
        mt_recorder_measure(recorder, name, step, value);
    mt_locked_sink_leave(&run->locked);
}

void mt_live_run_caveat(struct mt_live_run *run, const struct mt_caveat *caveat)
{
    struct mt_recorder *recorder = enter(run);
    if (recorder != NULL)
        mt_recorder_caveat(recorder, caveat);
    mt_locked_sink_leave(&run->locked);
}

void mt_live_run_set(struct mt_live_run *run, const char *name, const char *value)
{
    struct mt_recorder *recorder = enter(run);
    if (recorder != NULL)
        mt_recorder_set(recorder, &(struct mt_run_setting){.name = name, .value = value});
    mt_locked_sink_leave(&run->locked);
}

void mt_live_run_program_phase(struct mt_live_run *run, mt_program_phase phase)
{
    struct mt_recorder *recorder = enter(run);
    if (recorder != NULL)
        mt_recorder_program_phase(recorder, phase);
    mt_locked_sink_leave(&run->locked);
}

void mt_live_run_holder(struct mt_live_run *run, const struct mt_holder *holder)
{
    struct mt_recorder *recorder = enter(run);
    if (recorder != NULL)
        mt_recorder_holder(recorder, holder);
    mt_locked_sink_leave(&run->locked);
}

void mt_live_run_ended_by(struct mt_live_run *run, mt_ended_by reason)
{
    struct mt_recorder *recorder = enter(run);
    if (recorder != NULL)
        mt_recorder_ended_by(recorder, reason);
    mt_locked_sink_leave(&run->locked);
}
