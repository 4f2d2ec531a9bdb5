"""Publication packages of answers that were given before. They never charge."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from fastapi.responses import Response
from pydantic import Field, StrictInt, StrictStr

from sfumato.errors import SfumatoError, UsageError
from sfumato.lab.work.packages import PROOFS, build_files, find_answer, read_source, zip_files
from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.questions import find_question, read_release
from sfumato.server.wire import QuestionBody, SpendBody, WireBody, parse_spending

router = APIRouter(prefix="/api", tags=["packages"])

Asker = Annotated[Visitor, Depends(allow(Role.STEWARD, Role.ANALYST))]
Context = Annotated[ServerContext, Depends(get_context)]


class PackageBody(WireBody):
    """Which answer is packed, by the entry of its charge, and what readers are told."""

    entry: StrictInt = Field(ge=0, le=2**53)
    title: StrictStr = Field("", max_length=300)
    contact: StrictStr = Field("", max_length=300)
    proofs: StrictStr = Field(PROOFS, max_length=300)


@router.post("/packages", response_class=Response, responses={200: {"content": {"application/zip": {}}}})
def make_package(body: PackageBody, visitor: Asker, context: Context) -> Response:
    """Return a zip file with an answer of the visitor's, a methods paragraph, a card and receipts."""
    lab = context.lab
    release = _find_release(context, visitor, body.entry)
    if release.receipt.entry != body.entry:
        raise UsageError(
            "SF-N117",
            "An answer that was refined is packed from the release itself, in Python.",
            try_="lab.package",
        )
    files = build_files(lab, read_source(lab, release, body.title), body.contact, body.proofs)
    name = f'attachment; filename="package-{body.entry}.zip"'
    return Response(zip_files(files), media_type="application/zip", headers={"Content-Disposition": name})


def _find_release(context: ServerContext, visitor: Visitor, entry: int) -> Any:
    """Return an answer that the visitor got before, as the ledger keeps it."""
    kept = read_release(context, visitor, entry)
    asked, spend = QuestionBody.model_validate(kept.question), SpendBody.model_validate(kept.spend)
    spending = parse_spending(spend)
    try:
        return find_answer(find_question(context.lab.session(kept.analyst or None), asked), spending)
    except SfumatoError:
        # A quota was taken away since. That the visitor had the answer is known already,
        # so it is looked for as the steward would; nothing can be charged here.
        return find_answer(find_question(context.lab.session(), asked), spending)
