/* libFuzzer's way into what reads other programs' snapshots: bytes as a pickle or as JSON, and what they say as events. */
#include "base/interner.h"
#include "trace/import/json_reader.h"
#include "trace/import/pickle.h"
#include "trace/import/torch_replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void give_label(void *context, const struct mt_torch_request *request, mt_label_id *out_label,
                       mt_span_id *out_span)
{
    (void)request;
    *out_label = *(const mt_label_id *)context;
    *out_span = 0;
}

static void replay(const struct mt_torch_snapshot *snapshot)
{
    struct mt_interner *interner = mt_interner_create();
    const struct mt_sink sink = mt_sink_discarding(interner);
    const struct mt_label label = {.op = "alloc", .layer = -1};
    mt_label_id id = sink.intern_label(sink.context, &label);
    const struct mt_torch_reader reader = {.context = &id, .label = give_label};
    struct mt_foreign *foreign = mt_foreign_create(&sink);
    struct mt_torch_tally tally;
    mt_torch_replay(snapshot, &reader, foreign, &tally);
    mt_foreign_destroy(foreign);
    mt_interner_destroy(interner);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    const struct mt_value_limits limits = mt_value_limits_of(length);
    struct mt_value_store *store = mt_value_store_create(&limits);
    struct mt_torch_snapshot snapshot = {0};
    struct mt_value root;
    bool is_json = mt_json_is_one(data, length);
    mt_status status = is_json ? mt_json_read(data, length, store, &root) : mt_pickle_read(data, length, store, &root);
    if (status == MT_OK && mt_torch_snapshot_read(&root, MT_TORCH_ANY_DEVICE, &snapshot) == MT_OK)
        replay(&snapshot);
    mt_torch_snapshot_release(&snapshot);
    mt_value_store_destroy(store);
    return 0;
}
