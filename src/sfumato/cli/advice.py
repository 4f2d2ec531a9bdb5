"""Advice of errors in the words of the shell: what Python calls do, said as commands and options."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.errors import SfumatoError

_NAME = r"[\"']([^\"']*)[\"']"
_AMOUNTS = "epsilon|delta|rho|share"
# In this order: calls before the arguments that stand in them.
_WORDS = (
    (
        rf"lab\.grant\({_NAME}, epsilon=([\d.]+|…), later=True\)",
        r"sfumato user grant \1 --epsilon \2 --later",
    ),
    (rf"lab\.grant\({_NAME}, epsilon=([\d.]+|…)[^)]*\)", r"sfumato user grant \1 --epsilon \2"),
    (rf"lab\.revoke\({_NAME}\)", r"sfumato user revoke \1"),
    (r"lab\.requests\(\)\[\d+\]\.grant\(\)", "sfumato request grant NUMBER"),
    (r"lab\.requests\(\)", "sfumato request list"),
    (r"s\.requests\(\)\[0\]\.withdraw\(\)", "sfumato request withdraw NUMBER"),
    (
        r's\.request\(epsilon=([\d.]+), reason="…"\)',
        r"sfumato request make --as NAME --epsilon \1 --reason …",
    ),
    (r"members=\[[^\]]*\]", "--member ada --member ben"),
    (r'about="([^"]*)"', r'--about "\1"'),
    (r'population="(\w+)", as lab\.populations\(\) says', r"\1, as sfumato budget says"),
    (
        r"sf\.privacy\.group\(event, 2\), with neighbours=sf\.REPLACE_ONE",
        "twice the --epsilon, or --event, with --neighbours replace-one",
    ),
    (r"or lab\.session\(\) as the steward", "or leave --as out, as the steward"),
    (r"lab\.register\([^)]*schema=[^)]*\)", "sfumato table add NAME SOURCE --schema FILE"),
    (r"lab\.register\([^)]*budget=…\)", "sfumato table add NAME SOURCE … --epsilon 4"),
    (r"lab\.register(\([^)]*\))?", "sfumato table add NAME SOURCE …"),
    (r"lab\.advance(\([^)]*\))?", "sfumato table advance NAME SOURCE"),
    (r"lab\.drop(\([^)]*\))?", "sfumato table drop NAME"),
    (rf"sf\.create\({_NAME}\)", r"--lab FOLDER for a lab that is there, or sfumato init \1"),
    (r"sf\.create", "sfumato init"),
    (rf"sf\.open\({_NAME}\)", r"--lab \1"),
    (r"sf\.open", "--lab"),
    (r"budget=sf\.Budget\(([^)]*)\)", r"\1"),
    (rf"(?:unit=)?sf\.Unit\({_NAME}, max_rows=(\d+)\)", r"--unit \1 --max-rows \2"),
    (r"sf\.Unit\(…, of=\"([^\"]*)\"\)", r"--of \1"),
    (r"(the same )?of=\"(…|\w+)\"( in sf\.Unit)?", r"\1--of \2"),
    (r"(?:unit=)?sf\.ROW", "--row"),
    (r"columns=\{[^}]*\}", "--between age 0 110 --one-of ward A,B"),
    (r"sf\.one_of\(\"A\", \"B\"\)(, or sf\.one_of\(\*values\))?", "--one-of COLUMN A,B"),
    (r"sf\.one_of(\([^)]*\))?", "--one-of"),
    (r"sf\.between\(date[^)]*\), date[^)]*\)\)", "--between COLUMN 2020-01-01 2024-12-31"),
    (r"sf\.between\(…, step=1\)", "--whole COLUMN LOW HIGH"),
    (r"sf\.between(\([^)]*\))?", "--between"),
    (r"(?:\w+\.)?release\(((?:[^()]|\([^)]*\))*)\)", r"\1"),
    (rf"(?: with |, )({_AMOUNTS})=([\d.e+-]+|…)", r" --\1 \2"),
    (rf"\b({_AMOUNTS})=([\d.e+-]+|…)", r"--\1 \2"),
    (r"leave budget out", "leave --epsilon out"),
    (r"leave max_rows out", "leave --max-rows out"),
)
"""A pattern of Python, and what people type in its place."""


def advise_in_shell(problem: SfumatoError) -> SfumatoError:
    """Return an error whose advice names commands and options of the shell."""
    if "try" not in problem.facts:
        return problem
    facts = {f"{name}_": fact for name, fact in problem.facts.items()}
    facts["try_"] = translate_advice(problem.facts["try"])
    return type(problem)(problem.code, problem.sentence, **facts)


def translate_advice(advice: str) -> str:
    """Return advice about Python calls as advice about commands."""
    for pattern, words in _WORDS:
        advice = re.sub(pattern, words, advice)
    return advice.strip()
