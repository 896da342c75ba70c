/* Fuzzes the readers of snapshots: the bytes are a pickle or JSON, and its values become events. */
#include "base/interner.h"
#include "producers/file/import.h"
#include "producers/file/json_reader.h"
#include "producers/file/pickle.h"
#include "producers/file/torch_labels.h"
#include "producers/file/torch_own.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

/* Replays by rules, and as a snapshot of our own, whatever it is. */
static void replay(const struct mt_value *root, const struct mt_torch_snapshot *snapshot, const struct mt_rules *rules)
{
    struct mt_interner *interner = mt_interner_create();
    const struct mt_sink sink = mt_sink_discarding(interner);
    struct mt_foreign *foreign = mt_foreign_create(&sink), *own_foreign = mt_foreign_create(&sink);
    struct mt_torch_labels *labels = mt_torch_labels_create(snapshot, rules, &sink, foreign);
    struct mt_torch_own *own = mt_torch_own_create(root, snapshot, 0, &sink, own_foreign);
    const struct mt_torch_labeler reader = mt_torch_labels_labeler(labels), own_reader = mt_torch_own_labeler(own);
    struct mt_torch_tally tally;
    struct mt_import_report report = {0};
    mt_torch_replay(snapshot, &reader, foreign, &tally);
    mt_torch_labels_end(labels);
    mt_torch_labels_report(labels, &report);
    mt_import_report_release(&report);
    mt_torch_replay(snapshot, &own_reader, own_foreign, &tally);
    mt_torch_own_end(own);
    mt_torch_own_destroy(own);
    mt_torch_labels_destroy(labels);
    mt_foreign_destroy(own_foreign);
    mt_foreign_destroy(foreign);
    mt_interner_destroy(interner);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    const struct mt_value_limits limits = mt_value_limits_of(length, UINT64_MAX);
    struct mt_value_store *store = mt_value_store_create(&limits);
    struct mt_torch_snapshot snapshot = {0};
    struct mt_value root;
    bool is_json = mt_json_is_one(data, length);
    mt_status status = is_json ? mt_json_read(data, length, store, &root) : mt_pickle_read(data, length, store, &root);
    if (status == MT_OK && mt_torch_snapshot_read(&root, MT_IMPORT_ANY_DEVICE, &snapshot) == MT_OK) {
        struct mt_rules *rules = mt_rules_create();
        struct mt_torch_facts facts;
        mt_torch_facts_read(&root, &snapshot.settings, &facts);
        mt_torch_facts_release(&facts);
        if (mt_rules_add(rules, "fuzzer", "annotation=*a*|b metadata=*c* -> op=said") == MT_OK &&
            mt_rules_add_built_in(rules) == MT_OK)
            replay(&root, &snapshot, rules);
        mt_rules_destroy(rules);
    }
    mt_torch_snapshot_release(&snapshot);
    mt_value_store_destroy(store);
    return 0;
}
