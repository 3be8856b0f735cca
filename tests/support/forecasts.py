"""Forecasts of the shipped search, as `draftworth estimate --json` prints them."""

import json
from pathlib import Path
from typing import Any

TARGET = "Qwen/Qwen3-32B"
LARGE, SMALL = "drafts/Qwen3-1.7B", "drafts/Qwen3-0.6B"
CLASSES = ("structured", "open_ended")


def draft_of(folder: str) -> dict[str, Any]:
    """Return a draft's forecast for windows 3 to 15: each checked draft token yields 0.25."""
    return {
        "target": TARGET,
        "draft_folder": folder,
        "windows": [
            {
                "window": window,
                "drafts_checked": window - 1,
                "tokens_per_step": {name: {"value": 1 + 0.25 * (window - 1)} for name in CLASSES},
            }
            for window in range(3, 16)
        ],
    }


def write_forecast(folder: Path, *drafts: dict[str, Any]) -> None:
    """Write the forecasts of these drafts to `forecast.json`."""
    (folder / "forecast.json").write_text(json.dumps(drafts))
