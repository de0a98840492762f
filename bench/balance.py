#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three workers with speeds 1:2:3: the shards that they converge to, and their idle time.

Usage: balance.py [STEPS]     MESHFLOW: the program (build/meshflow)

A worker's speed is the fraction of time in which it is not stopped. Its idle time is the time in the last
seconds of the training, as measured by the worker, in which it does not compute: it waits for others, for input,
or is idle. Stops count as computing, because they simulate a slow CPU. The limit is 10 % for each worker. Prints:
subject, shards, idle in %.
"""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MESHFLOW = os.environ.get("MESHFLOW", os.path.join(ROOT, "build", "meshflow"))
SPEEDS = 1, 2, 3


def pulse(workers):
    turn = 0
    while all(w.poll() is None for w in workers):
        for w, n in zip(workers, SPEEDS):
            w.send_signal(signal.SIGCONT if turn % 3 < n else signal.SIGSTOP)
        turn += 1
        time.sleep(0.003)


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1500
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        env = {**os.environ, "MESHFLOW_RUN_DIR": folder}
        port = random.randrange(20000, 60000)
        cluster = {"worker": ["localhost:%d" % (port + i) for i in range(3)]}
        workers = [subprocess.Popen(
            [MESHFLOW, "train", "--model", "fashion-cnn", "--data", "fashion-mnist", "--batch", "192", "--shards",
             "48", "--steps", str(steps), "--threads", "1", "--no-test", "--quiet", "--json", "--name", "speeds"],
            env={**env, "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": i}})},
            stdout=subprocess.DEVNULL) for i in range(3)]
        threading.Thread(target=pulse, args=(workers,), daemon=True).start()
        told = None
        while all(w.poll() is None for w in workers):
            r = subprocess.run([MESHFLOW, "status", "--json", "--lately", "5", "speeds"], capture_output=True,
                               text=True, env=env)
            jobs = json.loads(r.stdout)["jobs"] if r.stdout else []
            if jobs and len(jobs[0]["tasks"]) == 3 and min(t["step"] for t in jobs[0]["tasks"]) > steps // 3:
                told = jobs[0]["tasks"]
            time.sleep(0.2)
        for w in workers:
            w.send_signal(signal.SIGCONT)
        for w in workers:
            w.wait()
    if not told:
        sys.exit("the training was over before it was looked at: give more steps than %d" % steps)
    print("# load %s" % open("/proc/loadavg").read().split(" ", 3)[:3])
    for t, n in zip(sorted(told, key=lambda t: t["task"]), SPEEDS):
        print("%-24s speed %d  %3d of 48 shards  idle %5.1f %%" %
              (t["task"], n, t["shards"], 100 - t["utilisation"]["compute"]), flush=True)


if __name__ == "__main__":
    main()
