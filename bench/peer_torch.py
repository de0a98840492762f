# SPDX-License-Identifier: Apache-2.0
"""PyTorch's training step, as a worker of train.py: peer_torch.py MODEL BATCH PRECISION VARIANT.

VARIANT: eager, channels_last.
"""
import os
import sys
import time

import torch
from torch import nn

MODEL, BATCH, PRECISION, VARIANT = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
torch.set_num_threads(os.cpu_count())
torch.manual_seed(1)
if MODEL == "mlp":
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
else:
    net = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                        nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10))
x = torch.rand(BATCH, 1, 28, 28)
y = torch.randint(0, 10, (BATCH,))
if VARIANT == "channels_last":
    net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, foreach=True)
loss_of = nn.CrossEntropyLoss()


def step():
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=PRECISION == "bf16"):
        loss = loss_of(net(x), y)
    loss.backward()
    optimizer.step()


def measure(seconds=0.6):
    for _ in range(3):
        step()
    n, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        step()
        n += 1
    return n * BATCH / (time.perf_counter() - begin)


measure(0.2)
print("ready", flush=True)
for _ in sys.stdin:
    print(measure(), flush=True)
