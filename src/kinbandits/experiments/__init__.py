"""Experiments: a grid of (environment, method, seed), resumable, on one machine or a cluster; cross-validation."""
