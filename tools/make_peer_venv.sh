#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: make_peer_venv.sh torch|ray|jax|mtf
#
# Creates build/venv-NAME, a Python with PyTorch (5 GB), a peer of `make bench`; with Ray (100 MB), one
# of the engines of `make engines`; or with JAX (600 MB) or Mesh TensorFlow (and its TensorFlow, 2 GB),
# peers of tests/mesh. Downloads from PyPI unless it exists; fails if PyPI cannot be reached.
set -euo pipefail
cd "$(dirname "$0")/.."
case "${1:-}" in
    torch) packages=(torch==2.15.0 numpy) ;;
    ray) packages=(ray==2.60.0) ;;
    jax) packages=(jax==0.10.2 jaxlib==0.10.2 numpy) ;;
    mtf) packages=(mesh-tensorflow==0.1.21 tensorflow==2.12.1) ;;
    *) echo "usage: make_peer_venv.sh torch|ray|jax|mtf" >&2; exit 2 ;;
esac
venv=build/venv-$1
made=$venv/${packages[0]/==/-}

[ ! -e "$made" ] || exit 0
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
echo "installing ${packages[*]} into $venv"
"$venv/bin/python" -m pip install -q --disable-pip-version-check --no-cache-dir --retries 2 \
    --timeout 20 "${packages[@]}"
touch "$made" # last, so that an incomplete one is created again
