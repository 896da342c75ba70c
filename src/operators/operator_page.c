/* The table of operators as a page, docs/operators.md. */
#include "operators/operator_plan.h"

#include "base/text.h"

static const char introduction[] = "# Table of operators\n\nThe operators that a dry run knows, with the scratch "
                                   "memory that their kernels allocate in "
                                   "addition to their results ([scratch memory](scratch.md)). Sources are files of "
                                   "PyTorch 2.7 unless they name another "
                                   "version; for operators with a namespace, files of their library in 2026. *Checked "
                                   "on* names the cards on which the "
                                   "bytes were measured, under 2.11 and CUDA 13.0. memtrace generates this page from "
                                   "`src/operators/operator_table.c`.\n";

/* Adds the rows of operators with scratch memory, or the rows without. */
static void add_rows(struct mt_text *out, bool takes)
{
    mt_text_add(out, "\n| operators | scratch memory | source | checked on |\n| --- | --- | --- | --- |\n");
    for (int i = 0; i < mt_operator_row_count; i++) {
        const struct mt_operator_row *row = &mt_operator_rows[i];
        if ((row->rule != NULL) == takes)
            mt_text_add(out, "| %s | %s | %s | %s |\n", row->names, row->takes, row->source,
                        row->checked[0] != '\0' ? row->checked : "not measured");
    }
}

void mt_operator_page_add(struct mt_text *out)
{
    mt_text_add(out, "%s", introduction);
    add_rows(out, true);
    mt_text_add(out, "\n## Operators without scratch memory\n");
    add_rows(out, false);
}
