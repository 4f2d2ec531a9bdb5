"""Which groups of an answer are shown. Only released numbers, their noise and public facts decide it.

A group is significant if its released counts are larger than an empty group would have. All declared groups
are judged together, so that at most 5 % of the groups called significant are expected to be empty.

Because : docs/proofs/post-processing.md#which-groups-are-shown
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.answers.noise_law import exceedance
from sfumato.engines.program import Counted, CountedUnits, CountedValues, Present

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.curator.answers.answer import NoisyAnswer
    from sfumato.curator.answers.noise_law import Floats, NoiseLaw
    from sfumato.curator.plan.plan import QuestionPlan

    Mask = NDArray[np.bool_]

FALSE_DISCOVERIES = 0.05
"""Expected share of empty groups among those that are called significant."""
FEW_GROUPS = 100
"""Most combinations of listed values that are all shown."""


@dataclass(frozen=True, slots=True, eq=False)
class GroupTest:
    """A released number that is 0 in an empty group, up to noise of this law."""

    sum: int
    """Its place among the sums of the answer."""
    law: NoiseLaw
    counts: bool
    """Whether it is a count."""
    signed: bool
    """Whether rows can make it smaller than 0."""

    def chances(self, sums: Floats) -> Floats:
        """Return how likely an empty group has a number as extreme as the released one, for each cell."""
        released = sums[..., self.sum, :]
        if self.signed:
            return exceedance(self.law, np.abs(released))
        # Noise is symmetric. What only rows make larger says nothing for the group if it is 0 or less.
        return np.where(released > 0, exceedance(self.law, released) / 2, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class GroupRule:
    """Decides which groups of an answer are shown. It holds no released number, so it serves simulated ones.

    `possible` are the cells that public facts do not rule out, and `fixed` those that are shown whatever was
    released. `selects` says whether HAVING or LIMIT choose among the groups.
    """

    possible: Mask
    fixed: Mask
    tests: tuple[GroupTest, ...]
    dependent: bool
    """Whether cells have noise in common."""
    selects: bool
    missing: Mask

    @classmethod
    def of(cls, plan: QuestionPlan, noisy: NoisyAnswer) -> GroupRule:
        """Return the rule for a plan; of the answer only the law of its noise is used."""
        resolved, question = plan.resolved, plan.question
        selects = question.leaves_out_groups
        if resolved.discovers_keys or not resolved.keys:
            every = np.ones(noisy.cells, dtype=np.bool_)
            return cls(every, every, (), False, selects, ~every)
        possible, missing, whole = resolved.possible_cells, resolved.missing_cells, resolved.total_cells
        few = resolved.lists_values and int((possible & ~missing).sum()) <= FEW_GROUPS
        fixed = possible & ~missing if few else possible & whole
        counted = (Counted, Present, CountedUnits, CountedValues)
        tests = [
            GroupTest(at, law.at(np.flatnonzero(possible)), isinstance(each.term, counted), each.signed)
            for at, (each, law) in enumerate(zip(plan.summands, noisy.laws, strict=True))
        ]
        # What a sum without counts says of a group is used only where nothing was counted. Where no row can
        # be, there is nothing to judge.
        kept = [] if resolved.is_empty else [each for each in tests if each.counts] or tests
        return cls(possible, fixed, tuple(kept), noisy.dependent, selects, missing)

    def find_significant(self, sums: Floats) -> Mask:
        """Return which groups are significant.

        `sums` has the released sums along the axis before the last, and a column a cell; axes before these
        are simulated answers.
        """
        found = np.zeros((*sums.shape[:-2], sums.shape[-1]), dtype=np.bool_)
        chances = self._find_chances(sums)
        found[..., self.possible] = reject_together(chances, FALSE_DISCOVERIES, dependent=self.dependent)
        return found

    def _find_chances(self, sums: Floats) -> Floats:
        """Return for each possible group how likely an empty one has numbers as extreme as its own."""
        chances = [each.chances(sums[..., self.possible]) for each in self.tests]
        # The smallest of several chances counts as often as there are numbers (Bonferroni).
        return np.asarray(np.minimum(1.0, len(chances) * np.minimum.reduce(chances)))

    def weigh_hidden(self, sums: Floats) -> Floats:
        """Return how much speaks for rows in the groups that are not significant, taken together (Fisher)."""
        chances = np.maximum(self._find_chances(sums), np.finfo(np.float64).tiny)
        hidden = ~self.find_significant(sums)[..., self.possible]
        return np.asarray(np.where(hidden, -np.log(chances), 0.0).sum(axis=-1))

    def choose(self, sums: Floats) -> ShownGroups:
        """Return the groups that are shown, or that HAVING, ORDER BY and LIMIT choose from."""
        present = self.possible & ~self.missing
        if not self.tests:
            return ShownGroups(self.possible, self.possible, self.possible, present)
        significant = self.find_significant(sums)
        shown = significant if self.selects else significant | self.fixed
        shown = np.where(significant.any(axis=-1, keepdims=True), shown, present)
        judged_by = "count" if self.tests[0].counts else "sum"
        return ShownGroups(shown, significant, self.possible, present, judged_by)


@dataclass(frozen=True, slots=True, eq=False)
class ShownGroups:
    """The groups of an answer that are shown, as masks over its cells."""

    shown: Mask
    significant: Mask
    possible: Mask
    present: Mask
    """Those of the possible ones in which no key is missing."""
    judged_by: str = "count"
    """What groups are judged by: counts, or sums where nothing was counted."""

    @property
    def warnings(self) -> list[str]:
        """The line that says that no group is significant, if none is."""
        if self.significant.any() or not self.possible.any():
            return []
        return [f"No group has a significant {self.judged_by}, so the answer says little about single groups"]

    def describe_hidden(self, hidden: int) -> str:
        """Return the sentence that says how many groups are hidden; empty if none is."""
        if not hidden:
            return ""
        groups = "1 group" if hidden == 1 else f"{hidden:,} groups"
        verb = "is" if hidden == 1 else "are"
        return f". {groups} without a significant {self.judged_by} {verb} hidden: r.all_groups()"


def reject_together(chances: Floats, level: float, *, dependent: bool = False) -> Mask:
    """Return which hypotheses are rejected by the procedure of Benjamini and Hochberg, along the last axis.

    With `dependent` the level is divided by 1 + 1/2 + … + 1/m, so that it holds under any dependence between
    the chances (Benjamini and Yekutieli).
    """
    many = chances.shape[-1]
    ranks = np.arange(1, many + 1)
    steps = level * ranks / many / ((1 / ranks).sum() if dependent else 1.0)
    passed = np.sort(chances, axis=-1) <= steps
    last = np.where(passed, ranks, 0).max(axis=-1, keepdims=True, initial=0)
    limits = np.concatenate([[-1.0], steps])[last]
    return np.asarray(chances <= limits)
