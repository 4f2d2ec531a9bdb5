"""kill −9 while a survey is created or closed: no answer without its charge, and no charge made twice."""

import json
import signal
from collections import Counter
from pathlib import Path

import pytest

import sfumato as sf
import warm
from sfumato.errors import SfumatoError
from sfumato.lab.surveys.charging import respondents_account

OPENED = "survey-opened"


def count_entries(lab: sf.Lab, name: str) -> Counter[str]:
    """How many charges, and how many releases of them, the ledger has for one survey."""
    entries = [(entry.seq, entry.kind, json.loads(entry.body)) for entry in lab.ledger.read_entries()]
    charged = {seq for seq, kind, body in entries if kind == "charge" and body["about"]["survey"] == name}
    released = sum(1 for _, kind, body in entries if kind == "release" and body["charge"] in charged)
    return Counter(charge=len(charged), release=released)


def test_killed_at_every_step(tmp_path: Path) -> None:
    folder = sf.create(tmp_path / "lab").folder
    script = Path(__file__).with_name("survey_killed.py")
    done = warm.run([script, folder], check=True)
    deaths = [json.loads(line) for line in done.stdout.splitlines()]
    assert [death["signal"] for death in deaths] == [signal.SIGKILL] * 9

    lab = sf.open(folder)
    before = lab.verify()
    for survey in lab.surveys():
        entries = count_entries(lab, survey.name)
        # A round is open only if it was charged, and no round was charged twice.
        assert entries["charge"] <= 1
        assert not survey.has_begun or entries["charge"] == 1

    for death in deaths:
        name = death["step"].replace(":", "-")
        survey = lab.survey(name)
        if not survey.has_begun:
            survey = lab.create_survey(name, question="Well?", epsilon="3 in 4", invitations=3, asks=1)
            links = survey.links
        elif name == OPENED:
            # It was opened, and the links died with the process: they are replaced.
            with pytest.raises(SfumatoError, match="SF-C110"):
                lab.create_survey(name, question="Well?", epsilon="3 in 4", invitations=3, asks=1)
            links = survey.replace_links()
        else:
            links = ()
        for link in links:
            invitation = lab.open_invitation(link)
            assert invitation.answer(
                {"question": invitation.question()["law"]["id"], "round": 1, "report": 1}
            )
        closed = survey.close()
        assert closed.counts == (0, 3 if links else 1)
        assert json.loads(survey.receipt().answer) == list(closed.counts)
        assert count_entries(lab, name) == {"charge": 1, "release": 1}
        once = sf.privacy.account.price(survey.terms.mechanism.event())
        assert lab.ledger.read_spent(respondents_account(name)) == once
    assert lab.verify().charges == 9 >= before.charges
