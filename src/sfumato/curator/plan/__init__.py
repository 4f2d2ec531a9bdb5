"""What a question costs: contribution bounds, sensitivity, noise and price, from public facts only.

`plan.price_question` makes a plan of a resolved question and a spend; other questions have a `plan_…` of
their own. Nothing here reads a row. What a step writes into a request hash never changes.
"""
