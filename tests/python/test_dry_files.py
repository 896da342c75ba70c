"""A dry run and the user's files: what was there before stays as it was, and the program reads back what it has written."""
import os
import re
import subprocess
import sys
import textwrap

import pytest
import torch
from test_dry_run import Dry

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")


class DryOnCard(Dry):
    """Runs programs that use the card at their end, without which there would be no dry run."""

    def run(self, source, *options, **named):
        return super().run(textwrap.dedent(source) + "\nimport torch\ntorch.ones(1, device='cuda')\n", *options, **named)


@pytest.fixture
def dry(tmp_path):
    return DryOnCard(tmp_path)


def state_of(folder):
    """Returns what is in a folder but for the trace and the program: modes, and bytes and time of each file."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.name.startswith(("dry", "program.py")):
            continue
        status = path.lstat()
        found[str(path.relative_to(folder))] = (status.st_mode, *((status.st_mtime_ns, path.read_bytes()) if path.is_file() else ()))
    return found


@pytest.fixture
def kept(dry):
    """A dry run after which the folder must be as before."""
    (dry.folder / "data").mkdir()
    for name in ("best.pt", "data/train.txt", "run.log"):
        (dry.folder / name).write_bytes(b"the user's " + name.encode())
    before = state_of(dry.folder)
    yield dry
    assert state_of(dry.folder) == before


# ---- files ----

def test_what_is_opened_for_writing_is_read_back_and_the_user_s_file_stays(kept):
    kept.run("""
        import codecs, io, os, pathlib, torch
        for mode, text in (("w", "new"), ("a", "the user's run.lognew"), ("r+", "new user's run.log")):
            with open("run.log", mode) as file:
                assert file.name == "run.log"
                file.write("new")
            assert open("run.log").read() == text and os.path.getsize("run.log") == len(text), mode
            os.remove("run.log")
            assert not os.path.exists("run.log")
            os.rename("data/train.txt", "run.log")
            with open("data/train.txt", "w") as file:
                file.write("the user's run.log")
            os.replace("data/train.txt", "run.log")
            os.system("true")
            with open("data/train.txt", "w") as file:
                file.write("the user's data/train.txt")
        pathlib.Path("best.pt").write_bytes(b"1")
        assert pathlib.Path("best.pt").read_bytes() == b"1" and pathlib.Path("best.pt").stat().st_size == 1
        with io.open("best.pt", "wb") as one, codecs.open("data/train.txt", "w", "utf-8") as other:
            one.write(b"2"), other.write("3")
        number = os.open("best.pt", os.O_WRONLY | os.O_APPEND)
        os.write(number, b"4"), os.close(number)
        assert (open("best.pt").read(), open("data/train.txt").read()) == ("24", "3")
        """)


def test_names_are_changed_for_the_program_alone(kept):
    kept.run("""
        import glob, os, pathlib, shutil, torch
        os.rename("best.pt", "worst.pt")
        assert open("worst.pt").read() == "the user's best.pt" and not os.path.exists("best.pt")
        with open("worst.pt", "a") as file:
            file.write(", changed")
        assert open("worst.pt").read() == "the user's best.pt, changed"
        assert glob.glob("*.pt") == ["worst.pt"] == [path.name for path in pathlib.Path().glob("*.pt")]
        os.truncate("worst.pt", 3)
        os.link("worst.pt", "same.pt")
        os.symlink("worst.pt", "latest.pt")
        assert open("same.pt").read() == open("latest.pt").read() == "the" and os.readlink("latest.pt") == "worst.pt"
        assert os.path.islink("latest.pt") and os.path.realpath("latest.pt") == os.path.abspath("worst.pt")
        shutil.copy("worst.pt", "copy.pt"), shutil.move("copy.pt", "data/moved.pt"), os.chmod("data/moved.pt", 0o600)
        assert sorted(os.listdir("data")) == ["moved.pt", "train.txt"] and os.stat("data/moved.pt").st_mode & 0o777 == 0o600
        os.chmod("data/train.txt", 0o600), os.utime("data/train.txt", (1, 1)), os.utime("data", (1, 1))
        shutil.rmtree("data")
        assert not os.path.exists("data") and not os.path.isdir("data") and "data" not in os.listdir()
        os.makedirs("data/sub")
        assert os.listdir("data") == ["sub"] and list(os.walk("data")) == [("data", ["sub"], []), ("data/sub", [], [])]
        pathlib.Path("data/sub/x").touch()
        os.rename("data", "old")
        assert [(entry.name, entry.is_file(), entry.is_dir()) for entry in os.scandir("old/sub")] == [("x", True, False)]
        assert not os.path.exists("data")
        """)


def test_what_can_t_be_fails_as_it_would(kept):
    kept.run("""
        import os, torch
        os.remove("best.pt")
        os.mkdir("new")
        open("new/file", "w").close()
        for error, call in ((FileNotFoundError, lambda: open("best.pt")), (FileNotFoundError, lambda: os.stat("best.pt")),
                            (FileNotFoundError, lambda: open("best.pt", "r+")), (FileNotFoundError, lambda: os.remove("best.pt")),
                            (FileNotFoundError, lambda: open("no/file", "w")), (FileExistsError, lambda: open("run.log", "x")),
                            (FileNotFoundError, lambda: os.rename("best.pt", "x")), (IsADirectoryError, lambda: open("data", "w")),
                            (FileExistsError, lambda: os.mkdir("new/file")), (OSError, lambda: os.rmdir("new")),
                            (NotADirectoryError, lambda: os.rmdir("run.log")), (IsADirectoryError, lambda: os.rename("run.log", "new")),
                            (FileExistsError, lambda: os.link("run.log", "new/file")), (OSError, lambda: os.rename("data", "new")),
                            (FileNotFoundError, lambda: os.listdir("best.pt")), (NotADirectoryError, lambda: os.listdir("new/file"))):
            try:
                call()
            except error as caught:
                assert caught.errno
            else:
                assert False, error
        open("best.pt", "x").close()
        """)


def test_modules_that_took_functions_before_torch_are_redirected(kept):
    kept.run("""
        from os import remove, rename
        from builtins import open as other_open
        import bz2, lzma, tarfile
        import torch
        other_open("best.pt", "w").write("1")
        rename("best.pt", "run.log")
        remove("run.log")
        with bz2.open("data/train.txt", "wb") as file:
            file.write(b"2")
        with tarfile.open("best.pt", "w") as file:
            file.add("data/train.txt")
        """)


def test_what_the_redirection_misses_is_refused_and_named(kept):
    said = kept.run("""
        import io, posix, torch
        for call in (lambda: io.FileIO("best.pt", "w"), lambda: posix.unlink("best.pt"), lambda: posix.rename("x", "run.log"),
                     lambda: posix.truncate("run.log", 0), lambda: posix.open("run.log", posix.O_RDWR)):
            try:
                call()
            except PermissionError as error:
                print(error)
            else:
                assert False
        """)
    names = [os.path.basename(re.search("'(.*)'$", line).group(1)) for line in said.stdout.splitlines()]
    assert names == ["best.pt", "best.pt", "run.log", "run.log", "run.log"]
    assert said.stdout.count("memtrace dry-run protects this file") == 5


def test_devices_caches_downloads_and_temporary_files_are_left_as_they_are(dry, tmp_path_factory):
    folder = tmp_path_factory.mktemp("elsewhere")
    (folder / "cache").mkdir()
    (folder / "cache/old").write_text("old")
    (folder / "page.html").write_text("page")
    said = dry.run(f"""
        import os, subprocess, tempfile, urllib.request, torch
        print("to a device", file=open("/dev/stdout", "w"), flush=True)
        open("/dev/null", "w").write("x")
        open("{folder}/cache/old", "w").write("new")
        urllib.request.urlretrieve("file://{folder}/page.html", "{folder}/fetched.html")
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("read by another program")
            file.flush()
            print(subprocess.run(["cat", file.name], capture_output=True, text=True, check=True).stdout)
        with tempfile.TemporaryDirectory() as name:
            open(name + "/file", "w").write("and another")
            print(subprocess.run(["cat", name + "/file"], capture_output=True, text=True, check=True).stdout)
        assert not os.path.exists(name)
        """, HF_HUB_CACHE=str(folder / "cache"))
    assert said.stdout.splitlines() == ["to a device", "read by another program", "and another"]
    assert (folder / "cache/old").read_text() == "new" and (folder / "fetched.html").read_text() == "page"
    assert "written to a folder" not in said.stderr


def test_processes_of_a_job_share_its_files(kept):
    said = kept.run("""
        import multiprocessing, os, subprocess, sys, torch
        def work():
            open("from child", "w").write(open("best.pt").read())
        def read(number):
            return open("best.pt").read() + str(number)
        class Lines(torch.utils.data.Dataset):
            def __len__(self): return 2
            def __getitem__(self, number): return open("best.pt").read()
        if __name__ == "__main__":
            open("best.pt", "w").write("new")
            process = multiprocessing.get_context("fork").Process(target=work)
            process.start(), process.join()
            print(open("from child").read())
            subprocess.run([sys.executable, "-c", "import torch; print(open('best.pt').read()); open('run.log', 'w').write('seen')"],
                           check=True)
            print(open("run.log").read(), list(torch.utils.data.DataLoader(Lines(), num_workers=1)))
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(read, [1]))
        """)
    assert said.stdout.splitlines() == ["new", "new", "seen [['new'], ['new']]", "['new1']"]


def test_ranks_share_files_and_none_is_left(kept):
    said = kept.run("""
        import os, torch, torch.distributed as dist
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
        model = torch.nn.Linear(2048, 2048).cuda()
        if dist.get_rank() == 0:
            os.makedirs("out/checkpoint")
            torch.save(model.state_dict(), "out/checkpoint/model.pt")
        dist.barrier()
        state = torch.load("out/checkpoint/model.pt", map_location=f"cuda:{os.environ['LOCAL_RANK']}")
        model.load_state_dict(state)
        print(state["weight"].shape, state["weight"].device)
        """, "--ranks", "2")
    assert said.stdout.splitlines() == [f"torch.Size([2048, 2048]) cuda:{rank}" for rank in (0, 1)]
    assert not list((kept.folder).glob("out*"))


def test_the_folder_of_the_job_is_removed_and_its_files_are_named(dry, tmp_path_factory):
    temporary = tmp_path_factory.mktemp("tmp")
    said = dry.run("""
        import os, sys, torch
        os.makedirs("out/deep")
        for name in "abcdefg":
            torch.save(torch.ones(9), f"out/deep/{name}.pt")
        os.remove("out/deep/g.pt")
        os.rename("out/deep/f.pt", "out/f.pt")
        """, TMPDIR=str(temporary))
    assert ("memtrace: 6 files were written to a folder of the dry run and removed: out/deep/a.pt, out/deep/b.pt, out/deep/c.pt, "
            "out/deep/d.pt, out/deep/e.pt and 1 more\n") in said.stderr
    assert list(temporary.iterdir()) == [] and not (dry.folder / "out").exists()


def test_a_killed_program_leaves_nothing(kept, tmp_path_factory):
    temporary = tmp_path_factory.mktemp("tmp")
    kept.run("""
        import os, signal, torch
        os.makedirs("out/deep")
        open("out/deep/file", "w").write("x")
        os.kill(os.getpid(), signal.SIGKILL)
        """, code=137, TMPDIR=str(temporary))
    assert list(temporary.iterdir()) == []


def test_a_part_of_a_program_is_protected_and_the_rest_is_not(kept):
    script = kept.folder / "program.py"
    script.write_text("""
import memtrace, os
with memtrace.dry_run("sim:h100", "dry.db"):
    import torch
    torch.save(torch.ones(9).cuda(), "best.pt")
    assert torch.load("best.pt").sum() == 9
assert "MEMTRACE_SETTINGS" not in os.environ
assert open("best.pt").read() == "the user's best.pt"
open("dry.db.after", "w").write("after")
""")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=kept.folder, env=kept.environment())
    assert done.returncode == 0, done.stderr
    assert (kept.folder / "dry.db.after").read_text() == "after"


# ---- checkpoints ----

SAVED = """
import json, os, time, torch
from torch import nn
def used():
    return sum(status.st_blocks * 512 for folder, _, names in os.walk(json.loads(os.environ["MEMTRACE_SETTINGS"])["files"])
               for status in (os.stat(os.path.join(folder, name)) for name in names))
"""


def test_the_best_model_is_saved_and_loaded_at_the_end(kept):
    said = kept.run(SAVED + """
model = nn.Sequential(nn.Linear(8, 2048), nn.Linear(2048, 2048), nn.Linear(2048, 1)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
def step():
    optimizer.zero_grad()
    model(torch.randn(4, 8, device="cuda")).sum().backward()
    optimizer.step()
step()
with open("best.pt", "wb") as file:
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 1}, file)
small = model[0].bias.tolist()
step()
saved = torch.load("best.pt")
before = torch.cuda.memory_allocated()
model.load_state_dict(saved["model"])
optimizer.load_state_dict(saved["optimizer"])
assert model[0].bias.tolist() == small and saved["step"] == 1
step()
print({name: (tuple(tensor.shape), str(tensor.device), tensor.stride()) for name, tensor in saved["model"].items()}["1.weight"])
print(sorted({str(value.device) for state in optimizer.state.values() for value in state.values()}))
""", "--steps", "10")
    assert said.stdout.splitlines() == ["((2048, 2048), 'cuda:0', (2048, 1))", "['cpu', 'cuda:0']"]


@pytest.mark.parametrize("target", ["big.pt", "legacy.pt", "big.safetensors"])
def test_16_gib_are_saved_without_disk_or_time_and_loaded_onto_the_card(kept, target):
    said = kept.run(SAVED + f"""
target = "{target}"
from safetensors.torch import load_file, save_file
saved = {{"a": torch.empty(2 << 30, device="cuda"), "b": torch.empty(4 << 30, dtype=torch.bfloat16, device="cuda"), "c": torch.arange(9).cuda()}}
begin = time.time()
if target.endswith("pt"):
    torch.save(saved, target, _use_new_zipfile_serialization=target == "big.pt")
else:
    save_file(saved, target)
print(time.time() - begin)
for device in ("cpu", "cuda"):
    before = torch.cuda.memory_allocated()
    begin = time.time()
    found = torch.load(target, map_location=device) if target.endswith("pt") else load_file(target, device=device)
    print(time.time() - begin)
    assert all(found[name].shape == saved[name].shape and found[name].dtype == saved[name].dtype for name in saved)
    assert torch.cuda.memory_allocated() - before == (0 if device == "cpu" else (16 << 30) + 512)
    assert found["c"].tolist() == list(range(9))
    torch.save(found, "again.pt")
    del found
print(used())
""")
    *seconds, disk = map(float, said.stdout.split())
    assert max(seconds) < 1 and disk < 10e6


def test_memory_files_of_large_tensors_are_small(kept):
    kept.run(SAVED + """
import copy, io, pickle
model = nn.Linear(4096, 4096).cuda()
for legacy in (True, False):
    file = io.BytesIO()
    torch.save(model, file, _use_new_zipfile_serialization=not legacy)
    assert len(file.getvalue()) < 100_000
    open("copy.pt", "wb").write(file.getvalue())
    again = torch.load("copy.pt", weights_only=False)
    assert again.weight.shape == (4096, 4096) and again.weight.is_cuda and torch.equal(again.bias, model.bias)
assert len(pickle.dumps(model)) < 100_000 and pickle.loads(pickle.dumps(model)).weight.is_cuda
copy.deepcopy(model)(torch.ones(2, 4096, device="cuda"))
""")


def test_values_on_the_host_keep_their_bytes(kept):
    kept.run(SAVED + """
tokens = torch.arange(1 << 20)
torch.save({"tokens": tokens, "untouched": torch.empty(64 << 20)}, "cache.pt")
assert os.path.getsize("cache.pt") < 10e6
for mmap in (False, True):
    saved = torch.load("cache.pt", mmap=mmap)
    assert torch.equal(saved["tokens"], tokens) and saved["untouched"].shape == (64 << 20,)
torch.save(tokens, "tokens.pt")
assert torch.equal(torch.load("tokens.pt", mmap=True), tokens)
import numpy
numpy.save("array.npy", tokens.numpy())
assert (numpy.load("array.npy", mmap_mode="r") == tokens.numpy()).all()
""")


def test_a_real_checkpoint_is_resumed_from(kept):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 600_000))
    for name, is_new in (("data/dry.db.new", True), ("data/dry.db.legacy", False)):
        torch.save(model.state_dict(), kept.folder / name, _use_new_zipfile_serialization=is_new)
    expected = [model[0].bias.tolist(), model[1].bias[:3].tolist()]
    said = kept.run(SAVED + """
for name in ("data/dry.db.new", "data/dry.db.legacy"):
    for mmap in {False, name.endswith("new")}:
        state = torch.load(name, map_location="cpu", mmap=mmap)
        print([state["0.bias"].tolist(), state["1.bias"][:3].tolist()])
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 600_000)).cuda()
    model.load_state_dict(torch.load(name, map_location="cuda"))
    assert model[0].bias.tolist() == state["0.bias"].tolist()
    torch.save(model.state_dict(), name)
    assert torch.load(name)["1.bias"].shape == (600_000,)
""")
    assert said.stdout.splitlines() == [str(expected)] * 3


def test_files_of_safetensors_are_those_of_the_library(kept):
    safetensors = pytest.importorskip("safetensors.torch")
    kinds = [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
             torch.float64, torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2]
    source = f"""
import torch
def tensors(device):
    kinds = [{", ".join(map(str, kinds))}]
    made = {{f"{{name}}{{number}}": torch.arange(6 + number, device=device).to(kind).reshape(2, -1) if number % 2 == 0 else
             torch.arange(number, device=device).to(kind) for number, kind in enumerate(kinds) for name in "zaö"}}
    return {{**made, "empty": torch.ones(0, 3, device=device), "number": torch.tensor(3.5, device=device)}}
"""
    names = {}
    exec(source, names)
    path = kept.folder / "dry.db.real"
    safetensors.save_file(names["tensors"]("cpu"), path, {"format": "pt"})
    kept.run(source + """
from safetensors import safe_open
from safetensors.torch import save_file, save_model, load_model
real = open("dry.db.real", "rb").read()
for device in ("cpu", "cuda"):
    save_file(tensors(device), "ours", {"format": "pt"})
    assert open("ours", "rb").read() == real, device
with safe_open("ours", framework="pt") as file:
    assert file.metadata() == {"format": "pt"} and file.get_slice("z0")[1:].shape == (1, 3)
model = torch.nn.Linear(4096, 4096).cuda()
save_model(model, "best.pt")
load_model(model, "best.pt", device="cuda")
for wrong, error in (({"a": model.weight, "b": model.weight}, RuntimeError), ({"a": 1}, ValueError), ({"a": model.weight.t()}, ValueError)):
    try:
        save_file(wrong, "best.pt")
    except error:
        pass
    else:
        assert False
""")


def test_distributed_checkpoints_are_saved_and_loaded(kept):
    kept.run(SAVED + """
import torch.distributed.checkpoint as dcp
model = nn.Linear(16384, 16384).cuda()
state = {"model": model.state_dict(), "step": 3}
begin = time.time()
dcp.save(state, checkpoint_id="out/step-1")
assert time.time() - begin < 5 and used() < 10e6 and sorted(os.listdir("out/step-1")) == [".metadata", "__0_0.distcp"]
state["step"] = 0
dcp.load(state, checkpoint_id="out/step-1")
assert state["step"] == 3 and state["model"]["weight"].is_cuda
""")


def test_ranks_save_and_load_their_shards(kept):
    said = kept.run("""
        import os, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_state_dict, set_state_dict
        from torch.distributed.fsdp import fully_shard
        rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(rank)
        dist.init_process_group("nccl")
        model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(2))).cuda()
        for layer in (*model, model):
            fully_shard(layer)
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.randn(2, 1024, device="cuda")).sum().backward()
        optimizer.step()
        parts = get_state_dict(model, optimizer)
        state = {"model": parts[0], "optimizer": parts[1], "step": 1}
        dcp.save(state, checkpoint_id="out")
        state["step"] = 0
        dcp.load(state, checkpoint_id="out")
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
        if rank == 0:
            torch.save(whole, "best.pt")
        dist.barrier()
        shape = tuple(torch.load("best.pt", mmap=True)["0.weight"].shape)
        print(rank, state["step"], f"__{rank}_0.distcp" in os.listdir("out"), shape)
        """, "--ranks", "2", "--steps", "100")
    assert said.stdout.splitlines() == [f"{rank} 1 True (1024, 1024)" for rank in (0, 1)]


TINY = """
import torch, os
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
def make():
    return GPT2LMHeadModel(GPT2Config(vocab_size=5000, n_layer=2, n_head=2, n_embd=256))
"""


def test_transformers_save_and_load_a_model(kept):
    pytest.importorskip("transformers")
    kept.run(TINY + """
net = make().cuda()
net.save_pretrained("out", max_shard_size="3MB")
print(sorted(os.listdir("out")))
again = GPT2LMHeadModel.from_pretrained("out").cuda()
assert again.transformer.wte.weight.shape == (5000, 256)
assert torch.equal(again.transformer.ln_f.weight, net.transformer.ln_f.weight)
again(torch.ones(1, 8, dtype=torch.long, device="cuda"), labels=torch.ones(1, 8, dtype=torch.long, device="cuda")).loss.backward()
""")


def test_a_trainer_saves_resumes_and_loads_its_best_model(kept):
    for needed in ("transformers", "accelerate"):
        pytest.importorskip(needed)
    said = kept.run(TINY + """
texts = [{"input_ids": text, "labels": text} for text in torch.randint(0, 500, (64, 32))]
def trainer(steps):
    return Trainer(make(), TrainingArguments(
        output_dir="out", per_device_train_batch_size=4, max_steps=steps, save_strategy="steps", save_steps=2, eval_strategy="steps",
        eval_steps=2, save_total_limit=1, load_best_model_at_end=True, report_to=[]), train_dataset=texts, eval_dataset=texts[:4])
trainer(4).train()
print(sorted(os.listdir("out")))
trainer(6).train(resume_from_checkpoint=True)
print(sorted(os.listdir("out")))
""", "--steps", "100")
    assert "checkpoint-" in said.stdout.splitlines()[-1]


def test_lightning_keeps_checkpoints(kept):
    pytest.importorskip("lightning")
    said = kept.run("""
import lightning, torch, os
from lightning.pytorch.callbacks import ModelCheckpoint
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 1024), torch.nn.Linear(1024, 1024), torch.nn.Linear(1024, 1))
    def training_step(self, batch, index):
        return self.net(batch[0]).mean()
    def validation_step(self, batch, index):
        self.log("loss", self.net(batch[0]).mean())
    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())
batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(16, 8)), batch_size=4)
kept = ModelCheckpoint("ckpt", monitor="loss", save_last=True)
trainer = lightning.Trainer(max_epochs=2, accelerator="gpu", devices=1, logger=True, callbacks=[kept], enable_progress_bar=False)
trainer.fit(Module(), batches, batches)
trainer.validate(ckpt_path="best", dataloaders=batches)
trainer.fit(Module(), batches, batches, ckpt_path="ckpt/last.ckpt")
again = torch.load("ckpt/last.ckpt", weights_only=False)
assert again["state_dict"]["net.1.weight"].shape == (1024, 1024)
print(os.path.basename(kept.best_model_path), sorted(os.listdir("ckpt")))
""", "--steps", "100")
    assert "last.ckpt" in said.stdout


# ---- services ----

def test_loggers_stay_on_this_machine(dry):
    for name, text in {
            "wandb/__init__.py": """
import os
def init(project=None, mode=None, dir=None):
    return mode or os.environ["WANDB_MODE"], dir or os.environ["WANDB_DIR"]
""",
            "mlflow/__init__.py": "from .tracking import *\nfrom .tracking._tracking_service.utils import set_tracking_uri",
            "mlflow/tracking/__init__.py": "",
            "mlflow/tracking/_tracking_service/__init__.py": "",
            "mlflow/tracking/_tracking_service/utils.py": "import os\ndef set_tracking_uri(uri):\n    os.environ['MLFLOW_TRACKING_URI'] = uri",
    }.items():
        path = dry.folder / "dry modules" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    said = dry.run("""
        import json, os, sys, torch
        sys.path.insert(0, "dry modules")
        import mlflow, wandb
        files = json.loads(os.environ["MEMTRACE_SETTINGS"])["files"]
        assert wandb.init(project="x") == wandb.init(mode="online", dir="logs") == ("offline", files)
        assert wandb.init(mode="disabled")[0] == "disabled"
        mlflow.set_tracking_uri("http://127.0.0.1:9")
        assert os.environ["MLFLOW_TRACKING_URI"] == f"file://{files}/mlruns"
        """)
    assert said.stderr.count("MLflow logs to a folder of the dry run") == 1


def test_nothing_is_pushed_to_the_hub(kept):
    pytest.importorskip("transformers")
    said = kept.run(TINY + """
from huggingface_hub import HfApi, create_repo, upload_folder
assert create_repo("me/model").repo_id == "me/model" and HfApi().create_repo("model", private=True).repo_id == "user/model"
assert upload_folder(repo_id="me/model", folder_path="data").oid and HfApi().upload_file(
    path_or_fileobj=b"", path_in_repo="a", repo_id="me/model", run_as_future=True).result().oid
assert HfApi().delete_repo("me/model") is None
assert make().push_to_hub("me/model") == "https://huggingface.co/me/model"
""", HF_ENDPOINT="http://127.0.0.1:9")
    assert said.stderr.count("nothing is pushed to the Hugging Face Hub in a dry run") == 1


def test_tokenizers_and_scripted_modules_are_saved_and_loaded(kept):
    pytest.importorskip("transformers")
    kept.run("""
import os, torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import AutoTokenizer, PreTrainedTokenizerFast
made = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"a": 0, "?": 1}, unk_token="?")))
made.save_pretrained("out")
assert AutoTokenizer.from_pretrained("out")("a a b")["input_ids"] == [1] and "tokenizer.json" in os.listdir("out")
net = torch.jit.script(torch.nn.Linear(4, 4).cuda())
net.save("best.pt")
torch.jit.save(net, "other.pt")
assert torch.equal(torch.jit.load("best.pt").weight, torch.jit.load("other.pt").weight)
""")
