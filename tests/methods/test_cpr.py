"""CPR: a decay as strong as the bound asks for."""

import math

import pytest
import torch

from swr import methods
from swr.errors import OptionError

from .anneal_helpers import entries, vector


def numbers(method: methods.CPR, key: str) -> float:
    return method.state_dict()[key]["weight"].item()


def test_example():
    layer = vector(3.0, 4.0)
    method = methods.CPR(layer, factor=24.9 / 25)
    method.step()  # μ = (25 - 24.9) / 2
    assert numbers(method, "multiplier") == pytest.approx(0.05)
    assert entries(layer) == [2.7, 3.6]  # 20.25 is below the bound
    method.step()
    assert numbers(method, "multiplier") == 0.0
    assert entries(layer) == [2.7, 3.6]


def test_the_multiplier_grows_while_the_norm_is_too_large_and_the_norm_stays_at_the_bound():
    layer = vector(*[0.5] * 100)
    method = methods.CPR(layer, factor=1.0)
    found = []
    for _ in range(400):
        layer.weight.data.mul_(1.001)  # what training adds
        method.step()
        found.append(numbers(method, "multiplier"))
    assert found[1] > found[0] > 0
    assert layer.weight.square().sum().item() == pytest.approx(25.0, rel=0.05)


def test_a_warm_start_does_nothing_until_it_has_the_bound():
    layer = vector(3.0, 4.0)
    method = methods.CPR(layer, warm_start=2)
    for norm, expected in ((6.0, 6.0), (7.0, 7.0), (7.0, 7.0), (7.0001, None)):
        layer.weight.data.mul_(norm / layer.weight.norm())
        method.step()
        if expected is not None:
            assert layer.weight.norm().item() == pytest.approx(expected)
    assert numbers(method, "bound") == pytest.approx(49.0, rel=1e-5)
    assert numbers(method, "multiplier") > 0


def test_the_bound_is_the_squared_norm_where_its_average_bends():
    layer = vector(3.0, 4.0)
    method = methods.CPR(layer, every=1, smoothing=0.5)
    # squares 25 -> 27, 31, 33, 33.5; averages 25, 26, 28.5, 30.75, 32.125: increases 1, 2.5, 2.25: bent at the third
    for square, bound in ((27.0, math.inf), (31.0, math.inf), (33.0, 33.0), (33.5, 33.0)):
        layer.weight.data.mul_(math.sqrt(square) / layer.weight.norm())
        method.step()
        assert numbers(method, "bound") == pytest.approx(bound, rel=1e-5)
    assert numbers(method, "average") == pytest.approx(32.125, rel=1e-4)
    assert numbers(method, "multiplier") == pytest.approx(0.25, rel=1e-3)


def test_the_average_is_kept_between_samples():
    layer = vector(3.0, 4.0)
    method = methods.CPR(layer, every=2, smoothing=0.9)
    for _ in range(3):
        layer.weight.data.mul_(2.0)
        method.step()
    assert numbers(method, "average") == pytest.approx(0.9 * 25 + 0.1 * 400)  # one sample, at the second step


def test_a_weight_that_begins_at_zero_has_no_bound_from_its_norm():
    layer = vector(0.0, 0.0)
    method = methods.CPR(layer, factor=1.0)
    layer.weight.data.fill_(1.0)
    method.step()
    assert entries(layer) == [1.0, 1.0]


def test_one_way_to_the_bound_at_a_time():
    with pytest.raises(OptionError, match="give one of them, or neither"):
        methods.CPR(vector(1.0), factor=1.0, warm_start=5)
    with pytest.raises(OptionError, match="above 0"):
        methods.CPR(vector(1.0), factor=0.0)
    assert torch.isinf(methods.CPR(vector(1.0)).state_dict()["bound"]["weight"])
