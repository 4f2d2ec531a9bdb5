"""Ready networks in scikit-learn's manner, with nothing to tune: choices follow from public numbers."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from torch import nn

from sfumato.deep.ready.inputs import DeclaredInputs, find_target_bounds, read_labels, read_numbers
from sfumato.deep.ready.networks import build_network, choose_network, make_features
from sfumato.deep.ready.recipes import choose_recipe
from sfumato.deep.ready.saving import read_file, save
from sfumato.deep.rows import number_units
from sfumato.deep.trainer import Trainer
from sfumato.errors import UsageError
from sfumato.oracle.arrays.features import check_classes
from sfumato.oracle.fit_tally import FitTally, unaccounted_copy
from sfumato.oracle.guarantee import describe_fits
from sfumato.privacy.exact import parse_positive, parse_probability, parse_whole

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from torch import Tensor

    from sfumato.deep.losses import Loss
    from sfumato.oracle.guarantee import Guarantee

_AT_ONCE = 4_096
"""Rows that are predicted at a time."""


class DeepEstimator(ABC):
    """Base class of ready networks: their parameters, how they are trained, and what they promise."""

    epsilon: Any
    delta: Any
    bounds: Any
    missing: Any
    model: Any
    rows: Any
    rows_per_unit: Any
    epochs: Any
    batch_size: Any
    learning_rate: Any
    average: Any
    budget: Any
    guarantee_: Guarantee
    module_: nn.Module
    inputs_: DeclaredInputs
    network_: str
    _fits: FitTally
    _kind: ClassVar[str]
    """What scikit-learn calls such an estimator."""

    def __new__(cls, *args: Any, **given: Any) -> Self:
        """Return an estimator with a count of its fits, which all copies share."""
        made = super().__new__(cls)
        made._fits = FitTally()
        return made

    def __sklearn_clone__(self) -> Self:
        """Return a clone that counts its fits with this estimator: both may be fitted on the same rows."""
        copy = type(self)(**self.get_params())
        copy._fits = self._fits
        return copy

    # ---- parameters ----

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all parameters by name."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name."""
        known = self._parameter_names()
        for name, value in params.items():
            if name not in known:
                raise UsageError(
                    "SF-E187", f"{type(self).__name__} has no parameter '{name}'.", try_=", ".join(known)
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        plain = {name: each.default for name, each in inspect.signature(type(self)).parameters.items()}
        given = [f"{name}={value!r}" for name, value in self.get_params().items() if value is not plain[name]]
        text = f"{type(self).__name__}({', '.join(given)})"
        promised = getattr(self, "guarantee_", None)
        return text if promised is None else f"{text}\n{promised}"

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn asks of estimators, without importing it."""
        return SimpleNamespace(
            estimator_type=self._kind,
            target_tags=SimpleNamespace(required=True, multi_output=False, single_output=True),
            input_tags=SimpleNamespace(pairwise=False, sparse=False, allow_nan=False),
            transformer_tags=None,
            requires_fit=True,
            non_deterministic=True,
        )

    # ---- fitting ----

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:  # noqa: N803
        """Train on own rows; `groups` names the unit of each row where units have several."""
        if self.budget is None and self._fits.travelled:
            raise unaccounted_copy()
        inputs = DeclaredInputs.of(X, self.bounds, self.missing)
        targets = self._read_targets(y, len(X))
        rows = inputs.read(X)
        declared = _count_units(groups, len(rows)) if self.rows is None else parse_whole(self.rows, "rows")
        epsilon = float(parse_positive(self.epsilon, "epsilon"))
        network = choose_network(self.model, inputs.is_image, declared, epsilon)
        features = make_features(network, rows)
        module = build_network(network, features, self._outputs)
        trainer = self._make_trainer(module, network, declared, epsilon)
        try:
            trainer.fit((features, targets), groups)
        finally:
            # A run that has begun counts even if it fails.
            counts = self.budget is None and trainer.multiplier_
            fits = self._fits.add((trainer.event_,)) if counts else Counter()
        self.inputs_, self.network_, self.module_, self.trainer_ = inputs, network, module, trainer
        self.n_features_in_ = inputs.shape[0]
        others = describe_fits(fits, parse_probability(self.delta, "delta"))
        self.guarantee_ = replace(trainer.guarantee_, others=others)
        return self

    def _make_trainer(self, module: nn.Module, network: str, declared: int, epsilon: float) -> Trainer:
        recipe = choose_recipe(network, declared, epsilon, isinstance(self._loss, nn.MSELoss))
        settings = {
            name: getattr(recipe, name) if getattr(self, name) is None else getattr(self, name)
            for name in ("batch_size", "learning_rate", "average")
        }
        return Trainer(
            module,
            self._loss,
            self.epsilon,
            self.delta,
            rows=self.rows,
            rows_per_unit=self.rows_per_unit,
            clip=recipe.clip,
            epochs=self.epochs,
            steps=recipe.steps if self.epochs is None else None,
            optimiser=partial(torch.optim.SGD, momentum=recipe.momentum),
            budget=self.budget,
            **settings,
        )

    def save(self, path: str | Path) -> None:
        """Write the fitted network to a file, without pickle. `sf.deep.load` reads it."""
        self._require_fitted()
        save(self, path)

    # ---- for subclasses ----

    @property
    @abstractmethod
    def _loss(self) -> Loss:
        """The loss of each row."""

    @property
    @abstractmethod
    def _outputs(self) -> int:
        """The number of outputs of the network."""

    @abstractmethod
    def _read_targets(self, y: Any, rows: int) -> Tensor:
        """Return targets as the loss takes them, refusing what was not declared."""

    def _require_fitted(self) -> None:
        if not hasattr(self, "module_"):
            raise UsageError("SF-N606", "This estimator has not been fitted.", try_="fit(X, y)")

    def _run(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the outputs of the fitted network."""
        self._require_fitted()
        rows = self.inputs_.read(X)
        with torch.no_grad():
            found = [self.module_(make_features(self.network_, part)) for part in rows.split(_AT_ONCE)]
        return torch.cat(found).double().numpy()


class Classifier(DeepEstimator):
    """Learns which of the declared classes a row or an image has.

    Tables get a network with one hidden layer, or a linear one where rows are few; images a linear layer on
    wavelet scattering features, which are fixed beforehand, or a small convolutional network where there are
    very many. `model` overrides the choice: "linear", "mlp", "cnn", "scattering". Epochs, batch size,
    learning rate and averaging of weights follow from the number of rows and ε, unless they are given.

    Privacy
    -------
    Protects : one row, add/remove, or all rows of one unit up to `rows_per_unit`.
    Costs    : (ε, δ).
    Because  : docs/proofs/dp-sgd.md
    Assumes  : the number of units is public, as `rows` declares it; idealised arithmetic.
    """

    def __init__(
        self,
        epsilon: Any = 1,
        delta: Any = 1e-5,
        *,
        classes: Any = None,
        bounds: Any = None,
        missing: Any = None,
        model: str = "auto",
        rows: Any = None,
        rows_per_unit: Any = 1,
        epochs: Any = None,
        batch_size: Any = None,
        learning_rate: Any = None,
        average: Any = None,
        budget: Any = None,
    ) -> None:
        """Store the parameters as they are given."""
        self.epsilon = epsilon
        self.delta = delta
        self.classes = classes
        self.bounds = bounds
        self.missing = missing
        self.model = model
        self.rows = rows
        self.rows_per_unit = rows_per_unit
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.average = average
        self.budget = budget

    _kind = "classifier"
    classes_: NDArray[Any]

    @property
    def _loss(self) -> Loss:
        return nn.CrossEntropyLoss()

    @property
    def _outputs(self) -> int:
        return len(self.classes_)

    def _read_targets(self, y: Any, rows: int) -> Tensor:
        self.classes_ = np.array(check_classes(self.classes))
        return read_labels(y, rows, self.classes_.tolist())

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the probability of each class for each row, in the order of `classes_`."""
        scores = self._run(X)
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        found: NDArray[np.float64] = odds / odds.sum(axis=1, keepdims=True)
        return found

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the likeliest class of each row."""
        best = self._run(X).argmax(axis=1)
        found: NDArray[Any] = self.classes_[best]
        return found

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """Return the share of rows whose class is predicted. Of private rows it is private itself."""
        best = self._run(X).argmax(axis=1)
        return float((read_labels(y, len(X), self.classes_.tolist()).numpy() == best).mean())


class Regressor(DeepEstimator):
    """Learns a number within declared bounds for each row or image.

    Networks and their training are chosen as for `Classifier`. The loss is the squared error.

    Privacy
    -------
    Protects : one row, add/remove, or all rows of one unit up to `rows_per_unit`.
    Costs    : (ε, δ).
    Because  : docs/proofs/dp-sgd.md
    Assumes  : the number of units is public, as `rows` declares it; idealised arithmetic.
    """

    def __init__(
        self,
        epsilon: Any = 1,
        delta: Any = 1e-5,
        *,
        target_bounds: Any = None,
        bounds: Any = None,
        missing: Any = None,
        model: str = "auto",
        rows: Any = None,
        rows_per_unit: Any = 1,
        epochs: Any = None,
        batch_size: Any = None,
        learning_rate: Any = None,
        average: Any = None,
        budget: Any = None,
    ) -> None:
        """Store the parameters as they are given."""
        self.epsilon = epsilon
        self.delta = delta
        self.target_bounds = target_bounds
        self.bounds = bounds
        self.missing = missing
        self.model = model
        self.rows = rows
        self.rows_per_unit = rows_per_unit
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.average = average
        self.budget = budget

    _kind = "regressor"

    @property
    def _loss(self) -> Loss:
        return nn.MSELoss()

    @property
    def _outputs(self) -> int:
        return 1

    def _read_targets(self, y: Any, rows: int) -> Tensor:
        return read_numbers(y, rows, self.target_bounds)

    def predict(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return a number within the declared bounds for each row."""
        low, high = find_target_bounds(self.target_bounds)
        found: NDArray[np.float64] = low + (np.clip(self._run(X)[:, 0], -1, 1) + 1) / 2 * (high - low)
        return found

    def score(self, X: Any, y: Any) -> float:  # noqa: N803
        """Return R², the share of the targets' variance that is predicted. Of private rows it is private."""
        wanted = np.asarray(y, dtype=np.float64).reshape(-1)
        apart = ((wanted - self.predict(X)) ** 2).sum()
        return float(1 - apart / ((wanted - wanted.mean()) ** 2).sum())


def _count_units(groups: Any, rows: int) -> int:
    """Return the number of units, which counts as public where none is declared."""
    return rows if groups is None else int(number_units(groups).max(initial=-1)) + 1


def load(path: str | Path) -> Classifier | Regressor:
    """Return an estimator as it was saved, to predict with. Nothing in the file is executed."""
    kinds: dict[str, type[Classifier | Regressor]] = {"Classifier": Classifier, "Regressor": Regressor}
    kind, given, learned = read_file(path, tuple(kinds))
    made = kinds[kind](**given)
    for name, value in learned.items():
        setattr(made, name, value)
    made._fits = FitTally(travelled=True)
    return made
