#include "producers/program/rank_variables.h"

#include <stddef.h>

/* Numbers of a rank. */
enum number { RANK, RANKS, LOCAL_RANK, PER_NODE, NODE, NODES, NUMBERS };

/* A variable. Its value is a text or, if that is NULL, a number. */
struct variable {
    const char *name, *text;
    enum number number;
};

#define MASTER                                                                                                         \
    {"MASTER_ADDR", "127.0.0.1", 0},                                                                                   \
    {                                                                                                                  \
        "MASTER_PORT", "29500", 0                                                                                      \
    }

static const struct variable torch[] = {MASTER,
                                        {"RANK", NULL, RANK},
                                        {"WORLD_SIZE", NULL, RANKS},
                                        {"LOCAL_RANK", NULL, LOCAL_RANK},
                                        {"LOCAL_WORLD_SIZE", NULL, PER_NODE},
                                        {"GROUP_RANK", NULL, NODE},
                                        {"GROUP_WORLD_SIZE", NULL, NODES},
                                        {"ROLE_RANK", NULL, RANK},
                                        {"ROLE_WORLD_SIZE", NULL, RANKS},
                                        {"TORCHELASTIC_RESTART_COUNT", "0", 0},
                                        {"TORCHELASTIC_MAX_RESTARTS", "0", 0},
                                        {"TORCHELASTIC_RUN_ID", "dry-run", 0},
                                        {0}};
static const struct variable deepspeed[] = {MASTER,
                                            {"RANK", NULL, RANK},
                                            {"WORLD_SIZE", NULL, RANKS},
                                            {"LOCAL_RANK", NULL, LOCAL_RANK},
                                            {"LOCAL_SIZE", NULL, PER_NODE},
                                            {"CROSS_RANK", NULL, NODE},
                                            {"CROSS_SIZE", NULL, NODES},
                                            {0}};
static const struct variable slurm[] = {{"SLURM_PROCID", NULL, RANK},
                                        {"SLURM_NTASKS", NULL, RANKS},
                                        {"SLURM_NPROCS", NULL, RANKS},
                                        {"SLURM_STEP_NUM_TASKS", NULL, RANKS},
                                        {"SLURM_LOCALID", NULL, LOCAL_RANK},
                                        {"SLURM_NTASKS_PER_NODE", NULL, PER_NODE},
                                        {"SLURM_NODEID", NULL, NODE},
                                        {"SLURM_NNODES", NULL, NODES},
                                        {"SLURM_JOB_NUM_NODES", NULL, NODES},
                                        {"SLURM_STEP_NUM_NODES", NULL, NODES},
                                        {"SLURM_JOB_ID", "1", 0},
                                        {"SLURM_JOBID", "1", 0},
                                        {"SLURM_STEP_ID", "0", 0},
                                        {"SLURM_JOB_NAME", "dry-run", 0},
                                        {"SLURM_NODELIST", "localhost", 0},
                                        {"SLURM_JOB_NODELIST", "localhost", 0},
                                        {"SLURMD_NODENAME", "localhost", 0},
                                        {"SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1", 0},
                                        {0}};
static const struct variable mpi[] = {{"OMPI_COMM_WORLD_RANK", NULL, RANK},
                                      {"OMPI_COMM_WORLD_SIZE", NULL, RANKS},
                                      {"OMPI_COMM_WORLD_LOCAL_RANK", NULL, LOCAL_RANK},
                                      {"OMPI_COMM_WORLD_LOCAL_SIZE", NULL, PER_NODE},
                                      {"OMPI_COMM_WORLD_NODE_RANK", NULL, LOCAL_RANK},
                                      {"OMPI_UNIVERSE_SIZE", NULL, RANKS},
                                      {"PMI_RANK", NULL, RANK},
                                      {"PMI_SIZE", NULL, RANKS},
                                      {"MPI_LOCALRANKID", NULL, LOCAL_RANK},
                                      {"MPI_LOCALNRANKS", NULL, PER_NODE},
                                      {0}};

static const struct variable *const styles[] = {
    [MT_RANK_TORCH] = torch, [MT_RANK_DEEPSPEED] = deepspeed, [MT_RANK_SLURM] = slurm, [MT_RANK_MPI] = mpi};

void mt_rank_variables_clear(struct mt_environment *environment)
{
    for (size_t i = 0; i < sizeof styles / sizeof styles[0]; i++)
        for (const struct variable *variable = styles[i]; variable->name != NULL; variable++)
            if (variable->text == NULL)
                mt_environment_set(environment, variable->name, NULL);
}

void mt_rank_variables_set(mt_rank_style style, int64_t rank, int64_t ranks, int64_t per_node,
                           struct mt_environment *environment)
{
    const int64_t numbers[NUMBERS] = {[RANK] = rank,         [RANKS] = ranks,          [LOCAL_RANK] = rank % per_node,
                                      [PER_NODE] = per_node, [NODE] = rank / per_node, [NODES] = ranks / per_node};
    for (const struct variable *variable = styles[style]; variable->name != NULL; variable++)
        if (variable->text != NULL)
            mt_environment_set(environment, variable->name, variable->text);
        else
            mt_environment_set_number(environment, variable->name, numbers[variable->number]);
}
