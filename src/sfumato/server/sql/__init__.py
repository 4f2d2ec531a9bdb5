"""The door for tools that speak PostgreSQL: released tables for nothing, and questions with a price.

Tools send SQL. What they ask of released tables and of the catalog is answered by a process that holds
nothing else; what they ask of registered tables becomes a question of the analyst's in a hostile session.
"""
