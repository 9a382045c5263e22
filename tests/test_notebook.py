"""The notebook runs from top to bottom, and is stored without outputs."""

import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed: pip install 'soft-weight-rescaling[dev]'")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install 'soft-weight-rescaling[dev]'")

NOTEBOOK = Path(__file__).parents[1] / "examples" / "quickstart.ipynb"


def text_of(cell):
    """What a cell printed or returned."""
    return "".join(o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in cell.outputs)


def test_the_notebook_runs_and_shows_what_it_says(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    printed = "\n".join(text_of(cell) for cell in code)
    assert "SoftWeightRescaling(growth=1.5" in printed
    assert "f(x) is multiplied by C = c(0.weight)·c(2.weight)·c(4.weight)." in printed
    accuracies = re.search(r"with SWR (0\.\d+), without (0\.\d+)", printed)
    assert float(accuracies[1]) > float(accuracies[2])
    shown = [o["data"] for cell in code for o in cell.outputs if "data" in o]
    assert any("with SWR" in data.get("image/svg+xml", "") for data in shown)  # the norms
    pages = [data["text/html"] for data in shown if "<iframe" in data.get("text/html", "")]
    assert len(pages) == 1
    assert "SWR, budget" in pages[0]


def test_the_notebook_is_stored_without_outputs():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert not [cell for cell in notebook.cells if cell.cell_type == "code" and (cell.outputs or cell.execution_count)]
