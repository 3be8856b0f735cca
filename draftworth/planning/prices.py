"""What a node costs: a price that was looked up, and whether a price is recent enough.

AWS is asked once for a price that the experiment leaves out. It is kept where CDK keeps what it
looks up, in `cdk.context.json` beside `cdk.json`: the CDK CLI gives it to the app, synthesis asks
nobody, and every deploy has the same price until somebody asks again
(docs/decisions/0013-price-lookup.md).
"""

from __future__ import annotations

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
# Days after which a price is asked for again. Spot prices move by the day, list prices rarely; a
# Capacity Block's is what was paid for it, and gets no older.
_MAX_AGE_DAYS: Mapping[str, int] = {"spot": 14, "on_demand": 90}


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


def price_doubt(experiment: ResolvedNeuron, today: date) -> str:
    """Why the price should be looked up again, as words after "which is".

    They are empty where it is recent, or there is no price.
    """
    aws = experiment.spec.aws
    if aws.price is None:
        return ""
    # Today is that of UTC; where the reader is, tomorrow may have begun.
    if aws.price.as_of > today + timedelta(days=1):
        return "in the future"
    most = _MAX_AGE_DAYS.get(aws.capacity.kind)
    if most is not None and today - aws.price.as_of > timedelta(days=most):
        return f"more than {most} days ago"
    return ""


def price_renewal(price: Price) -> str:
    """The next step of a user whose price is old."""
    return (
        f"look it up again ({price.source}) and set aws.price, or, where the experiment leaves it "
        "out, `python -m draftworth price EXPERIMENT --again`"
    )
