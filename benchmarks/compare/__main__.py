"""``python benchmarks/compare``: see ``--help``."""

import argparse
import sys
import warnings
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parent.parent)  # the package `compare`, here and in processes of its own
    from compare import page
    from compare.problems import PROBLEMS
    from compare.run import METHODS, Cells, costs, run

    parser = argparse.ArgumentParser(
        prog="python benchmarks/compare", description="Other libraries on the same streams."
    )
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS), metavar="NAME")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS, metavar="NAME")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("runs/compare"), help="where finished games are kept")
    parser.add_argument("--no-page", action="store_true", help="play only; write neither costs, CSV file nor page")
    parser.add_argument("--page-only", action="store_true", help="play nothing; write what is finished")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    cells = Cells(args.out)
    if not args.page_only:
        run(cells, args.problems, args.methods, args.seeds)
    if not args.no_page:
        costs(cells, page.COSTED, 500)
        page.write(page.rows(cells))
