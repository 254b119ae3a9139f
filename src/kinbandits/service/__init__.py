"""The decision service: decide and reward over HTTP, from a log that survives a crash (extra ``serve``).

    events      what the log holds; each event carries a digest of all before it
    store       the contract of the log, and its SQL; sqlite and postgres are its two homes
    state       what can be told from the log by reading it once: counts, arms, curves
    engine      one thread that puts requests in order and writes them; one that learns
    app         the HTTP face; dashboard is the pages for people

The log is the truth. Everything else, the model included, is computed from it and can be thrown away.
"""
