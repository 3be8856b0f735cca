"""The dependency rule: who may import whom (`docs/architecture.md`)."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

from charts.shipped import SHIPPED, source_files
from tests.conftest import PACKAGES, ROOT
from tests.support.documents import assert_block

# The only room of the domain that calls AWS; its commands are imported when they are called.
ACCOUNT = "draftworth/account"
# The only module of the domain that only the engine's interpreter imports.
ENGINE = "draftworth/estimate/forward_pass.py"
# The only module of the domain that imports the engine's installer, and commands by their names.
COMMAND_TABLE = "draftworth/cli/__init__.py"
# The only command whose work is outside the domain.
REHEARSE = "draftworth/cli/rehearse_command.py"
# The only modules of the domain that import charts: those of the command `manifests`, which the
# command table imports when it is called.
CHART_COMMANDS = (
    "draftworth/cli/manifests.py",
    "draftworth/cli/manifests_command.py",
    "draftworth/cli/manifests_next_steps.py",
    "draftworth/cli/manifests_winner.py",
    "draftworth/cli/manifests_winner_next_steps.py",
)
MAY_IMPORT = {
    "draftworth": {"draftworth"},
    "charts": {"charts", "draftworth"},
    "lambdas": {"lambdas", "draftworth"},
    "pods": {"pods", "draftworth"},
    "stacks": {"stacks", "charts", "draftworth"},
    # The rehearsal puts the deployed parts together on one machine, as `stacks` does on AWS.
    "rehearsal": {"rehearsal", "pods", "lambdas", "draftworth"},
    ACCOUNT: {"draftworth"},
    ENGINE: {"draftworth"},
    COMMAND_TABLE: {"draftworth", "rehearsal"},
    REHEARSE: {"draftworth", "rehearsal"},
    **{file: {"draftworth", "charts"} for file in CHART_COMMANDS},
}
_OF_THE_ENGINE = {"torch", "transformers", "safetensors", "vllm"}
_AWS_AND_KUBERNETES = {
    *("aws_cdk", "cdk8s", "cdk8s_plus_35", "constructs", "boto3", "botocore", "moto"),
}
# What the domain must not know, and what a package of another layer must not reach for.
FOREIGN = {
    "draftworth": _AWS_AND_KUBERNETES | _OF_THE_ENGINE,
    "charts": {"aws_cdk", "boto3", "botocore", "moto"},
    "lambdas": {"aws_cdk", "cdk8s", "cdk8s_plus_35", "pydantic", "yaml", "moto"},
    "pods": {"aws_cdk", "cdk8s", "cdk8s_plus_35", "pydantic", "yaml", "moto"},
    "stacks": {"boto3", "moto"},
    "rehearsal": {"aws_cdk", "cdk8s", "cdk8s_plus_35"},
    ACCOUNT: {"aws_cdk", "cdk8s", "cdk8s_plus_35", "constructs", "moto"},
    ENGINE: _AWS_AND_KUBERNETES,
    COMMAND_TABLE: _AWS_AND_KUBERNETES | _OF_THE_ENGINE,
    REHEARSE: _AWS_AND_KUBERNETES | _OF_THE_ENGINE,
    **dict.fromkeys(CHART_COMMANDS, _AWS_AND_KUBERNETES | _OF_THE_ENGINE),
}
# The rooms of `draftworth`, lowest first, and which other rooms each may import.
_GROUND = {"errors", "safe_writing", "untrusted", "speculation"}
ROOMS: dict[str, set[str]] = {
    "errors": set(),
    "safe_writing": set(),
    "untrusted": {"errors"},
    "speculation": set(),
    "neuron_versions": set(),
    "child_processes": set(),
    "image_registry": {"errors", "untrusted"},
    "terminal": {"untrusted"},
    "records": _GROUND,
    "importing": {*_GROUND, "records"},
    "experiment": {*_GROUND, "records", "neuron_versions"},
    "metrics": {*_GROUND, "records"},
    "analysis": {*_GROUND, "records", "metrics"},
    "serving": {*_GROUND, "records", "experiment"},
    "searching": {*_GROUND, "records", "metrics", "analysis"},
    "decision": {*_GROUND, "records", "metrics", "analysis"},
    "report": {*_GROUND, "terminal", "records", "metrics", "analysis", "decision"},
    # A run writes `verdict.json`, whose sentences are those of the report.
    "measuring": {
        *(*_GROUND, "records", "metrics", "analysis", "searching", "decision", "report"),
    },
    "planning": {
        *(*_GROUND, "records", "experiment", "analysis", "serving", "measuring"),
        "metrics",
        "searching",
    },
    "truth": {*_GROUND, "records", "child_processes"},
    "estimate": {
        *(
            *_GROUND,
            "records",
            "experiment",
            "analysis",
            "decision",
            "metrics",
            "measuring",
            "report",
            "planning",
        ),
        "child_processes",
    },
    "claims": {
        *(*_GROUND, "records", "experiment", "metrics", "analysis", "decision", "report"),
        "truth",
    },
    "account": {
        *(*_GROUND, "terminal", "records", "experiment", "serving", "planning"),
        "image_registry",
    },
    "cli": {
        *(*_GROUND, "terminal", "records", "experiment", "analysis", "serving", "measuring"),
        "account",
        "decision",
        "metrics",
        "child_processes",
        "searching",
        "report",
        "planning",
        "estimate",
        "importing",
        "claims",
        "truth",
    },
}
# What pods and functions run needs no package of ours, but for the client's HTTP parser.
STDLIB_ONLY = {
    "errors": set[str](),
    "safe_writing": set(),
    "untrusted": set(),
    "speculation": set(),
    "neuron_versions": set(),
    "child_processes": set(),
    "records": set(),
    "metrics": set(),
    "analysis": set(),
    "decision": set(),
    "searching": set(),
    "measuring": {"httptools"},
    "truth": set(),
}


@functools.cache
def imported_modules(source: str) -> frozenset[str]:
    """Return the full names of the modules that a module imports, anywhere in it."""
    imported: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported |= {_module_of(node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Call) and _is_import_by_name(node):
            imported |= {str(a.value) for a in node.args if isinstance(a, ast.Constant)}
    return frozenset(imported)


def _is_import_by_name(node: ast.Call) -> bool:
    return ast.unparse(node.func).endswith("import_module")


def _module_of(parent: str, name: str) -> str:
    """Return the name in full if it is a module of ours, else the module that it is in."""
    path = ROOT.joinpath(*parent.split("."), name)
    is_module = path.is_dir() or path.with_suffix(".py").is_file()
    return f"{parent}.{name}" if parent.split(".")[0] in PACKAGES and is_module else parent


def imported_names(source: str) -> set[str]:
    """Return the packages that a module imports, ours and others."""
    return {module.split(".")[0] for module in imported_modules(source)}


def imported_rooms(source: str) -> set[str]:
    """Return the rooms of `draftworth` that a module imports."""
    names = (module.split(".") for module in imported_modules(source))
    return {parts[1] for parts in names if parts[0] == "draftworth" and len(parts) > 1}


def room_files(room: str) -> list[Path]:
    path = ROOT / "draftworth" / room
    return sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def violations(package: str, source: str) -> set[str]:
    names = imported_names(source)
    ours = names & set(PACKAGES)
    return (ours - MAY_IMPORT[package]) | (names & FOREIGN[package])


def modules(package: str) -> list[Path]:
    """Return the files of a package; some subpackages count as packages of their own."""
    path = ROOT / package
    if path.is_file():
        return [path]
    parts = (ACCOUNT, ENGINE, COMMAND_TABLE, REHEARSE, *CHART_COMMANDS)
    apart = [ROOT / part for part in parts if part != package]
    return [f for f in sorted(path.rglob("*.py")) if not {f, *f.parents} & {*apart}]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_what_it_may(package: str) -> None:
    files = modules(package)
    assert files
    violations_by_file = {
        str(f.relative_to(ROOT)): violations(package, f.read_text()) for f in files
    }
    assert {name: names for name, names in violations_by_file.items() if names} == {}


@pytest.mark.parametrize(
    ("package", "source"),
    [
        ("draftworth", "import boto3"),
        ("draftworth", "def f():\n    import torch"),
        ("draftworth", "def f():\n    from charts import names"),
        ("draftworth", "importlib.import_module('charts.names')"),
        ("charts", "import stacks.cluster"),
        ("lambdas", "from pydantic import BaseModel"),
        ("stacks", "import lambdas.metrics_publisher"),
        (ACCOUNT, "from stacks.network import NetworkStack"),
        (COMMAND_TABLE, "from charts import names"),
        (REHEARSE, "def f():\n    from charts import names"),
        (CHART_COMMANDS[0], "import cdk8s"),
        (CHART_COMMANDS[0], "from rehearsal.install import install_engine"),
    ],
)
def test_a_planted_violation_is_reported(package: str, source: str) -> None:
    assert violations(package, source)


def test_only_the_command_manifests_imports_charts() -> None:
    """Neither charts nor one of its modules, which import charts, is imported elsewhere."""
    commands = {".".join(Path(file).with_suffix("").parts) for file in CHART_COMMANDS}
    files = {f: imported_modules(f.read_text()) for f in (ROOT / "draftworth").rglob("*.py")}
    importers = {
        str(file.relative_to(ROOT))
        for file, imported in files.items()
        if imported & commands or "charts" in {name.split(".")[0] for name in imported}
    }
    assert importers == {*CHART_COMMANDS}


def names_worked_out(source: str) -> list[str]:
    """Return imports by a computed name, which this test cannot read.

    A module whose text has no such import is not parsed.
    """
    if "import_module" not in source:
        return []
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    by_name = (call for call in calls if _is_import_by_name(call))
    return [ast.unparse(c) for c in by_name if not isinstance(c.args[0], ast.Constant)]


def test_only_the_command_table_imports_by_name() -> None:
    files = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
    by_file = {str(f.relative_to(ROOT)): names_worked_out(f.read_text()) for f in files}
    assert [file for file, calls in by_file.items() if calls] == [COMMAND_TABLE]


@pytest.mark.parametrize("package", [*PACKAGES, "benchmarks"])
def test_nothing_but_tests_imports_tests(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert [f.name for f in files if "tests" in imported_names(f.read_text())] == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_rooms_below_it(room: str) -> None:
    arrows = {
        f"{file.relative_to(ROOT)} imports {other}"
        for file in room_files(room)
        for other in imported_rooms(file.read_text()) - ROOMS[room] - {room}
    }
    assert arrows == set()


@pytest.mark.parametrize(
    "file", [ROOT / "app.py", *modules("stacks"), *modules("charts")], ids=lambda f: f.name
)
def test_a_deploy_imports_no_command(file: Path) -> None:
    """What a command and a synthesis share is in the domain or the charts, not in a command."""
    assert not imported_rooms(file.read_text()) & {"cli"}


def test_every_room_has_a_floor_without_upward_arrows() -> None:
    rooms_there = {p.stem for p in (ROOT / "draftworth").glob("[a-z]*") if p.stem != "__pycache__"}
    assert rooms_there == set(ROOMS)
    order = list(ROOMS)
    assert all(order.index(other) < order.index(room) for room in ROOMS for other in ROOMS[room])


def test_a_planted_arrow_between_rooms_is_reported() -> None:
    planted = "def f():\n    from draftworth.planning.timeline import forecast"
    assert imported_rooms(planted) - ROOMS["report"] == {"planning"}


@pytest.mark.parametrize("room", STDLIB_ONLY)
def test_pods_and_functions_run_the_standard_library(room: str) -> None:
    for file in room_files(room):
        foreign = imported_names(file.read_text()) - set(sys.stdlib_module_names)
        assert foreign <= {"draftworth", *STDLIB_ONLY[room]}, file


@pytest.mark.parametrize("shipped", SHIPPED)
def test_what_travels_together_imports_nothing_that_stays(shipped: str) -> None:
    names = set(source_files(SHIPPED[shipped]))
    for name in (name for name in names if name.endswith(".py")):
        for module in imported_modules((ROOT / name).read_text()):
            if module.split(".")[0] not in PACKAGES or module in PACKAGES:
                continue
            path = module.replace(".", "/")
            assert {f"{path}.py", f"{path}/__init__.py"} & names, f"{name} imports {module}"


def test_the_domain_loads_no_aws_or_kubernetes_library() -> None:
    """Also indirectly: the test looks at the modules in memory after all imports."""
    domain = [
        ".".join(f.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for f in modules("draftworth")
        if f.name != "__main__.py"
    ]
    loaded = f"sorted({FOREIGN['draftworth']!r} & set(sys.modules))"
    code = f"import sys, {', '.join(domain)}; print({loaded})"
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"


def test_the_architecture_page_shows_what_travels() -> None:
    lines = (
        f"- **{to}**: {', '.join(f'`{f}`' for f in folders)}" for to, folders in SHIPPED.items()
    )
    page = ROOT / "docs" / "architecture.md"
    assert_block(page, "shipped", "\n" + "\n".join(lines) + "\n\n")
