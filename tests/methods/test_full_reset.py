"""Full reset makes everything new."""

import torch

from .methods_table import Loop, changed


def test_full_reset_makes_everything_new_running_statistics_and_optimizer_included():
    loop = Loop("cnnbn", "full-reset", {})
    initial = loop.tensors()
    loop.train(0, 3)
    loop.new_task()
    after = loop.tensors()
    assert torch.equal(after["1.running_mean"], initial["1.running_mean"])
    assert after["1.num_batches_tracked"].item() == 0
    assert {"0.weight", "4.weight", "9.weight", "11.weight"} <= changed(initial, after)
    assert not loop.optimizer.state
    loop.train(3, 5)
    assert len(loop.optimizer.state) == len(list(loop.model.parameters()))
