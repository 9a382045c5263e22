"""Random labels."""

import torch
from toy import CLASSES, dataset, of_tasks, shown, stream_config


def test_random_labels_shuffle_those_of_the_same_images():
    one, data = stream_config("random-labels", examples=40), dataset()
    chosen = of_tasks(one)
    assert all(torch.equal(chosen[0], other) for other in chosen)
    assert len(chosen[0].unique()) == 40
    labels = [shown(one, number).train.labels for number in range(3)]
    for found in labels:
        assert torch.equal(
            found[chosen[0]].bincount(minlength=CLASSES), data.train.labels[chosen[0]].bincount(minlength=CLASSES)
        )
        assert not torch.equal(found[chosen[0]], data.train.labels[chosen[0]])
    assert not torch.equal(labels[0], labels[1])
    assert len(shown(one, 0).tested) == 0
