#include "trace/import/import.h"

#include "base/memory.h"
#include "trace/import/document.h"
#include "trace/import/nsys_import.h"
#include "trace/import/rmm_import.h"
#include "trace/import/torch_import.h"
#include "trace/import/whole_file.h"
#include "trace/store/trace_file.h"

#include <stdlib.h>

static mt_status import_document(const struct mt_import_plan *plan, const struct mt_document *document,
                                 const struct mt_rules *rules, struct mt_import_report *out)
{
    if (mt_torch_snapshot_is_one(mt_document_root(document)))
        return mt_torch_import(plan, document, rules, out);
    return mt_fail(
        MT_BAD_TRACE,
        "%s is %s, but no memory snapshot of PyTorch: that is a dict with \"segments\" and \"device_traces\", as "
        "torch.cuda.memory._dump_snapshot() writes it",
        plan->file, mt_document_format(document));
}

/* What was read is let go of before it is replayed. */
static mt_status import_file(const struct mt_import_plan *plan, const struct mt_rules *rules,
                             struct mt_import_report *out)
{
    struct mt_whole_file file;
    struct mt_document *document = NULL;
    mt_status status = mt_whole_file_read(plan->file, &file);
    bool is_log = status == MT_OK && mt_rmm_is_one(file.data, file.length);
    if (is_log)
        status = mt_rmm_import(plan, file.data, file.length, rules, out);
    else if (status == MT_OK)
        status = mt_document_read(plan->file, &file, &document);
    mt_whole_file_release(&file);
    if (status == MT_OK && !is_log)
        status = import_document(plan, document, rules, out);
    mt_document_close(document);
    return status;
}

static mt_status import_any(const struct mt_import_plan *plan, const struct mt_rules *rules,
                            struct mt_import_report *out)
{
    return mt_trace_file_is_database(plan->file) ? mt_nsys_import(plan, rules, out) : import_file(plan, rules, out);
}

mt_status mt_import(const struct mt_import_plan *plan, struct mt_import_report *out)
{
    struct mt_rules *rules = mt_rules_create();
    *out = (struct mt_import_report){0};
    mt_status status = plan->rules != NULL ? mt_rules_add_file(rules, plan->rules) : MT_OK;
    if (status == MT_OK)
        status = mt_rules_add_built_in(rules);
    if (status == MT_OK)
        status = import_any(plan, rules, out);
    out->rule_count = mt_rules_count(rules);
    mt_rules_destroy(rules);
    return status;
}

void mt_import_report_release(struct mt_import_report *report)
{
    for (size_t i = 0; i < report->uncovered_count; i++)
        free(report->uncovered[i].who);
    *report = (struct mt_import_report){0};
}
