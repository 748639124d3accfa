"""A detector like YOLOv8, for images of one size: one output of boxes, as shares of the width, over
class scores."""
import torch
from torch import nn

from . import yolo
from .network import Network
from .seeding import Seeder, calibrate

SIZE = (32, 64)
STRIDES = (8, 16, 32)


def centres():
    """[1, 2, A] centres of the cells in cells, [1, A] strides as shares of the image's width."""
    points, strides = [], []
    for stride in STRIDES:
        rows, columns = (torch.arange(extent // stride) + 0.5 for extent in SIZE)
        rows, columns = torch.meshgrid(rows, columns, indexing="ij")
        points.append(torch.stack([columns.flatten(), rows.flatten()]))
        strides.append(torch.full((1, rows.numel()), stride / SIZE[1]))
    return torch.cat(points, 1).unsqueeze(0), torch.cat(strides, 1)


class Head(nn.Module):
    def __init__(self, widths, classes=3, bins=8):
        super().__init__()
        self.sizes = (4 * bins, classes)
        self.box = nn.ModuleList(nn.Sequential(yolo.conv(width, 16, 3), nn.Conv2d(16, 4 * bins, 1))
                                 for width in widths)
        self.score = nn.ModuleList(nn.Sequential(yolo.conv(width, 12, 3), nn.Conv2d(12, classes, 1))
                                   for width in widths)
        self.distances = yolo.Distances(bins)
        points, strides = centres()
        self.register_buffer("points", points)
        self.register_buffer("strides", strides)

    def forward(self, levels):
        levels = [torch.cat([box(x), score(x)], 1)
                  for x, box, score in zip(levels, self.box, self.score)]
        joined = torch.cat([x.view(x.shape[0], sum(self.sizes), -1) for x in levels], 2)
        box, score = joined.split(self.sizes, 1)
        boxes = yolo.boxes_of(self.distances(box), self.points) * self.strides
        return torch.cat([boxes, score.sigmoid()], 1)


class YoloV8(nn.Module):
    def __init__(self, widths=(12, 16, 24)):
        super().__init__()
        small, middle, large = widths
        self.stem = nn.Sequential(yolo.conv(3, 8, 3, 2), yolo.conv(8, 12, 3, 2), self.block(12, 12),
                                  yolo.conv(12, small, 3, 2), self.block(small, small))
        self.middle = nn.Sequential(yolo.conv(small, middle, 3, 2), self.block(middle, middle))
        self.large = nn.Sequential(yolo.conv(middle, large, 3, 2), yolo.PyramidPool(large))
        self.pyramid = yolo.Pyramid(widths, lambda i, o: self.block(i, o, add=False))
        self.head = Head(widths)

    @staticmethod
    def block(inputs, outputs, add=True):
        return yolo.Partial(inputs, outputs, [yolo.Bottleneck(outputs // 2, add)])

    def forward(self, image):
        small = self.stem(image)
        middle = self.middle(small)
        return self.head(self.pyramid(small, middle, self.large(middle)))


def network():
    seeder = Seeder("yolov8")
    module = seeder.weights(YoloV8())
    images = seeder.signal(3, *SIZE)
    return Network(
        calibrate(module, [images]), [{"images": images}], ("output0",), opset=12,
        chains=(
            "Conv BatchNormalization Sigmoid Mul Split Concat",
            "MaxPool MaxPool MaxPool Concat",
            "Mul Resize Concat",
            "Reshape Concat Split Reshape Transpose Softmax Transpose Conv",
            "Reshape Slice Sub"))
