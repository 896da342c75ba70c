"""Branches that no iteration of a loop enters."""
import argparse
import ast

import pytest

from memtrace.dry.branches import never_entered


class Raising:
    """Runs code of the program's where its truth or equality is asked for."""

    def __bool__(self):
        raise AssertionError

    __eq__ = __bool__


VARIABLES = {"args": argparse.Namespace(amp=True, mode="train"), "scaler": None, "net": Raising(), "step": 3, "verbose": False}


@pytest.mark.parametrize("condition, unused", [
    ("args.amp", "other()"), ("not args.amp", "one()"), ("args.mode == 'eval'", "one()"), ("scaler is not None", "one()"),
    ("net is None", "one()"), ("verbose and step % 10 == 0", "one()"), ("args.amp or step % 10 == 0", "other()"),
    ("step == 3", None), ("net", None), ("net == 3", None), ("args.amp and step % 10 == 0", None), ("ready", None),
    ("changed", None), ("net.training", None), ("1 < 2 < 3", None)])
def test_a_branch_is_never_entered_if_its_condition_can_not_change(condition, unused):
    module = ast.parse(f"""
def other():
    global changed
for step in range(100):
    if {condition}:
        one()
    else:
        other()
""")
    found = [ast.unparse(one) for one in never_entered(module.body[1], module, {**VARIABLES, "changed": False})]
    assert found == ([] if unused is None else [unused])
