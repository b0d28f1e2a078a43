"""Hooks of the documentation site (MkDocs): which pages, in which order, and mathematics.

Pages are read where they are: README, docs, reports. They are copied with everything that they link
to into ``pages`` beside the site, at the same places relative to each other, so that every link
holds in the repository and on the site. Mathematics (fences of ``math``, which forges render too)
becomes MathML when the site is built; browsers draw it without a script. TeX that is not understood
ends the build, since the converter would write it out as it stands.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
FOLDERS = ("docs", "reports", "instances", "benchmarks")
ORDER: dict[str, tuple[str, ...]] = {
    "Start": ("docs/tutorial.md", "docs/index.md", "docs/how-to/notebook.md", "docs/glossary.md"),
    "My cluster": (
        "docs/how-to/my-log.md", "docs/logs.md", "docs/how-to/what-a-log-cannot-tell.md",
        "docs/how-to/slurm.md", "docs/how-to/my-slurm.md", "docs/how-to/kueue.md",
        "docs/how-to/my-kueue.md",
        "docs/round.md", "docs/live.md",
        "docs/explanation.md", "docs/audit.md", "docs/planning.md", "docs/how-to/planning.md",
        "docs/rules.md", "docs/topology.md", "docs/memory.md", "docs/security.md", "docs/limits.md",
    ),
    "Study": (
        "docs/policies.md", "docs/replay.md", "docs/metrics.md", "docs/reports.md",
        "docs/sweep.md", "docs/traces.md", "docs/api.md", "docs/library.md",
        "docs/how-to/policy.md", "docs/how-to/objective.md", "docs/how-to/*",
        "docs/seeds.md", "docs/published-heuristics.md", "docs/gandiva-easyscale.md",
        "docs/validation.md",
        "docs/acme.md", "docs/performance-model.md", "docs/target-shares.md",
    ),
    "Mathematics": (
        "docs/formulations/index.md", "docs/formulations/round.md", "docs/formulations/*",
        "docs/solvers.md", "instances/*",
    ),
    "Contribute": ("CONTRIBUTING.md", "docs/architecture.md", "CHANGELOG.md"),
    "Reference": ("docs/commands.md", "docs/options.md"),
    "Decisions": ("docs/decisions/README.md", "docs/decisions/*"),
    "Reports": ("reports/README.md", "reports/*", "benchmarks/*"),
}  # fmt: skip
"""Sections by who reads them; a page that is named nowhere is reference."""

LINK = re.compile(r"(\]\(\s*<?)([^)\s>#]+)((?:#[^)\s>]*)?)|(src(?:set)?=\")([^\"#]+)")
ROOM = '<div style="margin: .6em 0; padding: .3em 0; overflow-x: auto">'
FONTS = "font-family: 'STIX Two Math', 'Cambria Math', 'DejaVu Math TeX Gyre', math"
MATH = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHIM = '<script src="https://unpkg.com/iframe-worker/shim"></script>'
WORKER = """<script>
// Browsers start no worker from a disk, and the search is one: it gets a frame instead.
if (location.protocol === "file:") window.Worker = class extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.body.appendChild(document.createElement("iframe"));
    this.frame.hidden = true;
    const inside = this.frame.contentWindow, script = inside.document.createElement("script");
    inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", {data}));
    this.ready = new Promise((done) => { script.onload = done; });
    script.src = url;
    inside.document.body.appendChild(script);
  }
  postMessage(data) {
    const said = new MessageEvent("message", {data});
    this.ready.then(() => this.frame.contentWindow.dispatchEvent(said));
  }
};
</script>"""
WORD = re.compile(r"\\math(tt|it|rm)\{((?:[A-Za-z0-9]|\\_){2,})\}")
FACES = {"monospace": "font-family: monospace", "italic": "font-style: italic", "normal": ""}


def on_config(config: Any) -> Any:
    """Copy the pages and order them."""
    root = Path(config.config_file_path).parent
    stage = Path(config.site_dir).parent / "pages"
    shutil.rmtree(stage, ignore_errors=True)
    pages = [Path(name) for name in PAGES]
    for folder in FOLDERS:
        pages += sorted(path.relative_to(root) for path in (root / folder).rglob("*.md"))
    for page in pages:
        _put(root, stage, page)
    shutil.copyfile(root / "docs" / "site.css", stage / "docs" / "site.css")
    (stage / "docs" / "library.md").write_text(_library(root), encoding="utf-8")
    config.docs_dir = str(stage)
    config.nav = _nav([page.as_posix() for page in pages] + ["docs/library.md"])
    return config


def _put(root: Path, stage: Path, page: Path) -> None:
    """A page with the files that it links to."""
    text = (root / page).read_text("utf-8").replace("<details>", '<details markdown="1">')

    def placed(match: re.Match[str]) -> str:
        target = match[2] or match[5]
        if re.match(r"[a-z]+:", target):
            return match[0]
        file = Path(os.path.normpath(page.parent / target))
        if (root / file).is_dir():  # a site has pages and files, and no folders
            file, target = file / "README.md", f"{target.rstrip('/')}/README.md"
        if file.suffix != ".md":
            (stage / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / file, stage / file)
        return f"{match[1]}{target}{match[3]}" if match[2] else f"{match[4]}{target}"

    parts = re.split(r"(^```.*?^```$|`[^`\n]*`)", text, flags=re.MULTILINE | re.DOTALL)
    parts[::2] = [LINK.sub(placed, part) for part in parts[::2]]
    (stage / page).parent.mkdir(parents=True, exist_ok=True)
    (stage / page).write_text("".join(parts), encoding="utf-8")


def _nav(pages: list[str]) -> list[Any]:
    left = dict.fromkeys(sorted(pages))
    sections: dict[str, list[str]] = {}
    for section, patterns in ORDER.items():
        chosen = [page for pattern in patterns for page in left if _fits(page, pattern)]
        sections[section] = list(dict.fromkeys(chosen))
        for page in sections[section]:
            left.pop(page)
    left.pop("README.md")
    sections["Reference"] += list(left)
    return [{"morph-opt": "README.md"}, *({name: found} for name, found in sections.items())]


def _fits(page: str, pattern: str) -> bool:
    return page.startswith(pattern[:-1]) if pattern.endswith("*") else page == pattern


def _library(root: Path) -> str:
    """The page of the public names, from their docstrings."""
    names = dict(_public(root))
    blocks = [f"::: {module}.{name}" for name, module in sorted(names.items(), key=_by_name)]
    about = "Every public name, from its documentation in the code. [Which for what](api.md)."
    return "\n\n".join(["# Library reference", about, *blocks]) + "\n"


def _by_name(item: tuple[str, str]) -> str:
    return item[0].lower()


def _public(root: Path) -> Iterator[tuple[str, str]]:
    """Public names with the modules that define them, as type checkers find them."""
    tree = ast.parse((root / "morph_opt" / "__init__.py").read_text("utf-8"))
    listed: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            listed = set(ast.literal_eval(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((one.name, node.module) for one in node.names if one.name in listed)


def on_page_markdown(markdown: str, page: Any = None, **_: Any) -> str:
    """Fences of mathematics as MathML, one display for every paragraph of a fence."""
    where = page.file.src_uri if page else "?"

    def drawn(found: re.Match[str]) -> str:
        formulas = re.split(r"\n\s*\n", found[1].strip())
        return "\n".join(f"{ROOM}{_mathml(one, where)}</div>" for one in formulas)

    return MATH.sub(drawn, markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Search in pages from a disk, without the script that the theme would fetch for it."""
    return output.replace(SHIM, WORKER)


def _mathml(tex: str, where: str) -> str:
    """A formula as MathML: a word is one token to a reader, the cells of an array are displayed.

    Raises
    ------
    ValueError
        If something of it is left over as TeX.
    """
    from latex2mathml.converter import convert

    def whole(match: re.Match[str]) -> str:
        return f"\\text{match[1]}{{{match[2]}}}".replace("\\_", "_")

    drawn = convert(WORD.sub(whole, " ".join(tex.split())), display="block")
    left = re.findall(r"\\\w*|&(?!#)|\$", drawn)
    rows = tex.count("\\\\") + len(re.findall(r"\\begin\{", tex))
    if left or tex.count("{") != tex.count("}") or drawn.count("<mtr>") != rows:
        raise ValueError(
            f"{where}: TeX that is not understood, {left or 'a brace or row'}, in\n{tex}"
        )
    tree = ElementTree.fromstring(drawn.replace(' xmlns="http://www.w3.org/1998/Math/MathML"', ""))
    for one in tree.iter():
        _dress(one)
    tree.set("style", FONTS)
    return ElementTree.tostring(tree, encoding="unicode")


def _dress(one: ElementTree.Element) -> None:
    """What browsers want said in other words than the converter's."""
    if one.tag == "mtext" and "mathvariant" in one.attrib:
        one.set("style", FACES[one.attrib.pop("mathvariant")])
    elif one.tag == "mtable":
        one.set("style", "math-style: normal")
    elif "columnalign" in one.attrib:
        one.set("style", f"text-align: {one.attrib.pop('columnalign')}")
    elif one.tag == "msub" and one[0].text in ("max", "min"):
        one.tag = "munder"
