"""The Quotas page, for stewards: what each analyst may spend; granted and revoked."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse

from sfumato.errors import SfumatoError
from sfumato.server.access import Visitor
from sfumato.server.context import ServerContext
from sfumato.server.facts.typed import read_optional_number, read_typed_number, split_names
from sfumato.server.pages.forms import Answered, Context, Steward, StewardFields, Ticked, answer_form
from sfumato.server.pages.rendering import render

router = APIRouter()

Name = Annotated[str, Path(max_length=200)]
_DONE = {"granted": "The quota was granted.", "revoked": "The quota was revoked."}
_EMPTY = dict.fromkeys(("analyst", "members", "epsilon", "delta", "later"), "")


@router.get("/quotas")
def show_quotas(request: Request, visitor: Steward, context: Context, done: str = "") -> HTMLResponse:
    """Return every analyst with their quotas, and the form that grants one."""
    return show_page(request, visitor, context, notice=_DONE.get(done, ""))


@router.post("/quotas", response_model=None)
def grant_quota(
    request: Request, visitor: Steward, context: Context, fields: StewardFields, ticked: Ticked
) -> Answered:
    """Give an analyst or a team a quota, on every population or on those of the tables that were ticked."""

    def grant() -> str:
        context.lab.grant(
            fields.get("analyst", "").strip(),
            epsilon=read_typed_number(fields.get("epsilon", ""), "ε"),
            delta=read_optional_number(fields.get("delta", ""), "δ") or 0,
            tables=ticked or None,
            later=bool(fields.get("later")),
            members=split_names(fields.get("members", "")),
        )
        return "/quotas?done=granted"

    def show(problem: SfumatoError) -> HTMLResponse:
        return show_page(request, visitor, context, problem=problem, typed=fields, ticked=ticked)

    return answer_form(grant, show)


@router.post("/quotas/{name}/revoke", response_model=None)
def revoke_quota(request: Request, visitor: Steward, context: Context, name: Name) -> Answered:
    """Take every quota of an analyst away."""

    def revoke() -> str:
        context.lab.revoke(name)
        return "/quotas?done=revoked"

    return answer_form(revoke, lambda problem: show_page(request, visitor, context, problem=problem))


def show_page(
    request: Request,
    visitor: Visitor,
    context: ServerContext,
    *,
    problem: SfumatoError | None = None,
    typed: dict[str, str] | None = None,
    ticked: list[str] | None = None,
    notice: str = "",
) -> HTMLResponse:
    """Return the page, with what was typed and what is wrong with it."""
    facts: dict[str, Any] = {
        "analysts": context.lab.analysts(),
        "known": {each.name for each in context.people.list_people()},
        "tables": [each.name for each in context.lab.tables() if not each.is_public],
        "typed": _EMPTY | (typed or {}),
        "ticked": ticked or [],
        "notice": notice,
    }
    return render(request, visitor, "quotas.html", problem=problem, **facts)
