"""What an analyst holds: questions, their quotes and releases, and what is left."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast

from sfumato.curator.answers.declared_values import find_declared_values
from sfumato.curator.catalog.description import TableListing, describe_table
from sfumato.curator.lower.relations import list_names
from sfumato.curator.payer import Payer
from sfumato.errors import PolicyError, UsageError
from sfumato.lab.budget_view import BudgetView, view_budget
from sfumato.lab.models import ModelDesk
from sfumato.lab.publications.published import list_publications
from sfumato.lab.query import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sfumato.curator.catalog.description import PublicFacts
    from sfumato.curator.hostile.reading import SlotReader, WatchedReader
    from sfumato.curator.payer import LabAccess, Spending
    from sfumato.curator.question.measurement import Question
    from sfumato.lab.graph import Graph
    from sfumato.lab.partition import Partition
    from sfumato.lab.publications.published import Published
    from sfumato.lab.several.together import TogetherQueries
    from sfumato.lab.sq_oracle import QueryOracle
    from sfumato.lab.stream import TableStream
    from sfumato.lab.synthetic.published_table import PublishedTable
    from sfumato.lab.work.planning import WorkPlan
    from sfumato.lab.work.requests import RequestDesk, SentRequest
    from sfumato.privacy.exact import Number
    from sfumato.queries.frames import Frame


class Session(ModelDesk):
    """An analyst's way into a lab. `lab.session("ada")` spends ada's quota and the budget, both."""

    def __init__(
        self,
        lab: LabAccess,
        analyst: str | None,
        slots: SlotReader | WatchedReader | None = None,
        *,
        desk: RequestDesk | None = None,
    ) -> None:
        self._lab = lab
        self._analyst = analyst
        self._desk = desk
        self._payer = Payer(lab, analyst, slots)

    @property
    def tables(self) -> TableListing:
        """The tables that can be asked about, and what is declared about each. This costs nothing."""
        return TableListing(tuple(map(describe_table, self._lab.tables())))

    def sql(self, text: str) -> Query:
        """Return a question in SQL. Nothing is read or spent until it is released.

        SHOW TABLES and DESCRIBE visits give public facts at once, for nothing.
        """
        # Facts can be quoted and released like a question, so callers need not tell them apart.
        return cast("Query", self._find_facts(text) or self.question(text))

    def question(self, text: str) -> Query:
        """Return a question in SQL; what only asks for public facts is refused."""
        from sfumato.queries.over_answers import read_question

        def accept(question: Question) -> Query:
            return Query(self._payer, question, text)

        names = partial(list_names, tables=self._lab.table)
        query = read_question(text, accept, lambda question: accept(question).resolved, names)
        return cast("Query", find_declared_values(query.resolved) or query)

    def ask_together(self, questions: Sequence[str | Query]) -> TogetherQueries:
        """Return questions that are charged once, and whose answers agree with each other.

        Each is given in SQL or as a question of this session. `release` gives one answer for each.
        """
        from sfumato.lab.several.together import collect_queries

        return collect_queries(self._payer, questions, self.question)

    def _find_facts(self, text: str) -> PublicFacts | None:
        """Return the public facts that a text asks for, or None if it asks something else."""
        from sfumato.queries.listings import find_described_table, lists_tables

        if lists_tables(text):
            return self.tables
        name = find_described_table(text)
        return None if name is None else describe_table(self._lab.table(name))

    def table(self, name: str) -> Frame[Query, Partition]:
        """Return a table to ask about step by step: where, group_by, then agg, top, distance and more."""
        from sfumato.lab.questions import FrameQuestions
        from sfumato.queries.aggregations import require_name
        from sfumato.queries.frames import Frame

        return Frame.from_table(self._lab.table(require_name(name)).name, FrameQuestions(self._payer))

    def graph(self, name: str) -> Graph:
        """Return a graph to ask about: its degrees, and the number of its edges."""
        from sfumato.lab.graph import Graph
        from sfumato.queries.aggregations import require_name

        return Graph(self._payer, require_name(name))

    def oracle(self, table: str, *, epsilon: Number, questions: int = 1) -> QueryOracle:
        """Return an oracle for one's own programs: so many noisy averages, each for an equal part of ε."""
        from sfumato.lab.sq_oracle import QueryOracle

        return QueryOracle(self.table(table), epsilon, questions)

    def rehearse(self, folder: str | Path | None = None, *, rows: int | None = None) -> Session:
        """Return a session on a lab of stand-ins, with the same tables, declarations and budgets.

        Questions, notebooks and models run there as they would here, and cost nothing that anybody has. The
        lab is made in a new `folder`, or in a temporary one.
        """
        from sfumato.lab.synthetic.rehearsal import rehearse

        session: Session = rehearse(self._lab, self._analyst, folder, rows, self._payer.holder)
        return session

    def stream(
        self,
        table: str,
        *,
        time: str,
        measure: Any,
        horizon: int,
        start: Any = None,
        by: str | Sequence[str] = (),
        where: str | None = None,
        participations: int = 1,
        separation: int = 1,
        contribution: int = 1,
        window: int | None = None,
        blocks: bool = False,
        **spending: Unpack[Spending],
    ) -> TableStream:
        """Return a stream over a table that the steward advances: one charge for `horizon` ticks.

        `time` is a date or whole number, or DATE_TRUNC('week', day); `measure` is sf.count(), sf.sum("cost"),
        sf.mean("cost"), sf.units of the unit's column, or the same in SQL. A unit counts in at most
        `participations` ticks, its first ones, at least `separation` ticks apart, with `contribution` rows in
        each. With `window` and sf.units, people leave so many ticks after their last row, and may return.
        The price is rho, or epsilon and delta. With `blocks` it is charged for every block of time that the
        steward set, to the account of those who come in it, and a unit counts in that block alone.
        """
        from sfumato.lab.block_stream import BlockStream
        from sfumato.lab.stream import TableStream, parse_stream

        typed = {
            "table": table,
            "time": time,
            "measure": measure,
            "horizon": horizon,
            "start": start,
            "by": by,
            "where": where,
            "participations": participations,
            "separation": separation,
            "contribution": contribution,
            "window": window,
        }
        asked = parse_stream(**typed)
        if blocks:
            return BlockStream(self._payer, asked, spending, {**typed, "blocks": True})
        return TableStream(self._payer, asked, spending, typed)

    def streams(self) -> tuple[TableStream, ...]:
        """Return the streams that were begun, of tables that this session may ask about."""
        from sfumato.curator.streams.records import read_records

        asked = {table.name for table in self._lab.tables()}
        found = [each.arguments for each in read_records(self._lab.streams_folder)]
        streams: list[TableStream] = []
        for each in found:
            # A column may be gone since; the other streams are still there.
            with suppress(PolicyError):
                streams += [self.stream(**each)] if each["table"] in asked else []
        return tuple(streams)

    @property
    def budget(self) -> BudgetView:
        """What is left, for every population this session may spend on."""
        return view_budget(self._lab, self._payer.holder)

    def plan(self, questions: Sequence[str], **spending: Unpack[Spending]) -> WorkPlan:
        """Return the price of many questions in SQL, of each and of all together. Nothing is charged.

        Each is priced at the spend that is given. What was answered before, or stands twice in the list, is
        free.
        """
        from sfumato.lab.work.planning import plan_questions

        return plan_questions(self._payer, [(text, self.question(text)) for text in questions], spending)

    def request(self, *, epsilon: Number, delta: Number = 0, reason: str) -> SentRequest:
        """Ask the steward for so much more of the quota, and say why. Return the request.

        The quota of a team is raised for all its members. `s.requests()` shows the answer.
        """
        return self._request_desk.add(self._analyst, epsilon, delta, reason)

    def requests(self) -> tuple[SentRequest, ...]:
        """Return what this analyst asked the steward for, with the answers, oldest first."""
        return self._request_desk.list_sent(self._analyst or "")

    @property
    def _request_desk(self) -> RequestDesk:
        if self._desk is None:
            raise UsageError("SF-W103", "This session is not held by a lab.", try_="lab.session(…)")
        return self._desk

    def published(self) -> tuple[Published | PublishedTable, ...]:
        """Return what the steward published: answers and synthetic tables can be read for nothing."""
        return list_publications(self._lab)

    def watch_rounds(self, report: Callable[[float], None]) -> Session:
        """Return this hostile session, which reports the slot of each round once its reply has left.

        Long work shows its progress so. Only public numbers are reported, at times that are public too.
        """
        from sfumato.curator.hostile.reading import SlotReader, WatchedReader

        if not isinstance(self._payer.slots, SlotReader):
            raise UsageError(
                "SF-Q191",
                "Only the rounds of a hostile session can be watched.",
                try_='lab.session("ada", hostile=True)',
            )
        watched = WatchedReader(self._payer.slots, report)
        return Session(self._lab, self._analyst, watched, desk=self._desk)

    def __repr__(self) -> str:
        hostile = "" if self._payer.slots is None else ", hostile=True"
        return f"Session({self._analyst or 'steward'!r}{hostile})"
