"""U-Net: Ronneberger, Fischer, Brox, "U-Net: Convolutional Networks for Biomedical Image
Segmentation", 2015."""
import torch
from torch import nn

from .blocks import ConvNorm
from .network import Network
from .seeding import Seeder, calibrate


def double(inputs, outputs):
    return nn.Sequential(ConvNorm(inputs, outputs, 3), ConvNorm(outputs, outputs, 3))


class UNet(nn.Module):
    """One way up doubles the image in blocks, the other with an overlapping kernel."""

    def __init__(self):
        super().__init__()
        self.pool = nn.MaxPool2d(2)
        self.down1 = double(3, 12)
        self.down2 = double(12, 20)
        self.bottom = double(20, 32)
        self.up2 = nn.ConvTranspose2d(32, 20, 2, 2)
        self.join2 = double(40, 20)
        self.up1 = nn.ConvTranspose2d(20, 12, 3, 2, padding=1, output_padding=1)
        self.join1 = double(24, 12)
        self.answer = nn.Conv2d(12, 2, 1)

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(self.pool(first))
        x = self.bottom(self.pool(second))
        x = self.join2(torch.cat([second, self.up2(x)], 1))
        x = self.join1(torch.cat([first, self.up1(x)], 1))
        return torch.sigmoid(self.answer(x))


def network():
    seeder = Seeder("unet")
    module = seeder.weights(UNet())
    images = seeder.signal(3, 24, 32)
    return Network(
        calibrate(module, [images]), [{"image": images}], ("mask",), opset=13,
        chains=(
            "Relu ConvTranspose Concat Conv BatchNormalization Relu",
            "Relu Concat Conv",
            "Conv Sigmoid"))
