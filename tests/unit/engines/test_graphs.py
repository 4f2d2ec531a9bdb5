"""From a list of edges to degrees: which rows are an edge, and which edges are kept."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sfumato.engines.duckdb import DuckDBEngine
from sfumato.engines.program import CellKey, CellSums, Counted
from sfumato.engines.rows import ALL, Scan
from sfumato.engines.snapshot import DEGREE, GraphPreparation
from sfumato.engines.values import Column
from sfumato.errors import UsageError

KEY = b"a key of thirty-two bytes or less"


def degrees(folder: Path, source: Any, most: int | None = None, key: bytes = KEY) -> dict[int, int]:
    """How many nodes the snapshot has of each degree."""
    engine = DuckDBEngine(folder / "snapshots")
    engine.prepare(source, GraphPreparation("a", "b", most, key), "g-1")
    counts = engine.run(CellSums(Scan("g-1"), ALL, (CellKey(Column(0, DEGREE), 5000),), (Counted(),)))[0]
    return {degree: int(counts[degree]) for degree in np.flatnonzero(counts)}


def pairs(*edges: tuple[Any, Any]) -> pa.Table:
    return pa.table({"a": [one for one, _ in edges], "b": [other for _, other in edges]})


def heavy_tailed(seed: int, nodes: int = 200, rows: int = 2000) -> list[tuple[int, int]]:
    ends = np.floor(nodes * np.random.default_rng(seed).random((rows, 2)) ** 3).astype(int)
    return [(a, b) for a, b in ends.tolist() if a != b]


def true_degrees(edges: list[tuple[int, int]]) -> Counter[int]:
    return Counter(node for edge in {frozenset(edge) for edge in edges} for node in edge)


@pytest.mark.parametrize("most", [None, 9])
@pytest.mark.parametrize(
    "more",
    [
        pytest.param([("x", "y")], id="a copy"),
        pytest.param([("y", "x")], id="the other direction"),
        pytest.param([("x", "x"), ("w", "w")], id="loops"),
        pytest.param([("x", None), (None, "y"), (None, None)], id="a missing end"),
        pytest.param([("", "y"), ("x", "")], id="an empty end"),
    ],
)
def test_rows_that_add_no_edge(tmp_path: Path, more: list[tuple[Any, Any]], most: int | None) -> None:
    path = [("x", "y"), ("y", "z")]
    assert degrees(tmp_path, pairs(*path, *more), most) == {1: 2, 2: 1}


def test_an_identifier_is_one_node_in_both_columns_whatever_their_types(tmp_path: Path) -> None:
    texts = pa.table({"a": ["1", "2"], "b": ["2", "3"]})
    mixed = pa.table({"a": pa.array([1, 2]), "b": ["2", "3"]})
    doubles = pd.DataFrame({"a": [1.0, 2.0, np.nan], "b": [2, 3, 4]})
    frame = pl.DataFrame({"a": [1, 2], "b": [2, 3]})
    for place, source in enumerate((texts, mixed, doubles, frame)):
        assert degrees(tmp_path / str(place), source) == {1: 2, 2: 1}


def test_files(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("b,since,a\ny,2020,x\nz,2021,y\n,2022,y\n")
    assert degrees(tmp_path, tmp_path / "edges.csv") == {1: 2, 2: 1}


def test_no_edges_at_all(tmp_path: Path) -> None:
    empty = pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.int64())})
    assert degrees(tmp_path, empty) == degrees(tmp_path, empty, 3) == {}


def test_without_a_bound_degrees_are_those_of_the_edge_set(tmp_path: Path) -> None:
    edges = heavy_tailed(1)
    assert degrees(tmp_path, pairs(*edges)) == dict(Counter(true_degrees(edges).values()))


def test_a_bound_that_no_node_exceeds_changes_nothing(tmp_path: Path) -> None:
    edges = heavy_tailed(2)
    assert degrees(tmp_path, pairs(*edges), 200) == degrees(tmp_path, pairs(*edges))


@pytest.mark.parametrize("most", [1, 4, 20])
def test_with_a_bound_none_is_above_it_and_hubs_reach_it(tmp_path: Path, most: int) -> None:
    edges = heavy_tailed(3)
    found = degrees(tmp_path, pairs(*edges), most)
    assert max(true_degrees(edges).values()) > 20
    assert max(found) == most
    assert sum(found.values()) <= len(true_degrees(edges))


def test_what_is_kept_depends_on_the_set_of_edges_and_the_key_alone(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    edges = heavy_tailed(4)
    turned = [edge if rng.random() < 0.5 else edge[::-1] for edge in (*edges, *edges[:300])]
    mixed = [turned[place] for place in rng.permutation(len(turned))]
    assert degrees(tmp_path, pairs(*mixed), 5) == degrees(tmp_path, pairs(*edges), 5)
    other = [degrees(tmp_path, pairs(*edges), 5, bytes([number]) * 32) for number in range(5)]
    assert len({str(each) for each in other}) > 1


def test_names_do_not_decide_who_keeps_edges(tmp_path: Path) -> None:
    """Of a full bipartite graph with a bound on both sides, early and late names are kept alike."""
    edges = [(f"l{i:03}", f"r{j:03}") for i in range(40) for j in range(40)]
    assert degrees(tmp_path, pairs(*edges), 10)[10] >= 60


def test_removing_a_hub_moves_no_more_than_is_priced(tmp_path: Path) -> None:
    edges = heavy_tailed(5)
    for most in (1, 3, 10):
        full = degrees(tmp_path, pairs(*edges), most)
        for hub, _ in true_degrees(edges).most_common(10):
            rest = degrees(tmp_path, pairs(*(edge for edge in edges if hub not in edge)), most)
            moved = [
                sum(count for degree, count in full.items() if degree >= i)
                - sum(count for degree, count in rest.items() if degree >= i)
                for i in range(1, most + 1)
            ]
            assert sum(map(abs, moved)) <= 2 * most


# ---- refusals ----------------------------------------------------------------------------------------------


def refused(folder: Path, source: Any) -> str:
    with pytest.raises(UsageError) as problem:
        degrees(folder, source)
    assert not list((folder / "snapshots").glob("*.duckdb"))
    return problem.value.code


def test_a_missing_column(tmp_path: Path) -> None:
    assert refused(tmp_path, pa.table({"a": [1], "c": [2]})) == "SF-C205"


@pytest.mark.parametrize("end", ["a", "b"])
def test_identifiers_that_were_rounded(tmp_path: Path, end: str) -> None:
    source = {"a": ["1", "2"], "b": ["2", "3"], end: [2.0**53, 1.0]}
    assert refused(tmp_path, pa.table(source)) == "SF-C205"


def test_a_damaged_file_says_nothing_of_its_rows(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("a,b\nx,y\nsecret,z,too many\n")
    with pytest.raises(UsageError) as problem:
        degrees(tmp_path, tmp_path / "edges.csv")
    assert problem.value.code == "SF-C204"
    assert "secret" not in str(problem.value)
