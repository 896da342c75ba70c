/* In which settings two runs differ, and which runs of a trace are best compared. */
#ifndef MT_CLI_RUN_CHANGES_H
#define MT_CLI_RUN_CHANGES_H

#include "trace/trace.h"

/* The settings of a run. Texts are borrowed from the trace. */
struct mt_settings {
    struct mt_setting_row *rows;
    size_t count;
};

mt_status mt_settings_load(struct mt_trace *trace, const struct mt_run *run, struct mt_settings *out);
void mt_settings_release(struct mt_settings *settings);

/* A setting that two runs do not share; "" where one has none. */
struct mt_change {
    const char *name, *a, *b;
};

enum { MT_MOST_CHANGES = 64 };

/* Invariant: ordered by name; no more than MT_MOST_CHANGES are listed. */
struct mt_changes {
    struct mt_change items[MT_MOST_CHANGES];
    size_t count;
};

/* What differs and could change memory: not the name, the version, the seed, the warm-up or whether kernels were watched.
 * The dimensions of a model count with its name, where that differs. Borrows the settings' texts. */
void mt_changes_find(const struct mt_settings *a, const struct mt_settings *b, struct mt_changes *out);

/* Whether nothing differs that could change memory, but for the setting `name`. */
bool mt_settings_agree_but_for(const struct mt_settings *a, const struct mt_settings *b, const char *name);

/* The newest two finished runs that differ in one setting, the older one first; of all that differ so from the newest
 * run that has such a partner, the newest. MT_USAGE with what to do if there are none. */
mt_status mt_changes_find_pair(struct mt_trace *trace, const struct mt_run **out_a, const struct mt_run **out_b);

#endif
