"""Estimators that learn from an oracle alone, in scikit-learn's manner.

    sf.learn.GaussianNB(epsilon=1.0, bounds=(-1, 1), classes=[0, 1]).fit(X, y)            own arrays
    s.fit(sf.learn.GaussianNB(epsilon=0.5), table="visits", features=[…], target="ill")   behind the curator

Bounds and classes are declared, never measured. scikit-learn is needed here and nowhere else.
"""

from __future__ import annotations

from importlib.util import find_spec

from sfumato.errors import missing_extra

if find_spec("sklearn") is None:
    raise missing_extra("learn", "Learning needs scikit-learn, which is not installed.")

from sfumato.learn.auto import AutoClassifier
from sfumato.learn.base.accounts import Account
from sfumato.learn.base.saving import load
from sfumato.learn.cluster import KMeans
from sfumato.learn.convex.losses import Loss, huber
from sfumato.learn.convex.planning import (
    choose_output_regularization,
    choose_regularization,
    excess_loss,
    objective_min_rows,
    rows_needed,
)
from sfumato.learn.decomposition import PCA
from sfumato.learn.evaluation import Evaluation, evaluate
from sfumato.learn.hold_out import train_test_split
from sfumato.learn.itemsets.estimators import AssociationRules, FrequentItemsets
from sfumato.learn.kernel import KernelSVC
from sfumato.learn.linear.classifiers import ConvexERM, LinearSVC, LogisticRegression
from sfumato.learn.linear.regression import LinearRegression
from sfumato.learn.naive_bayes import CategoricalNB, GaussianNB
from sfumato.learn.neighbors import NearestNeighbors
from sfumato.learn.perceptron import Perceptron
from sfumato.learn.regression_scores import Measured, RegressionEvaluation
from sfumato.learn.trees.boosting import GradientBoosting, GradientBoostingRegressor
from sfumato.learn.trees.decision_tree import DecisionTree
from sfumato.oracle.guarantee import Guarantee

ESTIMATORS = (
    "AssociationRules",
    "AutoClassifier",
    "CategoricalNB",
    "ConvexERM",
    "DecisionTree",
    "FrequentItemsets",
    "GaussianNB",
    "GradientBoosting",
    "GradientBoostingRegressor",
    "KMeans",
    "KernelSVC",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "PCA",
    "NearestNeighbors",
    "Perceptron",
)
"""What may be fitted behind the curator."""

__all__ = [
    "ESTIMATORS",
    "PCA",
    "Account",
    "AssociationRules",
    "AutoClassifier",
    "CategoricalNB",
    "ConvexERM",
    "DecisionTree",
    "Evaluation",
    "FrequentItemsets",
    "GaussianNB",
    "GradientBoosting",
    "GradientBoostingRegressor",
    "Guarantee",
    "KMeans",
    "KernelSVC",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "Loss",
    "Measured",
    "NearestNeighbors",
    "Perceptron",
    "RegressionEvaluation",
    "choose_output_regularization",
    "choose_regularization",
    "evaluate",
    "excess_loss",
    "huber",
    "load",
    "objective_min_rows",
    "rows_needed",
    "train_test_split",
]
