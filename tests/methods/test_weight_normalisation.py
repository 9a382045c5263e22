"""Weight normalisation brings rows to length one."""

from swr import methods

from .projection_helpers import close, with_weight


def test_weight_normalisation_brings_rows_to_length_one_and_skips_zeros():
    layer = with_weight([[3.0, 4.0], [0.0, 2.0], [0.0, 0.0]])
    methods.WeightNormalisation(layer, every=1, head=True).step()
    close(layer.weight, [[0.6, 0.8], [0.0, 1.0], [0.0, 0.0]])
