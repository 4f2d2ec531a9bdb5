"""Lets the disk under a ledger fail, at a later call each time; prints what was told and what was kept.

Runs with faults.c loaded. Arguments: the folder, "write" or "sync", the error's number, how many rounds.
"""

import ctypes
import json
import sys
from contextlib import closing
from fractions import Fraction
from pathlib import Path

from sfumato.errors import LedgerError
from sfumato.ledger import Charge, Charged, SqliteLedger
from sfumato.ledger.chain import hash_text
from sfumato.privacy import Budget, Pure, price

folder, what, error, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
arm = ctypes.CDLL(None).fault_arm
MILLIONTH = price(Pure(Fraction(1, 10**6)))
PEOPLE = "population:patient_id"
path = folder / "ledger.sqlite"

with closing(SqliteLedger.create(path)) as ledger:
    ledger.open_account(PEOPLE, Budget(4))

for number in range(rounds):
    told: list[str] = []
    codes: list[str] = []
    ledger = SqliteLedger.open(path, timeout=1)
    after = number * 7 % 280 if what == "write" else number % 40  # a commit writes often and syncs once
    arm(what == "write", what == "sync", after, error)
    for turn in range(100):
        try:
            charged = ledger.charge(Charge((PEOPLE,), MILLIONTH, hash_text(f"{number} {turn}"), {}))
            assert isinstance(charged, Charged)
            told.append(charged.head)
            told.append(ledger.release(charged, "x" * 300).head)
        except LedgerError as refusal:
            codes.append(refusal.code)
            if len(codes) == 3:
                break
    arm(0, 0, -1, 0)
    ledger.close()
    with closing(SqliteLedger.open(path)) as again:
        verified, kept = again.verify(), {entry.hash for entry in again.read_entries()}
        spent = again.read_spent(PEOPLE).pure == verified.charges * 10**6
    print(json.dumps({"codes": codes, "told": len(told), "lost": len(set(told) - kept), "spent": spent}))
