"""The program of the measuring Job."""

from __future__ import annotations
