#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Kubernetes manifests, tested without Kubernetes: examples/kubernetes/*.yaml.

Usage: manifests.py PROGRAM [PATTERN]

For each manifest, derives the pods that Kubernetes and its operators would create: names, environment, command. In each
environment `meshflow doctor env` must resolve the role, and then each command is run here, with the addresses of this
machine and fewer steps. Prints TAP lines and, last, `N passed, N failed, N skipped`.
"""
import glob
import json
import os
import random
import re
import subprocess

import yaml

import harness
from harness import check, test

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/kubernetes")


class Pod:
    def __init__(self, host, env, template, command=None):
        spec = template["spec"]
        box = spec["containers"][0]
        self.host = host
        self.env = {**{e["name"]: e["value"] for e in box.get("env", [])}, "HOSTNAME": host, **env}
        self.command = command or box["command"]
        check(all(isinstance(w, str) for w in self.command), "a command is strings: %s" % self.command)
        check(all(isinstance(v, str) for v in self.env.values()), "variables are strings: %s" % self.env)
        volumes = {v["name"] for v in spec.get("volumes", [])}
        mounted = {m["name"]: m["mountPath"] for m in box.get("volumeMounts", [])}
        check(set(mounted) <= volumes, "%s is mounted, but no volume" % (set(mounted) - volumes))
        self.paths = set(mounted.values())
        self.ports = {p["containerPort"] for p in box.get("ports", [])}

    def options(self):
        return dict(zip(self.command, self.command[1:]))


# ---- what Kubernetes and its operators do ----

def of_service(service, kind):
    check(service["spec"]["clusterIP"] == "None", "the service is not headless")
    labels = kind["spec"]["template"]["metadata"]["labels"]
    check(service["spec"]["selector"].items() <= labels.items(), "the service finds none of the pods")


def indexed_job(service, job):
    s = job["spec"]
    of_service(service, job)
    check(s["completionMode"] == "Indexed" and s["parallelism"] == s["completions"],
          "all pods must run at once, and have numbers")
    check(s["template"]["spec"]["subdomain"] == service["metadata"]["name"], "pods have no address")
    check(s["template"]["spec"]["restartPolicy"] in ("Never", "OnFailure"), "a Job's pods end")
    return [Pod("%s-%d" % (job["metadata"]["name"], i), {"JOB_COMPLETION_INDEX": str(i)}, s["template"])
            for i in range(s["completions"])]


def stateful_set(service, kind):
    s = kind["spec"]
    of_service(service, kind)
    check(s["serviceName"] == service["metadata"]["name"], "pods have no address")
    check(s["podManagementPolicy"] == "Parallel", "pods wait for each other before they start")
    check(s["selector"]["matchLabels"] == s["template"]["metadata"]["labels"], "the set owns other pods")
    return [Pod("%s-%d" % (kind["metadata"]["name"], i), {}, s["template"]) for i in range(s["replicas"])]


def tf_job(job):
    name, specs = job["metadata"]["name"], job["spec"]["tfReplicaSpecs"]
    cluster = {}
    for role, s in specs.items():
        box = s["template"]["spec"]["containers"][0]
        port = [p["containerPort"] for p in box["ports"] if p["name"] == "tfjob-port"]
        check(box["name"] == "tensorflow" and len(port) == 1, "the operator would not find its container")
        cluster[role.lower()] = ["%s-%s-%d.default.svc:%d" % (name, role.lower(), i, port[0])
                                 for i in range(s["replicas"])]
    return [Pod("%s-%s-%d" % (name, role.lower(), i),
                {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role.lower(), "index": i},
                                          "environment": "cloud"})}, s["template"])
            for role, s in specs.items() for i in range(s["replicas"])]


def pytorch_job(job):
    name, specs = job["metadata"]["name"], job["spec"]["pytorchReplicaSpecs"]
    check(specs["Master"]["replicas"] == 1, "the operator wants one master")
    size = 1 + specs["Worker"]["replicas"]
    pods = []
    for rank in range(size):
        role, i = ("Worker", rank - 1) if rank else ("Master", 0)
        box = specs[role]["template"]["spec"]["containers"][0]
        port = [p["containerPort"] for p in box["ports"] if p["name"] == "pytorchjob-port"]
        check(box["name"] == "pytorch" and len(port) == 1, "the operator would not find its container")
        pods.append(Pod("%s-%s-%d" % (name, role.lower(), i),
                        {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_PORT": str(port[0]),
                         "MASTER_ADDR": "%s-master-0" % name if rank else "localhost"},
                        specs[role]["template"]))
    return pods


def mpi_job(job):
    """mpirun of the launcher starts the command in each worker, by the operator's hostfile."""
    name, s = job["metadata"]["name"], job["spec"]
    launch = s["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"]
    worker = s["mpiReplicaSpecs"]["Worker"]
    n = int(launch[launch.index("-n") + 1])
    check(launch[0] == "mpirun" and n == worker["replicas"] * s["slotsPerWorker"], "not a process for each slot")
    exported = dict(v.split("=", 1) for o, v in zip(launch, launch[1:]) if o == "-x")
    return [Pod("%s-worker-%d" % (name, i // s["slotsPerWorker"]),
                {**exported, "OMPI_COMM_WORLD_RANK": str(i), "OMPI_COMM_WORLD_SIZE": str(n),
                 "OMPI_COMM_WORLD_LOCAL_RANK": str(i % s["slotsPerWorker"]),
                 "OMPI_COMM_WORLD_LOCAL_SIZE": str(s["slotsPerWorker"]), "PMIX_NAMESPACE": "77"},
                worker["template"], launch[launch.index("meshflow"):]) for i in range(n)]


KINDS = {("v1 Service", "batch/v1 Job"): indexed_job, ("v1 Service", "apps/v1 StatefulSet"): stateful_set,
         ("kubeflow.org/v1 TFJob",): tf_job, ("kubeflow.org/v1 PyTorchJob",): pytorch_job,
         ("kubeflow.org/v2beta1 MPIJob",): mpi_job}


def pods_of(name):
    with open(os.path.join(FOLDER, name)) as f:
        kinds = [k for k in yaml.safe_load_all(f) if k]
    what = tuple("%s %s" % (k["apiVersion"], k["kind"]) for k in kinds)
    check(what in KINDS, "%s: nobody knows %s" % (name, what))
    for k in kinds:
        check(re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", k["metadata"]["name"]), k["metadata"]["name"])
    return KINDS[what](*kinds)


# ---- this machine ----

class Bench(harness.Bench):
    def clean(self, env):
        """Nothing of this machine's own engines."""
        return {**{k: os.environ[k] for k in ("PATH", "HOME") if k in os.environ},
                "MESHFLOW_RUN_DIR": self.dir, **env}

    def says(self, pod):
        ps = ["--ps", pod.options()["--ps"]] if "--ps" in pod.command else []
        r = subprocess.run([self.program, "doctor", "env", "--json", *ps], capture_output=True, text=True, timeout=60,
                           env=self.clean(pod.env))
        check(r.returncode == 0, "%s: %s%s" % (pod.host, r.stdout, r.stderr))
        return json.loads(r.stdout)

    def here(self, pod, said, port):
        """The same task with an address of this machine, where it has one."""
        if not said["tasks"][0]["address"]:
            return {**pod.env, "MESHFLOW_RENDEZVOUS": "127.0.0.1:%d" % port}
        cluster = {}
        for i, t in enumerate(said["tasks"]):
            cluster.setdefault(t["job"], []).append("127.0.0.1:%d" % (port + i))
        role, index = re.fullmatch(r"/job:(\w+)/task:(\d+)", said["task"]).groups()
        return {**pod.env, "TF_CONFIG": json.dumps({"cluster": cluster,
                                                    "task": {"type": role, "index": int(index)}})}

    def train(self, pods, said):
        """Exit codes and the chief's final output."""
        port = random.randrange(20000, 60000)
        running = []
        for pod, s in zip(pods, said):
            words = [w for o, w in zip([""] + pod.command, pod.command + [""])
                     if not {o, w} & {"--tls-dir", "--out"} and w != "--resume"][1:-1]
            check(words[0] == "train" and words.count("--steps") == 1, str(words))
            words[words.index("--steps") + 1] = "3"
            running.append(subprocess.Popen(
                [self.program, *words, "--quiet", "--no-test", "--json", "--name", "dry"], text=True,
                env=self.clean(self.here(pod, s, port)), stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        self.running += running
        out = [p.communicate(timeout=120) for p in running]
        check(all(p.returncode == 0 for p in running), "\n".join(e for _, e in out))
        return [json.loads(line) for o, _ in out for line in o.splitlines() if "weights_sha256" in line]


def manifest(name):
    def decorate(fn):
        def run(b):
            fn(b, pods_of(name + ".yaml"))
        run.__name__, run.__module__ = fn.__name__, fn.__module__
        return test(run)
    return decorate


def dry_run(b, pods, convention, workers, ps):
    said = [b.says(p) for p in pods]
    for p, s in zip(pods, said):
        check(s["convention"] == convention and s["mistakes"] == [], "%s: %s" % (p.host, s))
        check((s["size"], s["processes"]) == (workers, workers + ps), "%s: %s" % (p.host, s))
        check([t["address"] for t in s["tasks"]] == [t["address"] for t in said[0]["tasks"]],
              "%s knows others than %s" % (p.host, pods[0].host))
        check(p.options()["--tls-dir"] in p.paths and p.options()["--out"].startswith("/data/") and
              "/data" in p.paths, "%s has no certificates, or no disk: %s" % (p.host, p.paths))
        mine = [t["address"] for t in s["tasks"]
                if "/job:%s/task:%d" % (t["job"], t["index"]) == s["task"]]
        check(len(mine) == 1, "%s is none of the tasks" % p.host)
        if mine[0]:
            host, port = mine[0].rsplit(":", 1)
            check(host.split(".")[0] == p.host and int(port) in p.ports, "%s: %s" % (p.host, mine))
    check(len({s["task"] for s in said}) == len(pods) == workers + ps, str([s["task"] for s in said]))
    check(sum(s["chief"] for s in said) == 1, "not one chief")
    got = b.train(pods, said)
    check(len(got) == 1 and got[0]["workers"] == workers and got[0]["steps"] == 3, str(got))
    alone = subprocess.run([b.program, "train", "--model", "mlp", "--data", "fashion-mnist", "--steps", "3",
                            "--quiet", "--no-test", "--json"], capture_output=True, text=True,
                           env=b.clean({}), timeout=120)
    check(json.loads(alone.stdout)["weights_sha256"] == got[0]["weights_sha256"], "other weights")


@manifest("indexed-job")
def an_indexed_job_is_found_by_its_service(b, pods):
    dry_run(b, pods, "Kubernetes", 3, 0)


@manifest("stateful-set")
def a_stateful_set_has_its_server_last(b, pods):
    dry_run(b, pods, "Kubernetes", 2, 1)


@manifest("tfjob")
def a_tfjob_is_found_by_its_tf_config(b, pods):
    dry_run(b, pods, "TF_CONFIG", 3, 1)


@manifest("pytorchjob")
def a_pytorchjob_is_found_by_its_ranks(b, pods):
    dry_run(b, pods, "torchrun", 3, 0)


@manifest("mpijob")
def an_mpijob_is_found_by_its_ranks(b, pods):
    dry_run(b, pods, "Open MPI", 3, 0)
    check({p.env["MESHFLOW_RENDEZVOUS"].split(".")[0] for p in pods} == {pods[0].host}, "they meet elsewhere")


@test
def every_manifest_is_tested(b):
    files = sorted(os.path.basename(p) for p in glob.glob(os.path.join(FOLDER, "*.yaml")))
    check(files == ["indexed-job.yaml", "mpijob.yaml", "pytorchjob.yaml", "stateful-set.yaml", "tfjob.yaml"],
          str(files))
    pod = pods_of("indexed-job.yaml")[0]
    del pod.env["MESHFLOW_PODS"]
    r = subprocess.run([b.program, "doctor", "env"], capture_output=True, text=True, env=b.clean(pod.env))
    check(r.returncode == 1 and "the number of pods is unknown" in r.stdout + r.stderr, r.stdout)


if __name__ == "__main__":
    harness.main(Bench)
