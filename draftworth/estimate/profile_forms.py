"""Reads and writes acceptance profiles, as draftworth's JSON and in the formats of other tools.

A format is called a form here. `profile_forms.toml` has templates of the forms that other tools
read; docs/profiles.md says where each form is defined.
"""

import csv
import io
import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from draftworth.errors import UserInputError
from draftworth.measuring.server_counters import DRAFTS, parse_metrics, speculation_between
from draftworth.records import acceptance_profile
from draftworth.records.codec import RecordError, dump_record, load_value
from draftworth.safe_writing import write_file
from draftworth.untrusted import TooLargeError, one_line, read_file

# For each form, its templates of the text for one window: {form: {name of the template: text}}. The
# template `shares` is for a window with acceptance by position (for each n, the share of steps that
# accept the n-th drafted token). The template `length` is for a window of which only the mean
# tokens per step are known. Some forms have only one of the two templates.
FORMS: Mapping[str, Mapping[str, str]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)
# JSON keys whose value is a list of acceptance by position: the first is a key of vLLM's
# configuration, the second of the results of `vllm bench serve`.
_RATES = ("synthetic_acceptance_rates", "spec_decode_per_position_acceptance_rates")
_NOT_KNOWN = "not known"


def written(form: str, window: acceptance_profile.WindowAcceptance) -> str:
    """Return a window's acceptance as text in the format `form`.

    Empty: the format needs acceptance by position, and the window has none.
    """
    template = FORMS[form]
    shares = [f"{share.value:.6g}" for share in window.accepted]
    return ((shares and template.get("shares")) or template.get("length", "")).format(
        checked=window.drafts_checked,
        length=f"{window.tokens_per_step.value:.6g}",
        accepted=f"{window.tokens_per_step.value - 1:.6g}",
        shares=",".join(shares),
        rows="\n".join(f"{n},{share}" for n, share in enumerate(shares, start=1)),
    )


def inferencex(target: str, draft: acceptance_profile.DraftAcceptance) -> str:
    """Return a draft's tokens per step by prompt class and window, as YAML for InferenceX."""
    tokens = {
        name: {w.drafts_checked: float(f"{w.tokens_per_step.value:.6g}") for w in windows}
        for name, windows in draft.classes.items()
    }
    value = {"_metadata": {"draft-model": draft.draft}, target: tokens}
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=math.inf)
    return text.rstrip("\n")


_READABLE = (
    "an acceptance profile, InferenceX' YAML (model: mode: window: tokens per step), vLLM's "
    "/metrics as text, CSV with the columns position and accepted, or JSON with "
    f"{' or '.join(_RATES)}; next: `draftworth report RUN --profile FILE` writes one"
)


def read_profile(path: Path) -> acceptance_profile.AcceptanceProfile:
    """Read an acceptance profile; raise UserInputError if its format is not a known one."""
    printed_path = one_line(str(path))
    try:
        return _read(path, read_file(path, acceptance_profile.LIMIT_BYTES))
    except OSError as error:
        raise UserInputError(
            f"{printed_path}: cannot be read: {error.strerror}; allowed: {_READABLE}"
        ) from error
    except (RecordError, TooLargeError) as error:
        raise UserInputError(f"{printed_path}: {error}; allowed: {_READABLE}") from error
    except Exception as error:  # a file may have anything in the place of a number or a mapping
        raise UserInputError(
            f"{printed_path}: given {one_line(str(error), characters=120)}; allowed: {_READABLE}"
        ) from error


def _read(path: Path, data: bytes) -> acceptance_profile.AcceptanceProfile:
    text = data.decode()
    if path.suffix in (".yaml", ".yml"):
        return _of_inferencex(yaml.load(text, Loader=_TextLoader), path)  # noqa: S506 (text alone)
    if path.suffix == ".csv":
        lines = csv.DictReader(io.StringIO(text, newline=""))
        rows = sorted((int(line["position"]), float(line["accepted"])) for line in lines)
        if [position for position, _ in rows] != [*range(1, len(rows) + 1)]:
            raise ValueError("positions that do not go from 1 without a gap")
        return _profile(path, {"all": (_window([share for _, share in rows]),)})
    if DRAFTS in text:
        return _profile(path, {"all": (_of_metrics(text),)})
    value = load_value(data, keys_once=True)
    rates = [value[key] for key in _RATES if key in value] if isinstance(value, dict) else []
    return (
        _profile(path, {"all": (_window(rates[0]),)})
        if rates
        else acceptance_profile.load_profile(data)
    )


class _TextLoader(yaml.BaseLoader):
    """Reads YAML scalars as text, so `off` is not False; refuses a mapping that has a key twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        mapping = super().construct_mapping(node, deep)
        if len(mapping) < len(node.value):
            raise ValueError("a key that is there twice")
        return mapping


def _of_inferencex(value: Mapping[str, Any], path: Path) -> acceptance_profile.AcceptanceProfile:
    metadata = value.get("_metadata", {})
    [(target, modes)] = ((key, by_mode) for key, by_mode in value.items() if key != "_metadata")
    classes = {
        str(mode): tuple(
            acceptance_profile.WindowAcceptance(
                drafts_checked=int(n),
                tokens_per_step=acceptance_profile.Measured(value=float(length)),
            )
            for n, length in lengths.items()
        )
        for mode, lengths in modes.items()
    }
    return _profile(path, classes, target=str(target), draft=metadata.get("draft-model"))


def _of_metrics(text: str) -> acceptance_profile.WindowAcceptance:
    """Return the acceptance that a server's counters (its /metrics) show since its start."""
    totals = parse_metrics(text)
    counted = speculation_between(dict.fromkeys(totals, 0.0), totals)
    if counted is None or not counted.drafts:
        raise ValueError("counters without a step")
    return _window([n / counted.drafts for n in counted.accepted_per_position])


def _window(shares: Sequence[float]) -> acceptance_profile.WindowAcceptance:
    return acceptance_profile.WindowAcceptance(
        drafts_checked=len(shares),
        tokens_per_step=acceptance_profile.Measured(value=1 + sum(shares)),
        accepted=tuple(acceptance_profile.Measured(value=float(share)) for share in shares),
    )


def _profile(
    path: Path,
    classes: Mapping[str, acceptance_profile.Windows],
    *,
    target: str = _NOT_KNOWN,
    draft: str | None = None,
) -> acceptance_profile.AcceptanceProfile:
    of_draft = acceptance_profile.DraftAcceptance(
        method=_NOT_KNOWN, draft=draft or _NOT_KNOWN, classes=classes
    )
    return acceptance_profile.AcceptanceProfile(
        target=target,
        source=acceptance_profile.name_of(f"the file {path.name}"),
        drafts=(of_draft,),
    )


def write_profile(profile: acceptance_profile.AcceptanceProfile, path: Path) -> None:
    """Write a profile as JSON; UserInputError: `path` is no .json file or cannot be written."""
    if path.suffix != ".json":  # `read_profile` reads a file with another suffix as another form
        raise UserInputError(
            f"--profile: given {one_line(str(path))}, allowed: a name that ends with .json"
        )
    try:
        write_file(path, dump_record(profile, indent=1))
    except OSError as error:
        raise UserInputError(
            f"--profile: {one_line(str(path))}: cannot be written: {error.strerror}; next: give "
            "another file"
        ) from error
