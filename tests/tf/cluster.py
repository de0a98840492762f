# SPDX-License-Identifier: Apache-2.0
"""Who am I: the same environment for `meshflow doctor env` and TensorFlow's resolvers."""
import json
import os
import subprocess

NAMES = ["TF_CONFIG", "node lists", "tasks per node"]

CONFIGS = [
    {"cluster": {"worker": ["a:1", "b:2", "c:3"]}, "task": {"type": "worker", "index": 0}},
    {"cluster": {"worker": ["a:1", "b:2", "c:3"]}, "task": {"type": "worker", "index": "2"}},
    {"cluster": {"chief": ["z:9"], "worker": ["a:1", "b:2"], "ps": ["p:1", "q:2"]},
     "task": {"type": "worker", "index": 1}},
    {"cluster": {"chief": ["z:9"], "worker": ["a:1", "b:2"], "ps": ["p:1", "q:2"]},
     "task": {"type": "chief", "index": 0}},
    {"cluster": {"chief": ["z:9"], "worker": ["a:1"], "ps": ["p:1", "q:2"]}, "task": {"type": "ps", "index": 1}},
    {"cluster": {"worker": {"1": "b:2"}, "ps": ["p:1"]}, "task": {"type": "worker", "index": 1}},
    {"cluster": {"worker": {"0": "a:1", "5": "b:2"}, "ps": {"3": "p:1"}}, "task": {"type": "ps", "index": 3}},
    {"cluster": {"chief": ["z:9"], "worker": ["a:1"], "evaluator": ["e:1"]},
     "task": {"type": "evaluator", "index": 0}},
    {"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}, "environment": "cloud",
     "rpc_layer": "grpc", "job": {"unknown": 1}},
]
NODE_LISTS = ["n1", "n[1-3,7],login", "n[08-11]", "a,b,c", "t02n[01-02],x[9-11]", "n[1,3,5-6]", "n-a[1-2]", "n[099-101]"]
TASKS = [("n[1-3]", "3(x2),2"), ("n[1-4]", "2(x4)"), ("n[1-3]", "1,2,3"), ("n1", "8"), ("n[1-5]", "1(x2),4(x3)")]


def env(**variables):
    """The output of `meshflow doctor env --json` with these environment variables."""
    done = subprocess.run([os.environ["MESHFLOW"], "doctor", "env", "--json"], env=variables, capture_output=True, text=True)
    return json.loads(done.stdout)


def tasks_of(said):
    out = {}
    for t in said["tasks"]:
        out.setdefault(t["job"], {})[t["index"]] = t["address"]
    return out


def check_config(config):
    from tensorflow.python.distribute import multi_worker_util
    from tensorflow.python.distribute.cluster_resolver.tfconfig_cluster_resolver import TFConfigClusterResolver
    os.environ["TF_CONFIG"] = json.dumps(config)
    try:
        theirs, ours = TFConfigClusterResolver(), env(TF_CONFIG=os.environ["TF_CONFIG"])
        spec = theirs.cluster_spec()
        expected = {job: {i: spec.task_address(job, i) for i in spec.task_indices(job)} for job in spec.jobs}
        kind, index = theirs.task_type, theirs.task_id
    finally:
        del os.environ["TF_CONFIG"]
    if tasks_of(ours) != expected:
        yield "%s: tasks %s, TensorFlow has %s" % (config, tasks_of(ours), expected)
    if ours["task"] != "/job:%s/task:%d" % (kind, index):
        yield "%s: %s, TensorFlow says %s %d" % (config, ours["task"], kind, index)
    if kind in ("chief", "worker") and not ours["sparse"]:
        if ours["chief"] != multi_worker_util.is_chief(spec, kind, index):
            yield "%s: chief: %s" % (config, ours["chief"])
        if ours["rank"] != multi_worker_util.id_in_cluster(spec, kind, index):
            yield "%s: rank: %d" % (config, ours["rank"])
        if ours["size"] != multi_worker_util.worker_count(spec, kind):
            yield "%s: size: %d" % (config, ours["size"])


def slurm(**variables):
    return env(SLURM_PROCID="0", SLURM_STEP_ID="0", SLURM_JOB_ID="1", **variables)


def check_nodes(text):
    from tensorflow.python.distribute.cluster_resolver.slurm_cluster_resolver import expand_hostlist
    said = slurm(SLURM_NTASKS="1", SLURM_STEP_NODELIST=text)
    nodes = [f["value"] for f in said["facts"] if f["what"] == "node"]
    if nodes != expand_hostlist(text):
        yield "%s: %s, TensorFlow has %s" % (text, nodes, expand_hostlist(text))


def check_tasks(nodes, text):
    from tensorflow.python.distribute.cluster_resolver.slurm_cluster_resolver import expand_tasks_per_node
    counts = expand_tasks_per_node(text)
    for i, count in enumerate(counts):
        said = slurm(SLURM_NTASKS=str(sum(counts)), SLURM_STEP_NODELIST=nodes, SLURM_NODEID=str(i),
                     SLURM_STEP_TASKS_PER_NODE=text)
        if said["local_size"] != count:
            yield "%s, node %d: %d tasks, TensorFlow has %d" % (text, i, said["local_size"], count)


def check(name):
    if name == "TF_CONFIG":
        return dict(failures=[f for c in CONFIGS for f in check_config(c)])
    if name == "node lists":
        return dict(failures=[f for t in NODE_LISTS for f in check_nodes(t)])
    return dict(failures=[f for t in TASKS for f in check_tasks(*t)])
