"""`draftworth profile`: converts acceptance profiles to and from the formats of other tools."""

import argparse
from collections.abc import Mapping
from typing import TypeVar

from draftworth.cli.arguments import existing_path
from draftworth.errors import UserInputError
from draftworth.estimate.profile_forms import FORMS, inferencex, read_profile, written
from draftworth.records.codec import dump_record

T = TypeVar("T")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file, the format to print, and which draft, class and window of the file to print."""
    parser.add_argument(
        "profile",
        metavar="FILE",
        type=existing_path,
        help="an acceptance profile, InferenceX' YAML, vLLM's /metrics as text, or a table of "
        "shares by position (CSV or JSON)",
    )
    forms = ("profile", "inferencex", *FORMS)
    parser.add_argument(
        "--form", choices=forms, default=forms[0], help="form of the output (profile)"
    )
    parser.add_argument("--draft", metavar="NAME", help="only this draft")
    parser.add_argument("--class", metavar="NAME", dest="prompt_class", help="only this class")
    parser.add_argument("--drafts-checked", metavar="N", help="only the window of N drafted tokens")


def run(arguments: argparse.Namespace) -> int:
    """Print the profile, or one draft or window of it, in the format that `--form` names."""
    profile = read_profile(arguments.profile)
    if arguments.form == "profile":
        print(dump_record(profile, indent=1).decode().rstrip())
        return 0
    draft = _one("--draft", arguments.draft, {each.draft: each for each in profile.drafts})
    if arguments.form == "inferencex":
        print(inferencex(profile.target, draft))
        return 0
    windows = _one("--class", arguments.prompt_class, draft.classes)
    by_size = {str(window.drafts_checked): window for window in windows}
    window = _one("--drafts-checked", arguments.drafts_checked, by_size)
    if not (text := written(arguments.form, window)):
        raise UserInputError(
            f"--form: given {arguments.form} of a window without acceptance by position, allowed: "
            f"{', '.join(name for name, template in FORMS.items() if 'length' in template)}"
        )
    print(text)
    return 0


def _one(option: str, name: str | None, choices: Mapping[str, T]) -> T:
    if name is None and len(choices) == 1:
        return next(iter(choices.values()))
    if name is None or name not in choices:
        raise UserInputError(
            f"{option}: given {name or 'nothing'}, allowed: one of {', '.join(choices)}"
        )
    return choices[name]
