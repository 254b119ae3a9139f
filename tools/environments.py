"""Empty environments for `versions.py` and `package.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def new_environment(folder: Path, python: str = sys.executable) -> tuple[str, list[str]]:
    """(its Python, the command that is its pip); also where Debian's Python comes without ensurepip."""
    here = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
    pip = [here, "-m", "pip", "--disable-pip-version-check", "-q"]
    if not folder.exists():
        made = subprocess.run([python, "-m", "venv", str(folder)], capture_output=True)
        if made.returncode != 0:
            subprocess.run([python, "-m", "venv", "--clear", "--without-pip", str(folder)], check=True)
    if subprocess.run([*pip, "--version"], capture_output=True).returncode != 0:
        base = getattr(sys, "_base_executable", sys.executable)
        pip = [base, "-m", "pip", "--disable-pip-version-check", "-q", "--python", here]
    return here, pip
