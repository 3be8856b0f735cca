"""The checks that the model hub has each model, and that the experiment's token may read it.

The staging Job finds out too, but only when a deploy has paid for a cluster for half an hour.
"""

from collections.abc import Mapping
from http import HTTPStatus

from draftworth.account import model_hub
from draftworth.account.checks import check

_LOOK = f"look at the model's page at {model_hub.HUB}: staging it may fail"


def models(situation: check.Situation) -> check.CheckResult:
    """Check that the hub has each model at its revision, without a token.

    If the experiment has a token, a model that only a token shows is left to `model_access`.
    """
    spec = situation.experiment.spec
    hidden = () if spec.aws.hub_token_secret is None else (HTTPStatus.UNAUTHORIZED,)
    try:
        answers = {
            f"{m.model}@{m.revision}": model_hub.revision_status(m.model, m.revision)
            for m in spec.models
        }
    except model_hub.UnansweredError as error:
        return check.warned(str(error), _LOOK)
    if missing := _names(answers, *({HTTPStatus.NOT_FOUND, HTTPStatus.UNAUTHORIZED} - {*hidden})):
        return check.failed(
            f"the hub has no such model or revision, or it is private: {missing}",
            "correct `model` or `revision`; a private model needs aws.hub_token_secret",
        )
    return _warned(answers, HTTPStatus.OK, *hidden) or check.passed(
        f"the hub has {_names(answers, HTTPStatus.OK)}"
    )


def model_access(situation: check.Situation, token: str) -> check.CheckResult:
    """Check that the account of the token may read each model."""
    models = situation.experiment.spec.models
    try:
        answers = {m.model: model_hub.access_status(m.model, token) for m in models}
    except model_hub.UnansweredError as error:
        return check.warned(str(error), _LOOK)
    if HTTPStatus.UNAUTHORIZED in answers.values():
        return check.failed("the hub refuses the token", "put a valid token into the secret")
    if unreadable := _names(answers, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND):
        return check.failed(
            f"the account of the token may not read {unreadable}",
            f"accept the conditions at {model_hub.HUB}/MODEL with that account, and let a "
            "fine-grained token read public gated repositories",
        )
    return _warned(answers, HTTPStatus.OK) or check.passed(
        f"the token may read {_names(answers, HTTPStatus.OK)}"
    )


def _names(answers: Mapping[str, int], *statuses: int) -> str:
    return ", ".join(name for name, status in answers.items() if status in statuses)


def _warned(answers: Mapping[str, int], *expected: int) -> check.CheckResult | None:
    """Return a warning of the answers with other statuses; None: there are none."""
    unexpected = {name: status for name, status in answers.items() if status not in expected}
    words = (f"the hub answers {status} for {name}" for name, status in unexpected.items())
    return check.warned(", ".join(words), _LOOK) if unexpected else None
