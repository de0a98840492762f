# SPDX-License-Identifier: Apache-2.0
"""What train.py and threads.py share: our program and its peers, in alternating rounds; the machine; the rows.

Runs from a source tree and from a bundle. MESHFLOW: the program. TORCH_PYTHON: a Python that has PyTorch (otherwise
build/venv-torch, then python3). TensorFlow is that of build/venv; without it, PyTorch is the only peer.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
IMAGES = ("fashion-cnn", "resnet20")


def first_that_exists(*paths):
    return next((p for p in paths if os.path.exists(p)), paths[-1])


MESHFLOW = os.environ.get("MESHFLOW") or first_that_exists(
    os.path.join(ROOT, "bin", "meshflow"), os.path.join(ROOT, "build", "meshflow"))
PEAK = first_that_exists(os.path.join(HERE, "peak"), os.path.join(ROOT, "build", "release", "bench", "peak"))
TF_PYTHON = os.path.join(ROOT, "build", "venv", "bin", "python")


def torch_python():
    """None: there is no PyTorch."""
    venv = os.path.join(ROOT, "build", "venv-torch", "bin", "python")
    for python in filter(None, (os.environ.get("TORCH_PYTHON"), venv, shutil.which("python3"))):
        if shutil.which(python) and subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
            return python
    return None


def options(about):
    """The parser, with what all programs accept."""
    p = argparse.ArgumentParser(description=about)
    p.add_argument("pattern", nargs="?", default="", help="only the rows that contain it")
    p.add_argument("--numerics", help="passed to our program")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--json", metavar="FILE", help="write the rows there, too")
    return p


# ---- the machine ----

def output(command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def usable_threads():
    """What our program takes by default: affinity and quotas are considered."""
    return json.loads(output([MESHFLOW, "doctor", "env", "--json"]))["threads"]


def processor():
    with open("/proc/cpuinfo") as f:
        return next((x.split(":", 1)[1].strip() for x in f if x.startswith("model name")), "unknown processor")


def peak_of(threads):
    """GFLOP/s of registers by precision; empty: not measured."""
    try:
        return json.loads(output([PEAK, str(threads)]))
    except (OSError, subprocess.CalledProcessError) as e:
        print("# without the peak of the processor: %s" % e)
        return {}


def load():
    return "%.2f %.2f %.2f" % os.getloadavg()


def print_machine(numerics, peak):
    version = output([MESHFLOW, "version"]).splitlines()
    print("# %s; %s; numerics %s" % (processor(), next(x for x in version if "kernels for" in x), numerics or "default"))
    if peak:
        print("# peak of %(threads)d threads in registers, GFLOP/s: AVX2 %(avx2)d, AVX-512 %(avx512)d, "
              "AVX512-BF16 %(avx512_bf16)d, AMX-BF16 %(amx_bf16)d" % peak)
    print("# load %s" % load(), flush=True)


# ---- our program and its peers ----

class Ours:
    """A rate is that of a process of its own, which measures five rounds."""
    name = "meshflow"

    def __init__(self, model, batch, precision, threads, numerics):
        self.command = [MESHFLOW, "bench", "step", "--model", model, "--batch", str(batch), "--precision", precision,
                        "--threads", str(threads), "--json"] + (["--numerics", numerics] if numerics else [])
        self.flops = 0  # of a sample

    def rate(self):
        told = json.loads(output(self.command))
        self.flops = told["flops_per_sample"]
        return told["samples_per_second"]

    def close(self):
        pass


class Peer:
    """A process that keeps its model: `peer_tf.py MODEL BATCH PRECISION VARIANT THREADS` answers a line with a rate."""

    def __init__(self, python, script, *args):
        self.name = "%s %s" % (script[5:-3], args[3])
        log = tempfile.TemporaryFile("w+")
        env = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS=args[4])
        self.p = subprocess.Popen([python, os.path.join(HERE, script), *args], env=env, text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        if self.p.stdout.readline().strip() != "ready":
            self.p.kill()
            self.p.communicate()
            log.seek(0)
            said = log.read().strip().splitlines()
            raise RuntimeError("%s does not start: %s" % (self.name, said[-1] if said else "no message"))

    def rate(self):
        self.p.stdin.write("go\n")
        self.p.stdin.flush()
        return float(self.p.stdout.readline())

    def close(self):
        self.p.communicate()


def torch_variants(model):
    """torch.compile needs a C++ compiler on a processor."""
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    return ["eager"] + ["channels_last"] * (model in IMAGES) + ["compile"] * bool(compiler)


def peers(model, batch, precision, threads, torch, with_tf=True):
    """Those that start; torch: its Python, or None."""
    wanted = [(TF_PYTHON, "peer_tf.py", v) for v in ("session", "xla") if with_tf and os.path.exists(TF_PYTHON)]
    wanted += [(torch, "peer_torch.py", v) for v in torch_variants(model) if torch]
    found = []
    for python, script, variant in wanted:
        try:
            found.append(Peer(python, script, model, str(batch), precision, variant, str(threads)))
        except RuntimeError as e:
            print("# %s" % e, flush=True)
    return found


def rates(those, rounds):
    """A/B/C/A/B/C...; by name: a list with one rate of each round."""
    found = {t.name: [] for t in those}
    for _ in range(rounds):
        for t in those:
            found[t.name].append(t.rate())
    for t in those:
        t.close()
    return found


def summary(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def best_of(found):
    """The name of the peer with the largest median; None: there is none."""
    names = [n for n in found if n != Ours.name]
    return max(names, key=lambda n: statistics.median(found[n])) if names else None


def write_json(path, rows, **machine):
    if path:
        with open(path, "w") as f:
            json.dump({"processor": processor(), "version": output([MESHFLOW, "version"]).splitlines(), **machine,
                       "rows": rows}, f, indent=1)
            f.write("\n")
