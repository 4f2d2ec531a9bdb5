"""The answer as the ledger keeps it, read for its plan: noisy sums with their laws, choices, keys."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.answers.levels import agree_levels, level_keys, level_laws
from sfumato.curator.answers.noise_law import Floats, NoiseLaw
from sfumato.curator.answers.ordered.quantile_intervals import CountsAround
from sfumato.curator.answers.shaped_answer import match_shape, read_shape, shaped_laws
from sfumato.curator.answers.together.estimates import PoolEstimates, is_pooled, read_strategies
from sfumato.curator.catalog.calendar import MONTHS, SECONDS
from sfumato.curator.catalog.domains import Domain, FreeTexts, Listed, Numbers, Periods
from sfumato.curator.gate import decode_answer
from sfumato.curator.plan.steps import Choices, ChoiceStep, DiscoveredKeys, sortable_key
from sfumato.noise import ModeMechanism, QuantilesMechanism

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.curator.plan.plan import QuestionPlan
    from sfumato.curator.plan.steps import ChoiceMechanism

    Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ChosenPlaces:
    """Places chosen for the quantiles of one value, one row a share, or for its mode; one column a cell."""

    places: NDArray[Any]
    rounds: tuple[ChoiceMechanism, ...]
    """Mechanisms that chose them: several of several levels, or where answers were combined."""
    size: int
    """Number of places that were chosen among."""
    around: tuple[CountsAround, ...] = ()
    """Noisy counts of the rows around them, which intervals are computed from; none of modes and ends."""

    def take(self, cells: NDArray[np.intp]) -> ChosenPlaces:
        """Return the choices in some of the cells, in this order."""
        around = tuple(each.take(cells) for each in self.around)
        return ChosenPlaces(self.places[:, cells], self.rounds, self.size, around)

    def place(self, has: NDArray[np.bool_], at: NDArray[np.intp]) -> ChosenPlaces:
        """Return the choices among more cells, not a number where there is none; `at` says which is where."""
        places = np.full((len(self.places), has.size), np.nan)
        places[:, has] = self.places[:, at]
        cells = np.flatnonzero(has)
        around = tuple(replace(each, cells=cells[each.cells]) for each in self.take(at).around)
        return ChosenPlaces(places, self.rounds, self.size, around)

    @property
    def sharpness(self) -> float:
        """Weight in a mean with other choices: the squares of ε add up."""
        return sum(float(each.epsilon) ** 2 for each in self.rounds)


@dataclass(frozen=True, slots=True, eq=False)
class NoisyAnswer:
    """All that is known of the rows: everything people see is computed from this and from public facts."""

    sums: NDArray[Any]
    """One row a measured sum, one column a cell; whole numbers unless several answers were combined."""
    laws: tuple[NoiseLaw, ...]
    """The noise in each sum."""
    chosen: tuple[ChosenPlaces, ...]
    """Choices for each value that quantiles or modes were asked of, in the order of the plan."""
    keys: tuple[Key, ...] | None
    """Keys that were discovered, as engines name them; none where groups are listed."""
    cells: int
    rounds: int = 1
    """Number of answers that were combined."""
    dependent: bool = False
    """Whether different cells have noise in common, as where levels were made to agree."""

    def numbers(self, at: int) -> Floats:
        """Return a sum in every cell, in doubles."""
        return np.asarray(self.sums[at], dtype=np.float64)

    def take(self, cells: Sequence[int]) -> NoisyAnswer:
        """Return the answer for some of the cells, in this order."""
        at = np.array(cells, dtype=np.intp)
        chosen = tuple(each.take(at) for each in self.chosen)
        keys = None if self.keys is None else tuple(self.keys[i] for i in at)
        laws = tuple(law.at(at) for law in self.laws)
        return replace(self, sums=self.sums[:, at], laws=laws, chosen=chosen, keys=keys, cells=at.size)


# ---- reading -----------------------------------------------------------------------------------------------


def read_answer(plan: QuestionPlan, text: str) -> NoisyAnswer:
    """Return what the ledger kept for this plan, in the form that `match_kept_form` found."""
    if plan.is_empty:
        return _count_nothing(plan)
    if plan.pooled_steps:
        return _read_pooled(plan, decode_answer(text))
    sums: list[list[list[int]]] = []
    chosen: list[tuple[ChoiceStep, NDArray[Any]]] = []
    keys: tuple[Key, ...] | None = None
    # At most one step of a level has sums: they are measured together, for one price.
    for step, answer in zip(plan.steps, decode_answer(text), strict=True):
        if isinstance(step, ChoiceStep):
            # Where no key was discovered there is nothing to choose for.
            rows = answer or [[]] * count_numbers(step)
            chosen.append((step, np.array(rows, dtype=np.int64)))
        elif isinstance(step, DiscoveredKeys):
            keys, sums = tuple(tuple(key) for key in answer[0]), [answer[1:]]
        else:
            sums.append(answer)
    cells = plan.resolved.cells if keys is None else len(keys)
    places = _arrange_choices(plan, chosen)
    if plan.question.levels:
        agreed = agree_levels(plan, sums)
        return NoisyAnswer(agreed, level_laws(plan), places, None, cells, dependent=True)
    found = sums[0] if sums else []
    whole = read_shape(plan, found, cells) if plan.shaped is not None else _whole(found, cells)
    return NoisyAnswer(whole, noise_laws(plan), places, keys, cells)


def _count_nothing(plan: QuestionPlan) -> NoisyAnswer:
    """Return the sums over no rows, which are exact; what is chosen among no rows is missing."""
    keys: tuple[Key, ...] | None = () if plan.resolved.discovers_keys else None
    cells = plan.resolved.cells if keys is None else 0
    sums = np.zeros((len(plan.summands), cells), dtype=np.int64)
    return NoisyAnswer(sums, (NoiseLaw.of(None),) * len(sums), (), keys, cells)


def _read_pooled(plan: QuestionPlan, answers: Sequence[Any]) -> NoisyAnswer:
    """Return the answer to a plan whose levels were measured together."""
    pooled = [answer for answer in answers if is_pooled(answer)]
    estimates = PoolEstimates(plan.pool, read_strategies(answers)[0], plan.spend, pooled)
    sums, laws = estimates.sum_question(plan.resolved), estimates.join_laws(plan.resolved)
    rest = [answer for answer in answers if not is_pooled(answer)]
    steps = [step for step in plan.steps if isinstance(step, ChoiceStep)]
    chosen = read_choices(plan, steps, rest)
    return NoisyAnswer(sums, laws, chosen, None, plan.resolved.cells, dependent=True)


def read_choices(
    plan: QuestionPlan, steps: Sequence[ChoiceStep], answers: Sequence[Any]
) -> tuple[ChosenPlaces, ...]:
    """Return what these steps chose for a question whose groups are listed."""
    pairs = zip(steps, answers, strict=True)
    return _arrange_choices(plan, [(step, np.array(answer, dtype=np.int64)) for step, answer in pairs])


def _arrange_choices(
    plan: QuestionPlan, chosen: Sequence[tuple[ChoiceStep, NDArray[Any]]]
) -> tuple[ChosenPlaces, ...]:
    # Choices come in the same order at every level.
    size = len(plan.resolved.choices)
    return tuple(_side_by_side(chosen[at::size]) for at in range(size))


def _side_by_side(levels: Sequence[tuple[ChoiceStep, NDArray[Any]]]) -> ChosenPlaces:
    """Return one choice at all levels, the cells of one level after those of another."""
    mechanisms = tuple(dict.fromkeys(step.mechanism for step, _ in levels))
    places = np.concatenate([numbers[: count_choices(step)] for step, numbers in levels], axis=1)
    starts = np.cumsum([0, *(numbers.shape[1] for _, numbers in levels)])
    around = tuple(
        _counts_around(step, numbers, first)
        for (step, numbers), first in zip(levels, starts.tolist(), strict=False)
        if step.around is not None
    )
    return ChosenPlaces(places, mechanisms, levels[0][0].size, around)


def _counts_around(step: ChoiceStep, numbers: NDArray[Any], first: int) -> CountsAround:
    """Return the counts that follow the places chosen, for cells from the first on."""
    if step.around is None:
        raise AssertionError(step)
    places, counts = np.split(numbers, [count_choices(step)])
    cells = np.arange(first, first + places.shape[1])
    return CountsAround(step.around, cells, places, counts, step.size)


def count_choices(step: ChoiceStep) -> int:
    """Return how many places a step chooses in each cell."""
    return len(step.mechanism.shares) if isinstance(step.mechanism, QuantilesMechanism) else 1


def count_numbers(step: ChoiceStep) -> int:
    """Return how many numbers a step keeps for each cell: places chosen, and counts around them."""
    chosen = count_choices(step)
    return chosen + (0 if step.around is None else step.around.numbers(chosen, step.size))


def match_kept_form(plan: QuestionPlan, text: str) -> QuestionPlan:
    """Return the plan that a kept answer was made for: the same, or one of another form of the same request.

    Answers from before there were groups for missing keys have one number less for each of them, and those
    from before quantiles had intervals have no counts around them. Those whose sums share a noise say so,
    whichever noise would be planned now, and levels that were measured together say with which parts.
    """
    answers = decode_answer(text)
    if plan.is_empty:
        return plan
    plan = plan.with_strategy(read_strategies(answers).get(0))
    for step, answer in zip(plan.steps, answers, strict=True):
        if isinstance(step, Choices) and step.around is not None and len(answer) == count_choices(step):
            plan = plan.without_counts_around
            break
    bare = plan.without_nulls
    if not plan.resolved.discovers_keys and len(answers[0][-1]) == bare.resolved.cells:
        plan = bare
    return match_shape(plan, answers)


def drop_null_groups(plan: QuestionPlan, noisy: NoisyAnswer) -> NoisyAnswer:
    """Return an answer to this plan without the groups for missing keys."""
    if plan.without_nulls is plan or noisy.keys is not None:
        return noisy
    shape = [key.size for key in plan.resolved.keys]
    places = np.unravel_index(np.arange(noisy.cells), shape)
    bounds = [key.size - key.has_null_group for key in plan.resolved.keys]
    kept = np.logical_and.reduce([at < size for at, size in zip(places, bounds, strict=True)])
    return noisy.take(np.flatnonzero(kept).tolist())


def noise_laws(plan: QuestionPlan) -> tuple[NoiseLaw, ...]:
    """Return the law of the noise in each sum of the answer."""
    if plan.shaped is not None:
        return shaped_laws(plan)
    return tuple(NoiseLaw.of(each.noise, at) for at, each in enumerate(plan.measured_alone))


def _whole(rows: list[list[int]], cells: int) -> NDArray[Any]:
    """Return 64-bit integers if all fit, else Python's own."""
    try:
        return np.array(rows, dtype=np.int64).reshape(len(rows), cells)
    except OverflowError:
        return np.array(rows, dtype=object).reshape(len(rows), cells)


# ---- several answers to one question -----------------------------------------------------------------------


def combine_answers(one: NoisyAnswer, other: NoisyAnswer) -> NoisyAnswer:
    """Return two answers to one question, with independent noise, as one that is nearer to the exact numbers.

    Sums are averaged with weights in inverse proportion to their variances, which are public. Places chosen
    for a quantile are averaged by the squares of ε: a place between two is no further off in rank than the
    worse of them. A group that only one answer shows has its numbers from there.
    """
    # Which groups an answer shows is noisy too, so two answers may show different ones.
    keys, (ours, theirs) = None, (np.ones(1, dtype=np.bool_), np.ones(1, dtype=np.bool_))
    if one.keys is not None and other.keys is not None:
        keys = tuple(sorted({*one.keys, *other.keys}, key=sortable_key))
        (one, ours), (other, theirs) = _spread(one, keys), _spread(other, keys)
    shares = [
        _share(np.where(ours, a.precision, 0.0), np.where(theirs, b.precision, 0.0))
        for a, b in zip(one.laws, other.laws, strict=True)
    ]
    laws = [law.from_round(one.rounds) for law in other.laws]
    sums = [s * one.numbers(at) + (1 - s) * other.numbers(at) for at, s in enumerate(shares)]
    return NoisyAnswer(
        np.array(sums, dtype=np.float64).reshape(len(sums), one.cells),
        tuple(a.plus(b, s) for a, b, s in zip(one.laws, laws, shares, strict=True)),
        tuple(_between(a, b) for a, b in zip(one.chosen, other.chosen, strict=True)),
        keys,
        one.cells,
        one.rounds + other.rounds,
        one.dependent or other.dependent,
    )


def _share(ours: Floats, theirs: Floats) -> Floats:
    """Return the weight of the first in a mean of least variance."""
    return np.asarray(ours / (ours + theirs))


def _between(one: ChosenPlaces, other: ChosenPlaces) -> ChosenPlaces:
    """Return places between those of two answers, nearer to the sharper one; the sharper one's modes."""
    # Nothing lies between two values that have no order.
    if isinstance(one.rounds[0], ModeMechanism):
        sharper, other = (one, other) if one.sharpness > other.sharpness else (other, one)
        places = np.where(np.isnan(sharper.places), other.places, sharper.places)
        return ChosenPlaces(places, sharper.rounds, sharper.size)
    share = one.sharpness / (one.sharpness + other.sharpness)
    places = share * one.places + (1 - share) * other.places
    # A group that only one answer shows has its places from there.
    places = np.where(
        np.isnan(one.places), other.places, np.where(np.isnan(other.places), one.places, places)
    )
    return ChosenPlaces(places, one.rounds + other.rounds, one.size, one.around + other.around)


def _spread(noisy: NoisyAnswer, keys: tuple[Key, ...]) -> tuple[NoisyAnswer, NDArray[np.bool_]]:
    """Return an answer with a cell for each of these keys, and which of them it had."""
    known = {key: at for at, key in enumerate(noisy.keys or ())}
    has = np.array([key in known for key in keys], dtype=np.bool_)
    at = np.array([known[key] for key in keys if key in known], dtype=np.intp)
    sums = np.zeros((len(noisy.sums), len(keys)))
    sums[:, has] = noisy.sums[:, at]
    laws = tuple(NoiseLaw(law.draws, _placed(law.at(at).weights, has)) for law in noisy.laws)
    chosen = tuple(each.place(has, at) for each in noisy.chosen)
    spread = replace(noisy, sums=sums, laws=laws, chosen=chosen, keys=keys, cells=len(keys))
    return spread, has


def _placed(weights: Floats, has: NDArray[np.bool_]) -> Floats:
    """Return weights for all cells: 1 where there was no cell, which is multiplied by 0 afterwards."""
    found = np.ones((len(weights), has.size))
    found[:, has] = weights
    return found


# ---- what integers stand for -------------------------------------------------------------------------------


def key_columns(plan: QuestionPlan, noisy: NoisyAnswer) -> list[list[Any]]:
    """Return what each key of the question is, in every cell."""
    keys = plan.resolved.keys
    if plan.question.levels:
        return level_keys(plan, [_listed_keys(level) for level in plan.levels])
    if noisy.keys is not None:
        return [[_show_key(part.domain, key[i]) for key in noisy.keys] for i, part in enumerate(keys)]
    return _listed_keys(plan)


def _listed_keys(plan: QuestionPlan) -> list[list[Any]]:
    keys = plan.resolved.keys
    places = np.unravel_index(np.arange(plan.resolved.cells), [key.size for key in keys]) if keys else ()
    found = []
    for key, column in zip(keys, places, strict=True):
        values = key.show_values()
        own = column if key.leader is None else np.array(key.follows)[places[key.leader]]
        found.append([values[at] for at in own.tolist()])
    return found


def _show_key(domain: Domain, raw: Any) -> Any:
    """Return what a discovered key stands for, as people see it."""
    return raw if raw is None or isinstance(domain, FreeTexts) else domain.show_value(raw)


def decode_places(domain: Numbers | Periods, places: NDArray[Any]) -> NDArray[Any]:
    """Return the numbers or dates at these places of a domain; the nearest if between two."""
    found: Any = np.rint(places).astype(np.int64) + domain.low
    if isinstance(domain, Numbers):
        return np.asarray(found * (int(domain.step) if domain.whole else float(domain.step)))
    if domain.unit in SECONDS:
        return np.asarray(found * SECONDS[domain.unit]).astype("datetime64[s]")
    if domain.unit in MONTHS:
        return np.asarray(found * MONTHS[domain.unit]).astype("datetime64[M]").astype("datetime64[D]")
    return np.asarray(found * 7 - 3 if domain.unit == "week" else found).astype("datetime64[D]")


def arrow_type(domain: Domain) -> pa.DataType:
    """Return the type of a column. The domain alone decides it, so that types say nothing about rows."""
    import pyarrow as pa

    match domain:
        case Numbers():
            return pa.int64() if domain.whole else pa.float64()
        case Periods(unit=unit):
            return pa.timestamp("s") if unit in SECONDS else pa.date32()
        case Listed(values) if values and isinstance(values[0], bool):
            return pa.bool_()
        case Listed() if domain.numbers:
            return pa.int64() if all(each.denominator == 1 for each in domain.numbers) else pa.float64()
    return pa.string()
