"""What pages say, as frozen values: computed from public metadata, and tested without a browser.

Nothing here reads rows. A page asks one function of this room and hands the value to its template.
"""
