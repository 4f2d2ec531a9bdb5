"""What people read when the ledger itself fails, whichever database keeps it."""

from __future__ import annotations

from sfumato.errors import LedgerError, SfumatoError

FATAL_CODES = ("SF-L101", "SF-L103", "SF-L108", "SF-L112")
"""After one of these errors the ledger refuses every call: it is damaged, exchanged or in doubt."""


def concerns_all_jobs(error: Exception) -> bool:
    """Return whether an error in one job fails the whole batch.

    Our own errors refuse one job, unless they say that the ledger is damaged. After an error of the database,
    nothing is known about its transaction.
    """
    if isinstance(error, LedgerError):
        return error.code in FATAL_CODES
    return not isinstance(error, SfumatoError)


def busy_error() -> LedgerError:
    return LedgerError(
        "SF-L104", "The ledger is busy, so nothing was done.", try_="the same call again in a moment"
    )


def pending_error() -> LedgerError:
    """Return the error for a key whose charge has no answer yet. Nothing is charged again."""
    return LedgerError(
        "SF-L107",
        "This question was charged under this key and has no answer yet. Nothing more was charged.",
        why="the question is still being answered, or the process that asked has ended",
        try_="ask again in a moment with the same key, or without the key, which is charged again",
    )


def full_error() -> LedgerError:
    return LedgerError("SF-C223", "The disk is too full to write to the ledger.", try_="free some disk space")


def unreadable_error() -> LedgerError:
    """Return the error for files that the system does not let this process use."""
    return LedgerError(
        "SF-L106",
        "The ledger cannot be read or written.",
        try_="check that the disk works, and that this user may write to the ledger's folder",
    )


def missing_error() -> LedgerError:
    return LedgerError(
        "SF-L106",
        "There is no ledger in this place.",
        try_="the folder of a lab; or, if its ledger is lost, sfumato ledger restore COPY",
    )


def unreachable_error() -> LedgerError:
    """Return the error for a server that refuses to be used, for a reason that has no error of its own."""
    return LedgerError(
        "SF-L106",
        "The ledger's server cannot be used.",
        try_="check that the server runs, and that psql accepts the same address",
    )


def unconfirmed_error() -> LedgerError:
    """Return the error for a commit that may have happened. No answer may rest on it."""
    return LedgerError(
        "SF-L108",
        "The disk did not confirm what was written to the ledger, so nothing is answered.",
        spent="this question may have been charged",
        try_="check the disk, then open the ledger again",
    )


def silent_error() -> LedgerError:
    """Return the error for a server that does not answer, while nobody knows why."""
    return LedgerError(
        "SF-L106",
        "The ledger's server did not answer in time, so nothing is answered.",
        why="the server or the network is gone, or a synchronous standby is away",
        try_="psql with the same address, and SELECT * FROM pg_stat_replication there",
    )


def require_same_ledger(same: bool, why: str) -> None:
    """Refuse to go on with files, or with a chain, other than the ones this process has used so far."""
    if not same:
        raise LedgerError(
            "SF-L112",
            "The ledger was replaced or removed while it was in use, so nothing is answered.",
            why=why,
            try_="end every process that uses it, open it again, and check it against a receipt",
        )


def require_agreement(agrees: bool, what: str) -> None:
    """Refuse tables that say something else than the chain."""
    if not agrees:
        raise LedgerError(
            "SF-L101",
            "The ledger's tables do not agree with its chain, so nothing is answered.",
            what=what,
            try_="restore an untouched copy of the ledger, and check it against a receipt",
        )


def stale_snapshot_error(table: str) -> LedgerError:
    """Return the error for a lab whose catalog is older than its ledger."""
    return LedgerError(
        "SF-L136",
        f"The ledger knows another snapshot of '{table}' than this lab, and nothing was charged.",
        why="the table has moved on, here or on another machine, or an older catalog was put back",
        try_="ask again; else copy the newest folder here, or lab.drop and lab.register the table",
    )
