"""The check of the built site sees dead links and whatever a page would load from another host."""

from __future__ import annotations

import pytest
from website.check import problems

GOOD = """<!doctype html><html><head><link rel="stylesheet" href="a.css">
<script src="b.js"></script></head><body id="top"><img src="c.svg" alt=""><a href="#top">up</a>
<a href="other.html#there">on</a><img src="data:image/png;base64,AA">
<a href="https://example.org/elsewhere">a link waits for a click</a>
</body></html>"""


@pytest.fixture
def site(tmp_path):
    (tmp_path / "index.html").write_text(GOOD)
    (tmp_path / "other.html").write_text('<h1 id="there">Other</h1>')
    (tmp_path / "a.css").write_text("body { background: url(c.svg) }")
    (tmp_path / "b.js").write_text('const home = "https://example.org/only-a-text";')
    (tmp_path / "c.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"></svg>')
    return tmp_path


def test_a_good_site_has_no_problems(site):
    assert problems(site) == []


@pytest.mark.parametrize(
    "loading",
    [
        '<script src="https://example.org/x.js"></script>',
        '<script src="//example.org/x.js"></script>',
        '<link rel="stylesheet" href="https://example.org/x.css">',
        '<link rel="icon" href="//example.org/x.ico"/>',
        '<img src="http://example.org/x.png">',
        '<img srcset="c.svg 1x, https://example.org/x.png 2x">',
        '<iframe src="https://example.org"></iframe>',
        '<object data="https://example.org/x"></object>',
        '<form action="https://example.org/search"></form>',
        '<svg><use xlink:href="https://example.org/x.svg#a"/></svg>',
        '<p style="background: url(https://example.org/x.png)">a</p>',
        "<style>@import 'https://example.org/x.css';</style>",
        '<style>@font-face { src: url("//example.org/x.woff2") }</style>',
        '<script type="module">import "https://example.org/x.js"</script>',
        "<script>fetch('https://example.org/x.json')</script>",
    ],
)
def test_what_a_page_loads_from_another_host_is_seen(site, loading):
    (site / "bad.html").write_text(f"<body>{loading}</body>")
    assert any("bad.html: loads" in line and "example.org" in line for line in problems(site))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bad.css", "@import url(https://example.org/x.css);"),
        ("bad.css", "@font-face { src: url('https://example.org/x.woff2') }"),
        ("bad.js", 'const s = {}; s.src = "https://example.org/x.js";'),
        ("bad.js", 'const x = await import("https://example.org/x.js");'),
        ("bad.svg", '<svg><image href="https://example.org/x.png"/></svg>'),
    ],
)
def test_what_a_style_a_script_or_a_picture_loads_is_seen(site, name, text):
    (site / name).write_text(text)
    assert [line for line in problems(site) if line.startswith(f"{name}: loads")]


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ('<a href="missing.html">a</a>', "no such file"),
        ('<a href="other.html#nowhere">a</a>', "no such anchor"),
        ('<a href="#nowhere">a</a>', "no such anchor"),
        ('<img src="missing.svg">', "no such file"),
        ('<script src="missing.js?v=1"></script>', "no such file"),
    ],
)
def test_a_link_that_leads_nowhere_is_seen(site, link, fault):
    (site / "bad.html").write_text(f"<body>{link}</body>")
    [line] = problems(site)
    assert line.startswith("bad.html: there is ")
    assert fault in line
