"""A page for every error code: what it means and what to do. `sfumato explain CODE` prints it."""

CODES: dict[str, str] = {
    # numbers people type
    "SF-N101": "A number is far beyond any sensible bound, scale or ε. Use one below 2^100.",
    "SF-N102": "A number that must be greater than zero is not. Budgets, spends, bounds on rows and steps are positive.",
    "SF-N103": "A whole number is needed here, such as 20 rows.",
    "SF-N104": "A number is needed here and something else was given. Texts and booleans are not read as numbers.",
    "SF-N105": "A number is infinite or not a number at all. Nothing can be priced with it.",
    "SF-N106": "δ is a probability: at least 0 and below 1, and for people far below one over their number.",
    "SF-N107": "The confidence of an interval lies strictly between 0 and 1. 0.95 is the usual choice.",
    "SF-N108": "`given` holds public guesses for a quote. It takes n, the rows you expect in a group.",
    "SF-N109": "A question needs a spend before it is priced or released, such as epsilon=0.1. There is no default.",
    "SF-N110": "The prior chance that someone is in the data lies strictly between 0 and 1.",
    # budgets and quotas
    "SF-B103": "The analyst has no quota in this lab, so nothing can be charged to them. The steward grants one.",
    # the catalog
    "SF-C101": "sf.Unit names the column that says whose row each row is. Use sf.ROW where every row is one person.",
    "SF-C102": "A table is registered with its unit of protection. Without one no sensitivity exists, so it is refused.",
    "SF-C103": "The first table of a population fixes its budget for ever. Give budget=sf.Budget(…).",
    "SF-C104": "The bounds of a column are the wrong way round or equal.",
    "SF-C105": "Numbers are kept as multiples of a step that is a power of two. Leave the step out, or choose one that "
    "puts the bounds at most 2^52 steps from zero and at least one step apart.",
    "SF-C106": "An empty list of values allows nothing.",
    "SF-C107": "The values of a listed column have one type, so that the answer's column has one type whatever the data.",
    "SF-C108": "A value is listed twice, and the second could never be used.",
    "SF-C109": "Numbers in a list are compared as doubles. This one cannot be told apart from the next.",
    "SF-C110": "A table name is used once. Tables are not replaced by registering again.",
    "SF-C111": "The catalog file has another version. Open it with the sfumato that wrote it.",
    "SF-C112": "The catalog file is damaged. Restore it; the ledger and the snapshots are separate files.",
    "SF-C113": "Table names are letters, digits and underscores, at most 63, and start with no digit.",
    "SF-C114": "A column is declared with sf.between(…) or sf.one_of(…). Columns not declared cannot be used.",
    "SF-C115": "The unit's column is the identity that is protected. It can be counted by, never asked about.",
    "SF-C116": "A quota belongs to an analyst with a name.",
    "SF-C117": "A quota is a share of a population's budget, so a table comes first.",
    "SF-C118": "sf.create makes a new folder. To go on with a lab that is there, use sf.open.",
    "SF-C119": "The folder was not made by sf.create or `sfumato init`.",
    # questions
    "SF-Q101": "The text could not be parsed as SQL. The place, where known, is given.",
    "SF-Q102": "One question is one SELECT statement: no other statements, no lists of them, no UNION.",
    "SF-Q103": "A clause or option is outside the closed list that sfumato answers. Asked are SELECT, FROM one table, "
    "WHERE and GROUP BY.",
    "SF-Q104": "Only aggregates with a proven sensitivity can be shown: COUNT, SUM, AVG, and the columns of GROUP BY.",
    "SF-Q105": "An expression is outside the closed list. Aggregates take one declared column; WHERE compares declared "
    "columns with values.",
    "SF-Q106": "The table is not registered in this lab.",
    "SF-Q107": "The column was not declared by the steward. An undeclared column has no bounds, so it has no price.",
    "SF-Q108": "A column shown by itself would show single rows. Aggregate it, or group by it if its values are listed.",
    "SF-Q109": "Groups are named by columns whose values the steward listed; all of them appear, empty ones too.",
    "SF-Q110": "Texts and booleans are not ordered here. Compare with =, <> or IN.",
    "SF-Q111": "A number column is compared with numbers of at most 40 characters and exponents within ±30.",
    "SF-Q112": "The value is not in the column's public list, so the comparison could never hold. Mind the type: "
    "'1' is a text and 1 a number.",
    "SF-Q113": "The text is too long or too deeply nested. Put long lists into a declared column instead.",
    "SF-Q114": "Texts and booleans have no sum. Count them by group instead.",
    "SF-Q115": "Two columns of the answer would have one name. Give one of them another with AS.",
    "SF-Q116": "The keys are public, so showing only them asks nothing. Add an aggregate.",
    "SF-Q117": "The product of the listed values is too many groups for one answer. Group by fewer columns.",
    # the command line
    "SF-U101": "`sfumato explain` takes --epsilon, or the code of an error.",
    # after the charge
    "SF-X901": "Something failed after the charge, and every such failure says this sentence only, because an error "
    "message is a release too. The charge stands. The steward finds the incident in the log.",
}
