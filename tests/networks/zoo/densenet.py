"""DenseNet: Huang, Liu, van der Maaten, Weinberger, "Densely Connected Convolutional Networks",
2016."""
import torch
from torch import nn

from .network import Network
from .seeding import Seeder, calibrate


class Dense(nn.Module):
    """Appends `growth` channels made of all that are there."""

    def __init__(self, inputs, growth):
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth), nn.ReLU(),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False))

    def forward(self, x):
        return torch.cat([x, self.body(x)], 1)


class DenseNet(nn.Module):
    def __init__(self, growth=9):
        super().__init__()
        layers = [nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
                  nn.MaxPool2d(3, 2, 1)]
        width = 16
        for block in range(2):
            for _ in range(3):
                layers.append(Dense(width, growth))
                width += growth
            layers += [nn.BatchNorm2d(width), nn.ReLU()]
            if block == 0:  # the transition between blocks
                layers += [nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2)]
                width //= 2
        self.features = nn.Sequential(*layers)
        self.answer = nn.Linear(width, 10)

    def forward(self, x):
        return self.answer(self.features(x).mean((2, 3)))


def network():
    seeder = Seeder("densenet")
    module = seeder.weights(DenseNet())
    images = seeder.signal(3, 32, 40)
    return Network(
        calibrate(module, [images]), [{"image": images}], ("logits",), opset=12,
        chains=(
            "Concat BatchNormalization Relu Conv BatchNormalization Relu",
            "Conv Pad AveragePool BatchNormalization",
            "ReduceMean Gemm"))
