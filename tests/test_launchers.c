/* Command lines of launchers in dry runs, from outside: shell scripts are the ranks, and print their variables. The
 * exit code says that no dry run took place. */
#include "base/status.h"
#include "program.h"

#define DEEPSPEED "sh -c 'echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_SIZE $CROSS_RANK/$CROSS_SIZE'"
#define SLURM                                                                                                          \
    "sh -c 'echo $RANK $SLURM_PROCID/$SLURM_NTASKS $SLURM_LOCALID/$SLURM_NTASKS_PER_NODE $SLURM_NODEID/$SLURM_NNODES'"
#define MPI                                                                                                            \
    "sh -c 'echo $RANK $OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE $OMPI_COMM_WORLD_LOCAL_RANK/"                       \
    "$OMPI_COMM_WORLD_LOCAL_SIZE $PMI_RANK/$PMI_SIZE'"
#define MAKE_PYTHON "mkdir bin; printf '#!/bin/sh\\necho python \"$@\"\\n' >bin/python3; chmod +x bin/python3; "

static void expect(const struct said *said, const char *out)
{
    if (said->code != MT_NO_DRY_RUN)
        fail_msg("exit code %d: %s", said->code, said->err);
    assert_string_equal(said->out, out);
}

static void ranks_have_the_variables_of_their_launcher(void **state)
{
    (void)state;
    expect(
        MEMTRACE("dry-run --jobs 1 -- deepspeed --num_gpus 2 --master_port=1 --no_local_rank --no_python " DEEPSPEED),
        "0/2 0/2 0/1\n1/2 1/2 0/1\n");
    expect(MEMTRACE("dry-run --jobs 1 -- srun -n 4 --ntasks-per-node=2 -t5 --gres gpu:2 " SLURM),
           "0/4 0/2 0/2\n1/4 1/2 0/2\n2/4 0/2 1/2\n3/4 1/2 1/2\n");
    expect(MEMTRACE("dry-run --jobs 1 -- mpirun -np 2 --bind-to none -mca btl tcp " MPI), "0/2 0/2 0/2\n1/2 1/2 1/2\n");
}

static void numbers_of_nodes_are_understood(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "srun -n4 -N2 sh -c 'echo $SLURM_PROCID $SLURM_NODEID'",
        "srun --nodes=2 --ntasks-per-node=2 -- sh -c 'echo $SLURM_PROCID $SLURM_NODEID'",
        "mpirun -np 4 --map-by ppr:2:node:PE=4 sh -c 'echo $PMI_RANK $((PMI_RANK / OMPI_COMM_WORLD_LOCAL_SIZE))'",
        "mpiexec -n 4 -ppn 2 sh -c 'echo $PMI_RANK $((PMI_RANK / OMPI_COMM_WORLD_LOCAL_SIZE))'",
        "mpirun -H a:2,b:2 sh -c 'echo $PMI_RANK $((PMI_RANK / OMPI_COMM_WORLD_LOCAL_SIZE))'",
        "mpirun -np 4 -host a,a,b,b sh -c 'echo $PMI_RANK $((PMI_RANK / OMPI_COMM_WORLD_LOCAL_SIZE))'",
        "mpirun -np 4 --hostfile hosts sh -c 'echo $PMI_RANK $((PMI_RANK / OMPI_COMM_WORLD_LOCAL_SIZE))'",
        "deepspeed --hostfile hosts --no_local_rank --no_python sh -c 'echo $RANK $CROSS_RANK'",
        "deepspeed -H hosts --num_gpus=2 --no_local_rank --no_python sh -c 'echo $RANK $CROSS_RANK'",
        "deepspeed --include a:0,1@b:2,3 --no_local_rank --no_python sh -c 'echo $RANK $CROSS_RANK'",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        expect(
            shell(
                "printf '# two nodes\\na slots=2\\n\\nb slots=2 # the other\\n' >hosts; \"$M\" dry-run --jobs 1 -- %s",
                lines[i]),
            "0 0\n1 0\n2 1\n3 1\n");
}

static void more_ranks_than_the_words_say_can_be_asked_for(void **state)
{
    (void)state;
    expect(MEMTRACE("dry-run --jobs 1 --ranks 16 --only 15 -- srun -n 2 --ntasks-per-node 2 sh -c 'echo $SLURM_PROCID "
                    "$SLURM_NODEID'"),
           "15 7\n");
}

static void a_script_gets_its_local_rank_as_an_argument(void **state)
{
    (void)state;
    expect(shell(MAKE_PYTHON
                 "touch bin/deepspeed; chmod +x bin/deepspeed; PATH=$PWD/bin:$PATH;"
                 "\"$M\" dry-run --only 1 -- deepspeed --num_gpus 2 train.py --deepspeed ds.json;"
                 "\"$M\" dry-run --jobs 1 -- bin/deepspeed --num_gpus 1 --module my.trainer;"
                 "\"$M\" dry-run --jobs 1 -- bin/python3 -m deepspeed.launcher.runner --num_gpus 1 train.py;"
                 "\"$M\" dry-run --jobs 1 -- python3 -u -m torch.distributed.launch --nproc_per_node 1 train.py -x;"
                 "\"$M\" dry-run --jobs 1 -- python3 -m torch.distributed.launch --use_env train.py"),
           "python -u train.py --local_rank=1 --deepspeed ds.json\n"
           "python -u -m my.trainer --local_rank=0\n"
           "python -u train.py --local_rank=0\n"
           "python -u train.py --local-rank=0 -x\n"
           "python -u train.py\n");
}

static void variables_are_set_for_ranks(void **state)
{
    (void)state;
    expect(shell("C=3 \"$M\" dry-run --jobs 1 -- srun -n 1 --export=ALL,A=1,B=x=y sh -c 'echo $A $B $C'"), "1 x=y 3\n");
    expect(shell("C=3 \"$M\" dry-run --jobs 1 -- mpirun -np 1 -x A=1 -genv B x=y -x C sh -c 'echo $A $B $C'"),
           "1 x=y 3\n");
}

static void another_job_s_ranks_do_not_count(void **state)
{
    (void)state;
    expect(shell("RANK=7 WORLD_SIZE=8 SLURM_PROCID=5 \"$M\" dry-run --jobs 1 -- srun -n 1 " SLURM), "0/1 0/1 0/1\n");
    expect(shell("SLURM_PROCID=5 \"$M\" dry-run --jobs 1 -- mpirun -np 1 sh -c 'echo $SLURM_PROCID $PMI_RANK'"), "0\n");
}

static void srun_reads_the_job_that_it_is_in(void **state)
{
    (void)state;
    expect(shell("SLURM_NTASKS=4 SLURM_NNODES=2 \"$M\" dry-run --jobs 1 --only 3 -- srun " SLURM), "3/4 1/2 1/2\n");
    expect(shell("SLURM_NTASKS=16 SLURM_NNODES=2 \"$M\" dry-run --jobs 1 -- srun -n 1 " SLURM), "0/1 0/1 0/1\n");
}

/* An interpreter that answers as python/memtrace/dry/accelerate_launch.py does. */
static void accelerate_says_what_it_would_start(void **state)
{
    (void)state;
    static const char make[] =
        "mkdir bin; printf '#!/bin/sh\\n' >bin/accelerate; chmod +x bin/accelerate; cat >bin/python3 <<'END'\n"
        "#!/bin/sh\n"
        "[ \"$2\" = memtrace.dry.accelerate_launch ] || exit 3\n"
        "case \"$*\" in\n"
        "  *--bad*) echo not so; echo no such option >&2; exit 2;;\n"
        "  *--one*) printf 'A=1\\0\\0sh\\0-c\\0echo $A$RANK cards\\0' >\"$3\";;\n"
        "  *) printf \"A=x=y\\0\\0torchrun\\0--nproc-per-node=2\\0--no-python\\0$6\\0-c\\0\"'echo $A "
        "$RANK/$WORLD_SIZE\\0' >\"$3\";;\n"
        "esac\n"
        "END\n"
        "chmod +x bin/python3; PATH=$PWD/bin:$PATH; ";
    expect(shell("%s \"$M\" dry-run --jobs 1 -- accelerate launch -n sh", make), "x=y 0/2\nx=y 1/2\n");
    expect(shell("\"$M\" dry-run --jobs 1 -- bin/accelerate-launch -n sh"), "x=y 0/2\nx=y 1/2\n");
    expect(shell("\"$M\" dry-run --jobs 1 -- bin/python3 -m accelerate.commands.launch -n sh"), "x=y 0/2\nx=y 1/2\n");
    expect(shell("\"$M\" dry-run --jobs 1 --ranks 4 --only 3 -- bin/accelerate launch -n sh"), "x=y 3/4\n");
    expect(shell("\"$M\" dry-run --jobs 1 -- bin/accelerate launch --one"), "1 cards\n");
    const struct said *said = shell("\"$M\" dry-run --jobs 1 -- bin/accelerate launch --bad");
    assert_int_equal(said->code, 2);
    assert_says(said->err, "accelerate launch: no such option");
}

static void what_is_not_understood_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *words, *says;
    } cases[] = {
        {"torchrun --what 1 train.py", "torchrun --what: not understood; leave it out, or give the number of ranks"},
        {"deepspeed --exclude a:0 train.py", "deepspeed --exclude: not understood"},
        {"deepspeed --include a:0@b:0,1 train.py", "--include a:0@b:0,1: each host needs the same number of cards"},
        {"deepspeed --hostfile none train.py", "--hostfile none: No such file"},
        {"deepspeed --launcher=openmpi train.py", "deepspeed --launcher=openmpi: only pdsh is understood"},
        {"srun -n 2 --multi-prog a.conf", "srun --multi-prog: not understood"},
        {"srun -n 2 --export=NONE true", "srun --export=NONE: ranks have the whole environment"},
        {"srun -N 2-4 true", "srun -N 2-4: a dry run needs a number; leave it out, or give the number of ranks and the "
                             "program without srun; "
                             "see --ranks"},
        {"srun true", "srun: how many tasks?"},
        {"srun -N 2 torchrun --nproc-per-node 2 train.py",
         "srun starts torchrun, a launcher itself: run torchrun alone"},
        {"mpirun true", "mpirun: how many processes?"},
        {"mpirun -np 2 --map-by node true", "--map-by node: only ppr:N:node and places within a node"},
        {"mpirun -np 2 -host a:2,b:1 true", "-host a:2,b:1: no list of hosts with equal numbers"},
        {"mpirun -np 1 a : -np 1 b", "mpirun starts several programs"},
        {"mpirun -np", "mpirun -np needs a value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("\"$M\" dry-run --jobs 1 -- %s", cases[i].words);
        assert_int_equal(said->code, 2);
        assert_says(said->err, cases[i].says);
    }
}

static int enter(void **state)
{
    *state = enter_folder("launchers");
    return 0;
}

#define LAUNCHER_TEST(test) cmocka_unit_test_setup_teardown(test, enter, leave_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAUNCHER_TEST(ranks_have_the_variables_of_their_launcher),
        LAUNCHER_TEST(numbers_of_nodes_are_understood),
        LAUNCHER_TEST(more_ranks_than_the_words_say_can_be_asked_for),
        LAUNCHER_TEST(a_script_gets_its_local_rank_as_an_argument),
        LAUNCHER_TEST(variables_are_set_for_ranks),
        LAUNCHER_TEST(another_job_s_ranks_do_not_count),
        LAUNCHER_TEST(srun_reads_the_job_that_it_is_in),
        LAUNCHER_TEST(accelerate_says_what_it_would_start),
        LAUNCHER_TEST(what_is_not_understood_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
