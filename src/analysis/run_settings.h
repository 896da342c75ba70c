/* A run's settings as the trace has them, and in which of them two runs differ.
 *
 * A run of `memtrace run` says everything that could matter to its memory. One that was imported or recorded, or is of
 * another program, says what that program said. Where one of two says nothing of a setting they are not known to differ
 * in it, nor to agree: that is a third answer, and who asks decides what to make of it. */
#ifndef MT_CLI_SETTINGS_H
#define MT_CLI_SETTINGS_H

#include "base/text.h"
#include "trace/query/trace.h"

/* Ordered by name. Texts are borrowed from the trace. */
struct mt_settings {
    struct mt_setting_row *rows;
    size_t count;
};

mt_status mt_settings_load(struct mt_trace *trace, const struct mt_run *run, struct mt_settings *out);
void mt_settings_release(struct mt_settings *settings);

/* The value of a setting; of one that `memtrace run` did not always have, what it did before. "" if nothing is said. */
const char *mt_settings_value(const struct mt_settings *settings, const char *name);

/* Which settings count. */
typedef enum mt_settings_scope {
    MT_SETTINGS_ALL,       /* each: what agrees is the same run once more */
    MT_SETTINGS_OF_MEMORY, /* that could change what a run allocates: not the seed, the warm-up or the version */
    MT_SETTINGS_OF_STEPS   /* that could change what a step needs or takes, the warm-up too: not how many there are, or
                            * what they read */
} mt_settings_scope;

/* A setting and what two runs say of it; "" where one says nothing. */
struct mt_setting_pair {
    const char *name, *a, *b;
};

enum { MT_MOST_SETTINGS = 64 };

/* Invariants: ordered by name; of `different` both sides say something, of `unknown` one. More than MT_MOST_SETTINGS are
 * not listed. */
struct mt_settings_difference {
    struct mt_setting_pair different[MT_MOST_SETTINGS], unknown[MT_MOST_SETTINGS];
    size_t different_count, unknown_count;
};

/* In which settings of the scope two runs differ. The dimensions of a model count with its name, where that differs;
 * settings of an allocator are compared by what they mean; of the file or command that a run came from, nothing is unknown.
 * Borrows the texts. */
void mt_settings_compare(const struct mt_settings *a, const struct mt_settings *b, mt_settings_scope scope,
                         struct mt_settings_difference *out);

/* Whether two runs agree in all settings of the scope but for those named, NULL after the last. What one of them does not
 * say is no agreement. */
bool mt_settings_agree(const struct mt_settings *a, const struct mt_settings *b, mt_settings_scope scope,
                       const char *const but[]);

/* Adds a value as people write it: of an allocator's settings only those that are not as they are by themselves. */
void mt_setting_add_value(const char *name, const char *value, struct mt_text *out);

/* Adds "seq 256 → 512", with what goes between a name and its values. */
void mt_setting_add_change(const struct mt_setting_pair *setting, const char *between, struct mt_text *out);

/* Adds "run 3 says nothing of autocast, batch and 12 more settings": of the run that says least of what is unknown. Adds
 * nothing if nothing is. */
void mt_settings_add_unknown(const struct mt_settings_difference *difference, const struct mt_run *a,
                             const struct mt_run *b, struct mt_text *out);

#endif
