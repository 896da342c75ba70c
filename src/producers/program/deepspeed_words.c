/* deepspeed: deepspeed/launcher/runner.py and launch.py. */
#include "producers/program/launcher_options.h"
#include "producers/program/launcher_readers.h"

#include <string.h>

/* Takes "HOST:0,1@HOST:0,1": hosts, and the cards of each. */
static mt_status take_included(const struct mt_given_option *given, struct mt_launch *launch)
{
    const char *text = given->values[0];
    for (int64_t before = 0; text != NULL && *text != '\0'; before = launch->slots) {
        const char *end = text + strcspn(text, "@"), *cards = memchr(text, ':', (size_t)(end - text));
        launch->slots = cards != NULL;
        for (; cards != NULL && cards < end; cards++)
            launch->slots += *cards == ',';
        if (launch->slots == 0 || (before > 0 && launch->slots != before))
            return mt_launcher_option_refuse(given, launch,
                                             "each host needs the same number of cards, such as host:0,1");
        launch->hosts++;
        text = *end == '@' ? end + 1 : NULL;
    }
    return MT_OK;
}

static mt_status take_inner_launcher(const struct mt_given_option *given, struct mt_launch *launch)
{
    if (strcasecmp(given->values[0], "pdsh") == 0)
        return MT_OK;
    return mt_launcher_option_refuse(given, launch, "only pdsh is understood");
}

static const struct mt_launcher_option options[] = {
    {"num-nodes", 1, mt_take_nodes},
    {"num-gpus num-accelerators", 1, mt_take_per_node},
    {"H hostfile", 1, mt_take_host_file},
    {"i include", 1, take_included},
    {"launcher", 1, take_inner_launcher},
    {"module", 0, mt_take_module},
    {"no-python", 0, mt_take_plain},
    {"no-local-rank", 0, mt_take_no_local_rank},
    {"no-ssh-check no-ssh force-multi save-pid bind-cores-to-rank", 0, NULL},
    {"master-port master-addr node-rank launcher-args enable-each-rank-log venv-script bind-core-list ssh-port", 1,
     NULL},
    {0}};

mt_status mt_deepspeed_read(char *const *words, struct mt_launch *launch)
{
    launch->style = MT_RANK_DEEPSPEED;
    launch->local_rank = "--local_rank";
    launch->is_plain = false;
    MT_TRY(mt_launcher_options_read(options, words, launch));
    if (launch->nodes == 0)
        launch->nodes = launch->hosts;
    if (launch->per_node == 0)
        launch->per_node = launch->slots;
    return MT_OK;
}
