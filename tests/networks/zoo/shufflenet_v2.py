"""ShuffleNet V2: Ma, Zhang, Zheng, Sun, "ShuffleNet V2: Practical Guidelines", 2018."""
import torch
from torch import nn

from .blocks import ConvNorm
from .network import Network
from .seeding import Seeder, calibrate


def shuffle(x, groups=2):
    """Interleaves the channels of `groups` groups."""
    items, channels, height, width = x.shape
    x = x.view(items, groups, channels // groups, height, width)
    return torch.transpose(x, 1, 2).contiguous().view(items, channels, height, width)


class Unit(nn.Module):
    """Half of the channels pass, the other half is convolved."""

    def __init__(self, width):
        super().__init__()
        half = width // 2
        self.body = nn.Sequential(ConvNorm(half, half, 1),
                                  ConvNorm(half, half, 3, groups=half, act=nn.Identity),
                                  ConvNorm(half, half, 1))

    def forward(self, x):
        passed, changed = x.chunk(2, dim=1)
        return shuffle(torch.cat([passed, self.body(changed)], 1))


class Down(nn.Module):
    """Halves the image; both branches are convolved."""

    def __init__(self, inputs, outputs):
        super().__init__()
        half = outputs // 2
        self.left = nn.Sequential(ConvNorm(inputs, inputs, 3, 2, groups=inputs, act=nn.Identity),
                                  ConvNorm(inputs, half, 1))
        self.right = nn.Sequential(ConvNorm(inputs, half, 1),
                                   ConvNorm(half, half, 3, 2, groups=half, act=nn.Identity),
                                   ConvNorm(half, half, 1))

    def forward(self, x):
        return shuffle(torch.cat([self.left(x), self.right(x)], 1))


class ShuffleNetV2(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(ConvNorm(3, 20, 3, 2), Down(20, 40), Unit(40), Unit(40),
                                      Down(40, 76), Unit(76), ConvNorm(76, 96, 1))
        self.answer = nn.Linear(96, 10)

    def forward(self, x):
        return self.answer(self.features(x).mean([2, 3]))


def network():
    seeder = Seeder("shufflenet_v2")
    module = seeder.weights(ShuffleNetV2())
    images = seeder.signal(3, 32, 32)
    return Network(
        calibrate(module, [images]), [{"image": images}], ("logits",), opset=13,
        chains=(
            "Slice Concat Reshape Transpose Reshape Slice Conv",
            "Shape Gather",
            "Conv BatchNormalization Relu"))
