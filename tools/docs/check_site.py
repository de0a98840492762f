#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a page of the site loads something from another host: scripts, styles, fonts, pictures, frames.

Links that a reader follows may lead anywhere.

Usage: check_site.py SITE
"""
import html.parser
import os
import re
import sys

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src", "object": "data",
         "embed": "src"}
STYLE_URL = re.compile(r"url\(\s*['\"]?((?:https?:)?//[^'\")]+)|@import\s+['\"]((?:https?:)?//[^'\"]+)")


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.loads = []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "link" and not set((attrs.get("rel") or "").split()) & {"canonical", "prev", "next", "alternate", "edit"}:
            self.loads.append(attrs.get("href"))
        if tag in LOADS:
            self.loads.append(attrs.get(LOADS[tag]))


def main():
    wrong, pages = [], 0
    for where, _, names in os.walk(sys.argv[1]):
        for name in names:
            path = os.path.join(where, name)
            if not name.endswith((".html", ".css")):
                continue
            with open(path, encoding="utf-8") as f:
                text = f.read()
            if name.endswith(".html"):
                page = Page()
                page.feed(text)
                pages += 1
                found = [x for x in page.loads if x and re.match(r"(?:https?:)?//", x)]
            else:
                found = [a or b for a, b in STYLE_URL.findall(text)]
            wrong += ["%s loads %s" % (path, x) for x in found]
    for line in wrong:
        print(line, file=sys.stderr)
    if not pages:
        sys.exit("%s has no pages" % sys.argv[1])
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
