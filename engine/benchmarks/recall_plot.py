"""Plots what runs of `benchmarks.recall` printed: python -m benchmarks.recall_plot FILE... [--plot FILE]

Bars are BM25 over whole conversations and ours, by what a question is asked with; the line on a bar is the 95% interval of what
is gained over BM25.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

PLOT = Path(__file__).parent / "plots" / "recall.svg"


def runs(paths: list[Path]) -> list[dict[str, Any]]:
    """The JSON lines of all files."""
    lines = (line for path in paths for line in path.read_text("utf-8").splitlines())
    return [json.loads(line) for line in lines if line.startswith("{")]


def plot(results: list[dict[str, Any]], path: Path) -> None:
    """Found in the first five, named in the answer, and turns quoted, for each run."""
    import matplotlib as mpl  # noqa: PLC0415  # of the dev extra

    mpl.use("svg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    plt.rcParams.update(
        {"svg.fonttype": "none", "svg.hashsalt": "recall", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3}
    )
    figure, axes = plt.subplots(figsize=(9, 3.4), layout="constrained")
    names = ["\n+ ".join([f"{run['set']}, {run['with'][0]}", *run["with"][1:]]) for run in results]
    bars = {"BM25, first five": "bm25", "first five": "session_all@5", "answer": "session_all@answer", "turns": "turn@answer"}
    for place, (label, measure) in enumerate(bars.items()):
        positions = [number + 0.2 * place for number in range(len(results))]
        axes.bar(positions, [run[measure] for run in results], 0.18, label=label)
        if measure == "session_all@5":
            # The interval of the gain, around what BM25 found.
            lows, highs = ([run["bm25"] + run["gain"][side] for run in results] for side in (1, 2))
            axes.vlines(positions, lows, highs, color="black")
    axes.set(xticks=[number + 0.3 for number in range(len(results))], xticklabels=names, ylim=(0, 115), ylabel="percent")
    axes.legend(fontsize=7.5, ncols=4, loc="upper left")
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    path.write_text("\n".join(line.rstrip() for line in path.read_text("utf-8").splitlines()) + "\n", "utf-8")


def main() -> None:
    """Read, and plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--plot", type=Path, default=PLOT)
    args = parser.parse_args()
    plot(runs(args.files), args.plot)


if __name__ == "__main__":
    main()
