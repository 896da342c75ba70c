"""The simulated card as a program of PyTorch sees it. Skipped where there is a card."""
import pytest
import torch

from test_dry_run import dry  # noqa: F401

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")

STEP = """
import torch
model = torch.nn.Linear(64, 64).cuda()
model(torch.ones(8, 64, device="cuda")).sum().backward()
"""


@pytest.mark.parametrize("card", ["p100", "v100-16gb", "a10g", "rtx3060"])
def test_a_card_of_any_age_is_one_that_pytorch_has_kernels_for(dry, card):
    said = dry.run(STEP + "print(torch.cuda.get_device_name())", "--device", f"sim:{card}")
    assert said.stdout and "Warning" not in said.stderr, said.stderr
