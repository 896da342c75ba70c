/* A file of a fuzzer for the reader of Nsight's exports. It has a name, since SQLite cannot follow the links in
 * /proc/self/fd. It is in a memory file system if there is one, since each input gets a file. */
#pragma once

#include "base/interner.h"
#include "producers/file/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct fuzzed_export {
    char path[64];
    int descriptor; /* -1: there is no such file */
};

/* Makes an empty file. */
static inline struct fuzzed_export fuzzed_export_create(void)
{
    struct fuzzed_export export;
    const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(export.path, sizeof export.path, "%s/memtrace-fuzz-XXXXXX", folder);
    export.descriptor = mkstemp(export.path);
    return export;
}

/* Removes the file, and the files that SQLite creates next to one with a write-ahead log. */
static inline void fuzzed_export_remove(const struct fuzzed_export *export)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    close(export->descriptor);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char path[sizeof export->path + 8];
        snprintf(path, sizeof path, "%s%s", export->path, ends[i]);
        unlink(path);
    }
}

/* Replays the file like an import. */
static inline void fuzzed_export_tell(const struct fuzzed_export *export)
{
    struct mt_interner *interner = mt_interner_create();
    const struct mt_sink sink = mt_sink_discarding(interner);
    struct mt_rules *rules = mt_rules_create();
    struct mt_import_report report = {0};
    const struct mt_import_plan plan = {.file = export->path, .device = MT_IMPORT_ANY_DEVICE};
    const struct mt_import_input input = {.plan = &plan, .rules = rules, .is_database = true};
    mt_nsys_reader.replay(&input, &sink, &report);
    mt_import_report_release(&report);
    mt_rules_destroy(rules);
    mt_interner_destroy(interner);
}
