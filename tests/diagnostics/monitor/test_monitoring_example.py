"""The monitor on real runs: digits always, the paper's CNN on CIFAR-10 where ``SWR_DATA`` names a folder that holds it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from swr.diagnostics import read_csv

EXAMPLE = Path(__file__).parents[3] / "examples/monitoring.py"


def runs(folder, *options):
    shown = subprocess.run([sys.executable, EXAMPLE, "--out", folder, *options], check=True, capture_output=True, text=True)
    return shown.stdout, read_csv(folder / "vanilla.csv"), read_csv(folder / "swr.csv")


def assert_bounded(vanilla, rescaled, layers, growth):
    for layer in layers:
        norms = [[row[f"norm/{layer}"] for row in rows] for rows in (vanilla, rescaled)]
        limits = [row[f"limit/{layer}"] for row in rescaled if f"limit/{layer}" in row]
        assert max(norms[1]) < limits[-1]
        assert min(row[f"slack/{layer}"] for row in rescaled if f"slack/{layer}" in row) > 0
        assert norms[0][-1] > growth * norms[0][0]
        assert norms[1][-1] < norms[0][-1]


def test_the_example_on_digits(tmp_path):
    shown, vanilla, rescaled = runs(tmp_path, "--epochs", "5")
    assert_bounded(vanilla, rescaled, ["1.weight", "3.weight", "5.weight"], 1.05)
    last = rescaled[-1]
    assert {"accuracy", "dormant", "curvature", "rank/effective", "lipschitz/spectral"} <= set(last)
    assert last["lipschitz/spectral"] < last["lipschitz/frobenius"]
    assert f"{last['curvature']:9.4g}" in shown


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("SWR_DATA"), reason="SWR_DATA is not set")
def test_five_epochs_of_the_cnn_on_cifar_10(tmp_path):
    options = ["--dataset", "cifar10", "--epochs", "5", "--coefficient", "1e-3"]
    _, vanilla, rescaled = runs(tmp_path, *options)
    assert_bounded(vanilla, rescaled, ["0.weight", "3.weight", "7.weight", "9.weight"], 1.2)
    assert vanilla[-1]["accuracy"] > 0.55
    assert rescaled[-1]["accuracy"] > 0.55
