/* The report of an import. */
#ifndef MT_CLI_IMPORT_REPORT_H
#define MT_CLI_IMPORT_REPORT_H

#include "cli/output/peak_report.h"
#include "trace/import/import.h"

/* The run that was added. Borrows everything. */
struct mt_imported_run {
    const struct mt_import_report *report;
    const struct mt_question *question;
    const struct mt_run_peaks *peaks;
    const char *file, *trace;
    double seconds; /* that the import took */
};

/* Describes the answer in JSON. */
extern const struct mt_row_type mt_import_answer_type;

void mt_import_print(const struct mt_imported_run *imported);
void mt_import_print_json(const struct mt_imported_run *imported);

#endif
