"""The text of the experiment file that `init` writes."""

import json
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from draftworth.cli.new_experiment import NewExperiment


def experiment_text(experiment: NewExperiment) -> str:
    """Return the experiment as a YAML file with comments."""
    return _template().render(vars(experiment))


@cache
def _template() -> Template:
    environment = Environment(  # noqa: S701 (YAML, in which each value is JSON)
        loader=PackageLoader("draftworth.cli", "."),
        finalize=lambda value: json.dumps(value, ensure_ascii=False),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("experiment.yaml.jinja")
