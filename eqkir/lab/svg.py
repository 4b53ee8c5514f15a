"""Small plots as SVG text: points, steps and lines over linear or logarithmic axes. No scripts, no fonts from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, log10

#: colours that stay apart for the colour-blind (Okabe and Ito), and dashes for the second round
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999")
WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT, TOP = 760, 420, 70, 50, 170, 16


@dataclass
class Series:
    """`points`: (x, y, note); `style`: ``points``, ``line`` or ``steps``."""

    name: str
    points: list[tuple[float, float, str]]
    style: str = "points"


@dataclass
class Axis:
    """`log`: decades; values that are not positive are left out there."""

    label: str
    log: bool = False
    low: float | None = None
    high: float | None = None
    ticks: list[tuple[float, str]] = field(default_factory=list)

    def fit(self, values: Sequence[float]) -> None:
        """Set limits and ticks from the values."""
        xs = [v for v in values if not self.log or v > 0] or [1.0]
        low = min(xs) if self.low is None else self.low
        high = max(xs) if self.high is None else self.high
        if self.log:
            a, b = floor(log10(low)), max(ceil(log10(high)), floor(log10(low)) + 1)
            self.low, self.high = 10.0**a, 10.0**b
            step = max(1, ceil((b - a) / 8))
            self.ticks = [(10.0**i, f"1e{i}" if not -3 <= i <= 4 else f"{10.0**i:g}") for i in range(a, b + 1, step)]
            return
        high = high if high > low else low + 1.0
        raw = (high - low) / 5
        base = 10.0 ** floor(log10(raw))
        unit = next(m * base for m in (1, 2, 5, 10) if m * base >= raw)
        self.low, self.high = floor(low / unit) * unit, ceil(high / unit) * unit
        n = round((self.high - self.low) / unit)
        self.ticks = [(self.low + i * unit, f"{self.low + i * unit:g}") for i in range(n + 1)]

    def place(self, v: float, start: float, length: float) -> float:
        """Where a value lies."""
        assert self.low is not None and self.high is not None
        if self.log:
            return start + length * (log10(v) - log10(self.low)) / (log10(self.high) - log10(self.low))
        return start + length * (v - self.low) / (self.high - self.low)


def plot(series: Sequence[Series], x: Axis, y: Axis) -> str:
    """One figure. Points of a series that an axis cannot show are left out."""
    kept = [Series(s.name, [p for p in s.points if (p[0] > 0 or not x.log) and (p[1] > 0 or not y.log)], s.style) for s in series]
    x.fit([p[0] for s in kept for p in s.points])
    y.fit([p[1] for s in kept for p in s.points])
    w, h = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for v, text in x.ticks:
        px = x.place(v, LEFT, w)
        out.append(f'<line x1="{px:.1f}" y1="{TOP}" x2="{px:.1f}" y2="{TOP + h}" stroke="#ddd"/>')
        out.append(f'<text x="{px:.1f}" y="{TOP + h + 16}" text-anchor="middle">{escape(text)}</text>')
    for v, text in y.ticks:
        py = TOP + h - (y.place(v, 0, h))
        out.append(f'<line x1="{LEFT}" y1="{py:.1f}" x2="{LEFT + w}" y2="{py:.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{py + 4:.1f}" text-anchor="end">{escape(text)}</text>')
    out.append(f'<rect x="{LEFT}" y="{TOP}" width="{w}" height="{h}" fill="none" stroke="#333"/>')
    out.append(f'<text x="{LEFT + w / 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(x.label)}</text>')
    out.append(f'<text transform="translate(16 {TOP + h / 2}) rotate(-90)" text-anchor="middle">{escape(y.label)}</text>')
    for i, s in enumerate(kept):
        colour = COLOURS[i % len(COLOURS)]
        dash = ' stroke-dasharray="5 3"' if i >= len(COLOURS) else ""
        at = [(x.place(a, LEFT, w), TOP + h - y.place(b, 0, h), note) for a, b, note in s.points]
        if s.style != "points" and at:
            path = f"M{at[0][0]:.1f} {at[0][1]:.1f}"
            for (_, y0, _), (x1, y1, _) in zip(at, at[1:]):
                path += f"L{x1:.1f} {y0:.1f}" if s.style == "steps" else ""
                path += f"L{x1:.1f} {y1:.1f}"
            out.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>')
        for px, py, note in at if s.style == "points" else ():
            title = f"<title>{escape(note)}</title>" if note else ""
            out.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{colour}" fill-opacity="0.6">{title}</circle>')
        ly = TOP + 12 + 17 * i
        out.append(f'<line x1="{LEFT + w + 10}" y1="{ly}" x2="{LEFT + w + 28}" y2="{ly}" stroke="{colour}" stroke-width="3"{dash}/>')
        out.append(f'<text x="{LEFT + w + 33}" y="{ly + 4}">{escape(s.name)}</text>')
    return "\n".join([*out, "</svg>"])
