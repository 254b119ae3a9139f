"""The notebooks of the documentation: run them, and turn them into pages.

    python tools/notebooks.py              runs docs/*.ipynb and writes their outputs into them

`docs/conf.py` shows each as a page (`as_markdown`), and `tests/test_docs.py` runs each and compares what it prints.
No Jupyter is needed: a cell is run as Jupyter would, and what its last line gives is shown as text, table or
picture.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def run(notebook: dict[str, Any]) -> dict[str, Any]:
    """The notebook with its cells run from top to bottom, in one namespace."""
    known: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            cell = cell | {"execution_count": count, "outputs": _outputs("".join(cell["source"]), known, count)}
        cells.append(cell)
    return notebook | {"cells": cells}


def _outputs(source: str, known: dict[str, Any], count: int) -> list[dict[str, Any]]:
    tree, shown, value = ast.parse(source), io.StringIO(), None
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(shown):
        exec(compile(tree, "<cell>", "exec"), known)
        if last is not None and not source.rstrip().endswith(";"):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), known)
    outputs: list[dict[str, Any]] = []
    if shown.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(shown.getvalue())})
    if value is not None:
        data: dict[str, Any] = {"text/plain": _lines(repr(value))}
        if table := getattr(value, "_repr_html_", lambda: None)():
            data["text/html"] = _lines(table)
        if picture := getattr(value, "_repr_png_", lambda: None)():
            data["image/png"] = base64.b64encode(picture).decode()
        outputs.append({"output_type": "execute_result", "execution_count": count, "data": data, "metadata": {}})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def texts(notebook: dict[str, Any]) -> list[str]:
    """What the cells give, as text; of a picture that is its size."""
    found = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            text = output.get("text") or output["data"]["text/plain"]
            found.append("".join(text).strip())
    return found


def as_markdown(notebook: dict[str, Any]) -> str:
    """A page for MyST: text as it stands, code in blocks, and under them what they gave."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "image/png" in data:
                picture = f'<img alt="the figure" src="data:image/png;base64,{data["image/png"]}">'
                parts.append(f"```{{raw}} html\n{picture}\n```")
            elif "text/html" in data:
                table = "".join(data["text/html"])
                parts.append(f'```{{raw}} html\n<div class="output">{table}</div>\n```')
            else:
                parts.append(f"```text\n{''.join(output.get('text') or data['text/plain'])}\n```")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    for path in sorted(DOCS.glob("*.ipynb")):
        path.write_text(json.dumps(run(load(path)), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(f"{path.name}: {len(texts(load(path)))} outputs")
