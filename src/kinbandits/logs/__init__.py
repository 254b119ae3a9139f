"""Logs in the layouts of others, in and out: `kinbandits.logs.obp` (Open Bandit Pipeline), `kinbandits.logs.vw`."""
