"""Write constraints.txt: the versions, as installed here, of everything that the extras can pull in.

Run it in an environment where the tests pass:  python tools/constraints.py > constraints.txt
"""

from __future__ import annotations

import itertools
import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    wanted = itertools.chain(project["dependencies"], *project["optional-dependencies"].values())
    waiting = [(Requirement(text), "") for text in wanted]
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement, extra = waiting.pop()
        name = canonical(requirement.name)
        if name == "kinbandits" or (requirement.marker and not requirement.marker.evaluate({"extra": extra})):
            continue
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            print(f"{name} is not installed", file=sys.stderr)
            continue
        for inner in ("", *requirement.extras):
            if (name, inner) not in seen:
                seen.add((name, inner))
                waiting += [(Requirement(text), inner) for text in metadata.requires(name) or ()]
    print(
        "# Versions with which the tests pass; `pip install -c constraints.txt`. Written by tools/constraints.py."
    )
    for name, version in sorted(found.items()):
        print(f"{name}=={version}")


if __name__ == "__main__":
    main()
