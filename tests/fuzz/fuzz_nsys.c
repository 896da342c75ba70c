/* Fuzzes the reader of Nsight's exports: the bytes are the file. Most inputs end in SQLite; fuzz_nsys_rows begins
 * behind it. */
#include "fuzzed_export.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct fuzzed_export export = fuzzed_export_create();
    if (export.descriptor < 0)
        abort();
    if (write(export.descriptor, data, length) == (ssize_t)length)
        fuzzed_export_tell(&export);
    fuzzed_export_remove(&export);
    return 0;
}
