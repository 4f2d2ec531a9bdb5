"""Which regions the rows of a program can come from, found from the program alone.

A unit with given values in the columns of the regions is followed through the program. Whatever else its rows
hold is taken to be anything, so a region is left out only where no row of such a unit can remain.

Because : docs/proofs/regions.md
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from sfumato.curator.plan.possible_rows import Known, RowFollower
from sfumato.engines.program import CellHistogram, CellHistograms, CellSums, KeyedSums, UnitFigures
from sfumato.engines.rows import Scan, list_scans

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sfumato.curator.catalog.regions import Codes, Regions
    from sfumato.engines.program import EngineProgram
    from sfumato.engines.rows import Rows, UnitSizes
    from sfumato.engines.values import Predicate

# What these answer depends on the rows that satisfy `where`, and on nothing else of the snapshots.
_PROGRAMS = (CellSums, CellHistogram, CellHistograms, KeyedSums, UnitFigures)


def find_admitted_accounts(programs: Iterable[EngineProgram[Any]], regions: Regions) -> frozenset[str]:
    """Return the accounts of all regions whose units can have a row that one of the programs reads."""
    admitted: frozenset[str] = frozenset()
    for program in programs:
        if type(program) not in _PROGRAMS:
            return frozenset(regions.list_accounts())
        admitted |= _admit_rows(program.rows, program.where, regions)
    return admitted


@lru_cache(maxsize=512)  # the rounds of a fit read the same rows
def _admit_rows(rows: Rows, where: Predicate, regions: Regions) -> frozenset[str]:
    if regions.snapshot not in {scan.snapshot for scan in list_scans(rows)}:
        return frozenset(regions.list_accounts())
    # A unit without a row keeps a region that nobody can see, or will have one: it may be in any.
    if regions.pinned and _follow_unit(regions, None).can_have_row(rows, where):
        return frozenset(regions.list_accounts())
    return frozenset(
        regions.name_account(codes)
        for codes in regions.list_codes()
        if _follow_unit(regions, codes).can_have_row(rows, where)
    )


def _follow_unit(regions: Regions, codes: Codes | None) -> RowFollower:
    """Return what follows a unit with these values in the columns of the regions.

    Without codes it is a unit that has no row where others have these values.
    """
    return RowFollower(partial(_find_known, regions, codes))


def _find_known(regions: Regions, codes: Codes | None, scan: Scan | UnitSizes) -> Known | None:
    """Return what is known of the unit's rows in a snapshot, or None if it has none there."""
    if not isinstance(scan, Scan) or scan.snapshot != regions.snapshot:
        return Known({})
    # This snapshot says in which region each unit is.
    if codes is None:
        return None
    return Known({name: frozenset((code,)) for name, code in zip(regions.columns, codes, strict=True)})
