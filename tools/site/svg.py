"""Draws the documentation's pictures: boxes, arrows and words as SVG, readable in light and in dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_STYLE = """
  svg { --card: #ffffff; --line: #57606a; --ink: #1f2328; --soft: #59636e; --grid: #e4e8ec;
        --plain: #f3f5f7; --service: #d8f0ec; --store: #e3ebfb; --warm: #fdeccb; --bad: #fbdcda;
        --a: #2f6fb5; --b: #c9731a; --c: #1c7c5c; --wrong: #c0262d; --right: #17703f; }
  @media (prefers-color-scheme: dark) {
    svg { --card: #171b21; --line: #9aa4b0; --ink: #e6edf3; --soft: #a5afba; --grid: #2b323b;
          --plain: #252b33; --service: #10423c; --store: #1e2f55; --warm: #523a0d; --bad: #5a2022;
          --a: #6aa8ee; --b: #f0a04b; --c: #4cc79b; --wrong: #ff7b80; --right: #56d98f; } }
  .card { fill: var(--card); }
  text { font: 14px system-ui, "Segoe UI", "DejaVu Sans", Arial, sans-serif; fill: var(--ink); }
  .small { font-size: 12px; fill: var(--soft); } .strong { font-weight: 700; }
  .wrong { fill: var(--wrong); font-weight: 700; } .right { fill: var(--right); font-weight: 700; }
  rect.box { stroke: var(--line); stroke-width: 1.2; }
  .plain { fill: var(--plain); } .service { fill: var(--service); } .store { fill: var(--store); }
  .warm { fill: var(--warm); } .bad { fill: var(--bad); }
  .a { fill: var(--a); } .b { fill: var(--b); } .c { fill: var(--c); }
  line, path.arrow { stroke: var(--line); stroke-width: 1.5; fill: none; } .head { fill: var(--line); }
  .dashed { stroke-dasharray: 5 4; } .grid { stroke: var(--grid); stroke-width: 1; }
  line.a, line.b, line.c { stroke-width: 2; stroke-dasharray: 2 4; fill: none; }
  line.a { stroke: var(--a); } line.b { stroke: var(--b); } line.c { stroke: var(--c); }
  .dot { fill: var(--ink); } .dot.wrong { fill: var(--wrong); }
"""


class Picture:
    """One picture. It has a card of its own behind it, so that it can be read on any page."""

    def __init__(self, width: int, height: int, title: str, description: str) -> None:
        self._size = width, height
        self._title, self._description = title, " ".join(description.split())
        self._parts: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, lines: Sequence[str], kind: str = "plain") -> None:
        """Draw a box with words in its middle: the first line is strong, the others are small."""
        self._parts.append(
            f'<rect class="box {kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="7"/>'
        )
        top = y + height / 2 - (len(lines) - 1) * 8.5 + 5
        for number, line in enumerate(lines):
            self.text(x + width / 2, top + 17 * number, line, "small" if number else "strong")

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> None:
        """Write one line of words around, behind (``start``) or before (``end``) a point."""
        self._parts.append(f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>')

    def arrow(self, start: tuple[float, float], end: tuple[float, float], words: str = "", kind: str = "") -> None:
        """Draw an arrow, and words above its middle."""
        (x, y), (to_x, to_y) = start, end
        self._parts.append(f'<path class="arrow {kind}" marker-end="url(#head)" d="M{x:g} {y:g}L{to_x:g} {to_y:g}"/>')
        if words:
            self.text((x + to_x) / 2, (y + to_y) / 2 - 6, words, "small")

    def line(self, start: tuple[float, float], end: tuple[float, float], kind: str = "") -> None:
        """Draw a line."""
        (x, y), (to_x, to_y) = start, end
        self._parts.append(f'<line class="{kind}" x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}"/>')

    def bar(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        """Draw a filled bar."""
        self._parts.append(
            f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:g}" rx="2"/>'
        )

    def dot(self, x: float, y: float, kind: str = "") -> None:
        """Draw a dot."""
        self._parts.append(f'<circle class="dot {kind}" cx="{x:.1f}" cy="{y:.1f}" r="{5.5 if kind else 3.5}"/>')

    def drawn(self) -> str:
        """Return the picture as SVG."""
        width, height = self._size
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
                f' height="{height}" role="img" aria-labelledby="title description">',
                f'<title id="title">{escape(self._title)}</title>',
                f'<desc id="description">{escape(self._description)}</desc>',
                f"<style>{_STYLE}</style>",
                '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8"'
                ' orient="auto-start-reverse"><path class="head" d="M0 1L10 5L0 9z"/></marker>',
                f'<rect class="card" width="{width}" height="{height}" rx="10"/>',
                *self._parts,
                "</svg>\n",
            ]
        )
