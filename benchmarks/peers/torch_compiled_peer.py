"""The cases in PyTorch with ``torch.compile``."""

import torch

from peers import torch_peer

torch_peer.compiled = torch.compile
CASES = torch_peer.CASES
