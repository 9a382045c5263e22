"""The page about agents says what the stored runs say."""

import importlib.util
import re
import shutil
from pathlib import Path

from swr.bench.experiments import expand

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("control_study", ROOT / "tools" / "control_study.py")
control_study = importlib.util.module_from_spec(spec)
spec.loader.exec_module(control_study)


def test_the_page_is_made_again_from_the_stored_runs(tmp_path):
    control_study.merge(ROOT / "results" / "rl", tmp_path / "study.sqlite")
    page = tmp_path / "reinforcement.md"
    shutil.copy(ROOT / "docs" / "reinforcement.md", page)
    with control_study.Store(tmp_path / "study.sqlite") as store:
        for record in store.runs():
            assert re.fullmatch("[0-9a-f]{40}", record.provenance.commit), "of a tree without changes"
        done = control_study.finished(store)
    assert control_study.complete("cartpole-ppo", done)
    control_study.page(done, page)
    assert page.read_text() == (ROOT / "docs" / "reinforcement.md").read_text()


def test_what_is_chosen_did_best_on_the_tuning_seed():
    done = {}
    for value, hyper in zip((30.0, 50.0), control_study.GRIDS["redo"], strict=True):
        done[control_study.config("cartpole-ppo", "redo", hyper, 100).identity] = [value, value - 10]
    assert control_study.best("cartpole-ppo", "redo", done) == control_study.GRIDS["redo"][1]
    assert not set(control_study.TUNING) & set(control_study.REPORTED)


def test_the_stream_runs_what_was_chosen(tmp_path):
    control_study.merge(ROOT / "results" / "rl", tmp_path / "study.sqlite")
    with control_study.Store(tmp_path / "study.sqlite") as store:
        done = control_study.finished(store)
    for column in control_study.COLUMNS:
        made = {run.identity for run in expand(control_study.STREAM, columns=[column])}
        chosen = {run.identity for line in control_study.rows(column, done).values() for run in line if run.column == column}
        assert made == chosen
