#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Doxygen's INPUT_FILTER: makes doc comments of the plain comments of a header, with its text unchanged.

A comment describes the declaration after it, or before it on the same line. Lines keep their numbers.

Usage: header_filter.py HEADER
"""
import re
import sys

TOKEN = re.compile(r'/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.S)
SECTION = re.compile(r"/\*\s*-{3,}\s*(.*?)\s*-{3,}\s*\*/", re.S)


def text_of(comment):
    """The text of a comment, without the stars in front of its lines."""
    lines = comment[2:-2].split("\n")
    return "\n".join([lines[0].strip()] + [re.sub(r"^\s*\*( |$)|^\s{1,3}(?=\S)", "", x).rstrip() for x in lines[1:]])


def filtered(header):
    def doc(m):
        token = m.group(0)
        if token.startswith('"') or "SPDX" in token or SECTION.fullmatch(token) or token.startswith("/**"):
            return token
        line = header[header.rfind("\n", 0, m.start()) + 1:m.start()]
        if line.lstrip().startswith("#") or line.rstrip().endswith("\\"):
            return token
        return "/**%s @verbatim %s @endverbatim */" % ("<" if line.strip() else "", text_of(token))

    first = [m for m in TOKEN.finditer(header) if m.group(0).startswith("/*") and "SPDX" not in m.group(0)][:1]
    at = first[0].end() if first else 0  # the comment of the file: the page begins with it
    return TOKEN.sub(lambda m: doc(m) if m.start() >= at else m.group(0), header)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as f:
        sys.stdout.write(filtered(f.read()))
