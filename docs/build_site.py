"""Build the site: ``python docs/build_site.py [FOLDER]`` (extra ``xoptim[site]``).

A warning of the generator is an error.
"""

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Final

import api
from pattern_pages import pages as pattern_pages
from pictures import picture

import xoptim
from tests.hostile import page as hostile

ROOT: Final = Path(__file__).parents[1]
GUIDES: Final = {
    "Use": (
        "docs/getting-started",
        "docs/cli",
        "docs/python-api",
        "docs/opsets",
        "docs/targets",
        "docs/quantization",
        "docs/assumptions",
        "docs/batch",
        "docs/exporters",
        "docs/decoders",
        "docs/pipelines",
        "docs/coming-from",
        "docs/report",
        "docs/debugging",
    ),
    "Speed": (
        "docs/performance",
        "docs/benchmarks",
        "docs/tuning",
        "lab/payoff",
        "lab/precision",
        "lab/targets",
        "lab/winograd",
        "lab/repeated",
        "docs/large-models",
        "lab/decoders",
        "docs/repeated",
    ),
    "Verification": ("docs/verification", "docs/hostile", "lab/conformance", "lab/real-models"),
    "Patterns": (
        "docs/patterns/README",
        "docs/selection",
        "lab/reach",
        "lab/transformers",
        "docs/writing-patterns",
        "docs/patterns-by-hand",
        "docs/custom-operators",
        "docs/rules",
        "docs/rewriters",
        "docs/chains",
        "lab/origins",
    ),
    "Reference": (
        "docs/how-it-works",
        "docs/api",
        "api",
        "docs/stability",
        "CONTRIBUTING",
        "SECURITY",
        "CHANGELOG",
    ),
}
CONF: Final = """
project = "xoptim"
author = "the authors of xoptim"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "xoptim"
html_static_path = ["_static"]
html_css_files = ["graph.css"]
myst_heading_anchors = 3
autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_use_ivar = True
suppress_warnings = ["misc.highlighting_failure"]
napoleon_custom_sections = [("Class attributes", "params_style")]
"""
STYLE: Final = (
    ".graph { max-width: 100% } .graph text { text-anchor: middle; fill: currentColor; font: 12px "
    "monospace }\n"
)


def write_sources(folder: Path) -> None:
    """Copy the pages, with pictures in place of flowcharts, and write the index and the
    reference.
    """
    pages = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG")]
    pages += sorted((*(ROOT / "docs").rglob("*.md"), *(ROOT / "lab").glob("*.md")))
    known = {page.resolve() for page in pages}
    for page in pages:
        target = folder / page.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_page(page, known), encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "pictures", folder / "docs" / "pictures")
    toc = "\n".join(
        "\n".join(("```{toctree}", ":maxdepth: 1", f":caption: {title}", "", *names, "```", ""))
        for title, names in GUIDES.items()
    )
    index = (folder / "README.md").read_text(encoding="utf-8")
    (folder / "README.md").unlink()
    (folder / "index.md").write_text(f"{index}\n{toc}", encoding="utf-8")
    _write_pattern_pages(folder / "docs" / "patterns")
    (folder / "docs" / "api.md").write_text(api.page(), encoding="utf-8")
    (folder / "docs" / "hostile.md").write_text(hostile.page(), encoding="utf-8")
    (folder / "api.rst").write_text(_reference(), encoding="utf-8")
    (folder / "_static").mkdir(exist_ok=True)
    (folder / "_static" / "graph.css").write_text(STYLE, encoding="utf-8")
    (folder / "conf.py").write_text(CONF, encoding="utf-8")


def _write_pattern_pages(folder: Path) -> None:
    """Write a page for each pattern, and their index.

    Only the index lists them: each page of the site repeats the names of all that the main index
    has.
    """
    folder.mkdir()
    for name, text in pattern_pages().items():
        orphan = "" if name == "README.md" else "---\norphan: true\n---\n\n"
        (folder / name).write_text(f"{orphan}{_with_pictures(text)}", encoding="utf-8")


def _page(page: Path, known: set[Path]) -> str:
    """A page whose links lead to pages of the site.

    Links to other files of the repository become their names; names of patterns become links.
    """

    def link(found: re.Match[str]) -> str:
        text, target = found[1], found[2]
        path = (page.parent / target.partition("#")[0]).resolve()
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            return found[0]
        if path not in known:
            return f"{text} (`{path.relative_to(ROOT)}`)"
        if path == ROOT / "README.md":
            index = os.path.relpath(ROOT / "index.md", page.parent)
            section = target.removeprefix(target.partition("#")[0])
            return f"[{text}]({index}{section})"
        return found[0]

    text = re.sub(r"(?<!!)\[([^\]]+)\]\(([^()\s]+)\)", link, page.read_text(encoding="utf-8"))
    folder = os.path.relpath(ROOT / "docs" / "patterns", page.parent)
    return _with_pictures(_with_pattern_links(text, folder))


def _with_pattern_links(text: str, folder: str) -> str:
    """A page in which each name of a pattern leads to its page; blocks of code stay as they are."""
    names = xoptim.installed_patterns()

    def link(found: re.Match[str]) -> str:
        name = found[1]
        return f"[`{name}`]({folder}/{name}.md)" if name in names else found[0]

    blocks = re.split(r"(^```.*?^```)", text, flags=re.DOTALL | re.MULTILINE)
    linked = [re.sub(r"(?<![\[`])`(\w+)`(?![\]`])", link, each) for each in blocks[::2]]
    blocks[::2] = linked
    return "".join(blocks)


def _with_pictures(text: str) -> str:
    """A page with pictures in place of flowcharts."""
    return re.sub(
        r"^```mermaid\n(.*?)^```",
        lambda found: f"{picture(found[1])}\n",
        text,
        flags=re.DOTALL | re.MULTILINE,
    )


def _reference() -> str:
    """The names of the public module, each with its docstring."""
    lines = [
        "API reference",
        "=============",
        "",
        xoptim.__doc__ or "",
        "",
        ".. currentmodule:: xoptim",
        "",
    ]
    for name in xoptim.__all__:
        value = getattr(xoptim, name)
        kind = (
            "autoclass"
            if isinstance(value, type)
            else "autofunction"
            if callable(value)
            else "autodata"
        )
        lines += [f".. {kind}:: {name}", *(["   :members:"] if kind == "autoclass" else []), ""]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Build into a folder (``build/site`` by default); returns the exit code of the generator."""
    # an extra; the sources of the site are tested without it
    from sphinx.cmd.build import build_main

    folder = Path(arguments[0]) if arguments else ROOT / "build" / "site"
    shutil.rmtree(folder, ignore_errors=True)
    source = folder / "source"
    source.mkdir(parents=True)
    write_sources(source)
    html = folder / "html"
    return build_main(["-W", "--keep-going", "-q", "-b", "html", str(source), str(html)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
