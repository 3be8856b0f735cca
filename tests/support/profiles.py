"""Acceptance profiles of the shipped search."""

import json
from pathlib import Path
from typing import Any

TARGET = "Qwen/Qwen3-32B"
LARGE, SMALL = "drafts/Qwen3-1.7B", "drafts/Qwen3-0.6B"
CLASSES = ("structured", "open_ended")


def draft_of(folder: str) -> dict[str, Any]:
    """Return a draft's acceptance for windows 3 to 15: each checked draft token yields 0.25."""
    windows = [
        {"drafts_checked": checked, "tokens_per_step": {"value": 1 + 0.25 * checked}}
        for checked in range(2, 15)
    ]
    return {"method": "fused_draft", "draft": folder, "classes": dict.fromkeys(CLASSES, windows)}


def write_profile_of(folder: Path, *drafts: dict[str, Any], **changes: object) -> None:
    """Write the profile of these drafts to `profile.json`."""
    profile = {"schema": "draftworth.acceptance/1", "target": TARGET, "source": "a test", **changes}
    (folder / "profile.json").write_text(json.dumps({**profile, "drafts": drafts}))
