"""FIRE goes to the nearest isometry."""

import copy
from math import sqrt

import pytest
import torch
from torch import nn

from swr import methods
from swr.methods.fire import isometric, isometry
from swr.methods.tools.layers import affine_layers

from .methods_table import changed
from .reset_helpers import mlp, set_to


class TestFire:
    def test_examples(self):
        identity, quarter_turn = torch.eye(2), torch.tensor([[0.0, -1.0], [1.0, 0.0]])
        torch.testing.assert_close(isometry(torch.diag(torch.tensor([2.0, 1.0]))), identity)
        torch.testing.assert_close(isometry(torch.tensor([[0.0, -2.0], [1.0, 0.0]])), quarter_turn)
        unfinished = isometry(torch.diag(torch.tensor([3.0, 0.01])))
        torch.testing.assert_close(unfinished, torch.diag(torch.tensor([1.0, 0.1903])), atol=1e-4, rtol=0)
        torch.testing.assert_close(isometry(torch.diag(torch.tensor([3.0, 0.01])), None), identity)
        layer = nn.Linear(2, 3, bias=False)
        set_to(layer.weight, [[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])
        methods.Fire(layer).new_task()
        torch.testing.assert_close(layer.weight.detach(), 1.2247 * torch.eye(3, 2), atol=1e-4, rtol=0)

    @pytest.mark.parametrize(("start", "end"), [(0.05, 0.9995), (0.03, 0.968), (0.02, 0.849), (0.01, 0.529), (0.001, 0.058)])
    def test_small_singular_values_do_not_get_there(self, start: float, end: float):
        found = isometry(torch.diag(torch.tensor([sqrt(1 - start**2), start], dtype=torch.float64)))
        assert found[1, 1].item() == pytest.approx(end, abs=6e-4)

    @pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5)])
    def test_is_the_polar_factor_and_no_isometry_is_nearer(self, shape: tuple[int, int]):
        torch.manual_seed(0)
        weight = torch.randn(*shape, dtype=torch.float64)
        u, _, vh = torch.linalg.svd(weight, full_matrices=False)
        torch.testing.assert_close(isometry(weight, 40), u @ vh)
        torch.testing.assert_close(isometry(weight, None), u @ vh)
        for _ in range(20):
            other = torch.linalg.qr(torch.randn(max(shape), min(shape), dtype=torch.float64)).Q
            other = other if shape[0] >= shape[1] else other.mT
            assert (weight - u @ vh).norm() < (weight - other).norm()

    @pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
    @pytest.mark.parametrize(
        "layer",
        [nn.Conv2d(3, 6, (2, 3)), nn.Conv2d(4, 6, 3, groups=2), nn.ConvTranspose2d(3, 5, 2)],
        ids=["plain", "groups", "transposed"],
    )
    def test_convolutions_tap_by_tap_and_group_by_group(self, layer: nn.Module, layout: torch.memory_format):
        torch.manual_seed(0)
        layer = copy.deepcopy(layer).double().to(memory_format=layout)
        before = layer.weight.detach().clone()
        methods.Fire(layer, iterations=None).new_task()
        groups, taps = layer.groups, layer.kernel_size[0] * layer.kernel_size[1]
        for old, new in zip(before.chunk(groups), layer.weight.detach().chunk(groups), strict=True):
            for i in range(layer.kernel_size[0]):
                for j in range(layer.kernel_size[1]):
                    tap = old[:, :, i, j].mT if layer.transposed else old[:, :, i, j]
                    u, _, vh = torch.linalg.svd(tap, full_matrices=False)
                    expected = u @ vh * sqrt(tap.shape[0] / tap.shape[1]) / taps
                    torch.testing.assert_close(new[:, :, i, j].mT if layer.transposed else new[:, :, i, j], expected)

    def test_zeros_stay_zeros_and_half_precision_is_computed_in_single(self):
        assert not isometry(torch.zeros(2, 3)).any()
        assert not isometry(torch.zeros(2, 3), None).any()
        layer = nn.Linear(8, 8, bias=False)
        half = copy.deepcopy(layer).bfloat16()
        layer.weight.data.copy_(half.weight)
        torch.testing.assert_close(isometric(affine_layers(half)[0]), isometric(affine_layers(layer)[0]))

    def test_named_layers_only(self):
        model = mlp(3, 4, 2)
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        methods.Fire(model, layers=["2"]).new_task()
        assert changed(before, model.state_dict()) == {"2.weight"}
