"""Batches of a new task: what is read, how targets are shuffled, in which order they are seen."""

import itertools

import pytest
import torch

from diagnostics.diagnosis.known import batches
from swr.diagnostics.diagnosis.new_task import collect, has_classes, in_order, relabelled, shuffled, shuffled_pool
from swr.errors import InputsError

CPU = torch.device("cpu")


def test_an_endless_generator_is_read_as_far_as_needed():
    endless = ((torch.zeros(1), torch.zeros(1)) for _ in itertools.count())
    assert len(collect(endless, 7, CPU)) == 7


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ([], "batches is empty"),
        ([torch.zeros(2)], "found a Tensor"),
        ([(1, 2, 3)], "found a tuple of 3"),
        (torch.zeros(2, 2), "found Tensor"),
        (3, "found int"),
    ],
)
def test_what_is_not_a_list_of_pairs_is_refused(wrong, sentence):
    with pytest.raises(InputsError, match=sentence):
        collect(wrong, 10, CPU)


def test_shuffling_keeps_inputs_and_the_set_of_targets_but_not_their_places():
    given = batches(4, 32)
    mixed = shuffled(given, seed=0)
    assert all(torch.equal(a, b) for (a, _), (b, _) in zip(given, mixed, strict=True))
    before, after = (torch.cat([y for _, y in each]) for each in (given, mixed))
    assert torch.equal(before.sort().values, after.sort().values)
    assert not torch.equal(before, after)
    assert not torch.equal(given[0][1].bincount(minlength=4), mixed[0][1].bincount(minlength=4))  # also between batches


def test_another_seed_is_another_task_and_the_same_seed_the_same():
    given = batches()
    one, same, other = (torch.cat([y for _, y in shuffled(given, seed)]) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_targets_of_several_tensors_move_together_and_of_other_shapes_within_their_batch():
    pairs = [(torch.zeros(6), {"a": torch.arange(6), "b": torch.arange(6) * 10})]
    targets = shuffled(pairs, seed=0)[0][1]
    assert torch.equal(targets["a"] * 10, targets["b"])
    assert not torch.equal(targets["a"], torch.arange(6))
    ragged = [(torch.zeros(5), torch.randn(5, 3)), (torch.zeros(5), torch.randn(5, 2))]
    assert [y.shape for _, y in shuffled(ragged, seed=0)] == [(5, 3), (5, 2)]


def test_equal_targets_make_no_new_task():
    with pytest.raises(InputsError, match="all targets are equal"):
        shuffled([(torch.zeros(8), torch.ones(8))], seed=0)


@pytest.mark.parametrize(("size", "steps", "kept"), [(128, 500, 10), (32, 500, 10), (1024, 500, 2), (128, 60, 1)])
def test_a_shuffled_task_is_small_enough_to_be_learned(size, steps, kept):
    given = [(torch.zeros(size), torch.zeros(size))] * 40
    assert len(shuffled_pool(given, steps)) == kept


def test_every_batch_is_seen_before_one_is_repeated():
    order = in_order(5, 12, seed=3)
    assert len(order) == 12
    assert sorted(order[:5]) == sorted(order[5:10]) == list(range(5))
    assert order == in_order(5, 12, seed=3) != in_order(5, 12, seed=4)


def test_relabelling_gives_every_class_another_label_and_keeps_examples_of_a_class_together():
    given = batches()
    new = relabelled(given, seed=0)
    pairs = {(a, b) for (_, y), (_, z) in zip(given, new, strict=True) for a, b in zip(y.tolist(), z.tolist(), strict=True)}
    assert len(pairs) == 4
    assert all(a != b for a, b in pairs)
    assert {a for a, _ in pairs} == {b for _, b in pairs} == set(range(4))
    assert any(not torch.equal(z, relabelled(given, seed)[0][1]) for seed in range(1, 4) for z in [new[0][1]])


def test_what_are_not_classes_cannot_be_relabelled():
    for wrong in (torch.randn(4), torch.ones(4, dtype=torch.long)):
        assert not has_classes([(torch.zeros(4), wrong)])
        with pytest.raises(InputsError, match="only targets that are integers"):
            relabelled([(torch.zeros(4), wrong)], seed=0)
