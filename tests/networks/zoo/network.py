"""What the zoo says of a network."""
import dataclasses
from typing import Dict, List, Tuple

import torch
from torch import nn


@dataclasses.dataclass
class Network:
    """A module in evaluation mode with its inputs and what its export must hold."""
    module: nn.Module
    # Data sets of inputs by name, each a batch of ITEMS; the first one is traced.
    data: List[Dict[str, torch.Tensor]]
    outputs: Tuple[str, ...]
    opset: int = 13
    # Operators that follow each other along the dataflow, "Conv Relu"; each chain must be there.
    chains: Tuple[str, ...] = ()
    # Names of axes that are open besides the batch: {tensor: {axis: name}}.
    open_axes: Dict[str, Dict[int, str]] = dataclasses.field(default_factory=dict)
    # Tensors whose axis 0 is no batch: all items share them.
    shared: Tuple[str, ...] = ()
    # The file has batch 1 for ever, and PyTorch runs item by item.
    one_by_one: bool = False

    def answers(self, inputs):
        """Outputs by name for all items of `inputs`."""
        if not self.one_by_one:
            return self.run(inputs)
        items = [self.run({name: tensor[i : i + 1] for name, tensor in inputs.items()})
                 for i in range(ITEMS)]
        return {name: torch.cat([item[name] for item in items]) for name in self.outputs}

    def run(self, inputs):
        with torch.no_grad():
            outputs = self.module(*inputs.values())
        if isinstance(outputs, torch.Tensor):
            outputs = (outputs,)
        return dict(zip(self.outputs, outputs))


ITEMS = 8
