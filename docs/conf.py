"""Sphinx configuration: MyST pages and furo. Pages are read without the network; formulas are MathML."""

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

from kinbandits import __version__

project = "kinbandits"
author = "The kinbandits authors"
copyright = "the kinbandits authors"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "paper/**"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "  # prompts and output are not copied
copybutton_prompt_is_regexp = True
autodoc_member_order = "bysource"
add_module_names = False

html_theme = "furo"
html_math_renderer = "mathml"
html_title = f"kinbandits {__version__}"
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["wide.css"]


def _plain_bars(app, what, name, obj, options, lines):  # type: ignore[no-untyped-def]
    """Our docstrings write |x| for a magnitude, which reStructuredText would take for a substitution."""
    literal: int | None = None  # indentation of the line whose "::" opened a literal block
    for i, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if literal is not None and line.strip() and indent <= literal:
            literal = None
        if literal is None and not line.lstrip().startswith((">>>", "...")):
            parts = line.split("``")  # every second part is code
            lines[i] = "``".join(p if n % 2 else p.replace("|", r"\|") for n, p in enumerate(parts))
            literal = indent if line.rstrip().endswith("::") else None


def _formula(display):  # type: ignore[no-untyped-def]
    """How a formula is written into the page; a logarithm has room around it."""

    def visit(translator, node):  # type: ignore[no-untyped-def]
        found = convert(node.astext(), display=display)
        found = found.replace("<mi>log</mi>", '<mo lspace="0.17em" rspace="0.17em">log</mo>')
        translator.body.append(f'<div class="formula">{found}</div>' if display == "block" else found)
        raise SkipNode

    return visit


def setup(app):  # type: ignore[no-untyped-def]
    app.connect("autodoc-process-docstring", _plain_bars)
    app.add_html_math_renderer("mathml", (_formula("inline"), None), (_formula("block"), None))
