"""Changelog fragments: names that towncrier reads, and one paragraph in each (changelog.d/README.md)."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
FRAGMENTS = sorted(path for path in (ROOT / SETTINGS["directory"]).iterdir() if path.name != "README.md")
NAME = re.compile(rf"\+[a-z0-9-]+\.({'|'.join(each['directory'] for each in SETTINGS['type'])})\.md")


def test_names_say_the_type_of_the_change() -> None:
    wrong = [path.name for path in FRAGMENTS if not NAME.fullmatch(path.name)]
    assert not wrong, f"a fragment is named {NAME.pattern}: {wrong}"


def test_a_fragment_is_one_paragraph() -> None:
    texts = {path.name: path.read_text(encoding="utf-8").strip() for path in FRAGMENTS}
    wrong = [name for name, text in texts.items() if not text or "\n\n" in text or text.startswith(("-", "*", "#"))]
    assert not wrong, f"empty, several paragraphs, or a list: {wrong}"


def test_the_changelog_has_the_place_where_releases_are_written() -> None:
    text = (ROOT / SETTINGS["filename"]).read_text(encoding="utf-8")
    assert text.count(SETTINGS["start_string"]) == 1
