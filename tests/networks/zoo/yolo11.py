"""A detector like YOLO11: attention at its coarsest level, separable score branches, boxes and
scores apart, cells computed from the features' sizes."""
import torch
from torch import nn

from . import yolo
from .network import Network
from .seeding import Seeder, calibrate


class Deep(nn.Module):
    """Two ways, one of them through a bottleneck, joined."""

    def __init__(self, width):
        super().__init__()
        half = width // 2
        self.left, self.right = yolo.conv(width, half), yolo.conv(width, half)
        self.body = yolo.Bottleneck(half, True)
        self.last = yolo.conv(2 * half, width)

    def forward(self, x):
        return self.last(torch.cat([self.body(self.left(x)), self.right(x)], 1))


class Attention(nn.Module):
    """Attention over the places of an image; keys are half as wide as values."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.extent = heads, width // heads
        self.key_extent = self.extent // 2
        outputs = width + 2 * heads * self.key_extent
        self.project = yolo.ConvNorm(width, outputs, 1, act=nn.Identity)
        self.position = yolo.ConvNorm(width, width, 3, groups=width, act=nn.Identity)
        self.out = yolo.ConvNorm(width, width, 1, act=nn.Identity)

    def forward(self, x):
        items, width, rows, columns = x.shape
        projected = self.project(x).view(items, self.heads, -1, rows * columns)
        query, key, value = projected.split([self.key_extent, self.key_extent, self.extent], 2)
        weights = ((query.transpose(-2, -1) @ key) * self.key_extent**-0.5).softmax(-1)
        joined = (value @ weights.transpose(-2, -1)).view(items, width, rows, columns)
        return self.out(joined + self.position(value.reshape(items, width, rows, columns)))


class AttentionBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = Attention(width, heads)
        self.mlp = nn.Sequential(yolo.conv(width, 2 * width),
                                 yolo.ConvNorm(2 * width, width, 1, act=nn.Identity))

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.mlp(x)


class Head(nn.Module):
    def __init__(self, widths, classes=4, bins=8):
        super().__init__()
        self.box = nn.ModuleList(nn.Sequential(yolo.conv(width, 16, 3), nn.Conv2d(16, 4 * bins, 1))
                                 for width in widths)
        self.score = nn.ModuleList(
            nn.Sequential(yolo.conv(width, width, 3, groups=width), yolo.conv(width, 12),
                          yolo.conv(12, 12, 3, groups=12), nn.Conv2d(12, classes, 1))
            for width in widths)
        self.distances = yolo.Distances(bins)

    @staticmethod
    def centres(x, stride):
        """Of the cells of `x`, in pixels: [1, 2, rows * columns]."""
        rows = torch.arange(x.shape[2], dtype=x.dtype) + 0.5
        columns = torch.arange(x.shape[3], dtype=x.dtype) + 0.5
        rows, columns = torch.meshgrid(rows, columns, indexing="ij")
        return torch.stack([columns.reshape(-1), rows.reshape(-1)]).unsqueeze(0) * stride

    def forward(self, levels):
        boxes, scores = [], []
        for level, (x, box, score) in enumerate(zip(levels, self.box, self.score)):
            stride = 8.0 * 2**level
            distances = self.distances(box(x).flatten(2)) * stride
            boxes.append(yolo.boxes_of(distances, self.centres(x, stride)))
            scores.append(score(x).flatten(2))
        return torch.cat(boxes, 2), torch.cat(scores, 2).sigmoid()


class Yolo11(nn.Module):
    def __init__(self, widths=(12, 16, 24)):
        super().__init__()
        small, middle, large = widths
        self.stem = nn.Sequential(yolo.conv(3, 8, 3, 2), yolo.conv(8, 12, 3, 2),
                                  yolo.Partial(12, 12, [yolo.Bottleneck(6, True)]),
                                  yolo.conv(12, small, 3, 2))
        self.middle = nn.Sequential(yolo.conv(small, middle, 3, 2), self.block(middle, middle))
        self.large = nn.Sequential(yolo.conv(middle, large, 3, 2), yolo.PyramidPool(large),
                                   yolo.Partial(large, large, [AttentionBlock(large // 2, 2)]))
        self.pyramid = yolo.Pyramid(widths, self.block)
        self.head = Head(widths)

    @staticmethod
    def block(inputs, outputs):
        return yolo.Partial(inputs, outputs, [Deep(outputs // 2)])

    def forward(self, image):
        small = self.stem(image)
        middle = self.middle(small)
        return self.head(self.pyramid(small, middle, self.large(middle)))


def network():
    seeder = Seeder("yolo11")
    module = seeder.weights(Yolo11())
    images = seeder.signal(3, 32, 64)
    data = [{"images": images}, {"images": seeder.signal(3, 32, 32)}]
    open_axes = {"images": {2: "height", 3: "width"}, "boxes": {2: "cells"}, "scores": {2: "cells"}}
    return Network(
        calibrate(module, [images]), data, ("boxes", "scores"), opset=17, open_axes=open_axes,
        chains=(
            "Conv BatchNormalization Sigmoid Mul Split Concat",
            "Reshape Split Transpose MatMul Mul Softmax Transpose MatMul Reshape Add Conv",
            "Range Add",
            "Mul Resize Concat",
            "Softmax Conv"))
