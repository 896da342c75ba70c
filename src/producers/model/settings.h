/* The settings of a training run, described once.
 *
 * A setting is a row of one table (settings_table.c). These are derived from it: options and their help, the settings
 * that a trace stores, a run read from them, the command that repeats it, the axes of a sweep, the comparison of runs,
 * the columns of a report and the changes that `fit` tries.
 *
 * A new setting needs a member of `enum mt_setting`, a row of the table, a field of the configuration, and the code
 * that implements it. */
#pragma once

#include "alloc/alloc.h"
#include "base/text.h"
#include "producers/model/config.h"

/* The device of a plan without one: a usable GPU, otherwise a simulated device. */
#define MT_DEVICE_AUTO "auto"

/* A run to make. Texts are borrowed. */
struct mt_run_plan {
    struct mt_training_config config;
    struct mt_alloc_settings alloc;
    const char *device;         /* MT_DEVICE_AUTO or a spelling of device.h */
    const struct mt_card *card; /* simulates the run on this card, with its memory; NULL: the card of `device` */
    const char *name;           /* NULL: none */
    const char *trace;          /* NULL: the run is not traced */
    int wait_seconds;           /* to wait for another process that writes the trace */
    bool follows_plan;          /* blocks get places that were computed beforehand */
    bool watches_kernels;       /* if the device has kernels that can be watched */
    bool wants_grad_norms;      /* every gradient is read back once, which takes seconds for a large model on a card */
};

/* The settings in the order of the help. Sweeps count their axes in this order, the last one fastest. Settings from
 * MT_SETTING_DEVICE on are stored and read like the others, but have no option, or an option of the command. */
typedef enum mt_setting {
    MT_SETTING_MODEL,
    MT_SETTING_VOCAB,
    MT_SETTING_D_MODEL,
    MT_SETTING_D_FF,
    MT_SETTING_LAYERS,
    MT_SETTING_HEADS,
    MT_SETTING_ROPE,
    MT_SETTING_MODE,
    MT_SETTING_AUTOCAST,
    MT_SETTING_AUTOCAST_END,
    MT_SETTING_ATTENTION,
    MT_SETTING_SEQ,
    MT_SETTING_BATCH,
    MT_SETTING_OPTIMIZER,
    MT_SETTING_ZERO_GRAD,
    MT_SETTING_KEEP_OUTPUT,
    MT_SETTING_MATMUL,
    MT_SETTING_STEPS,
    MT_SETTING_WARMUP,
    MT_SETTING_INIT,
    MT_SETTING_DATA,
    MT_SETTING_SEED,
    MT_SETTING_IMPL,
    MT_SETTING_WEIGHT_CAST,
    MT_SETTING_CHECKPOINT,
    MT_SETTING_OPTIMIZER_IN_BACKWARD,
    MT_SETTING_MOMENTS,
    MT_SETTING_LOSS_SLICES,
    MT_SETTING_CUDA_GRAPH,
    MT_SETTING_ALLOC,
    MT_SETTING_PLAN,
    MT_SETTING_DEVICE,
    MT_SETTING_KERNELS,
    MT_SETTING_COUNT /* also: none of them */
} mt_setting;

/* The type of a setting's field in struct mt_run_plan. */
typedef enum mt_setting_kind {
    MT_SETTING_IS_INTEGER, /* int64_t or uint64_t, read from 0 on; mt_training_config_check checks its range */
    MT_SETTING_IS_CHOICE,  /* an enumeration with a spelling for each value */
    MT_SETTING_IS_SWITCH,  /* bool, with two spellings */
    MT_SETTING_IS_TEXT     /* const char *, borrowed; or what the row's functions make of a text */
} mt_setting_kind;

/* The quantities of a run that a setting can change. */
typedef enum mt_setting_effect {
    MT_EFFECT_ALL,       /* memory and steps */
    MT_EFFECT_OF_MEMORY, /* the run's allocations, but not the memory or time of one step */
    MT_EFFECT_OF_STEPS,  /* the memory or time of one step, but not the run's allocations */
    MT_EFFECT_NONE       /* neither */
} mt_setting_effect;

/* Part of a sweep's grid. */
typedef enum mt_setting_axis {
    MT_AXIS_NONE,
    MT_AXIS_IF_VARIED, /* a column of its table if it has several values */
    MT_AXIS_ALWAYS     /* a column of every table */
} mt_setting_axis;

/* Lists of settings, each with a separate order. */
typedef enum mt_setting_order {
    MT_ORDER_OF_COMMAND, /* a replayed command */
    MT_ORDER_OF_REPORT,  /* axes of a report */
    MT_ORDER_OF_CHANGES, /* changes that lower memory, from the cheapest for training to the most expensive */
    MT_ORDER_OF_ANSWER,  /* members of the run that an answer is about */
    MT_ORDER_COUNT
} mt_setting_order;

/* A change of a setting that lowers a run's memory; in MT_ORDER_OF_CHANGES. */
struct mt_setting_change {
    bool (*is_one)(const struct mt_run_plan *plan); /* NULL: it applies if the run has another value */
    int value;                                      /* the value that lowers memory most */
    void (*apply)(struct mt_run_plan *plan);        /* NULL: sets `value` */
    bool is_cut;    /* reduces a size: the run trains on less at once; one that fits is searched from below */
    int most_parts; /* of a cut: the smallest size is this part of the size, rounded up; 0: `value` is */
    bool is_felt;   /* it changes the result of training */
};

/* One row of the table.
 * Invariants: `name` and, if present, `help` are unique; `choices` has a spelling for each value of a choice and
 * two for a switch. */
struct mt_setting_entry {
    const char *name; /* as the trace stores it: "zero_grad" */
    mt_setting_kind kind;
    size_t offset;              /* of its field in struct mt_run_plan */
    int64_t low, high;          /* of an integer; high is 0 if there is no limit */
    const char *const *choices; /* spellings by value; of a text, allowed words; ends with NULL; NULL: none */
    const char *value;          /* the help's word for the value; NULL: its choices */
    const char *help;           /* NULL: no option, or an option of the command */
    const char *former;         /* the value of runs from before the setting existed; NULL: every run has stored it */
    const char *title;          /* of its column in a report */
    const char *list_begin;     /* of an axis: the text at the beginning of each value; NULL: values have no commas */
    mt_setting_effect effect;
    mt_setting_axis axis;
    bool is_size;             /* of the model: giving it makes a custom model */
    bool goes_by_model;       /* compared only between runs of one model */
    bool is_plain;            /* its value is printed without its name */
    bool is_of_fused;         /* only the fused implementation supports it */
    int rank[MT_ORDER_COUNT]; /* its place in each order, by size; 0: not in it */
    struct mt_setting_change change;

    /* Functions of rows for which the kind is not enough; each may be NULL. */
    mt_status (*parse)(const char *text, struct mt_run_plan *plan);
    void (*format)(const struct mt_run_plan *plan, struct mt_text *out);
    void (*format_short)(const struct mt_run_plan *plan, struct mt_text *out);
    void (*settle)(struct mt_run_plan *plan);        /* derives the value from others, if it was not given */
    bool (*is_told)(const struct mt_run_plan *plan); /* printed in a command; NULL: if it is not the default */
};

/* By setting. */
extern const struct mt_setting_entry mt_setting_table[MT_SETTING_COUNT];

/* Spellings by value, ending with NULL, for code that has a value without a plan. */
extern const char *const mt_mode_names[];
extern const char *const mt_attention_names[];
extern const char *const mt_matmul_names[];
extern const char *const mt_implementation_names[];

/* Returns the precision of matrix products in words: "bf16 autocast", "tf32". */
const char *mt_precision_words(const struct mt_training_config *config);

/* Returns the setting whose name in the trace is `name`, MT_SETTING_COUNT if there is none. */
mt_setting mt_setting_find_name(const char *name);

/* Writes the settings that have a rank in `order` to `out`, by their ranks. Returns their number. */
size_t mt_settings_in_order(mt_setting_order order, mt_setting out[MT_SETTING_COUNT]);

/* Sets the plan's field to the value of `text`, which the plan may borrow. Fails with MT_USAGE for an invalid text, and
 * names the setting and the valid values. */
mt_status mt_setting_parse(mt_setting setting, const char *text, struct mt_run_plan *plan);

/* Adds the plan's value in the spelling of mt_setting_parse; short: without its obvious parts. */
void mt_setting_format(mt_setting setting, const struct mt_run_plan *plan, struct mt_text *out);
void mt_setting_format_short(mt_setting setting, const struct mt_run_plan *plan, struct mt_text *out);

/* True if the plan has the default value. */
bool mt_setting_is_usual(mt_setting setting, const struct mt_run_plan *plan);

/* True if a command that makes this run must contain the setting. */
bool mt_setting_is_told(mt_setting setting, const struct mt_run_plan *plan);

/* Returns the plan's size. The setting must be the batch or the sequence. */
int64_t mt_setting_size(mt_setting setting, const struct mt_run_plan *plan);
void mt_setting_set_size(mt_setting setting, int64_t size, struct mt_run_plan *plan);

/* True if the setting's change would, or might, lower the memory of this run. */
bool mt_setting_can_change(mt_setting setting, const struct mt_run_plan *plan);

/* Makes the setting's change. A size becomes the smallest to which it can be cut. */
void mt_setting_change(mt_setting setting, struct mt_run_plan *plan);

/* Returns the default plan. */
struct mt_run_plan mt_run_plan_usual(void);

/* Sets the given values, by setting (NULL: not given), derives others from them, and checks the plan. Borrows the
 * texts. Fails with MT_USAGE for an invalid value, or a run that is not possible. */
mt_status mt_run_plan_set(struct mt_run_plan *plan, const char *const given[MT_SETTING_COUNT]);
