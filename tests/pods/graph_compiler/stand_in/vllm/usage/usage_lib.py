"""Who uses the engine."""

from __future__ import annotations

from enum import Enum


class UsageContext(Enum):
    OPENAI_API_SERVER = "OPENAI_API_SERVER"
