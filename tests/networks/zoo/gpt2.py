"""GPT-2 with its cache as inputs and outputs: Radford and others, "Language Models are Unsupervised
Multitask Learners", 2019."""
import torch
from torch import nn

from .network import Network
from .seeding import Seeder


class Projection(nn.Module):
    """A linear layer whose weight is stored [inputs, outputs]."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x):
        size = x.size()[:-1] + (self.bias.shape[0],)
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(size)


class TanhGelu(nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * torch.pow(x, 3.0))))


class Block(nn.Module):
    def __init__(self, width, heads, longest):
        super().__init__()
        self.heads, self.width = heads, width
        self.norm1 = nn.LayerNorm(width)
        self.project = Projection(width, 3 * width)
        self.out = Projection(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(Projection(width, 4 * width), TanhGelu(),
                                 Projection(4 * width, width))
        causal = torch.tril(torch.ones(longest, longest, dtype=torch.bool))
        self.register_buffer("causal", causal.view(1, 1, longest, longest))

    def split(self, x):
        return x.view(x.size()[:-1] + (self.heads, self.width // self.heads)).permute(0, 2, 1, 3)

    def attention(self, x, past_key, past_value):
        query, key, value = (self.split(part) for part in self.project(x).split(self.width, 2))
        key, value = torch.cat([past_key, key], -2), torch.cat([past_value, value], -2)
        scores = torch.matmul(query, key.transpose(-1, -2)) / (self.width // self.heads) ** 0.5
        length, start = key.size(-2), key.size(-2) - query.size(-2)
        least = torch.tensor(torch.finfo(scores.dtype).min)
        scores = torch.where(self.causal[:, :, start:length, :length], scores, least)
        joined = torch.matmul(torch.softmax(scores, -1), value).permute(0, 2, 1, 3).contiguous()
        return self.out(joined.view(joined.size()[:-2] + (self.width,))), key, value

    def forward(self, x, past_key, past_value):
        attended, key, value = self.attention(self.norm1(x), past_key, past_value)
        x = x + attended
        return x + self.mlp(self.norm2(x)), key, value


class Gpt2(nn.Module):
    """Scores of the next word; the matrix of word vectors also makes the answer."""

    def __init__(self, width=24, heads=2, words=60, longest=32):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Embedding(longest, width)
        self.blocks = nn.ModuleList([Block(width, heads, longest) for _ in range(2)])
        self.norm = nn.LayerNorm(width)

    def forward(self, ids, *past):
        start = past[0].size(-2)
        places = torch.arange(start, start + ids.size(-1)).unsqueeze(0)
        x = self.words(ids) + self.positions(places)
        present = []
        for i, block in enumerate(self.blocks):
            x, key, value = block(x, past[2 * i], past[2 * i + 1])
            present += [key, value]
        return (nn.functional.linear(self.norm(x), self.words.weight), *present)


def texts(seeder, length, past):
    caches = [f"past_{i}_{kind}" for i in range(2) for kind in ("key", "value")]
    return {"input_ids": seeder.ids(60, length),
            **{name: seeder.signal(2, past, 12) for name in caches}}


def network():
    seeder = Seeder("gpt2")
    module = seeder.weights(Gpt2())
    data = [texts(seeder, 3, 5), texts(seeder, 1, 10), texts(seeder, 7, 0)]
    caches = [name for name in data[0] if name.startswith("past")]
    presents = [name.replace("past", "present") for name in caches]
    open_axes = {"input_ids": {1: "length"}, "logits": {1: "length"},
                 **{name: {2: "past"} for name in caches},
                 **{name: {2: "whole"} for name in presents}}
    return Network(
        module, data, ("logits", *presents), opset=13, open_axes=open_axes,
        chains=(
            "Reshape Gemm Reshape Split Reshape Transpose",
            "Transpose Concat Transpose MatMul Div Where Softmax MatMul",
            "Shape Gather",
            "Range Unsqueeze Gather Add",
            "Pow Mul Add Mul Tanh Add Mul",
            "Transpose MatMul"))
