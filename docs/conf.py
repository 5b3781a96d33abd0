"""The site's settings: `sphinx-build docs build/site`, with memplan[docs] installed."""

import sys
from importlib.util import find_spec
from pathlib import Path

from sphinx.errors import ConfigError

import memplan

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

if find_spec("torch") is None:  # without it, the interface would lack what runs networks of torch
    raise ConfigError("the site needs torch, of which the interface speaks: pip install '.[docs]'")

project = "memplan"
author = "the memplan authors"
copyright = "the memplan authors, Apache-2.0"
version = release = memplan.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "numpydoc",
    "matplotlib.sphinxext.plot_directive",
    "from_source",
]
exclude_patterns = ["_build", "README.md"]
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!memplan\b).*"),  # Python's own and numpy's, which are not looked up
    ("py:.*", r"memplan\.\w+\..*"),  # what is no public name of memplan itself, where the interface does not list it
]

html_theme = "furo"
html_title = f"memplan {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False

myst_heading_anchors = 3
default_role = "code"  # `name` in docstrings

add_module_names = False
python_use_unqualified_type_names = True
maximum_signature_line_length = 90
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
numpydoc_show_class_members = False

plot_formats = ["svg"]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_rcparams = {"svg.fonttype": "path", "font.size": 9}
