"""Other libraries on the same streams: regret, CPU and memory.

problems    18 games, and what a library may know of them
peers       other libraries' policies, and settings to try
written     rivals that no library has, written from their papers
run         settings chosen on seeds that are not scored, then the scored seeds; resumable
page        docs/comparison.md and the CSV file beside it
"""
