"""Escapes for text of the user's: names and errors may hold anything, and no format may interpret it."""

from __future__ import annotations

import re

# Controls, direction marks and overrides (CVE-2021-42574), line separators, surrogates, and what XML 1.0 cannot hold.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff\ud800-\udfff]"
)
_MARKDOWN = re.compile(r"([\\`*_\[\]#|~$:]|(?<=www)\.)")  # the colon and the dot make a link of an address
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
_COMMAND = re.compile(r"^([^\S\n]*)::", re.M)
_AZURE_COMMAND = re.compile(r"##(?=\[|vso\[)")
_LINK = re.compile(r"\](?=\()")


def visible(text: str) -> str:
    r"""The text with its unseen characters spelled out, as in `\u202e`; tabs and line feeds stay."""
    return _UNSEEN.sub(_spelled, text)


def one_line(text: str) -> str:
    """Visible, and with its line ends and tabs as single spaces."""
    return visible(" ".join(text.split()) if any(end in text for end in "\n\r\t") else text)


def terminal(text: str) -> str:
    """Text of several lines as a log of CI shows it: visible, and no line of it is taken for a command.

    GitHub's runner takes a line that begins with `::`, after blanks, and `##[` anywhere; that of Azure takes `##vso[`.
    """
    return _AZURE_COMMAND.sub("# #", _COMMAND.sub(r"\1: :", visible(text)))


def markdown(text: str) -> str:
    """One line for Markdown, in which nothing is a link, a mark-up, HTML, or a mention."""
    safe = "".join(_HTML.get(character, character) for character in one_line(text))
    # GitHub looks for mentions after rendering, where a backslash is gone: an empty comment parts sign and name.
    return _MARKDOWN.sub(r"\\\1", safe).replace("@", "@<!-- -->")


def markdown_code(text: str) -> str:
    """One line as a code span, fenced by more backticks than it holds (CommonMark §6.1)."""
    text = one_line(text)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def sarif(text: str) -> str:
    """Text of a SARIF message in which no part is taken for an embedded link (§3.11.6).

    The backslash that the standard has for this is unknown to Microsoft's viewer, so a space parts `[a]` and `(b)`.
    """
    return _LINK.sub("] ", visible(text))


def command_data(text: str) -> str:
    """The message of a GitHub workflow command."""
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def command_property(text: str) -> str:
    """A property of a GitHub workflow command."""
    return command_data(one_line(text)).replace(":", "%3A").replace(",", "%2C")


def _spelled(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
