"""Files that outlive a crash. Rooms that keep something on disk write it through `durable`.

This room stands below engines and ledger, so that both can use it; it imports nothing of sfumato.
"""
