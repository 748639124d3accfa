"""A tracker that correlates one exemplar with a batch of search images: Bertinetto, Valmadre,
Henriques, Vedaldi, Torr, "Fully-Convolutional Siamese Networks for Object Tracking", 2016."""
import torch
from torch import nn

from .blocks import ConvNorm
from .network import Network
from .seeding import Seeder, calibrate


class SiamFC(nn.Module):
    """The exemplar's features are the weights of the last convolution."""

    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(ConvNorm(3, 16, 3, 2), nn.MaxPool2d(3, 2, 1),
                                      ConvNorm(16, 24, 3), nn.Conv2d(24, 20, 3, groups=2))
        self.scale = nn.Parameter(torch.ones(1))
        self.bias = nn.Parameter(torch.ones(1))

    def forward(self, exemplar, search):
        correlated = nn.functional.conv2d(self.backbone(search), self.backbone(exemplar))
        return correlated * self.scale + self.bias


def network():
    seeder = Seeder("siamfc")
    module = seeder.weights(SiamFC())
    inputs = {"exemplar": seeder.signal(3, 20, 20)[5:6], "search": seeder.signal(3, 32, 36)}
    return Network(
        calibrate(module, inputs.values()), [inputs], ("response",), opset=16, shared=("exemplar",),
        chains=(
            "Relu MaxPool Conv BatchNormalization Relu Conv Conv Mul",))
