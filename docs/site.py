"""Pages of the site that stand elsewhere in the repository: README.md as its start, and the rules."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / ".ci" / "packages"))  # fxport is not installed where the site is built

from fxport.diagnostics import rule_pages, rules  # noqa: E402

REPOSITORY = "https://github.com/fxport/fxport/blob/main"
LINK = re.compile(r"(\]\()([^)\s#]+)")
RULE_PAGE = re.compile(r".*diagnostics/pages/(FXP\d{4})-[\w-]+\.md")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    files.append(File.generated(config, "index.md", content=(ROOT / "README.md").read_text("utf-8")))
    files.append(File.generated(config, "rules/index.md", content=_table()))
    for rule in rules.RULES.values():
        files.append(File.generated(config, f"rules/{rule.id}.md", content=rule_pages.page(rule)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links as the site has them: to its own pages where there is one, to the repository otherwise."""
    path = page.file.src_uri
    folder = ROOT if path == "index.md" else (ROOT / "docs" / path).parent
    up = "../" * path.count("/")

    def moved(match: re.Match[str]) -> str:
        target = match[2]
        if "://" in target or path.startswith("rules/"):
            return match[0]
        if found := RULE_PAGE.fullmatch(target):
            return f"{match[1]}{up}rules/{found[1]}.md"
        file = (folder / target).resolve().relative_to(ROOT)
        inside = file.parts[0] == "docs" and files.get_file_from_path("/".join(file.parts[1:])) is not None
        return match[1] + (up + "/".join(file.parts[1:]) if inside else f"{REPOSITORY}/{file.as_posix()}")

    return LINK.sub(moved, markdown)


def _table() -> str:
    rows = (f"| [{rule.id}]({rule.id}.md) | {rule.name} | {rule.level.value} |" for rule in rules.RULES.values())
    return "\n".join(["# Rules", "", "| id | name | level |", "|---|---|---|", *rows, ""])
