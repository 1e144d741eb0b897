"""What Sphinx is told. No extension here fetches anything: the site is built without a network."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docutils import nodes
from latex2mathml.converter import convert

from alloc.release import alloc_version

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "alloc"
author = "the alloc authors"
copyright = author
version = release = alloc_version()

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
# Anchors of headings, as GitHub makes them; links to them are checked.
myst_heading_anchors = 4
# Examples leave out what varies ("..."), which no lexer of JSON or TOML knows.
# Two rooms have a type `Settings`; an annotation that says only so is led to one of them.
suppress_warnings = ["misc.highlighting_failure", "ref.python"]

# Quotation marks stay those of the code; and menus name pages, not each function, which would take
# a fifth of the time: a page of the reference begins with its names.
smartquotes = False
default_role = "py:obj"
toc_object_entries = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
# One parameter a line, where a line would not hold them.
python_maximum_signature_line_length = 88
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"alloc {release}"
html_copy_source = False
html_show_sourcelink = False
# MathML is drawn by the browser; MathJax would be a script from another host.
html_math_renderer = "mathml"


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def _mend(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Keep the references of one docstring apart from another's, and take `np.bool_` literally."""
    label = re.sub(r"\W", "-", name)
    text = "\n".join(lines)
    text = re.sub(r"\[(\d+)\]_", rf"[#{label}-\1]_", text)
    text = re.sub(r"^(\s*)\.\. \[(\d+)\]", rf"\1.. [#{label}-\2]", text, flags=re.MULTILINE)
    lines[:] = [
        re.sub(r"(?<=\w)_(?!\w)", r"\_", line) if line.startswith(":type ") else line
        for line in text.split("\n")
    ]


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx how docstrings are mended and formulas written."""
    # After napoleon, whose priority is 500.
    app.connect("autodoc-process-docstring", _mend, priority=600)
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
