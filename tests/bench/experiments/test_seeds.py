"""One seed, many generators."""

import torch

from swr.bench.experiments.seeds import generator


def test_random_numbers_of_different_purposes_and_seeds_differ():
    draws = {(s, p): tuple(torch.rand(2, generator=generator(s, p)).tolist()) for s in range(5) for p in "abc"}
    assert len(set(draws.values())) == 15
