/* libFuzzer's way into the reader of Nsight's exports: the bytes are a file, which lies in memory. */
#include "base/interner.h"
#include "trace/import/nsys_import.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void tell(const char *path)
{
    struct mt_interner *interner = mt_interner_create();
    const struct mt_sink sink = mt_sink_discarding(interner);
    struct mt_rules *rules = mt_rules_create();
    struct mt_import_report report = {0};
    mt_nsys_tell(path, MT_TORCH_ANY_DEVICE, rules, &sink, &report);
    mt_import_report_release(&report);
    mt_rules_destroy(rules);
    mt_interner_destroy(interner);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    char path[64];
    int descriptor = memfd_create("export", 0);
    if (descriptor < 0 || write(descriptor, data, length) != (ssize_t)length)
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    tell(path);
    close(descriptor);
    return 0;
}
