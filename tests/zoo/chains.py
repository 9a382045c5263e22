"""Chains: one layer after the other, where every weight can be scaled at will unless an activation forbids it."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from .network import Network, normal


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 5))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 3),
        nn.LeakyReLU(0.1),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 12),
        nn.ReLU(),
        nn.Linear(12, 5),
    )


def normalised_cnn(norm, bias: bool = True) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=bias),
        norm(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, bias=bias),
        norm(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 5),
    )


def cnn_batchnorm() -> nn.Module:
    return normalised_cnn(nn.BatchNorm2d)


def cnn_batchnorm_cumulative() -> nn.Module:
    return normalised_cnn(lambda width: nn.BatchNorm2d(width, momentum=None))


def cnn_batchnorm_untracked() -> nn.Module:
    return normalised_cnn(lambda width: nn.BatchNorm2d(width, track_running_stats=False), bias=False)


def cnn_batchnorm_plain() -> nn.Module:
    return normalised_cnn(lambda width: nn.BatchNorm2d(width, affine=False))


def cnn_groupnorm() -> nn.Module:
    return normalised_cnn(lambda width: nn.GroupNorm(2, width))


def cnn_instancenorm() -> nn.Module:
    return normalised_cnn(lambda width: nn.InstanceNorm2d(width, affine=True))


def cnn_instancenorm_tracked() -> nn.Module:
    return normalised_cnn(lambda width: nn.InstanceNorm2d(width, affine=True, track_running_stats=True))


def cnn_instancenorm_plain() -> nn.Module:
    return normalised_cnn(nn.InstanceNorm2d)


def vgg16(divisor: int = 16) -> nn.Module:
    """The layout of VGG-16, every width divided."""
    layers: list[nn.Module] = []
    width = 3
    for entry in (64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"):
        if entry == "M":
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [nn.Conv2d(width, entry // divisor, 3, padding=1), nn.ReLU(inplace=True)]
        width = entry // divisor
    hidden = 4096 // divisor
    classifier = nn.Sequential(
        nn.Linear(width * 49, hidden),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(hidden, hidden),
        nn.ReLU(inplace=True),
        nn.Dropout(),
        nn.Linear(hidden, 10),
    )
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(7), nn.Flatten(), classifier)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            nn.init.kaiming_normal_(parameter)  # the default loses the signal in so deep a chain
    return model


def mlp_layernorm() -> nn.Module:
    return nn.Sequential(
        nn.LayerNorm(12),
        nn.Linear(12, 16),
        nn.ReLU(),
        nn.LayerNorm(16),
        nn.Linear(16, 16),
        nn.LayerNorm(16),
        nn.ReLU(),
        nn.Linear(16, 5),
    )


def mlp_layernorm_plain() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 16), nn.LayerNorm(16, elementwise_affine=False), nn.ReLU(), nn.Linear(16, 5))


class RMSNorm(nn.Module):
    def __init__(self, width: int, eps: float = 1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class LayerNormByHand(nn.Module):
    def __init__(self, width: int, eps: float = 1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        deviation = (centred**2).mean(-1, keepdim=True).sqrt()
        return self.weight * centred / (deviation + self.eps) + self.bias


def mlp_norm(norm) -> nn.Module:
    return nn.Sequential(nn.Linear(12, 16), norm(16), nn.ReLU(), nn.Linear(16, 16), norm(16), nn.Linear(16, 5))


def mlp_rmsnorm() -> nn.Module:
    return mlp_norm(lambda width: nn.RMSNorm(width, eps=1e-5))


def mlp_rmsnorm_by_hand() -> nn.Module:
    return mlp_norm(RMSNorm)


def mlp_layernorm_by_hand() -> nn.Module:
    return mlp_norm(LayerNormByHand)


def unusual_convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(4, 8, 3, padding=1, groups=4),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1, groups=8, padding_mode="reflect"),
        nn.Conv2d(8, 6, 1),
        nn.ReLU(),
        nn.Conv2d(6, 6, 3, groups=2, dilation=2, padding="same"),
        nn.ReLU(),
        nn.ConvTranspose2d(6, 4, 3, stride=2, output_padding=1),
        nn.ReLU(),
        nn.ConvTranspose2d(4, 4, 2, stride=2, groups=2),
        nn.PixelShuffle(2),
        nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.ZeroPad2d(1),
        nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"),
    )


def convolution_and_pooling_1d() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(3, 6, 3),
        nn.ReLU(),
        nn.MaxPool1d(3, stride=2, padding=1),
        nn.ConvTranspose1d(6, 4, 3),
        nn.Dropout1d(0.3),
        nn.LPPool1d(2, 2),
        nn.Conv1d(4, 4, 2),
        nn.AdaptiveMaxPool1d(2),
        nn.Flatten(),
        nn.Linear(8, 3),
    )


def prelu() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 16), nn.PReLU(16), nn.Linear(16, 16), nn.PReLU(), nn.Linear(16, 5))


def mlp_gelu() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 16), nn.GELU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 5))


def mlp_tanh_in_the_middle() -> nn.Module:
    return nn.Sequential(
        nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 5)
    )


def cnn_relu6() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU6(), nn.Conv2d(8, 8, 3), nn.Hardswish(), nn.Flatten(), nn.Linear(128, 5))


def mlp_softmax() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5), nn.LogSoftmax(-1))


def weight_normed() -> nn.Module:
    return nn.Sequential(
        weight_norm(nn.Conv1d(3, 6, 3)),
        nn.ReLU(),
        weight_norm(nn.Conv1d(6, 6, 3), dim=None),
        nn.ReLU(),
        nn.Flatten(),
        weight_norm(nn.Linear(24, 5)),
    )


def spectral_normed() -> nn.Module:
    return nn.Sequential(
        spectral_norm(nn.Conv1d(3, 6, 3)), nn.ReLU(), nn.Flatten(), spectral_norm(nn.Linear(36, 8)), nn.Linear(8, 5)
    )


class StandardisedConv2d(nn.Conv2d):
    """Weight standardisation (Qiao et al., 2019)."""

    eps = 1e-5

    def forward(self, x: Tensor) -> Tensor:
        centred = self.weight - self.weight.mean(dim=(1, 2, 3), keepdim=True)
        weight = centred / (centred.std(dim=(1, 2, 3), keepdim=True) + self.eps)
        return F.conv2d(x, weight, self.bias, self.stride, self.padding)


def weight_standardised() -> nn.Module:
    return nn.Sequential(
        StandardisedConv2d(3, 8, 3),
        nn.GroupNorm(2, 8),
        nn.ReLU(),
        StandardisedConv2d(8, 8, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128, 5),
    )


def functional_activations() -> nn.Module:
    return Functional()


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)
        self.fc1 = nn.Linear(24, 16)
        self.fc2 = nn.Linear(16, 16)
        self.fc3 = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        x = torch.flatten(x, 1)
        x = F.leaky_relu(self.fc1(x), 0.2)
        x = torch.relu(self.fc2(x)).clamp(min=0)
        x = F.dropout(x, 0.2, self.training)
        return -2 * self.fc3(x) / 3


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(12, 16)
        self.fc2 = nn.Linear(16, 16)
        self.fc3 = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu_(self.fc1(x))
        x.mul_(0.5)
        x = F.leaky_relu(self.fc2(x), inplace=True)
        x = x.clone().clamp_(min=0)
        x += x.mean(-1, keepdim=True)
        x = self.fc3(x)
        x.div_(2.0).neg_()
        return x


class SquaredReLU(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(12, 16)
        self.fc2 = nn.Linear(16, 16)
        self.fc3 = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.fc1(x)) ** 2
        x = F.relu(self.fc2(x)).square()
        return self.fc3(x)


IMAGES = normal((4, 3, 8, 8))
LOUD_IMAGES = normal((4, 3, 8, 8), scale=20.0)  # so that relu6 does saturate
VECTORS = normal((6, 12))

CHAINS = (
    Network("mlp", mlp, VECTORS),
    Network("cnn", cnn, normal((4, 3, 12, 12))),
    # Both weight and gain are free: a BatchNorm forgets the scale of its input and passes on that of its gain.
    Network("cnn batchnorm", cnn_batchnorm, IMAGES, normalised=True),
    Network("cnn batchnorm, cumulative average", cnn_batchnorm_cumulative, IMAGES, normalised=True),
    Network("cnn batchnorm, no running statistics", cnn_batchnorm_untracked, IMAGES, normalised=True),
    Network("cnn batchnorm, not affine", cnn_batchnorm_plain, IMAGES, normalised=True),
    Network("cnn groupnorm", cnn_groupnorm, IMAGES, normalised=True),
    Network("cnn instancenorm", cnn_instancenorm, IMAGES, normalised=True),
    Network("cnn instancenorm, tracked", cnn_instancenorm_tracked, IMAGES, normalised=True),
    Network("cnn instancenorm, not affine", cnn_instancenorm_plain, IMAGES, normalised=True),
    Network("vgg16", vgg16, normal((2, 3, 32, 32))),
    Network("mlp layernorm", mlp_layernorm, VECTORS, normalised=True),
    Network("mlp layernorm, not affine", mlp_layernorm_plain, VECTORS, normalised=True),
    Network("mlp layernorm by hand", mlp_layernorm_by_hand, VECTORS, normalised=True),
    Network("mlp rmsnorm", mlp_rmsnorm, VECTORS, normalised=True),
    Network("mlp rmsnorm by hand", mlp_rmsnorm_by_hand, VECTORS, normalised=True),
    Network("depthwise, grouped and transposed convolutions", unusual_convolutions, normal((2, 4, 6, 6))),
    Network("convolution and pooling in one dimension", convolution_and_pooling_1d, normal((4, 3, 16))),
    # y = where(x > 0, x, a x): the slope a must not move.
    Network("prelu", prelu, VECTORS, free=("0.weight", "2.weight", "4.weight"), held=("1.weight", "3.weight")),
    Network("mlp gelu", mlp_gelu, VECTORS, free=("2.weight", "4.weight"), held=("0.weight",)),
    # log c_0 + log c_2 = 0 in front of the tanh; what comes behind it is free.
    Network(
        "mlp with tanh in the middle",
        mlp_tanh_in_the_middle,
        VECTORS,
        free=("4.weight", "6.weight"),
        coupled=("0.weight", "2.weight"),
    ),
    Network("cnn relu6", cnn_relu6, LOUD_IMAGES, free=("5.weight",), held=("0.weight", "2.weight")),
    Network("mlp softmax", mlp_softmax, VECTORS, free=(), coupled=("*weight",), constant_is_one=True),
    Network("weight_norm", weight_normed, normal((4, 3, 8)), free=("*original*",)),
    Network("spectral_norm", spectral_normed, normal((4, 3, 8)), free=("*original", "4.weight")),
    Network("weight standardisation", weight_standardised, IMAGES, normalised=True),
    Network("functional activations", functional_activations, normal((4, 3, 6, 6))),
    Network("in-place activations", InPlace, VECTORS),
    Network("squared relu", SquaredReLU, VECTORS),
)
