"""Messages and pages say `draftworth` and not `python -m draftworth`, in a checkout too."""

from tests.conftest import ROOT

PACKAGES = ("charts", "draftworth", "lambdas", "pods", "rehearsal", "stacks", "experiments", "docs")
ENDINGS = {".py", ".yaml", ".toml", ".jinja", ".md"}


def test_messages_and_pages_say_the_programs_name() -> None:
    files = [p for n in PACKAGES for p in (ROOT / n).rglob("*") if p.suffix in ENDINGS]
    assert len(files) > 300
    named = [p for p in files if "python -m draftworth " in p.read_text(encoding="utf-8")]
    assert [str(p.relative_to(ROOT)) for p in named] == []
