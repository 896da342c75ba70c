/* Opens a run part by part, and closes it in reverse order. */
#include "api/run_parts.h"

#include "base/memory.h"
#include "base/text.h"

#include <assert.h>
#include <stdlib.h>

#define DEFAULT_TRACE "memtrace.db"
#define DEFAULT_NOTED_DEVICE "noted"
#define ALLOC_SETTING "alloc"

static mt_status open_device(struct memtrace_run *run, const memtrace_run_options *options)
{
    return options->device != NULL ? mt_device_open(options->device, &run->device) : MT_OK;
}

static size_t count_settings(const char *const *pairs)
{
    size_t count = 0;
    while (pairs != NULL && pairs[2 * count] != NULL && pairs[2 * count + 1] != NULL)
        count++;
    return count;
}

/* Returns the caller's settings, followed by the allocator's, if any. For equal names, the last one counts. Borrows the
 * texts; the caller frees the array. */
static struct mt_run_setting *make_settings(const memtrace_run_options *options, const char *alloc, size_t *out_count)
{
    size_t given = count_settings(options->settings), count = 0;
    struct mt_run_setting *settings = mt_host_alloc((given + 1) * sizeof *settings);
    for (size_t i = 0; i < given; i++)
        settings[count++] = (struct mt_run_setting){options->settings[2 * i], options->settings[2 * i + 1]};
    if (alloc != NULL)
        settings[count++] = (struct mt_run_setting){ALLOC_SETTING, alloc};
    *out_count = count;
    return settings;
}

static const char *noted_device(const memtrace_run_options *options)
{
    return options->noted_device != NULL ? options->noted_device : DEFAULT_NOTED_DEVICE;
}

static uint64_t noted_capacity(const memtrace_run_options *options)
{
    return options->noted_capacity_bytes <= INT64_MAX ? options->noted_capacity_bytes : 0;
}

/* True if the ranks of a job are valid: 0 <= rank < world_size, and the same for the local rank if it is known. Hosts
 * may number their processes in any order, so the local rank may be the larger one. */
static bool has_valid_ranks(const memtrace_run_options *options)
{
    const int32_t size = options->world_size, rank = options->rank, local = options->local_rank;
    return size >= 0 && (size == 0 || (rank >= 0 && rank < size && local >= -1 && local < size));
}

static mt_status open_live(struct memtrace_run *run, const memtrace_run_options *options,
                           const struct mt_alloc_settings *alloc)
{
    struct mt_text alloc_text = {0};
    mt_alloc_settings_format(alloc, &alloc_text);
    const struct mt_run_rank rank = {options->rank, options->local_rank, options->world_size};
    struct mt_live_settings live = {.trace = options->trace != NULL ? options->trace : DEFAULT_TRACE,
                                    .info = {.name = options->name,
                                             .rank = options->world_size > 0 ? &rank : NULL,
                                             .job = options->job,
                                             .device = noted_device(options),
                                             .capacity_bytes = noted_capacity(options)},
                                    .device = run->device,
                                    .alloc = alloc,
                                    .has_notes = true,
                                    .access = MT_LIVE_ANY_THREAD};
    struct mt_run_setting *settings =
        make_settings(options, run->device != NULL ? mt_text_get(&alloc_text) : NULL, &live.info.setting_count);
    live.info.settings = settings;
    mt_status status = mt_live_run_open(&live, &run->live);
    if (status == MT_OK)
        run->alloc = mt_live_run_alloc(run->live);
    free(settings);
    mt_text_release(&alloc_text);
    return status;
}

/* Releases a run, which may be partly opened. */
static mt_status release_run(struct memtrace_run *run, mt_run_state state)
{
    mt_thread_spans_destroy(run->spans);
    mt_status status = mt_live_run_close(run->live, state);
    if (run->device != NULL)
        mt_device_close(run->device);
    free(run->layers);
    free(run);
    return status;
}

static mt_status open_parts(struct memtrace_run *run, const memtrace_run_options *options)
{
    struct mt_alloc_settings alloc;
    if (!has_valid_ranks(options))
        return mt_fail(MT_USAGE, "rank %d, %d on its host, of a world of %d processes is none", options->rank,
                       options->local_rank, options->world_size);
    MT_TRY(mt_alloc_settings_parse(options->alloc != NULL ? options->alloc : "", &alloc));
    MT_TRY(open_device(run, options));
    MT_TRY(open_live(run, options, &alloc));
    assert((run->alloc != NULL) == (options->device != NULL));
    return mt_api_spans_create(run);
}

memtrace_status memtrace_run_open(const memtrace_run_options *options, memtrace_run **out_run)
{
    memtrace_run_options known;
    MT_API_TRY(mt_api_copy_in("memtrace_run_options", options, &known, sizeof known));
    mt_host_keep_reserve(MT_HOST_RESERVE_BYTES);
    struct memtrace_run *run = mt_host_alloc(sizeof *run);
    mt_lock_create(&run->layers_lock, MT_RANK_LEAF);
    mt_status status = open_parts(run, &known);
    if (status == MT_OK)
        *out_run = run;
    else
        release_run(run, MT_RUN_FAILED);
    return mt_api_status(status);
}

static mt_run_state state_of(memtrace_outcome outcome)
{
    switch (outcome) {
    case MEMTRACE_RUN_DONE:
        return MT_RUN_DONE;
    case MEMTRACE_RUN_OUT_OF_MEMORY:
        return MT_RUN_OOM;
    case MEMTRACE_RUN_FAILED:
        break;
    }
    return MT_RUN_FAILED;
}

memtrace_status memtrace_run_close(memtrace_run *run, memtrace_outcome outcome)
{
    if (run == NULL)
        return MEMTRACE_OK;
    return mt_api_status(release_run(run, state_of(outcome)));
}

int64_t memtrace_run_number(const memtrace_run *run)
{
    return mt_live_run_number(run->live);
}
