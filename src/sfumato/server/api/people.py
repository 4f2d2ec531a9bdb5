"""People, their tokens and passwords, and the quotas of analysts. For stewards."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from pydantic import Field, SecretStr, StrictBool, StrictStr

from sfumato.server.access import Role, Visitor, allow
from sfumato.server.context import ServerContext, get_context
from sfumato.server.people import DAY
from sfumato.server.wire import ExactNumber, FactsBody, WireBody, parse_number

router = APIRouter(prefix="/api", tags=["people"])

Steward = Annotated[Visitor, Depends(allow(Role.STEWARD))]
Context = Annotated[ServerContext, Depends(get_context)]
Name = Annotated[str, Path(max_length=200)]


class PersonBody(WireBody):
    """A person and their role. An analyst has the name that their quota was granted to."""

    name: StrictStr = Field(max_length=200, examples=["ada"])
    role: StrictStr = Field(max_length=20, examples=["analyst"])


class PasswordBody(WireBody):
    """A password for the pages."""

    password: SecretStr = Field(max_length=2000)


class TokenBody(WireBody):
    """How long a token lasts."""

    days: Annotated[float, Field(gt=0, le=3660, allow_inf_nan=False)] = 90.0


class GrantBody(WireBody):
    """A quota of an analyst, or with members of a team, on every population or on those of some tables."""

    analyst: StrictStr = Field(max_length=100, examples=["ada"])
    epsilon: ExactNumber
    delta: ExactNumber = 0
    tables: list[StrictStr] | None = Field(None, max_length=1000)
    later: StrictBool = False
    members: list[StrictStr] = Field(default_factory=list, max_length=1000)


@router.get("/people", response_model=FactsBody)
def list_people(visitor: Steward, context: Context) -> dict[str, Any]:
    """Return everyone who may use the server."""
    return {"people": [each.to_dict() for each in context.people.list_people()]}


@router.post("/people", response_model=FactsBody)
def add_person(body: PersonBody, visitor: Steward, context: Context) -> dict[str, Any]:
    """Add a person, or give one another role."""
    return context.people.add_person(body.name, body.role).to_dict()


@router.delete("/people/{name}", response_model=FactsBody)
def remove_person(name: Name, visitor: Steward, context: Context) -> dict[str, Any]:
    """Remove a person with their tokens. Their quota stays until it is revoked."""
    context.people.remove_person(name)
    return {"removed": name}


@router.post("/people/{name}/password", response_model=FactsBody)
def set_password(name: Name, body: PasswordBody, visitor: Steward, context: Context) -> dict[str, Any]:
    """Give a person a password for the pages."""
    context.people.set_password(name, body.password.get_secret_value())
    return {"name": name}


@router.post("/people/{name}/tokens", response_model=FactsBody)
def make_token(name: Name, body: TokenBody, visitor: Steward, context: Context) -> dict[str, Any]:
    """Return a new token for a person. It is shown this once."""
    token = context.people.make_token(name, seconds=body.days * DAY)
    return {"token": token} | context.people.list_tokens(name)[0].to_dict()


@router.get("/tokens", response_model=FactsBody)
def list_tokens(visitor: Steward, context: Context) -> dict[str, Any]:
    """Return what is known about every token; the tokens themselves are kept nowhere."""
    return {"tokens": [each.to_dict() for each in context.people.list_tokens()]}


@router.delete("/tokens/{number}", response_model=FactsBody)
def revoke_token(
    number: Annotated[int, Path(ge=0, le=2**53)], visitor: Steward, context: Context
) -> dict[str, Any]:
    """End a token at once."""
    context.people.revoke_token(number)
    return {"revoked": number}


@router.get("/grants", response_model=FactsBody)
def list_grants(visitor: Steward, context: Context) -> dict[str, Any]:
    """Return every analyst with their quotas and what is left of them."""
    return {"grants": [each.to_dict() for each in context.lab.analysts()]}


@router.post("/grants", response_model=FactsBody)
def grant(body: GrantBody, visitor: Steward, context: Context) -> dict[str, Any]:
    """Set the quota of an analyst or a team. What they spent before stays spent."""
    quota = {"epsilon": parse_number(body.epsilon), "delta": parse_number(body.delta)}
    context.lab.grant(body.analyst, **quota, tables=body.tables, later=body.later, members=body.members)
    return next(each.to_dict() for each in context.lab.analysts() if each.name == body.analyst)


@router.delete("/grants/{name}", response_model=FactsBody)
def revoke(name: Name, visitor: Steward, context: Context) -> dict[str, Any]:
    """Take every quota of an analyst away. What they spent stays spent."""
    context.lab.revoke(name)
    return {"revoked": name}
