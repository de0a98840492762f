#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: run_bench.sh [PATTERN]      benchmarks of build/release whose name contains it
set -euo pipefail
cd "$(dirname "$0")/.."
printf '# %s, %s cores\n' "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)"
if [[ compare == *${1:-}* ]] && [ -e build/venv/bin/python ]; then
    echo "# against TensorFlow"
    MESHFLOW_LIB=build/release/libmeshflow.so.0 build/venv/bin/python bench/compare.py
fi
if [[ train == *${1:-}* ]] && [ -e build/venv/bin/python ]; then
    tools/make_peer_venv.sh torch || echo "# without PyTorch: it could not be installed"
    echo "# training, against TensorFlow and PyTorch"
    MESHFLOW=build/release/meshflow build/venv/bin/python bench/train.py
fi
if [[ comm == *${1:-}* ]]; then
    tools/make_peer_venv.sh torch || echo "# without PyTorch: it could not be installed"
    echo "# sums over processes, against gloo and Open MPI"
    bench/comm.py
fi
if [[ hosts == *${1:-}* ]] && [ "$(id -u)" = 0 ]; then
    echo "# sums between hosts, against Open MPI over TCP and iperf3"
    bench/hosts.py
fi
if [[ checkpointing == *${1:-}* ]]; then
    echo "# training with checkpoints, without, ratio"
    MESHFLOW=build/release/meshflow bench/checkpointing.py
fi
if [[ workers == *${1:-}* ]]; then
    echo "# two workers against one process"
    MESHFLOW=build/release/meshflow bench/workers.py
fi
if [[ servers == *${1:-}* ]]; then
    echo "# parameter servers, against TensorFlow's"
    bench/servers.py
fi
if [[ wire == *${1:-}* ]] && [ -e build/venv/bin/python ]; then
    echo "# servers on TensorFlow's wire, against TensorFlow's"
    build/venv/bin/python bench/wire.py
fi
if [[ recovery == *${1:-}* ]]; then
    tools/make_peer_venv.sh torch || echo "# without PyTorch: it could not be installed"
    echo "# a worker is killed, against torchrun; what being ready for it costs"
    bench/recovery.py
fi
if [[ codecs == *${1:-}* ]]; then
    echo "# gradients by codecs over a slow link"
    MESHFLOW=build/release/meshflow bench/codecs.py
fi
for source in bench/*.c; do
    name=$(basename "$source" .c)
    [ -e "$source" ] && [[ $name == *${1:-}* ]] || continue
    echo "# $name"
    "build/release/bench/$name"
done
