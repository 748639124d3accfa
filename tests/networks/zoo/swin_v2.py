"""Swin transformer V2: Liu and others, "Swin Transformer V2: Scaling Up Capacity and Resolution",
2021."""
import math

import torch
from torch import nn

from .blocks import Mlp
from .network import Network
from .seeding import Seeder


def partition(x, window):
    """[N, H, W, C] to [N * windows, window * window, C]."""
    items, height, width, channels = x.shape
    x = x.view(items, height // window, window, width // window, window, channels)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, window * window, channels)


def reverse(windows, window, size):
    """The inverse of `partition` for images of `size`."""
    height, width = size
    x = windows.view(-1, height // window, width // window, window, window, windows.shape[-1])
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, height, width, windows.shape[-1])


def shift_mask(size, window, shift):
    """[windows, places, places]: what a rolled image must not let see each other."""
    regions = torch.zeros(1, *size, 1)
    cuts = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
    for i, rows in enumerate(cuts):
        for j, columns in enumerate(cuts):
            regions[:, rows, columns] = 3 * i + j
    places = partition(regions, window).squeeze(-1)
    return (places.unsqueeze(1) != places.unsqueeze(2)).float() * -100


def log_coordinates(window):
    """[(2 window - 1)^2, 2]: distances of two places, on a logarithmic scale."""
    distances = torch.arange(1 - window, window, dtype=torch.float32) * 8 / (window - 1)
    distances = torch.sign(distances) * torch.log2(distances.abs() + 1) / 3
    return torch.stack(torch.meshgrid(distances, distances, indexing="ij"), -1).view(-1, 2)


def distance_index(window):
    """[places, places]: the row of log_coordinates for each pair of places."""
    rows, columns = torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")
    places = torch.stack([rows.flatten(), columns.flatten()])
    rows, columns = places[:, :, None] - places[:, None, :] + window - 1
    return rows * (2 * window - 1) + columns


class Attention(nn.Module):
    """Cosine attention with a position bias that a small network computes from distances."""

    def __init__(self, width, heads, window):
        super().__init__()
        self.heads = heads
        self.logit_scale = nn.Parameter(torch.empty(heads, 1, 1))
        self.table = nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, heads, bias=False))
        self.register_buffer("coordinates", log_coordinates(window))
        self.register_buffer("index", distance_index(window))
        self.project = nn.Linear(width, 3 * width, bias=False)
        self.query_bias = nn.Parameter(torch.empty(width))
        self.value_bias = nn.Parameter(torch.empty(width))
        self.out = nn.Linear(width, width)

    def bias(self, places):
        table = self.table(self.coordinates)
        bias = table[self.index.view(-1)].view(places, places, self.heads).permute(2, 0, 1)
        return 16 * torch.sigmoid(bias.contiguous()).unsqueeze(0)

    def forward(self, x, mask):
        windows, places, width = x.shape
        bias = torch.cat([self.query_bias, torch.zeros_like(self.value_bias), self.value_bias])
        x = nn.functional.linear(x, self.project.weight, bias)
        x = x.reshape(windows, places, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = x.unbind(0)
        query, key = nn.functional.normalize(query, dim=-1), nn.functional.normalize(key, dim=-1)
        scale = torch.clamp(self.logit_scale, max=math.log(100)).exp()
        scores = (query @ key.transpose(-2, -1)) * scale + self.bias(places)
        if mask is not None:
            scores = scores.view(-1, mask.shape[0], self.heads, places, places)
            scores = (scores + mask[None, :, None]).view(-1, self.heads, places, places)
        joined = (torch.softmax(scores, -1) @ value).transpose(1, 2).reshape(windows, places, width)
        return self.out(joined)


class Block(nn.Module):
    """Attention in windows, shifted in every other block; norms come after the branches."""

    def __init__(self, width, heads, size, shift, window=4):
        super().__init__()
        self.window, self.size, self.shift = window, size, shift
        self.attention = Attention(width, heads, window)
        self.norm1 = nn.LayerNorm(width)
        self.mlp = Mlp(width, 2 * width)
        self.norm2 = nn.LayerNorm(width)
        self.register_buffer("mask", shift_mask(size, window, shift) if shift else None)

    def attend(self, x):
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        x = reverse(self.attention(partition(x, self.window), self.mask), self.window, self.size)
        return torch.roll(x, (self.shift, self.shift), (1, 2)) if self.shift else x

    def forward(self, x):
        x = x + self.norm1(self.attend(x))
        return x + self.norm2(self.mlp(x))


class Merge(nn.Module):
    """Four neighbours become one place of twice the width."""

    def __init__(self, width):
        super().__init__()
        self.reduce = nn.Linear(4 * width, 2 * width, bias=False)
        self.norm = nn.LayerNorm(2 * width)

    def forward(self, x):
        parts = [x[:, i::2, j::2, :] for j in (0, 1) for i in (0, 1)]
        return self.norm(self.reduce(torch.cat(parts, -1)))


class SwinV2(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, 4)
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.Sequential(
            Block(width, 2, (8, 8), 0), Block(width, 2, (8, 8), 2), Merge(width),
            Block(2 * width, 4, (4, 4), 0))
        self.last = nn.LayerNorm(2 * width)
        self.answer = nn.Linear(2 * width, 10)

    def forward(self, image):
        x = self.norm(self.patch(image).permute(0, 2, 3, 1))
        return self.answer(self.last(self.blocks(x)).mean((1, 2)))


def network():
    seeder = Seeder("swin_v2")
    module = seeder.weights(SwinV2())
    return Network(
        module, [{"image": seeder.signal(3, 32, 32)}], ("logits",), opset=16,
        chains=(
            "Slice Concat Reshape Transpose Reshape MatMul",
            "Reshape Slice Concat",
            "ReduceL2 Clip Expand Div MatMul",
            "Clip Exp Mul",
            "MatMul Gather Reshape Transpose Sigmoid Unsqueeze Mul Add",
            "Reshape Add Reshape Softmax MatMul"))
