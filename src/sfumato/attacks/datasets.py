"""Real data sets that some attacks are shown on, read from the folder that SFUMATO_DATA names."""

from __future__ import annotations

import csv
import gzip
import os
from pathlib import Path

from sfumato.errors import UsageError

FOLDER = "../shared/data"
"""Where data sets are looked for without SFUMATO_DATA."""


def find_dataset(name: str) -> Path:
    """Return the path of a data set, or raise an error that says where it should be."""
    folder = Path(os.environ.get("SFUMATO_DATA", FOLDER))
    path = folder / name
    if not path.exists():
        raise UsageError(
            "SF-C202",
            "The data set of this attack is not here.",
            file=name,
            looked_in=str(folder),
            try_="set SFUMATO_DATA to the folder of data sets",
        )
    return path


def read_csv(name: str) -> dict[str, list[str]]:
    """Return the columns of a compressed CSV file with a header, as texts without blanks around them."""
    with gzip.open(find_dataset(name), "rt", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file, skipinitialspace=True)
    columns = zip(*rows, strict=True)
    return {
        key.strip(): [cell.strip() for cell in column] for key, column in zip(header, columns, strict=True)
    }


def read_ratings(name: str = "movietweetings100k/ratings.dat.gz") -> list[tuple[int, int, int]]:
    """Return user, film and day of every rating."""
    with gzip.open(find_dataset(name), "rt", encoding="utf-8") as file:
        parts = (line.split("::") for line in file)
        return [(int(user), int(film), int(time) // 86_400) for user, film, _, time in parts]
