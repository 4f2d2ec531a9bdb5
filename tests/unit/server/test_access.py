"""Who gets in: tokens, roles, cookies, and a role for every route."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.routing import APIRoute
from starlette.routing import Mount

from serving import ROLES, ServedClinic
from sfumato.server.access import cookie_name, make_csrf_token

if TYPE_CHECKING:
    from collections.abc import Iterator


def walk_routes(routes: list[Any]) -> Iterator[Any]:
    """Every route of the application; FastAPI keeps those of a router that was included with that router."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        yield from (route,) if inner is None else walk_routes(inner.routes)


def list_routes(app: Any) -> list[APIRoute]:
    return [route for route in walk_routes(app.routes) if isinstance(route, APIRoute)]


def find_roles(route: APIRoute) -> frozenset[str] | None:
    """The roles that a route names, by its own dependencies."""
    found = [
        each.call.roles  # type: ignore[union-attr]
        for each in route.dependant.dependencies
        if hasattr(each.call, "roles")
    ]
    return found[0] if len(found) == 1 else None


def test_every_route_names_its_roles(clinic: ServedClinic) -> None:
    nameless = [route.path for route in list_routes(clinic.app) if not find_roles(route)]
    assert nameless == []
    assert len(list_routes(clinic.app)) >= 9
    others = [route for route in walk_routes(clinic.app.routes) if not isinstance(route, APIRoute)]
    assert all(isinstance(route, Mount) and route.path == "/static" for route in others)


def paths(clinic: ServedClinic) -> Iterator[tuple[str, str, frozenset[str]]]:
    for route in list_routes(clinic.app):
        # Nothing has these names and numbers, so that whoever is let in changes nothing.
        path = re.sub(r"\{name\}", "nobody", route.path)
        path = re.sub(r"\{[^}]*\}", "999999", path)
        for method in sorted(route.methods):
            yield method, path, find_roles(route) or frozenset()


@pytest.mark.parametrize("role", ROLES)
def test_each_role_reaches_its_routes_and_no_other(clinic: ServedClinic, role: str) -> None:
    wrong = []
    for method, path, roles in paths(clinic):
        may = "public" in roles or role in roles
        answer = clinic.send(method, path, role, headers={"Accept": "application/json"})
        refused = answer.status_code == 401 or (answer.status_code == 403 and "SF-W103" in answer.text)
        if may == refused or answer.status_code >= 500:
            wrong.append((method, path, role, answer.status_code))
        if not may:
            assert answer.status_code == (401 if role == "public" else 403)
    assert wrong == []


def test_wrong_expired_and_revoked_tokens_get_the_same_answer(clinic: ServedClinic) -> None:
    people = clinic.context.people
    expired = people.make_token("ada", seconds=1e-9)
    revoked = people.make_token("ada")
    people.revoke_token(people.list_tokens("ada")[0].id)
    page = people.make_token("ada", purpose="page")
    wrong = clinic.tokens["analyst"][:-1] + ("A" if clinic.tokens["analyst"][-1] != "A" else "B")
    answers = []
    for sent in (
        f"Bearer {expired}",
        f"Bearer {revoked}",
        f"Bearer {page}",
        f"Bearer {wrong}",
        "Bearer x",
        "Basic eDp5",
        "",
    ):
        answer = clinic.client.get("/api/tables", headers={"Authorization": sent})
        answers.append((answer.status_code, answer.content, sorted(answer.headers.items())))
    assert answers[0][0] == 401
    assert all(each == answers[0] for each in answers)


def test_a_cookie_needs_the_token_of_its_page_for_changes(clinic: ServedClinic) -> None:
    cookie = clinic.context.people.make_token("ada", purpose="page")
    jar = {cookie_name(clinic.context): cookie}
    body = {"question": {"sql": "SELECT COUNT(*) AS n FROM visits"}, "spend": {"epsilon": 0.1}}
    client = clinic.client
    sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in jar.items())}
    assert client.get("/api/tables", headers=sent).status_code == 200
    refused = client.post("/api/quote", json=body, headers=sent)
    assert (refused.status_code, refused.json()["code"]) == (403, "SF-W109")
    csrf = {"X-CSRF-Token": make_csrf_token(cookie)}
    assert client.post("/api/quote", json=body, headers=sent | csrf).status_code == 200
    elsewhere = client.post("/api/quote", json=body, headers=sent | csrf | {"Origin": "http://evil.example"})
    assert elsewhere.json()["code"] == "SF-W109"
    cross = client.post("/api/quote", json=body, headers=sent | csrf | {"Sec-Fetch-Site": "cross-site"})
    assert cross.json()["code"] == "SF-W109"


def test_people_are_sent_to_the_page_for_signing_in(clinic: ServedClinic) -> None:
    answer = clinic.client.get("/metrics", headers={"Accept": "text/html"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/metrics")
