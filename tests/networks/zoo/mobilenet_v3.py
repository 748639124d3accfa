"""MobileNet V3: Howard and others, "Searching for MobileNetV3", 2019."""
import torch
from torch import nn

from .blocks import ConvNorm
from .network import Network
from .seeding import Seeder, calibrate


class Excite(nn.Module):
    """Squeeze and excitation with a hard sigmoid."""

    def __init__(self, width):
        super().__init__()
        self.squeeze = nn.Conv2d(width, width // 4, 1)
        self.excite = nn.Conv2d(width // 4, width, 1)

    def forward(self, x):
        gate = torch.relu(self.squeeze(nn.functional.adaptive_avg_pool2d(x, 1)))
        return x * nn.functional.hardsigmoid(self.excite(gate))


class Inverted(nn.Module):
    """Expand, depthwise, perhaps excite, project; a shortcut where shapes allow it."""

    def __init__(self, inputs, hidden, outputs, depthwise, excite, act):
        super().__init__()
        kernel, stride = depthwise
        self.body = nn.Sequential(
            ConvNorm(inputs, hidden, 1, act=act),
            ConvNorm(hidden, hidden, kernel, stride, groups=hidden, act=act),
            Excite(hidden) if excite else nn.Identity(),
            ConvNorm(hidden, outputs, 1, act=nn.Identity))
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.residual else self.body(x)


class MobileNetV3(nn.Module):
    def __init__(self):
        super().__init__()
        relu, swish = nn.ReLU, nn.Hardswish
        self.features = nn.Sequential(
            ConvNorm(3, 16, 3, 2, act=swish),
            Inverted(16, 24, 16, (3, 1), False, relu),
            Inverted(16, 36, 20, (3, 2), True, relu),
            Inverted(20, 60, 20, (5, 1), True, swish),
            Inverted(20, 72, 28, (5, 2), False, swish),
            ConvNorm(28, 96, 1, act=swish))
        self.hidden = nn.Linear(96, 48)
        self.answer = nn.Linear(48, 10)

    def forward(self, x):
        x = torch.flatten(nn.functional.adaptive_avg_pool2d(self.features(x), 1), 1)
        return self.answer(nn.functional.hardswish(self.hidden(x)))


def network():
    seeder = Seeder("mobilenet_v3")
    module = seeder.weights(MobileNetV3())
    images = seeder.signal(3, 32, 32)
    return Network(
        calibrate(module, [images]), [{"image": images}], ("logits",), opset=14,
        chains=(
            "Conv BatchNormalization HardSwish GlobalAveragePool",
            "Relu Conv HardSigmoid Mul Conv",
            "Conv BatchNormalization Add"))
