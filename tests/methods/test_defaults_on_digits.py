"""Penalties and projections train with their defaults: an epoch of the digits, and a small convolutional network."""

import math

import pytest
import torch

from swr.bench.data import load
from swr.bench.experiments import RunConfig
from swr.bench.training import Training

from .methods_table import Loop

NAMES = (
    "weight-decay", "wasserstein", "spectral-norm", "spectral", "effective-rank", "parseval", "weight-rescaling",
    "weight-clipping", "nap", "lipschitz", "max-norm", "spectral-normalisation", "weight-normalisation",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_an_epoch_of_the_digits_is_learnt_from(name: str):
    training = Training(RunConfig("generalization", "digits-mlp", name, epochs=(1,), batch_size=32), load("digits"))
    epoch = training.epoch()
    assert math.isfinite(epoch.train_loss)
    assert epoch.test_accuracy > 0.6


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("model", ["cnn", "cnnbn"])
def test_convolutional_networks_learn_a_batch_by_heart(name: str, model: str):
    loop = Loop(model, name, {})
    inputs, labels = loop.batch(0)
    loop.batch = lambda number: (inputs, labels)
    before = torch.nn.functional.cross_entropy(loop.model(inputs), labels)
    loop.train(0, 25)
    after = torch.nn.functional.cross_entropy(loop.model(inputs), labels)
    assert all(tensor.isfinite().all() for tensor in loop.tensors().values())
    assert after < 0.7 * before
