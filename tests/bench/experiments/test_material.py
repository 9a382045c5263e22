"""A dataset made ready for a run."""

import torch
from toy import COUNT, chunk_config, uneven

from swr.bench.experiments import material


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
