"""People, tokens and passwords."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from sfumato.errors import UsageError
from sfumato.server.people import PeopleStore, Role


def test_a_token_is_found_until_it_expires_or_is_revoked(tmp_path: Path) -> None:
    now = [1000.0]
    people = PeopleStore(tmp_path / "people.sqlite", lambda: now[0])
    people.add_person("ada", Role.ANALYST)
    token = people.make_token("ada", seconds=60)
    found = people.find_holder(token)
    assert found is not None
    assert (found.name, found.role) == ("ada", Role.ANALYST)
    assert people.find_holder(token, "page") is None
    assert people.find_holder(token + "x") is None
    assert people.find_holder("") is None
    now[0] += 61
    assert people.find_holder(token) is None
    again = people.make_token("ada")
    people.end_token(again)
    assert people.find_holder(again) is None
    assert [each.revoked for each in people.list_tokens()] == [True, False]
    people.close()


def test_the_file_is_private_and_holds_no_token(tmp_path: Path) -> None:
    people = PeopleStore(tmp_path / "people.sqlite")
    people.add_person("ada", "analyst")
    token = people.make_token("ada")
    people.set_password("ada", "correct horse battery")
    people.close()
    path = tmp_path / "people.sqlite"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = path.read_bytes()
    assert token.encode() not in content
    assert b"correct horse" not in content
    assert b"$argon2id$" in content


def test_another_process_sees_a_revocation_at_once(tmp_path: Path) -> None:
    one, other = (PeopleStore(tmp_path / "people.sqlite") for _ in range(2))
    one.add_person("ada", Role.ANALYST)
    token = one.make_token("ada")
    assert other.find_holder(token) is not None
    one.revoke_token(one.list_tokens()[0].id)
    assert other.find_holder(token) is None
    one.close()
    other.close()


def test_passwords(tmp_path: Path) -> None:
    people = PeopleStore(tmp_path / "people.sqlite")
    people.add_person("ada", Role.ANALYST)
    assert people.check_password("ada", "anything at all") is None
    people.set_password("ada", "correct horse battery")
    found = people.check_password("ada", "correct horse battery")
    assert found is not None
    assert found.name == "ada"
    assert people.check_password("ada", "correct horse batterx") is None
    assert people.check_password("eve", "correct horse battery") is None
    page = people.make_token("ada", purpose="page")
    people.set_password("ada", "another horse battery")
    assert people.find_holder(page, "page") is None
    people.close()


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda people: people.add_person("a:b", "analyst"), "SF-C113"),
        (lambda people: people.add_person("", "analyst"), "SF-C113"),
        (lambda people: people.add_person("ada", "public"), "SF-E187"),
        (lambda people: people.make_token("eve"), "SF-U101"),
        (lambda people: people.make_token("kurt", seconds=-1), "SF-N101"),
        (lambda people: people.revoke_token(99), "SF-U101"),
        (lambda people: people.set_password("kurt", "short"), "SF-P113"),
    ],
)
def test_refusals(tmp_path: Path, call: object, code: str) -> None:
    people = PeopleStore(tmp_path / "people.sqlite")
    people.add_person("kurt", Role.AUDITOR)
    with pytest.raises(UsageError) as refused:
        call(people)  # type: ignore[operator]
    assert refused.value.code == code
    people.close()
