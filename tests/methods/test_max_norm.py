"""Max-norm shortens long rows only."""

import torch

from swr import methods

from .projection_helpers import close, with_weight


def test_max_norm_shortens_long_rows_only():
    layer = with_weight([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    methods.MaxNorm(layer, bound=2.5).step()
    close(layer.weight[0], [1.5, 2.0])
    assert torch.equal(layer.weight[1:], torch.tensor([[0.3, 0.4], [0.0, 0.0]]))
