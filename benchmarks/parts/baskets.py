"""Generated baskets: some items are popular, some are bought together, some lie in long baskets."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

CHOSEN_WITH = range(8)
"""Seeds of the sets that chose a constant; reported are others."""
REPORTED = {"generated 1": 101, "generated 2": 102}


def generate_baskets(seed: int, transactions: int = 8_000, items: int = 300) -> list[list[str]]:
    """Lists of items, the same for the same seed; lengths are geometric or have a longer tail."""
    rng = np.random.default_rng(seed)
    popular = 1 / np.arange(1, items + 1) ** rng.uniform(0.6, 1.2)
    rng.shuffle(popular)
    lengths: Any = (
        1 + rng.geometric(1 / rng.uniform(2, 5), size=transactions)
        if seed % 2 == 0
        else 1 + rng.poisson(np.exp(rng.normal(1, 0.6, size=transactions)))
    )
    lean = rng.normal(0, 0.25, size=items)
    together = [rng.choice(items, 12, replace=False) for _ in range(20)]
    found = []
    for length in np.minimum(lengths, 40).tolist():
        chances = popular * length**lean
        held = set(rng.choice(items, size=length, p=chances / chances.sum()).tolist())
        if rng.random() < 0.3:
            held |= set(rng.choice(together[rng.integers(20)], 3).tolist())
        found.append([f"i{item}" for item in sorted(held)])
    return found


def losses(baskets: list[list[str]], cap: int, power: float) -> tuple[float, float]:
    """The share lost on average under a cap, and how many times its odds 95 % of itemsets are below."""
    sizes = np.array([len(each) for each in baskets])
    weights = np.minimum(1, cap / sizes) ** power
    lost = 1 - float((weights * sizes).sum() / sizes.sum())
    bits: dict[str, Any] = {}
    for place, each in enumerate(baskets):
        for item in each:
            bits.setdefault(item, np.zeros(len(baskets), dtype=bool))[place] = True
    leading = sorted(bits, key=lambda item: -int(bits[item].sum()))[:40]
    every = [bits[item] for item in leading]
    pairs = sorted(
        (bits[one] & bits[other] for one, other in combinations(leading, 2)),
        key=lambda each: -int(each.sum()),
    )
    shares = np.array([float((1 - weights[each]).mean()) for each in (*every, *pairs[:15])])
    return lost, float(np.quantile(shares / (1 - shares), 0.95) / max(lost / (1 - lost), 1e-9))
