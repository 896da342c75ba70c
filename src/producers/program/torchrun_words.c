/* torchrun, also as the module torch.distributed.run, and that module's older name torch.distributed.launch. */
#include "producers/program/launcher_options.h"
#include "producers/program/launcher_readers.h"

static const struct mt_launcher_option options[] = {
    {"nnodes", 1, mt_take_nodes},
    {"nproc-per-node", 1, mt_take_per_node},
    {"m module", 0, mt_take_module},
    {"no-python", 0, mt_take_plain},
    {"use-env", 0, mt_take_no_local_rank},
    {"run-path standalone virtual-local-rank", 0, NULL},
    {"rdzv-backend rdzv-endpoint rdzv-id rdzv-conf max-restarts monitor-interval start-method event-log-handler role "
     "log-dir r redirects t tee local-ranks-filter duplicate-stdout-filters duplicate-stderr-filters node-rank "
     "master-addr master-port local-addr logs-specs numa-binding signals-to-handle shutdown-timeout",
     1, NULL},
    {0}};

mt_status mt_torchrun_read(char *const *words, struct mt_launch *launch)
{
    launch->is_plain = false;
    return mt_launcher_options_read(options, words, launch);
}

mt_status mt_torch_launch_read(char *const *words, struct mt_launch *launch)
{
    launch->local_rank = "--local-rank";
    return mt_torchrun_read(words, launch);
}
