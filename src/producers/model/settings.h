/* The settings of a training run, described once.
 *
 * A setting is a row of one table (settings_table.c). Options and their help, the settings that a trace stores, a run read
 * back from them, the command that repeats it, the axes of a sweep, the comparison of runs, the columns of a report and
 * the changes that `fit` tries are derived from it.
 *
 * A new setting takes a member of `enum mt_setting`, a row of the table, a field of the configuration, and the code that
 * obeys it. */
#pragma once

#include "alloc/alloc.h"
#include "base/text.h"
#include "producers/model/config.h"

/* The device of a plan that names none: a usable GPU, else a simulated device. */
#define MT_DEVICE_AUTO "auto"

/* A run that is to be made. Texts are borrowed. */
struct mt_run_plan {
    struct mt_training_config config;
    struct mt_alloc_settings alloc;
    const char *device;         /* MT_DEVICE_AUTO or a spelling of device.h */
    const struct mt_card *card; /* to simulate it on, with its memory; NULL: that of the device's spelling */
    const char *name;           /* NULL: none */
    const char *trace;          /* NULL: the run is not traced */
    int wait_seconds;           /* for another process that writes the trace */
    bool follows_plan;          /* blocks get places that were found beforehand */
    bool watches_kernels;       /* where the device has some that can be watched */
    bool wants_grad_norms;      /* every gradient is read back once, which takes seconds for a large model on a card */
};

/* The settings in the order of the help; sweeps count their axes in it, the last one fastest. Those from
 * MT_SETTING_DEVICE on are stored and read back like the others, but have no option or one of the command's own. */
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
    MT_SETTING_IS_INTEGER, /* int64_t or uint64_t, read from 0 on; mt_training_config_check holds it to its range */
    MT_SETTING_IS_CHOICE,  /* an enumeration with a spelling for each value */
    MT_SETTING_IS_SWITCH,  /* bool, with two spellings */
    MT_SETTING_IS_TEXT     /* const char *, borrowed; or what the row's functions make of a text */
} mt_setting_kind;

/* The quantities of a run that a setting can change. */
typedef enum mt_setting_effect {
    MT_EFFECT_ALL,       /* memory and steps */
    MT_EFFECT_OF_MEMORY, /* what the run allocates, and not what a step needs or takes */
    MT_EFFECT_OF_STEPS,  /* what a step needs or takes, and not the memory of the run */
    MT_EFFECT_NONE       /* neither */
} mt_setting_effect;

/* Part of a sweep's grid. */
typedef enum mt_setting_axis {
    MT_AXIS_NONE,
    MT_AXIS_IF_VARIED, /* a column of its table where it has several values */
    MT_AXIS_ALWAYS     /* a column of every table */
} mt_setting_axis;

/* Lists of settings, each with an order of its own. */
typedef enum mt_setting_order {
    MT_ORDER_OF_COMMAND, /* a replayed command */
    MT_ORDER_OF_REPORT,  /* axes of a report */
    MT_ORDER_OF_CHANGES, /* changes that lower memory, from the cheapest for who trains to the dearest */
    MT_ORDER_OF_ANSWER,  /* members of the run that an answer is about */
    MT_ORDER_COUNT
} mt_setting_order;

/* A change of a setting that lowers a run's memory; in MT_ORDER_OF_CHANGES. */
struct mt_setting_change {
    bool (*is_one)(const struct mt_run_plan *plan); /* NULL: where the run has another value */
    int value;                                      /* the value that lowers memory most */
    void (*apply)(struct mt_run_plan *plan);        /* NULL: sets `value` */
    bool is_cut;    /* to a size: the run trains on less at once; one that fits is searched, from the least on */
    int most_parts; /* of a cut: the least is this part of the size, rounded up; 0: `value` is */
    bool is_felt;   /* training computes something else with it */
};

/* One row of the table.
 * Invariants: `name` and, where there is one, `help` are unique; `choices` has a spelling for each value of a choice and
 * two of a switch. */
struct mt_setting_entry {
    const char *name; /* as the trace stores it: "zero_grad" */
    mt_setting_kind kind;
    size_t offset;              /* of its field in struct mt_run_plan */
    int64_t low, high;          /* of an integer; high is 0 where there is no limit */
    const char *const *choices; /* spellings by value; of a text, words that may be given; ends with NULL; NULL: none */
    const char *value;          /* the help's word for the value; NULL: its choices */
    const char *help;           /* NULL: no option, or one of the command's own */
    const char *former;         /* what runs did before there was the setting; NULL: every run has stored it */
    const char *title;          /* of its column in a report */
    const char *list_begin;     /* of an axis, the text that each value begins with; NULL: values have no commas */
    mt_setting_effect effect;
    mt_setting_axis axis;
    bool is_size;             /* of the model: given, it makes a model of one's own */
    bool goes_by_model;       /* compared only between runs of one model */
    bool is_plain;            /* its value is told without its name */
    bool is_of_fused;         /* the fused implementation alone knows it */
    int rank[MT_ORDER_COUNT]; /* its place in each order, by size; 0: not in it */
    struct mt_setting_change change;

    /* Functions of rows that the kind does not serve; each may be NULL. */
    mt_status (*parse)(const char *text, struct mt_run_plan *plan);
    void (*format)(const struct mt_run_plan *plan, struct mt_text *out);
    void (*format_short)(const struct mt_run_plan *plan, struct mt_text *out);
    void (*settle)(struct mt_run_plan *plan);        /* sets what follows from others, where it was not given */
    bool (*is_told)(const struct mt_run_plan *plan); /* in a command; NULL: where it is not usual */
};

/* By setting. */
extern const struct mt_setting_entry mt_setting_table[MT_SETTING_COUNT];

/* Spellings by value, ending with NULL, for whoever has a value without a plan. */
extern const char *const mt_mode_names[];
extern const char *const mt_attention_names[];
extern const char *const mt_matmul_names[];
extern const char *const mt_implementation_names[];

/* Returns the precision of matrix products in words: "bf16 autocast", "tf32". */
const char *mt_precision_words(const struct mt_training_config *config);

/* Returns the setting that the trace calls `name`, MT_SETTING_COUNT if there is none. */
mt_setting mt_setting_find_name(const char *name);

/* Puts the settings that have a rank in `order` into `out`, by their ranks. Returns how many there are. */
size_t mt_settings_in_order(mt_setting_order order, mt_setting out[MT_SETTING_COUNT]);

/* Sets the plan's field to the value that `text` spells, which the plan may borrow. Fails with MT_USAGE for a text that
 * spells none, naming the setting and what there is. */
mt_status mt_setting_parse(mt_setting setting, const char *text, struct mt_run_plan *plan);

/* Adds the plan's value, spelled as mt_setting_parse reads it; short: without what goes without saying. */
void mt_setting_format(mt_setting setting, const struct mt_run_plan *plan, struct mt_text *out);
void mt_setting_format_short(mt_setting setting, const struct mt_run_plan *plan, struct mt_text *out);

/* True if the plan has the value that it would have if nothing was given. */
bool mt_setting_is_usual(mt_setting setting, const struct mt_run_plan *plan);

/* True if a command that makes this run must name the setting. */
bool mt_setting_is_told(mt_setting setting, const struct mt_run_plan *plan);

/* The plan's size, which the setting must be: the batch or the sequence. */
int64_t mt_setting_size(mt_setting setting, const struct mt_run_plan *plan);
void mt_setting_set_size(mt_setting setting, int64_t size, struct mt_run_plan *plan);

/* True if the setting's change would lower the memory of this run, or might. */
bool mt_setting_can_change(mt_setting setting, const struct mt_run_plan *plan);

/* Makes the setting's change; a size becomes the least to which it is cut. */
void mt_setting_change(mt_setting setting, struct mt_run_plan *plan);

/* Returns the plan of a run of which nothing is given. */
struct mt_run_plan mt_run_plan_usual(void);

/* Sets what is given, by setting (NULL: not given), and what follows from it, and checks the whole. Borrows the texts.
 * Fails with MT_USAGE for a value that is none, or a run that can't be made. */
mt_status mt_run_plan_set(struct mt_run_plan *plan, const char *const given[MT_SETTING_COUNT]);
