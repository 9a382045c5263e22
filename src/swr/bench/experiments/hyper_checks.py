"""Whether a method accepts hyper-parameters that a user chose: tried on a small network, before anything is stored."""

from __future__ import annotations

import warnings

import torch

from swr import methods
from swr.bench.experiments.agent_networks import networks
from swr.bench.experiments.column import Column, Hyper
from swr.bench.experiments.models import build
from swr.errors import OptionError, SWRError

SMALL = {"vgg16": "cnnbn", "vgg16thin": "cnnbn"}
"""a small network of the same kind of layers, for those that take long to make or need larger images"""


def check_hyper(column: Column, method: str, hyper: Hyper) -> None:
    """Raise an OptionError for a name that the method does not have, or a value that it refuses.

    Args:
        column: Its model decides which kinds of layers there are.
        method: A name of :func:`swr.methods.names`, or ``MODULE:CLASS``.
        hyper: Numbers by name.
    """
    methods.check_options(method, hyper)
    shape = (3, 16, 16)
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")  # what a method has to say about a network is about another one
        model = build(SMALL.get(column.model, column.model), shape, classes=4)
        try:
            for network in networks(model).values():
                methods.build(method, network, torch.zeros(2, *shape), **hyper)
        except SWRError as error:
            raise OptionError(f"{method} in --hyper: {error}") from error
        except Exception as error:
            given = " ".join(f"{name}={value:g}" for name, value in hyper.items())
            reason = " ".join(str(error).split())
            raise OptionError(f"{method} cannot be built with {given} ({type(error).__name__}: {reason}).") from error
