#include "trace/import/import.h"

#include "base/memory.h"
#include "trace/import/document.h"
#include "trace/import/torch_import.h"

#include <stdlib.h>

static mt_status import_document(const struct mt_import_plan *plan, const struct mt_rules *rules,
                                 struct mt_import_report *out)
{
    struct mt_document *document;
    mt_status status = mt_document_open(plan->file, &document);
    if (status == MT_OK && !mt_torch_snapshot_is_one(mt_document_root(document)))
        status = mt_fail(MT_BAD_TRACE,
                         "%s is %s, but no memory snapshot of PyTorch: that is a dict with \"segments\" and "
                         "\"device_traces\"",
                         plan->file, mt_document_format(document));
    if (status == MT_OK)
        status = mt_torch_import(plan, document, rules, out);
    mt_document_close(document);
    return status;
}

mt_status mt_import(const struct mt_import_plan *plan, struct mt_import_report *out)
{
    struct mt_rules *rules = mt_rules_create();
    *out = (struct mt_import_report){0};
    mt_status status = plan->rules != NULL ? mt_rules_add_file(rules, plan->rules) : MT_OK;
    if (status == MT_OK)
        status = mt_rules_add_built_in(rules);
    if (status == MT_OK)
        status = import_document(plan, rules, out);
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
