#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What operators do wrong: each mistake has its exit code (docs/reference/exit-codes.md) and one sentence that names the
thing and the fix. Nothing crashes or hangs, and nothing is left behind: no process, no file.

Usage: mistakes.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`.
"""
import ctypes
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "train"))
import harness  # noqa: E402
from harness import check  # noqa: E402

LIMIT = 30  # seconds; most take a few milliseconds
MISTAKES = []


def mistake(name, code, command, *says, **more):
    """says: parts of the message. more: see Bench.make()."""
    MISTAKES.append((name, code, command, says, more))


def tf_config(workers, index=0, kind="worker", **more):
    return {"TF_CONFIG": json.dumps({"cluster": {"worker": workers, **more}, "task": {"type": kind, "index": index}})}


# ---- the table: {port} and {next} are free ports, {held} is in use ----

TRAIN = "train", "--model", "mlp", "--data", "good.csv", "--set", "label=y", "--batch", "8", "--steps", "5", "--quiet"
ALONE = [*TRAIN, "--no-test"]

# commands and options
mistake("an unknown command", 2, ["trian"], "no command 'trian'", "did you mean")
mistake("an unknown option", 2, [*ALONE, "--optimiser", "adam"], "no option '--optimiser'", "--optimizer")
mistake("an option without its value", 2, ["train", "--model"], "--model needs a value")
mistake("an option given twice", 2, [*ALONE, "--lr", "1", "--lr", "2"], "--lr is given twice")
mistake("a word that belongs nowhere", 2, [*ALONE, "now"], "'now'")
mistake("a number that is none", 2, [*ALONE, "--epochs", "ten"], "--epochs expects", "'ten'")
mistake("a batch of nothing", 2, ["train", "--model", "mlp", "--data", "good.csv", "--batch", "0"], "--batch expects", "'0'")
mistake("a learning rate below zero", 2, [*ALONE, "--lr", "-1"], "--lr expects", "'-1'")
mistake("a learning rate that is no number", 2, [*ALONE, "--lr", "nan"], "--lr expects", "'nan'")
mistake("an optimizer that there is not", 2, [*ALONE, "--optimizer", "adamm"], "adamm", "adam")
mistake("a setting that the optimizer has not", 2, [*ALONE, "--optimizer", "adam lr=0.1"], "lr", "learning_rate")
mistake("a model that there is not", 2, ["train", "--model", "mpl", "--data", "good.csv"], "mpl", "mlp")
mistake("a setting that the model has not", 2, [*ALONE[:2], "mlp unit=4", *ALONE[3:]], "unit", "units")
mistake("a setting that is no number", 2, [*ALONE, "--clip", "norm=nan"], "norm=nan")
mistake("a tunable that there is not", 2, [*ALONE, "--param", "pool_spin=1"], "pool_spin")
mistake("a tunable out of its range", 2, [*ALONE, "--param", "output_lease_ms=-5"], "output_lease_ms", "-5")
mistake("a tunable without a value", 2, [*ALONE, "--param", "output_lease_ms"], "output_lease_ms=NUMBER")
mistake("a timeout of nothing", 2, [*ALONE, "--timeout", "0"], "--timeout", "0")
mistake("a strategy that there is not", 2, [*ALONE, "--strategy", "mirorred"], "mirorred")
mistake("a codec that there is not", 2, [*ALONE, "--codec", "fp61"], "fp61", "fp16")
mistake("a mesh that is no list of axes", 2, [*ALONE, "--mesh", "rows"], "rows")

# options that exclude each other: refused before anything is created
FRESH = [*ALONE, "--out", "fresh"]
IMAGES = ["train", "--data", "fashion-mnist", "--batch", "16", "--steps", "2", "--quiet", "--no-test", "--out", "fresh", "--model"]
SERVERS = ["launch", "--workers", "2", "--ps", "2", "--", *FRESH, "--strategy"]
ZERO = "magnitude sparsity=0.5 end=4"


def exclusive(name, options, *says, command=FRESH, **more):
    mistake("options: " + name, 2, [*command, *options], *says, **more)


exclusive("prune and ema", ["--prune", ZERO, "--ema", "0.9"], "--prune", "--ema")
exclusive("ema-eval without ema", ["--ema-eval"], "--ema-eval needs --ema")
exclusive("a codec and one process of several replicas", ["--strategy", "mirrored replicas=2", "--codec", "fp16"], "codec", "multi_worker_mirrored")
exclusive("a codec and groups", ["--strategy", "local_sgd groups=2", "--codec", "fp16"], "codec", "multi_worker_mirrored")
exclusive("a codec and a mesh", ["--mesh", "rows:2", "--layout", "batch:rows", "--codec", "fp16"], "codec", "multi_worker_mirrored")
exclusive("a codec and a target", ["--target", "grpc://localhost:1", "--codec", "fp16"], "codec", "multi_worker_mirrored")
exclusive("a codec and parameter servers", ["parameter_server", "--codec", "fp16"], "codec", "multi_worker_mirrored", command=SERVERS)
exclusive("a codec that keeps a rest and fp16", ["--codec", "top_k ratio=0.1", "--precision", "fp16"], "top_k", "bf16")
exclusive("a codec and a median", ["--codec", "fp16", "--strategy", "multi_worker_mirrored aggregation=median"], "codec", "median", "aggregation")
exclusive("a sum of shards that are no power of two", ["--shards", "6", "--strategy", "multi_worker_mirrored aggregation=sum"], "aggregation=sum", "power of two", "6")
exclusive("groups and guard skip", ["--strategy", "local_sgd groups=2", "--guard", "skip"], "guard", "stop")
exclusive("groups and prune", ["--strategy", "local_sgd groups=2", "--prune", ZERO], "prune")
exclusive("groups and a loss of all samples", ["triplet", "--strategy", "local_sgd groups=2"], "triplet", "multi_worker_mirrored", command=IMAGES)
exclusive("groups that keep slots and stop", ["--strategy", "local_sgd groups=2 slots=keep", "--stop", "converged"], "--stop", "slots=keep", "slots=average")
exclusive("groups that keep slots and converged-after", ["--strategy", "local_sgd groups=2 slots=keep", "--converged-after", "5"], "--converged-after", "slots=average")
exclusive("servers and guard skip", ["parameter_server", "--guard", "skip"], "guard", "stop", command=SERVERS)
exclusive("servers and fp16", ["parameter_server", "--precision", "fp16"], "fp16", "bf16", command=SERVERS)
exclusive("servers and offload", ["parameter_server", "--offload", "."], "offload", "multi_worker_mirrored", command=SERVERS)
exclusive("several servers and a global norm", ["parameter_server", "--clip", "global_norm=1"], "--clip global_norm=1", "--ps 1", command=SERVERS)
exclusive("several servers and a global prune", ["parameter_server", "--prune", ZERO + " scope=global"], "--prune", "scope=layer", "--ps 1", command=SERVERS)
exclusive("asynchronous servers and a median", ["parameter_server mode=async aggregation=median"], "aggregation=median", "mode=sync", command=SERVERS)
exclusive("synchronous servers and blocks", ["parameter_server blocks=2"], "blocks=2", "mode=async", command=SERVERS)
exclusive("synchronous servers and a period", ["parameter_server period=2"], "period=2", "mode=async", command=SERVERS)
exclusive("a fixed partition without a number", ["parameter_server partition=fixed"], "shards=N", "partition=fixed", command=SERVERS)
exclusive("an even partition and a place", ["parameter_server place=by_size"], "place=by_size", "partition=whole", command=SERVERS)
exclusive("adasum of weights that are cut", ["parameter_server partition=fixed shards=2 aggregation=adasum"], "aggregation=adasum", "partition=whole", command=SERVERS)
exclusive("servers without servers", ["--strategy", "parameter_server"], "--ps 1")
exclusive("replicas and offload", ["--strategy", "mirrored replicas=2", "--offload", "."], "offload", "multi_worker_mirrored")
exclusive("replicas and workers", ["--strategy", "mirrored replicas=2"], "mirrored", "multi_worker_mirrored", command=["launch", "--workers", "2", "--", *FRESH])
exclusive("trim without trimmed_mean", ["--strategy", "multi_worker_mirrored trim=0.1"], "aggregation=trimmed_mean")
exclusive("weights without weighted", ["--strategy", "multi_worker_mirrored weights=[1,1]"], "aggregation=weighted")
exclusive("a strategy and a mesh", ["--mesh", "rows:2", "--strategy", "mirrored"], "--strategy", "--mesh", "only one")
exclusive("a target and a mesh", ["--mesh", "rows:2", "--target", "grpc://localhost:1"], "--target", "--mesh", "only one")
exclusive("a strategy and auto", ["--auto", "--strategy", "mirrored"], "--strategy", "--auto", "only one")
exclusive("a target and auto", ["--auto", "--target", "grpc://localhost:1"], "--target", "--auto", "only one")
exclusive("a target and prune", ["--target", "grpc://localhost:1", "--prune", "hold"], "--prune", "--target", "meshflow compress")
exclusive("a target and offload", ["--target", "grpc://localhost:1", "--offload", "."], "offload", "multi_worker_mirrored")
for option, value in ("--layout", "batch:rows"), ("--stages", "1,1"), ("--exact", None), ("--balance", None), ("--pipeline", "gpipe"), ("--explain", None):
    exclusive("%s without a mesh" % option[2:], [option] if value is None else [option, value], option, "--mesh")
for option, value in ("--pipeline", "gpipe"), ("--stages", "1,1"):
    exclusive("%s without layers" % option[2:], ["--mesh", "rows:2", "--layout", "batch:rows", option, value], option, "layers:AXIS")
exclusive("chunks without interleaved", ["--mesh", "rows:2", "--layout", "layers:rows", "--chunks", "2"], "--chunks needs --pipeline interleaved")
exclusive("a loss of all samples and 1f1b", ["triplet", "--mesh", "rows:2", "--layout", "layers:rows", "--micro-batches", "2"], "triplet", "--pipeline gpipe", command=IMAGES)
exclusive("gradients in slices without slots", ["--mesh", "rows:2", "--layout", "batch:rows;gradients:rows"], "gradients:rows", "slots:rows")
exclusive("an aggregation without micro-batches", ["--strategy", "mesh axes='rows:2' layout='batch:rows' aggregation=median"], "aggregation=median", "--micro-batches")
for option in "--devices", "--memory":
    exclusive("%s without auto" % option[2:], [option, "2"], option, "--auto")
exclusive("auto and a layout without a mesh", ["--auto", "--layout", "batch:rows"], "--layout needs --mesh")
exclusive("summary-steps without an output", ["--summary-steps", "2"], "--summary-steps needs --out", command=ALONE)
exclusive("pairs and a model of images", ["mlp", "--pairs", "crop=2"], "image", command=IMAGES)
exclusive("a model of pairs without pairs", ["siamese"], "--pairs", command=IMAGES)

# data
mistake("data that is not there", 2, ["train", "--model", "mlp", "--data", "absent.csv", "--no-test"], "absent.csv")
mistake("data of no known kind", 2, ["train", "--model", "mlp", "--data", "notes.txt", "--no-test"], "notes.txt")
mistake("a table without its label", 2, [*ALONE[:6], "label=price", *ALONE[7:]], "price", "its columns are a, b, y")
mistake("an empty table", 2, [*ALONE[:4], "empty.csv", *ALONE[5:]], "empty.csv")
mistake("a cell that is no number", 2, [*ALONE[:4], "words.csv", *ALONE[5:]], "words.csv", "4")
mistake("a batch larger than the data", 2, ["train", "--model", "mlp", "--data", "good.csv", "--set", "label=y", "--batch", "5000", "--no-test"], "5000", "60")
mistake("a validation of more than all", 2, [*ALONE, "--validation", "2"], "--validation expects", "'2'")
mistake("training images normalised, and not the others", 2, ["train", "--model", "mlp", "--data", "fashion-mnist", "--steps", "1", "--augment", "mean=[0.5] std=[0.3]"],
        "--augment: mean and std", "remove them")
mistake("a folder that others may not read", 2, [*ALONE[:4], "closed/good.csv", *ALONE[5:]], "closed", "Permission denied", user=True)

# output
mistake("an output below a file", 2, [*ALONE, "--out", "notes.txt/run"], "notes.txt/run", "Not a directory")
mistake("an output that is a file", 2, [*ALONE, "--out", "notes.txt"], "notes.txt")
mistake("an output in a folder that is not there", 2, [*ALONE, "--out", "none/deep"], "none/deep")
mistake("an output that may not be written", 2, [*ALONE, "--out", "closed/run"], "closed/run", "Permission denied", user=True)
mistake("a full disk", 1, [*ALONE, "--out", "fresh"], "fresh", size=900, leaves=["fresh"])
mistake("standard output on a full disk", 1, ["models"], "cannot write the output: No space left", stdout="/dev/full")
mistake("standard output of a launch on a full disk", 1, ["launch", "--workers", "2", "--json", "--", *ALONE, "--json"], "cannot write the output: No space left", stdout="/dev/full")
mistake("an output that is in use", 2, [*ALONE, "--out", "used"], "used", "step 5", "--resume", "--overwrite")
mistake("resume and overwrite", 2, [*ALONE, "--out", "used", "--resume", "--overwrite"], "choose one")
mistake("resume without an output", 2, [*ALONE, "--resume"], "--resume needs --out")
mistake("overwrite without an output", 2, [*ALONE, "--overwrite"], "--overwrite needs --out")
mistake("resume with another model", 2, ["train", "--model", "mlp units=7", *ALONE[3:], "--out", "used", "--resume"], "'mlp'", "'mlp units=7'", "--model")
mistake("resume with another batch and rate", 2, [*ALONE[:7], "--batch", "16", *ALONE[9:], "--lr", "0.5", "--out", "used", "--resume"], "--batch was 8 and is 16", "--lr was not given and is 0.5", "--allow-changes")
mistake("changes allowed without resume", 2, [*ALONE, "--allow-changes"], "--allow-changes needs --resume")
mistake("changes allowed without resume, of a master", 2, [*ALONE, "--allow-changes", "--store", "folder:store"], "--allow-changes needs --resume",
        env=tf_config(["localhost:1"], kind="master", master=["localhost:2"]))
mistake("resume with a model.json that is damaged", 2, [*ALONE, "--out", "torn", "--resume"], "'torn/model.json' is damaged", "in another --out")
mistake("resume without the schema", 2, [*ALONE, "--out", "bare", "--resume"], "schema.json is not beside model.json in 'bare'", "in another --out")
mistake("resume with another seed", 2, [*ALONE, "--seed", "9", "--out", "used", "--resume"], "--seed was 0 and is 9")
mistake("a lock of another host", 1, [*ALONE, "--out", "locked", "--resume"], "process 77 on elsewhere", "--out")
mistake("a checkpoint that is not there", 2, [*ALONE, "--init", "absent"], "absent")

# a trained model
mistake("eval of nothing", 2, ["eval", "--from", "absent", "--data", "good.csv"], "absent")
mistake("predict with a folder of no training", 2, ["predict", "--from", "empty", "--data", "good.csv"], "'empty'", "model.json", "--model")
mistake("serve without a model", 1, ["serve", "absent"], "absent")
mistake("serve of a folder without a model", 1, ["serve", "empty"], "empty", "model.json")
mistake("serve at a port that is in use", 1, ["serve", "used", "--port", "{held}", "--replicas", "1"], "{held}", "in use")
mistake("a checkpoint that is damaged", 1, ["ckpt", "verify", "damaged"], "damaged")
mistake("a graph that is none", 1, ["graph", "check", "notes.txt"], "notes.txt")

# clusters
mistake("TF_CONFIG that is no JSON", 2, ALONE, "TF_CONFIG", env={"TF_CONFIG": "{'cluster': {}}"})
mistake("TF_CONFIG without this task", 2, ALONE, "TF_CONFIG", "5", env=tf_config(["localhost:{port}"], 5))
mistake("TF_CONFIG with another job", 2, ALONE, "wroker", env=tf_config(["localhost:{port}"], 0, "wroker"))
mistake("TF_CONFIG with a port that is none", 2, ALONE, "99999", env=tf_config(["localhost:99999"]))
mistake("TF_CONFIG with one address twice", 2, ALONE, "localhost:{port}", env=tf_config(["localhost:{port}"] * 2))
mistake("a host that there is not", 1, [*ALONE, "--timeout", "0.5"], "no-such-host.invalid", env=tf_config(["localhost:{port}", "no-such-host.invalid:1"]))
mistake("a port that is in use", 1, [*ALONE, "--timeout", "3", "--transport", "grpc"], "localhost:{held}", "another task or program listens there", env=tf_config(["localhost:{held}", "localhost:{port}"]))
mistake("a worker that does not come", 1, [*ALONE, "--timeout", "0.5"], "worker 1", "localhost:1", env=tf_config(["localhost:{port}", "localhost:1"]))
mistake("a hostfile that is not there", 2, ALONE, "absent", env={"MESHFLOW_HOSTFILE": "absent"})
mistake("a hostfile with slots that are none", 2, ALONE, "hosts", "many", env={"MESHFLOW_HOSTFILE": "hosts"})
mistake("a server of a cluster that it is not in", 2, ["server", "--cluster", '{{"worker": ["localhost:{port}"]}}', "--job-name", "ps"], "ps")
mistake("a server at a port that is in use", 1, ["server", "--cluster", '{{"worker": ["localhost:{held}"]}}'], "{held}", "another task or program listens there")
mistake("a target without grpc", 2, [*ALONE, "--target", "localhost:2222"], "grpc://")
mistake("a store of no known kind", 2, [*ALONE, "--store", "ftp://x"], "ftp://x", env=tf_config(["localhost:{port}"]))
mistake("a store that may not be written", 1, [*ALONE, "--store", "file:closed/store"], "closed/store", user=True, env=tf_config(["localhost:{port}"]))

# certificates
TLS = "localhost:{port}", "localhost:1"
mistake("certificates that are not there", 2, [*ALONE, "--transport", "grpc", "--timeout", "5", "--tls-dir", "absent"], "absent does not contain ca.pem, cert.pem and key.pem", "meshflow cert --out absent", env=tf_config(TLS))
mistake("certificates that are text", 2, [*ALONE, "--transport", "grpc", "--timeout", "5", "--tls-dir", "texts"], "texts", env=tf_config(TLS))
mistake("a key of another certificate", 2, [*ALONE, "--transport", "grpc", "--timeout", "5", "--tls-dir", "swapped"], "swapped", "not the key of", env=tf_config(TLS))
mistake("a certificate of another authority", 2, [*ALONE, "--transport", "grpc", "--timeout", "5", "--tls-dir", "strange"], "strange/cert.pem", "strange/ca.pem", "meshflow cert", env=tf_config(TLS))
PAIR = "localhost:{port}", "localhost:{next}"
NET = "--transport", "grpc", "--timeout", "5", "--tls-dir"
mistake("a certificate of another task", 2, [*ALONE, *NET, "tls/worker-0"], "it identifies itself as worker 1, but its certificate is that of worker 0", "meshflow cert --task 'worker 1'", env=tf_config(PAIR, 1), peer=([*ALONE, *NET, "tls/worker-0"], tf_config(PAIR)))
mistake("certificates of two authorities", 2, [*ALONE, *NET, "other"], "cannot connect to worker 0", "not from our authority 'other/ca.pem'", "meshflow cert", env=tf_config(PAIR, 1), peer=([*ALONE, *NET, "tls/worker-0"], tf_config(PAIR)))
mistake("a certificate for a task without a name", 2, ["cert", "--out", "fresh", "--task", "../x"], "../x")
mistake("a certificate that is there already", 1, ["cert", "--out", "tls", "--task", "worker 0"], "exists already")

# workers that disagree
for option, value in ("--lr", "0.3"), ("--seed", "4"), ("--batch", "16"):
    other = [*ALONE, option, value] if option != "--batch" else [*ALONE[:7], "--batch", "16", *ALONE[9:]]
    mistake("workers with another %s" % option, 2, [*other, "--timeout", "5"], option, value, "worker 0", "worker 1", env=tf_config(PAIR, 1), peer=([*ALONE, "--timeout", "5"], tf_config(PAIR)))

# jobs
for command in "status", "hang", "vars", "join", "drain":
    mistake("%s of a job that there is not" % command, 1, ["job", command, "nobody"], "no job 'nobody'", "meshflow job list")
mistake("set of a job that there is not", 1, ["job", "set", "nobody", "--threads", "2"], "no job 'nobody'")
mistake("scale of a job that there is not", 1, ["job", "scale", "nobody", "--workers", "2"], "no job 'nobody'")
mistake("leave of a job that there is not", 1, ["job", "leave", "nobody", "worker:1"], "no job 'nobody'")
mistake("leave of a task that there is not", 1, ["job", "leave", "alive", "worker:7"], "'alive'", "worker:7", job=True)
mistake("set of nothing", 2, ["job", "set", "alive"], "name a setting to change")
mistake("set of more threads than there can be", 2, ["job", "set", "alive", "--threads", "99999"], "--threads expects")
mistake("set --mesh of a job without a mesh", 1, ["job", "set", "alive", "--mesh", "rows:2"], "alive", "--mesh", job=True)
mistake("set --layout without a mesh", 2, ["job", "set", "alive", "--layout", "batch:rows"], "--layout needs --mesh")
mistake("scale of a job of one process", 1, ["job", "scale", "alive", "--workers", "3"], "alive", "store", job=True)
mistake("join of a job of one process", 1, ["job", "join", "alive"], "alive", "store", job=True)
mistake("two jobs with one name", 1, [*ALONE, "--name", "alive"], "alive", "--name", job=True)
mistake("--task-index without a cluster", 2, [*ALONE, "--task-index", "1"], "--task_index", "no cluster is configured")
mistake("--job-name without a cluster", 2, [*ALONE, "--job-name", "worker"], "--job_name", "TF_CONFIG")
mistake("a launch of nothing", 2, ["launch", "--workers", "2"], "COMMAND")
mistake("a launch of a program that there is not", 2, ["launch", "--workers", "2", "--", "./absent"], "./absent")
mistake("a launch at ports that are in use", 1, ["launch", "--workers", "1", "--port", "{held}", "--", *ALONE], "{held}")
mistake("a launch of settings that are wrong", 2, ["launch", "--workers", "2", "--max-restarts", "5", "--", *ALONE, "--codec", "fp61"], "fp61")
mistake("a submit of nothing", 2, ["queue", "submit"], "COMMAND")
mistake("a submit after a job that there is not", 2, ["queue", "submit", "--after", "absent", "--", "true"], "absent")
mistake("attach to a job that there is not", 1, ["queue", "attach", "absent"], "absent")
mistake("cancel of a job that there is not", 1, ["queue", "cancel", "absent"], "absent")
mistake("a second daemon", 1, ["queue", "daemon"], "daemon", daemon=True)


# ---- what there is ----

def write(path, text):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as f:
        f.write(text)


def table(n, cell=lambda i: i % 7 / 7):
    return "a,b,y\n" + "".join("%s,%g,%s\n" % (cell(i), i % 5 / 5, ("no", "yes")[i % 2]) for i in range(n))


def obey_permissions():
    """Permissions do not apply to root with these two capabilities. Started processes do not have them."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in 1, 2:  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


class Bench(harness.Bench):
    def __init__(self, args):
        super().__init__(args)
        self.dirs = {name: os.path.join(self.dir, name) for name in ("work", "boards", "spool")}
        for path in self.dirs.values():
            os.mkdir(path, 0o700)
        self.work = self.dirs["work"]
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("MESHFLOW_", "TF_CONFIG"))}
        self.env.update(MESHFLOW_RUN_DIR=self.dirs["boards"], MESHFLOW_SPOOL=self.dirs["spool"])
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen()
        with socket.socket() as one, socket.socket() as two:
            for s in one, two:
                s.bind(("127.0.0.1", 0))
            self.ports = {"port": one.getsockname()[1], "next": two.getsockname()[1],
                          "held": self.socket.getsockname()[1]}
        self.fill()

    def good(self, *command):
        r = subprocess.run([self.program, *command], cwd=self.work, env=self.env, capture_output=True, text=True,
                           timeout=LIMIT)
        check(r.returncode == 0, "%s: %s" % (command, r.stderr))

    def fill(self):
        here = lambda name: os.path.join(self.work, name)  # noqa: E731
        write(here("good.csv"), table(60))
        write(here("words.csv"), table(60, lambda i: "many" if i == 2 else i))
        write(here("empty.csv"), "")
        write(here("notes.txt"), "remember the milk\n")
        write(here("hosts"), "localhost slots=many\n")
        write(here("closed/good.csv"), table(60))
        os.chmod(here("closed"), 0o000)
        os.mkdir(here("empty"))
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
        shutil.copy(os.path.join(root, "examples", "hello.pbtxt"), self.work)
        self.good(*ALONE, "--out", "used")
        shutil.copytree(here("used"), here("locked"))
        write(here("locked/run.lock"), "job a\nhost elsewhere\nspace other/pid:[1]\npid 77\nstart 5\nlease_ms 60000\n")
        shutil.copytree(here("used"), here("bare"))
        os.remove(here("bare/schema.json"))
        shutil.copytree(here("used"), here("torn"))
        os.truncate(here("torn/model.json"), 40)
        shutil.copytree(here("used"), here("damaged"))
        with open(here("damaged/model.ckpt-5.data-00000-of-00001"), "r+b") as f:
            f.write(b"\xff" * 64)
        self.good("cert", "--out", "tls", "--task", "worker 0", "--task", "worker 1")
        self.good("cert", "--out", "strange")
        self.good("cert", "--out", "other")
        shutil.copytree(here("tls/worker-0"), here("swapped"))
        shutil.copy(here("tls/worker-1/key.pem"), here("swapped/key.pem"))
        shutil.copy(here("tls/ca.pem"), here("strange/ca.pem"))
        for name in "ca", "cert", "key":
            write(here("texts/%s.pem" % name), "remember the milk\n")
            os.chmod(here("texts/%s.pem" % name), 0o600)

    def files(self):
        """What is there, without what the program keeps of living jobs."""
        return {os.path.join(where, name) for where, _, names in os.walk(self.dir) for name in names
                if not where.startswith((self.dirs["boards"], self.dirs["spool"]))}

    def places(self, env):
        return {k: re.sub(r"\{(port|next|held)\}", lambda m: str(self.ports[m[1]]), v) for k, v in (env or {}).items()}

    def start(self, command, env={}):
        p = subprocess.Popen([self.program, *command], cwd=self.work, env={**self.env, **env}, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
        self.running.append(p)
        return p

    def await_true(self, condition, what):
        end = time.monotonic() + LIMIT
        while not condition():
            check(time.monotonic() < end, "it did not happen: " + what)
            time.sleep(0.02)

    def start_job(self):
        """A training of one process, under the name `alive`."""
        self.start([*ALONE[:-4], "--steps", "1000000000", "--quiet", "--no-test", "--name", "alive"])
        self.await_true(self.has_job, "a job is alive")

    def has_job(self):
        """The job of an earlier mistake may have left its page: it is dead."""
        return any(j["job"] == "alive" and j["alive"] > 0 for j in json.loads(self.ask("job", "list", "--json").stdout)["jobs"])

    def start_daemon(self):
        self.start(["queue", "daemon"])
        self.await_true(lambda: os.listdir(self.dirs["spool"]), "a daemon runs")

    def ask(self, *command):
        return subprocess.run([self.program, *command], cwd=self.work, env=self.env, capture_output=True, text=True,
                              timeout=LIMIT)

    def make(self, command, env=None, user=False, size=None, stdout=None, job=False, daemon=False, peer=None,
             leaves=()):
        """Make a mistake: the exit code and what was said. user: permissions hold for root, too. size: files may
        not be larger. job, daemon: one runs. leaves: folders that may be there then."""
        def before():
            if user:
                obey_permissions()
            if size:
                resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

        if job:
            self.start_job()
        if daemon:
            self.start_daemon()
        if peer:
            self.start(peer[0], self.places(peer[1]))
        files = self.files()
        fill = lambda text: text.format(**self.ports)  # noqa: E731
        with open(stdout or os.devnull, "w") as out:
            p = subprocess.Popen([self.program, *map(fill, command)], cwd=self.work, env={**self.env, **self.places(env)},
                                 stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, text=True,
                                 preexec_fn=before, start_new_session=True)
            try:
                _, err = p.communicate(timeout=LIMIT)
            finally:
                left = self.end_session(p.pid)
        check(not left, "processes are left: %s" % left)
        new = {f for f in self.files() - files if os.path.relpath(f, self.work).split("/")[0] not in leaves}
        check(not new, "files are left: %s" % sorted(new))
        for name in leaves:
            shutil.rmtree(os.path.join(self.work, name), ignore_errors=True)
        return p.returncode, err

    @staticmethod
    def session(number):
        """The processes of a session."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/stat" % pid) as f:
                    fields = f.read().rsplit(")", 1)[1].split()
                if int(fields[3]) == number and fields[0] not in "ZX":
                    yield int(pid)
            except (FileNotFoundError, ProcessLookupError):
                pass

    def end_session(self, number):
        """Tell what is left of a session, and end it. What is about to end by itself is not left."""
        end = time.monotonic() + 5
        while (left := list(self.session(number))) and time.monotonic() < end:
            time.sleep(0.02)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return left

    def end_jobs(self):
        for p in self.running:
            harness.end(p)
        self.running = []

    def close(self):
        os.chmod(os.path.join(self.work, "closed"), 0o700)
        self.socket.close()
        super().close()


# ---- what is wrong with a message ----

RAW = re.compile(r"error:[0-9A-F]{6,}|%20|SSL_|routines|assert|0x[0-9a-f]{6,}|\(null\)|Sanitizer|core dumped")


def check_output(code, err, want, says):
    lines = [line for line in err.splitlines() if re.match(r"(\[[^]]*\] )?meshflow: ", line)]
    check(code == want, "exit code %d, not %d: %s" % (code, want, err))
    check(lines, "no message: %s" % err)
    for part in says:
        check(part in err, "no '%s' in: %s" % (part, err))
    check(not RAW.search(err), "the text of a library, or of a defect: %s" % err)
    check(all(len(line) < 500 for line in lines), "a message that is too long: %s" % err)


def main():
    args = harness.parser().parse_args()
    passed = failed = 0
    b = Bench(args)
    try:
        for name, want, command, says, more in MISTAKES:
            if args.pattern not in name:
                continue
            try:
                code, err = b.make(command, **more)
                check_output(code, err, want, [s.format(**b.ports) for s in says])
                passed += 1
                print("ok %d - %s" % (passed + failed, name), flush=True)
            except (harness.Failed, subprocess.TimeoutExpired) as e:
                failed += 1
                print("not ok %d - %s" % (passed + failed, name))
                print("#   " + str(e).replace("\n", "\n#   "), flush=True)
            if b.running:
                b.end_jobs()
    finally:
        b.close()
    if passed + failed == 0:
        failed = 1
        print("not ok 1 - no test matches '%s'" % args.pattern)
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
