"""The page about the growth budget says what the stored runs say."""

import importlib.util
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("growth_study", ROOT / "tools" / "growth_study.py")
growth_study = importlib.util.module_from_spec(spec)
sys.modules["growth_study"] = growth_study  # dataclasses look their module up
spec.loader.exec_module(growth_study)


def test_the_page_and_its_chart_are_made_again_from_the_stored_runs(tmp_path):
    growth_study.merge(ROOT / "results" / "growth", tmp_path / "study.sqlite")
    page = tmp_path / "growth.md"
    shutil.copy(ROOT / "docs" / "growth.md", page)
    (tmp_path / "charts").mkdir()
    with growth_study.Store(tmp_path / "study.sqlite") as store:
        found = growth_study.findings(store)
        growth_study.page(found, page)
    names = ["permuted-pixels", "lr-decay", "warm-start", "limited", "random-labels", "generalization"]
    names += ["lr-cosine", "lead", "vit", "cnnbn"]
    assert [one.setting.name for one in found] == names
    assert page.read_text() == (ROOT / "docs" / "growth.md").read_text()
    chart = "charts/growth-sensitivity.svg"
    assert (tmp_path / chart).read_text() == (ROOT / "docs" / chart).read_text()
