"""The front end of wav2vec 2.0: Baevski, Zhou, Mohamed, Auli, "wav2vec 2.0: A Framework for
Self-Supervised Learning of Speech Representations", 2020."""
from torch import nn

from .network import Network
from .seeding import Seeder


class PositionalConv(nn.Module):
    """A wide grouped convolution over time, its weight normalized along the kernel's axis."""

    def __init__(self, width, kernel, groups):
        super().__init__()
        conv = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=groups)
        self.conv = nn.utils.weight_norm(conv, dim=2)
        self.surplus = 1 - kernel % 2

    def forward(self, x):
        x = self.conv(x)
        return nn.functional.gelu(x[:, :, : -self.surplus] if self.surplus else x)


class FeatureEncoder(nn.Module):
    """Convolutions over the wave; the first one is normalized over time, channel by channel."""

    def __init__(self, width):
        super().__init__()
        self.first = nn.Conv1d(1, width, 10, 5, bias=False)
        self.norm = nn.GroupNorm(width, width)
        self.rest = nn.ModuleList(nn.Conv1d(width, width, kernel, 2, bias=False)
                                  for kernel in (3, 3, 2))

    def forward(self, wave):
        x = nn.functional.gelu(self.norm(self.first(wave[:, None])))
        for conv in self.rest:
            x = nn.functional.gelu(conv(x))
        return x


class Wav2Vec2(nn.Module):
    def __init__(self, features=24, width=32):
        super().__init__()
        self.features = FeatureEncoder(features)
        self.norm = nn.LayerNorm(features)
        self.project = nn.Linear(features, width)
        self.position = PositionalConv(width, 16, 4)
        self.last = nn.LayerNorm(width)

    def forward(self, wave):
        x = self.project(self.norm(self.features(wave).transpose(1, 2)))
        x = x + self.position(x.transpose(1, 2)).transpose(1, 2)
        return self.last(x)


def network():
    seeder = Seeder("wav2vec2")
    module = seeder.weights(Wav2Vec2())
    return Network(
        module, [{"wave": seeder.signal(1000)}, {"wave": seeder.signal(403)}], ("states",),
        opset=13, open_axes={"wave": {1: "samples"}, "states": {1: "frames"}},
        chains=(
            "ReduceL2 Div Mul Conv Slice Div Erf",
            "Conv Reshape InstanceNormalization Reshape",
            "ReduceMean Sub Pow",
            "Transpose MatMul"))
