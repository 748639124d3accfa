"""What YOLOv8 and YOLO11 have in common, from the layout of their published configurations."""
import torch
from torch import nn

from .blocks import ConvNorm


def conv(inputs, outputs, kernel=1, stride=1, groups=1):
    return ConvNorm(inputs, outputs, kernel, stride, groups, nn.SiLU)


class Bottleneck(nn.Module):
    """Two 3x3 convolutions, and their input added."""

    def __init__(self, width, add):
        super().__init__()
        self.first, self.second, self.add = conv(width, width, 3), conv(width, width, 3), add

    def forward(self, x):
        y = self.second(self.first(x))
        return x + y if self.add else y


class Partial(nn.Module):
    """Half of the channels passes through a chain of blocks; every block's result is kept."""

    def __init__(self, inputs, outputs, blocks):
        super().__init__()
        self.half = half = outputs // 2
        self.first = conv(inputs, 2 * half)
        self.blocks = nn.ModuleList(blocks)
        self.last = conv((2 + len(blocks)) * half, outputs)

    def forward(self, x):
        parts = list(self.first(x).split(self.half, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class PyramidPool(nn.Module):
    """Three max poolings in a row, all joined."""

    def __init__(self, width):
        super().__init__()
        self.first = conv(width, width // 2)
        self.pool = nn.MaxPool2d(5, 1, 2)
        self.last = conv(2 * width, width)

    def forward(self, x):
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Distances(nn.Module):
    """[N, 4 * bins, A] to [N, 4, A]: the expectation of a distribution for each side of a box."""

    def __init__(self, bins):
        super().__init__()
        self.bins = bins
        self.register_buffer("places", torch.arange(bins, dtype=torch.float32).view(1, bins, 1, 1))

    def forward(self, x):
        items, _, anchors = x.shape
        x = x.view(items, 4, self.bins, anchors).transpose(2, 1).softmax(1)
        return nn.functional.conv2d(x, self.places).view(items, 4, anchors)


def boxes_of(distances, centres):
    """Centre and extent of boxes from the distances of their sides."""
    left_top, right_bottom = distances.chunk(2, 1)
    low, high = centres - left_top, centres + right_bottom
    return torch.cat([(low + high) / 2, high - low], 1)


class Pyramid(nn.Module):
    """Features of three levels, joined upwards and then downwards."""

    def __init__(self, widths, make_block):
        super().__init__()
        small, middle, large = widths
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.up_middle = make_block(large + middle, middle)
        self.up_small = make_block(middle + small, small)
        self.down_small = conv(small, small, 3, 2)
        self.down_middle = make_block(small + middle, middle)
        self.middle_down = conv(middle, middle, 3, 2)
        self.down_large = make_block(middle + large, large)

    def forward(self, small, middle, large):
        middle = self.up_middle(torch.cat([self.up(large), middle], 1))
        small = self.up_small(torch.cat([self.up(middle), small], 1))
        middle = self.down_middle(torch.cat([self.down_small(small), middle], 1))
        large = self.down_large(torch.cat([self.middle_down(middle), large], 1))
        return small, middle, large
