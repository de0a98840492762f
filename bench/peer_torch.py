# SPDX-License-Identifier: Apache-2.0
"""PyTorch's training step, as a worker of train.py: peer_torch.py MODEL BATCH PRECISION VARIANT THREADS.

MODEL: the architecture of the zoo's model of that name (src/models/zoo_*.c). VARIANT: eager, channels_last, compile.
"""
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

MODEL, BATCH, PRECISION, VARIANT = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
torch.set_num_threads(int(sys.argv[5]))
torch.manual_seed(1)


# ---- images ----

def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def fashion_cnn():
    return nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(3136, 128), nn.ReLU(), nn.Linear(128, 10))


def conv_norm(inputs, outputs, size, stride):
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False),
                         nn.BatchNorm2d(outputs, eps=1e-3))


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        same = inputs == outputs and stride == 1
        self.first = conv_norm(inputs, outputs, 3, stride)
        self.second = conv_norm(outputs, outputs, 3, 1)
        self.shortcut = nn.Identity() if same else conv_norm(inputs, outputs, 1, stride)

    def forward(self, x):
        return F.relu(self.shortcut(x) + self.second(F.relu(self.first(x))))


def resnet20():
    blocks, inputs = [], 16
    for stage in range(3):
        for block in range(3):
            blocks.append(Residual(inputs, 16 << stage, 2 if stage > 0 and block == 0 else 1))
            inputs = 16 << stage
    return nn.Sequential(conv_norm(3, 16, 3, 1), nn.ReLU(), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(64, 10))


# ---- tokens ----

class Block(nn.Module):
    """Attention by PyTorch's fused op; causal."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.forward1, self.forward2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (y.view(n, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).chunk(3, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, width)
        x = x + self.drop(self.out(y))
        y = self.forward2(F.gelu(self.forward1(self.norm2(x)), approximate="tanh"))
        return x + self.drop(y)


class Transformer(nn.Module):
    def __init__(self, vocabulary=256, steps=64, width=64, heads=4, layers=2):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Parameter(0.02 * torch.randn(steps, width))
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(0.1)
        self.scores = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x):
        return self.scores(self.norm(self.blocks(self.drop(self.tokens(x) + self.places)))).flatten(0, 1)


class Lstm(nn.Module):
    def __init__(self, vocabulary=20000, width=64, units=64):
        super().__init__()
        self.tokens, self.lstm = nn.Embedding(vocabulary, width), nn.LSTM(width, units, batch_first=True)
        self.drop, self.scores = nn.Dropout(0.2), nn.Linear(units, 2)

    def forward(self, x):
        return self.scores(self.drop(self.lstm(self.tokens(x))[0][:, -1]))


# ---- a step ----

def images(*dims):
    return torch.rand(BATCH, *dims), torch.randint(0, 10, (BATCH,))


MODELS = {"mlp": (mlp, lambda: images(1, 28, 28)), "fashion-cnn": (fashion_cnn, lambda: images(1, 28, 28)),
          "resnet20": (resnet20, lambda: images(3, 32, 32)),
          "transformer": (Transformer, lambda: (torch.randint(0, 100, (BATCH, 64)), torch.randint(0, 256, (BATCH * 64,)))),
          "lstm": (Lstm, lambda: (torch.randint(0, 100, (BATCH, 64)), torch.randint(0, 2, (BATCH,))))}
make_net, make_data = MODELS[MODEL]
net, (x, y) = make_net(), make_data()
if VARIANT == "channels_last":
    net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, foreach=True,
                            weight_decay=2e-4 if MODEL == "resnet20" else 0)
if VARIANT == "compile":
    net = torch.compile(net)
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
