"""How `make docs` builds the site: Sphinx, offline, every warning an error."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from sphinx.application import Sphinx  # noqa: E402

from docs import make_pages, make_reference  # noqa: E402
from hedgerow.version import __version__  # noqa: E402

project = "hedgerow"
author = "the hedgerow authors"
release = version = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build/html", "_build/doctrees", "paper"]  # _build/evidence has the full pages
templates_path = ["_templates"]
nitpicky = True  # a type in a docstring that leads nowhere is an error
intersphinx_mapping = make_reference.mapping()

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autosummary_context = {
    "own_methods": make_reference.own_methods(),
    "used_in": make_reference.used_in(),
}
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"  # names that fit beside the page
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = True
numpydoc_xref_aliases = make_reference.ALIASES
numpydoc_xref_ignore = set(make_reference.WORDS)
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# No example runs here: each shows pictures of docs/images/gallery, which `make gallery` keeps. So
# the site is built quickly, and its pictures are ones that somebody looked at.
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "plot_gallery": False,
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 3600,
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "hedgerow"
html_static_path = ["_static"]
html_css_files = ["pictures.css"]
html_theme_options = {
    "navigation_depth": 2,
    "show_nav_level": 1,
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sourcelink = False
copyright = "the hedgerow authors, Apache-2.0"

make_reference.main()  # before Sphinx looks for pages
make_pages.build_site_pages()


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", make_reference.with_links)
