"""The sample notebook, executed in a kernel of its own."""
import pathlib

import pytest

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
