"""A dataset made ready for a run."""

from dataclasses import replace

import pytest
import torch
from toy import COUNT, chunk_config, dataset, stream_config, uneven

from swr.bench.data import Split
from swr.bench.experiments import material
from swr.errors import OptionError


def test_cold_is_the_last_stage_alone():
    found = material.prepare(chunk_config("warm-start", (3, 4), cold=True), uneven())
    assert len(found.stages) == 1
    assert torch.equal(found.stages[0].indices, torch.arange(COUNT))
    assert found.stages[0].epochs == 4


def test_noise_is_in_the_training_labels_only_and_validation_is_held_out():
    data = uneven()
    found = material.prepare(chunk_config("single", (1,), label_noise=0.5, validation=0.2), data)
    assert (len(found.train), len(found.validation)) == (82, 21)
    held = [int((data.train.images == image).flatten(1).all(1).nonzero()) for image in found.validation.images]
    assert torch.equal(found.validation.labels, data.train.labels[held])
    kept = sorted(set(range(COUNT)) - set(held))
    assert (found.train.labels != data.train.labels[kept]).float().mean() > 0.2
    assert torch.equal(found.test.labels, data.test.labels)


def test_facts_tell_two_divisions_apart_and_repeat():
    data = uneven()
    facts = [material.facts(chunk_config("continual-limited", (1,) * 10, seed=seed), data) for seed in (0, 0, 1)]
    assert facts[0] == facts[1] != facts[2]
    assert facts[0]["stages"][3] == {"examples": 10, "epochs": 1, "indices": facts[1]["stages"][3]["indices"]}
    assert sum(stage["examples"] for stage in facts[0]["stages"]) == COUNT


def test_the_first_examples_are_all_there_are_for_training_and_validation():
    data = uneven()
    for seed in (0, 1):
        found = material.prepare(chunk_config("single", (1,), examples=40, seed=seed), data)
        assert torch.equal(found.train.images, data.train.images[:40])
        assert torch.equal(found.stages[0].indices, torch.arange(40))
        assert len(found.test) == len(data.test)
    held = material.prepare(chunk_config("warm-start", (1, 1), examples=40, validation=0.1), data)
    assert (len(held.train), len(held.validation)) == (36, 4)
    assert [len(stage.indices) for stage in held.stages] == [18, 36]
    images = torch.cat([held.train.images, held.validation.images]).flatten(1)
    assert torch.equal(images.unique(dim=0), data.train.images[:40].flatten(1).unique(dim=0))


def test_a_stream_draws_its_examples_from_all_or_takes_the_first():
    drawn = material.prepare(stream_config("permuted-pixels", examples=40), dataset())
    assert (len(drawn.train), len(drawn.stages[0].indices)) == (130, 40)
    assert not torch.equal(drawn.stages[0].indices, torch.arange(40))
    first = material.prepare(stream_config("class-incremental", tasks=2, examples=40), dataset())
    assert torch.equal(first.stages[-1].indices, torch.arange(40))


def test_more_examples_than_there_are_and_examples_of_some_classes_only_are_refused():
    data = uneven()
    with pytest.raises(OptionError, match="the first 104 training examples were asked for, and there are only 103"):
        material.prepare(chunk_config("single", (1,), examples=104), data)
    order = data.train.labels.argsort(stable=True)
    by_class = replace(data, train=Split(data.train.images[order], data.train.labels[order]))
    with pytest.raises(OptionError, match=r"first 40 training examples have \d of the 7 classes only"):
        material.prepare(chunk_config("single", (1,), examples=40), by_class)
