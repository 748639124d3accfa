"""What several networks are made of."""
from torch import nn


class ConvNorm(nn.Sequential):
    """Convolution with same padding, batch normalization, and an activation."""

    def __init__(self, inputs, outputs, kernel, stride=1, groups=1, act=nn.ReLU):
        super().__init__(
            nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs), act())


class Mlp(nn.Sequential):
    """Two linear layers."""

    def __init__(self, width, hidden, act=nn.GELU):
        super().__init__(nn.Linear(width, hidden), act(), nn.Linear(hidden, width))
