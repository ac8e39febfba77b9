"""A page of HTML as those who test it need it: its parts, not its markup."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "img", "br", "hr", "input", "link"}


class Page(HTMLParser):
    """Elements, text and tables of a page; refuses tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.source = html
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []  # the element that a text is in, and the text
        self.tables: dict[str, list[list[str]]] = {}  # rows of cells, header included, by caption
        self._open: list[str] = []
        self._rows: list[list[str]] = []
        self._summary = ""
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "summary":
            self._summary = ""
        if tag == "table":
            self._rows = self.tables[self._summary] = []
        if tag == "tr":
            self._rows.append([])
        if tag in ("td", "th"):
            self._rows[-1].append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        inside = self._open[-1] if self._open else ""
        self.texts.append((inside, data))
        if inside == "summary":
            self._summary += data
        if inside in ("td", "th"):
            self._rows[-1][-1] += data

    @property
    def text(self) -> str:
        """All that can be read, on one line."""
        return " ".join(" ".join(data for inside, data in self.texts if inside != "style").split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def table(self, beginning: str) -> list[list[str]]:
        """The rows of the only table whose caption begins so."""
        (rows,) = (rows for caption, rows in self.tables.items() if caption.startswith(beginning))
        return rows
