"""What a sweep tries."""

import pytest
import torch

from swr import methods
from swr.bench.experiments import find_column
from swr.bench.experiments.grids import points
from swr.bench.experiments.models import build
from swr.bench.experiments.published import GRIDS
from swr.errors import OptionError

CNN = find_column("cifar10-cnn")


TUNABLE = [name for name in methods.names() if name in GRIDS or len(methods.find(name).tuning) > 1]


@pytest.mark.parametrize("method", TUNABLE)
def test_every_point_of_a_known_grid_makes_the_method(method):
    assert len(points(CNN, method)) > 1
    for hyper in points(CNN, method):
        assert methods.build(method, build("mlp", (1, 8, 8), 10), torch.randn(2, 1, 8, 8), seed=0, **hyper)


def test_a_method_that_the_paper_does_not_have_is_swept_over_its_own_configurations():
    assert points(CNN, "dash") == [{"floor": value} for value in (0.05, 0.1, 0.2, 0.3, 0.5)]
    both = points(CNN, "dash+redo")
    assert len(both) == 25
    assert both[1] == {"dash.floor": 0.05, "redo.threshold": 0.01}


def test_several_hyper_parameters_are_a_product_in_the_order_given():
    found = points(CNN, "redo", {"threshold": [0.1, 0.2, 0.1], "every": [10, 20]})
    assert found == [{"threshold": t, "every": e} for t in (0.1, 0.2) for e in (10, 20)]


def test_swr_is_still_the_papers_grid():
    assert points(CNN, "swr") == [{"coefficient": value} for value in (1.0, 1e-1, 1e-2, 1e-3, 1e-4)]
    assert len(points(find_column("cifar100-cnnbn"), "swr")) == 25
    assert points(find_column("cifar100-cnnbn"), "swr", {"coefficient": [1e-2]}) == [{"coefficient": 1e-2}]


def test_a_method_without_a_grid_and_a_grid_without_values_are_refused():
    with pytest.raises(OptionError, match=r"fire has no hyper-parameter to sweep by default.*--grid NAME=VALUE"):
        points(CNN, "fire")
    with pytest.raises(OptionError, match="no value of coefficient"):
        points(CNN, "l2", {"coefficient": []})
