#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every `meshflow ...` command of README.md, CONTRIBUTING.md and docs/, with fewer steps and small data.

A command is a line of a code block (only lines with `$ ` where a block has such lines) or a span in backticks.
For each one the command and its options must exist. Then, unless it is a form (`meshflow status [JOB]`), a mention
(`meshflow train`) or in NOT_RUN, it runs in a folder of its own that holds the files it names, and must end with
exit code 0, or one of EXIT_CODES. The tables below say how a command is reduced, completed and prepared.

Usage: test_docs.py PROGRAM                  TAP, one test per page
       test_docs.py PROGRAM --list           what is done with each command, and why; runs nothing
       test_docs.py PROGRAM --only PATTERN   commands that match, with their output
"""
import collections
import concurrent.futures
import functools
import glob
import json
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
LIMIT_S = 120  # for one command, on a machine that does other things

# ---- which text is a command -------------------------------------------------------------------

PAGES = ["README.md", "CONTRIBUTING.md", "docs/**/*.md"]
SKIPPED_PAGES = {"docs/guides/tour.md": "tools/tour/run.py wrote it; tools/mission.py checks its commands",
                 "docs/guides/tour.zh.md": "the same"}
OTHER_LANGUAGES = {"c", "cpp", "python", "json", "yaml", "proto", "cmake", "diff"}
PROGRAMS = {"meshflow", "build/meshflow"}
LAUNCHERS = {"mpirun", "mpiexec", "srun", "torchrun", "nohup", "time", "sudo"}  # words before the program
BEFORE = {"do", "then", "if", "while", "until", "!", "else", "{"}
PLACEHOLDERS = {"JOB", "DIR", "CKPT", "NAME", "DATA", "FILE", "HOST", "PORT", "LIST", "SPEC", "PATTERN", "VALUE", "MODEL",
                "SETTING", "SETTINGS", "PREFIX", "TO", "FROM", "URL", "GRAPH", "COMMAND", "RATE", "TASK", "N", "S", "P",
                "K", "M", "COUNT", "STEP", "SECONDS", "MIB", "ID", "PATH"}

# ---- spellings ---------------------------------------------------------------------------------

# The grouped spelling of a command, and the name under which the tables below have it. A program that does not have
# the group `job` gets the second one.
SAME = {"job list": "jobs", "queue list": "queue", "doctor env": "env", "doctor topo": "topo", "events": "events show",
        "job sweep": "jobs --sweep"}
SAME.update({"job " + c: c for c in "status hang set vars join leave drain scale".split()})
SAME.update({"queue " + c: c for c in "submit cancel attach daemon".split()})

# Commands that mean something without arguments. A span with another command alone only mentions it.
ALONE = {"data list", "doctor", "env", "hang", "help", "jobs", "models", "ops", "params", "queue",
         "server", "status", "topo", "version", "jobs --sweep"}

# ---- what is not run, and why ------------------------------------------------------------------

NOT_RUN = [  # (expression, reason); the options are still checked
    (r"^(?:mpirun|mpiexec|srun|torchrun)\b", "needs a launcher: tests/engines runs it"),
    (r"^sudo\b", "needs root"),
    (r"--tls-dir|MESHFLOW_HOSTFILE=|--hostfile", "needs several hosts: tests/engines runs it"),
    (r"--store etcd:", "needs a server of etcd"),
    (r"--hosts\b", "needs several hosts"),
    (r"--here\b", "needs several hosts"),
    (r"^(?:\S+ )*meshflow (?:job )?(?:join|leave|drain) ", "changes a job: tests/train/members.py runs it"),
    (r"set \S+ --mesh", "changes the layout of a job: tests/train/relayout.py runs it"),
    (r"--device[ =](?:gpu|cuda)|--devices?[ =]\S*gpu", "needs a GPU"),
]

# ---- how a command becomes small ---------------------------------------------------------------

COMPLETED = {  # command: what `...` is for
    "train": "--model mlp --data fashion-mnist",
    "eval": "--data fashion-mnist --from run",
    "predict": "--data fashion-mnist --from run",
    "graph run": "--feed x=[[1,2,3]] --fetch y",
    "graph map": "--rows x=x.npy --save y=y.npy",
}
INCOMPLETE = {  # spans without `...` that are completed as well
    "train": lambda words: "--resume" not in words,
    "graph run": lambda words: not {"--fetch", "--save", "--save-all"} & set(words) and
    all(w.startswith("grpc:") for option, w in zip(words, words[1:]) if option == "--target"),
}
SMALLER = {  # a value of these options in any command: what it becomes
    "--simulate": {"*": "2"},
    "--model": {"transformer": "transformer layers=1 width=16"},
    "--devices": {"*": "2"},
    "--steps": {"*": "3"},
}
REDUCED = {  # command: (options that are removed with their value, words that are appended)
    "train": (["--epochs", "--steps", "--save-steps"], ["--steps", "3"]),
    "compress": (["--epochs"], ["--no-speed"]),
    "bench step": (["--steps", "--batch"], ["--steps", "3", "--batch", "8"]),
    "plan": (["--batch"], ["--batch", "8"]),
    "serve": (["--port"], ["--port", "0"]),
}
SETTINGS = {  # data: settings that make it small
    "fashion-mnist": "dir={inputs}/images",
    "scenes": "count=32 dir={inputs}/images",
    "synthetic-ctr": "count=320",
    "synthetic-text": "count=320",
    "synthetic-sequence": "count=320",
    "synthetic-language": "count=320",
}
EXIT_CODES = [  # (expression, codes, reason)
    (r"b:22x", (1, 2), "shows how a mistake is reported"),
    (r"meshflow (?:doctor|topo|doctor topo) .*--cluster", (0, 1), "the tasks of this cluster do not run"),
    (r"meshflow (?:job )?(?:status|hang)", (0, 4), "a job on a loaded machine may stall for a second"),
    (r"meshflow (?:queue )?cancel", (0, 1), "the job may have ended by itself"),
]
UNTIL_READY = {  # command: (what its output contains when it is ready, exit codes after SIGTERM)
    "serve": (r"http://", (0,)),
    "server": (r"grpc://|serving", (0,)),
    "status --watch": (r".", (0, 1, 4, -signal.SIGTERM)),
}

# ---- what a command finds in its folder --------------------------------------------------------

RUNS = {  # folder: commands that make it
    "run": ["train --model mlp --data fashion-mnist --steps 3 --out run"],
    "small": ["train --model mlp --data fashion-mnist --steps 3 --out run",
              "compress run --quantize int8 --no-speed --out small"],
    "pictures": ["train --model resnet20 --data flowers --steps 2 --batch 4 --no-test --out pictures"],
}
RUNS_FOR = [  # (expression, commands): for commands whose run is none of these, first match; {out} is the folder
    (r"measurements|new\.csv", ["train --model mlp --data measurements.csv --set label=species --steps 3 --out {out}"]),
    (r"predict .*--draw", ["train --model faster-rcnn --data scenes --batch 8 --steps 1 --no-test --out {out}"]),
    (r"contrast --from run$", ["train --model triplet --data fashion-mnist --steps 3 --no-test --out {out}"]),
]
JOBS = {  # a running job for commands that name one
    "demo": "launch --workers 2 -- train --model mlp --data fashion-mnist --steps 100000000 --no-test --quiet --name {name}",
}
MADE = {  # ending of a file that a command reads: commands that make it
    (".npz", ".safetensors", ".mfz"): [RUNS["run"][0], "ckpt convert run {out}"],
    (".tfrecord",): ["data convert fashion-mnist {out}"],
}
REPLACED = {"model.pb": "{root}/examples/hello.pbtxt", "graph.pb": "{root}/examples/hello.pbtxt",
            "model.pbtxt": "{root}/examples/hello.pbtxt", "hello.pbtxt": "{root}/examples/hello.pbtxt",
            "train_step.pbtxt": "{root}/examples/train_step.pbtxt"}
REWRITTEN = [(re.compile(r"model\.ckpt-\d+$"), "model.ckpt-3"),  # the step of the runs above
             (re.compile(r"^file:/.*/"), "file:")]               # a store in the command's own folder
ADDRESS = re.compile(r"\b(?:localhost|127\.0\.0\.1|[a-c]|(?:worker|ps|node)\d):\d{4}\b")


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def png(side, grey):
    """A picture of one colour."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes([grey, 255 - grey, 90]) * side) * side
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) + \
        chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def npy(rows):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }" % (len(rows), len(rows[0]))
    head += " " * (64 - (len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + \
        b"".join(struct.pack("<f", x) for row in rows for x in row)


def make_inputs(where):
    """The files that commands of the documentation name."""
    for part, n in ("train", 512), ("t10k", 128):
        labels = bytes(i % 10 for i in range(n))
        pixels = b"".join(bytes((200 if (x + y * label) % 10 < 3 else 7 * (x ^ y) % 50)
                                for y in range(28) for x in range(28)) for label in range(10))
        pixels = b"".join(pixels[label * 784:(label + 1) * 784] for label in labels)
        write(os.path.join(where, "images", part + "-images-idx3-ubyte"), struct.pack(">IIII", 2051, n, 28, 28) + pixels)
        write(os.path.join(where, "images", part + "-labels-idx1-ubyte"), struct.pack(">II", 2049, n) + labels)
    species = ["setosa", "versicolor", "virginica"]
    rows = ["%.1f,%.1f,%.1f" % (i % 3 + i % 7 * .1, i % 3 * 2 + i % 5 * .1, i % 11 * .3) for i in range(150)]
    write(os.path.join(where, "measurements.csv"), "length,width,height,species\n" +
          "".join("%s,%s\n" % (row, species[i % 3]) for i, row in enumerate(rows)))
    write(os.path.join(where, "new.csv"), "length,width,height\n" + "\n".join(rows[:9]) + "\n")
    for i in range(24):
        write(os.path.join(where, "flowers", ["rose", "tulip"][i % 2], "%d.png" % i), png(32, 9 * i))
        write(os.path.join(where, "unsorted", "%d.png" % i), png(32, 9 * i))
    write(os.path.join(where, "x.npy"), npy([[1, 2, 3]] * 5))
    write(os.path.join(where, "cluster.json"), '{"worker": ["localhost:2222"]}')
    write(os.path.join(where, "train.py"), "print('trained')\n")
    shutil.copytree(os.path.join(ROOT, "examples"), os.path.join(where, "examples"))


# ---- finding commands --------------------------------------------------------------------------

FENCE = re.compile(r"^( *)(```+|~~~+)([^\n]*)\n(.*?)^\1\2[ \t]*$", re.S | re.M)
SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")


class Command:
    def __init__(self, page, line, text, block):
        self.page, self.line, self.text, self.block = page, line, text, block
        self.words, self.env, self.form = [], {}, False

    def __str__(self):
        return "%s:%d: `%s`" % (self.page, self.line, self.text)


def lines_of_blocks(text):
    """(line, text, language) of lines in code blocks, continued lines joined; and the page without these blocks."""
    blocks = []

    def taken(m):
        blocks.append((text.count("\n", 0, m.start(4)) + 1, m.group(4).split("\n"), m.group(3).strip().lower()))
        return "\n" * m.group(0).count("\n")

    rest = FENCE.sub(taken, text).split("\n")
    at = 0
    while at < len(rest):
        if rest[at].startswith("    ") and (at == 0 or not rest[at - 1].strip()):
            end = at
            while end < len(rest) and (rest[end].startswith("    ") or not rest[end].strip()):
                end += 1
            blocks.append((at + 1, rest[at:end], ""))
            rest[at:end] = [""] * (end - at)
            at = end
        at += 1
    return blocks, "\n".join(rest)


def joined(lines):
    """(offset, line) with lines that end in a backslash joined."""
    whole, begin = "", 0
    for i, line in enumerate(lines):
        begin = begin if whole else i
        whole += (" " if whole else "") + line.strip()
        if whole.endswith("\\"):
            whole = whole[:-1].rstrip()
        else:
            yield begin, whole
            whole = ""


def commands_of(page, line, text, block):
    """The commands of the program in one line of a shell."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.wordchars += "{}[]:,@%+^!$"
    lexer.commenters = "#"
    try:
        words = list(lexer)
    except ValueError:
        words = text.split()
    form = "[" in re.sub(r"\[\[.*?\]\]|'[^']*'|\"[^\"]*\"", "", text) or " | -" in text or re.search(r"<[a-z -]+>", text)
    if form:
        words = [w for w in (re.sub(r"^\[+|\]*(?:\.\.\.)?\]*$", "", w) for w in words) if w and set(w) - set("|()<>")]
    pieces = [[]]
    for word in words:
        if set(word) <= set("|&;<>()"):
            pieces.append([])
        else:
            pieces[-1].append(word)
    for piece in pieces:
        command = Command(page, line, text, block)
        command.form = bool(form)
        while piece and piece[0] in BEFORE:
            piece.pop(0)
        while piece and re.match(r"[A-Z_]+=", piece[0]):
            name, _, command.env[name] = piece.pop(0).partition("=")
        at = next((i for i, w in enumerate(piece) if w in PROGRAMS), None)
        if at is not None and (at == 0 or piece[0] in LAUNCHERS) and re.match(r"-{0,2}[a-z]", " ".join(piece[at + 1:])):
            command.words = piece[at + 1:]
            yield command


def find_commands(page, text):
    blocks, rest = lines_of_blocks(text)
    for line, lines, language in blocks:
        if language.split(" ")[0] in OTHER_LANGUAGES:
            continue
        prompts = any(re.match(r"\s*\$ ", x) for x in lines)
        for offset, words in joined(lines):
            if prompts and not words.startswith("$ "):
                continue
            yield from commands_of(page, line + offset, re.split(r"\s{3,}", words.removeprefix("$ "))[0], True)
    for number, line in enumerate(rest.split("\n"), 1):
        for m in SPAN.finditer(line.replace("\\|", "|")):
            yield from commands_of(page, number, m.group(2).strip(), False)


# ---- which commands and options there are ------------------------------------------------------

class Program:
    def __init__(self, path):
        self.path = os.path.abspath(path)
        self.grouped = bool(self.help("job"))

    def spelled(self, words):
        """Words as this program expects them, also after `--`."""
        if self.grouped or not words:
            return words
        if "--" in words:
            at = words.index("--")
            return [*self.spelled(words[:at]), "--", *self.spelled(words[at + 1:])]
        if words[0] in PROGRAMS:
            return [words[0], *self.spelled(words[1:])]
        if words == ["job"]:
            return ["jobs"]
        for n in 2, 1:
            if " ".join(words[:n]) in SAME and not self.help(*words[:n + 1]):
                return [*SAME[" ".join(words[:n])].split(), *words[n:]]
        return words

    @functools.lru_cache(None)
    def help(self, *command):
        """Help of a command; None if there is no such command."""
        ran = subprocess.run([self.path, "help", *command], capture_output=True, text=True, check=False)
        return ran.stdout if ran.returncode == 0 else None

    @functools.lru_cache(None)
    def options(self, *command):
        return set(re.findall(r"^  (?:-\w, )?(--[a-z][a-z0-9-]*)", self.help(*command), re.M)) | \
            set(re.findall(r"^  (-\w), ", self.help(*command), re.M))

    def needs_argument(self, *command):
        return bool(re.match(r"usage: meshflow [a-z -]*[A-Z]", self.help(*command)))

    def name(self, words):
        """The command that words begin with, as a tuple; () if there is none."""
        for n in 2, 1:
            if len(words) >= n and all(re.fullmatch(r"[a-z][a-z-]*", w) for w in words[:n]) and self.help(*words[:n]):
                return tuple(words[:n])
        return ()

    def mistake(self, words):
        if words[0].startswith("-"):
            return None  # meshflow --help
        name = self.name(words)
        if not name:
            return "unknown command '%s'" % " ".join(words[:1])
        if re.match(r"usage: meshflow %s COMMAND" % " ".join(name), self.help(*name)) and \
                len(words) > 1 and re.match(r"[a-z]", words[1]):
            return "unknown command '%s'" % " ".join(words[:2])
        for i, word in enumerate(words):
            if word == "--":
                rest = words[i + 1:]
                rest = rest[1:] if rest[:1] and rest[0] in PROGRAMS else rest
                return self.mistake(rest) if rest and self.name(rest) else None
            if re.match(r"--?[a-z]", word) and word.partition("=")[0].replace("_", "-") not in self.options(*name):
                return "unknown option %s" % word.partition("=")[0]
        return None


def common(name):
    """The name under which tables have a command."""
    text = " ".join(name)
    return SAME.get(text, text)


# ---- planning: what is done with a command -----------------------------------------------------

def parts(words):
    """The command and what it starts: [[launch, ...], [train, ...]]."""
    if "--" in words[:-1]:
        at = words.index("--")
        rest = words[at + 1:]
        return [words[:at], *parts(rest[1:] if rest[0] in PROGRAMS else rest)]
    return [words]


def reason_not_to_run(program, command):
    """Why only the words of a command are checked; None: it is run."""
    words = command.words
    ends = [(w[0], w[-1]) for w in (re.split(r"[=/:.\[]", w) for i, w in enumerate(words) if words[i - 1] != "--host")]
    if command.form or "$" in command.text.replace("$ ", "") or any(PLACEHOLDERS & set(pair) for pair in ends):
        return "a form: it has placeholders"
    if words[-1] == "--":
        return "the beginning of a command"
    name = program.name(words)
    if not command.block and common(name) not in ALONE and "--" not in words and (
            len(words) == len(name) or words[len(name)].startswith("-") and program.needs_argument(*name)):
        return "a mention"
    for expression, reason in NOT_RUN:
        if re.search(expression, command.text):
            return reason
    return None


def reduced(program, words, in_block):
    """Words of one command (no `--`), completed and with less to do. In a block only `...` stands for other words."""
    name = program.name(words)
    known = common(name)
    words = list(words)
    if "..." in words or "…" in words or not in_block and INCOMPLETE.get(known, lambda w: False)(words):
        words = [w for w in words if w not in ("...", "…")]
        extra = shlex.split(COMPLETED.get(known, ""))
        for option, value in zip(extra[::2], extra[1::2]):
            words += [option, value] if option not in words else []
    remove, add = REDUCED.get(known, ([], []))
    for option in remove:
        while option in words:
            at = words.index(option)
            del words[at:at + 2]
        words = [w for w in words if not w.startswith(option + "=")]
    words += add
    for i, option in enumerate(words[:-1]):
        words[i + 1] = SMALLER.get(option, {}).get("*", SMALLER.get(option, {}).get(words[i + 1], words[i + 1]))
    if known == "train" and "--test" not in words and "--no-test" not in words:
        words.append("--no-test")
    data = next((w for w in words[1:] if w in SETTINGS), None)
    if data and name and "--set" in program.options(*name):
        if "--set" in words:
            words[words.index("--set") + 1] += " " + SETTINGS[data]
        else:
            words += ["--set", SETTINGS[data]]
    return words


def whole_reduced(program, command):
    words, out = command.words, []
    for i, part in enumerate(parts(words)):
        out += (["--"] if i else []) + (reduced(program, part, command.block) if program.name(part) else part)
    if common(program.name(words)) == "submit":
        at = out.index("--")
        out.insert(at + 1, "meshflow")
    return out


def recipe(program, command, folder):
    """The commands that make the run that a command reads."""
    words = command.words
    for part in parts(words):
        if "--resume" in part:
            return [shlex.join(reduced(program, [w for w in part if w != "--resume"], False))]
    for endings, steps in MADE.items():
        if folder.endswith(endings):
            return [s.format(out=folder) for s in steps]
    for expression, steps in RUNS_FOR:
        if re.search(expression, command.text):
            return [s.format(out=folder) for s in steps]
    if "--model" in words:
        given = [words[i:i + 2] for i, w in enumerate(words) if w in ("--model", "--data", "--set", "--pairs")]
        data = [] if "--data" in words else ["--data", "fashion-mnist"]
        return [shlex.join(["train", *[w for pair in given for w in pair], *data, "--batch", "8", "--steps", "2",
                            "--no-test", "--out", folder])]
    return RUNS.get(folder) or [RUNS["run"][0].removesuffix("run") + folder]


READS_ARGUMENTS = {"ckpt show", "ckpt verify", "ckpt diff", "ckpt convert", "audit", "events show", "serve", "compress"}


def read_by(program, command):
    """Runs, and files made of runs or data, that a command reads."""
    found = []
    for words in parts(command.words):
        known = common(program.name(words))
        if known == "submit":
            return []  # jobs that were submitted earlier make them
        values = {i + 1 for i, w in enumerate(words[:-1]) if w.startswith("-") and w not in ("--json", "--resume")}
        for i, word in enumerate(words[len(program.name(words)):], len(program.name(words))):
            before = words[i - 1] if i else ""
            if before in ("--from", "--init", "--restore") or before in ("--out", "-o") and "--resume" in words or \
                    before in ("--data", "--test") and word.endswith(tuple(e for ends in MADE for e in ends)):
                found.append(word)
            elif known in READS_ARGUMENTS and i not in values and not word.startswith("-"):
                found.append(word)
        if known == "ckpt convert":
            found = found[:1]
    return sorted({os.path.normpath(f).split("/")[0] for f in found if re.fullmatch(r"[\w./-]+", f)})


# ---- running -----------------------------------------------------------------------------------

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Runner:
    def __init__(self, program, top):
        self.program, self.top, self.inputs = program, top, os.path.join(top, "inputs")
        self.lock, self.made, self.count, self.server = threading.Lock(), {}, 0, None
        os.makedirs(os.path.join(top, "bin"))
        os.symlink(program.path, os.path.join(top, "bin", "meshflow"))
        make_inputs(self.inputs)

    def folder(self):
        with self.lock:
            self.count += 1
            where = os.path.join(self.top, str(self.count))
        os.makedirs(os.path.join(where, "r"), 0o700)
        return where

    def env(self, where, more=None):
        env = {k: v for k, v in os.environ.items() if not k.startswith("MESHFLOW_") or k == "MESHFLOW_PLUGIN_PATH"}
        env.pop("TF_CONFIG", None)
        env.update(PATH=os.path.join(self.top, "bin") + ":" + env["PATH"], HOME=where,
                   MESHFLOW_RUN_DIR=os.path.join(where, "r"), XDG_CACHE_HOME=os.path.join(self.top, "cache"),
                   MESHFLOW_SPOOL=os.path.join(where, "spool"), TERM="dumb")
        env.update(more or {})
        return env

    def filled(self, words):
        def word(w):
            w = REPLACED.get(w, w)
            for expression, text in REWRITTEN:
                w = expression.sub(text, w)
            for key, value in ("{inputs}", self.inputs), ("{root}", ROOT):
                w = w.replace(key, value)
            return w
        return [word(w) for w in words]

    def start(self, words, where, env=None):
        with open(os.path.join(where, "out"), "ab") as out:
            return subprocess.Popen([self.program.path, *self.filled(words)], cwd=where, env=self.env(where, env),
                                    stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)

    @staticmethod
    def end(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    @staticmethod
    def output(where):
        with open(os.path.join(where, "out"), encoding="utf-8", errors="replace") as f:
            return f.read()

    def run(self, words, where, env=None, limit=LIMIT_S):
        """The exit code; None if it did not end."""
        process = self.start(words, where, env)
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.end(process)

    def until_ready(self, words, where, expression, env=None):
        """The exit code after SIGTERM; a text if it did not become ready."""
        process = self.start(words, where, env)
        try:
            if not self.ready(process, where, expression):
                return "not ready: no '%s' in its output" % expression
            process.send_signal(signal.SIGTERM)
            return process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            return "did not end after SIGTERM"
        finally:
            self.end(process)

    def ready(self, process, where, expression):
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            if re.search(expression, self.output(where)):
                return True
            if process.poll() is not None:
                return False
            time.sleep(0.05)
        return False

    def fill(self, where, command):
        """Links the inputs that a command names, and copies the runs it reads."""
        for name in os.listdir(self.inputs):
            if name in command.text or name in " ".join(RUNS.get("pictures", [])) and "pictures" in command.text \
                    or name == "measurements.csv":
                self.link(name, where)
        for folder in read_by(self.program, command):
            there = os.path.join(where, folder)
            if not os.path.lexists(there):
                made = self.make(tuple(recipe(self.program, command, folder)), folder)
                (shutil.copytree if os.path.isdir(made) else shutil.copyfile)(made, there)

    def link(self, name, where):
        there = os.path.join(where, name)
        if not os.path.lexists(there):
            os.symlink(os.path.join(self.inputs, name), there)

    def make(self, steps, name):
        """The file or folder that these commands make; each is made once."""
        with self.lock:
            lock = self.made.setdefault(steps, [threading.Lock(), None])
        with lock[0]:
            if not lock[1]:
                where = self.folder()
                for given in os.listdir(self.inputs):
                    self.link(given, where)
                for step in steps:
                    words = shlex.split(step)
                    data = next((w for w in words if w in SETTINGS), None)
                    if data and "--set" not in words:
                        words += ["--set", SETTINGS[data]]
                    elif data and SETTINGS[data] not in step:
                        words[words.index("--set") + 1] += " " + SETTINGS[data]
                    code = self.run(words, where)
                    if code != 0:
                        raise RuntimeError("preparing `%s`: exit code %s: %s" % (step, code, last_line(self.output(where))))
                lock[1] = os.path.join(where, name)
            return lock[1]

    def addresses(self, words):
        """Words with addresses of examples replaced by free ports of this host, or by a server that runs."""
        known = common(self.program.name(words))
        table = {}

        def port(m):
            return table.setdefault(m.group(0), "localhost:%d" % free_port())

        if known == "env":
            return words
        return [w if not ADDRESS.search(w) else
                "grpc://" + self.started_server() if w.startswith("grpc://") else ADDRESS.sub(port, w) for w in words]

    def started_server(self):
        with self.lock:
            if self.server:
                return self.server[1]
        where, address = self.folder(), "localhost:%d" % free_port()
        process = self.start(["server", "--cluster", json.dumps({"local": [address]})], where)
        if not self.ready(process, where, UNTIL_READY["server"][0]):
            self.end(process)
            raise RuntimeError("a server for --target: " + last_line(self.output(where)))
        with self.lock:
            self.server = (process, address)
        return address

    def close(self):
        if self.server:
            self.end(self.server[0])


def last_line(text):
    lines = [x for x in text.splitlines() if x.strip()]
    told = [x for x in lines if "meshflow: " in x]
    return (told or lines or ["no output"])[-1].strip()


def expected(command):
    for expression, codes, _ in EXIT_CODES:
        if re.search(expression, command.text):
            return codes
    return (0,)


def watched(program, words):
    known = common(program.name(words))
    return UNTIL_READY.get("status --watch" if known == "status" and {"--watch", "-w"} & set(words) else known)


def run_one(runner, command, where=None, verbose=False):
    """None, or what is wrong."""
    try:
        where = where or runner.folder()
        runner.fill(where, command)
        words = runner.addresses(whole_reduced(runner.program, command))
        watch, begun = watched(runner.program, command.words), time.monotonic()
        if watch:
            codes, code = watch[1], runner.until_ready(words, where, watch[0], command.env)
        else:
            codes, code = expected(command), runner.run(words, where, command.env)
        if verbose:
            print("%s\n  as: %s\n  exit code %s, %.1f s\n%s" % (command, shlex.join(runner.filled(words)), code,
                                                          time.monotonic() - begun, runner.output(where)))
        if code in codes:
            return None
        return "%s: run as `meshflow %s`: %s: %s" % (
            command, shlex.join(words), code if isinstance(code, str) else "did not end within %d s" % LIMIT_S
            if code is None else "exit code %s" % code, last_line(runner.output(where)))
    except (RuntimeError, OSError) as error:
        return "%s: %s" % (command, error)


def run_queue(runner, commands, verbose=False):
    """Commands of a job queue, in the order of their page, with a daemon."""
    wrong, where = [], runner.folder()
    daemon = None
    try:
        for command in commands:
            if daemon is None:
                daemon = runner.start(["daemon"], where)
            name = common(runner.program.name(command.words))
            if name == "daemon":
                second = runner.folder()
                process = runner.start(command.words, second)
                end = time.monotonic() + LIMIT_S
                while process.poll() is None and not os.path.isdir(os.path.join(second, "spool")) and time.monotonic() < end:
                    time.sleep(0.02)
                process.send_signal(signal.SIGTERM)
                code = process.wait(LIMIT_S)
                wrong += [] if code == 0 else ["%s: exit code %s after SIGTERM: %s" % (
                    command, code, last_line(runner.output(second)))]
                continue
            complaint = run_one(runner, command, where, verbose)
            wrong += [complaint] if complaint else []
    finally:
        if daemon:
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(LIMIT_S)
            finally:
                runner.end(daemon)
    return wrong


def job_of(program, command):
    """The job that a command names, if the command inspects a running job."""
    name = program.name(command.words)
    if common(name) not in {"status", "hang", "set", "vars", "scale"}:
        return None
    rest = command.words[len(name):]
    return next((w for i, w in enumerate(rest) if re.fullmatch(r"[a-z][\w-]*", w) and
                 (i == 0 or not rest[i - 1].startswith("--") or rest[i - 1] in ("--json", "--watch"))), None)


def run_job(runner, name, commands, verbose=False):
    """Commands that inspect a running job of this name."""
    where = runner.folder()
    job = whole_reduced_words(JOBS.get(name, JOBS["demo"]).format(name=name))
    process = runner.start(job, where)
    try:
        end = time.monotonic() + LIMIT_S
        probe = runner.folder()
        while runner.run(["status", name], probe, {"MESHFLOW_RUN_DIR": os.path.join(where, "r")}) not in (0, 4):
            if time.monotonic() > end or process.poll() is not None:
                return ["%s: its job did not start: %s" % (commands[0], last_line(runner.output(where)))]
            time.sleep(0.1)
        wrong = []
        for command in commands:
            command.env["MESHFLOW_RUN_DIR"] = os.path.join(where, "r")
            wrong.append(run_one(runner, command, None, verbose))
        return [w for w in wrong if w]
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        runner.end(process)


def whole_reduced_words(text):
    words = shlex.split(text)
    data = next((w for w in words if w in SETTINGS), None)
    return words + (["--set", SETTINGS[data]] if data else [])


# ---- all commands of a tree --------------------------------------------------------------------

def all_commands(root):
    for page in sorted({p for pattern in PAGES for p in glob.glob(pattern, root_dir=root, recursive=True)}):
        if page not in SKIPPED_PAGES:
            with open(os.path.join(root, page), encoding="utf-8") as f:
                yield from find_commands(page, f.read())


def plan(program, commands):
    """(complaints about words, commands by the way they run)."""
    wrong, ways, seen = [], collections.defaultdict(list), set()
    for command in commands:
        mistake = program.mistake(command.words)
        if mistake:
            wrong.append((command.page, "%s: %s" % (command, mistake)))
        elif reason_not_to_run(program, command) is None:
            known, job = common(program.name(command.words)), job_of(program, command)
            queue = known in {"submit", "cancel", "attach", "daemon", "queue"}
            key = (tuple(command.words), tuple(command.env.items()), command.page if queue else None)
            if key not in seen:
                seen.add(key)
                ways["queue " + command.page if queue else "job " + job if job else "alone"].append(command)
    return wrong, ways


def check_tree(program, root, only=None):
    """(commands, complaints as (page, text))."""
    commands = [c for c in all_commands(root) if not only or re.search(only, c.text)]
    for command in commands:
        command.words = program.spelled(command.words)
    wrong, ways = plan(program, commands)
    with tempfile.TemporaryDirectory(prefix="mf") as top:
        runner = Runner(program, top)
        tasks = []
        try:
            with concurrent.futures.ThreadPoolExecutor(max(2, (os.cpu_count() or 2))) as pool:
                for way, members in sorted(ways.items(), key=lambda x: x[0] == "alone"):
                    if way.startswith("queue "):
                        tasks.append((members[0].page, pool.submit(run_queue, runner, members, only)))
                    elif way.startswith("job "):
                        tasks.append((members[0].page, pool.submit(run_job, runner, way[4:], members, only)))
                    else:
                        tasks += [(c.page, pool.submit(run_one, runner, c, None, only)) for c in members]
            for page, task in tasks:
                found = task.result()
                wrong += [(page, text) for text in ([found] if isinstance(found, str) else found or [])]
        finally:
            runner.close()
    return commands, wrong


PLANTED = {
    "an unknown option": "    meshflow train --model mlp --bogus 3\n",
    "an unknown option after --": "`meshflow launch --workers 2 -- train ... --bogus`\n",
    "an unknown option of a second command": "    meshflow version && meshflow ops --bogus | less\n",
    "an unknown command": "    $ meshflow trian --model mlp\n",
    "an unknown option of a command that is not run": "`mpirun -n 4 meshflow train --bogus ...`\n",
    "an unknown option of a form": "`meshflow status [--bogus] [JOB]`\n",
    "a command that fails": "```sh\nmeshflow data show \\\n    nowhere.csv\n```\n",
}


def goes_red(program):
    wrong = []
    for name, text in PLANTED.items():
        with tempfile.TemporaryDirectory() as root:
            write(os.path.join(root, "docs", "a.md"), "# A\n\n`meshflow version`\n\n" + text)
            write(os.path.join(root, "README.md"), "# A\n")
            _, found = check_tree(program, root)
            if len(found) != 1:
                wrong.append("%s: found %s" % (name, found or "nothing"))
    return wrong


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    program = Program(sys.argv[1])
    if sys.argv[2:3] == ["--list"]:
        for command in all_commands(ROOT):
            why = program.mistake(command.words) or reason_not_to_run(program, command)
            print("%s\n    %s" % (command, why or "runs as: meshflow " + shlex.join(whole_reduced(program, command))))
        return
    only = sys.argv[3] if sys.argv[2:3] == ["--only"] else None
    commands, wrong = check_tree(program, ROOT, only)
    tests = [] if only else [("the check sees every kind of mistake", goes_red(program))]
    for page in sorted({c.page for c in commands}):
        n = sum(c.page == page for c in commands)
        tests.append(("%s: %d command%s" % (page, n, "s" * (n != 1)), [text for where, text in wrong if where == page]))
    failed = 0
    for number, (name, lines) in enumerate(tests, 1):
        print("%s %d - %s" % ("not ok" if lines else "ok", number, name))
        for line in lines:
            print("#   " + line)
        failed += bool(lines)
    print("%d passed, %d failed, 0 skipped" % (len(tests) - failed, failed))
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
