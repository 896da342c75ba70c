"""Programs of PyTorch, run dry: what they may do, what they are told, and how they end. Skipped where there is a card."""
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import textwrap

import pytest
import torch

from memtrace.dry import build
from memtrace._library import find_program

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")

MODEL = """
import torch
from torch import nn
def model():
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Dropout(0.1), nn.Linear(128, 10)).cuda()
def loss_of(model, batch=4096):
    x, y = torch.randn(batch, 64, device="cuda"), torch.randint(0, 10, (batch,), device="cuda")
    return nn.functional.cross_entropy(model(x), y)
"""


class Dry:
    """Runs programs dry into one trace."""

    def __init__(self, folder):
        self.folder, self.trace = folder, folder / "dry.db"

    def run(self, source, *options, code=0, **environment):
        script = self.folder / "program.py"
        script.write_text(textwrap.dedent(source))
        done = subprocess.run(
            [find_program(), "dry-run", "--device", "sim:h100", "--trace", str(self.trace), *options, "--", sys.executable,
             str(script)], capture_output=True, text=True, cwd=self.folder, env={**self.environment(), **environment})
        assert done.returncode == code, done.stderr
        return done

    def environment(self):
        """Returns this process's, without the library that other tests take in the place of the one for PyTorch."""
        return {name: value for name, value in os.environ.items() if name != "MEMTRACE_TORCH_LIBRARY"}

    def rows(self, query):
        with sqlite3.connect(self.trace) as database:
            return database.execute(query).fetchall()


@pytest.fixture
def dry(tmp_path):
    return Dry(tmp_path)


def test_pytorch_describes_its_build_and_its_libraries_as_on_a_card(dry):
    dry.run("""
        import torch
        assert "CUDA Runtime 13.0" in torch.__config__.show() and torch.cuda.has_magma
        plans = torch.backends.cuda.cufft_plan_cache
        plans.max_size = 10
        plans.clear()
        assert (plans.max_size, plans.size) == (10, 0)
        for name in "cusolver", "magma", "default":
            torch.backends.cuda.preferred_linalg_library(name)
        x = torch.ones(8, 8, device="cuda")
        torch.linalg.svd(x, driver="gesvd")
        """)


def test_a_convolutional_net_runs_with_workers_pinned_memory_and_streams(dry):
    said = dry.run("""
        import torch
        from torch import nn
        net = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
                            nn.Conv2d(16, 32, 3, groups=16), nn.ConvTranspose2d(32, 8, 2), nn.AdaptiveAvgPool2d(1),
                            nn.Flatten(), nn.Linear(8, 10)).cuda()
        optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
        images = torch.utils.data.TensorDataset(torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,)))
        side = torch.cuda.Stream()
        for x, y in torch.utils.data.DataLoader(images, batch_size=8, num_workers=1, pin_memory=True):
            with torch.cuda.stream(side):
                x = x.cuda(non_blocking=True)
            torch.cuda.current_stream().wait_stream(side)
            x.record_stream(torch.cuda.current_stream())
            nn.functional.cross_entropy(net(x), y.cuda()).backward()
            optimizer.step()
            optimizer.zero_grad()
        print([tuple(parameter.shape) for parameter in net[4].parameters()])
        """, "--steps", "100")
    assert said.stdout == "[(32, 1, 3, 3), (32,)]\n"


def test_optimizers_have_their_states(dry):
    said = dry.run(MODEL + """
loss_of(model()).backward()  # takes the workspaces of matrix products, which stay
adam = torch.optim.AdamW
for make in (lambda p: adam(p, foreach=True), lambda p: adam(p, foreach=False), lambda p: adam(p, fused=True),
             lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), torch.optim.Adafactor):
    net = model()
    net[0].requires_grad_(False)
    before = torch.cuda.memory_allocated()
    optimizer = make([p for p in net.parameters() if p.requires_grad])
    for _ in range(2):
        loss_of(net).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0, error_if_nonfinite=True)
        optimizer.step()
        optimizer.zero_grad()
    print(torch.cuda.memory_allocated() - before)
    del net, optimizer
""", "--steps", "100")
    # 1,290 parameters as blocks of 5,120 and 512 bytes; AdamW has two of each, and two counters of 4 bytes on the card if fused.
    foreach, one_by_one, fused, momentum, _ = map(int, said.stdout.split())
    assert foreach == one_by_one == 2 * (5120 + 512)
    assert fused == foreach + 2 * 512
    assert momentum == 5120 + 512


def test_weights_that_autocast_casts_have_a_role_of_their_own(dry):
    dry.run("""
        import torch
        net = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024, bias=False) for _ in range(3)]).cuda()
        x = torch.randn(4, 1024, device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            y = net(x)
        own = net[0].weight.bfloat16()
        """)
    cast = dry.rows("SELECT count(*), sum(requested_bytes), max(op), max(span), max(dtype) FROM block WHERE role = 'weight cast'")
    assert cast == [(3, 3 * 1024 * 1024 * 2, "aten::_to_copy", "Sequential.2", "bf16")]


def test_a_gradient_scaler_finds_what_was_not_computed_finite(dry):
    said = dry.run(MODEL + """
net, scaler = model(), torch.amp.GradScaler("cuda")
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(3):
    with torch.autocast("cuda", torch.float16):
        loss = loss_of(net, batch=32768)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
assert torch.isfinite(loss) and not torch.isnan(loss)
print(len(optimizer.state), scaler.get_scale())
""", "--steps", "100")
    assert said.stdout == "4 65536.0\n"


def test_a_gradient_scaler_does_not_skip_steps_for_values_that_were_assumed(dry):
    said = dry.run("""
        import torch
        from torch import nn
        net = nn.Sequential(nn.Linear(1024, 1024), nn.LayerNorm(1024), nn.Linear(1024, 4)).cuda()
        optimizer, scaler = torch.optim.AdamW(net.parameters()), torch.amp.GradScaler("cuda")
        for _ in range(4):
            with torch.autocast("cuda", torch.float16):
                loss = net(torch.randn(8192, 1024, device="cuda")).pow(2).sum()
            scaler.scale(loss * 100).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        print(scaler.get_scale(), {int(state["step"]) for state in optimizer.state.values()})
        """, "--steps", "100")
    assert said.stdout == "65536.0 {4}\n"


def test_checkpointing_of_both_kinds_lowers_the_peak(dry):
    said = dry.run("""
        import torch
        from torch import nn
        from torch.utils.checkpoint import checkpoint
        layers = nn.ModuleList(nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(6)).cuda()
        def peak(call):
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            x = torch.randn(2048, 256, device="cuda", requires_grad=True)
            for layer in layers:
                x = call(layer, x)
            x.sum().backward()
            return torch.cuda.max_memory_allocated() - before
        peak(lambda layer, x: layer(x))
        print(peak(lambda layer, x: layer(x)), *(
            peak(lambda layer, x: checkpoint(layer, x, use_reentrant=kind)) for kind in (True, False)))
        """)
    plain, reentrant, other = map(int, said.stdout.split())
    assert reentrant < plain // 2 and other < plain // 2


def test_shapes_that_depend_on_values_are_computed_or_assumed_and_told(dry):
    said = dry.run("""
        import torch
        small, large = torch.tensor([1, 0, 2, 2]).cuda(), torch.randn(700, 700).cuda()
        print(small[small > 0].tolist(), torch.unique(small).tolist(), torch.nonzero(small).shape[0])
        for _ in range(2):
            print(torch.nonzero(large).shape[0])
        print(large[large > 0].numel(), torch.isfinite(large).all().item(), torch.isnan(large).any().item(), large.sum().item())
        """)
    assert said.stdout.splitlines() == ["[1, 2, 2] [0, 1, 2] 3", "490000", "490000", "490000 True False 1.0"]
    assert dry.rows("SELECT count FROM caveat WHERE kind = 'assumed' AND name = 'aten::nonzero' AND line = 6") == [(2,)]
    assert "values that were not computed: " in said.stderr and "a number (program.py:7)" in said.stderr


def test_a_tensor_that_was_refused_leaves_no_shape_to_the_next_block(dry):
    dry.run("""
        import torch
        a, made = torch.ones(64, 64, device="cuda"), torch.ones(64, 64, device="cuda")
        try:
            torch.empty((3, -1), dtype=torch.float64, device="cuda")
        except RuntimeError:
            torch.mm(a, a, out=made)
        """)
    assert dry.rows("SELECT dtype, shape FROM block WHERE requested_bytes = 32 << 20") == [("none", "")]


def test_the_allocator_has_the_settings_of_the_environment(dry):
    source = """
        import torch
        blocks = [torch.empty(int(30 * 2**20), dtype=torch.uint8, device="cuda") for _ in range(2)]
        print(torch.cuda.memory_reserved() >> 20)
        """
    assert dry.run(source).stdout == "60\n"
    assert dry.run(source, PYTORCH_CUDA_ALLOC_CONF="roundup_power2_divisions:4").stdout == "64\n"
    said = dry.run(source, PYTORCH_ALLOC_CONF="expandable_segments:True,max_split_size_mb:128,pinned_use_background_threads:True")
    assert "pinned_use_background_threads:True are not simulated" in said.stderr


def test_the_same_program_makes_the_same_trace(dry):
    for _ in range(2):
        dry.run(MODEL + """
net = model()
optimizer = torch.optim.AdamW(net.parameters())
kept = []
for _ in range(4):
    loss = loss_of(net)
    kept.append([loss]); kept[-1].append(kept[-1])  # a cycle, which Python's collector frees
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.clear()
""", "--steps", "4", PYTHONHASHSEED="0")
    first, second = (dry.rows(f"SELECT kind, block_bytes, requested_bytes, segment, offset FROM run_event WHERE run = {run} ORDER BY id")
                     for run in (1, 2))
    assert len(first) > 100
    assert first == second


def test_a_script_that_fails_keeps_its_words_its_exit_code_and_its_trace(dry):
    said = dry.run("import torch\nx = torch.ones(1000, device='cuda')\nx.nothing", code=1)
    assert "AttributeError: 'Tensor' object has no attribute 'nothing'" in said.stderr
    assert "run 1 of" in said.stderr and "then the program failed" in said.stderr
    assert said.stderr.splitlines()[-1].startswith("memtrace: the program failed; until then peak ")
    assert dry.run("import sys, torch\ntorch.ones(9, device='cuda')\nsys.exit(3)", code=3).stderr.count("Traceback") == 0
    assert dry.run("raise SystemExit(3)", code=3).stderr.count("Traceback") == 0


def test_an_interrupted_script_ends_as_one_does(dry):
    said = dry.run("import os, signal, torch\nx = torch.ones(9, device='cuda')\nos.kill(os.getpid(), signal.SIGINT)",
                   code=128 + signal.SIGINT)
    assert "run 1 of" in said.stderr


def test_a_full_card_raises_what_a_program_may_catch(dry):
    source = """
        import torch
        try:
            torch.empty(90 << 30, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError as error:
            print(error)
        torch.empty(90 << 30, dtype=torch.uint8, device="cuda")
        """
    said = dry.run(source, code=5)
    assert said.stdout.startswith("CUDA out of memory. Tried to allocate 90.00 GiB. GPU 0 has a total capacity of 7")


def test_processes_that_a_program_starts_have_traces_of_their_own(dry):
    said = dry.run("""
        import subprocess, sys, torch
        x = torch.ones(1000, device="cuda")
        subprocess.run([sys.executable, "-c", "import torch; print(torch.ones(9, device='cuda').sum().item())"], check=True)
        """)
    assert said.stdout == "9.0\n"
    assert len(list(dry.folder.glob("dry-*.db"))) == 1


def test_what_a_program_asks_of_a_card_is_there(dry):
    dry.run("""
        import copy, gc, io, pickle, torch
        assert gc.get_count()[1:] == (0, 0)  # the collector's moments are the program's own from here on
        net = torch.nn.Linear(4, 4).cuda()
        begin, end, side = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True), torch.cuda.Stream()
        begin.record()
        side.wait_event(begin)
        end.record()
        torch.cuda.synchronize()
        assert begin.elapsed_time(end) == 1.0 and end.query() and torch.cuda.Stream.priority_range() == (0, -5)
        with torch.cuda.nvtx.range("part"), torch.cuda.profiler.profile(), torch.inference_mode():
            assert net(torch.ones(2, 4, device="cuda")).is_inference() and not net.weight.t().is_inference()
        assert torch.cuda.cudart().cudaMemGetInfo(0) == torch.cuda.mem_get_info()
        if hasattr(torch, "accelerator") and hasattr(torch.accelerator, "memory_allocated"):
            assert torch.accelerator.memory_allocated() == torch.cuda.memory_allocated() > 0
        assert torch.backends.cudnn.is_available() and torch.cuda.memory_summary() and torch.cuda.get_arch_list()
        torch.cuda.memory._record_memory_history()
        torch.cuda.memory._snapshot()
        torch._dynamo.reset()

        file = io.BytesIO()
        torch.save(net.state_dict(), file)
        file.seek(0)
        for weight in (copy.deepcopy(net).weight, pickle.loads(pickle.dumps(net)).weight, torch.load(file)["weight"]):
            assert weight.is_cuda and torch.equal(weight, net.weight)
        file.seek(0)
        assert torch.load(file, map_location="cpu")["bias"].tolist() == net.bias.tolist()
        file = io.BytesIO()
        torch.save(torch.arange(5), file)
        file.seek(0)
        assert torch.load(file, map_location="cuda").tolist() == [0, 1, 2, 3, 4]
        """)


@pytest.mark.skipif(torch.__version__.startswith("2.6.") and torch.version.cuda is not None,
                    reason="its generators need a driver")
def test_random_numbers_of_a_card_are_its_own(dry):
    dry.run("""
        import torch
        def draw(**named):
            return torch.rand(3, device="cuda", **named).tolist() + torch.nn.functional.dropout(torch.ones(9).cuda()).tolist()
        torch.manual_seed(1)
        on_host = torch.rand(3).tolist()
        torch.manual_seed(1)
        on_card = draw()
        assert torch.rand(3).tolist() == on_host
        torch.cuda.manual_seed(1)
        state = torch.cuda.get_rng_state()
        assert draw() == on_card != draw() and len(state) == 16
        torch.cuda.set_rng_state(state)
        assert draw() == on_card
        generator = torch.Generator("cuda").manual_seed(1)
        assert torch.rand(3, device="cuda", generator=generator).tolist() == on_card[:3] and generator.device.type == "cuda"
        try:
            torch.rand(3, device="cuda", generator=torch.Generator())
        except RuntimeError as error:
            assert "Expected a 'cuda' device type for generator" in str(error)
        else:
            assert False
        """)


@pytest.mark.parametrize("is_compiled", [True, False])
def test_compiled_flex_attention_holds_no_scores(dry, is_compiled):
    said = dry.run(f"""
        import torch
        from torch.nn.attention.flex_attention import flex_attention
        if {is_compiled}:
            flex_attention = torch.compile(flex_attention)
        q, k, v = (torch.randn(2, heads, 2048, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for heads in (8, 2, 2))
        flex_attention(q, k, v, enable_gqa=True).sum().backward()  # Inductor benchmarks kernels
        q.grad = k.grad = v.grad = None
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        out = flex_attention(q, k, v, enable_gqa=True)
        print(out.shape, out.stride(), torch.cuda.memory_allocated() - before)
        out.sum().backward()
        print(q.grad.shape, k.grad.shape, v.grad.shape, torch.cuda.max_memory_allocated())
    """)
    first, second = said.stdout.splitlines()
    rows, scores = 2 * 8 * 2048, 2 * 8 * 2048 * 2048 * 4
    assert first.startswith("torch.Size([2, 8, 2048, 64]) (1048576, 131072, 64, 1)")
    assert second.startswith("torch.Size([2, 8, 2048, 64]) torch.Size([2, 2, 2048, 64]) torch.Size([2, 2, 2048, 64])")
    if is_compiled:
        # The result, what backward needs of the scores, and with Inductor the small tensors of an empty mask of blocks.
        assert 0 <= int(first.split()[-1]) - rows * (64 * 2 + 4) <= 8 * 512
        assert int(second.split()[-1]) < scores / 4
    else:
        assert int(second.split()[-1]) > scores


def test_a_number_that_is_written_where_a_mask_is_true_needs_no_indices(dry):
    said = dry.run("""
        import torch
        x = torch.randn(1 << 20, device="cuda")
        mask = x < 0
        before = torch.cuda.max_memory_allocated()
        x[mask] = 0
        print(torch.cuda.max_memory_allocated() - before)
        small = torch.arange(4.0, device="cuda")
        small[small > 1] = 7
        print(small.tolist())
        """)
    assert said.stdout.splitlines() == ["0", "[0.0, 1.0, 7.0, 7.0]"]
    assert "nonzero" not in said.stderr


def test_an_optimizer_s_state_has_its_role_in_the_step_that_makes_it(dry):
    dry.run("""
        import torch
        model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048, bias=False) for _ in range(2))).cuda()
        optimizer = torch.optim.Adam([{"params": layer.parameters()} for layer in model])
        found = model(torch.ones(8, 2048, device="cuda"))
        torch.nn.functional.cross_entropy(found, torch.zeros(8, dtype=torch.long, device="cuda")).backward()
        optimizer.step()
        """)
    said = subprocess.run([find_program(), "peak", "--json", "--trace", str(dry.trace)], capture_output=True, text=True, check=True)
    peak = json.loads(said.stdout)
    roles = {row["role"]: row["allocated_bytes"] >> 20 for row in peak["rows"]}
    assert peak["allocated"]["phase"] == "optimizer"
    assert (roles["parameter"], roles["gradient"], roles["optimizer state"]) == (32, 32, 64)
    labels = set(sqlite3.connect(dry.trace).execute(
        "SELECT category, role, op, path FROM label LEFT JOIN span ON span.run = label.run AND span.id = span"))
    assert ("Opt State", "optimizer state", "exp_avg", "Sequential.1.weight.exp_avg") in labels
    assert ("Workspace", "workspace", "workspace", "cuBLAS") in labels
    assert {category for category, _, op, _ in labels if "nll_loss" in op} == {"Loss"}


def test_a_wrapper_is_no_part_of_a_module_s_path(dry):
    dry.run("""
        import torch
        from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
        model = torch.nn.Sequential(checkpoint_wrapper(torch.nn.Linear(64, 64)), torch.nn.Linear(64, 64)).cuda()
        model(torch.ones(8, 64, device="cuda")).sum().backward()
        """)
    spans = [path for path, in dry.rows("SELECT path FROM span")]
    assert {"Sequential.0.weight", "Sequential.1.weight"} <= set(spans)
    assert not any("_checkpoint_wrapped_module" in path for path in spans)


def test_recurrent_nets_run_as_with_cudnn(dry):
    dry.run("""
        import torch
        x = torch.randn(4, 7, 16, device="cuda")
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, [7, 5, 3, 1], batch_first=True)
        for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
            net = kind(16, 32, 2, batch_first=True, bidirectional=True).cuda()
            weights = [(weight.untyped_storage().data_ptr(), weight.norm().item()) for weight in net.parameters()]
            assert len({place for place, _ in weights}) == 1 and all(norm > 0 for _, norm in weights)
            output, _ = net(x)
            output.sum().backward()
            assert output.shape == (4, 7, 64) and net.weight_ih_l0.grad.shape == net.weight_ih_l0.shape
            net(packed)[0].data.sum().backward()
        """)


def test_what_does_not_run_is_named_with_its_line_and_what_to_do(dry):
    said = dry.run("""
        import torch
        net = torch.nn.Embedding(100, 8).cuda()
        rows = torch.eye(3).to_sparse().cuda()
        for call in (lambda: torch.sparse.softmax(rows, 1), lambda: torch.cuda.caching_allocator_alloc(8),
                     lambda: torch.cuda.MemPool(object())):
            try:
                call()
            except (NotImplementedError, RuntimeError) as error:
                print(error)
        torch.linalg.cholesky(torch.randn(600, 600, device="cuda"))
        torch.cuda.caching_allocator_alloc(8)
        """, code=1)
    sparse, raw, pool = said.stdout.splitlines()
    assert sparse.startswith("memtrace: a dry run has no aten::_sparse_softmax") and sparse.endswith("or use dense ones")
    assert "no memory without a tensor" in raw and "leave them out where os.environ has MEMTRACE_DRY_DEVICE" in raw
    assert "no memory pools with allocators of the program's own" in pool
    assert 'program.py", line 12' in said.stderr


def test_a_process_forked_before_the_card_is_used_has_a_card(dry):
    said = dry.run("""
        import multiprocessing, torch
        def work(kind):
            try:
                print(kind, torch.ones(9, device="cuda").sum().item(), flush=True)
            except RuntimeError as error:
                print(kind, str(error)[-32:], flush=True)
        def fork(kind):
            process = multiprocessing.get_context("fork").Process(target=work, args=(kind,))
            process.start()
            process.join()
        fork("before")
        x = torch.ones(9, device="cuda")
        fork("after")
        """)
    assert said.stdout.splitlines() == ["before 9.0", 'after start it with the method "spawn"']
    assert said.stderr.count("memtrace: run 1 of ") == 2 and "interrupted" not in said.stderr


def test_a_pytorch_that_is_too_old_is_refused():
    with pytest.raises(build.NoLibrary, match="needs PyTorch 2.6 or later; this is 2.5.1"):
        build.check("2.5.1")


def test_a_library_that_can_t_be_made_says_what_to_do(tmp_path, monkeypatch):
    torch_folder = pathlib.Path(torch.__file__).parent
    monkeypatch.delenv("MEMTRACE_DRY_LIBRARY", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "ccache no-such-compiler")
    with pytest.raises(build.NoLibrary, match="install g\\+\\+"):
        build.find(torch_folder)
    monkeypatch.setenv("CXX", "/usr/bin/c++")
    with pytest.raises(build.NoLibrary, match="XDG_CACHE_HOME"):
        build.find(torch_folder)


def test_a_part_of_a_program_runs_dry_in_python(dry):
    script = dry.folder / "part.py"
    script.write_text("""
import memtrace
with memtrace.dry_run("sim:h100", "part.db") as run:
    import torch
    net = torch.nn.Linear(1024, 1024).cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(100):
        net(torch.ones(8, 1024, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
shares = {share.category: share.allocated_bytes for share in run.peak.shares}
print(torch.cuda.get_device_name(), shares["parameter"], shares["gradient"], "<svg" in run._repr_html_())
print(run.peak.bytes == run.peak_by("module").bytes)
try:
    memtrace.dry_run().__enter__()
except memtrace.MemtraceError as error:
    print(error)
""")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=dry.folder, env=dry.environment())
    assert done.returncode == 0, done.stderr
    first, second, third = done.stdout.splitlines()
    assert first == "NVIDIA H100 80GB HBM3 4198400 4198400 True"
    assert second == "True"
    assert "torch is imported already" in third


def test_a_dry_run_that_cannot_begin_raises_its_own_error(dry):
    """Whatever goes wrong. torch is a package here whose import fails, each time with another error."""
    folder = dry.folder / "broken"
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text("import builtins, os; raise getattr(builtins, os.environ['ERROR'])('broken')")
    (folder / "text.db").write_text("no trace")
    script = folder / "cases.py"
    script.write_text("""
import os, sys
import memtrace
cases = [("h100", "none/a.db", ""), ("h100", "text.db", ""), ("h100", "a\\0.db", ""), (None, "a.db", ""), ("nocard", "a.db", "")]
cases += [("h100", "a.db", error) for error in ("ImportError", "OSError", "ValueError", "AttributeError", "KeyError")]
for card, path, os.environ["ERROR"] in cases:
    sys.modules.pop("torch", None)
    try:
        with memtrace.dry_run(card, path):
            print("began")
    except memtrace.MemtraceError as error:
        print(error)
""")
    environment = {**dry.environment(), "PYTHONPATH": f"{folder}{os.pathsep}{os.environ['PYTHONPATH']}"}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 10 and "began" not in lines
    assert lines[0] == "no trace can be written into none" and lines[1] == "text.db is not a trace"


def test_transformers_train_and_generate(dry):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    said = dry.run("""
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
        net = LlamaForCausalLM(LlamaConfig(vocab_size=500, num_hidden_layers=2, hidden_size=64, intermediate_size=128,
                                           num_attention_heads=4, num_key_value_heads=2)).cuda()
        tokens = torch.randint(0, 500, (2, 16)).cuda()
        for choice in ({"do_sample": False}, {"do_sample": True, "top_k": 20, "top_p": 0.9}):
            print(tuple(net.generate(tokens, max_new_tokens=4, pad_token_id=0, **choice).shape))
        texts = [{"input_ids": text, "labels": text} for text in torch.randint(0, 500, (64, 32))]
        Trainer(net, TrainingArguments(output_dir="out", per_device_train_batch_size=4, gradient_accumulation_steps=2, max_steps=3,
                                       fp16=True, gradient_checkpointing=True, report_to=[]), train_dataset=texts).train()
        """, "--steps", "100")
    assert said.stdout.splitlines()[:2] == ["(2, 20)", "(2, 20)"]


TINY_GPT = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel
net = GPT2LMHeadModel(GPT2Config(vocab_size=500, n_layer=2, n_head=2, n_embd=64))
texts = torch.utils.data.TensorDataset(torch.randint(0, 500, (16, 32)))
batches = torch.utils.data.DataLoader(texts, batch_size=4)
"""

LIBRARIES = {
    "peft": """
from peft import LoraConfig, get_peft_model
net = get_peft_model(net, LoraConfig(r=4, target_modules=["c_attn"])).cuda()
optimizer = torch.optim.AdamW([parameter for parameter in net.parameters() if parameter.requires_grad])
for (text,) in batches:
    net(input_ids=text.cuda(), labels=text.cuda()).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "accelerate": """
from accelerate import Accelerator
accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
net, optimizer, batches = accelerator.prepare(net, torch.optim.AdamW(net.parameters()), batches)
for (text,) in batches:
    with accelerator.accumulate(net):
        accelerator.backward(net(input_ids=text, labels=text).loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
""",
    "lightning": """
import lightning
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = net
    def training_step(self, batch, index):
        return self.net(input_ids=batch[0], labels=batch[0]).loss
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())
lightning.Trainer(max_epochs=1, accelerator="gpu", devices=1, precision="bf16-mixed", logger=False,
                  enable_checkpointing=False, enable_progress_bar=False).fit(Module(), batches)
""",
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_library_s_training_runs(dry, library):
    for needed in ("transformers", library):
        pytest.importorskip(needed)
    said = dry.run(TINY_GPT + LIBRARIES[library] + "print('ended')", "--steps", "100")
    assert said.stdout.endswith("ended\n")


def test_copies_have_the_temporaries_of_a_card(dry):
    said = dry.run("""
        import torch
        def peak_of(copy):
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            copy()
            return (torch.cuda.max_memory_allocated() - before) >> 20
        host, card = torch.ones(1024, 1024), torch.ones(1024, 1024, device="cuda")
        print(peak_of(lambda: host.to("cuda", torch.half)), peak_of(lambda: host.to("cuda", torch.half, non_blocking=True)),
              peak_of(lambda: card.to("cpu", torch.half)), peak_of(lambda: card.to("cpu", torch.half, non_blocking=True)),
              peak_of(lambda: card.t().cpu()), peak_of(lambda: torch.empty(1024, 1024).copy_(card.t())))
        """)
    assert said.stdout.split() == ["2", "6", "0", "2", "0", "4"]
