"""Long work as jobs: kept in a file of the lab's folder, run in processes of their own, and never run twice.

`store.py` keeps the jobs, `runner.py` starts a process for each, `process.py` is what runs there, and
`tasks.py` knows the kinds of work. A job asks a hostile session, so its rows are read by workers and rounds
end with slots.
"""
