"""Checks an exported ledger with Python alone: verify_ledger.py EXPORT [RECEIPT ...] [--key PUBLIC_KEY]

Every link, admission and release is decided again. A receipt holds if its hash is that of an entry, which an
old backup lacks. Signatures are checked if the `cryptography` package is installed. Exits with 1 on failure.
"""

import argparse
import hashlib
import json
import re
from fractions import Fraction
from typing import Any, TextIO

DIGEST, IDENTITY = re.compile("[0-9a-f]{64}"), re.compile("[0-9a-f]{32}")
FIELDS = {"seq", "kind", "body", "prev", "hash"}
ACCOUNT = re.compile("population:[^:]+|quota:[^:]+:[^:]+", re.DOTALL)
ORDERS, RESERVES = 12, 12  # of the filters of Rényi DP and Gaussian DP, beside pure ε and side δ


def require(holds: object, why: str) -> None:
    if not holds:
        raise AssertionError(why)


def read_object(text: str) -> dict[str, Any]:
    fields = json.loads(text, parse_float=str.encode, parse_constant=str.encode)
    json.dumps(fields)  # refuses bytes, and so every float, which two readers could round differently
    require(isinstance(fields, dict), "it cannot be read")
    return fields  # type: ignore[no-any-return]


def read_amounts(cost: dict[str, Any], least: int) -> tuple[Any, list[int], int, Any]:
    pure, renyi, side, normal = cost["pure"], cost["renyi"], cost["side"], cost.get("gaussian")
    normal = [normal] * RESERVES if type(normal) is int else normal  # the same at every reserve
    whole = all(type(n) is int and n >= least for n in [*renyi, side, *(normal or ()), pure or 0])
    length = len(normal or ()) in ((0, 2) if least else (0, RESERVES))
    require(whole and length and len(renyi) == ORDERS, "its numbers are malformed")
    return pure, renyi, side, normal


class Books:  # what the entries so far say
    def __init__(self) -> None:
        self.seq, self.head, self.signed, self.keys = 0, "0" * 64, False, set[tuple[str, ...]]()
        self.terms, self.spent, self.runs = dict[str, Any](), dict[str, Any](), dict[int, Any]()
        self.hashes, self.answered, self.given_up = set[str](), set[int](), set[int]()
        self.neighbours, self.lab = dict[str, Any](), False

    def add(self, entry: dict[str, Any]) -> None:
        require(set(entry) == FIELDS and not self.signed, "it is not an entry, or follows the signed head")
        require(type(entry["seq"]) is int and entry["seq"] == self.seq + 1, "its number does not follow")
        require(entry["prev"] == self.head, "it does not name the entry before it")
        text = f"sfumato ledger 1\n{self.seq + 1}\n{entry['kind']}\n{self.head}\n{entry['body']}"
        self.seq, self.head = self.seq + 1, hashlib.sha256(text.encode()).hexdigest()
        require(entry["hash"] == self.head, "its hash is not that of its content")
        self.hashes.add(self.head)
        kinds = {"account": self.cap, "grant": self.cap, "charge": self.charge, "reserve": self.charge}
        kinds |= {"release": self.release, "draw": self.move_steps, "return": self.move_steps}
        kinds |= {"lab": self.name, "snapshot": self.name}
        kinds |= {"unread": self.give_up, "resume": self.give_up}
        require(entry["kind"] in kinds, "its kind is not known")
        kinds[entry["kind"]](entry["kind"], read_object(entry["body"]))

    def name(self, kind: str, body: dict[str, Any]) -> None:  # the lab, once, or the snapshot of a table
        identity = body["lab"] if kind == "lab" else body["identity"]
        named = kind == "lab" or isinstance(body["table"], str)
        require(named and IDENTITY.fullmatch(identity), "its identity is malformed")
        require(kind == "snapshot" or not self.lab, "it belongs to another lab")
        self.lab = self.lab or kind == "lab"

    def cap(self, kind: str, body: dict[str, Any]) -> None:
        name, budget, old = body["account"], body["budget"], self.terms.get(body["account"])
        require(ACCOUNT.fullmatch(name) and len(name) <= 200, "its account has no proper name")
        require(old is None or kind == old[0] == "grant", "it changes a budget that was fixed")
        self.terms[name] = (_, top, _, most, reserved) = kind, *read_amounts(body["caps"], -1)
        side = Fraction(budget["delta"]) * Fraction(budget.get("side_share", "1/2")) * 2**60
        require(top <= Fraction(budget["epsilon"]) * 10**12 and most <= side, "its caps exceed its budget")
        require(0 <= (reserved or (0,))[0] < RESERVES, "its reserve is not known")
        self.neighbours.setdefault(name, body.get("neighbours"))
        self.spent.setdefault(name, (0, [0] * ORDERS, 0, [0] * RESERVES))

    def charge(self, kind: str, body: dict[str, Any]) -> None:
        names, key, cost = body["accounts"], body["key"], read_amounts(body["cost"], 0)
        require(names == sorted(set(names)) != [], "its accounts are not in order")
        require(all(name in self.terms for name in names), "it charges an account that was never opened")
        require(key is None or (*names, key) not in self.keys, "its key was used before")
        steps = body["steps"] if kind == "reserve" else 1
        sound = type(steps) is int and 0 < steps <= 10**9 and DIGEST.fullmatch(body["request"])
        sound = sound and DIGEST.fullmatch(body.get("data", "0" * 64))  # which snapshots it reads
        require(sound, "its request is malformed")
        for name in names:
            known = self.neighbours[name] = self.neighbours[name] or body.get("neighbours")
            require(body.get("neighbours") in (None, known), "it is priced for other neighbours")
            self.pay(name, steps, *cost)
        self.keys.add((*names, key))
        self.runs[self.seq] = names, cost, *((steps, 0) if kind == "reserve" else (0, True))

    def move_steps(self, kind: str, body: dict[str, Any]) -> None:  # begins steps, or gives the rest back
        charge, steps = body["charge"], body["steps"]
        require(charge in self.runs and charge not in self.answered, "it is of no open reservation")
        names, cost, rest, drawn = self.runs[charge]
        exact = type(steps) is int and (kind == "draw" or steps == rest)
        require(exact and 0 < steps <= rest, "it takes other steps than are left")
        self.runs[charge] = names, cost, rest - steps, drawn + steps * (kind == "draw")
        for name in names if kind == "return" else ():
            self.pay(name, -steps, *cost)

    def give_up(self, kind: str, body: dict[str, Any]) -> None:  # nothing was read; begun again by one other
        charge, again = body["charge"], kind == "resume"
        of_one = type(charge) is int and charge in self.runs and self.runs[charge][3] is True
        require(of_one and charge not in self.answered, "it is of no open charge")
        require((charge in self.given_up) is again, "given up twice, or begun without being given up")
        require(again or read_amounts(body["cost"], 0), "its cost is malformed")
        self.given_up ^= {charge}

    def pay(self, name: str, times: int, pure: Any, renyi: list[int], side: int, normal: Any) -> None:
        spent, (_, top, tops, most, reserved) = self.spent[name], self.terms[name]
        pure = None if pure is None or spent[0] is None else pure * times + spent[0]
        renyi, side = [a * times + b for a, b in zip(renyi, spent[1], strict=True)], side * times + spent[2]
        known = normal is not None and spent[3] is not None
        normal = [a * times + b for a, b in zip(normal, spent[3], strict=True)] if known else None
        under = any(a <= b for a, b in zip(renyi, tops, strict=True)) or (pure is not None and pure <= top)
        under = under or (known and bool(reserved) and normal[reserved[0]] <= reserved[1])
        require(times < 0 or (side <= most and under), "it spends more than was left")
        self.spent[name] = pure, renyi, side, normal

    def release(self, kind: str, body: dict[str, Any]) -> None:
        charge = body["charge"]
        require(type(charge) is int and charge in self.runs, "it answers what was never charged")
        require(self.runs[charge][3] and charge not in self.answered, "nothing drawn, or for the second time")
        require(charge not in self.given_up, "it answers a charge that was given up")
        require(DIGEST.fullmatch(body["commitment"]), "its commitment is malformed")
        self.answered.add(charge)


def describe_signature(signed: dict[str, Any], trusted: str | None) -> str:
    require(trusted in (None, signed.get("public_key")), "it is not signed with this key")
    if "signature" not in signed:
        return "not signed"
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        text = f"sfumato head 1\n{signed['entry']}\n{signed['head']}".encode()
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signed["public_key"]))
        key.verify(bytes.fromhex(signed["signature"]), text)
    except ImportError:
        return "signature NOT checked, since the cryptography package is missing"
    except Exception as error:
        raise AssertionError("its signature is wrong") from error
    return f"signed with {signed['public_key']}"


def check_export(lines: TextIO, receipts: list[str], trusted: str | None) -> str:
    books, where = Books(), "line 1"
    try:
        for number, line in enumerate(lines, start=1):
            where = f"line {number}"
            if "signature" not in (fields := read_object(line)):
                books.add(fields)
                continue
            books.signed = (fields["entry"], fields["head"]) == (books.seq, books.head)
            require(books.signed, "it signs another head")
            print(f"head {books.head}: {describe_signature(fields, trusted)}")
        for where in receipts:
            with open(where, encoding="utf-8") as file:
                fields = (found := read_object(file.read())).get("receipt", found)
            fields = fields.get("signed", fields)
            require(fields["head"] in books.hashes, "its entry is not here: this is an old or another ledger")
            print(f"{where}: holds, {describe_signature(fields, trusted)}")
    except (AssertionError, KeyError, TypeError, ValueError, RecursionError) as error:
        return f"BROKEN at {where}: {error if type(error) is AssertionError else 'it cannot be read'}"
    of = f"{len(books.answered)} of {len(books.runs)}"
    return f"{books.seq} entries hold, {of} charges answered, head {books.head}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Check an exported sfumato ledger.")
    parser.add_argument("files", nargs="+", help="the export, then receipts")
    parser.add_argument("--key", help="the ledger's public key, as you know it from elsewhere")
    asked = parser.parse_args()
    with open(asked.files[0], encoding="utf-8") as exported:
        print(verdict := check_export(exported, asked.files[1:], asked.key))
    raise SystemExit(verdict.startswith("BROKEN"))
