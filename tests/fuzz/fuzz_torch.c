/* Fuzzes the reader of PyTorch's files as the program calls it: traces of torch.profiler, and the forms of
 * snapshots. */
#include "base/interner.h"
#include "base/memory.h"
#include "producers/file/import.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

/* Reads the bytes, which the reader releases, as one device's memory. */
static void import(const uint8_t *data, size_t length, int64_t device)
{
    const struct mt_import_plan plan = {.device = device};
    struct mt_interner *interner = mt_interner_create();
    const struct mt_sink sink = mt_sink_discarding(interner);
    struct mt_rules *rules = mt_rules_create();
    struct mt_import_report report = {0};
    struct mt_import_source source = {0};
    struct mt_import_input input = {
        .plan = &plan, .rules = rules, .file = {.data = mt_host_alloc(length + 1), .length = length}};
    memcpy(input.file.data, data, length);
    if (mt_torch_reader.recognizes(&input) && mt_rules_add_built_in(rules) == MT_OK) {
        if (mt_torch_reader.read(&input, &source) == MT_OK)
            mt_torch_reader.replay(&input, &sink, &report);
        mt_torch_reader.release(&input);
    }
    mt_whole_file_release(&input.file);
    mt_import_report_release(&report);
    mt_rules_destroy(rules);
    mt_interner_destroy(interner);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    import(data, length, MT_IMPORT_ANY_DEVICE);
    import(data, length, MT_IMPORT_HOST);
    return 0;
}
