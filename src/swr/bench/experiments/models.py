"""The paper's four networks, with PyTorch's default initialisation, for images of any size that fits.

mlp        100 - 100 - classes, ReLU
mlp5       5 - classes, ReLU: the learner of the bit-flipping stream, which is not the paper's
cnn        two 5x5 convolutions of 16 channels, no padding, each with ReLU and 2x2 max-pooling; 100 - classes
cnnbn      the same with batch normalisation between convolution and ReLU
cnnpad     cnn with one pixel of padding, and
cnnbnpad   cnnbn with it and no bias in the convolutions, as in the public code of the paper's authors; the paper
           mentions neither
vgg16      thirteen 3x3 convolutions with batch normalisation and ReLU, five 2x2 max-poolings, no 7x7 pool;
           4096 - 4096 - classes, no dropout
vgg16thin  the same with a quarter of the channels and hidden units, 2.2 M parameters: the depth of VGG-16 for a
           processor; not the paper's
vit        the small vision transformer of ``vision_transformer.py``, which is not the paper's
dqn, ppo   the networks of agents of ``agent_networks.py``; dqnln, ppoln: with LayerNorm
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

from swr.bench.experiments.agent_networks import dqn, dqnln, ppo, ppoln
from swr.bench.experiments.vision_transformer import VisionTransformer
from swr.errors import OptionError
from swr.methods import UnknownName

Shape = tuple[int, int, int]
"""channels, height, width of an image"""

VGG16 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)
"""channels of each convolution; 0 is a 2x2 max-pooling"""


def mlp(shape: Shape, classes: int, hidden: int = 100) -> nn.Sequential:
    """784-100-100-10 on MNIST."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(shape[0] * shape[1] * shape[2], hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, classes),
    )


def mlp5(shape: Shape, classes: int, hidden: int = 5) -> nn.Sequential:
    """20-5-1 on bits."""
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], hidden), nn.ReLU(), nn.Linear(hidden, classes))


def cnn(
    shape: Shape,
    classes: int,
    *,
    normalised: bool = False,
    padding: int = 0,
    bias: bool = True,
    width: int = 16,
    hidden: int = 100,
) -> nn.Sequential:
    """Two convolutions and two fully connected layers.

    Args:
        normalised: Batch normalisation after each convolution.
        bias: Whether the convolutions have one.
    """
    layers: list[nn.Module] = []
    channels, height, breadth = shape
    for _ in range(2):
        layers.append(nn.Conv2d(channels, width, 5, padding=padding, bias=bias))
        if normalised:
            layers.append(nn.BatchNorm2d(width))
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
        lost = 4 - 2 * padding
        channels, height, breadth = width, (height - lost) // 2, (breadth - lost) // 2
    _fits(min(height, breadth), shape, "cnn", 16)
    layers += [nn.Flatten(), nn.Linear(width * height * breadth, hidden), nn.ReLU(), nn.Linear(hidden, classes)]
    return _channels_last(nn.Sequential(*layers))


def cnnbn(shape: Shape, classes: int) -> nn.Sequential:
    """The CNN with batch normalisation after each convolution."""
    return cnn(shape, classes, normalised=True)


def cnnpad(shape: Shape, classes: int) -> nn.Sequential:
    """The CNN of the authors' public code."""
    return cnn(shape, classes, padding=1)


def cnnbnpad(shape: Shape, classes: int) -> nn.Sequential:
    """The CNN-BN of the authors' public code."""
    return cnn(shape, classes, normalised=True, padding=1, bias=False)


def vgg16(
    shape: Shape, classes: int, *, normalised: bool = True, widths: Sequence[int] = VGG16, hidden: int = 4096
) -> nn.Sequential:
    """VGG-16 without the 7x7 pool: 40.7 M parameters at 64x64 and 200 classes.

    Args:
        normalised: Batch normalisation after each convolution. The paper does not say, but it sweeps λ_f and λ_c for
            networks with batch normalisation only and gives both for VGG-16; and without it, under the default
            initialisation, the outputs of a new network differ between images by 1e-7 only.
        widths: Channels of each convolution; 0 is a 2x2 max-pooling.
    """
    layers: list[nn.Module] = []
    channels, height, breadth = shape
    for width in widths:
        if width:
            layers.append(nn.Conv2d(channels, width, 3, padding=1))
            if normalised:
                layers.append(nn.BatchNorm2d(width))
            layers.append(nn.ReLU())
            channels = width
        else:
            layers.append(nn.MaxPool2d(2))
            height, breadth = height // 2, breadth // 2
    _fits(min(height, breadth), shape, "vgg16", 32)
    layers += [nn.Flatten(), nn.Linear(channels * height * breadth, hidden), nn.ReLU()]
    layers += [nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, classes)]
    return _channels_last(nn.Sequential(*layers))


def vgg16thin(shape: Shape, classes: int) -> nn.Sequential:
    """VGG-16 at a quarter of its width."""
    return vgg16(shape, classes, widths=[width // 4 for width in VGG16], hidden=1024)


@dataclass(frozen=True)
class Model:
    """A network by name."""

    make: Callable[[Shape, int], nn.Module]
    """from the shape of an image and the number of classes"""
    normalised: bool = False
    """whether it has batch normalisation, so that SWR has two coefficients, for features and classifier"""
    clip: float | None = None
    """the largest norm of a gradient that it is trained with"""
    agent: Literal["dqn", "ppo"] | None = None
    """the algorithm that trains it, if that is an agent's"""


MODELS: dict[str, Model] = {
    "mlp": Model(mlp),
    "mlp5": Model(mlp5),
    "cnn": Model(cnn),
    "cnnbn": Model(cnnbn, normalised=True),
    "cnnpad": Model(cnnpad),
    "cnnbnpad": Model(cnnbnpad, normalised=True),
    "vgg16": Model(vgg16, normalised=True),
    "vgg16thin": Model(vgg16thin, normalised=True),
    "vit": Model(VisionTransformer, clip=0.5),
    "dqn": Model(dqn, agent="dqn"),
    "dqnln": Model(dqnln, agent="dqn"),
    "ppo": Model(ppo, clip=0.5, agent="ppo"),
    "ppoln": Model(ppoln, clip=0.5, agent="ppo"),
}
"""a new model is one more entry"""


def build(name: str, shape: Shape, classes: int) -> nn.Module:
    """A new network; convolutional ones in channels-last layout.

    >>> sum(p.numel() for p in build("mlp", (1, 28, 28), 10).parameters())
    89610

    Args:
        shape: Channels, height and width of the images.
    """
    if name not in MODELS:
        raise UnknownName("model", name, MODELS)
    return MODELS[name].make(shape, classes)


def _channels_last(model: nn.Sequential) -> nn.Sequential:
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model


def _fits(left: int, shape: Shape, name: str, smallest: int) -> None:
    if left < 1:
        raise OptionError(f"{name} needs images of at least {smallest}x{smallest}, found {shape[1]}x{shape[2]}: use mlp.")
