"""Calls beyond a storage, a dimension or the cards: errors of Python, as in PyTorch, and never the end of the process. Skipped where
there is a card."""
import json

import pytest
import torch

from test_dry_run import Dry

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")

OUTSIDE = "out of bounds for storage of size 16"
OVERFLOW = "Storage size calculation overflowed"
FULL = "CUDA out of memory"
DIMENSION = "is out of bounds for dimension"
NO_CARD = "Invalid device argument"

# Expressions over `four`, a tensor of four ones on the card, and the words of their errors.
FAILS = {
    "four.as_strided((100000,), (1,)).fill_(7)": OUTSIDE,
    "four.as_strided((2,), (1,), 1 << 40).clone()": OUTSIDE,
    "four.as_strided((2,), (1,), -100)": "invalid storage offset -100",
    "four.expand(1000, 4).as_strided((2000,), (1,))": OUTSIDE,
    "torch.as_strided_scatter(four, torch.zeros(100000, device='cuda'), (100000,), (1,))": OUTSIDE,
    "four.set_(four.untyped_storage(), 1000, (4,), (1,))": OUTSIDE,
    "four.set_(four.untyped_storage(), -5, (3,), (1,))": "invalid storage offset -5",
    "four.set_(four.untyped_storage(), 0, (1 << 62,), (1,))": OVERFLOW,
    "four.set_(torch.ones(4).untyped_storage(), 0, (4,), (1,))": "device",
    "four.untyped_storage().resize_(-1)": "cannot be represented as a size_t",
    "four.resize_(1 << 62)": OVERFLOW,
    "torch.eye(1 << 31, device='cuda')": OVERFLOW,
    "torch.empty(1 << 62, device='cuda')": OVERFLOW,
    "torch.empty(1 << 60, device='cuda')": FULL,
    "torch.arange(1 << 40, device='cuda')": FULL,
    "four.expand(1 << 40, 4).contiguous()": FULL,
    "torch.from_dlpack(four).resize_(100)": "not resizable",
    "shrunk(four, 8).nonzero()": "needs a storage of 16 bytes; there are 8",
    "functional.embedding(index(5), torch.zeros(5, 3, device='cuda'))": DIMENSION + " 0 with size 5",
    "functional.embedding(index(50257), torch.zeros(50257, 768, device='cuda'))": DIMENSION + " 0 with size 50257",
    "functional.embedding_bag(index(7).view(1, 1), torch.zeros(5, 3, device='cuda'))": DIMENSION + " 0 with size 5",
    "functional.cross_entropy(torch.zeros(1, 5, device='cuda'), index(5))": "aten::nll_loss_forward: index 5 is out of bounds",
    "functional.cross_entropy(torch.zeros(1, 5, 2, device='cuda'), index(5).expand(1, 2))": DIMENSION + " 1 with size 5",
    "functional.one_hot(index(9), 5)": DIMENSION + " 1 with size 5",
    "functional.binary_cross_entropy(four * 2, four)": "between 0 and 1",
    "torch.multinomial(four - 2, 1)": "probability tensor",
    "four[index(4)]": "aten::index: index 4 is out of bounds for dimension 0 with size 4",
    "four[index(-5)]": DIMENSION,
    "four.view(2, 2)[:, index(2)]": DIMENSION + " 1 with size 2",
    "four.__setitem__(index(4), 1.0)": DIMENSION,
    "four.gather(-1, index(-1))": DIMENSION,
    "four.scatter_add_(0, index(4), four)": DIMENSION,
    "four.index_copy_(0, index(4), four[:1])": DIMENSION,
    "four.take(index(4))": "aten::take: index 4 is out of bounds for 4 elements",
    "torch.cuda.set_device(5)": "invalid device ordinal",
    "torch.cuda.device(5).__enter__()": "invalid device ordinal",
    "torch.ones(1, device='cuda:5')": "invalid device ordinal",
    "torch.cuda.memory_stats(9)": NO_CARD,
    "torch.cuda.memory_allocated(-2)": NO_CARD,
    "torch.cuda.mem_get_info(9)": NO_CARD,
    "torch.cuda.reset_peak_memory_stats(9)": NO_CARD,
    "torch.cuda.current_stream(100)": NO_CARD,
    "torch.cuda.set_per_process_memory_fraction(0.5, 9)": NO_CARD,
    "torch.cuda.set_per_process_memory_fraction(float('nan'))": "invalid fraction:nan",
}

# The same, with their values.
GIVES = {
    "four.expand(1000, 4).as_strided((3,), (0,), 2).tolist()": [1.0, 1.0, 1.0],
    "four[2:].resize_(100).untyped_storage().nbytes()": 408,
    "shrunk(four, 8).fill_(3).shape[0]": 4,
    "shrunk(four, 0).cpu().shape[0]": 4,
    "[four.set_().numel(), four.untyped_storage().nbytes()]": [0, 0],
    "list(four.byte().untyped_storage()[1:3])": [1, 1],
    "torch.from_dlpack(four.cumsum(0)[1:]).mul_(2).tolist()": [4.0, 6.0, 8.0],
    "[torch.from_dlpack(four[2:]).zero_().numel(), four.tolist()]": [2, [1.0, 1.0, 0.0, 0.0]],
    "torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(four)).nonzero().numel()": 4,
    "torch.from_dlpack(torch.zeros(1 << 20, device='cuda')).numel()": 1 << 20,
    "four[index(-1)].tolist()": [1.0],
    "four.index_fill(0, index(-1), 2).tolist()": [1.0, 1.0, 1.0, 2.0],
    "functional.cross_entropy(torch.zeros(1, 5, device='cuda'), index(-100)).isnan().item()": True,
    "four[torch.full((1 << 20,), 9, device='cuda')].numel()": 1 << 20,  # too many to be known
    "(index(1) // index(0)).numel()": 1,
}

PROGRAM = """
import json, torch
from torch.nn import functional
def index(value):
    return torch.tensor([value], device="cuda")
def shrunk(tensor, size):
    tensor.untyped_storage().resize_(size)
    return tensor
said = {}
for expression in json.load(open("expressions.json")):
    four = torch.ones(4, device="cuda")
    try:
        said[expression] = eval(expression)
    except Exception as error:
        said[expression] = str(error)
    later = [torch.zeros(size, device="cuda") + 1 for size in (3, 100, 5000)]
    if any(one.cpu().min() != 1 for one in later):
        said[expression] = "other tensors were overwritten"
print(json.dumps(said, default=str))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What each expression gives or says, all in one process, whose freed memory is overwritten."""
    dry = Dry(tmp_path_factory.mktemp("bounds"))
    (dry.folder / "expressions.json").write_text(json.dumps([*FAILS, *GIVES]))
    return json.loads(dry.run(PROGRAM, MALLOC_PERTURB_="165").stdout)


@pytest.mark.parametrize("expression, words", FAILS.items())
def test_it_fails_as_in_pytorch(said, expression, words):
    assert words in str(said[expression])


@pytest.mark.parametrize("expression, value", GIVES.items())
def test_it_has_a_value(said, expression, value):
    assert said[expression] == value


def test_a_storage_that_set_grows_is_counted(tmp_path):
    dry = Dry(tmp_path)
    done = dry.run("""
        import torch
        four = torch.zeros(4, device="cuda")
        view = torch.empty(0, device="cuda").set_(four.untyped_storage(), 0, (100000,), (1,))
        print(torch.cuda.memory_allocated(), four.untyped_storage().nbytes())
        """)
    assert done.stdout.split() == ["400384", "400000"]
