"""Links between pages lead somewhere, and changelog fragments are named as the tool expects."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "changelog.d" / "README.md"])
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")
FENCED = re.compile(r"^ *```.*?^ *```", re.M | re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    assert [link for link in LINK.findall(text) if not (page.parent / link).exists()] == []


def test_fragments_have_a_number_a_title_and_a_kind() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
    kinds = "|".join(kind["directory"] for kind in settings["type"])
    named = re.compile(rf"\d{{4}}-[a-z0-9-]+\.({kinds})\.md")
    kept = {"README.md", "template.md.jinja"}
    files = {file.name for file in (ROOT / settings["directory"]).iterdir()} - kept
    assert [name for name in sorted(files) if not named.fullmatch(name)] == []


def test_no_two_fragments_have_the_same_number() -> None:
    numbers = [file.name[:4] for file in (ROOT / "changelog.d").glob("[0-9]*.md")]
    assert sorted(numbers) == sorted(set(numbers))


NAMED = re.compile(r"`([a-z_]+(?:/[a-z_0-9]+)+\.(?:py|md|txt))`(?: \(`(\w+)`\))?")


@pytest.mark.parametrize("page", [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md"], ids=str)
def test_files_and_functions_that_a_page_names_exist(page: Path) -> None:
    """Paths are those of the repository, or of the package."""
    missing = []
    for path, function in NAMED.findall(page.read_text(encoding="utf-8")):
        places = [place / path for place in (ROOT, ROOT / "src" / "sfumato") if (place / path).exists()]
        if not places or (function and f"def {function}(" not in places[0].read_text(encoding="utf-8")):
            missing.append((path, function))
    assert missing == []
