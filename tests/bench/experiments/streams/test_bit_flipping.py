"""Bit flipping."""

from itertools import pairwise

import pytest
import torch
from toy import of_tasks, stream_config

from swr.bench import experiments
from swr.bench.experiments.streams import bit_flipping
from swr.errors import OptionError


def test_the_target_of_bit_flipping_is_the_network_of_threshold_units():
    target, inputs = bit_flipping.target(3), bit_flipping.inputs(3, 5, 40)
    for row, found in zip(inputs.tolist(), target(inputs).flatten().tolist(), strict=True):
        value = float(target.output[-1])
        for weights, out in zip(target.hidden.tolist(), target.output[:-1].tolist(), strict=True):
            negative = sum(weight == -1 for weight in weights)
            total = sum(weight * bit for weight, bit in zip(weights, [*row, 1.0], strict=True))
            value += out * (total > 0.7 * 21 - negative)
        assert value == found
    assert target.hidden.shape == (100, 21)
    assert set(target.hidden.flatten().tolist()) == {-1.0, 1.0}


def test_one_slow_bit_flips_and_fast_bits_are_drawn_for_each_example():
    drawn = [bit_flipping.inputs(0, number, 200) for number in range(4)]
    for before, after in pairwise(drawn):
        assert (before[0, :15] != after[0, :15]).sum() == 1
    for inputs in drawn:
        assert (inputs[:, :15] == inputs[0, :15]).all()
        assert len(inputs[:, 15:].unique(dim=0)) > 25  # of 32
    assert not torch.equal(drawn[0][:, 15:], drawn[1][:, 15:])


def test_bits_and_bit_flipping_belong_together():
    with pytest.raises(OptionError, match="belong together"):
        experiments.expand("bit-flipping", columns=["mnist-mlp"])
    with pytest.raises(OptionError, match="belong together"):
        experiments.expand("permuted-pixels", columns=["bits-mlp5"])
    with pytest.raises(OptionError, match="needs 500 examples a task, and there are only 130"):
        of_tasks(stream_config("permuted-pixels", examples=500))
