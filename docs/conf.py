"""Settings of the documentation site: `make docs` builds it without a network, and a warning is an error.

The source folder is the repository itself, so that links between Markdown files mean the same here and in an editor.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from jupyter_client.manager import KernelManager  # noqa: E402

from igcf.version import __version__  # noqa: E402

if hasattr(KernelManager, "transport_encryption"):  # newer kernels warn where their sockets are not encrypted
    KernelManager.transport_encryption.default_value = "auto"

project = "igcf"
author = "the igcf authors"
release = version = __version__
root_doc = "docs/index"
include_patterns = ["docs/**", "research/**", "examples/**/README.md", "clients/**/README.md", "*.md"]
exclude_patterns = ["README.md", ".*", "**/node_modules", "build", "dist", "demo", "runs", "src", "tests"]

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "tools.site",
]

# Markdown and notebooks: every notebook is executed, and a cell that fails is an error.
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / "build" / "notebooks")
nb_execution_timeout = 240
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
suppress_warnings = ["misc.highlighting_failure", "config.cache"]

# Python reference: types stand in the signature, docstrings are those of the code.
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
default_role = "code"
python_use_unqualified_type_names = True

html_theme = "pydata_sphinx_theme"
html_title = "igcf"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "logo": {"text": "igcf"},
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
