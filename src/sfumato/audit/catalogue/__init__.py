"""The catalogue: everything that is shipped, each with the audit of its claim. `sfumato audit` runs it."""

from importlib.util import find_spec

from sfumato.audit.catalogue.doors import list_doors
from sfumato.audit.catalogue.entries import CatalogueEntry
from sfumato.audit.catalogue.fits import list_fits
from sfumato.audit.catalogue.generators import list_generators
from sfumato.audit.catalogue.mechanisms import list_mechanisms
from sfumato.audit.catalogue.objectives import list_objectives
from sfumato.audit.catalogue.surveys import list_surveys


def list_entries() -> list[CatalogueEntry]:
    """Return everything that is shipped and that the libraries installed here allow to run."""
    entries = [
        *list_mechanisms(),
        *list_doors(),
        *list_surveys(),
        *list_fits(),
        *list_objectives(),
        *list_generators(),
    ]
    return [each for each in entries if not each.needs or find_spec(each.needs)]


__all__ = ["CatalogueEntry", "list_entries"]
