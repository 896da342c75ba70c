"""The sample notebook, executed in a kernel of its own, and the magic."""
import pathlib

import pytest
import torch

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

NOTEBOOK = pathlib.Path(__file__).parents[2] / "samples/pytorch/memory.ipynb"


def test_the_notebook_runs_and_its_answers_are_tables(tmp_path):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}}).execute()
    pages = [output.data["text/html"] for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
             if "text/html" in output.get("data", {})]
    assert len(pages) == 5 and all("<table>" in page for page in pages)
    assert "<svg" in pages[0] and "optimizer state" in pages[1]


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MEMTRACE_TORCH_LIBRARY", raising=False)
    interactive = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell()
    interactive.run_line_magic("load_ext", "memtrace")
    return interactive


@pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")
def test_a_cell_runs_dry_in_a_new_interpreter(shell, tmp_path, monkeypatch, capsys):
    (tmp_path / "weights.py").write_text("import torch\nWEIGHTS = torch.ones(1 << 20)\n")
    monkeypatch.syspath_prepend(tmp_path)
    trace = shell.run_cell_magic("memtrace", "--device sim:l4 --name first", "import weights\nlive = weights.WEIGHTS.cuda()\n")
    assert trace.run().name == "first" and trace.run().device == "sim:l4" and trace.peak().bytes == 4 << 20
    assert "live" not in shell.user_ns and "run 1 (done): peak 4.00 MiB live" in capsys.readouterr().out


def test_a_cell_without_a_gpu_adds_no_run(shell, capfd):
    assert shell.run_cell_magic("memtrace", "", "print(__name__)\nraise SystemExit(3)\n") is None
    said = capfd.readouterr().out.splitlines()
    assert said == ["__main__", "no run was added to the trace", "the program ended with exit code 3"]


def test_wrong_options_of_a_cell_are_refused(shell):
    from IPython.core.error import UsageError

    with pytest.raises(UsageError, match="unrecognized arguments: --devise"):
        shell.run_cell_magic("memtrace", "--devise sim:l4", "pass")
