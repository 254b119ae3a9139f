"""What reproduces the paper: published settings, protocol, cross-validation, claims and report.

experiment = protocol.paper_experiment(["digits"], seeds=3)
run_experiment(experiment, "runs/digits")
report.write_paper_report("runs/digits")
"""
