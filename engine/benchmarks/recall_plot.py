"""Draws what `benchmarks.recall` found: python -m benchmarks.recall_plot FILE...

Each file holds what one run printed; its last line is the JSON that is drawn. The plot goes to
benchmarks/plots/recall.svg: for each set and each way of asking, the three figures with their 95%
intervals, and BM25 beside the first.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.recall import MEASURES

PLOT = Path(__file__).parent / "plots" / "recall.svg"
TITLES = dict(
    zip(
        MEASURES,
        ("all evidence in the first five", "named in the answer", "evidence turns quoted"),
        strict=True,
    )
)


def plot(runs: list[dict[str, Any]], path: Path) -> None:
    """A panel for each figure, a row for each run, the first on top."""
    import matplotlib as mpl  # noqa: PLC0415  # of the dev extra

    mpl.use("svg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    # Text as text and no random ids: the same figures make the same file.
    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "recall", "font.size": 9})
    figure, panels = plt.subplots(
        1, len(TITLES), figsize=(11, 0.8 + 0.35 * len(runs)), sharey=True, layout="constrained"
    )
    rows = range(len(runs))
    for panel, (measure, title) in zip(panels, TITLES.items(), strict=True):
        values = [run[measure] for run in runs]
        ends = [run["intervals"][measure] for run in runs]
        spans = [
            [value - low for value, (low, _) in zip(values, ends, strict=True)],
            [high - value for value, (_, high) in zip(values, ends, strict=True)],
        ]
        panel.errorbar(values, rows, xerr=spans, fmt="o", capsize=3, label="ours, 95% interval")
        if measure == next(iter(TITLES)):
            panel.plot(
                [run["bm25"] for run in runs],
                rows,
                "x",
                color="gray",
                label="BM25, whole conversations",
            )
            panel.legend(fontsize=7.5, loc=(0.02, 0.6))
        panel.set(title=title, xlabel="%", xlim=(30, 100), yticks=rows)
        panel.grid(alpha=0.3)
    panels[0].set_yticklabels([f"{run['set']}: {', '.join(run['with'])}" for run in runs])
    panels[0].invert_yaxis()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    path.write_text(
        "\n".join(line.rstrip() for line in path.read_text("utf-8").splitlines()) + "\n", "utf-8"
    )


if __name__ == "__main__":
    plot(
        [json.loads(Path(name).read_text("utf-8").splitlines()[-1]) for name in sys.argv[1:]], PLOT
    )
