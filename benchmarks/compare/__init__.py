"""The libraries that users would pick instead, on the same streams: regret, cost, and what they do with bad input.

peers    their policies behind one small interface, and the settings tried
plan     which environments, methods and seeds
edges    NaN, unknown arms, arms added midway
costs    CPU and memory, each in a process of its own
run      the grid first, then the best of each on all seeds; resumable
page     tables and the figure, as a page and as a CSV file
"""
