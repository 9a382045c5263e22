"""The scenarios of a few long stages."""

from itertools import pairwise

import pytest
import torch
from toy import COUNT, of_chunks

from swr.errors import OptionError


def test_warm_start_is_half_then_all():
    half, everything = of_chunks("warm-start", (3, 4))
    assert len(half) in (51, 52)
    assert torch.equal(everything, torch.arange(COUNT))
    assert len(half.unique()) == len(half)


def test_continual_full_accumulates_to_everything():
    seen = of_chunks("continual-full", (1,) * 10)
    assert [len(indices) for indices in seen][-1] == COUNT
    for before, after in pairwise(seen):
        assert set(before.tolist()) < set(after.tolist())
        assert len(after) - len(before) in (10, 11)


def test_continual_limited_is_a_partition():
    seen = of_chunks("continual-limited", (1,) * 10)
    assert {len(indices) for indices in seen} == {10, 11}
    assert torch.equal(torch.cat(seen).sort().values, torch.arange(COUNT))


def test_both_continual_scenarios_have_the_same_chunks():
    full, limited = of_chunks("continual-full", (1,) * 10), of_chunks("continual-limited", (1,) * 10)
    assert set(full[1].tolist()) == set(limited[0].tolist()) | set(limited[1].tolist())


def test_chunks_are_random_per_seed_and_the_same_for_every_method():
    zero, one = of_chunks("warm-start", (1, 1)), of_chunks("warm-start", (1, 1), seed=1)
    assert not torch.equal(zero[0], one[0])
    assert torch.equal(zero[0], of_chunks("warm-start", (5, 9), lr=0.1)[0])
    shuffled = of_chunks("warm-start", (1, 1))[0]
    assert not torch.equal(shuffled, torch.arange(len(shuffled)))


def test_more_stages_than_examples_are_refused():
    with pytest.raises(OptionError, match="103 training examples cannot be divided among 104 stages"):
        of_chunks("continual-full", (1,) * 104)
