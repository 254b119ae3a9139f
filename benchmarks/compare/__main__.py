"""``python benchmarks/compare``: see ``--help``."""

import argparse
import sys
import warnings
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parent.parent)  # the package `compare`, here and in processes of its own
    from compare.problems import PROBLEMS
    from compare.run import METHODS, Cells, run

    parser = argparse.ArgumentParser(
        prog="python benchmarks/compare", description="Other libraries on the same streams."
    )
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS), metavar="NAME")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS, metavar="NAME")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("runs/compare"), help="where finished games are kept")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    run(Cells(args.out), args.problems, args.methods, args.seeds)
