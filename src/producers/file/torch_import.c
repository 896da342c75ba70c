/* A memory snapshot of PyTorch as a run: labelled by rules or, if memtrace exported it, by its own labels. A trace of
 * torch.profiler is first converted to the rows of a snapshot. */
#include "base/memory.h"
#include "producers/file/import_reader.h"
#include "producers/file/pool_streams.h"
#include "producers/file/torch_labels.h"
#include "producers/file/torch_own.h"
#include "producers/file/torch_profile.h"
#include "producers/file/viz_page.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)MT_TORCH_ACTION_COUNT <= MT_IMPORT_MOST_COUNTS, "a report has a row for each action");

/* A snapshot that is being imported. */
struct torch_state {
    struct mt_document *document;
    struct mt_value_store *frames; /* of a profiler's trace */
    bool is_profile;
    struct mt_torch_snapshot snapshot;
    struct mt_torch_facts facts;
};

/* True if the number of events is a usual value of max_entries: a full recording has exactly that many. */
static bool is_round(uint64_t events)
{
    return events >= 1000 && (events % 1000 == 0 || (events & (events - 1)) == 0);
}

/* True if the recording overwrote events. Newer snapshots say so. In older ones, a block that was live before the first
 * event is not enough evidence: recording may have begun late. */
static bool is_beginning_lost(mt_torch_overflow overflow, uint64_t events, const struct mt_torch_before *before)
{
    if (overflow != MT_TORCH_OVERFLOW_UNSAID)
        return overflow == MT_TORCH_OVERFLOWED;
    return is_round(events) && (before->freed > 0 || before->recorded > 0);
}

static void replay_with(const struct mt_torch_snapshot *snapshot, const struct mt_torch_labeler *labeler,
                        struct mt_foreign *foreign, struct mt_import_report *out)
{
    struct mt_torch_tally tally;
    mt_torch_replay(snapshot, labeler, foreign, &tally);
    out->device = snapshot->device;
    out->elsewhere = snapshot->elsewhere;
    out->elsewhere_bytes = snapshot->elsewhere_bytes;
    out->torch.has_host = snapshot->has_host;
    out->torch.is_paired = snapshot->is_paired;
    out->torch.is_relative = snapshot->is_relative;
    for (int action = 0; action < MT_TORCH_ACTION_COUNT; action++)
        mt_import_count(out,
                        action == MT_TORCH_OTHER ? "of unknown kinds" : mt_torch_action_name((mt_torch_action)action),
                        tally.events[action]);
    assert(out->entries <= snapshot->event_count);
    out->ends_refused = tally.ends_refused;
    out->torch.before = tally.before;
    out->torch.refusal = tally.refusal;
}

static void replay_by_rules(const struct mt_torch_snapshot *snapshot, const struct mt_rules *rules,
                            const struct mt_sink *sink, struct mt_foreign *foreign, struct mt_import_report *out)
{
    struct mt_torch_labels *labels = mt_torch_labels_create(snapshot, rules, sink, foreign);
    const struct mt_torch_labeler labeler = mt_torch_labels_labeler(labels);
    replay_with(snapshot, &labeler, foreign, out);
    mt_torch_labels_end(labels);
    mt_torch_labels_report(labels, out);
    mt_torch_labels_destroy(labels);
    out->torch.lost_beginning = is_beginning_lost(snapshot->settings.overflow, out->entries, &out->torch.before);
    out->is_untimed = snapshot->is_untimed;
    if (snapshot->is_untimed)
        mt_step_times_release(&out->torch.times);
    out->torch.rounds_by_size = !mt_torch_settings_is_uniform(&snapshot->settings);
}

static void replay_own(const struct mt_value *root, const struct mt_torch_snapshot *snapshot, int64_t start_us,
                       const struct mt_sink *sink, struct mt_foreign *foreign, struct mt_import_report *out)
{
    struct mt_torch_own *own = mt_torch_own_create(root, snapshot, start_us, sink, foreign);
    const struct mt_torch_labeler labeler = mt_torch_own_labeler(own);
    replay_with(snapshot, &labeler, foreign, out);
    mt_torch_own_end(own);
    mt_torch_own_destroy(own);
    out->torch.refusal.is_known = false; /* the export computed it, and no driver reported it */
    out->kind = MT_IMPORT_OWN;
}

static mt_status replay(const struct mt_import_input *input, const struct mt_sink *sink, struct mt_import_report *out)
{
    const struct torch_state *state = input->state;
    struct mt_foreign *foreign = mt_foreign_create(sink);
    for (uint32_t i = 0; i < state->snapshot.pools.stream_count; i++)
        mt_foreign_number_stream(foreign, i, (mt_stream)i);
    if (state->facts.is_own)
        replay_own(mt_document_root(state->document), &state->snapshot, state->facts.start_us, sink, foreign, out);
    else
        replay_by_rules(&state->snapshot, input->rules, sink, foreign, out);
    if (state->is_profile) { /* it is no ring that overwrites its beginning, and saw nothing taken before */
        out->torch.lost_beginning = false;
        out->torch.before.recorded = 0;
    }
    out->foreign = mt_foreign_counts(foreign);
    mt_foreign_destroy(foreign);
    return MT_OK;
}

static mt_status read_profile(struct torch_state *state, const struct mt_value *root, int64_t device)
{
    MT_TRY(mt_torch_profile_read(root, device, state->frames, &state->snapshot));
    state->facts = (struct mt_torch_facts){.device = "PyTorch profiler",
                                           .name = "",
                                           .state = "",
                                           .capacity_bytes = mt_torch_profile_capacity(root, state->snapshot.device)};
    return MT_OK;
}

static mt_status read_snapshot(struct torch_state *state, int64_t device)
{
    const struct mt_value *root = mt_document_root(state->document);
    state->is_profile = mt_torch_profile_is_one(root);
    if (state->is_profile)
        return read_profile(state, root, device);
    if (!mt_torch_snapshot_is_one(root))
        return mt_fail(
            MT_BAD_TRACE,
            "its %s is no memory snapshot of PyTorch: that is a dict with \"segments\" and \"device_traces\", as "
            "torch.cuda.memory._dump_snapshot() writes it, or the list of torch.cuda.memory_snapshot()",
            mt_document_format(state->document));
    MT_TRY(mt_document_count(state->document, mt_torch_snapshot_most_bytes(root)));
    MT_TRY(mt_torch_snapshot_read(root, device, &state->snapshot));
    mt_pool_streams_number(&state->snapshot);
    mt_torch_facts_read(root, &state->snapshot.settings, &state->facts);
    for (uint32_t i = 0; i < state->snapshot.pools.stream_count; i++)
        if (state->snapshot.pools.streams[i].pool != 0)
            mt_torch_facts_add(&state->facts, state->snapshot.pools.streams[i].name,
                               state->snapshot.pools.streams[i].words);
    return MT_OK;
}

/* Returns the time at which the run began, from memtrace's own field or the first event; 0 for clocks that do not count
 * from 1970. */
static uint64_t start_of(const struct torch_state *state)
{
    const int64_t year_2000_us = INT64_C(946684800) * 1000000;
    if (state->facts.is_own)
        return state->facts.start_us > 0 ? (uint64_t)state->facts.start_us : 0;
    int64_t first_us = state->snapshot.event_count > 0 ? state->snapshot.events[0].time_us : 0;
    return first_us >= year_2000_us ? (uint64_t)first_us : 0;
}

static void fill_source(const struct torch_state *state, struct mt_import_source *source)
{
    bool is_pickle = strcmp(mt_document_format(state->document), "pickle") == 0;
    source->title = state->is_profile ? "PyTorch profiler trace (JSON)"
                    : is_pickle       ? "PyTorch memory snapshot (pickle)"
                                      : "PyTorch memory snapshot (JSON)";
    source->format = state->is_profile ? "PyTorch profiler" : mt_document_format(state->document);
    source->device = state->facts.device;
    source->name = state->facts.name;
    source->state = state->facts.state;
    source->start_us = start_of(state);
    source->capacity_bytes = state->facts.capacity_bytes;
    source->settings = state->facts.settings;
    source->setting_count = state->facts.setting_count;
}

/* The document has copies, so the bytes are released before the replay allocates memory. */
static mt_status read(struct mt_import_input *input, struct mt_import_source *source)
{
    struct torch_state *state = mt_host_alloc(sizeof *state);
    const struct mt_value_limits limits = mt_whole_file_limits(&input->file);
    input->state = state;
    state->frames = mt_value_store_create(&limits);
    mt_status status = mt_viz_page_is_one(&input->file) ? mt_viz_page_unwrap(&input->file) : MT_OK;
    MT_THEN(status, mt_document_read(&input->file, &state->document));
    mt_whole_file_release(&input->file);
    MT_THEN(status, read_snapshot(state, input->plan->device));
    if (status == MT_OK)
        fill_source(state, source);
    return status;
}

static void release(struct mt_import_input *input)
{
    struct torch_state *state = input->state;
    mt_torch_facts_release(&state->facts);
    mt_torch_snapshot_release(&state->snapshot);
    mt_value_store_destroy(state->frames);
    mt_document_close(state->document);
    free(state);
    input->state = NULL;
}

static bool recognizes(const struct mt_import_input *input)
{
    return !input->is_database && (mt_document_is_one(&input->file) || mt_viz_page_is_one(&input->file));
}

const struct mt_import_reader mt_torch_reader = {
    .kind = MT_IMPORT_TORCH, .recognizes = recognizes, .read = read, .replay = replay, .release = release};
