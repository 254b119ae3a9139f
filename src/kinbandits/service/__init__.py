"""The decision service: one process writes a log, and the model is computed from that log.

config, messages       settings; requests and answers
events, databases, store   what the log holds; SQLite and PostgreSQL; its tables, reading and writing
ledger, choose         what can be asked, and the rules; one call of the model for many requests
writer, learner        the two threads: one writes and answers, one teaches the model
stats, snapshots       what is counted; what makes a restart quick
engine                 starts, stops and supervises both threads
auth, api, metrics, server, dashboard      HTTP
transfer, verify, demo     export, import and shadow; verify, backup, restore and archive; simulated visitors
"""
