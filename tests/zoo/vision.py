"""Vision networks with more than one path: residual sums, concatenations, gates."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .network import Network, normal


def convolution_and_norm(inputs: int, outputs: int, size: int = 1, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(outputs)]


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int):
        super().__init__()
        self.conv1, self.bn1 = convolution_and_norm(inputs, width, 3, stride)
        self.conv2, self.bn2 = convolution_and_norm(width, width, 3)
        self.downsample = None
        if stride > 1:
            self.downsample = nn.Sequential(*convolution_and_norm(inputs, width, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(out + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    expansion = 2

    def __init__(self, inputs: int, width: int, stride: int):
        super().__init__()
        self.conv1, self.bn1 = convolution_and_norm(inputs, width)
        self.conv2, self.bn2 = convolution_and_norm(width, width, 3, stride)
        self.conv3, self.bn3 = convolution_and_norm(width, 2 * width)
        self.downsample = None
        if stride > 1 or inputs != 2 * width:
            self.downsample = nn.Sequential(*convolution_and_norm(inputs, 2 * width, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += identity
        return F.relu(out)


class ResNet(nn.Module):
    def __init__(self, block: type[nn.Module], zero_gain: str | None = None):
        super().__init__()
        self.conv1, self.bn1 = convolution_and_norm(3, 8, 3)
        wide = block.expansion
        self.layer1 = nn.Sequential(block(8, 8, 1), block(8 * wide, 8, 1))
        self.layer2 = nn.Sequential(block(8 * wide, 12, 2), block(12 * wide, 12, 1))
        self.fc = nn.Linear(12 * wide, 5)
        for name, gain in self.named_parameters():
            if zero_gain is not None and name.endswith(zero_gain):
                nn.init.zeros_(gain)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer2(self.layer1(x))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class PreActivationBlock(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(width), nn.Conv2d(width, width, 3, padding=1)
        self.bn2, self.conv2 = nn.BatchNorm2d(width), nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv1(F.relu(self.bn1(x)))
        return x + self.conv2(F.relu(self.bn2(out)))


class PreActivationResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3)
        self.blocks = nn.Sequential(PreActivationBlock(8), PreActivationBlock(8))
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.relu(self.norm(self.blocks(self.stem(x)))).mean((2, 3)))


class DenseNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1, bias=False)
        self.norm1, self.conv1 = nn.BatchNorm2d(4), nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.norm2, self.conv2 = nn.BatchNorm2d(8), nn.Conv2d(8, 4, 3, padding=1, bias=False)
        self.norm3, self.head = nn.BatchNorm2d(12), nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = torch.cat([x, self.conv1(F.relu(self.norm1(x)))], 1)
        x = torch.cat([x, self.conv2(F.relu(self.norm2(x)))], 1)
        return self.head(F.relu(self.norm3(x)).mean((2, 3)))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 6, 3, padding=1), nn.ReLU())
        self.down = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(6, 8, 3, padding=1), nn.ReLU())
        self.bottom = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 10, 3, padding=1), nn.ReLU())
        self.up1 = nn.ConvTranspose2d(10, 8, 2, stride=2)
        self.merge1 = nn.Sequential(nn.Conv2d(16, 8, 3, padding=1), nn.ReLU())
        self.up2 = nn.ConvTranspose2d(8, 6, 2, stride=2)
        self.merge2 = nn.Sequential(nn.Conv2d(12, 6, 3, padding=1), nn.ReLU())
        self.head = nn.Conv2d(6, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        high = self.enter(x)
        middle = self.down(high)
        low = self.bottom(middle)
        middle = self.merge1(torch.cat([middle, self.up1(low)], 1))
        high = self.merge2(torch.cat([high, self.up2(middle)], 1))
        return self.head(high)


class InvertedResidual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.expand = nn.Sequential(*convolution_and_norm(inputs, 12), nn.ReLU6())
        self.depthwise = nn.Sequential(*convolution_and_norm(12, 12, 3, stride, groups=12), nn.ReLU6())
        self.project = nn.Sequential(*convolution_and_norm(12, outputs))
        self.residual = inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        out = self.project(self.depthwise(self.expand(x)))
        return x + out if self.residual else out


def mobilenet() -> nn.Module:
    model = nn.Sequential(
        nn.Sequential(*convolution_and_norm(3, 6, 3), nn.ReLU6()),
        InvertedResidual(6, 8, 2),
        InvertedResidual(8, 8, 1),
        InvertedResidual(8, 6, 1),
        nn.Sequential(*convolution_and_norm(6, 10), nn.ReLU6()),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(10, 5),
    )
    for block in model.modules():
        if isinstance(block, nn.Sequential) and isinstance(block[-1], nn.ReLU6):
            nn.init.constant_(block[-2].weight, 5.0)  # so that relu6 does saturate
    return model


class Feedforward(nn.Sequential):
    def __init__(self, width: int, hidden: int, activation: nn.Module):
        super().__init__(nn.Linear(width, hidden), activation, nn.Linear(hidden, width))


class MixerBlock(nn.Module):
    def __init__(self, places: int, width: int):
        super().__init__()
        self.norm1, self.across = nn.LayerNorm(width), Feedforward(places, 10, nn.GELU())
        self.norm2, self.within = nn.LayerNorm(width), Feedforward(width, 12, nn.GELU())

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.across(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.within(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.blocks = nn.Sequential(MixerBlock(9, 8), MixerBlock(9, 8))
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.blocks(x)).mean(1))


class ConvNeXtBlock(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm = nn.LayerNorm(width)
        self.widen, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.layer_scale = nn.Parameter(torch.full((width,), 1e-2))

    def forward(self, x: Tensor) -> Tensor:
        out = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        out = self.layer_scale * self.narrow(F.gelu(self.widen(out)))
        return x + out.permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 2, stride=2)
        self.blocks = nn.Sequential(ConvNeXtBlock(6), ConvNeXtBlock(6))
        self.norm, self.head = nn.LayerNorm(6), nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.stem(x)).mean((-2, -1))))


class SqueezeExcite(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.squeeze, self.excite = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 1)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn(self.conv(x)))
        gate = torch.sigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(x, 1)))))
        return self.head((x * gate).mean((2, 3)))


class SuperResolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 12, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        fine = F.pixel_shuffle(self.conv2(F.relu(self.conv1(x))), 2)
        return fine + F.interpolate(x, scale_factor=2, mode="bicubic")


class FrozenBackbone(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 6, 3), nn.ReLU())
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(96, 8), nn.ReLU(), nn.Linear(8, 5))
        self.backbone.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbone(x))


IMAGES = normal((4, 3, 8, 8))

VISION = (
    # Convolutions in front of a BatchNorm are free, and so are gains that only the next convolution sees;
    # gains that meet in a residual sum move together, until a downsampling block begins a new stream.
    Network(
        "resnet basic blocks",
        lambda: ResNet(BasicBlock),
        normal((6, 3, 16, 16)),
        free=("*conv?.weight", "*downsample.0.weight", "layer*.bn1.weight", "fc.weight"),
        coupled=("bn1.weight", "layer?.?.bn2.weight", "*downsample.1.weight"),
        normalised=True,
    ),
    # layer1.0 widens the stream, so that the stem's gain ends there.
    Network(
        "resnet bottlenecks",
        lambda: ResNet(Bottleneck),
        normal((6, 3, 16, 16)),
        free=("*conv?.weight", "*downsample.0.weight", "bn1.weight", "*.bn1.weight", "*.bn2.weight", "fc.weight"),
        coupled=("layer?.?.bn3.weight", "*downsample.1.weight"),
        normalised=True,
    ),
    # A gain of zero is coupled all the same: it will not stay zero.
    Network(
        "resnet with zero gains",
        lambda: ResNet(BasicBlock, zero_gain="bn2.weight"),
        normal((6, 3, 16, 16)),
        free=("*conv?.weight", "*downsample.0.weight", "layer*.bn1.weight", "fc.weight"),
        coupled=("bn1.weight", "layer?.?.bn2.weight", "*downsample.1.weight"),
        normalised=True,
        complete=False,  # a zero branch hides its demands from a numerical probe
        stirred=False,
    ),
    # The stem and every conv2 write to the one stream; bn1, conv1 and bn2 only have to reach the next norm or conv2:
    # bn2 + conv2 = stem.
    Network(
        "resnet pre-activation",
        PreActivationResNet,
        IMAGES,
        free=("*bn1.weight", "*conv1.weight", "norm.weight", "head.weight"),
        coupled=("stem.weight", "*bn2.weight", "*conv2.weight"),
        normalised=True,
    ),
    # norm1 + conv1 = stem = norm2 + conv2.
    Network(
        "densenet",
        DenseNet,
        IMAGES,
        free=("norm3.weight", "head.weight"),
        coupled=("stem.weight", "norm[12].weight", "conv[12].weight"),
        normalised=True,
        complete=False,  # a BatchNorm forgets each half of a concatenation apart, but the algebra gives it one scale
    ),
    # bottom + up1 = 0 at the first concatenation, down + merge1 + up2 = 0 at the second.
    Network(
        "u-net",
        UNet,
        IMAGES,
        free=("enter.*weight", "merge2.*weight", "head.weight"),
        coupled=("bottom.*weight", "up1.weight", "down.*weight", "merge1.*weight", "up2.weight"),
    ),
    # Gains in front of relu6 are held; those of the projections are free, or equal where a residual sum joins two.
    Network(
        "mobilenet",
        mobilenet,
        normal((6, 3, 8, 8)),
        free=("*.0.weight", "3.project.1.weight", "7.weight"),
        coupled=("[12].project.1.weight",),
        held=("0.1.weight", "*.expand.1.weight", "*.depthwise.1.weight", "4.1.weight"),
        normalised=True,
    ),
    # norm + first layer = 0 in front of every gelu; the second layers and the patches write to the one stream.
    Network(
        "mlp-mixer",
        Mixer,
        normal((4, 3, 12, 12)),
        free=("norm.weight", "head.weight"),
        coupled=("patches.weight", "blocks.*weight"),
        normalised=True,
    ),
    # norm + widen = 0 and narrow + layer_scale = stem; the depthwise convolution ends in a LayerNorm.
    Network(
        "convnext with layer scale",
        ConvNeXt,
        IMAGES,
        free=("*depthwise.weight", "norm.weight", "head.weight"),
        coupled=("stem.weight", "blocks.*norm.weight", "*widen.weight", "*narrow.weight", "*layer_scale"),
        normalised=True,
    ),
    # bn + squeeze + excite = 0 in front of the sigmoid.
    Network(
        "squeeze and excitation",
        SqueezeExcite,
        IMAGES,
        free=("conv.weight", "head.weight"),
        coupled=("bn.weight", "squeeze.weight", "excite.weight"),
        normalised=True,
    ),
    # The input itself is part of the output: conv1 + conv2 = 0.
    Network(
        "super resolution",
        SuperResolution,
        normal((2, 3, 5, 5)),
        free=(),
        coupled=("*weight",),
        constant_is_one=True,
    ),
    Network("frozen backbone", FrozenBackbone, IMAGES, normalised=True),
)
