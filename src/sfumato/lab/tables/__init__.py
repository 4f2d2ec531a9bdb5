"""Tables of a lab: what must hold before one is registered, what a steward is told, and schema files."""
