"""ResNet: He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", 2015."""
import torch
from torch import nn

from .blocks import ConvNorm
from .network import Network
from .seeding import Seeder, calibrate


class Residual(nn.Module):
    """A body, and a shortcut around it that is a convolution where shapes differ."""

    def __init__(self, body, inputs, outputs, stride):
        super().__init__()
        self.body = body
        same = stride == 1 and inputs == outputs
        self.shortcut = (nn.Identity() if same else
                         ConvNorm(inputs, outputs, 1, stride, act=nn.Identity))

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


def basic(inputs, outputs, stride):
    """Two 3x3 convolutions."""
    body = nn.Sequential(ConvNorm(inputs, outputs, 3, stride),
                         ConvNorm(outputs, outputs, 3, act=nn.Identity))
    return Residual(body, inputs, outputs, stride)


def bottleneck(inputs, outputs, stride):
    """1x1 down, 3x3, 1x1 up."""
    inner = outputs // 4
    body = nn.Sequential(ConvNorm(inputs, inner, 1), ConvNorm(inner, inner, 3, stride),
                         ConvNorm(inner, outputs, 1, act=nn.Identity))
    return Residual(body, inputs, outputs, stride)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = ConvNorm(3, 16, 7, 2)
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.stages = nn.Sequential(basic(16, 16, 1), basic(16, 24, 2), bottleneck(24, 64, 1),
                                    bottleneck(64, 64, 2), bottleneck(64, 64, 1))
        self.answer = nn.Linear(64, 10)

    def forward(self, x):
        x = self.stages(self.pool(self.stem(x)))
        return self.answer(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 1), 1))


def network():
    seeder = Seeder("resnet")
    module = seeder.weights(ResNet())
    images = seeder.signal(3, 36, 32)
    return Network(
        calibrate(module, [images]), [{"image": images}], ("logits",), opset=11,
        chains=(
            "Conv BatchNormalization Relu MaxPool Conv",
            "Conv BatchNormalization Add Relu",
            "GlobalAveragePool Flatten Gemm"))
