"""Surveys over HTTP: what stewards send, what respondents send, and how results are drawn without a script.

The API and the pages call these. No function here ever sees a truth: reports are randomized before they come.
"""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr

from sfumato.errors import PolicyError
from sfumato.errors.numbers import format_decimal
from sfumato.lab.surveys.levels import LEVELS
from sfumato.server.access import Role
from sfumato.server.wire import ExactNumber, WireBody, parse_number

if TYPE_CHECKING:
    from sfumato.lab.surveys.result import SurveyResult
    from sfumato.lab.surveys.survey import Survey
    from sfumato.server.access import Visitor
    from sfumato.server.context import ServerContext

PRIVATE_HEADERS = {"X-Robots-Tag": "noindex, nofollow, noarchive", "Referrer-Policy": "no-referrer"}
"""Headers of everything behind a respondent's link: no search engine keeps it, no other site is told it."""
MOST_LINKS = 100_000
"""Most invitations that one request makes, since all of their links are in its answer."""
LevelName = Literal["3 in 5", "2 in 3", "3 in 4", "5 in 6", "9 in 10"]


class SurveyBody(WireBody):
    """A survey that is to be charged and opened."""

    name: StrictStr = Field(max_length=60, examples=["smoking"])
    question: StrictStr = Field(max_length=500, examples=["Do you smoke?"])
    choices: list[StrictStr] = Field(default=["Yes", "No"], max_length=12)
    epsilon: LevelName | ExactNumber = Field(examples=["3 in 4"])
    invitations: StrictInt | None = Field(None, ge=1, le=MOST_LINKS)
    asks: StrictInt = Field(1, ge=1, le=100)
    public: StrictBool = False


class MoreLinksBody(WireBody):
    """How many invitations to make; without a number, those that were never answered are replaced."""

    people: StrictInt | None = Field(None, ge=1, le=MOST_LINKS)


class ReportBody(WireBody):
    """A randomized report, as client.js makes it, and the round that it is for."""

    question: StrictStr = Field(max_length=64)
    round: StrictInt = Field(ge=1, le=1000)
    report: StrictInt = Field(ge=0, le=1000)


def create_survey(context: "ServerContext", body: SurveyBody) -> dict[str, Any]:
    """Charge and open a survey, and return it with its links, which are shown this once."""
    said = body.model_dump()
    named = body.epsilon in [level.name for level in LEVELS]
    said["epsilon"] = body.epsilon if named else parse_number(body.epsilon)
    return write_survey(context, context.lab.create_survey(said.pop("name"), **said))


def list_surveys(context: "ServerContext", visitor: "Visitor") -> list[dict[str, Any]]:
    """Return all surveys for a steward, and for others those whose results are public."""
    shown = [each for each in context.lab.surveys() if _may_see(visitor, each)]
    return [write_survey(context, each) | _hide(visitor) for each in shown]


def find_survey(context: "ServerContext", visitor: "Visitor", name: str) -> "Survey":
    """Return a survey that the visitor may see. A steward sees all of them, others those that are public."""
    found = [each for each in context.lab.surveys() if each.name.casefold() == name.casefold()]
    if not found or not _may_see(visitor, found[0]):
        # Whether there is one with a hidden result is nobody else's business.
        raise PolicyError("SF-U101", "There is no survey of this name.", try_="/surveys")
    return found[0]


def make_links(context: "ServerContext", survey: "Survey", people: int | None) -> dict[str, Any]:
    """Make invitations for more people, or replace those that were never answered; return their links."""
    links = survey.replace_links() if people is None else survey.invite(people)
    return {"survey": survey.name, "links": [context.settings.address + each for each in links]}


def write_survey(context: "ServerContext", survey: "Survey") -> dict[str, Any]:
    """Return a survey ready for JSON, with whole addresses as links."""
    said, address = survey.to_dict(), context.settings.address
    if "link" in said:
        said["link"] = address + said["link"]
    return said | {"links": [address + each for each in survey.links]}


def draw_result(result: "SurveyResult") -> list[dict[str, Any]]:
    """Return what a bar for each choice shows, in per cent of its width."""
    return [
        {
            "choice": choice,
            "share": 100 * share,
            "low": 100 * low,
            "high": 100 * high,
            "words": (
                f"{format_decimal(100 * share, 1)} %, 95 % interval "
                f"{format_decimal(100 * low, 1)} to {format_decimal(100 * high, 1)} %"
            ),
            "invited": result.widest(choice) if result.invited else None,
        }
        for choice, share, low, high in result.list_rows()
    ]


def _may_see(visitor: "Visitor", survey: "Survey") -> bool:
    return visitor.role is Role.STEWARD or (survey.terms.public and survey.has_begun)


def _hide(visitor: "Visitor") -> dict[str, Any]:
    """Return what takes the place of links for those who are not the steward."""
    return {} if visitor.role is Role.STEWARD else {"link": None, "links": []}
