"""Attacks that are played in a real browser: won on raw answers, only guesses on the lab's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect
from tests.web.conftest import check_accessibility, check_width, save_screenshot

if TYPE_CHECKING:
    from tests.web.conftest import OpenPage


def test_two_exact_totals_give_a_salary_away_and_two_private_ones_do_not(open_page: OpenPage) -> None:
    page = open_page(None)
    page.goto("/learn")
    check_accessibility(page)
    save_screenshot(page, "learn")
    page.get_by_role("link", name="Differencing").click()
    page.get_by_label("Person").select_option("Lea")
    page.get_by_role("button", name="Ask the lab for both totals").click()
    expect(page.get_by_role("heading", name="The lab's answers")).to_be_visible()
    # Nothing exact is shown before the guess is made.
    expect(page.get_by_text("A desk that answers exactly")).to_have_count(0)
    page.get_by_role("button", name="Guess, and show the truth").click()
    expect(page.get_by_text("Two totals were enough.")).to_be_visible()
    expect(page.get_by_text("of 1 times. A blind guess is right 1 time in 10")).to_be_visible()
    check_accessibility(page)
    save_screenshot(page, "learn-differencing")


def test_asking_again_averages_noise_away_only_without_a_ledger(open_page: OpenPage) -> None:
    """20,000 answers of deviation 14.1 have a mean of deviation 0.1: a wrong guess has the chance 3e-7."""
    page = open_page("ada", phone=True)
    page.goto("/learn/repetition")
    page.get_by_label("20,000").check()
    page.get_by_role("button", name="Ask both desks").click()
    expect(page.get_by_text("which is true.")).to_be_visible()
    expect(page.get_by_text("free, the same answer").first).to_be_visible()
    expect(page.get_by_text("SF-B101 Not enough privacy budget")).to_be_visible()
    check_width(page)
    check_accessibility(page)
    save_screenshot(page, "learn-repetition-phone")


def test_a_neighbour_is_looked_up_without_any_script(open_page: OpenPage) -> None:
    page = open_page(None, phone=True, java_script_enabled=False)
    page.goto("/learn/linkage")
    page.get_by_role("button", name="Look the neighbour up").click()
    expect(page.get_by_text("Removing names removed nothing.")).to_be_visible()
    expect(page.get_by_text("An attacker guesses")).to_be_visible()
    for known in ("birth year", "birthday within the year", "postal code"):
        page.get_by_role("checkbox", name=known).uncheck()
    page.get_by_role("button", name="Look the neighbour up").click()
    expect(page.get_by_text("You need to know a little more.")).to_be_visible()
    save_screenshot(page, "learn-linkage-phone")


@pytest.mark.slow
def test_the_attacker_plays_many_rounds(open_page: OpenPage) -> None:
    page = open_page(None, color_scheme="dark")
    page.goto("/learn/linkage/score?epsilon=0.5")
    expect(page.get_by_text("no attacker can expect more than 62.3 %")).to_be_visible()
    check_accessibility(page)
    save_screenshot(page, "learn-score-dark")
