"""How many of simulated intervals have to hold the truth."""

import math


def least_covering(runs: int) -> int:
    """Of intervals that cover with 95%: fewer than this many do in one of a thousand tests."""
    missed, so_far = 0, 0.95**runs
    while so_far < 0.999:
        missed += 1
        so_far += math.comb(runs, missed) * 0.05**missed * 0.95 ** (runs - missed)
    return runs - missed
