"""Weights and inputs that are the same on every machine, and answers that depend on all of them.

All numbers are drawn by NumPy's legacy generator, whose streams never change, and rounded to
multiples of a power of two, so that the last bits of a logarithm do not show.
"""
import zlib

import numpy
import torch
from torch import nn

from .network import ITEMS

WEIGHT_STEP = 2.0**-10
INPUT_STEP = 2.0**-5
GAIN = 1.4  # about what a ReLU takes away


class Seeder:
    """One stream of numbers for one network."""

    def __init__(self, name):
        self._random = numpy.random.RandomState(zlib.crc32(name.encode()))

    def _normal(self, shape, deviation):
        return rounded(self._random.standard_normal(tuple(shape)) * deviation, WEIGHT_STEP)

    def _uniform(self, shape, low, high):
        return rounded(self._random.uniform(low, high, tuple(shape)), WEIGHT_STEP)

    def signal(self, *extents):
        """[ITEMS, extents...]: noise whose strength and mean differ from item to item."""
        item = numpy.arange(ITEMS).reshape(-1, *[1] * len(extents))
        noise = self._random.standard_normal((ITEMS, *extents))
        return rounded(noise * (0.5 + item / 8) + (item - 3.5) / 4, INPUT_STEP)

    def ids(self, count, *extents):
        """[ITEMS, extents...] of int64 below `count`."""
        ids = self._random.randint(0, count, (ITEMS, *extents))
        return torch.from_numpy(ids.astype(numpy.int64))

    def weights(self, module):
        """Sets all parameters of `module`, none of them to nothing, in evaluation mode."""
        with torch.no_grad():
            for owner in module.modules():
                own = dict(owner.named_parameters(recurse=False))
                for name in sorted(own, reverse=True):  # weight_v is there for weight_g
                    parameter = own[name]
                    parameter.copy_(self._values(owner, name, parameter.shape))
        return module.eval()

    def _values(self, owner, name, shape):
        if name == "weight_g":  # of a weight normalization: near the norm that weight_v has
            reduced = [axis for axis in range(len(shape)) if shape[axis] == 1]
            norm = torch.linalg.vector_norm(owner.weight_v, dim=reduced, keepdim=True)
            return rounded((norm * self._uniform(shape, 0.7, 1.3)).numpy(), WEIGHT_STEP)
        if name.endswith(("weight", "weight_v")):
            if len(shape) == 1:
                return self._uniform(shape, 0.7, 1.3)
            embedding = isinstance(owner, nn.Embedding)
            return self._normal(shape, 1 if embedding else GAIN / fan_in(owner, shape) ** 0.5)
        return self._normal(shape, 0.1 if name.endswith("bias") else 0.5)


def rounded(values, step):
    """Multiples of `step`, in float32."""
    return torch.from_numpy((numpy.round(values / step) * step).astype(numpy.float32))


def fan_in(owner, shape):
    """How many products make one output."""
    if isinstance(owner, (nn.ConvTranspose1d, nn.ConvTranspose2d)):
        return shape[0] * shape[2:].numel() / numpy.prod(owner.stride)
    return shape[1:].numel()


def calibrate(module, inputs):
    """Gives batch normalizations the statistics of `inputs`, as training would."""
    norms = [norm for norm in module.modules() if isinstance(norm, nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the plain mean over all passes
        norm.train()
    with torch.no_grad():
        module(*inputs)
        for norm in norms:
            for values in (norm.running_mean, norm.running_var):
                values.copy_(rounded(values.numpy(), WEIGHT_STEP))
            norm.running_var.clamp_(min=WEIGHT_STEP)
    return module.eval()
