"""A link that signs someone in once, such as the one that the tour prints."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from starlette.responses import RedirectResponse

from sfumato.errors import PolicyError
from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.pages.signing_in import give_cookie

router = APIRouter()

PURPOSE = "link"
"""Purpose of a token that is used up by following a link."""


@router.get("/enter/{code}")
def enter_by_link(
    code: Annotated[str, Path(max_length=100)],
    request: Request,
    visitor: Annotated[Visitor, Depends(allow(Role.PUBLIC))],
    context: Annotated[ServerContext, Depends(get_context)],
) -> RedirectResponse:
    """Sign in whoever follows a link that was made for them, once, and show the overview."""
    address = request.client.host if request.client else ""
    context.rates.require_patience(address)
    # From another site it could sign someone in as somebody else, who would then see what they do.
    own = request.headers.get("sec-fetch-site", "none") in ("none", "same-origin")
    person = context.people.use_up_token(code, PURPOSE) if own else None
    if person is None:
        context.rates.count_wrong_token(address)
        raise PolicyError(
            "SF-W180",
            "This link was used before, is too old, or came from another site.",
            try_="/login, with a token or a password",
        )
    return give_cookie(context, person, "/")
