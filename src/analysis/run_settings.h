/* The settings of a run as stored in a trace: loaded, made from a plan, converted to a plan, and compared.
 *
 * This is the only place that decides whether two runs have "the same configuration".
 *
 * A run of `memtrace run` stores every setting of the table (model/settings.h) and the program's version. Imported and
 * recorded runs, and runs of other programs, store what their program reported. If one of two runs lacks a setting, it
 * is unknown whether they differ in it. The caller decides how to treat this third case. */
#pragma once

#include "producers/model/settings.h"
#include "trace/query/trace.h"

/* Settings by name and value. */
struct mt_settings {
    struct mt_setting_row *rows;
    size_t count;
    bool owns_values; /* true for a plan; a run's texts are borrowed from its trace */
};

/* Loads a run's settings, ordered by name. Release them in any case. */
mt_status mt_settings_load(struct mt_trace *trace, const struct mt_run *run, struct mt_settings *out);

/* Returns the settings that a run of this plan on this device stores. Release them. */
struct mt_settings mt_settings_of_plan(const struct mt_run_plan *plan, const struct mt_device *device);

void mt_settings_release(struct mt_settings *settings);

/* Returns the value of a setting; the former behaviour for a setting that was added to `memtrace run` later; "" for a
 * setting that the run does not have. */
const char *mt_settings_value(const struct mt_settings *settings, const char *name);

/* The program of a run: which of its parts can be changed, and with which words. */
typedef enum mt_program_kind {
    MT_PROGRAM_MODEL,   /* memtrace run: it has options, and can be repeated */
    MT_PROGRAM_PYTORCH, /* a PyTorch snapshot, a recording or a dry run: its allocator is PyTorch's */
    MT_PROGRAM_LIBRARY, /* its allocator is memtrace's, under PyTorch or by include/memtrace.h */
    MT_PROGRAM_WATCHED  /* it allocates from the driver, or from an unknown allocator */
} mt_program_kind;

struct mt_program {
    mt_program_kind kind;
    bool grows_segments; /* by policy=tight or, in PyTorch, expandable_segments */
    bool is_dry;         /* it ran without a card */
    bool only_infers;    /* it ran to its end, with forward passes and nothing in backward; false: not known */
    bool runs_backward;  /* it allocated in backward */
    bool keeps_graphs;   /* it calls a model with gradients that no backward reads, as an observation says */
};

/* Returns the program of a run with these settings. */
struct mt_program mt_program_of_settings(const struct mt_settings *settings);

/* The settings in a comparison. */
typedef enum mt_settings_scope {
    MT_SETTINGS_ALL,       /* all: runs that agree are repetitions of one run */
    MT_SETTINGS_OF_MEMORY, /* those that could change a run's allocations: not the seed, the warm-up or the version */
    MT_SETTINGS_OF_STEPS   /* those that could change a step's memory or time, also the warm-up: not the number of steps
                            * or their input */
} mt_settings_scope;

/* A setting and its value in two runs; "" in a run without it. */
struct mt_setting_pair {
    const char *name, *a, *b;
};

enum { MT_MOST_SETTINGS = 64 };

/* Invariants: ordered by name; in `different` both values are known, in `unknown` only one. More than MT_MOST_SETTINGS
 * are not listed. */
struct mt_settings_difference {
    struct mt_setting_pair different[MT_MOST_SETTINGS], unknown[MT_MOST_SETTINGS];
    size_t different_count, unknown_count;
};

/* Finds the settings of the scope in which two runs differ. If the models' names differ, their sizes are not compared.
 * Settings of an allocator are compared by meaning. The file or command that a run came from is never unknown. Borrows
 * the texts. */
void mt_settings_compare(const struct mt_settings *a, const struct mt_settings *b, mt_settings_scope scope,
                         struct mt_settings_difference *out);

/* True if two runs agree in all settings of the scope, except those in `but`, which ends with NULL. A setting that only
 * one run has counts as different. */
bool mt_settings_agree(const struct mt_settings *a, const struct mt_settings *b, mt_settings_scope scope,
                       const char *const but[]);

/* Adds a value in readable form: of an allocator's settings, only those that differ from the defaults. */
void mt_setting_add_value(const char *name, const char *value, struct mt_text *out);

/* Adds "seq 256 → 512", with `between` between the name and its values. */
void mt_setting_add_change(const struct mt_setting_pair *setting, const char *between, struct mt_text *out);

/* Adds "run 3 does not store autocast, batch and 12 more settings", for the run that lacks more. Adds nothing if no
 * setting is unknown. */
void mt_settings_add_unknown(const struct mt_settings_difference *difference, const struct mt_run *a,
                             const struct mt_run *b, struct mt_text *out);

/* Returns the plan of a traced run of `memtrace run`; the allocator's plan is not part of it. Borrows texts from the
 * trace. The device is the run's, by its full name, which can't be used to open a card. Fails with MT_USAGE if the
 * settings are not those of such a run, as for an imported one. */
mt_status mt_run_plan_of_run(struct mt_trace *trace, const struct mt_run *run, struct mt_run_plan *out);
