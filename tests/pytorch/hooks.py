#!/usr/bin/env python3
"""Tests the package's allocator and labels with a fake PyTorch (torch/__init__.py here)."""
import gc
import os
import subprocess
import sys
import tempfile
import unittest

import memtrace
import torch
from small_model import MIB, STATE, Adam, FeedForward

TRACE = os.path.join(tempfile.mkdtemp(), "hooks.db")
MEMTRACE = memtrace.install_allocator(trace=TRACE, program="hooks")


def now(name):
    return MEMTRACE.figures(0, MEMTRACE.category(name)).requested


def peak(name):
    return MEMTRACE.figures(0, MEMTRACE.category(name)).peak_requested


class Hooks(unittest.TestCase):
    def setUp(self):
        self.model = FeedForward()
        MEMTRACE.watch(self.model)
        MEMTRACE.begin_step()
        MEMTRACE.reset_peak_memory_stats()

    def tearDown(self):
        MEMTRACE.end_step()
        MEMTRACE.unwatch()
        self.model = None
        gc.collect()

    def test_every_hook_of_the_allocator_is_set(self):
        self.assertEqual(sorted(torch.Allocator.current.hooks),
                         ["base_alloc", "init", "memory_fraction", "record_stream", "reset"])

    def test_parameters_are_known_as_such(self):
        self.assertEqual(now("Param"), 1 * MIB)

    def test_forward_counts_by_the_rules_and_what_is_outside_by_the_phase(self):
        tokens = torch.Tensor(8 * MIB, torch.Node(0))
        out = self.model(tokens)
        loss = torch.Tensor(9 * MIB, torch.Node(10 * MIB, out.grad_fn))
        self.assertEqual([now(name) for name in ("Data", "FFN", "Loss")], [8 * MIB, 4 * MIB, 9 * MIB])
        self.assertEqual(peak("Norm"), 2 * MIB)
        del loss

    def test_backward_in_another_thread_finds_the_module_again(self):
        out = self.model(torch.Tensor(8 * MIB, torch.Node(0)))
        loss = torch.Tensor(9 * MIB, torch.Node(10 * MIB, out.grad_fn))
        MEMTRACE.reset_peak_memory_stats()
        loss.backward()
        self.assertEqual(peak("FFN"), (4 + 5) * MIB)  # 4 are live
        self.assertEqual(peak("Norm"), 3 * MIB)
        self.assertEqual(peak("Loss"), (9 + 10) * MIB)

    def test_a_product_that_becomes_a_gradient_is_one(self):
        weight = self.model.ln.weight
        before = now("Other") + now("Data")
        weight.accumulate(torch.Tensor(12 * MIB))
        self.assertEqual(now("Gradient"), 12 * MIB)
        self.assertEqual(now("Other") + now("Data"), before)
        weight.grad = None

    def test_an_optimizer_s_state_is_told_from_what_it_takes_for_a_moment(self):
        optimizer = Adam(self.model.ln.weight)
        optimizer.step()
        self.assertEqual(peak("Optimizer"), STATE)
        self.assertEqual(now("Opt State"), STATE)
        self.assertEqual(now("Optimizer"), 0)
        optimizer.step()
        self.assertEqual(now("Opt State"), STATE)

    def test_an_optimizer_that_comes_after_another_has_its_own_state(self):
        for _ in range(5):  # each where the one before was
            optimizer = Adam(self.model.ln.weight)
            optimizer.step()
            self.assertEqual(now("Opt State"), STATE)
            del optimizer
            gc.collect()

    def test_what_was_watched_before_is_not_watched_twice(self):
        other = FeedForward()
        before = len(MEMTRACE.gradients.hooks)
        MEMTRACE.watch(other, "other")
        self.assertEqual(len(MEMTRACE.gradients.hooks), before + 1)  # of its one parameter
        MEMTRACE.relabel(other.ln.weight, MEMTRACE.category("Other"))  # as what was moved to another place is
        MEMTRACE.watch(other, "other")
        self.assertEqual(len(MEMTRACE.gradients.hooks), before + 1)
        self.assertEqual(now("Param"), 2 * MIB)

    def test_an_exception_in_forward_leaves_no_label(self):
        self.model.fails = True
        with self.assertRaises(ValueError):
            self.model(torch.Tensor(8 * MIB, torch.Node(0)))
        self.model.fails = False
        before = now("FFN")
        kept = torch.Tensor(13 * MIB)
        self.assertEqual(now("FFN"), before)
        del kept

    def test_a_label_of_ones_own(self):
        with MEMTRACE.labelled("key-value cache", span="cache"):
            kept = torch.Tensor(14 * MIB)
        self.assertEqual(now("key-value cache"), 14 * MIB)
        self.assertIn("key-value cache", MEMTRACE.summary())
        del kept

    def test_the_end_of_memory_is_pytorch_s_own_error(self):
        with self.assertRaises(torch.OutOfMemoryError) as caught:
            torch.Tensor(1 << 50)
        self.assertIn("CUDA out of memory", str(caught.exception))
        self.assertIn("1125899906842624 bytes", str(caught.exception))
        with self.assertRaises(RuntimeError) as caught:
            torch.Tensor(MIB, device=2)
        self.assertNotIsInstance(caught.exception, torch.OutOfMemoryError)

    def test_torch_cuda_s_own_functions_answer(self):
        kept = torch.Tensor(15 * MIB)
        self.assertEqual(torch.cuda.memory_allocated(), MEMTRACE.memory_allocated())
        self.assertGreaterEqual(torch.cuda.max_memory_reserved("cuda:0"), 15 * MIB)
        self.assertEqual(torch.cuda.memory_allocated(1), 0)
        del kept

    def test_no_bytes_are_no_block(self):
        self.assertEqual(torch.take(0), 0)

    def test_unwatch_takes_every_hook_back(self):
        MEMTRACE.unwatch()
        self.assertEqual(MEMTRACE.gradients.hooks + MEMTRACE.handles, [])
        MEMTRACE.reset_peak_memory_stats()
        out = self.model(torch.Tensor(8 * MIB, torch.Node(0)))
        torch.Tensor(9 * MIB, torch.Node(10 * MIB, out.grad_fn)).backward()
        Adam(self.model.ln.weight).step()
        self.assertEqual([peak(name) for name in ("FFN", "Optimizer")], [0, 0])


if __name__ == "__main__":
    program = unittest.main(exit=False, argv=sys.argv[:1])
    MEMTRACE.close()
    told = subprocess.run([os.environ["MEMTRACE"], "runs", "--trace", TRACE], capture_output=True, text=True)
    print(told.stdout + told.stderr)
    sys.exit(not (program.result.wasSuccessful() and told.returncode == 0 and "done" in told.stdout))
