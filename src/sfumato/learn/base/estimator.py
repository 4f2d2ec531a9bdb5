"""What all estimators have in common: their parameters, who pays for a fit, and what it promises.

Fitting on own arrays starts here (`PrivateEstimator.fit`), fitting on a table in fit_table.py; both end in
`_learn`, which asks an oracle and is all that a learner has to write.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted, validate_data

from sfumato.errors import UsageError
from sfumato.learn.base.saving import save
from sfumato.oracle.arrays.coded_rows import EncodedRows, encode_columns, list_columns
from sfumato.oracle.arrays.features import check_classes, encode_labels, read_arrays, to_numbers
from sfumato.oracle.arrays.integer_rows import ArrayBounds, check_bounds
from sfumato.oracle.coded_columns import CodedColumn, code_columns
from sfumato.oracle.declared import Labels
from sfumato.oracle.fit_budget import FitBudget
from sfumato.oracle.fit_tally import FitTally, unaccounted_copy
from sfumato.oracle.guarantee import EXACT, Guarantee, describe_fits
from sfumato.oracle.over_arrays import ArrayOracle
from sfumato.viz.progress import report_rounds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from numpy.typing import NDArray

    from sfumato.oracle.arrays.features import ArrayInput
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.over_arrays import Pay
    from sfumato.oracle.protocol import Oracle
    from sfumato.privacy.events import Event


def quiet_arithmetic() -> AbstractContextManager[Any]:
    """Let NumPy neither warn nor raise over overflows and divisions: either would depend on noise or rows."""
    return np.errstate(all="ignore")


class PaidEstimator(BaseEstimator):
    """Base class of everything that is fitted for a price: who is charged, and what copies share."""

    arithmetic: ClassVar[str] = EXACT
    aside: ClassVar[Fraction] = Fraction(0)
    """Share of ε, or of ρ, that is spent as pure ε beside Gaussian noise."""

    first: ClassVar[Fraction] = Fraction(0)
    """Share of the rest that is spent before it is decided whether pure ε pays for what is left."""

    epsilon: Any
    delta: Any
    budget: Any
    verbose: Any = False

    def fit_budget(self) -> FitBudget:
        """Return what the whole fit may cost."""
        named = {name: getattr(self, name, None) for name in ("epsilon", "delta", "rho")}
        return FitBudget.of(
            {name: value for name, value in named.items() if value is not None}, self.aside, self.first
        )

    @contextmanager
    def _paying(self) -> Iterator[tuple[FitBudget, Pay]]:
        """Yield the budget and a function that charges for a round; then keep the guarantee of the fit."""
        budget, about = self.fit_budget(), f"fit {type(self).__name__}"
        promised = Guarantee.of(budget, arithmetic=self.arithmetic)
        report = report_rounds(type(self).__name__, self.verbose)
        if self.budget is not None:
            self.budget.require(budget.events)

            def charge(event: Event) -> None:
                self.budget.charge(event, about)
                report()

            yield budget, charge
        else:
            # Without an account, fits are only counted, which works within one process.
            if getattr(self, "_travelled", False) or self._tally().travelled:
                raise unaccounted_copy()
            # Rounds that were paid for count even if the fit fails after them.
            paid: list[Event] = []

            def note(event: Event) -> None:
                paid.append(event)
                report()

            try:
                yield budget, note
            finally:
                fits = self._tally().add(tuple(paid))
            promised = replace(promised, others=describe_fits(fits, budget.delta))
        self.guarantee_ = promised

    # ---- how it is shown ----

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # noqa: N803
        text: str = super().__repr__(N_CHAR_MAX)
        promised = getattr(self, "guarantee_", None)
        return text if promised is None else f"{text}\n{promised}"

    def _html_repr(self) -> str:
        promised = getattr(self, "guarantee_", None)
        with warnings.catch_warnings():
            # scikit-learn reads docstrings for this, and does not know the section on privacy.
            warnings.filterwarnings("ignore", "Unknown section", UserWarning)
            shown: str = estimator_html_repr(self)
        return shown if promised is None else shown + promised._repr_html_()

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a file, without pickle. `sf.learn.load` reads it."""
        check_is_fitted(self)
        save(self, path)

    def _tally(self) -> FitTally:
        tally: FitTally = self.__dict__.setdefault("_fits", FitTally())
        return tally

    # ---- copies create no budget ----

    def __sklearn_clone__(self) -> Self:
        """Return a clone that counts its fits with this estimator: both may be fitted on the same rows."""
        given = {name: clone(value, safe=False) for name, value in self.get_params(deep=False).items()}
        copy = type(self)(**given)
        copy.__dict__["_fits"] = self._tally()
        if getattr(self, "_travelled", False):
            copy.__dict__["_travelled"] = True
        return copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Everything is copied but the count of fits, which copies share.
        tally = self._tally()
        copy = object.__new__(type(self))
        memo[id(self)] = copy
        copy.__dict__.update(
            {
                name: value if value is tally else deepcopy(value, memo)
                for name, value in self.__dict__.items()
            }
        )
        return copy

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        # Two processes cannot share a count.
        state.pop("_fits", None)
        state["_travelled"] = True
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Missing numbers are no error, since an error would say that there are any.
        tags.input_tags.allow_nan = True
        tags.non_deterministic = True
        return tags


class PrivateEstimator(PaidEstimator, ABC):
    """Base class of estimators that learn from an oracle alone.

    Subclasses store their parameters, ask the oracle in `_learn`, and are plain NumPy after that. They are
    fitted on one's own arrays by `fit`, and behind the curator by `session.fit`.
    """

    listed: ClassVar[bool] = False
    """Whether the features are listed values and not numbers."""

    reads_sets: ClassVar[bool] = False
    """Whether the estimator learns from sets: which items a unit has in all its rows together."""

    bounds: Any = None
    missing: Any = None
    columns_: list[dict[str, Any]]
    """How columns became features, where that is more than numbers as they are."""

    # ---- for subclasses ----

    @abstractmethod
    def _learn(self, oracle: Oracle) -> None:
        """Ask the oracle, and keep what was learnt in attributes that end in an underscore."""

    # ---- fitting on own arrays ----

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Charge, then learn from one's own arrays; one row is one unit."""
        rows, target = self._checked(X, y)
        with self._paying() as (budget, pay), quiet_arithmetic():
            # Sets of items are no array.
            found = self._given(np.asarray(rows) if isinstance(rows, np.ndarray) else rows, target)
            oracle = ArrayOracle(found.declared, budget, found.arrays, pay)
            self._learn(oracle)
        return self

    def _checked(self, X: Any, y: Any) -> tuple[NDArray[np.float64], Any]:  # noqa: N803
        return self._check_rows(X), None

    def _check_rows(self, X: Any, dtype: Any = np.float64) -> NDArray[Any]:  # noqa: N803
        """Return rows, of which there may be none: an error would give the only row away.

        For the same reason what is no number becomes NaN.
        """
        self.__dict__.pop("columns_", None)
        if isinstance(self.bounds, Mapping) or self.missing is not None:
            return self._encode(X, fits=True)
        rows: NDArray[Any] = validate_data(self, X, dtype=None, ensure_all_finite=False, ensure_min_samples=0)
        return (rows if dtype is None else to_numbers(rows)).view(EncodedRows)

    def _encode(self, X: Any, *, fits: bool) -> NDArray[np.float64]:  # noqa: N803
        """Return the features that the columns of own rows become."""
        framed = hasattr(X, "columns")
        rows = validate_data(
            self,
            X,
            reset=fits,
            **{"skip_check_array": True}
            if framed
            else {"dtype": None, "ensure_all_finite": False, "ensure_min_samples": 0},
        )
        columns = self._code_columns() if fits else self.coded_columns
        if fits:
            self._keep_columns(columns)
        return encode_columns(columns, list_columns(rows)).view(EncodedRows)

    def _code_columns(self) -> list[CodedColumn]:
        """Return how own columns become features, by what was declared of them."""
        names, ends = self._names(self.n_features_in_), None
        if not isinstance(self.bounds, Mapping):
            if self.bounds is None:
                raise UsageError(
                    "SF-E101",
                    "Rules for missing values need the bounds of features.",
                    try_='bounds={"age": (0, 110)}, missing={"age": "indicator"}',
                )
            ends = check_bounds(self.bounds, len(names))
        return code_columns(names, self.bounds, self.missing, ends)

    def _keep_columns(self, columns: Sequence[CodedColumn]) -> None:
        if not all(each.is_plain for each in columns):
            self.columns_ = [each.to_dict() for each in columns]

    def _given(self, rows: NDArray[np.float64], target: Any) -> ArrayInput:
        return read_arrays(rows, self._frame(rows.shape[1]))

    def _frame(self, features: int) -> ArrayBounds:
        if isinstance(self.bounds, Mapping) or self.missing is not None:
            return ArrayBounds.of_columns(self._code_columns())
        return ArrayBounds.of(features, self.bounds, getattr(self, "row_norm", None))

    def _names(self, features: int) -> list[str]:
        """Return the names of the columns; those of an array are as scikit-learn calls them."""
        names = getattr(self, "feature_names_in_", None)
        return [f"x{place}" for place in range(features)] if names is None else [str(each) for each in names]

    # ---- fitting behind the curator ----

    def begin_fit(self, features: Sequence[str], declared: Declared) -> None:
        """Note what the catalog says of the columns, before anything is asked. `session.fit` calls this."""
        self.__dict__.pop("columns_", None)
        self.n_features_in_ = len(features)
        self.feature_names_in_ = np.array(features, dtype=object)
        self._keep_columns(declared.columns)
        if isinstance(declared.target, Labels):
            self.classes_ = np.array(declared.target.classes)
            given = getattr(self, "classes", None)
            if given is not None and not set(check_classes(given)) & set(declared.target.classes):
                raise _no_class_matches("the values that the catalog lists for the target")

    # ---- what was learned ----

    def _rows(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return rows to predict for, after the fit."""
        check_is_fitted(self)
        if isinstance(X, EncodedRows):
            return np.asarray(X)
        if hasattr(self, "columns_"):
            return np.asarray(self._encode(X, fits=False))
        rows: NDArray[np.float64] = validate_data(
            self, X, dtype=np.float64, ensure_all_finite=False, reset=False
        )
        return rows

    @property
    def coded_columns(self) -> list[CodedColumn]:
        """How each column becomes features; empty where features are the columns as they are."""
        given = getattr(self, "columns_", [])
        return [CodedColumn(**{**each, "categories": tuple(each["categories"])}) for each in given]


def require_labels_of(labels: NDArray[Any], classes: Sequence[Any]) -> None:
    """Tell the owner of own arrays that no label is one of the classes, before anything is spent.

    A fit would learn from no row. This is said to whoever holds the rows, and nothing is published.
    """
    if len(labels) and not (encode_labels(labels, classes) >= 0).any():
        raise _no_class_matches("the labels that were given")


def _no_class_matches(given: str) -> UsageError:
    return UsageError(
        "SF-E213",
        f"None of the declared classes is among {given}.",
        why="every row would be ignored, and the model would be made of noise alone",
        try_='classes as they are written in the target, such as classes=["no", "yes"]',
    )
