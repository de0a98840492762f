# SPDX-License-Identifier: Apache-2.0
"""A training that torchrun restarts when a process dies, as a peer of recovery.py:
peer_torchrun.py FOLDER BATCH.

The net of fashion-cnn, DistributedDataParallel over gloo. Rank 0 keeps the state in memory (/dev/shm) every
ten steps, and all begin with it. Each rank writes (process, step, when it was done) to FOLDER/rank-N.
"""
import mmap
import os
import struct
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

FOLDER, BATCH = sys.argv[1], int(sys.argv[2])
STATE = os.path.join(FOLDER, "state")

torch.set_num_threads(1)
torch.manual_seed(1)
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
net = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                    nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                    nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10))
step = 0
if os.path.exists(STATE):
    kept = torch.load(STATE)
    net.load_state_dict(kept["net"])
    step = kept["step"]
model = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
loss_of = nn.CrossEntropyLoss()
x = torch.rand(-(-BATCH // size), 1, 28, 28)
y = torch.randint(0, 10, (x.shape[0],))
with open(os.path.join(FOLDER, "rank-%d" % rank), "w+b") as f:
    f.truncate(24)
    board = mmap.mmap(f.fileno(), 24)
while True:
    optimizer.zero_grad()
    loss_of(model(x), y).backward()
    optimizer.step()
    step += 1
    struct.pack_into("<3q", board, 0, os.getpid(), step, time.monotonic_ns())
    if rank == 0 and step % 10 == 0:
        torch.save({"net": net.state_dict(), "step": step}, STATE + ".new")
        os.rename(STATE + ".new", STATE)
