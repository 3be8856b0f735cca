"""Reads the price of a node that was looked up, and says whether a price is recent enough.

`draftworth price` asks AWS once for a price that the experiment leaves out, and writes it to
`cdk.context.json`. Synthesis only reads this file, so every deploy has the same price until a user
runs the command again (docs/decisions/0013-price-lookup.md).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from draftworth.errors import UserInputError
from draftworth.experiment.aws import Price
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.codec import RecordError, load_object
from draftworth.untrusted import TooLargeError, one_line, read_file

CONTEXT_FILE = Path("cdk.context.json")
# Days after which a price is old. Spot prices change every day, list prices rarely; the price of a
# Capacity Block is already paid, and does not get old.
_MAX_AGE_DAYS: Mapping[str, int] = {"spot": 14, "on_demand": 90}


def price_key(experiment: ResolvedNeuron) -> str:
    """Return the key of a node's price in `cdk.context.json`.

    It has all that the price depends on: instance type, availability zone and kind of capacity.
    """
    spec = experiment.spec
    return (
        f"draftworth:price:type={spec.instance_type}:zone={spec.aws.availability_zone}:"
        f"capacity={spec.aws.capacity.kind}"
    )


def context_values(path: Path = CONTEXT_FILE) -> dict[str, Any]:
    """Return the content of `cdk.context.json`, empty if there is no such file.

    Raises:
        UserInputError: the file cannot be read or is no JSON object.
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
    """Return the experiment with its file's price of a node, or else one that was looked up.

    looked_up: a function that returns the stored price for a key (`price_key`), or None if there is
        none; by default it reads `cdk.context.json`. Without any price, the experiment is returned
        as it is.

    Raises:
        UserInputError: the stored value is not a price.
    """
    if experiment.spec.aws.price is not None:
        return experiment
    key = price_key(experiment)
    value = (looked_up or context_values().get)(key)
    return experiment if value is None else with_price(experiment, _price(key, value))


def with_price(experiment: ResolvedNeuron, price: Price) -> ResolvedNeuron:
    """Return the experiment with `price` as the price of a node."""
    aws = experiment.spec.aws.model_copy(update={"price": price})
    return replace(experiment, spec=experiment.spec.model_copy(update={"aws": aws}))


def with_prohibitive_price(experiment: ResolvedNeuron) -> ResolvedNeuron:
    """Return the experiment with a price at which one second of a node costs the whole budget.

    Templates that are made only for `cdk destroy` need a price, and must never start a node.
    """
    price = Price(
        usd_per_hour=3600 * experiment.spec.aws.accelerator_budget_usd,
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
            "    allowed: usd_per_hour, as_of and source, as `draftworth price` writes "
            "them\n"
            f"    next:    npx cdk context --reset '{key}', and look it up again"
        ) from error


def price_doubt(experiment: ResolvedNeuron, today: date) -> str:
    """Return why the price should be looked up again, in words that can follow "which is".

    The text is empty if the price is recent or missing.
    """
    aws = experiment.spec.aws
    if aws.price is None:
        return ""
    # `today` is the date in UTC; in the user's time zone the next day may have begun.
    if aws.price.as_of > today + timedelta(days=1):
        return "in the future"
    most = _MAX_AGE_DAYS.get(aws.capacity.kind)
    if most is not None and today - aws.price.as_of > timedelta(days=most):
        return f"more than {most} days ago"
    return ""


PRICE_RENEWAL = (
    "look it up again and set it; if it is left out: `draftworth price EXPERIMENT --again`"
)
