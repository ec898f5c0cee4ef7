"""Two things measured alternately, and what may be said of them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field


@dataclass
class Pairs:
    """Seconds of the one thing and of another, pair by pair: each pair met the same weather."""

    name: str
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)

    def summary(self) -> dict[str, float]:
        """Medians in milliseconds, and median and quartiles of the pairwise ratio."""
        ratios = [a / b for a, b in zip(self.ours, self.theirs, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        return {
            "ours_ms": round(statistics.median(self.ours) * 1000, 2),
            "theirs_ms": round(statistics.median(self.theirs) * 1000, 2),
            "ratio": round(middle, 3),
            "quartile_1": round(low, 3),
            "quartile_3": round(high, 3),
        }


def print_table(measured: list[Pairs], ours: str = "project ms", theirs: str = "bare ms") -> None:
    """One line for each, under a heading."""
    width = max(len(pairs.name) for pairs in measured)
    print(f"{'':{width}} {ours:>11} {theirs:>11} {'ratio':>7}   quartiles")
    for pairs in measured:
        row = pairs.summary()
        quartiles = f"{row['quartile_1']:.2f} to {row['quartile_3']:.2f}"
        print(
            f"{pairs.name:{width}} {row['ours_ms']:11.1f} {row['theirs_ms']:11.1f} {row['ratio']:7.2f}   {quartiles}"
        )
