/* NCCL's log of memory events, as Meta's build of NCCL writes it, as a run: its allocations, each a segment of its own.
 * The log has no times, so each event counts as one microsecond. */
#include "base/memory.h"
#include "producers/file/import_reader.h"
#include "producers/file/nccl_log.h"
#include "producers/file/plain_labels.h"

#include <assert.h>
#include <stdlib.h>

static mt_status read(struct mt_import_input *input, struct mt_import_source *source)
{
    struct mt_nccl_log *log = mt_host_alloc(sizeof *log);
    (void)source;
    input->state = log;
    return mt_nccl_log_read(&input->file, log);
}

static void release(struct mt_import_input *input)
{
    mt_nccl_log_release(input->state);
    free(input->state);
    input->state = NULL;
}

static void take(const struct mt_nccl_entry *entry, uint64_t time_ns, struct mt_plain_labels *labels,
                 struct mt_foreign *foreign)
{
    struct mt_foreign_block block = {.address = entry->address, .requested_bytes = entry->bytes};
    mt_plain_labels_give(labels, entry->use, entry->callsite[0] != '\0' ? entry->callsite : entry->communicator,
                         &block);
    mt_plain_labels_count(labels, &block);
    mt_foreign_take(foreign, time_ns, &block);
}

static void replay_entries(const struct mt_nccl_log *log, struct mt_plain_labels *labels, struct mt_foreign *foreign,
                           uint64_t *counts)
{
    for (size_t i = 0; i < log->count; i++) {
        const struct mt_nccl_entry *entry = &log->entries[i];
        const uint64_t time_ns = (uint64_t)i * 1000;
        counts[entry->action]++;
        if (entry->action == MT_NCCL_ALLOC)
            take(entry, time_ns, labels, foreign);
        else if (entry->action == MT_NCCL_FREE)
            mt_foreign_give(foreign, time_ns, entry->address);
    }
}

static mt_status replay(const struct mt_import_input *input, const struct mt_sink *sink, struct mt_import_report *out)
{
    static const char *const names[MT_NCCL_ACTION_COUNT] = {"alloc", "free", "of the host's memory", "registration"};
    const struct mt_nccl_log *log = input->state;
    uint64_t counts[MT_NCCL_ACTION_COUNT] = {0};
    struct mt_foreign *foreign = mt_foreign_create(sink);
    struct mt_plain_labels *labels = mt_plain_labels_create(input->rules, sink);
    replay_entries(log, labels, foreign, counts);
    for (int action = 0; action < MT_NCCL_ACTION_COUNT; action++)
        mt_import_count(out, names[action], counts[action]);
    assert(out->entries == log->count);
    out->device = MT_IMPORT_ANY_DEVICE;
    out->is_cut = log->is_cut;
    out->is_untimed = true;
    out->foreign = mt_foreign_counts(foreign);
    out->coverage = mt_plain_labels_coverage(labels);
    mt_plain_labels_destroy(labels);
    mt_foreign_destroy(foreign);
    return MT_OK;
}

static bool recognizes(const struct mt_import_input *input)
{
    return !input->is_database && mt_nccl_log_is_one(&input->file);
}

const struct mt_import_reader mt_nccl_reader = {
    .kind = MT_IMPORT_NCCL,
    .source = {.title = "NCCL memory log (JSON lines)", .format = "NCCL memory log", .device = "NCCL memory log"},
    .recognizes = recognizes,
    .read = read,
    .replay = replay,
    .release = release,
};
