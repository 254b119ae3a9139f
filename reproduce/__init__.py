"""What reproduces the paper beyond `kinbandits paper`: controls, theory, tables."""
