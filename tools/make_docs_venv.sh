#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes build/docs-venv, a Python with MkDocs and its theme, for `make docs`.
# Downloads from PyPI (about 40 MB) when it is not there yet; fails when that cannot be reached.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdocs=1.6.1
material=9.8.1
markdown=3.11.3
extensions=13.1
venv=build/docs-venv
made=$venv/mkdocs-$mkdocs-material-$material-markdown-$markdown-extensions-$extensions

[ ! -e "$made" ] || exit 0
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
echo "installing mkdocs $mkdocs and mkdocs-material $material into $venv"
"$venv/bin/python" -m pip install -q --disable-pip-version-check --retries 2 --timeout 20 \
    "mkdocs==$mkdocs" "mkdocs-material==$material" "markdown==$markdown" "pymdown-extensions==$extensions"
touch "$made" # only after a complete installation
