"""Vision transformer: Dosovitskiy and others, "An Image is Worth 16x16 Words", 2020."""
import torch
from torch import nn

from .blocks import Mlp
from .network import Network
from .seeding import Seeder


class Attention(nn.Module):
    """Query, key and value weights lie in one parameter, which is split before it is used."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.in_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_bias = nn.Parameter(torch.empty(3 * width))
        self.out = nn.Linear(width, width)

    def forward(self, x):
        items, length, width = x.shape
        parts = zip(self.in_weight.split(width), self.in_bias.split(width))
        query, key, value = (
            nn.functional.linear(x, *part).view(items, length, self.heads, -1).transpose(1, 2)
            for part in parts)
        scores = query @ key.transpose(-2, -1) / (width // self.heads) ** 0.5
        joined = (torch.softmax(scores, -1) @ value).transpose(1, 2).reshape(items, length, width)
        return self.out(joined)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = Mlp(width, 2 * width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    def __init__(self, width=40, heads=4, patches=16):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 8, 8)
        self.class_token = nn.Parameter(torch.empty(1, 1, width))
        self.position = nn.Parameter(torch.empty(1, patches + 1, width))
        self.blocks = nn.Sequential(Block(width, heads), Block(width, heads))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.answer = nn.Linear(width, 10)

    def forward(self, image):
        x = self.patch(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.answer(self.norm(self.blocks(x))[:, 0])


def network():
    seeder = Seeder("vit")
    module = seeder.weights(VisionTransformer())
    return Network(
        module, [{"image": seeder.signal(3, 32, 32)}], ("logits",), opset=17,
        chains=(
            "Split Transpose MatMul Add Reshape",
            "Split Add",
            "Expand Concat Add LayerNormalization",
            "Softmax MatMul Transpose Reshape MatMul",
            "Div Erf"))
