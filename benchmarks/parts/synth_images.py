"""Images and tables that synthetic rows are measured on, and pictures of samples."""

from __future__ import annotations

import csv
import gzip
import struct
import zlib
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import ensemble, linear_model, metrics, preprocessing
from sklearn.model_selection import train_test_split

from parts import learning
from parts.learning import FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Frame = dict[str, NDArray[Any]]
    Split = tuple[Frame, NDArray[Any], Frame, NDArray[Any]]

IMAGE_SETS = ("mnist", "fashion-mnist", "mnist-14")


@cache
def read_images(name: str, part: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return images and labels of a file in the format of MNIST; "-14" halves both sides of images."""
    if name.endswith("-14"):
        images, labels = read_images(name.removesuffix("-14"), part)
        halved = images.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
        return np.rint(halved).astype(np.uint8), labels
    with gzip.open(FOLDER / name / f"{part}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(FOLDER / name / f"{part}-labels-idx1-ubyte.gz") as file:
        return images, np.frombuffer(file.read(), np.uint8, offset=8)


def draw_grid(path: Path, drawn: Sequence[tuple[Any, Any]], classes: Iterable[int], each: int = 10) -> None:
    """Write samples as a grey picture, one row of images for each class."""
    ((rows, labels),) = drawn
    lines = [np.hstack(list(rows[labels == label][:each])) for label in classes]
    widest = max(line.shape[1] for line in lines)
    grey = np.vstack([np.pad(line, ((0, 0), (0, widest - line.shape[1]))) for line in lines]).astype(np.uint8)
    content = b"".join(b"\0" + line.tobytes() for line in grey)
    head = struct.pack(">IIBBBBB", grey.shape[1], grey.shape[0], 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(content, 9)), (b"IEND", b""))
    parts = (
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


# ---- tables ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MixedTable:
    """A table of numbers within [−1, 1] by public bounds, and of listed values."""

    read: Callable[[int], Split]
    classes: tuple[int, ...]
    multiclass: bool = False
    lists: dict[str, list[str]] = field(default_factory=dict)

    @property
    def bounds(self) -> dict[str, Any]:
        """What is declared of every column. Lists are those of the data sets' code books."""
        frame = self.split(0)[0]
        return {name: self.lists.get(name, (-1, 1)) for name in frame}

    def split(self, seed: int) -> Split:
        """Return rows to learn from and rows to test on."""
        return self.read(seed)

    def score(self, frame: Frame, labels: Any, test: Frame, truth: Any) -> dict[str, float]:
        """Return scores on real rows: areas under the curve, or F1 where there are several classes."""
        rows, real = self._encode(frame), self._encode(test)
        models = {
            "LR": linear_model.LogisticRegression(max_iter=200),
            "trees": ensemble.HistGradientBoostingClassifier(max_iter=60, random_state=0),
        }
        found = {}
        for name, model in models.items():
            if len(set(labels.tolist())) < 2:
                found[name] = 0.0 if self.multiclass else 0.5
                continue
            model.fit(rows, labels)
            if self.multiclass:
                said = model.predict(real)
                found[name] = metrics.f1_score(truth, said, average="weighted")
                found[f"{name} macro"] = metrics.f1_score(truth, said, average="macro")
            else:
                found[name] = metrics.roc_auc_score(truth, model.predict_proba(real)[:, 1])
        return found

    def _encode(self, frame: Mapping[str, Any]) -> Any:
        numbers = [frame[name][:, None] for name in frame if name not in self.lists]
        coded = [
            preprocessing.label_binarize(frame[name], classes=self.lists[name])
            for name in frame
            if name in self.lists
        ]
        return np.hstack([*numbers, *coded])


def _columns(table: learning.Table, lines: list[list[str]]) -> tuple[Frame, list[str]]:
    columns = list(zip(*lines, strict=True))
    frame: Frame = {f"n{each.at}": each.read(columns[each.at]) for each in table.numbers}
    frame |= {f"c{at}": np.array(columns[at], dtype=object) for at in table.lists}
    return frame, list(columns[-1])


@cache
def _read_adult() -> tuple[Split, dict[str, list[str]]]:
    parts = []
    for name in learning.ADULT:
        table = learning.Table(
            (name,), learning._ADULT.numbers, learning._ADULT.lists, learning._ADULT.is_one
        )
        frame, labels = _columns(table, table.lines())
        parts += [frame, np.array([int(learning._ADULT.is_one(label)) for label in labels])]
    train, test = parts[0], parts[2]
    lists = {name: sorted({*train[name], *test[name]}) for name in train if name.startswith("c")}
    return tuple(parts), lists  # type: ignore[return-value]


_PROBES = {"ipsweep.", "nmap.", "portsweep.", "satan."}
_ROOT = {"buffer_overflow.", "loadmodule.", "perl.", "rootkit."}


def _kind(label: str) -> int:
    """Return the kind of a connection: normal, denial of service, probe, to root, or from outside."""
    if label == "normal.":
        return 0
    return 1 if label in learning.DENIALS else 2 if label in _PROBES else 3 if label in _ROOT else 4


@cache
def _read_connections() -> tuple[Frame, NDArray[np.int64], dict[str, list[str]]]:
    table = learning.Table(learning.KDD, learning._KDD.numbers, learning._KDD.lists, learning._KDD.is_one)
    frame, labels = _columns(table, table.lines())
    lists = {name: sorted(set(frame[name])) for name in frame if name.startswith("c")}
    return frame, np.array(list(map(_kind, labels))), lists


_CERVICAL = {
    "Age": 90,
    "Number of sexual partners": 30,
    "First sexual intercourse": 35,
    "Num of pregnancies": 15,
}
_CERVICAL |= {"Smokes (years)": 40, "Smokes (packs/year)": 40, "Hormonal Contraceptives (years)": 30}
_CERVICAL |= {"IUD (years)": 20, "STDs (number)": 5, "STDs: Number of diagnosis": 5}
_MOSTLY_MISSING = ("STDs: Time since first diagnosis", "STDs: Time since last diagnosis")


@cache
def _read_cervical() -> tuple[Frame, NDArray[np.int64]]:
    """Return numbers and yes or no; what is missing counts as 0, by a rule that is fixed beforehand."""
    with gzip.open(FOLDER / "cervical" / "risk_factors_cervical_cancer.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name not in (*_MOSTLY_MISSING, "Biopsy")]
    frame = {}
    for name in names:
        numbers = np.array([0.0 if row[name] == "?" else float(row[name]) for row in rows])
        frame[name] = np.clip(2 * numbers / _CERVICAL.get(name, 1) - 1, -1, 1)
    return frame, np.array([int(row["Biopsy"]) for row in rows])


def _split(frame: Frame, labels: NDArray[Any], seed: int) -> Split:
    train, test = train_test_split(np.arange(len(labels)), test_size=0.2, random_state=seed, stratify=labels)
    taken = [({name: column[at] for name, column in frame.items()}, labels[at]) for at in (train, test)]
    return (*taken[0], *taken[1])


class _Tables(dict[str, MixedTable]):
    """Tables by name, each read when it is first asked for."""

    def __missing__(self, name: str) -> MixedTable:
        if name == "adult":
            split, lists = _read_adult()
            made = MixedTable(lambda seed: split, (0, 1), lists=lists)
        elif name == "kddcup99":
            frame, labels, lists = _read_connections()
            made = MixedTable(lambda seed: _split(frame, labels, seed), (0, 1, 2, 3, 4), True, lists=lists)
        else:
            frame, labels = _read_cervical()
            made = MixedTable(lambda seed: _split(frame, labels, seed), (0, 1))
        self[name] = made
        return made


TABLES = _Tables()
