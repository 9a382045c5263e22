"""What each stage sees."""

from itertools import pairwise

import pytest
import torch

from swr.bench import scenarios
from swr.bench.config import RunConfig
from swr.bench.data import Dataset, Split
from swr.errors import OptionError

COUNT = 103


def dataset() -> Dataset:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (COUNT, 1, 4, 4), dtype=torch.uint8, generator=generator)
    train = Split(images, torch.randint(7, (COUNT,), generator=generator))
    return Dataset("toy", 7, train, Split(images[:11], train.labels[:11]), (0.5,), (0.3,))


def config(scenario: str, epochs: tuple[int, ...], **changes) -> RunConfig:
    return RunConfig("warm-start", "digits-mlp", "vanilla", scenario=scenario, epochs=epochs, **changes)


def stages(scenario: str, epochs: tuple[int, ...], **changes) -> list[torch.Tensor]:
    return [stage.indices for stage in scenarios.prepare(config(scenario, epochs, **changes), dataset()).stages]


def test_warm_start_is_half_then_all():
    half, everything = stages("warm-start", (3, 4))
    assert len(half) in (51, 52)
    assert torch.equal(everything, torch.arange(COUNT))
    assert len(half.unique()) == len(half)


def test_continual_full_accumulates_to_everything():
    seen = stages("continual-full", (1,) * 10)
    assert [len(indices) for indices in seen][-1] == COUNT
    for before, after in pairwise(seen):
        assert set(before.tolist()) < set(after.tolist())
        assert len(after) - len(before) in (10, 11)


def test_continual_limited_is_a_partition():
    seen = stages("continual-limited", (1,) * 10)
    assert {len(indices) for indices in seen} == {10, 11}
    assert torch.equal(torch.cat(seen).sort().values, torch.arange(COUNT))


def test_both_continual_scenarios_have_the_same_chunks():
    full, limited = stages("continual-full", (1,) * 10), stages("continual-limited", (1,) * 10)
    assert set(full[1].tolist()) == set(limited[0].tolist()) | set(limited[1].tolist())


def test_chunks_are_random_per_seed_and_the_same_for_every_method():
    zero, one = stages("warm-start", (1, 1)), stages("warm-start", (1, 1), seed=1)
    assert not torch.equal(zero[0], one[0])
    assert torch.equal(zero[0], stages("warm-start", (5, 9), lr=0.1)[0])
    shuffled = stages("warm-start", (1, 1))[0]
    assert not torch.equal(shuffled, torch.arange(len(shuffled)))


def test_cold_is_the_last_stage_alone():
    material = scenarios.prepare(config("warm-start", (3, 4), cold=True), dataset())
    assert len(material.stages) == 1
    assert torch.equal(material.stages[0].indices, torch.arange(COUNT))
    assert material.stages[0].epochs == 4


def test_noise_is_in_the_training_labels_only_and_validation_is_held_out():
    data = dataset()
    material = scenarios.prepare(config("single", (1,), label_noise=0.5, validation=0.2), data)
    assert (len(material.train), len(material.validation)) == (82, 21)
    held = [int((data.train.images == image).flatten(1).all(1).nonzero()) for image in material.validation.images]
    assert torch.equal(material.validation.labels, data.train.labels[held])
    kept = sorted(set(range(COUNT)) - set(held))
    assert (material.train.labels != data.train.labels[kept]).float().mean() > 0.2
    assert torch.equal(material.test.labels, data.test.labels)


def test_facts_tell_two_divisions_apart_and_repeat():
    data = dataset()
    facts = [scenarios.facts(config("continual-limited", (1,) * 10, seed=seed), data) for seed in (0, 0, 1)]
    assert facts[0] == facts[1] != facts[2]
    assert facts[0]["stages"][3] == {"examples": 10, "epochs": 1, "indices": facts[1]["stages"][3]["indices"]}
    assert sum(stage["examples"] for stage in facts[0]["stages"]) == COUNT


def test_more_stages_than_examples_are_refused():
    with pytest.raises(OptionError, match="103 training examples cannot be divided among 104 stages"):
        stages("continual-full", (1,) * 104)


def test_streams_of_different_purposes_and_seeds_differ():
    draws = {(s, p): tuple(torch.rand(2, generator=scenarios.stream(s, p)).tolist()) for s in range(5) for p in "abc"}
    assert len(set(draws.values())) == 15
