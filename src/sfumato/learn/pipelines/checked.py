"""Pipelines whose every step is private, or learns nothing from rows.

A scaler that is fitted without noise gives its rows away, whatever the model behind it promises. So steps
are checked before anything is fitted, and the pipeline states what all of them cost together.

Because : docs/proofs/learners.md#pipelines
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from sklearn import pipeline as plain
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import AdditiveChi2Sampler
from sklearn.pipeline import FeatureUnion
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
)

from sfumato.errors import PolicyError, UsageError
from sfumato.learn.base.estimator import PaidEstimator
from sfumato.oracle.guarantee import combine_guarantees

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.oracle.guarantee import Guarantee

_INSTEAD = {
    "StandardScaler": "sf.learn.StandardScaler(epsilon=0.1, bounds=…)",
    "RobustScaler": "sf.learn.RobustScaler(epsilon=0.1, bounds=…)",
    "MinMaxScaler": "bounds=… of the model, which scales by what is declared",
    "SimpleImputer": 'missing=… of the model, or SimpleImputer(strategy="constant", fill_value=0)',
    "OneHotEncoder": 'bounds={"ward": ["A", "B"]} of the model, or OneHotEncoder with categories=[…]',
    "PCA": "sf.learn.PCA(epsilon=0.5, bounds=…)",
}


_STATELESS = frozenset(
    {AdditiveChi2Sampler, Binarizer, FeatureHasher, FunctionTransformer}
    | {HashingVectorizer, Normalizer, PolynomialFeatures}
)
"""Transformers of scikit-learn whose fit looks at no value."""


class Pipeline(plain.Pipeline):
    """A pipeline of scikit-learn that refuses steps which learn from rows without noise.

    Privacy
    -------
    Protects : one row, add/remove.
    Costs    : what all its steps cost together.
    Because  : docs/proofs/learners.md#pipelines
    Assumes  : functions that are given to it compute each row from that row alone; the guarantee names them.
    """

    guarantee_: Guarantee

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:  # noqa: N803
        """Check every step, then fit them one after the other."""
        self._require_private()
        super().fit(X, y, **params)
        self._keep_guarantee()
        return self

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:  # noqa: N803
        """Check every step, then fit them, and return what the last makes of the rows."""
        self._require_private()
        found = super().fit_transform(X, y, **params)
        self._keep_guarantee()
        return found

    def _require_private(self) -> None:
        steps = list(_list_parts(self))
        for step in steps:
            _require_safe(step)
        priced = [step for step in steps if isinstance(step, PaidEstimator)]
        if len({getattr(step, "rho", None) is None for step in priced}) > 1:
            raise UsageError(
                "SF-E157",
                "Price all steps of a pipeline in ε, or all in ρ.",
                try_="epsilon=…, delta=… for every step",
            )

    def _keep_guarantee(self) -> None:
        steps = list(_list_parts(self))
        functions = [type(step).__name__ for step in steps if isinstance(step, FunctionTransformer)]
        parts = [step.guarantee_ for step in steps if hasattr(step, "guarantee_")]
        self.guarantee_ = combine_guarantees(parts, functions)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # noqa: N803
        text: str = super().__repr__(N_CHAR_MAX)
        promised = getattr(self, "guarantee_", None)
        return text if promised is None else f"{text}\n{promised}"


def make_pipeline(*steps: Any) -> Pipeline:
    """Return a pipeline of these steps, in this order, that is checked when it is fitted."""
    found = Pipeline(plain.make_pipeline(*steps).steps)
    found._require_private()
    return found


def _list_parts(step: Any) -> Iterator[Any]:
    """Yield every estimator in a step, fitted ones where it has been fitted."""
    if type(step) in (plain.Pipeline, Pipeline):
        inner = [each for _, each in step.steps]
    elif type(step) is ColumnTransformer:
        inner = [each[1] for each in getattr(step, "transformers_", step.transformers)]
    elif type(step) is FeatureUnion:
        inner = [each for _, each in step.transformer_list]
    else:
        # A word such as "passthrough" is no estimator.
        if step is not None and not isinstance(step, str):
            yield step
        return
    for each in inner:
        yield from _list_parts(each)


def _require_safe(step: Any) -> None:
    """Refuse a step that learns from rows without noise, or that might."""
    changed = any(
        name.startswith(("fit", "transform", "_")) and callable(each) for name, each in vars(step).items()
    )
    if not changed and (_is_ours(step) or _learns_nothing(step)):
        return
    name = type(step).__name__
    raise PolicyError(
        "SF-E157",
        f"{name} learns from rows without noise, so the pipeline would protect no one.",
        try_=suggest_instead(name) or "a step of sf.learn, or one that learns nothing from rows",
    )


def _is_ours(step: Any) -> bool:
    """Return whether a step is an estimator of this package: a subclass may fit in a way of its own."""
    return isinstance(step, PaidEstimator) and type(step).__module__.startswith("sfumato.")


def suggest_instead(name: str) -> str:
    """Return what does privately what a step of scikit-learn does, if anything is known."""
    return _INSTEAD.get(name, "")


def _learns_nothing(step: Any) -> bool:
    """Say whether what a step does to a row is decided by its parameters.

    Classes are listed one by one: an estimator may need no fit and yet keep the rows that it is fitted on.
    """
    if type(step) is OneHotEncoder:
        free = step.min_frequency is None and step.max_categories is None and step.handle_unknown == "ignore"
        return free and not isinstance(step.categories, str)
    if type(step) is OrdinalEncoder:
        free = step.min_frequency is None and step.max_categories is None
        return free and step.handle_unknown == "use_encoded_value" and not isinstance(step.categories, str)
    if type(step) is SimpleImputer:
        return step.strategy == "constant" and step.fill_value is not None and not step.add_indicator
    return type(step) in _STATELESS
