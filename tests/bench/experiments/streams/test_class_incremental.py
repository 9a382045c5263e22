"""Class-incremental learning."""

from itertools import pairwise

import torch
from toy import CLASSES, dataset, of_tasks, shown, stream_config


def test_class_incremental_adds_classes_and_hides_the_others():
    one, data = stream_config("class-incremental"), dataset()
    classes = [set(data.train.labels[indices].tolist()) for indices in of_tasks(one)]
    assert [len(found) for found in classes] == [4, 7, 10, 13]
    assert all(before < after for before, after in pairwise(classes))
    task = shown(one, 1)
    outputs = torch.randn(6, CLASSES)
    counted = task.train.outputs(outputs)
    assert set(counted.isfinite().all(0).nonzero().flatten().tolist()) == classes[1]
    assert set(data.test.labels[task.tested].tolist()) == classes[1]
    assert shown(one, 3).train.outputs(outputs).isfinite().all()
