/* Fuzzes the reader of RMM's logs. */
#include "base/interner.h"
#include "producers/file/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct mt_interner *interner = mt_interner_create();
    const struct mt_sink sink = mt_sink_discarding(interner);
    struct mt_rules *rules = mt_rules_create();
    struct mt_import_report report = {0};
    const struct mt_import_input input = {.rules = rules, .file = {(unsigned char *)data, length}};
    mt_rmm_reader.replay(&input, &sink, &report);
    mt_import_report_release(&report);
    mt_rules_destroy(rules);
    mt_interner_destroy(interner);
    return 0;
}
