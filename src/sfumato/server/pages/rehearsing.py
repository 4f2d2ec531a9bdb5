"""Previews on the twin: a question is answered in a lab of stand-ins, so error bars are seen for nothing.

The lab holds made-up rows alone, so its answers say nothing about anybody. One is made for each visitor who
wants a preview, in a temporary folder, and made anew when its budget is used up or the catalog changes.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import BudgetError
from sfumato.server.access import open_session
from sfumato.server.questions import find_question
from sfumato.server.wire import parse_spending, write_release

if TYPE_CHECKING:
    from sfumato.lab.session import Session
    from sfumato.server.access import Visitor
    from sfumato.server.context import ServerContext
    from sfumato.server.wire import QuestionBody, SpendBody

MOST_LABS = 8
"""Labs of stand-ins that are kept; the one that was not used for longest goes first."""
ROWS = 1000
"""Rows of a stand-in."""


@dataclass(slots=True)
class _Rehearsal:
    session: Session
    folder: Path
    contents: object
    """What the catalog said when it was made."""
    used: bool = False

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class Rehearsals:
    """Labs of stand-ins, one for each visitor who wanted a preview."""

    def __init__(self) -> None:
        self._made: OrderedDict[tuple[str, ...], _Rehearsal] = OrderedDict()
        self._lock = threading.Lock()

    def answer_question(
        self, context: ServerContext, visitor: Visitor, asked: QuestionBody, spend: SpendBody
    ) -> dict[str, Any]:
        """Return the answer that made-up rows give, ready for a page. Nothing is charged to anybody."""
        # One at a time: previews are a convenience, and must not take the machine from those who ask.
        with self._lock:
            rehearsal = self._find(context, visitor)
            try:
                return self._ask(rehearsal, asked, spend)
            except BudgetError:
                if not rehearsal.used:
                    raise
                self._drop(visitor)
                return self._ask(self._find(context, visitor), asked, spend)

    def close(self) -> None:
        """Remove every lab of stand-ins."""
        with self._lock:
            while self._made:
                self._made.popitem()[1].close()

    def _ask(self, rehearsal: _Rehearsal, asked: QuestionBody, spend: SpendBody) -> dict[str, Any]:
        answer = find_question(rehearsal.session, asked).release(**parse_spending(spend))
        rehearsal.used = True
        return write_release(answer)

    def _find(self, context: ServerContext, visitor: Visitor) -> _Rehearsal:
        name, contents = _name_lab(visitor), context.lab.contents
        known = self._made.get(name)
        if known is not None and known.contents is contents:
            self._made.move_to_end(name)
            return known
        self._drop(visitor)
        folder = Path(tempfile.mkdtemp(prefix="sfumato-rehearsal-"))
        session = open_session(context, visitor).rehearse(folder / "lab", rows=ROWS)
        self._made[name] = _Rehearsal(session, folder, contents)
        while len(self._made) > MOST_LABS:
            self._made.popitem(last=False)[1].close()
        return self._made[name]

    def _drop(self, visitor: Visitor) -> None:
        with suppress(KeyError):
            self._made.pop(_name_lab(visitor)).close()


def _name_lab(visitor: Visitor) -> tuple[str, ...]:
    """Return what tells labs apart: analysts may see different tables."""
    return visitor.role.value, visitor.name
