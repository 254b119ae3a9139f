"""``python benchmarks/compare --help``."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parent.parent)  # so that workers find the package `compare` too
    from compare.command import main

    main()
