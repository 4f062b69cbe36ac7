"""A chart of measurements as SVG, both axes logarithmic, one panel for each kind of batch; no library of charts is installed for it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from xml.sax.saxutils import escape

WIDTH: Final = 340
HEIGHT: Final = 240
MARGIN: Final = 46
COLOURS: Final = ("#b3453a", "#1f6f8b", "#6a994e", "#8d6a9f", "#c98b2b")


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement: the panel that it stands in, the line that it belongs to, and its place; both numbers are above 0."""

    panel: str
    line: str
    x: float
    y: float


def chart(points: Sequence[Point], title: str) -> str:
    """Returns the SVG text of a chart, three panels in a row."""
    panels, lines = list(dict.fromkeys(point.panel for point in points)), list(dict.fromkeys(point.line for point in points))
    colours = {line: COLOURS[number % len(COLOURS)] for number, line in enumerate(lines)}
    rows = -(-len(panels) // 3)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{min(3, len(panels)) * WIDTH}" height="{rows * HEIGHT + 60}"'
        ' font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="18" font-size="14">{escape(title)}</text>',
    ]
    parts += [f'<text x="{10 + 110 * number}" y="38" fill="{colours[line]}">{escape(line)}</text>' for number, line in enumerate(lines)]
    ys = _ends([point.y for point in points])
    for number, panel in enumerate(panels):
        own = [point for point in points if point.panel == panel]
        place = f"translate({number % 3 * WIDTH}, {50 + number // 3 * HEIGHT})"
        parts += [f'<g transform="{place}">', *_panel(own, panel, ys, colours), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(points: Sequence[Point], title: str, ys: tuple[int, int], colours: dict[str, str]) -> list[str]:
    xs = _ends([point.x for point in points])
    right, bottom = WIDTH - 14, HEIGHT - MARGIN + 10

    def at(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - xs[0]) / (xs[1] - xs[0])
        up = (math.log10(y) - ys[0]) / (ys[1] - ys[0])
        return MARGIN + across * (right - MARGIN), bottom - up * (bottom - 24)

    parts = [f'<text x="{MARGIN}" y="14">{escape(title)}</text>']
    for power in range(ys[0], ys[1] + 1):
        _, y = at(10 ** xs[0], 10**power)
        parts.append(f'<line x1="{MARGIN}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{MARGIN - 6}" y="{y + 4:.1f}" text-anchor="end">{10**power:g}</text>')
    for power in range(xs[0], xs[1] + 1):
        x, _ = at(10**power, 10 ** ys[0])
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{10**power:,g}</text>')
    for line in dict.fromkeys(point.line for point in points):
        places = [at(point.x, point.y) for point in sorted(points, key=lambda one: one.x) if point.line == line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colours[line]}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colours[line]}"/>' for x, y in places]
    return parts


def _ends(values: Sequence[float]) -> tuple[int, int]:
    """Returns the powers of ten around the values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)
