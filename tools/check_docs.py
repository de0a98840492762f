#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the documentation without a network: links, anchors, figures, paths, and the index.

1. A relative link or image in a Markdown file leads to a file of the repository.
2. An anchor in such a link is a heading of that page (GitHub's rule for anchors) or an HTML id.
3. docs/index.md links every page below docs/, and every figure in docs/figures/ is shown on a page.
4. A page below docs/ has exactly one title (`# ...`), and it precedes all other headings.
5. A path in backticks (`src/...`, `tests/...`, ...) exists; a C file in backticks is the end of the path of one
   (`loop/fit.c`); a page that a source file names (docs/....md) exists; so does the target of `make TARGET`.

Usage: check_docs.py [ROOT]
"""
import glob
import itertools
import os
import re
import subprocess
import sys
import tempfile
import unicodedata
import urllib.parse

FOLDERS = ("bench", "cmake", "docs", "examples", "fuzz", "include", "python", "src", "tests", "tools")
SOURCES = (".c", ".h", ".py", ".sh", ".txt", ".tsv", ".cmake", ".yml", ".yaml")
INDEX = os.path.join("docs", "index.md")

# Files that name paths of other times or other places.
HISTORY = {"CHANGELOG.md"}

# Tools that plant pages of their own.
PLANTERS = {"tools/check_docs.py", "tools/check_prose.py", "tools/test_docs.py"}

FENCE = re.compile(r"^( *)(```+|~~~+)[^\n]*\n.*?^\1\2[ \t]*$", re.S | re.M)
SPAN = re.compile(r"(`+)(.+?)\1(?!`)", re.S)
HTML_COMMENT = re.compile(r"<!--.*?-->", re.S)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(\s*<?([^)\s>]+)>?(?:\s+[\"'][^)]*[\"'])?\s*\)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s+<?(\S+?)>?\s*$", re.M)
HEADING = re.compile(r"^(#{1,6}) +(.+?)(?: +#+)?\s*$", re.M)
HTML_ID = re.compile(r"<[^>]*\b(?:id|name)=\"([^\"]+)\"")
EXTERNAL = re.compile(r"^[a-z][a-z0-9+.-]*:|^//", re.I)
ITEM = re.compile(r"^ {0,3}(?:[-*+]|\d+[.)]) ")
PLACEHOLDER = re.compile(r"(?:^|[/_])(?:x|X|NAME)(?=$|[/._])|[<>$]|\.\.\.")
PLANNED = re.compile(r"^.*\bplanned\b.*$", re.M)  # a line about what does not exist yet
TARGET = re.compile(r"^([a-z][a-z-]*):", re.M)
C_FILE = re.compile(r"(?!\.\./)[\w./-]+\.[ch]")
PAGE = re.compile(r"(?<![\w/.-])docs/[\w./-]*\.md(?:#[\w-]+)?")


def blank(match):
    """The same number of lines, without text: line numbers of complaints stay right."""
    return "\n" * match.group(0).count("\n")


def without_code(text):
    """Markdown without HTML comments, fenced and indented code."""
    lines, in_list, in_code, empty = [], False, False, True
    for line in FENCE.sub(blank, HTML_COMMENT.sub(blank, text)).split("\n"):
        if line.strip():
            in_list = bool(ITEM.match(line)) or in_list and (line.startswith(" ") or not empty)
            in_code = line.startswith("    ") and not in_list and (empty or in_code)
        lines.append("" if in_code else line)
        empty = not line.strip()
    return "\n".join(lines)


def without_spans(text):
    return SPAN.sub(lambda m: "`" + blank(m) + "`", text)


def anchor(heading):
    """GitHub's anchor of a heading."""
    text = SPAN.sub(lambda m: m.group(2), LINK.sub(lambda m: m.group(2), heading))
    text = re.sub(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1", r"\2", text)
    text = unicodedata.normalize("NFC", text).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(text):
    seen, found = {}, set(HTML_ID.findall(text))
    for _, heading in HEADING.findall(without_code(text)):
        name = anchor(heading)
        found.add("%s-%d" % (name, seen[name]) if name in seen else name)
        seen[name] = seen.get(name, 0) + 1
    return found


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def links(text):
    """(line, is it an image, target) of every link of a page that has its code removed."""
    text = without_spans(text)
    for m in LINK.finditer(text):
        yield line_of(text, m.start()), bool(m.group(1)), m.group(3)
        for inner in LINK.finditer(m.group(2)):  # a picture that is a link
            yield line_of(text, m.start()), bool(inner.group(1)), inner.group(3)
    for m in REFERENCE.finditer(text):
        yield line_of(text, m.start()), False, m.group(1)


def braces(path):
    """The paths that a shell makes of {a,b}."""
    parts = [p[1:-1].split(",") if p.startswith("{") else [p] for p in re.split(r"(\{[^{}]*\})", path)]
    return ["".join(p) for p in itertools.product(*parts)]


def paths_in_backticks(text):
    text = PLANNED.sub("", text)
    for m in SPAN.finditer(text):
        words = m.group(2).split()
        path = re.sub(r"(:[\w:]*|[,;.])+$", "", words[0]) if words else ""
        if path.startswith(tuple(f + "/" for f in FOLDERS)) and not PLACEHOLDER.search(path):
            yield line_of(text, m.start()), path


def c_files_in_backticks(text):
    for m in SPAN.finditer(PLANNED.sub("", text)):
        for path in braces(m.group(2)):
            if C_FILE.fullmatch(path) and not PLACEHOLDER.search(path):
                yield line_of(text, m.start()), path


class Tree:
    """The files of a repository, as git lists them; of a folder without git, all files."""

    def __init__(self, root):
        self.root = root
        listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                capture_output=True, text=True, check=False) \
            if os.path.exists(os.path.join(root, ".git")) else None
        if listed and listed.returncode == 0:
            self.files = sorted(f for f in set(listed.stdout.split("\0"))
                                if f and os.path.exists(os.path.join(root, f)))
        else:
            self.files = sorted(os.path.relpath(os.path.join(where, name), root)
                                for where, _, names in os.walk(root) for name in names)
        self.pages = {f: self.read(f) for f in self.files if f.endswith(".md")}
        self.anchors = {f: anchors(text) for f, text in self.pages.items()}
        self.known = set(self.files) | {"."}
        for f in self.files:
            while f:
                f = os.path.dirname(f)
                self.known.add(f)

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as f:
            return f.read()

    def has(self, path):
        return any(path.rstrip("/") in self.known or "*" in path and glob.glob(os.path.join(self.root, path))
                   for path in braces(path))

    def target(self, page, link):
        """(file, anchor) of a relative link."""
        path, _, name = urllib.parse.unquote(link).partition("#")
        where = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        return where, name


def check_links(tree):
    dead, lost, pictures, seen = [], [], [], set()
    for page, text in tree.pages.items():
        for line, picture, link in links(without_code(text)):
            if EXTERNAL.match(link):
                continue
            path, name = tree.target(page, link)
            seen.add((page, path))
            if link.startswith("/"):
                dead.append("%s:%d: '%s' begins with /: write it relative to the page" % (page, line, link))
            elif path not in tree.known:
                (pictures if picture else dead).append("%s:%d: '%s': there is no file %s" % (page, line, link, path))
            elif name and path in tree.anchors and name not in tree.anchors[path]:
                lost.append("%s:%d: '%s': %s has no heading with this anchor" % (page, line, link, path))
    yield "every link leads to a file", dead
    yield "every anchor is a heading of its page", lost
    yield "every figure of a page exists", pictures
    shown = {path for _, path in seen}
    yield "every figure is shown on a page", [
        "%s: no page shows it" % f for f in tree.files
        if f.startswith(os.path.join("docs", "figures", "")) and f not in shown]
    indexed = {path for page, path in seen if page == INDEX}
    yield "docs/index.md links every page", [
        "%s: docs/index.md does not link it" % f for f in tree.pages
        if f.startswith("docs/") and f != INDEX and f not in indexed]


def check_titles(tree):
    wrong = []
    for page, text in tree.pages.items():
        levels = [len(marks) for marks, _ in HEADING.findall(without_code(text))]
        if page.startswith("docs/") and (levels[:1] != [1] or levels.count(1) != 1):
            wrong.append("%s: needs exactly one '# title', before all other headings" % page)
    yield "every page has one title", wrong


def check_paths(tree):
    missing = []
    for page, text in tree.pages.items():
        if page not in HISTORY:
            missing += ["%s:%d: `%s`: there is no such file" % (page, line, path)
                        for line, path in paths_in_backticks(without_code(text)) if not tree.has(path)]
    yield "every path in backticks exists", missing
    ends = {"/".join(parts[i:]) for parts in (f.split("/") for f in tree.files if f.endswith((".c", ".h")))
            for i in range(len(parts))}
    yield "every C file in backticks exists", [
        "%s:%d: `%s`: no file has a path that ends so" % (page, line, path) for page, text in tree.pages.items()
        if page not in HISTORY for line, path in c_files_in_backticks(without_code(text)) if path not in ends]
    targets = set(TARGET.findall(tree.read("Makefile")))
    yield "every make target in backticks exists", [
        "%s:%d: `%s`: the Makefile has no such target" % (page, line_of(text, m.start()), m.group(2))
        for page, text in tree.pages.items() if page not in HISTORY for m in SPAN.finditer(text)
        if re.match(r"make [a-z]", m.group(2)) and m.group(2).split()[1] not in targets]
    wrong = []
    for f in tree.files:
        if f.endswith(SOURCES) and f not in PLANTERS:
            text = tree.read(f)
            for m in PAGE.finditer(text):
                path, _, name = m.group(0).partition("#")
                if path not in tree.pages or name and name not in tree.anchors[path]:
                    wrong.append("%s:%d: %s: there is no such page or heading" % (f, line_of(text, m.start()), m.group(0)))
    yield "every page that a source file names exists", wrong


def check_tree(root):
    """Yields (name of the test, complaints)."""
    tree = Tree(root)
    yield from check_links(tree)
    yield from check_titles(tree)
    yield from check_paths(tree)


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


CLEAN = {
    "README.md": "# Program\n\n[index](docs/index.md), [a heading](docs/a.md#one-two--three_x), "
                 "[again](docs/a.md#twice-1)\n\n"
                 "    code with a [link](nowhere.md)\n\n```\n[x](y)\n```\n`[x](y)` and `src/a.{c,h}`, `src/NAME.c`, `a.c`, `make all`\n",
    "docs/index.md": "# Index\n\n[a](a.md) ![figure](figures/a.svg) [web](https://example.com/#x)\n",
    "docs/a.md": "# A\n\n## One, `two` & *three_x*\n\n## Twice\n\n## Twice\n",
    "docs/figures/a.svg": "<svg/>",
    "Makefile": "all: ## everything\n\ttrue\n",
    "src/a.c": "/* docs/a.md#twice */\n",
    "src/a.h": "/* none */\n",
}
PLANTED = {
    "every link leads to a file": ("README.md", "[x](docs/nothing.md)"),
    "every anchor is a heading of its page": ("README.md", "[x](docs/a.md#nothing)"),
    "every figure of a page exists": ("README.md", "![x](docs/figures/nothing.svg)"),
    "every figure is shown on a page": ("docs/figures/b.svg", "<svg/>"),
    "docs/index.md links every page": ("docs/b.md", "# B\n"),
    "every page has one title": ("docs/a.md", "# Another title\n"),
    "every path in backticks exists": ("README.md", "`src/nothing/`"),
    "every C file in backticks exists": ("README.md", "`nothing.c`"),
    "every make target in backticks exists": ("README.md", "`make nothing T=x`"),
    "every page that a source file names exists": ("src/a.c", "/* docs/nothing.md */\n"),
}


def goes_red():
    """A clean tree has no complaints; with one planted violation there is one, of that test alone."""
    wrong = []
    for planted in [None, *PLANTED]:
        with tempfile.TemporaryDirectory() as root:
            for path, text in CLEAN.items():
                write(os.path.join(root, path), text)
            if planted:
                path, text = PLANTED[planted]
                write(os.path.join(root, path), CLEAN.get(path, "") + "\n" + text)
            found = {name: complaints for name, complaints in check_tree(root) if complaints}
        if list(found) != [planted] * bool(planted):
            wrong.append("planted: %s; found: %s" % (planted or "nothing", found or "nothing"))
    return wrong


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    tests = [("the check sees every kind of violation", goes_red()), *check_tree(root)]
    failed = 0
    for number, (name, complaints) in enumerate(tests, 1):
        print("%s %d - %s" % ("not ok" if complaints else "ok", number, name))
        for line in complaints:
            print("#   " + line)
        failed += bool(complaints)
    print("%d passed, %d failed, 0 skipped" % (len(tests) - failed, failed))
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
