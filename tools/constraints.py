"""Write the two constraints files.

python tools/constraints.py > constraints.txt                  what is installed here, where the tests pass
python tools/constraints.py --oldest > constraints-oldest.txt  the least versions that pyproject.toml allows
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


def requirements() -> list[Requirement]:
    """All of pyproject.toml, extras included."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    return [
        Requirement(text)
        for text in itertools.chain(project["dependencies"], *project["optional-dependencies"].values())
    ]


def oldest() -> list[str]:
    """The least version of each requirement, as `name==version`."""
    found = {
        canonical(r.name): [s.version for s in r.specifier if s.operator == ">="]
        for r in requirements()
        if canonical(r.name) != "kinbandits"
    }
    return [f"{name}=={version}" for name, (version,) in sorted(found.items())]


def installed() -> list[str]:
    """What is here of all that the extras can pull in."""
    waiting = [(requirement, "") for requirement in requirements()]
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
    return [f"{name}=={version}" for name, version in sorted(found.items())]


def main() -> None:
    if "--oldest" in sys.argv:
        print("# The least versions that pyproject.toml allows. Written by tools/constraints.py --oldest.")
        print(*oldest(), sep="\n")
    else:
        print("# Versions with which the tests pass. Written by tools/constraints.py.")
        print(*installed(), sep="\n")


if __name__ == "__main__":
    main()
