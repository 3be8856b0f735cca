"""Finds where the experiment's nodes can be bought, and at which price. Nothing here buys."""

from __future__ import annotations
