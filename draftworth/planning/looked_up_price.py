"""A node's price that the experiment leaves out and AWS was asked for once.

It is kept where CDK keeps what it looks up, in `cdk.context.json` beside `cdk.json`: the CDK CLI
gives it to the app, synthesis asks nobody, and every deploy has the same price until somebody asks
again (docs/decisions/0013-price-lookup.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from draftworth.errors import UserInputError
from draftworth.experiment.aws import Price
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.codec import RecordError, load_object
from draftworth.untrusted import TooLargeError, one_line, read_file

CONTEXT_FILE = Path("cdk.context.json")


def price_key(experiment: ResolvedNeuron) -> str:
    """The key of its price in the context: everything that a price depends on."""
    spec = experiment.spec
    return (
        f"draftworth:price:type={spec.instance_type}:zone={spec.aws.availability_zone}:"
        f"capacity={spec.aws.capacity.kind}"
    )


def context_values(path: Path = CONTEXT_FILE) -> dict[str, Any]:
    """All that has been looked up here; empty without a file.

    Raises:
        UserInputError: the file cannot be read.
    """
    try:
        return load_object(read_file(path))
    except FileNotFoundError:
        return {}
    except (OSError, TooLargeError, RecordError) as error:
        raise UserInputError(f"{path}: cannot be read: {error}") from error


def with_looked_up_price(
    experiment: ResolvedNeuron, looked_up: Callable[[str], Any] | None = None
) -> ResolvedNeuron:
    """The experiment with its own price, else with the one that was looked up, if there is one.

    looked_up: gives what the context has for a key, or None; left out: by `cdk.context.json`.

    Raises:
        UserInputError: what was looked up is no price.
    """
    if experiment.spec.aws.price is not None:
        return experiment
    key = price_key(experiment)
    value = (looked_up or context_values().get)(key)
    return experiment if value is None else with_price(experiment, _price(key, value))


def with_price(experiment: ResolvedNeuron, price: Price) -> ResolvedNeuron:
    """The experiment with another price of a node."""
    aws = experiment.spec.aws.model_copy(update={"price": price})
    return replace(experiment, spec=experiment.spec.model_copy(update={"aws": aws}))


def with_prohibitive_price(experiment: ResolvedNeuron) -> ResolvedNeuron:
    """The experiment at a price that spends its budget in a node's first second.

    For what needs a price to be written and must never run: the templates that a destroy reads.
    """
    price = Price(
        usd_per_hour=3600 * experiment.spec.aws.budget_usd,
        as_of=date(1970, 1, 1),
        source="no price is known: no node may run",
    )
    return with_price(experiment, price)


def _price(key: str, value: Any) -> Price:
    try:
        return Price.model_validate_json(json.dumps(dict(value)))
    except (ValidationError, TypeError, ValueError) as error:
        raise UserInputError(
            f"{CONTEXT_FILE}: {key}\n"
            f"    given:   {one_line(repr(value), characters=200)}\n"
            "    allowed: usd_per_hour, as_of and source, as `python -m draftworth price` writes "
            "them\n"
            f"    next:    npx cdk context --reset '{key}', and look it up again"
        ) from error


def price_values(price: Price) -> Mapping[str, Any]:
    """A price as the context holds it."""
    values: dict[str, Any] = price.model_dump(mode="json")
    return values
