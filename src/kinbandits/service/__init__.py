"""The decision service: one process writes a log, and the model is a function of that log.

config, messages       settings; what is sent and answered
events, tables, store  what the log holds; its tables (`databases`: SQLite and PostgreSQL)
commands, ledger, choose   the rules of decisions and rewards; one call of the model for many requests
writer, learner        the two threads: one writes and answers, one teaches the model
stats, snapshots       what is counted; what makes a restart quick
engine                 both threads, supervised
auth, api, metrics, server, dashboard      HTTP
transfer, archive, shadow, verify, demo    commands on a log
"""
