"""Metrics: names, units and dimensions of every figure that is stored, compared or published."""
