"""The pictures of docs/gallery.md: runs the page's own code, and saves each ``figure`` as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kinbandits.plotting import save_figure

DOCS = Path(__file__).resolve().parents[1] / "docs"


def main() -> None:
    page = (DOCS / "gallery.md").read_text()
    known: dict[str, Any] = {}
    for code, picture in re.findall(r"```pycon\n(.*?)```|```\{image\} (\S+)", page, flags=re.DOTALL):
        if picture:
            save_figure(known["figure"], (DOCS / picture).with_suffix(""), ["png"])
        else:
            exec("\n".join(line[4:] for line in code.splitlines() if line[:3] in (">>>", "...")), known)


if __name__ == "__main__":
    main()
