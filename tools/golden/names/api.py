"""Writes `tests/golden/api.json`: names of TensorFlow's public interface, how much they are used, and their signatures.

    python tools/golden/names/api.py FOLDER

FOLDER holds two tables with a heading each, separated by tabs: `api.tsv` (symbol, repositories, uses, kind,
signature) and `api_kwargs.tsv` (symbol, keyword, repositories, uses). They count what public programs for TensorFlow
1.x use.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[3] / "tests/golden/api.json"
# Names that fewer repositories use are left out.
REPOSITORIES = 2
# Libraries that are not counted: each is a project of its own.
LEFT_OUT = re.compile(
    r"tf\.(keras|estimator|distribute|feature_column|tpu|data|model|optimizers"
    r"|contrib\.(tpu|learn|distributions|eager|tensor_forest|timeseries|factorization|bayesflow|cluster_resolver"
    r"|estimator|keras|data|distribute|boosted_trees|cloud))(\.|$)"
)


def rows(path: Path) -> list[list[str]]:
    """The rows of a table without its heading."""
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]


def collect(folder: Path) -> dict[str, dict[str, Any]]:
    """Symbol -> uses, signature and uses of its keywords."""
    found: dict[str, dict[str, Any]] = {}
    for symbol, repositories, uses, _, signature in (row + [""] * (5 - len(row)) for row in rows(folder / "api.tsv")):
        if int(repositories) >= REPOSITORIES and not LEFT_OUT.match(symbol):
            found[symbol] = {
                "uses": int(uses),
                "signature": re.sub(r"<[^>]*>", "...", signature).replace("=,,", "=COMMA,"),
            }
    for symbol, keyword, _, uses in rows(folder / "api_kwargs.tsv"):
        if symbol in found:
            found[symbol].setdefault("keywords", {})[keyword] = int(uses)
    return found


def main() -> None:
    """Writes the file."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    lines = [
        f"{json.dumps(symbol)}: {json.dumps(entry)}" for symbol, entry in sorted(collect(Path(sys.argv[1])).items())
    ]
    GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
