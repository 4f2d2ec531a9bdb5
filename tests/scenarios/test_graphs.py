"""A graph from its registration to an answer: what is promised, refused, and seen by the auditor."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import sfumato as sf
from sfumato import audit
from sfumato.curator.answers.degrees import Degrees, joint_half_width, make_consistent
from sfumato.curator.plan import graphs
from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.errors import BudgetError, PolicyError, UsageError
from sfumato.noise import GaussianNoise, LaplaceNoise

BUDGET = sf.Budget(epsilon=10_000, delta=1e-6)
FALSE_ALARM = 1e-10


def edge_list(seed: int = 7, nodes: int = 400, rows: int = 3000) -> list[tuple[int, int]]:
    """Distinct edges, with hubs among the first nodes."""
    ends = np.floor(nodes * np.random.default_rng(seed).random((rows, 2)) ** 3).astype(int)
    return sorted({(min(a, b), max(a, b)) for a, b in ends.tolist() if a != b})


def as_table(edges: list[tuple[int, int]]) -> pa.Table:
    return pa.table({"from": [a for a, _ in edges], "to": [b for _, b in edges]})


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> sf.Lab:
    """One lab for all tests that register nothing and do not depend on the remaining budget."""
    return make_town(tmp_path_factory.mktemp("graphs"))


def make_town(folder: Path) -> sf.Lab:
    made = sf.create(folder / "town")
    edges = as_table(edge_list())
    made.register("friends", edges, unit=sf.Node("from", "to", max_degree=10), budget=BUDGET)
    made.register("links", edges, unit=sf.Edge("from", "to", max_degree=10), budget=BUDGET)
    return made


def exact_tails(lab: sf.Lab, name: str) -> list[int]:
    """What the noise is added to: made-up data, so a test may look."""
    asked = lab.session().graph(name).degrees().quote(epsilon=1).plan.steps[0]
    return np.cumsum(lab.engine.run(asked.program)[0][::-1])[::-1].tolist()


# ---- answers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spending", [{"epsilon": 5}, {"rho": 1}, {"share": 0.001}, {"epsilon": 1, "delta": 1e-8}]
)
@pytest.mark.parametrize("name", ["friends", "links"])
def test_degrees_and_edges(lab: sf.Lab, name: str, spending: dict[str, Any]) -> None:
    graph = lab.session().graph(name)
    answer = graph.degrees().release(**spending)
    span = answer.interval(1 - FALSE_ALARM).to_pydict()
    exact = exact_tails(lab, name)
    held = zip(span["at_least_low"], exact, span["at_least_high"], strict=True)
    assert all(low <= value <= high for low, value, high in held)
    table = answer.to_arrow().to_pydict()
    assert table["degree"] == list(range(1, 11))
    assert sum(table["nodes"]) == table["at_least"][0]
    assert table["at_least"] == sorted(table["at_least"], reverse=True)
    assert min(table["nodes"]) >= 0
    counted = graph.edges().release(**spending)
    assert counted.low <= counted.value <= counted.high


def test_edges_are_counted_as_they_are_kept(lab: sf.Lab) -> None:
    session = lab.session()
    every = session.graph("links").edges().release(epsilon=100)
    assert every.value == pytest.approx(len(edge_list()), abs=2)
    kept = session.graph("friends").edges().release(epsilon=400)
    assert kept.value == pytest.approx(sum(exact_tails(lab, "friends")) / 2, abs=2)
    assert kept.value < every.value


def test_the_mean_falls_out(lab: sf.Lab) -> None:
    exact = exact_tails(lab, "friends")
    answer = lab.session().graph("friends").degrees().release(epsilon=500)
    assert answer.mean_degree == pytest.approx(sum(exact) / exact[0], rel=0.02)


def test_the_same_again_is_free_and_a_lab_opened_anew_knows_its_graphs(lab: sf.Lab) -> None:
    first = lab.session().graph("friends").degrees().release(epsilon=1)
    again = sf.open(lab.folder).session().graph("friends").degrees().release(epsilon=1)
    assert again.receipt.replayed
    assert again.to_arrow() == first.to_arrow()


def test_what_people_see(lab: sf.Lab) -> None:
    graph = lab.session().graph("friends")
    # No other test spends ε = 2, so this answer is charged.
    quote, answer = graph.degrees().quote(epsilon=2), graph.degrees().release(epsilon=2)
    assert "charged to node of friends" in str(quote)
    assert "with at least so many edges" in str(quote)
    assert any("At most 10 edges per node are used" in each for each in quote.caveats)
    assert "Charged ε = 2 to node of friends" in str(answer)
    assert "<table" in answer._repr_html_()
    assert answer.to_dict()["columns"]["degree"] == list(range(1, 11))
    for at_least in (False, True):
        assert '"degree"' in answer.plot(at_least=at_least).to_json()
    assert "not counted" not in str(graph.edges().quote(epsilon=1))


def test_nodes_share_a_budget_with_tables_of_the_same_people(tmp_path: Path) -> None:
    lab = make_town(tmp_path)
    visits = pa.table({"who": [1, 2, 3], "age": [30, 40, 50]})
    lab.register("visits", visits, unit=sf.Unit("who", 1, of="patients"), columns={"age": sf.between(0, 110)},
                 budget=sf.Budget(epsilon=2))  # fmt: skip
    lab.register("contacts", as_table([(1, 2), (2, 3)]), unit=sf.Node("from", "to", 5, of="patients"))
    lab.session().graph("contacts").edges().release(epsilon=1.5)
    with pytest.raises(BudgetError) as refused:
        lab.session().graph("contacts").degrees().release(epsilon=1)
    assert refused.value.code == "SF-B101"


# ---- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [sf.Node, sf.Edge])
def test_a_graph_without_a_bound_is_refused(unit: Callable[..., Any]) -> None:
    for arguments, code in (
        (("from", "to"), "SF-U104"),
        (("from", "from", 5), "SF-C114"),
        (("from", "", 5), "SF-C114"),
        (("from", 5), "SF-C114"),
        (("from", "to", 0), "SF-N101"),
        (("from", "to", 2.5), "SF-N104"),
        (("from", "to", 2**20 + 1), "SF-N101"),
    ):
        with pytest.raises(UsageError) as refused:
            unit(*arguments)
        assert refused.value.code == code


def test_registrations_that_are_refused(lab: sf.Lab) -> None:
    edges, node = as_table([(1, 2)]), sf.Node("from", "to", max_degree=5)
    for problem, code in (
        ({"unit": node}, "SF-U104"),
        ({"unit": node, "columns": {"since": sf.between(0, 1)}, "budget": BUDGET}, "SF-C213"),
        ({"unit": sf.Node("from", "to", 5, of="a:b"), "budget": BUDGET}, "SF-C113"),
        ({"unit": sf.Node("from", "to", 5, of="edge of links")}, "SF-C113"),
        ({"unit": sf.Unit("from", 5, of="edge of links")}, "SF-C113"),
        ({"unit": sf.Node("from", "nobody", 5), "budget": BUDGET}, "SF-C205"),
    ):
        with pytest.raises(UsageError) as refused:
            lab.register("more", edges, **problem)
        assert refused.value.code == code
    assert [table.name for table in lab.tables()] == ["friends", "links"]


def test_questions_about_rows_of_a_graph_are_refused(lab: sf.Lab) -> None:
    session = lab.session()
    for question in (
        lambda: session.sql("SELECT COUNT(*) FROM friends"),
        lambda: session.sql("SELECT degree, COUNT(*) FROM links GROUP BY degree"),
        lambda: session.sql("SELECT COUNT(*) FROM friends JOIN links USING (degree)"),
        lambda: session.table("friends").count(),
        lambda: session.table("links").top("degree", k=1),
        lambda: session.oracle("friends", epsilon=1).mean("degree"),
    ):
        with pytest.raises(PolicyError) as refused:
            question()
        assert refused.value.code == "SF-C213"
        assert 's.graph("' in str(refused.value)


def test_a_table_of_rows_is_not_a_graph(tmp_path: Path) -> None:
    lab = make_town(tmp_path)
    lab.register("rows", as_table([(1, 2)]), unit=sf.ROW, columns={"to": sf.between(0, 9)}, budget=BUDGET)
    with pytest.raises(PolicyError) as refused:
        lab.session().graph("rows")
    assert refused.value.code == "SF-C213"


def test_edges_and_nodes_pay_from_different_accounts(tmp_path: Path) -> None:
    lab = make_town(tmp_path)
    assert set(lab.populations()) == {"node of friends", "edge of links"}
    lab.session().graph("links").edges().release(epsilon=10)
    spent = {view.name: view.left_share for view in lab.budget.accounts}
    assert spent["population:node of friends"] == 1
    assert spent["population:edge of links"] < 1


# ---- the auditor -------------------------------------------------------------------------------------------


def neighbours(folder: Path, unit: Any, removed: Callable[[tuple[int, int]], bool]) -> sf.Lab:
    """The same graph with and without a node or an edge, in one lab: the order of edges is the lab's."""
    made = sf.create(folder)
    edges = edge_list()
    made.register("full", as_table(edges), unit=unit, budget=BUDGET)
    made.register("rest", as_table([edge for edge in edges if not removed(edge)]), unit=unit, budget=BUDGET)
    return made


@pytest.fixture(scope="module", params=[0, 1, 5, 200], ids="hub={}".format)
def without_hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> sf.Lab:
    """The graph with and without one node."""
    unit, folder = sf.Node("from", "to", max_degree=8), tmp_path_factory.mktemp("hub")
    return neighbours(folder / "lab", unit, lambda edge: request.param in edge)


def replayed(lab: sf.Lab, question: str, **spending: Any) -> Any:
    def measure(name: str) -> Any:
        return getattr(lab.session().graph(name), question)()

    def asked(name: str) -> Any:
        answer = measure(name).release(**spending)
        return answer.at_least.tolist() if isinstance(answer, Degrees) else answer.value

    return audit.replay(asked, [("full", "rest")], claim=measure("full").quote(**spending).plan.event)


@pytest.mark.parametrize("spending", [{"epsilon": 1}, {"rho": 0.5}])
@pytest.mark.parametrize("question", ["degrees", "edges"])
def test_the_door_keeps_its_price_for_nodes(
    without_hub: sf.Lab, question: str, spending: dict[str, Any]
) -> None:
    assert replayed(without_hub, question, **spending).finding is None


@pytest.mark.parametrize("question", ["degrees", "edges"])
def test_the_door_keeps_its_price_for_edges(tmp_path: Path, question: str) -> None:
    gone = edge_list()[0]
    made = neighbours(tmp_path / "lab", sf.Edge("from", "to", max_degree=30), lambda edge: edge == gone)
    found = replayed(made, question, epsilon=1)
    assert found.finding is None
    if question == "edges":
        assert found.reached == 1


def test_a_door_that_prices_a_node_as_an_edge_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graphs, "degree_sensitivity", lambda protects: SumSensitivity(2, 4))
    made = neighbours(tmp_path / "lab", sf.Node("from", "to", max_degree=8), lambda edge: 0 in edge)
    assert "priced for 2" in str(replayed(made, "degrees", epsilon=1).finding)


# ---- after the noise ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [LaplaceNoise(30), GaussianNoise(40)])
def test_intervals_hold_for_all_degrees_together(noise: LaplaceNoise | GaussianNoise) -> None:
    """A coverage of 95 % is accused with a chance of 1e-6 at most."""
    exact = np.array([900, 500, 260, 100, 40, 39, 38, 5, 5, 0, 0, 0])
    rounds, half = 600, joint_half_width(noise, len(exact), 0.95)
    shown = [make_consistent(noise.release(exact).tolist()) for _ in range(rounds)]
    missed = sum(int(np.abs(each - exact).max() > half) for each in shown)
    assert missed <= stats.binom.isf(FALSE_ALARM, rounds, 0.05)


def test_the_largest_error_never_grows_and_the_usual_one_shrinks() -> None:
    exact = np.array([2000, 700, 300, *[60] * 30, *[0] * 60])
    raw, after = [], []
    for _ in range(200):
        noisy = LaplaceNoise(200).release(exact)
        errors = np.abs(noisy - exact), np.abs(make_consistent(noisy.tolist()) - exact)
        assert errors[1].max() <= errors[0].max()
        raw.append(errors[0].mean())
        after.append(errors[1].mean())
    assert np.mean(after) < np.mean(raw) / 2


def test_the_largest_noise_there_is_still_gives_an_answer(lab: sf.Lab) -> None:
    answer = lab.session().graph("friends").degrees().release(epsilon=2e-11)
    span = answer.interval().to_pydict()
    assert min(span["nodes_low"]) == 0
    assert max(span["nodes_high"]) > 2**41


def test_a_confidence_lies_between_nought_and_one(lab: sf.Lab) -> None:
    answer = lab.session().graph("friends").degrees().release(epsilon=1)
    for confidence in (0, 1, 1.5):
        with pytest.raises(UsageError) as refused:
            answer.interval(confidence)
        assert refused.value.code == "SF-N101"


# ---- a real graph ------------------------------------------------------------------------------------------


def test_who_rated_which_film(tmp_path: Path, data_file: Callable[[str], Path]) -> None:
    """100,000 ratings are the edges between 16,554 users and 10,506 films."""
    with gzip.open(data_file("movietweetings100k/ratings.dat.gz"), "rt", encoding="utf-8") as lines:
        rows = [line.split("::")[:2] for line in lines]
    edges = pa.table(
        {"from": [f"user {user}" for user, _ in rows], "to": [f"film {film}" for _, film in rows]}
    )
    made = sf.create(tmp_path / "films")
    made.register("ratings", edges, unit=sf.Node("from", "to", max_degree=50), budget=BUDGET)
    made.register("pairs", edges, unit=sf.Edge("from", "to", max_degree=50), budget=BUDGET)
    single = made.session().graph("pairs")
    assert single.edges().release(epsilon=20).value == pytest.approx(100_000, abs=3)
    assert single.degrees().release(epsilon=20).at_least[0] == pytest.approx(27_060, abs=10)
    answer = made.session().graph("ratings").degrees().release(epsilon=1)
    span = answer.interval(1 - FALSE_ALARM).to_pydict()
    held = zip(span["at_least_low"], exact_tails(made, "ratings"), span["at_least_high"], strict=True)
    assert all(low <= value <= high for low, value, high in held)
