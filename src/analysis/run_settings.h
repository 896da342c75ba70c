/* The settings of a run as a trace has them: read, made of a plan, read back as a plan, and compared.
 *
 * "The same configuration" is decided here and nowhere else.
 *
 * A run of `memtrace run` stores every setting of the table (model/settings.h) and the program's version. One that was
 * imported or recorded, or is of another program, stores what that program said. Two runs are not known to differ in a
 * setting that one of them lacks, nor to agree: that is a third answer, and the caller decides what to make of it. */
#pragma once

#include "producers/model/settings.h"
#include "trace/query/trace.h"

/* Settings by name and value. */
struct mt_settings {
    struct mt_setting_row *rows;
    size_t count;
    bool owns_values; /* of a plan; of a run the texts are borrowed from its trace */
};

/* Loads a run's settings, ordered by name. Release them in any case. */
mt_status mt_settings_load(struct mt_trace *trace, const struct mt_run *run, struct mt_settings *out);

/* Makes the settings that a run of this plan on this device stores. Release them. */
struct mt_settings mt_settings_of_plan(const struct mt_run_plan *plan, const struct mt_device *device);

void mt_settings_release(struct mt_settings *settings);

/* Returns the value of a setting; of one that `memtrace run` did not always have, what it did before; "" of one that the
 * run does not have. */
const char *mt_settings_value(const struct mt_settings *settings, const char *name);

/* The program that a run is of: what can be changed about it, and by which words. */
typedef enum mt_program_kind {
    MT_PROGRAM_MODEL,   /* memtrace run: it has options, and can be made again */
    MT_PROGRAM_PYTORCH, /* a snapshot of PyTorch, or a dry run: its allocator is PyTorch's */
    MT_PROGRAM_LIBRARY, /* its allocator is ours, under PyTorch or by include/memtrace.h */
    MT_PROGRAM_WATCHED  /* it takes memory of the driver, or of an allocator that nothing is known of */
} mt_program_kind;

struct mt_program {
    mt_program_kind kind;
    bool grows_segments; /* by policy=tight or, of PyTorch, expandable_segments */
    bool is_dry;         /* it ran without a card */
};

/* Returns the program of the run that has these settings. */
struct mt_program mt_program_of_settings(const struct mt_settings *settings);

/* The settings that a comparison takes. */
typedef enum mt_settings_scope {
    MT_SETTINGS_ALL,       /* every one: what agrees is the same run once more */
    MT_SETTINGS_OF_MEMORY, /* those that could change what a run allocates: not the seed, the warm-up or the version */
    MT_SETTINGS_OF_STEPS /* those that could change what a step needs or takes, the warm-up too: not the count of steps,
                            * or what they read */
} mt_settings_scope;

/* A setting and its value in two runs; "" in one that does not have it. */
struct mt_setting_pair {
    const char *name, *a, *b;
};

enum { MT_MOST_SETTINGS = 64 };

/* Invariants: ordered by name; in `different` both values are known, in `unknown` one. More than MT_MOST_SETTINGS are
 * not listed. */
struct mt_settings_difference {
    struct mt_setting_pair different[MT_MOST_SETTINGS], unknown[MT_MOST_SETTINGS];
    size_t different_count, unknown_count;
};

/* Finds the settings of the scope in which two runs differ. The sizes of a model go by its name where that differs;
 * settings of an allocator are compared by their meaning; the file or command that a run came from is never unknown.
 * Borrows the texts. */
void mt_settings_compare(const struct mt_settings *a, const struct mt_settings *b, mt_settings_scope scope,
                         struct mt_settings_difference *out);

/* True if two runs agree in all settings of the scope but for those named, NULL after the last. A setting that one of
 * them lacks is no agreement. */
bool mt_settings_agree(const struct mt_settings *a, const struct mt_settings *b, mt_settings_scope scope,
                       const char *const but[]);

/* Adds a value as people write it: of an allocator's settings only those that are not usual. */
void mt_setting_add_value(const char *name, const char *value, struct mt_text *out);

/* Adds "seq 256 → 512", with `between` between the name and its values. */
void mt_setting_add_change(const struct mt_setting_pair *setting, const char *between, struct mt_text *out);

/* Adds "run 3 says nothing of autocast, batch and 12 more settings": of the run that lacks most. Adds nothing if none is
 * unknown. */
void mt_settings_add_unknown(const struct mt_settings_difference *difference, const struct mt_run *a,
                             const struct mt_run *b, struct mt_text *out);

/* Makes the plan of a run that `memtrace run` has traced; the plan itself is not traced. Borrows texts from the trace. The
 * device is the one that the run was on, by its full name, which of a card is no spelling to open it by. Fails with
 * MT_USAGE if the settings are not those of such a run, as an imported one's. */
mt_status mt_run_plan_of_run(struct mt_trace *trace, const struct mt_run *run, struct mt_run_plan *out);
