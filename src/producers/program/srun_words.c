/* Slurm's srun. Inside a job, the environment has the values of missing options. */
#include "producers/program/launcher_options.h"
#include "producers/program/launcher_readers.h"

#include <stdlib.h>
#include <string.h>

/* Takes "ALL,NAME=VALUE". Refuses lists that leave out variables of the environment. */
static mt_status take_variables(const struct mt_given_option *given, struct mt_launch *launch)
{
    const char *rest = given->values[0];
    while (*rest != '\0') {
        const size_t length = strcspn(rest, ","), name = strcspn(rest, "=,");
        char value[4096];
        if (name == length && (length != 3 || strncmp(rest, "ALL", 3) != 0))
            return mt_launcher_option_refuse(given, launch, "ranks have the whole environment, and NAME=VALUE");
        if (length - name >= sizeof value)
            return mt_launcher_option_refuse(given, launch, "too long a value");
        if (name < length) {
            memcpy(value, rest + name + 1, length - name - 1);
            value[length - name - 1] = '\0';
            mt_launch_add_variable(launch, rest, name, value);
        }
        rest += length + (rest[length] == ',');
    }
    return MT_OK;
}

/* Takes "4", "h100:4" or "gpu:h100:4". */
static mt_status take_cards(const struct mt_given_option *given, struct mt_launch *launch)
{
    const char *number = strrchr(given->values[0], ':');
    if (mt_launcher_count_read(number != NULL ? number + 1 : given->values[0], &launch->cards))
        return MT_OK;
    return mt_launcher_option_refuse(given, launch, "a dry run needs a number of cards");
}

/* Slurm gives each task of a node different cards. */
static mt_status take_own_cards(const struct mt_given_option *given, struct mt_launch *launch)
{
    launch->cards_are_own = true;
    return take_cards(given, launch);
}

static mt_status take_resources(const struct mt_given_option *given, struct mt_launch *launch)
{
    return strncmp(given->values[0], "gpu:", 4) == 0 ? take_cards(given, launch) : MT_OK;
}

static const struct mt_launcher_option options[] = {
    {"n ntasks", 1, mt_take_ranks},
    {"N nodes", 1, mt_take_nodes},
    {"ntasks-per-node", 1, mt_take_per_node},
    {"gpus-per-node", 1, take_cards},
    {"gpus-per-task", 1, take_own_cards},
    {"gres", 1, take_resources},
    {"export", 1, take_variables},
    {"E preserve-env exclusive H hold I immediate k no-kill K kill-on-bad-exit l label nice O overcommit overlap exact "
     "propagate Q quiet resv-ports s oversubscribe u unbuffered v verbose vv vvv X disable-status Z no-allocate pty "
     "spread-job use-min-nodes contiguous container-mount-home no-container-mount-home container-writable "
     "container-remap-root",
     0, NULL},
    {"A account acctg-freq B extra-node-info C constraint c cpus-per-task cpus-per-gpu cpu-bind cpu-freq d dependency "
     "deadline e error G gpus gpus-per-socket gpu-bind gpu-freq hint i input J job-name jobid L licenses M clusters "
     "mem "
     "mem-per-cpu mem-per-gpu mem-bind mpi network o output p partition priority profile q qos r relative reservation "
     "S core-spec signal slurmd-debug switches t time time-min T threads threads-per-core tmp w nodelist W wait wckey "
     "x "
     "exclude comment mail-type mail-user container container-env container-image container-mounts container-name "
     "container-workdir",
     1, NULL},
    {0}};

/* Reads a number that is not given from sbatch's variables of the job. */
static void read_job(const char *variable, int64_t *number)
{
    const char *text = getenv(variable);
    int64_t found;
    if (*number == 0 && text != NULL && mt_launcher_count_read(text, &found))
        *number = found;
}

mt_status mt_srun_read(char *const *words, struct mt_launch *launch)
{
    launch->style = MT_RANK_SLURM;
    MT_TRY(mt_launcher_options_read(options, words, launch));
    const bool has_nodes = launch->nodes > 0;
    if (!has_nodes && launch->per_node == 0)
        read_job("SLURM_NTASKS", &launch->ranks);
    read_job("SLURM_NNODES", &launch->nodes);
    if (launch->ranks == 0)
        read_job("SLURM_NTASKS_PER_NODE", &launch->per_node);
    if (!has_nodes && launch->nodes > 0 && launch->ranks % launch->nodes != 0)
        launch->nodes = 0; /* it uses only some of the job's nodes */
    if (launch->ranks == 0 && launch->nodes == 0 && launch->per_node == 0)
        return mt_fail(MT_USAGE, "srun: how many tasks? Give their number with -n");
    return MT_OK;
}
