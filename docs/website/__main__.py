"""Build the site: ``cd docs && python -m website``, which `make docs` calls."""

from __future__ import annotations

import shutil
import sys

from sphinx.cmd.build import build_main

from website.check import problems
from website.pages import ROOT, stage
from website.reference import left_out

SOURCE = ROOT / "build" / "site-source"
SITE = ROOT / "build" / "site"


def main() -> int:
    """Stage the pages, build them with warnings as errors, and check what came out."""
    shutil.rmtree(SITE, ignore_errors=True)
    stage(SOURCE)
    conf = ROOT / "docs" / "website"
    # Fresh each time: two processes, as CI has cores; every warning is shown, and any is an error.
    options = ["-q", "-E", "-W", "--keep-going", "-j", "2", "-d", str(SOURCE / ".doctrees")]
    failed = build_main([*options, "-c", str(conf), str(SOURCE), str(SITE)])
    if failed:
        return failed
    wrong = problems(SITE)
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    missing = left_out()
    if missing:
        print(
            f"The reference lacks what needs an extra, `make install-learn`: {', '.join(missing)}."
        )
    pages = sum(1 for _ in SITE.rglob("*.html"))
    print(f"{pages} pages: build/site/index.html" if not wrong else f"{len(wrong)} faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
