#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collects the pages of the site in DIR/pages and writes DIR/mkdocs.yml with the navigation.

Pages lie as in the repository, so that relative links hold: README.md is the home page; then docs/, the other
pages of the root, the READMEs of src/, and one generated page for each public header. The navigation follows
docs/index.md: a page stands in the section that links it first. A page that docs/index.md does not link is not
in the navigation, and `mkdocs build --strict` fails.

Usage: stage.py XML DIR      XML: doxygen's output for include/meshflow
"""
import glob
import html
import json
import os
import re
import shutil
import sys
import textwrap
import xml.etree.ElementTree as ET

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tools"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from check_docs import EXTERNAL, HEADING, LINK, links, without_code  # noqa: E402
from header_filter import SECTION, TOKEN, text_of                    # noqa: E402

FOLDERS = ["guides", "reference", "internals"]  # of docs/, in the order of the tabs
PROJECT = ["CONTRIBUTING.md", "CHANGELOG.md", "ROADMAP.md", "SECURITY.md"]
API = "docs/api"


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def exists(path):
    return os.path.exists(os.path.join(ROOT, path))


# ---- pages of the repository -------------------------------------------------------------------

def pages():
    found = [p for p in ["README.md", "ARCHITECTURE.md", "GLOSSARY.md", *PROJECT] if exists(p)]
    found += sorted(glob.glob("docs/**/*.md", root_dir=ROOT, recursive=True))
    return found + sorted(glob.glob("src/**/README.md", root_dir=ROOT, recursive=True))


def title(page):
    heading = HEADING.search(without_code(read(page)))
    return heading.group(2).replace("`", "") if heading else page


def lists_apart(text):
    """A list that follows a line of text is a list for GitHub; Python-Markdown wants an empty line before it."""
    out, fenced = [], False
    for line in text.split("\n"):
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        item = re.match(r"(?:[-*+]|\d+\.) ", line)
        if item and not fenced and out and out[-1].strip() and not re.match(r"\s|(?:[-*+]|\d+\.) |#|\|", out[-1]):
            out.append("")
        out.append(line)
    return "\n".join(out)


def staged(page, copied):
    """The text of a page; files that it links and that are no pages are noted in `copied`."""
    text, known = read(page), set(pages())

    def link(m):
        path, _, name = m.group(3).partition("#")
        there = os.path.normpath(os.path.join(os.path.dirname(page), path))
        if path and not EXTERNAL.match(m.group(3)) and there not in known:
            if os.path.isdir(os.path.join(ROOT, there)) and os.path.join(there, "README.md") in known:
                return m.group(0).replace(m.group(3), path.rstrip("/") + "/README.md" + ("#" + name) * bool(name))
            if os.path.isfile(os.path.join(ROOT, there)):
                copied.add(there)
        return m.group(0)

    return lists_apart(LINK.sub(link, text))


# ---- public headers ----------------------------------------------------------------------------

class Header:
    """What doxygen says of one header, in the order of its lines."""

    def __init__(self, xml, path):
        self.name, self.text = "meshflow/" + os.path.basename(path), read(path)
        self.entries = []  # (line, kind, name, code, text, fields)
        comments = [m for m in TOKEN.finditer(self.text) if m.group(0).startswith("/*") and "SPDX" not in m.group(0)]
        first = text_of(comments[0].group(0)) if comments and self.text[:comments[0].start()].count("\n") <= 1 else ""
        self.intro = re.sub(r"^%s - (.)" % re.escape(os.path.basename(path)), lambda m: m.group(1).upper(), first)
        for m in SECTION.finditer(self.text):
            self.entries.append((self.text.count("\n", 0, m.start()) + 1, "section", m.group(1), "", "", []))
        compound = ET.parse(os.path.join(xml, os.path.basename(path).replace(".", "_8") + ".xml")).find("compounddef")
        for member in compound.iter("memberdef"):
            self.member(member)
        for inner in compound.findall("innerclass"):
            self.struct(ET.parse(os.path.join(xml, inner.get("refid") + ".xml")).find("compounddef"))
        self.entries.sort(key=lambda e: e[0])

    @staticmethod
    def comment(element):
        return "\n\n".join("".join(v.itertext()).strip() for v in element.findall("detaileddescription//verbatim"))

    @staticmethod
    def line(element):
        return int(element.find("location").get("line"))

    @staticmethod
    def plain(element, tag):
        return "".join(element.find(tag).itertext()).strip() if element.find(tag) is not None else ""

    def member(self, m):
        kind, name, comment = m.get("kind"), self.plain(m, "name"), self.comment(m)
        fields = []
        if kind == "function":
            code = wrapped(self.plain(m, "type") + " " + name, self.plain(m, "argsstring"))
        elif kind == "typedef":
            code = declared("typedef " + self.plain(m, "type"), name, self.plain(m, "argsstring"))
        elif kind == "enum":
            values = m.findall("enumvalue")
            code = "enum%s {\n%s\n};" % ("" if name.startswith("@") or not name else " " + name, "\n".join(
                "    %s%s," % (self.plain(v, "name"), (" " + self.plain(v, "initializer")).rstrip()) for v in values))
            fields = [(self.plain(v, "name"), self.comment(v)) for v in values]
            name = self.plain(values[0], "name") if name.startswith("@") or not name else name
        elif kind == "define":
            if name.endswith("_H") or name in ("MF_API", "MF_MUST"):
                return
            params = [self.plain(p, "defname") for p in m.findall("param")]
            code = "#define %s%s" % (name, "(%s)" % ", ".join(params) if params else "")
        else:
            code = declared(self.plain(m, "type"), name, self.plain(m, "argsstring"))
        self.entries.append((self.line(m), kind, name, code, comment, fields))

    def struct(self, s):
        name, lines, fields = self.plain(s, "compoundname"), [], []
        for m in s.iter("memberdef"):
            lines.append("    " + declared(self.plain(m, "type"), self.plain(m, "name"), self.plain(m, "argsstring")))
            fields.append((self.plain(m, "name"), self.comment(m)))
        code = "%s %s {\n%s\n};" % (s.get("kind"), name, "\n".join(lines))
        self.entries.append((self.line(s), "struct", name, code, self.comment(s), fields))


def declared(kind, name, args):
    space = "" if kind.endswith(("*", "(")) else " "
    return tidy("%s%s%s%s;" % (kind, space, name, args))


def tidy(code):
    code = re.sub(r"(?<=\w)\(\*(?=\w)", " (*", code)
    return re.sub(r"\s*\*\s*(?=[\w*)(])", lambda m: " *", code).replace("* *", "**").replace("( *", "(*").strip()


def wrapped(head, args):
    """A declaration of a function, an argument a line where it is long."""
    code = tidy(head + args) + ";"
    if len(code) <= 90:
        return code
    depth, parts = 0, [""]
    inner = tidy(args.strip())[1:].rsplit(")", 1)[0]
    for c in inner:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return tidy(head) + "(\n    " + ",\n    ".join(p.strip() for p in parts) + ");"


def prose(text, known, here):
    """The plain text of a comment as Markdown: indented lines are code, names of the API are links."""
    out = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        lines = paragraph.split("\n")
        if lines[0].startswith("    "):
            out.append("```c\n" + textwrap.dedent(paragraph) + "\n```")
            continue
        parts = re.split(r"(`[^`\n]+`)", " ".join(x.strip() for x in lines)
                         if not any(re.match(r"\s*(?:- |\d+\. )", x) for x in lines) else
                         "\n".join(x.strip() if re.match(r"\s*(?:- |\d+\. )", x) else "    " + x.strip() for x in lines))
        out.append("".join(p if p.startswith("`") else escaped(p, known, here) for p in parts))
    return "\n\n".join(out)


def escaped(text, known, here):
    def name(m):
        page = known.get(m.group(1))
        return "[`%s`](%s#%s)" % (m.group(0), "" if page == here else page, m.group(1)) if page else m.group(0)

    text = re.sub(r"([_\\\[\]|]|\*(?![\w][\w ]*\*)(?<!\w\*))", r"\\\1", html.escape(text, quote=False))
    return re.sub(r"\b((?:mf|MF)(?:\\_\w+?)+)(?:\(\))?(?![\w\\])", lambda m: name(re.match(
        r"(\w+)(?:\(\))?", m.group(0).replace("\\_", "_"))) if m.group(1).replace("\\_", "_") in known else m.group(0), text)


def api_page(header, known):
    here = page_of(header.name)
    out = ["# " + header.name, prose(header.intro, known, here), "```c\n#include <%s>\n```" % header.name]
    for _, kind, name, code, comment, fields in header.entries:
        if kind == "section":
            out.append("## " + name[:1].upper() + name[1:])
            continue
        out.append("### %s { #%s data-toc-label='%s' }" % (name.replace("_", "\\_"), name, name))
        out.append("```c\n%s\n```" % code)
        if comment:
            out.append(prose(comment, known, here))
        rows = [(n, prose(" ".join(c.split()), known, here)) for n, c in fields if c]
        if rows:
            out.append("\n".join(["| %s | |" % ("value" if kind == "enum" else "field"), "|---|---|"] +
                                 ["| `%s` | %s |" % row for row in rows]))
    return "\n\n".join(x for x in out if x) + "\n"


def page_of(name):
    return os.path.basename(name).replace(".h", "_h.md")


def first_sentence(text):
    return " ".join(re.split(r"(?<=[.])\s|\n\s*\n", text, maxsplit=1)[0].rstrip(":.").split())


def api_pages(xml):
    """{path: text}; index.md is the first."""
    headers = [Header(xml, os.path.relpath(p, ROOT)) for p in sorted(glob.glob(os.path.join(ROOT, "include/meshflow/*.h")))]
    known = {}
    for header in headers:
        for _, kind, name, _, _, fields in header.entries:
            if kind != "section" and known.get(name, page_of(header.name)) == page_of(header.name):
                known[name] = page_of(header.name)
    rows = ["| [`%s`](%s) | %s |" % (h.name, page_of(h.name), prose(first_sentence(h.intro), {}, "")) for h in headers]
    found = {os.path.join(API, "index.md"): "\n".join(
        ["# C API", "", "One page for each header in `include/meshflow`. `meshflow/meshflow.h` includes all of them.", "",
         "| header | contents |", "|---|---|", *rows, ""])}
    for header in headers:
        found[os.path.join(API, page_of(header.name))] = api_page(header, known)
    return found


# ---- navigation --------------------------------------------------------------------------------

def indexed():
    """(section of docs/index.md, page), in the order of the links; each page once."""
    section, seen = "", set()
    text = without_code(read("docs/index.md"))
    for line in text.split("\n"):
        heading = HEADING.match(line)
        if heading and len(heading.group(1)) == 2:
            section = heading.group(2)
        for _, picture, link in links(line):
            page = os.path.normpath(os.path.join("docs", link.partition("#")[0]))
            if page.endswith(".md") and not EXTERNAL.match(link) and page not in seen and not picture:
                seen.add(page)
                yield section, page


def navigation(api):
    nav, known = [{"Home": "README.md"}, {"All pages": "docs/index.md"}], set(pages())
    listed = [(section, page) for section, page in indexed() if page in known]
    for folder in FOLDERS:
        groups = {}
        for section, page in listed:
            if page.startswith("docs/%s/" % folder):
                groups.setdefault(section, []).append({title(page): page})
        first = []
        if folder == "internals":
            first = [{title(p): p} for p in ("ARCHITECTURE.md", "GLOSSARY.md") if p in known]
            folders = [{os.path.dirname(p): p} for p in sorted(known) if p.startswith("src/")]
            if folders:
                groups["Source folders"] = folders
        first += groups.pop(folder.capitalize(), [])  # a section that is named as the tab
        if first or groups:
            nav.append({folder.capitalize(): first + [{s: items} for s, items in groups.items()]})
    rest = [{title(p): p} for _, p in listed if p.startswith("docs/") and p.count("/") == 1 and p != "docs/index.md"]
    nav.append({"C API": [{"Headers": next(iter(api))}] +
                [{"meshflow/" + os.path.basename(p).replace("_h.md", ".h"): p} for p in list(api)[1:]]})
    nav.append({"Project": rest + [{title(p): p} for p in PROJECT if p in known]})
    return nav


def main():
    xml, where = sys.argv[1:3]
    copied, api = set(), api_pages(xml)
    for page in pages():
        write(os.path.join(where, "pages", page), staged(page, copied))
    for page, text in api.items():
        write(os.path.join(where, "pages", page), text)
    shutil.copyfile(os.path.join(ROOT, "tools", "docs", "extra.css"), os.path.join(where, "pages", "extra.css"))
    for path in sorted(copied):
        there = os.path.join(where, "pages", path)
        os.makedirs(os.path.dirname(there), exist_ok=True)
        shutil.copyfile(os.path.join(ROOT, path), there)
    config = {"INHERIT": os.path.relpath(os.path.join(ROOT, "mkdocs.yml"), where), "docs_dir": "pages",
              "site_dir": os.path.relpath(os.path.join(ROOT, "build", "site"), where), "nav": navigation(api)}
    write(os.path.join(where, "mkdocs.yml"), "# Generated by tools/docs/stage.py\n" + json.dumps(config, indent=1) + "\n")


if __name__ == "__main__":
    main()
