/* mpirun and mpiexec, of Open MPI, MPICH and Intel MPI. Their options have one dash or two. */
#include "producers/program/launcher_options.h"
#include "producers/program/launcher_readers.h"

#include <stdlib.h>
#include <string.h>

/* Takes "NAME=VALUE". A name without a value is exported, as all variables are here. */
static mt_status take_variable(const struct mt_given_option *given, struct mt_launch *launch)
{
    const char *equals = strchr(given->values[0], '=');
    if (equals != NULL)
        mt_launch_add_variable(launch, given->values[0], (size_t)(equals - given->values[0]), equals + 1);
    return MT_OK;
}

static mt_status take_name_and_value(const struct mt_given_option *given, struct mt_launch *launch)
{
    if (given->values[1] == NULL)
        return mt_launcher_option_refuse(given, launch, "a name and a value are needed");
    mt_launch_add_variable(launch, given->values[0], strlen(given->values[0]), given->values[1]);
    return MT_OK;
}

/* Takes "ppr:4:node", and mappings that fill one node after another. */
static mt_status take_places(const struct mt_given_option *given, struct mt_launch *launch)
{
    static const char *const in_sequence[] = {"slot", "core",    "hwthread", "package", "socket",
                                              "numa", "l1cache", "l2cache",  "l3cache"};
    const char *place = given->values[0];
    char *end;
    const size_t length = strcspn(place, ":");
    if (strncmp(place, "ppr:", 4) == 0) {
        launch->per_node = strtoll(place + 4, &end, 10);
        if (launch->per_node >= 1 && launch->per_node <= MT_MOST_RANKS && strncmp(end, ":node", 5) == 0)
            return MT_OK;
    }
    for (size_t i = 0; i < sizeof in_sequence / sizeof in_sequence[0]; i++)
        if (strncmp(place, in_sequence[i], length) == 0 && in_sequence[i][length] == '\0')
            return MT_OK;
    return mt_launcher_option_refuse(given, launch, "only ppr:N:node and places within a node are understood");
}

static const struct mt_launcher_option options[] = {
    {"n np c", 1, mt_take_ranks},
    {"N npernode ppn perhost", 1, mt_take_per_node},
    {"map-by", 1, take_places},
    {"hostfile machinefile f default-hostfile", 1, mt_take_host_file},
    {"H host hosts", 1, mt_take_hosts},
    {"x", 1, take_variable},
    {"genv env", 2, take_name_and_value},
    {"allow-run-as-root oversubscribe nooversubscribe bind-to-core bind-to-socket bind-to-none bysocket bycore byslot "
     "display-map display-allocation report-bindings tag-output timestamp-output q quiet v verbose genvall envall l "
     "print-rank-map",
     0, NULL},
    {"bind-to rank-by tune am prefix path output output-filename report-uri timeout stdin launcher rmk iface bootstrap "
     "prepend-rank",
     1, NULL},
    {"mca gmca prtemca pmixmca", 2, NULL},
    {0}};

mt_status mt_mpirun_read(char *const *words, struct mt_launch *launch)
{
    launch->style = MT_RANK_MPI;
    MT_TRY(mt_launcher_options_read(options, words, launch));
    if (launch->slots == 0)
        launch->nodes = launch->hosts;
    else if (launch->per_node == 0)
        launch->per_node = launch->ranks > 0 && launch->ranks < launch->slots ? launch->ranks : launch->slots;
    if (launch->ranks == 0)
        launch->ranks = launch->hosts * launch->per_node;
    if (launch->ranks == 0)
        return mt_fail(MT_USAGE, "%s: how many processes? Give their number with -np", launch->name);
    return MT_OK;
}
