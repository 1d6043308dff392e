"""Which repository the sources are of, read from files that may be anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from fxport.diagnostics.sarif.provenance import provenance_of


def repository(root: Path, url: str) -> Path:
    refs = root / ".git" / "refs" / "heads"
    refs.mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (root / ".git" / "config").write_text(
        f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {url}\n\tfetch = +a:b\n\tfetch = +c:d\n', encoding="utf-8"
    )
    (refs / "main").write_text("e" * 40 + "\n", encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("git@github.com:me/proj.git", "https://github.com/me/proj.git"),
        ("https://me:s3cret@example.org/proj", "https://example.org/proj"),
        ("ssh://git@example.org/proj", "ssh://example.org/proj"),
    ],
)
def test_provenance_names_the_repository_without_credentials(url: str, shown: str, tmp_path: Path) -> None:
    found = provenance_of(repository(tmp_path, url))
    assert found is not None
    assert (found.repository, found.revision, found.branch) == (shown, "e" * 40, "main")


def test_provenance_of_packed_and_detached_heads(tmp_path: Path) -> None:
    root = repository(tmp_path, "https://example.org/proj")
    (root / ".git" / "refs" / "heads" / "main").unlink()
    (root / ".git" / "packed-refs").write_text("# pack-refs\n" + "a" * 40 + " refs/heads/main\n", encoding="utf-8")
    packed = provenance_of(root)
    (root / ".git" / "HEAD").write_text("b" * 40 + "\n", encoding="utf-8")
    detached = provenance_of(root)
    assert packed is not None
    assert detached is not None
    assert (packed.revision, detached.revision, detached.branch) == ("a" * 40, "b" * 40, None)


@pytest.mark.parametrize("config", ["", "[core]\n", '[remote "origin"]\n\turl = /local/path\n', "broken", "\x00[["])
def test_a_repository_that_tells_nothing_is_no_provenance(config: str, tmp_path: Path) -> None:
    repository(tmp_path, "https://example.org/x")
    (tmp_path / ".git" / "config").write_text(config, encoding="utf-8")
    assert provenance_of(tmp_path) is None
    assert provenance_of(tmp_path / "absent") is None


HEADS = ("ref: ../../secret", "ref: {root}/secret", "ref: refs/../../secret", "some text", "a\0")


@pytest.mark.parametrize("head", HEADS)
def test_only_commits_of_branches_are_told(head: str, tmp_path: Path) -> None:
    root = repository(tmp_path / "project", "https://example.org/proj")
    for path in (tmp_path / "secret", root / "secret"):
        path.write_text("secret")
    (root / ".git" / "HEAD").write_text(head.format(root=root))
    found = provenance_of(root)
    assert found is None or found.revision is None
