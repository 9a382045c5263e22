"""5+1 classes."""

import pytest
from toy import dataset, of_tasks, shown, stream_config

from swr.errors import OptionError


def test_five_plus_one_never_shows_a_class_twice():
    data = dataset()
    classes = [set(data.train.labels[indices].tolist()) for indices in of_tasks(stream_config("five-plus-one"))]
    assert [len(found) for found in classes] == [5, 1, 5, 1]
    assert len(set().union(*classes)) == 12
    task = shown(stream_config("five-plus-one"), 2)
    assert set(data.test.labels[task.tested].tolist()) == classes[2]
    with pytest.raises(OptionError, match="need 18 classes, and there are 13"):
        of_tasks(stream_config("five-plus-one", tasks=6))
