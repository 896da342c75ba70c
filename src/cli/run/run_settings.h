/* How a run was configured, as names and values for the trace: every setting, so that a run can be repeated from them. */
#ifndef MT_CLI_RUN_SETTINGS_H
#define MT_CLI_RUN_SETTINGS_H

#include "cli/output/settings.h"
#include "cli/run/run_session.h"

enum { MT_MOST_RUN_SETTINGS = 32 };

struct mt_run_settings {
    struct mt_run_setting items[MT_MOST_RUN_SETTINGS]; /* values owned by this */
    size_t count;
};

/* Copies what it needs of the plan; release when it was handed on. */
void mt_run_settings_create(const struct mt_run_plan *plan, const struct mt_device *device,
                            struct mt_run_settings *out);
void mt_run_settings_release(struct mt_run_settings *settings);

/* The same as a trace would have them, to be compared with a run's. Puts the rows, which borrow the texts, into `rows`. */
struct mt_settings mt_run_settings_as_traced(const struct mt_run_settings *settings,
                                             struct mt_setting_row rows[MT_MOST_RUN_SETTINGS]);

/* The spellings of the command line, by enumeration, ending with NULL. */
extern const char *const mt_mode_names[];
extern const char *const mt_zero_grad_names[];
extern const char *const mt_init_names[];
extern const char *const mt_data_names[];     /* of a file, its path is said in its place */
extern const char *const mt_autocast_names[]; /* by the bool of the configuration */
extern const char *const mt_attention_names[];
extern const char *const mt_matmul_names[];
extern const char *const mt_optimizer_in_backward_names[];
extern const char *const mt_switch_names[]; /* off, on */
extern const char *const mt_implementation_names[];
extern const char *const mt_weight_cast_names[];
extern const char *const mt_checkpoint_names[];

#endif
