"""A tracker that correlates each channel of the search image with the exemplar's:
Li, Wu, Wang, Zhang, Xing, Yan, "SiamRPN++", 2018."""
import torch
from torch import nn

from .blocks import ConvNorm
from .network import Network
from .seeding import Seeder, calibrate


class Backbone(nn.Sequential):
    def __init__(self, width):
        super().__init__(ConvNorm(3, 16, 5, 2), nn.MaxPool2d(2), ConvNorm(16, 24, 3),
                         ConvNorm(24, width, 3, act=nn.Identity))


class Tracker(nn.Module):
    """The correlation is a convolution whose weights the exemplar's tower computes."""

    def __init__(self, width=24):
        super().__init__()
        self.width = width
        self.backbone = Backbone(width)
        self.exemplar = ConvNorm(width, width, 3)
        self.search = ConvNorm(width, width, 3)
        self.score = nn.Sequential(ConvNorm(width, width, 1), nn.Conv2d(width, 2, 1))
        self.box = nn.Sequential(ConvNorm(width, width, 1), nn.Conv2d(width, 4, 1))

    def correlate(self, exemplar, search):
        items = search.shape[0]
        search = search.reshape(1, items * self.width, *search.shape[2:])
        kernel = exemplar.reshape(items * self.width, 1, *exemplar.shape[2:])
        correlated = nn.functional.conv2d(search, kernel, groups=items * self.width)
        return correlated.reshape(items, self.width, *correlated.shape[2:]) * 0.25

    def forward(self, exemplar, search):
        correlated = self.correlate(self.exemplar(self.backbone(exemplar)),
                                    self.search(self.backbone(search)))
        return self.score(correlated), self.box(correlated)


def network():
    seeder = Seeder("siamese_tracker")
    module = seeder.weights(Tracker())
    inputs = {"exemplar": seeder.signal(3, 16, 16), "search": seeder.signal(3, 32, 36)}
    return Network(
        calibrate(module, inputs.values()), [inputs], ("score", "box"), opset=13, one_by_one=True,
        chains=(
            "Conv BatchNormalization Relu Reshape Conv Reshape",
            "Conv BatchNormalization Relu MaxPool Conv"))
