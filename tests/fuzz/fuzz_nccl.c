/* Fuzzes both readers of NCCL's memory: of its log as a run, and of a file next to a snapshot. */
#include "base/interner.h"
#include "producers/file/import.h"
#include "producers/file/nccl_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct mt_interner *interner = mt_interner_create();
    const struct mt_sink sink = mt_sink_discarding(interner);
    struct mt_rules *rules = mt_rules_create();
    struct mt_import_report report = {0};
    struct mt_import_source source = {0};
    struct mt_nccl_holders holders;
    struct mt_import_input input = {.rules = rules, .file = {.data = (unsigned char *)data, .length = length}};
    mt_nccl_holders_find(&input.file, &holders);
    mt_nccl_holders_release(&holders);
    if (mt_nccl_reader.read(&input, &source) == MT_OK)
        mt_nccl_reader.replay(&input, &sink, &report);
    mt_nccl_reader.release(&input);
    mt_import_report_release(&report);
    mt_rules_destroy(rules);
    mt_interner_destroy(interner);
    return 0;
}
