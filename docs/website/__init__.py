"""The documentation site: staged from the pages, built by Sphinx, checked; run ``make docs``."""
