/* What a snapshot says of its run beside its events: the settings of PyTorch's allocator; or, of a snapshot that memtrace
 * export made, all settings that the run had, what it was called and how it stood.
 *
 * Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_TORCH_FACTS_H
#define MT_TRACE_IMPORT_TORCH_FACTS_H

#include "trace/import/torch_snapshot.h"
#include "trace/store/recorder.h"

/* Texts are the snapshot's, but `alloc`. Invariant: there is room for setting_count settings. */
struct mt_torch_facts {
    const char *device;
    const char *name, *state; /* as of a run of ours; "": not said */
    uint64_t capacity_bytes;  /* 0: not said */
    struct mt_run_setting *settings;
    size_t setting_count;
    char *alloc; /* the value of a setting; NULL: none */
};

/* Reads them. Release it before the snapshot's values. */
void mt_torch_facts_read(const struct mt_value *root, const struct mt_torch_snapshot *snapshot,
                         struct mt_torch_facts *out);
void mt_torch_facts_release(struct mt_torch_facts *facts);

#endif
