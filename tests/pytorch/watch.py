#!/usr/bin/env python3
"""Tests `memtrace record` of programs that use a fake PyTorch (torch/__init__.py here) with its own allocator."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
MEMTRACE = os.environ["MEMTRACE"]

MODEL = """
import sys, torch
from small_model import *
model = FeedForward()
optimizer = Adam(model.ln.weight)
def micro_batch():
    out = model(torch.Tensor(8 * MIB, torch.Node(0)))
    loss = torch.Tensor(9, torch.Node(10 * MIB, out.grad_fn))
    loss.backward()
    model.ln.weight.accumulate(torch.Tensor(1 * MIB))
def step(micro_batches=1):
    for _ in range(micro_batches):
        micro_batch()
    optimizer.step()
    model.ln.weight.grad = None
"""
COUNTERS = "print(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())\n"


class Watch(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.trace = os.path.join(self.folder.name, "t.db")

    def record(self, program, *options, python=(), environment=()):
        """Records a program; returns what it printed and what memtrace said."""
        path = os.path.join(self.folder.name, "program.py")
        pathlib.Path(path).write_text(program)
        done = subprocess.run(
            [MEMTRACE, "record", "--trace", self.trace, *options, "--", sys.executable, *python, path], text=True,
            capture_output=True, env={**os.environ, **dict(environment)}, check=False)
        self.code = done.returncode
        self.said = done.stderr
        return done.stdout

    def sql(self, query, trace=None):
        done = subprocess.run([MEMTRACE, "sql", query, "--json", "--trace", trace or self.trace], text=True,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [tuple(row) for row in json.loads(done.stdout)["rows"]]

    def steps(self):
        return self.sql("SELECT count(*) FROM run_event JOIN event_kind ON event_kind.id = kind WHERE name = 'step_begin'")[0][0]

    def peak(self):
        return json.loads(subprocess.check_output([MEMTRACE, "peak", "--json", "--trace", self.trace], text=True))

    def test_peaks_are_pytorch_s_own_to_the_byte(self):
        printed = self.record(MODEL + "for _ in range(3): step()\n" + COUNTERS)
        peak = self.peak()
        self.assertEqual(printed.split(), [str(peak["allocated_bytes"]), str(peak["reserved_bytes"])])
        self.assertNotIn("missing", self.said)

    def test_roles_and_modules_are_known_without_a_changed_line(self):
        self.record(MODEL + "step()\nstep()\n")
        roles = {row["role"]: row["requested_bytes"] for row in self.peak()["rows"]}
        self.assertEqual(roles["parameter"], 1 << 20)
        self.assertEqual(roles["optimizer state"], (7 << 20) + 1)
        paths = {path for path, in self.sql("SELECT DISTINCT path FROM span")}
        self.assertLessEqual({"FeedForward", "FeedForward.ln", "FeedForward.ln.weight"}, paths)

    def test_a_step_ends_with_the_optimizer_s_however_many_batches_it_takes(self):
        self.record(MODEL + "step(3)\nstep(3)\nmodel.training = False\nmodel(torch.Tensor(MIB, torch.Node(0)))\n")
        self.assertEqual(self.steps(), 2)

    def test_the_profiler_s_steps_count_where_there_is_one(self):
        self.record(MODEL + "profiler = torch.profiler.profile()\nfor _ in range(3):\n    profiler.step()\n    step()\n    step()\n")
        self.assertEqual(self.steps(), 3)

    def test_ranges_are_the_steps_if_they_are_named(self):
        self.record(MODEL + "nvtx = torch.cuda.nvtx\n"
                    "for number in range(2):\n"
                    "    nvtx.range_push(msg=f'iteration {number}')\n"
                    "    nvtx.range_push('inside')\n    step()\n    step()\n    nvtx.range_pop()\n"
                    "    torch.profiler.profile().step()\n    kept = torch.Tensor(20 * MIB + number)\n    nvtx.range_pop()\n"
                    "torch.Tensor(30 * MIB)\n", "--step", "iter")
        self.assertEqual(self.steps(), 2)
        steps = self.sql("SELECT requested_bytes - 20 * 1048576, step FROM block WHERE requested_bytes / 1048576 = 20")
        self.assertEqual(sorted(steps), [(0, 0), (1, 1)])

    def test_one_card_alone_is_counted_on_request(self):
        self.record("import torch\nfirst = torch.Tensor(100, device=0)\nsecond = torch.Tensor(200, device=1)\n",
                    "--device", "1")
        self.assertEqual(self.sql("SELECT requested_bytes FROM block"), [(200,)])
        self.assertEqual(os.listdir(self.folder.name).count("t.db"), 1)
        self.assertNotIn("t-cuda1.db", os.listdir(self.folder.name))
        self.record("import torch\nfirst = torch.Tensor(100, device=0)\n", "--device", "1")
        self.assertIn("the program was not seen to use GPU 1, so there was nothing to record", self.said)

    def test_a_refused_request_ends_the_run_as_out_of_memory(self):
        self.record(MODEL + "torch.Tensor(1 << 40)\n")
        self.assertEqual(self.code, 1)
        self.assertEqual(self.sql("SELECT state FROM run"), [("oom",)])

    def test_totals_that_are_not_the_sums_are_said(self):
        self.record(MODEL + "torch.CUDA.fake_cuda_lie(1)\ntorch.Tensor(100)\n")
        self.assertIn("moments at which PyTorch's counters equal the trace are missing", self.said)

    def test_the_reports_still_reach_pytorch_s_profiler(self):
        printed = self.record(MODEL + "step()\nprint(torch.C10.fake_c10_reports(), torch.CUDA.fake_cuda_trackers())\n")
        reports, trackers = map(int, printed.split())
        self.assertGreater(reports, 10)
        self.assertEqual(trackers, 1)

    def test_another_allocator_is_left_to_pytorch_s_memory_history(self):
        printed = self.record("import torch\ntorch.CUDA.fake_cuda_call(b'pluggable')\ntorch.Tensor(100)\n"
                              "print(len(torch.history))\n", "--name", "mine")
        self.assertEqual(printed, "1\n")
        self.assertIn("PyTorch's memory history is recorded instead", self.said)
        self.assertRegex(self.said, "6 events of PyTorch's memory history were imported\nmemtrace: run 1 of .*: peak 5.00 MiB")
        self.assertEqual(self.sql("SELECT name FROM run"), [("mine",)])
        self.assertEqual([name for name in os.listdir(self.folder.name) if "pickle" in name], [])

    def test_a_memory_history_that_can_not_be_imported_is_left(self):
        self.record("import os, torch\ntorch.CUDA.fake_cuda_call(b'pluggable')\ntorch.Tensor(100)\n"
                    "torch.cuda.memory._dump_snapshot = lambda path: open(path, 'w').write('no snapshot')\n")
        self.assertIn("PyTorch's memory history is left in " + self.trace, self.said)
        self.assertEqual(len([name for name in os.listdir(self.folder.name) if "pickle" in name]), 1)

    def test_expandable_segments_are_one_segment_that_grows(self):
        self.record("import torch\ntorch.CUDA.fake_cuda_expand(1)\nkept = [torch.Tensor(3 << 20) for _ in range(4)]\n" + COUNTERS)
        self.assertEqual(self.sql("SELECT count(DISTINCT segment) FROM run_event WHERE segment IS NOT NULL"), [(1,)])

    def test_no_torch_leaves_it_out(self):
        printed = self.record(MODEL + "step()\nprint(torch.CUDA.fake_cuda_trackers())\n", "--no-torch")
        self.assertEqual(printed, "0\n")

    def test_our_allocator_takes_the_place_of_pytorch_s_on_request(self):
        printed = self.record(MODEL + "step()\nstep()\nprint(torch.CUDA.fake_cuda_allocated(0))\n", "--allocator", "ours")
        self.assertEqual(printed, "0\n")
        self.assertIn("run 1 of", self.said)
        roles = {row["role"]: row["requested_bytes"] for row in self.peak()["rows"]}
        self.assertEqual([roles["parameter"], roles["optimizer state"]], [1 << 20, (7 << 20) + 1])

    # ---- call stacks and operators ----

    def frames(self, requested):
        """Returns the stack of the one block of that size, innermost frame first, as `events` prints it."""
        events = json.loads(subprocess.check_output([MEMTRACE, "events", "--json", "--trace", self.trace], text=True))["rows"]
        (found,) = [row for row in events if row["action"] == "alloc" and row["bytes"] == requested]
        self.line = found["line"]
        return [frame.split(" ", 1) for frame in (found["frames"] or "").split("; ")]

    def test_a_block_has_the_line_and_the_stack_of_its_request(self):
        site = os.path.join(self.folder.name, "site-packages")
        os.symlink(HERE, site)
        path = os.environ["PYTHONPATH"].replace(str(HERE), site)
        self.record(MODEL + "step()\n", environment={"PYTHONPATH": path})
        frames = self.frames(6 << 20)
        program = os.path.join(self.folder.name, "program.py")
        ours = [(function, place) for function, place in frames if place.startswith(program)]
        lines = {text.strip(): number for number, text in enumerate(pathlib.Path(program).read_text().splitlines(), 1)}
        asked = lines["optimizer.step()"]
        self.assertEqual(ours, [("step", f"{program}:{asked}"), ("<module>", f"{program}:{lines['step()']}")])
        self.assertEqual(self.line, f"program.py:{asked}")
        self.assertEqual([function for function, _ in frames[:4]], ["take_native", "take", "Tensor.__init__", "Adam.update"])

    def test_equal_stacks_are_stored_once_and_memtrace_s_frames_are_left_out(self):
        self.record(MODEL + "for _ in range(3): step()\n")
        self.assertEqual(self.sql("SELECT count(*), count(DISTINCT stack) FROM run_event WHERE requested_bytes = 6 << 20"
                                  " AND stack IS NOT NULL"), [(3, 1)])
        self.assertEqual(self.sql("SELECT count(*) FROM frame WHERE file GLOB '*memtrace/_*' OR file GLOB '*memtrace/recording/*'"), [(0,)])

    def test_a_node_of_autograd_is_called_by_who_called_backward(self):
        self.record(MODEL + "step()\n")
        functions = [function for function, _ in self.frames(5 << 20)]
        self.assertEqual(functions[3:4], ["Node.run"])
        self.assertEqual(functions[-3:], ["micro_batch", "step", "<module>"])

    def test_a_backward_within_another_is_called_by_who_called_the_outer_one(self):
        self.record(MODEL + "class Inner(torch.Node):\n    def run(self):\n"
                    "        torch.Tensor(1, torch.Node(0)).backward()\n"
                    "def train():\n    torch.Tensor(2, torch.Node(0, Inner(0), torch.NativeNode(777))).backward()\ntrain()\n")
        self.assertIn("train", [function for function, _ in self.frames(777)])

    def test_a_thread_that_runs_no_python_has_the_stack_of_the_one_that_called_backward(self):
        self.record(MODEL + "def train():\n    torch.Tensor(1, torch.NativeNode(777)).backward()\ntrain()\n"
                    "torch.CUDA.fake_cuda_take_elsewhere(torch.ctypes.c_uint64(778), 0)\n")
        self.assertIn("train", [function for function, _ in self.frames(777)])
        self.assertEqual(self.frames(778), [[""]])

    def test_texts_of_every_kind_are_read(self):
        for text in ("plain", "gr\u00f6\u00dfe", "\u51fd\u6570", "\U0001f600", "half-\udce9"):
            file = f"/somewhere/{text}.py"
            os.path.exists(self.trace) and os.remove(self.trace)
            self.record(f"import torch\nexec(compile('kept = torch.Tensor(77)', {ascii(file)}, 'exec'))\n")
            self.assertIn(["<module>", file.replace("\udce9", "\ufffd") + ":1"], self.frames(77))

    def test_only_the_innermost_frames_of_a_deep_stack_are_kept(self):
        self.record("import sys, torch\nsys.setrecursionlimit(5000)\n"
                    "def fall(depth):\n    return fall(depth - 1) if depth else torch.Tensor(77)\nkept = fall(2000)\n")
        self.assertEqual(len(self.frames(77)), 1024)

    def test_a_block_has_the_operator_that_does_more_than_take_memory(self):
        self.record("import torch\nwith torch.operator('aten::zeros'):\n    with torch.operator('aten::empty'):\n"
                    "        a = torch.Tensor(1)\n    b = torch.Tensor(2)\nwith torch.operator('aten::empty_strided'):\n"
                    "    c = torch.Tensor(3)\nd = torch.Tensor(4)\n")
        self.assertEqual(self.operators(), [(1, "aten::zeros"), (2, "aten::zeros"), (3, "aten::empty_strided"), (4, "")])

    def test_a_block_has_the_operator_whose_kernel_calls_others(self):
        self.record("import torch\nwith torch.operator('aten::relu'), torch.operator('aten::clamp_min'):\n    a = torch.Tensor(1)\n"
                    "with torch.operator('aten::add'), torch.operator('aten::clone'):\n    b = torch.Tensor(2)\n")
        self.assertEqual(self.operators(), [(1, "aten::relu"), (2, "aten::add")])

    def operators(self):
        return self.sql("SELECT requested_bytes, op FROM run_event JOIN label ON label.run = run_event.run AND"
                        " label.id = run_event.label WHERE stack IS NOT NULL ORDER BY requested_bytes")

    def test_a_block_of_backward_has_the_class_of_its_node(self):
        self.record(MODEL + "step()\n")
        self.assertEqual(self.sql("SELECT DISTINCT op FROM run_event JOIN label ON label.run = run_event.run AND"
                                  " label.id = run_event.label WHERE label.phase = 'backward'"), [("FakeBackward0",)])

    def test_the_observer_of_operators_pauses_in_backward(self):
        printed = self.record(MODEL + "class Look(torch.Node):\n    def run(self):\n"
                              "        print(torch.CPU.fake_cpu_observers())\n"
                              "torch.Tensor(1, Look(0)).backward()\nprint(torch.CPU.fake_cpu_observers())\n")
        self.assertEqual(printed, "0\n1\n")

    def test_without_grad_mode_nothing_is_kept_for_backward(self):
        self.record(MODEL + "with torch.no_grad():\n    out = model(torch.Tensor(8 * MIB, torch.Node(0)))\n"
                    "again = model(torch.Tensor(8 * MIB, torch.Node(0)))\n", "--no-stacks")
        self.assertEqual(self.sql("SELECT role FROM run_event JOIN label ON label.run = run_event.run AND"
                                  " label.id = run_event.label WHERE allocation IS NULL AND requested_bytes = 4 << 20"),
                         [("temporary",), ("activation",)])

    def test_no_stacks_leaves_stacks_and_operators_out(self):
        for option, observers in (((), "1\n"), (("--no-stacks",), "0\n")):
            printed = self.record("import torch\nwith torch.operator('aten::zeros'):\n    kept = torch.Tensor(77)\n"
                                  "print(torch.CPU.fake_cpu_observers())\n", *option)
            self.assertEqual(printed, observers)
        self.assertEqual(self.sql("SELECT count(stack) FROM run_event"), [(1,)])
        self.assertEqual(self.frames(77), [[""]])

    def test_options_of_python_that_keep_memtrace_out_are_named(self):
        for option, told in (("-I", "-I"), ("-sE", "-E"), ("-S", "-S")):
            self.record("print(1)\n", python=(option,))
            self.assertIn(f"{told} keeps memtrace out of Python", self.said)
        self.record("print(1)\n", python=("-W", "ignore", "-u"))
        self.assertNotIn("keeps memtrace out", self.said)

    def test_a_sitecustomize_of_the_user_s_still_runs(self):
        pathlib.Path(self.folder.name, "sitecustomize.py").write_text("import builtins\nbuiltins.mine = 7\n")
        path = os.pathsep.join([self.folder.name, os.environ["PYTHONPATH"]])
        printed = self.record(MODEL + "step()\nprint(mine)\n", environment={"PYTHONPATH": path})
        self.assertEqual(printed, "7\n")
        self.assertEqual(self.sql("SELECT count(*) FROM run"), [(1,)])

    def test_a_rank_has_a_trace_of_its_own(self):
        self.record(MODEL + "step()\n", environment={"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"})
        trace = os.path.join(self.folder.name, "t-rank1.db")
        self.assertEqual(self.sql("SELECT rank, local_rank, world_size FROM run", trace), [(1, 1, 2)])

    def test_each_card_has_a_trace(self):
        self.record("import torch\nfirst = torch.Tensor(100, device=1)\nsecond = torch.Tensor(200)\n")
        self.assertEqual(self.sql("SELECT device FROM run", os.path.join(self.folder.name, "t-cuda0.db")), [("fake card",)])

    def test_a_forked_child_leaves_the_trace_to_its_parent(self):
        self.record(MODEL + "import os\nif os.fork() == 0:\n    step()\n    os._exit(0)\nos.wait()\nstep()\n")
        self.assertEqual(self.sql("SELECT state FROM run"), [("done",)])
        self.assertEqual(self.steps(), 1)


if __name__ == "__main__":
    unittest.main()
