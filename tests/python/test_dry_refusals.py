"""Programs that need a part of PyTorch that a build without CUDA, or a card without data, has not: each runs dry, or fails with an
error that names the operator. Skipped where there is a card."""
import textwrap

import pytest
import torch
from test_dry_run import dry  # noqa: F401

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")

# A library of operators whose kernels for cards are not there: as torchvision for a PyTorch without CUDA.
OPERATORS = """
import torch
library = torch.library.Library("torchvision", "DEF")
library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
library.define("pool(Tensor input, Tensor boxes, int size) -> Tensor")
library.define("vote(Tensor input) -> Tensor")
def keep_apart(boxes, scores, threshold):
    last, kept = -1e9, []
    for i, box in sorted(enumerate(boxes.tolist()), key=lambda each: each[1][0]):
        if box[0] >= last:
            kept, last = [*kept, i], box[2]
    return torch.tensor(kept, dtype=torch.long)
library.impl("nms", keep_apart, "CPU")
@torch.library.register_fake("torchvision::nms")
def keep_some(boxes, scores, threshold):
    return boxes.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.long)
library.impl("pool", lambda input, boxes, size: input.new_empty(len(boxes), input.shape[1], size, size), "Meta")
"""


def run(dry, source, *options, **named):  # noqa: F811
    return dry.run(textwrap.dedent(source), *options, **named)


# ---- pinned memory ----

def test_programs_see_which_memory_they_pinned(dry):  # noqa: F811
    said = run(dry, """
        import torch
        here = torch.ones(64)
        there = here.pin_memory()
        print(here.is_pinned(), there.is_pinned(), there[9:].is_pinned(), torch.empty(3, pin_memory=True).is_pinned())
        runtime = torch.cuda.cudart()
        runtime.cudaHostRegister(here.data_ptr(), here.nbytes, 0)
        print(here.is_pinned(), there.cuda(non_blocking=True).sum().item())
        runtime.cudaHostUnregister(here.data_ptr())
        address = there.data_ptr()
        del there
        print(here.is_pinned(), torch.frombuffer(bytearray(64), dtype=torch.uint8).is_pinned())
        """)
    assert said.stdout.splitlines() == ["False True True True", "True 64.0", "False False"]


@pytest.mark.parametrize("option", ["static_graph", "find_unused_parameters"])
def test_ddp_with_batch_norm_of_all_ranks_runs(dry, option):  # noqa: F811
    said = run(dry, f"""
        import os, torch
        from torch import nn
        torch.distributed.init_process_group("nccl")
        net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10)).cuda()
        net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
        ddp = nn.parallel.DistributedDataParallel(net, device_ids=[0], {option}=True)
        optimizer = torch.optim.SGD(ddp.parameters(), 0.1)
        for _ in range(3):
            ddp(torch.randn(400, 3, 8, 8, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        print(net[1].weight.shape, net[1].running_mean.shape)
        """, "--ranks", "2", "--only", "0", "--steps", "9")
    assert said.stdout == "torch.Size([8]) torch.Size([8])\n"


# ---- DataParallel ----

DATA_PARALLEL = """
import torch
from torch import nn
net = nn.DataParallel(nn.Linear(1024, 2048, bias=False)).cuda()
for _ in range(2):
    y = net(torch.ones(64, 1024, device="cuda"))
    y.sum().backward()
print(tuple(y.shape), y.device, net.module.weight.grad.shape)
print([torch.cuda.max_memory_allocated(device) >> 20 for device in range(torch.cuda.device_count())])
"""


def test_data_parallel_on_one_card_calls_the_module(dry):  # noqa: F811
    said = dry.run(DATA_PARALLEL, "--steps", "9")
    with_it = said.stdout.splitlines()
    assert with_it[0] == "(64, 2048) cuda:0 torch.Size([2048, 1024])"
    said = dry.run(DATA_PARALLEL.replace("nn.DataParallel(nn.Linear(1024, 2048, bias=False))",
                                         "nn.Sequential(nn.Linear(1024, 2048, bias=False))").replace("net.module", "net[0]"),
                   "--steps", "9")
    assert said.stdout.splitlines()[1] == with_it[1]


def test_data_parallel_copies_the_weights_to_other_cards(dry):  # noqa: F811
    said = dry.run(DATA_PARALLEL, "--steps", "9", "--cards", "2")
    shape, peaks = said.stdout.splitlines()
    assert shape == "(64, 2048) cuda:0 torch.Size([2048, 1024])"
    first, second = map(int, peaks.strip("[]").split(","))
    assert second >= 16  # the copy of the weight, and its gradient
    assert first > second


# ---- sparse tensors ----

def test_sparse_tensors_are_made_of_dense_ones(dry):  # noqa: F811
    said = run(dry, """
        import torch
        s = torch.sparse_coo_tensor(torch.tensor([[0, 1, 1], [2, 0, 0]]), torch.tensor([3.0, 4.0, 5.0]), (2, 3)).cuda()
        c, ones = s.coalesce(), torch.ones(2, 3, device="cuda")
        print(c.indices().tolist(), c.values().tolist(), s.to_dense().tolist())
        print((s + s).coalesce().values().tolist(), (ones + s).tolist(), torch.add(ones, s, alpha=2).tolist())
        print((s * 2).coalesce().values().tolist(), (c * (ones * 3)).values().tolist(), s.sum().item())
        print(torch.sparse.mm(s, ones.t()).tolist(), torch.sparse.mm(s.t(), ones).tolist())
        print(torch.addmm(ones.t()[:2, :2], s, ones.t()).tolist())
        print(torch.tensor([[0.0, 1], [2, 0]], device="cuda").to_sparse().indices().tolist(), s.cpu().to_dense().tolist())
        print(c.sparse_mask(c).values().tolist(), s.clone()._nnz(), s.zero_()._nnz())
        """)
    assert said.stdout.splitlines() == [
        "[[0, 1], [2, 0]] [3.0, 9.0] [[0.0, 0.0, 3.0], [9.0, 0.0, 0.0]]",
        "[6.0, 18.0] [[1.0, 1.0, 4.0], [10.0, 1.0, 1.0]] [[1.0, 1.0, 7.0], [19.0, 1.0, 1.0]]",
        "[6.0, 18.0] [9.0, 27.0] 12.0",
        "[[3.0, 3.0], [9.0, 9.0]] [[9.0, 9.0, 9.0], [0.0, 0.0, 0.0], [3.0, 3.0, 3.0]]",
        "[[4.0, 4.0], [10.0, 10.0]]",
        "[[0, 1], [1, 0]] [[0.0, 0.0, 3.0], [9.0, 0.0, 0.0]]",
        "[3.0, 9.0] 3 0"]


@pytest.mark.parametrize("optimizer", ["SparseAdam(w)", "SGD(w, 0.1)", "Adagrad(w)"])
def test_an_embedding_has_sparse_gradients(dry, optimizer):  # noqa: F811
    said = run(dry, f"""
        import torch
        net = torch.nn.Embedding(100000, 64, sparse=True).cuda()
        w = net.parameters()
        optimizer = torch.optim.{optimizer}
        for _ in range(2):
            net(torch.randint(0, 100000, (64, 512), device="cuda")).pow(2).sum().backward()
            gradient = net.weight.grad
            print(gradient._nnz(), gradient._values().nbytes >> 20, gradient.coalesce()._nnz() <= 32768)
            optimizer.step()
            optimizer.zero_grad()
        """, "--steps", "9")
    assert said.stdout == "32768 8 True\n" * 2


def test_the_elements_of_a_sparse_tensor_that_was_not_computed_are_assumed(dry):  # noqa: F811
    said = run(dry, """
        import torch
        large = torch.randn(2000, 1000, device="cuda").to_sparse()
        print(large._nnz(), large.t().coalesce()._nnz())
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("heads", torch.ones(6, 8, dtype=torch.bool).to_sparse(), persistent=False)
        print(Net().cuda().heads.device)
        """)
    assert said.stdout.splitlines() == ["2000000 2000000", "cuda:0"]
    assert "aten::nonzero (program.py:3)" in said.stderr and "aten::_unique2 (all different) (program.py:4)" in said.stderr


@pytest.mark.parametrize("call,name", [
    ("torch.sparse.softmax(s, 1)", "aten::_sparse_softmax"), ("torch.sparse.mm(s, s)", "aten::_sparse_sparse_matmul"),
    ("s * s", "aten::mul"), ("s.to_sparse_csr().to_dense()", "aten::_to_dense"),
    ("torch.nested.nested_tensor([torch.ones(2, device='cuda')]).exp()", "aten::exp"),
    ("torch.ops.torchvision.vote(s.to_dense())", "torchvision::vote")])
def test_what_is_not_simulated_fails_with_the_operator_s_name(dry, call, name):  # noqa: F811
    said = run(dry, OPERATORS + f"s = torch.eye(3, device='cuda').to_sparse()\n{call}\n", code=1)
    assert name in said.stderr.partition("Traceback")[2]


# ---- nested tensors ----

ENCODERS = """
import torch
from torch import nn
def peak_of(encoder, *shape, mask=None):
    x = torch.randn(*shape, device="cuda")
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    torch.cuda.reset_peak_memory_stats()
    with torch.no_grad():
        y = encoder.eval()(x, src_key_padding_mask=mask)
    print(tuple(y.shape), torch.cuda.memory_stats()["requested_bytes.all.peak"] - before)
def encoder_of(width, heads, **options):
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True), 2, **options).cuda()
padding = torch.zeros(8, 1024, dtype=torch.bool, device="cuda")
padding[:, 800:] = True
padding[1:, 600:] = True
torch.nn.Linear(8, 8).cuda()(torch.ones(8, 8, device="cuda"))  # takes cuBLAS's workspaces
"""
# A layer has its input, the attention's, and the feed-forward net's result and inner one of four times the width.
LAYER = 7 * 4 * 512
MASK = 4 * 8 * 1024  # in floating point


def test_an_encoder_packs_the_tokens_that_are_not_padding(dry):  # noqa: F811
    said = run(dry, ENCODERS + textwrap.dedent("""
        encoder = encoder_of(512, 8)
        peak_of(encoder, 8, 1024, 512)
        peak_of(encoder, 8, 1024, 512, mask=padding)
        peak_of(encoder_of(512, 8, mask_check=False), 8, 1024, 512, mask=padding)
        peak_of(encoder_of(520, 26), 8, 1024, 520, mask=padding)
        peak_of(encoder, 8, 1024, 512, mask=torch.randn(2048, 1024, device="cuda")[:8] > 9)
        texts = torch.nested.nested_tensor([torch.ones(n, 512, device="cuda") for n in (2, 3)])
        print(texts[1].shape, torch.nested.to_padded_tensor(nn.Linear(512, 8).cuda()(texts), 0.0).shape)
        """))
    dense, packed, unchecked, unfused, unknown, nested = said.stdout.splitlines()
    assert dense == f"(8, 1024, 512) {8 * 1024 * LAYER}"
    assert packed == unchecked == f"(8, 1024, 512) {(800 + 7 * 600) * LAYER + MASK}"
    assert unfused.startswith("(8, 1024, 520) ")
    assert unknown == f"(8, 1024, 512) {8 * 1024 * LAYER + MASK}"
    assert nested == "torch.Size([3, 512]) torch.Size([2, 3, 8])"
    assert "_nested_tensor_from_mask (no padding) (program.py:" in said.stderr


# ---- types and settings ----

def test_types_of_a_card_are_there_without_cuda(dry):  # noqa: F811
    said = run(dry, """
        import torch
        kind = torch.cuda.FloatTensor
        made = kind(4, 4).fill_(1)
        print(made.device, made.dtype, kind([1, 2]).tolist(), kind().numel(), kind(torch.Size((2, 3))).shape)
        print(isinstance(made, kind), isinstance(made.cpu(), kind), isinstance(made, torch.cuda.HalfTensor))
        print(made.type(), made.cpu().type(kind).device, made.type("torch.cuda.HalfTensor").dtype)
        torch.set_default_tensor_type("torch.cuda.DoubleTensor")
        print(torch.zeros(3).device, torch.zeros(3).dtype)
        torch.set_default_tensor_type(torch.FloatTensor)
        print(torch.zeros(3).device, torch.zeros(3).dtype)
        """)
    assert said.stdout.splitlines() == [
        "cuda:0 torch.float32 [1.0, 2.0] 0 torch.Size([2, 3])", "True False False",
        "torch.cuda.FloatTensor cuda:0 torch.float16", "cuda:0 torch.float64", "cpu torch.float32"]


def test_settings_of_the_allocator_are_taken_before_the_first_block(dry):  # noqa: F811
    said = run(dry, """
        import torch
        torch.cuda.memory._set_allocator_settings("roundup_power2_divisions:4")
        blocks = [torch.empty(int(30 * 2**20), dtype=torch.uint8, device="cuda") for _ in range(2)]
        print(torch.cuda.memory_reserved() >> 20)
        torch._C._accelerator_setAllocatorSettings("roundup_power2_divisions:4")
        torch._C._accelerator_setAllocatorSettings("max_split_size_mb:64")
        """)
    assert said.stdout == "64\n"
    assert said.stderr.count("allocator settings after the first tensor on a card are left out") == 1
    assert "are left out (max_split_size_mb:64)" in said.stderr


# ---- other libraries ----

def test_an_operator_without_a_kernel_for_cards_has_shapes_and_blocks(dry):  # noqa: F811
    said = run(dry, OPERATORS + textwrap.dedent("""
        boxes = torch.tensor([[0.0, 0, 4, 4], [1, 1, 3, 3], [5, 5, 9, 9]], device="cuda")
        print(torch.ops.torchvision.nms(boxes, torch.ones(3, device="cuda"), 0.5).tolist())
        unknown = torch.rand(100000, 4, device="cuda")[:300]
        print(torch.ops.torchvision.nms(unknown, torch.ones(300, device="cuda"), 0.5).shape)
        before = torch.cuda.memory_allocated()
        pooled = torch.ops.torchvision.pool(torch.randn(2, 256, 8, 8, device="cuda"), unknown, 7)
        print(pooled.device, tuple(pooled.shape), torch.cuda.memory_allocated() - before >= pooled.nbytes)
        """))
    assert said.stdout.splitlines() == ["[0, 2]", "torch.Size([300])", "cuda:0 (300, 256, 7, 7) True"]
    assert "torchvision::nms (a size) (program.py:" in said.stderr
