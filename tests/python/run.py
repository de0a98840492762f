#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package, without TensorFlow. (tests/tf/documents.py has programs with it.)

Usage: run.py FOLDER-OF-LIBMESHFLOW [PATTERN]"""
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import traceback
from types import SimpleNamespace

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(HERE, "..", "..", "python")
sys.path.insert(0, PACKAGE)
os.environ["MESHFLOW_LIB"] = os.path.join(os.path.abspath(sys.argv[1]), "libmeshflow.so.0")
import meshflow  # noqa: E402


def listens(target):
    host, port = target[len("grpc://"):].rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), 10).close()
        return True
    except OSError:
        return False


def refused(kind, words, *args, **more):
    """Making such a server fails so."""
    try:
        meshflow.Server(*args, **more).stop()
    except kind as e:
        assert words in str(e), e
        return e
    raise AssertionError("nothing failed")


def test_a_server_listens_until_it_is_stopped():
    s = meshflow.Server({"local": ["localhost:0"]}, job_name="local", task_index=0)
    target = s.target
    assert target.startswith("grpc://localhost:") and listens(target)
    s.stop()
    s.stop()
    assert not listens(target)
    s.join()


def test_a_port_can_be_used_again():
    s = meshflow.Server({"local": ["localhost:0"]})
    spec = {"local": [s.target[len("grpc://"):]]}
    e = refused(meshflow.Error, "localhost", spec)
    assert e.name == "ALREADY_EXISTS" and e.code == 6, e
    s.stop()
    with meshflow.Server(spec) as again:
        assert listens(again.target)


def test_it_accepts_the_arguments_of_tensorflow():
    spec = {"ps": ["localhost:0"], "worker": {0: "localhost:0", 3: "localhost:0"}}
    config = SimpleNamespace(intra_op_parallelism_threads=2)
    like_cluster_spec = SimpleNamespace(as_dict=lambda: spec)
    like_cluster_def = SimpleNamespace(job=[SimpleNamespace(name="worker", tasks={0: "localhost:0"})])
    like_server_def = SimpleNamespace(cluster=like_cluster_def, job_name="worker", task_index=0, protocol="grpc",
                                      default_session_config=config)
    for args, more in (((spec, "worker", 3), {}), ((spec,), dict(job_name="ps", task_index=0, config=config)),
                       ((like_cluster_spec, "worker", 0, "grpc"), {}), ((like_cluster_def,), {}),
                       ((like_server_def,), {}), (({b"local": b"localhost:0"},), {})):
        with meshflow.Server(*args, **more) as s:
            assert listens(s.target)


def test_it_starts_on_request():
    s = meshflow.Server.create_local_server(start=False)
    for early in (lambda: s.target, s.join):
        try:
            early()
        except RuntimeError as e:
            assert "start()" in str(e)
        else:
            raise AssertionError("it should not run")
    s.stop()
    s.start()
    s.start()
    assert listens(s.target)
    s.stop()


def test_join_ends_when_another_thread_stops_it():
    s = meshflow.Server.create_local_server()
    threading.Timer(0.3, s.stop).start()
    s.join()


def test_a_cluster_of_this_process_listens_until_it_is_stopped():
    with meshflow.local_cluster(worker=2, ps=1) as c:
        assert {job: len(tasks) for job, tasks in c.spec.items()} == {"worker": 2, "ps": 1}
        targets = [c.target("worker", 0), c.target("worker", 1), c.target("ps")]
        assert len(set(targets)) == 3 and all(listens(t) for t in targets)
    assert not any(listens(t) for t in targets)
    c.join()
    c.start()
    assert listens(c.target())
    c.stop()


def test_a_local_cluster_is_made_as_TensorFlows_is():
    workers, ps = meshflow.create_local_cluster(num_workers=2, num_ps=1)
    assert len(workers) == 2 and len(ps) == 1 and all(listens(s.target) for s in workers + ps)
    ps[0].stop()
    assert not any(listens(s.target) for s in workers + ps)


def test_a_local_cluster_without_tasks_is_rejected():
    try:
        meshflow.local_cluster(worker=0)
    except meshflow.Error as e:
        assert e.name == "INVALID_ARGUMENT" and "worker=2,ps=1" in str(e), e
    else:
        raise AssertionError("nothing failed")


def test_files_are_allowed_by_the_environment():
    program = ("import meshflow; s = meshflow.Server.create_local_server(); print(s._allow_dirs)")
    p = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
                       env=dict(os.environ, PYTHONPATH=PACKAGE, MESHFLOW_ALLOW_DIR="/tmp:/var/tmp"))
    assert p.stdout == "['/tmp', '/var/tmp']\n", p.stdout


def test_errors_name_the_problem():
    refused(meshflow.Error, "no task 7 of job 'worker'", {"worker": ["localhost:0"]}, "worker", 7)
    refused(meshflow.Error, "which of the 2 tasks", {"worker": ["localhost:0"], "ps": ["localhost:0"]})
    refused(TypeError, "a cluster is a dict", 7)
    refused(ValueError, "speaks grpc", {"worker": ["localhost:0"]}, protocol="mpi")


def test_control_c_ends_join_and_the_process_frees_the_port():
    program = ("import meshflow; s = meshflow.Server.create_local_server(); print(s.target, flush=True); s.join()")
    p = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         env=dict(os.environ, PYTHONPATH=PACKAGE),  # in the background it would be ignored:
                         preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    target = p.stdout.readline().strip()
    assert listens(target)
    p.send_signal(signal.SIGINT)
    _, err = p.communicate(timeout=60)
    assert p.returncode in (1, -signal.SIGINT) and "KeyboardInterrupt" in err, (p.returncode, err)
    assert not listens(target)


def test_a_missing_library_is_named():
    p = subprocess.run([sys.executable, "-c", "import meshflow"], capture_output=True, text=True,
                       env=dict(os.environ, PYTHONPATH=PACKAGE, MESHFLOW_LIB="/nowhere/libmeshflow.so.0"))
    assert p.returncode and "name the file in MESHFLOW_LIB" in p.stderr and "/nowhere" in p.stderr, p.stderr


def test_the_version_is_that_of_the_library():
    with open(os.path.join(PACKAGE, "pyproject.toml"), encoding="utf-8") as f:
        assert 'version = "%s"' % meshflow.__version__ in f.read()


def main():
    pattern = sys.argv[2] if len(sys.argv) > 2 else ""
    passed = failed = 0
    for name, fn in list(globals().items()):
        if not name.startswith("test_") or not re.search(pattern, name):
            continue
        try:
            fn()
            passed += 1
            print("ok %d - %s" % (passed + failed, name[5:].replace("_", " ")), flush=True)
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print("not ok %d - %s\n#   %s" % (passed + failed, name[5:].replace("_", " "),
                                              traceback.format_exc().replace("\n", "\n#   ")), flush=True)
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
