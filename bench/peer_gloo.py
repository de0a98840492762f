# SPDX-License-Identifier: Apache-2.0
"""PyTorch's all-reduce over gloo, as a peer of comm.py: peer_gloo.py PROCESSES.

A number of bytes a line, answers seconds (median, best tenth).
"""
import os
import socket
import sys
import time

import torch
import torch.distributed as dist

N = int(sys.argv[1])


def measure(size, rank):
    data = torch.full((size // 4,), float(rank))
    times = []
    for i in range(-3, min(400, max(5, (256 << 20) // size))):
        start = time.perf_counter()
        dist.all_reduce(data)
        if i >= 0:
            times.append(time.perf_counter() - start)
    times.sort()
    return times[len(times) // 2], times[len(times) // 10]


with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
rank = 0
for i in range(1, N):
    if rank == 0 and os.fork() == 0:
        rank = i
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:%d" % port, rank=rank, world_size=N)
while True:
    size = torch.zeros(1, dtype=torch.int64)
    if rank == 0:
        line = sys.stdin.readline()
        size[0] = int(line) if line else 0
    dist.broadcast(size, 0)
    if int(size) == 0:
        break
    seconds = measure(int(size), rank)
    if rank == 0:
        print("%.9f %.9f" % seconds, flush=True)
dist.destroy_process_group()
