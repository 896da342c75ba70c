"""Programs of many ranks, run dry, each rank by itself. Skipped where there is a card."""
import textwrap

import pytest
import torch
from test_dry_run import dry  # noqa: F401

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")

BEGIN = """
import os, torch, torch.distributed as dist
from torch import nn
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
def print(*given):  # in one piece, since ranks print side by side
    os.write(1, (" ".join(map(str, given)) + "\\n").encode())
"""
MIB = 1 << 20


def run(dry, source, *options):  # noqa: F811
    """Runs a program whose ranks begin as BEGIN does."""
    return dry.run(BEGIN + textwrap.dedent(source), *options)


def lines(said):
    return said.stdout.splitlines()


def test_collectives_give_what_ranks_with_the_same_values_would(dry):  # noqa: F811
    said = run(dry, """
        one = torch.full((4,), rank + 1.0, device="cuda")
        dist.all_reduce(one)
        parts = [torch.empty(2, device="cuda") for _ in range(size)]
        dist.all_gather(parts, torch.ones(2, device="cuda"))
        whole = torch.empty(2 * size, device="cuda")
        dist.all_gather_into_tensor(whole, torch.arange(2.0, device="cuda"))
        part = torch.empty(2, device="cuda")
        dist.reduce_scatter_tensor(part, torch.arange(2.0 * size, device="cuda"))
        sent = torch.empty(size, device="cuda", dtype=torch.long)
        dist.all_to_all_single(sent, torch.arange(size, device="cuda"))
        dist.barrier()
        print(one.tolist(), parts[1].tolist(), whole.tolist(), part.tolist(), sent.tolist(), dist.get_backend())
        dist.destroy_process_group()
        """, "--ranks", "2")
    assert lines(said) == ["[2.0, 2.0, 2.0, 2.0] [1.0, 1.0] [0.0, 1.0, 0.0, 1.0] [0.0, 2.0] [0, 0] nccl",
                           "[4.0, 4.0, 4.0, 4.0] [1.0, 1.0] [0.0, 1.0, 0.0, 1.0] [4.0, 6.0] [1, 1] nccl"]


def test_collectives_change_shapes_of_values_that_were_not_computed(dry):  # noqa: F811
    said = run(dry, """
        unknown = torch.ones(1 << 20, device="cuda")[:8].reshape(4, 2)  # of a tensor that is too large for values
        unknown = torch.stack(list(unknown))
        part = torch.zeros(2, 2, device="cuda")
        dist.reduce_scatter_tensor(part, unknown)
        whole = torch.zeros(8, 2, device="cuda")
        dist.all_gather_into_tensor(whole, unknown)
        print(part.sum().item(), whole.sum().item())
        """, "--ranks", "2", "--only", "0")
    assert said.returncode == 0, said.stderr
    assert said.stderr.count("not computed") == 1  # one line of the program


def test_objects_go_from_rank_to_rank(dry):  # noqa: F811
    said = run(dry, """
        names = [f"run of {rank}"]
        dist.broadcast_object_list(names, src=0)
        mine = [None]
        dist.scatter_object_list(mine, [f"part {i}" for i in range(size)] if rank == 0 else None, src=0)
        all_ranks = [None] * size
        dist.all_gather_object(all_ranks, {"rank": rank})
        if rank == 0:
            dist.recv_object_list(names, src=2)  # which is run later
        if rank == 2:
            dist.send_object_list(["from 2"], dst=0)
        print(rank, names[0], "|", mine[0], "|", all_ranks[0])
        """, "--ranks", "3")
    assert sorted(lines(said)) == ["0 from 2 | part 0 | {'rank': 0}", "1 run of 0 | part 1 | {'rank': 1}",
                                   "2 run of 0 | part 2 | {'rank': 2}"]


def test_a_rank_that_is_not_run_is_told_of_and_its_numbers_are_this_ranks(dry):  # noqa: F811
    said = run(dry, """
        seed = torch.tensor([rank], device="cuda")
        dist.broadcast(seed, src=0)
        print(seed.item())
        """, "--ranks", "4", "--only", "2")
    assert lines(said) == ["2"]
    assert "integers sent by rank 0 (this rank's own) (program.py:" in said.stderr


def test_ddp_has_buckets_beside_the_gradients(dry):  # noqa: F811
    said = run(dry, """
        model = nn.Linear(1024, 2048, bias=False).cuda()
        before = torch.cuda.memory_allocated()
        ddp = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
        for _ in range(3):
            ddp(torch.randn(8, 1024, device="cuda")).sum().backward()
            gradient = model.weight.grad
            model.zero_grad()
        print(before, torch.cuda.memory_allocated() - before - 8 * MIB)
        """.replace("MIB", str(MIB)), "--ranks", "2", "--only", "1", "--steps", "9")
    for line in lines(said):
        weight, rest = map(int, line.split())
        assert weight == 8 * MIB
        assert rest == 8 * MIB + 2 * 32 * MIB  # the bucket, and cuBLAS's workspaces of two threads


def test_what_ranks_tell_each_other_is_no_file_of_the_program(dry):  # noqa: F811
    said = dry.run("""
        import torch
        import torch.distributed as dist
        dist.init_process_group("nccl")
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64).cuda())
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(20):
            model(torch.ones(8, 64, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        """, "--ranks", "2")
    assert "ended since they repeat" in said.stderr and "written to a folder" not in said.stderr


def test_fsdp_shards_weights_and_tensor_parallel_splits_them(dry):  # noqa: F811
    said = run(dry, """
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
        mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("data", "tensor"))
        layers = nn.ModuleList(nn.Sequential(nn.Linear(512, 2048, bias=False), nn.GELU(), nn.Linear(2048, 512, bias=False))
                               for _ in range(2)).cuda()
        for layer in layers:
            parallelize_module(layer, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
            fully_shard(layer, mesh=mesh["data"])
        torch.cuda.empty_cache()
        print(sum(p.to_local().nbytes for p in layers.parameters()), torch.cuda.memory_allocated())
        optimizer = torch.optim.AdamW(layers.parameters())
        for _ in range(2):
            x = torch.randn(64, 512, device="cuda")
            for layer in layers:
                x = layer(x)
            x.sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        """, "--ranks", "4", "--only", "0,3")
    assert lines(said) == [f"{4 * MIB} {4 * MIB}"] * 2
    assert "not known is what is taken inside" not in said.stderr


def test_stages_of_a_pipeline_tell_each_other_their_shapes(dry):  # noqa: F811
    said = run(dry, """
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B
        stage = PipelineStage(nn.Sequential(nn.Linear(256, 256), nn.GELU()).cuda(), rank, size, torch.device("cuda", rank))
        schedule = Schedule1F1B(stage, 4, loss_fn=nn.functional.mse_loss)
        for _ in range(2):
            given = [torch.randn(64, 256, device="cuda")] if rank == 0 else []
            target = torch.randn(64, 256, device="cuda") if rank == size - 1 else None
            schedule.step(*given, target=target)
        print(rank, stage.submod[0].weight.grad.shape[0])
        """, "--ranks", "2", "--steps", "all")
    assert sorted(lines(said)) == ["0 256", "1 256"]


OUTSIDE = "SELECT name, max(bytes) FROM outside WHERE kind = 'nccl' GROUP BY name ORDER BY min(event), name"
FIRST, RINGS, PEER = 383778816, 497025024, 132120576  # of the H100's profile


def test_nccl_takes_memory_as_groups_begin_at_first_collectives_and_by_peer(dry):  # noqa: F811
    said = run(dry, """
        def held():
            free, total = torch.cuda.mem_get_info()
            return total - free - torch.cuda.memory_reserved()
        before = held()
        x = torch.ones(4, device="cuda")
        context = held()
        for _ in range(2):
            dist.all_reduce(x)
            dist.all_gather([torch.empty(4, device="cuda") for _ in range(size)], x)
        rings = held()
        for _ in range(2):
            dist.send(x, (rank + 1) % size)
            dist.recv(x, (rank - 1) % size)
        dist.all_reduce(torch.ones(4), group=dist.new_group(backend="gloo"))
        peers = held()
        dist.all_reduce(x, group=dist.new_group())
        print(context - before, rings - context, peers - rings, held() - peers)
        """, "--ranks", "4", "--only", "2")
    beyond = 648937472 + 155189248 - (600 << 20)  # PyTorch's context and kernels, beyond the card's context
    assert lines(said) == [f"{beyond} {FIRST + RINGS} {2 * PEER} {RINGS}"]


def test_with_a_device_of_its_own_a_group_begins_at_once(dry):  # noqa: F811
    source = BEGIN.replace('"nccl"', '"nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"]))')
    dry.run(source, "--ranks", "2", "--only", "0")
    assert dry.rows(OUTSIDE) == [("first communicator", FIRST)]


def test_a_group_of_gloo_takes_nothing_of_a_card(dry):  # noqa: F811
    dry.run(BEGIN.replace('"nccl"', '"gloo"') + 'torch.ones(1, device="cuda"); dist.all_reduce(torch.ones(1))',
            "--ranks", "2", "--only", "0")
    assert dry.rows(OUTSIDE) == []


def test_what_nccl_takes_on_other_cards_is_said_not_to_be_known(dry):  # noqa: F811
    said = run(dry, 'dist.all_reduce(torch.ones(1, device="cuda"))', "--ranks", "2", "--only", "0", "--device", "sim:t4")
    assert dry.rows(OUTSIDE) == []
    assert "NCCL's memory is unknown for Tesla T4" in said.stderr


def test_what_nccl_takes_leaves_less_for_tensors(dry):  # noqa: F811
    source = """
        dist.all_reduce(torch.ones(1, device="cuda"))
        try:
            torch.empty(79616 << 20, dtype=torch.uint8, device="cuda")
            print("fits")
        except torch.OutOfMemoryError:
            print("does not fit")
        """
    assert lines(run(dry, source, "--ranks", "1")) == ["fits"]
    assert lines(run(dry, source, "--ranks", "2", "--only", "0")) == ["does not fit"]


SPREAD = """
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

def model_of():
    return nn.Sequential(nn.Linear(512, 1024, bias=False), nn.Linear(1024, 512, bias=False))

def train(model, optimizer=None):
    optimizer = optimizer or torch.optim.Adam(model.parameters(), foreach=False)
    for _ in range(3):
        model(torch.ones(2, 512, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
SPREADS = {
    "meta": """
        with torch.device("meta"):
            model = model_of()
        for layer in model:
            fully_shard(layer)
        fully_shard(model).to_empty(device="cuda")
        train(model)
        """,
    "fully_shard": "train(fully_shard(model_of().cuda()))",
    "tensor_parallel": """
        mesh = init_device_mesh("cuda", (size,))
        train(parallelize_module(model_of().cuda(), mesh, {"0": ColwiseParallel(), "1": RowwiseParallel()}))
        """,
    "fsdp": "train(FullyShardedDataParallel(model_of().cuda()))",
    "ddp_view": "train(DistributedDataParallel(model_of().cuda(), gradient_as_bucket_view=True))",
    "zero": """
        model = DistributedDataParallel(model_of().cuda())
        train(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, foreach=False))
        """,
}
# For each: the parameters, the optimizer's state, and the gradients of three steps of one of two ranks, in MiB; the model has 4.
# FSDP's are 4 before they are sharded, and DDP's are blocks of their own before they are copied into buckets, which are made anew.
EXPECTED = {"meta": (2, 4, 6), "fully_shard": (2, 4, 6), "tensor_parallel": (2, 4, 6), "fsdp": (4 + 2, 4, 6 + 12),
            "ddp_view": (4, 8, 4 + 4 + 12), "zero": (4, 4, 12)}

# MiB that the three steps gather, in forward and, unless kept until then, in backward: of FSDP2, a buffer and the parameters.
GATHERED = {"meta": 3 * 2 * (4 + 4), "fully_shard": 3 * (4 + 4), "fsdp": 3 * 4}


@pytest.mark.parametrize("how", SPREADS)
def test_what_is_spread_over_ranks_has_its_role(dry, how):  # noqa: F811
    run(dry, SPREAD + textwrap.dedent(SPREADS[how]), "--ranks", "2", "--only", "0", "--steps", "3")
    found = dict(dry.rows("""
        SELECT category, sum(bytes) >> 20 FROM (
            SELECT category, max(block_bytes) AS bytes FROM event JOIN label ON label.id = event.label
            WHERE kind = (SELECT id FROM event_kind WHERE name = 'relabel') GROUP BY category, allocation)
        GROUP BY category"""))
    assert (found["Param"], found["Opt State"], found["Gradient"]) == EXPECTED[how]
    assert dry.rows("""
        SELECT coalesce(sum(block_bytes), 0) >> 20 FROM event JOIN label ON label.id = event.label
        WHERE role = 'gathered parameter' AND kind = (SELECT id FROM event_kind WHERE name = 'alloc')
        """) == [(GATHERED.get(how, 0),)]
