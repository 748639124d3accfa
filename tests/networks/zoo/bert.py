"""BERT's encoder: Devlin, Chang, Lee, Toutanova, "BERT: Pre-training of Deep Bidirectional
Transformers", 2018."""
import torch
from torch import nn

from .blocks import Mlp
from .network import ITEMS, Network
from .seeding import Seeder


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.extent = heads, width // heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def split(self, x):
        return x.view(x.size()[:-1] + (self.heads, self.extent)).permute(0, 2, 1, 3)

    def forward(self, x, mask):
        scores = torch.matmul(self.split(self.query(x)), self.split(self.key(x)).transpose(-1, -2))
        weights = torch.softmax(scores / self.extent**0.5 + mask, -1)
        joined = torch.matmul(weights, self.split(self.value(x))).permute(0, 2, 1, 3).contiguous()
        return self.out(joined.view(joined.size()[:-2] + (self.heads * self.extent,)))


class Layer(nn.Module):
    """Norms come after the sums."""

    def __init__(self, width, heads, hidden):
        super().__init__()
        self.attention = Attention(width, heads)
        self.norm1 = nn.LayerNorm(width, eps=1e-12)
        self.mlp = Mlp(width, hidden)
        self.norm2 = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x, mask):
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.mlp(x))


class Bert(nn.Module):
    def __init__(self, width=36, heads=3, words=50, longest=24):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Embedding(longest, width)
        self.types = nn.Embedding(2, width)
        self.register_buffer("places", torch.arange(longest).expand((1, -1)))
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList([Layer(width, heads, 2 * width) for _ in range(2)])
        self.pooler = nn.Linear(width, width)

    def forward(self, ids, mask, types):
        x = self.words(ids) + self.types(types) + self.positions(self.places[:, : ids.size(1)])
        x = self.norm(x)
        mask = (1.0 - mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        for layer in self.layers:
            x = layer(x, mask)
        return x, torch.tanh(self.pooler(x[:, 0]))


def texts(seeder, length):
    """Words of texts that end at different places, in two parts."""
    ends = torch.arange(ITEMS).view(-1, 1) % 4 + length - 3
    places = torch.arange(length).view(1, -1)
    return {"input_ids": seeder.ids(50, length), "attention_mask": (places < ends).to(torch.int64),
            "token_type_ids": (places >= ends // 2).to(torch.int64)}


def network():
    seeder = Seeder("bert")
    module = seeder.weights(Bert())
    data = [texts(seeder, 12), texts(seeder, 19)]
    length = {name: {1: "length"} for name in (*data[0], "last_hidden_state")}
    return Network(
        module, data, ("last_hidden_state", "pooler_output"), opset=13, open_axes=length,
        chains=(
            "Transpose MatMul Add Reshape Transpose MatMul Div Add Softmax MatMul",
            "Unsqueeze Unsqueeze Cast Sub Mul Add",
            "Slice Gather Add",
            "Gemm Tanh"))
