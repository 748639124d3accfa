"""CLIP's vision tower: Radford and others, "Learning Transferable Visual Models From Natural
Language Supervision", 2021."""
import torch
from torch import nn

from .blocks import Mlp
from .network import Network
from .seeding import Seeder


class QuickGelu(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class Attention(nn.Module):
    """Three linear layers; batch and heads are one axis while it computes."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.extent = heads, width // heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def split(self, x, items):
        x = x.view(items, -1, self.heads, self.extent).transpose(1, 2).contiguous()
        return x.view(items * self.heads, -1, self.extent)

    def forward(self, x):
        items, length, width = x.size()
        query = self.split(self.query(x) * self.extent**-0.5, items)
        key, value = self.split(self.key(x), items), self.split(self.value(x), items)
        weights = torch.softmax(torch.bmm(query, key.transpose(1, 2)), -1)
        joined = torch.bmm(weights, value).view(items, self.heads, length, self.extent)
        return self.out(joined.transpose(1, 2).reshape(items, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = Mlp(width, 2 * width, QuickGelu)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ClipVision(nn.Module):
    def __init__(self, width=32, heads=2, patches=20):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 8, 8, bias=False)
        self.class_token = nn.Parameter(torch.empty(width))
        self.position = nn.Embedding(patches + 1, width)
        self.register_buffer("places", torch.arange(patches + 1).expand(1, -1))
        self.before = nn.LayerNorm(width)
        self.blocks = nn.Sequential(Block(width, heads), Block(width, heads))
        self.after = nn.LayerNorm(width)
        self.projection = nn.Linear(width, 24, bias=False)

    def forward(self, image):
        x = self.patch(image).flatten(2).transpose(1, 2)
        token = self.class_token.expand(image.shape[0], 1, -1)
        x = self.before(torch.cat([token, x], 1) + self.position(self.places))
        code = self.projection(self.after(self.blocks(x)[:, 0, :]))
        return code / code.norm(p=2, dim=-1, keepdim=True)


def network():
    seeder = Seeder("clip_vision")
    module = seeder.weights(ClipVision())
    return Network(
        module, [{"image": seeder.signal(3, 32, 40)}], ("code",), opset=14,
        chains=(
            "Mul Sigmoid Mul MatMul",
            "Transpose MatMul",
            "Gather Add ReduceMean Sub Pow ReduceMean Add Sqrt Div",
            "ReduceL2 Div"))
