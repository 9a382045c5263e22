"""An optimizer, and a network with a rescaler and a monitor attached."""

import torch
import torch.nn.functional as F

import swr
from nets import inputs_of
from swr.diagnostics import Monitor


def sgd(model, **options):
    return torch.optim.SGD(model.parameters(), **{"lr": 0.1, "momentum": 0.9, **options})


def monitored(model, **options):
    torch.manual_seed(1)
    x = inputs_of(model)
    rescaler = swr.SoftWeightRescaling(model, x, coefficient=0.01)
    optimizer = sgd(model)
    rescaler.attach(optimizer)
    monitor = Monitor(model, anchors=rescaler, batch=(x, torch.randint(4, (8,))), loss_fn=F.cross_entropy, **options)
    monitor.attach(optimizer)
    return monitor, optimizer, rescaler
