"""Makes acceptance profiles for the shipped search `qwen3-32b-search`."""

import json
from pathlib import Path
from typing import Any

TARGET = "Qwen/Qwen3-32B"
LARGE, SMALL = "drafts/Qwen3-1.7B", "drafts/Qwen3-0.6B"
CLASSES = ("structured", "open_ended")


def draft_of(folder: str) -> dict[str, Any]:
    """Return a draft's part of a profile: each drafted token that is checked adds 0.25 tokens.

    It has an entry for each number of checked tokens from 2 to 14, as windows from 3 to 15 need.
    folder: the name of the draft in the profile.
    """
    windows = [
        {"drafts_checked": checked, "tokens_per_step": {"value": 1 + 0.25 * checked}}
        for checked in range(2, 15)
    ]
    return {"method": "fused_draft", "draft": folder, "classes": dict.fromkeys(CLASSES, windows)}


def write_profile_of(folder: Path, *drafts: dict[str, Any], **changes: object) -> None:
    """Write a profile of these drafts to `profile.json`; `changes` are other top-level keys."""
    profile = {"schema": "draftworth.acceptance/1", "target": TARGET, "source": "a test", **changes}
    (folder / "profile.json").write_text(json.dumps({**profile, "drafts": drafts}))
