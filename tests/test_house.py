"""The packages import each other in one direction only, and no two modules have the same name."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("import_graph", ROOT / "tools" / "import_graph.py")
import_graph = importlib.util.module_from_spec(spec)
spec.loader.exec_module(import_graph)


def test_no_room_imports_what_it_must_not_and_no_two_modules_share_a_name():
    assert import_graph.problems() == []


@pytest.fixture
def house(tmp_path):
    """A small swr with one thing wrong."""

    def build(files):
        for name, text in {"__init__.py": "", "norms.py": "", "algebra/__init__.py": "", **files}.items():
            path = tmp_path / "swr" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return import_graph.problems(tmp_path / "swr")

    return build


def test_a_sound_house_has_no_problems(house):
    assert house({"algebra/flow.py": "from swr import norms", "methods/l2.py": "import swr.algebra.flow"}) == []


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"algebra/flow.py": "from swr.methods import l2", "methods/l2.py": ""}, "algebra must not import methods"),
        ({"algebra/flow.py": "def f():\n    import swr.methods.l2", "methods/l2.py": ""}, "algebra must not import methods"),
        ({"norms.py": "from swr.algebra import flow", "algebra/flow.py": "from swr.norms import x"}, "rooms import each other"),
        ({"algebra/flow.py": "", "methods/flow.py": ""}, "two modules are called flow: swr.algebra.flow, swr.methods.flow"),
        (
            {"bench/__init__.py": "", "bench/store/a.py": "from swr.bench.report import b", "bench/report/b.py": ""},
            "bench.store",
        ),
        ({"cellar/a.py": "from swr import norms"}, "there is no room cellar in the table"),
    ],
)
def test_what_is_wrong_with_a_house_is_named(house, files, problem):
    assert any(problem in found for found in house(files))


def test_a_folder_with_more_than_ten_files_has_a_readme():
    house = ROOT / "src" / "swr"
    for folder in [house, *(path for path in house.rglob("*") if path.is_dir() and path.name != "__pycache__")]:
        files = [path for path in folder.iterdir() if path.is_file() and path.suffix != ".pyc"]
        assert len(files) <= 10 or (folder / "README.md").exists(), folder


def test_the_map_in_the_documentation_shows_the_graph_as_it_is():
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert import_graph.mermaid().strip() in page
