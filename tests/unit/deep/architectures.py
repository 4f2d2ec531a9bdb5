"""Small modules of every shape that people train, each with rows to try it on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    Made = tuple[nn.Module, Tensor, Tensor]

ROWS = 6
CLASSES = 3


class Head(nn.Module):
    """A body whose last hidden values a linear layer turns into classes."""

    def __init__(self, body: nn.Module, width: int, read: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.read, self.last = body, read, nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.read(self.body(x)))


class TiedLanguageModel(nn.Module):
    """The table of words is also the last layer."""

    def __init__(self, by_function: bool) -> None:
        super().__init__()
        self.words, self.middle = nn.Embedding(11, 6), nn.Linear(6, 6)
        self.by_function = by_function
        if not by_function:
            self.last = nn.Linear(6, 11, bias=False)
            self.last.weight = self.words.weight

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.middle(self.words(x)))
        scores = functional.linear(hidden, self.words.weight) if self.by_function else self.last(hidden)
        return scores.mT


class Positions(nn.Module):
    """A second table that is looked up without rows."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.last = nn.Embedding(11, 6), nn.Embedding(5, 6), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.last((self.words(x) + self.places(torch.arange(5))).tanh().mean(1))


class OwnParameter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.last = nn.Parameter(torch.randn(6)), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x * self.scale)


class Cells(nn.Module):
    """A recurrent cell that is called once for each step."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell, self.last = cell, nn.Linear(7, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        state = x.new_zeros(len(x), 7)
        for time in range(x.shape[1]):
            state = self.cell(x[:, time], state)
        return self.last(state)


class Twice(nn.Module):
    """One layer that is called twice."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.last = layer, nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.layer(torch.tanh(self.layer(x)))))


class Attention(nn.Module):
    def __init__(self, batch_first: bool = True, across: bool = False) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(6, 2, batch_first=batch_first)
        self.last, self.batch_first, self.across = nn.Linear(6, CLASSES), batch_first, across

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.batch_first else x.transpose(0, 1)
        keys = x.flip(1) if self.across else x
        padded = torch.arange(x.shape[1 if self.batch_first else 0]) >= 4
        rows = x.shape[0 if self.batch_first else 1]
        y, weights = self.attention(x, keys, keys, key_padding_mask=padded.expand(rows, -1))
        y = y if self.batch_first else y.transpose(0, 1)
        return self.last(y.mean(1) + weights.square().sum((1, 2))[:, None])


class LowRank(nn.Module):
    """A frozen layer with an adapter of rank two beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(6, 6).requires_grad_(False)
        self.down, self.up = nn.Linear(6, 2, bias=False), nn.Linear(2, 6, bias=False)
        self.last = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.frozen(x) + self.up(self.down(x)))


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(6, CLASSES), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.used(x)


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 1, bias=False)
        self.norm, self.last = nn.GroupNorm(3, 3), nn.Linear(3, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        y = self.two(functional.relu(self.norm(self.one(x)), inplace=True)) + x
        return self.last(y.mean((2, 3)))


def _last_step(came: tuple[Tensor, ...]) -> Tensor:
    return came[0][:, -1]


def _last_state(came: tuple[Tensor, ...]) -> Tensor:
    state = came[1][0] if isinstance(came[1], tuple) else came[1]
    return state[-1]


def _pooled(layer: nn.Module, width: int) -> nn.Module:
    return nn.Sequential(layer, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, CLASSES))


def _encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(6, 2, 12, batch_first=True, dropout=0.0)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


def _mean(x: Tensor) -> Tensor:
    return x.mean(1)


VECTORS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(6, CLASSES),
    "perceptron": lambda: nn.Sequential(nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Linear(8, CLASSES)),
    "no bias": lambda: nn.Sequential(nn.Linear(6, 8, bias=False), nn.Tanh(), nn.Linear(8, CLASSES)),
    "norms": lambda: nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.RMSNorm(8), nn.Linear(8, CLASSES)),
    "learned slope": lambda: nn.Sequential(nn.Linear(6, 8), nn.PReLU(8), nn.Linear(8, CLASSES)),
    "own parameter": OwnParameter,
    "low rank": LowRank,
    "unused": Unused,
    "linear twice": lambda: Twice(nn.Linear(6, 6)),
    "norm twice": lambda: Twice(nn.LayerNorm(6)),
    "frozen trunk": lambda: nn.Sequential(
        nn.Linear(6, 8).requires_grad_(False), nn.Tanh(), nn.Linear(8, CLASSES)
    ),
    "frozen bias": lambda: _freeze(
        nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, CLASSES)), "0.bias"
    ),
    "weight norm": lambda: nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(6, 8)), nn.Linear(8, CLASSES)
    ),
    "bilinear": lambda: nn.Sequential(
        nn.Linear(6, 6), nn.Unflatten(1, (2, 3)), nn.Linear(3, 2), nn.Flatten(), nn.Linear(4, CLASSES)
    ),
}
IMAGES: dict[str, Callable[[], nn.Module]] = {
    "convolutions": lambda: nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(4, 6, 2, groups=2, dilation=2),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(6, CLASSES),
    ),
    "same padding": lambda: _pooled(nn.Conv2d(3, 4, 4, padding="same", bias=False), 4),
    "reflected": lambda: _pooled(nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), 4),
    "depthwise": lambda: _pooled(nn.Conv2d(3, 6, 3, groups=3), 6),
    "transposed": lambda: _pooled(nn.ConvTranspose2d(3, 4, 3), 4),
    "channel norms": lambda: _pooled(
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True), nn.Tanh()), 4
    ),
    "residual": Residual,
}
SEQUENCES: dict[str, Callable[[], nn.Module]] = {
    "lstm": lambda: Head(nn.LSTM(6, 7, batch_first=True), 7, _last_step),
    "deep lstm": lambda: Head(nn.LSTM(6, 7, num_layers=2, batch_first=True), 7, _last_state),
    "both directions": lambda: Head(nn.LSTM(6, 7, bidirectional=True, batch_first=True), 14, _last_step),
    "gru": lambda: Head(nn.GRU(6, 7, batch_first=True), 7, _last_state),
    "rnn": lambda: Head(nn.RNN(6, 7, batch_first=True, nonlinearity="relu"), 7, _last_step),
    "gru cell": lambda: Cells(nn.GRUCell(6, 7)),
    "attention": Attention,
    "attention, time first": lambda: Attention(batch_first=False),
    "attention across": lambda: Attention(across=True),
    "encoder": lambda: Head(_encoder(), 6, _mean),
    "line": lambda: Head(nn.Conv1d(5, 4, 3, padding=1), 6, _mean),
}
WORDS: dict[str, Callable[[], nn.Module]] = {
    "words": lambda: nn.Sequential(nn.Embedding(11, 6), nn.Flatten(), nn.Linear(30, CLASSES)),
    "padding": lambda: Head(nn.Embedding(11, 6, padding_idx=1), 6, _mean),
    "positions": Positions,
    "bag": lambda: nn.Sequential(nn.EmbeddingBag(11, 6), nn.Linear(6, CLASSES)),
    "tied": lambda: TiedLanguageModel(by_function=False),
    "tied by function": lambda: TiedLanguageModel(by_function=True),
}
NAMES = [*VECTORS, *IMAGES, *SEQUENCES, *WORDS]


def _freeze(module: nn.Module, name: str) -> nn.Module:
    module.get_parameter(name).requires_grad_(False)
    return module


def make(name: str) -> Made:
    """Return a module in double precision with rows and labels; the tied ones label every position."""
    torch.manual_seed(1)
    if name in WORDS:
        module, x = WORDS[name](), torch.randint(0, 11, (ROWS, 5))
    else:
        kinds = [(VECTORS, (6,)), (IMAGES, (3, 8, 8)), (SEQUENCES, (5, 6))]
        kind, shape = next(each for each in kinds if name in each[0])
        module, x = kind[name](), torch.randn(ROWS, *shape, dtype=torch.float64)
    labels = torch.randint(0, CLASSES, (ROWS, 5) if "tied" in name else (ROWS,))
    if "tied" in name:
        labels[:, 0] = -100  # a position that the loss leaves out
    return module.double(), x, labels
