"""ConvNeXt V2: Woo and others, "ConvNeXt V2: Co-designing and Scaling ConvNets with Masked
Autoencoders", 2023."""
import torch
from torch import nn

from .network import Network
from .seeding import Seeder


class ChannelNorm(nn.Module):
    """Layer normalization over the channels of an image."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.bias = nn.Parameter(torch.empty(width))

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        variance = (x - mean).pow(2).mean(1, keepdim=True)
        x = (x - mean) / torch.sqrt(variance + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class ResponseNorm(nn.Module):
    """Global response normalization of [N, H, W, C]."""

    def __init__(self, width):
        super().__init__()
        self.gamma = nn.Parameter(torch.empty(1, 1, 1, width))
        self.beta = nn.Parameter(torch.empty(1, 1, 1, width))

    def forward(self, x):
        response = torch.norm(x, p=2, dim=(1, 2), keepdim=True)
        share = response / (response.mean(-1, keepdim=True) + 1e-6)
        return self.gamma * (x * share) + self.beta + x


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up = nn.Linear(width, 4 * width)
        self.response = ResponseNorm(4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.down(self.response(nn.functional.gelu(self.up(y))))
        return x + y.permute(0, 3, 1, 2)


class ConvNextV2(nn.Module):
    def __init__(self, widths=(16, 28)):
        super().__init__()
        first, second = widths
        self.stem = nn.Sequential(nn.Conv2d(3, first, 4, 4), ChannelNorm(first))
        self.stage1 = nn.Sequential(Block(first), Block(first))
        self.down = nn.Sequential(ChannelNorm(first), nn.Conv2d(first, second, 2, 2))
        self.stage2 = nn.Sequential(Block(second), Block(second))
        self.norm = nn.LayerNorm(second, eps=1e-6)
        self.answer = nn.Linear(second, 10)

    def forward(self, x):
        x = self.stage2(self.down(self.stage1(self.stem(x))))
        return self.answer(self.norm(x.mean([-2, -1])))


def network():
    seeder = Seeder("convnext_v2")
    module = seeder.weights(ConvNextV2())
    return Network(
        module, [{"image": seeder.signal(3, 32, 40)}], ("logits",), opset=13,
        chains=(
            "Conv ReduceMean Sub Pow ReduceMean Add Sqrt Div Mul Add",
            "ReduceL2 ReduceMean Add Div Mul Mul Add Add MatMul",
            "Conv Transpose ReduceMean",
            "Transpose MatMul"))
