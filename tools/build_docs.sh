#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: build_docs.sh      behind `make docs`: builds the site in build/site
#
# Fails on a broken link or anchor, and on a page that is not in the navigation.
set -euo pipefail
cd "$(dirname "$0")/.."
work=build/docs

tools/make_docs_venv.sh
rm -rf "$work" build/site
mkdir -p "$work"
doxygen tools/docs/Doxyfile
python3 tools/docs/stage.py "$work/xml" "$work"
# The theme prints an advertisement of its authors' next product otherwise.
NO_MKDOCS_2_WARNING=1 build/docs-venv/bin/mkdocs build --strict -f "$work/mkdocs.yml"
tools/docs/check_site.py build/site
echo "the site: build/site/index.html"
