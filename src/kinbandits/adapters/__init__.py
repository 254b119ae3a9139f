"""Other people's interfaces: our policies in their harnesses, and logs in their layouts.

    adapters.coba    `CobaLearner`: a policy as a learner of coba's experiments
    adapters.river   `RiverPolicy`: a policy in river's bandit interface
    adapters.obp     logs and action distributions as the arrays of the Open Bandit Pipeline
    adapters.vw      logs in and out of Vowpal Wabbit's contextual-bandit JSON

The first two need the package they are for; the last two read and write a layout, and need nothing.
"""
