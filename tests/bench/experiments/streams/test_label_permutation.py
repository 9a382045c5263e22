"""Label permutation."""

import torch
from toy import CLASSES, dataset, of_tasks, shown, stream_config


def test_a_label_permutation_renames_the_classes_of_both_splits_alike():
    one, data = stream_config("label-permutation", examples=30), dataset()
    names = []
    for number in range(3):
        task = shown(one, number)
        pairs = set(zip(data.train.labels.tolist(), task.train.labels.tolist(), strict=True))
        assert pairs == set(zip(data.test.labels.tolist(), task.test.labels.tolist(), strict=True))
        assert len(pairs) == CLASSES == len({new for _, new in pairs})
        names.append(frozenset(pairs))
    assert len(set(names)) == 3
    examples = of_tasks(one)
    assert {len(indices) for indices in examples} == {30}
    assert not torch.equal(examples[0], examples[1])
