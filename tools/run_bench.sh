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
if [[ variables == *${1:-}* ]] && [ -e build/venv/bin/python ]; then
    echo "# startup of a graph with many variables, against TensorFlow"
    build/venv/bin/python bench/variables.py
fi
if [[ train == *${1:-}* ]] && [ -e build/venv/bin/python ]; then
    tools/make_peer_venv.sh torch || echo "# without PyTorch: it could not be installed"
    echo "# training, against TensorFlow and PyTorch"
    MESHFLOW=build/release/meshflow build/venv/bin/python bench/train.py
fi
if [[ threads == *${1:-}* ]]; then
    tools/make_peer_venv.sh torch || echo "# without PyTorch: it could not be installed"
    echo "# a training step with 1 to 16 threads, against PyTorch"
    MESHFLOW=build/release/meshflow bench/threads.py || echo "# a model became slower with more threads"
fi
if [[ comm == *${1:-}* ]]; then
    tools/make_peer_venv.sh torch || echo "# without PyTorch: it could not be installed"
    echo "# all-reduce between processes, against gloo and Open MPI"
    bench/comm.py
fi
if [[ hosts == *${1:-}* ]] && [ "$(id -u)" = 0 ]; then
    echo "# all-reduce between hosts, against Open MPI over TCP and iperf3"
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
if [[ scaling == *${1:-}* ]]; then
    echo "# weak scaling from 1 to 8 processes, against TensorFlow's ring"
    MESHFLOW=build/release/meshflow bench/scaling.py
fi
if [[ convergence == *${1:-}* ]]; then
    echo "# how late trainings are stopped, and the cost"
    MESHFLOW=build/release/meshflow bench/convergence.py
fi
if [[ balance == *${1:-}* ]]; then
    echo "# workers with speeds 1:2:3: their shards and idle time"
    MESHFLOW=build/release/meshflow bench/balance.py
fi
if [[ compress == *${1:-}* ]]; then
    echo "# compressed models against the originals"
    MESHFLOW=build/release/meshflow bench/compress.py
fi
if [[ servers == *${1:-}* ]]; then
    echo "# parameter servers, against TensorFlow's; with copies of their state, against without"
    MESHFLOW=build/release/meshflow bench/servers.py
fi
if [[ wire == *${1:-}* ]] && [ -e build/venv/bin/python ]; then
    echo "# servers on TensorFlow's wire, against TensorFlow's"
    build/venv/bin/python bench/wire.py
fi
if [[ recovery == *${1:-}* ]]; then
    tools/make_peer_venv.sh torch || echo "# without PyTorch: it could not be installed"
    echo "# a worker is killed, against torchrun; the overhead of fault tolerance"
    bench/recovery.py
fi
if [[ codecs == *${1:-}* ]]; then
    echo "# gradients by codecs over a slow link"
    MESHFLOW=build/release/meshflow bench/codecs.py
fi
if [[ plan == *${1:-}* ]]; then
    echo "# predictions of the planner against measurements"
    MESHFLOW=build/release/meshflow bench/plan.py
fi
if [[ mesh == *${1:-}* ]] && tools/make_peer_venv.sh jax; then
    echo "# a transformer block on a mesh of 2x2, against JAX"
    MESHFLOW_LIB=build/release/libmeshflow.so.0 build/venv-jax/bin/python bench/mesh.py
fi
for source in bench/*.c; do
    name=$(basename "$source" .c)
    [ -e "$source" ] && [[ $name == *${1:-}* ]] || continue
    echo "# $name"
    "build/release/bench/$name"
done
