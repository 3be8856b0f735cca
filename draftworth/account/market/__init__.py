"""What of the experiment's nodes can be bought where, and for how much. Nothing here buys."""

from __future__ import annotations
