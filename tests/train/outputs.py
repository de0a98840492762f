#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Output directories: one training writes there at a time, and none loses what another has written.

Usage: outputs.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`.
"""
import json
import os
import shutil
import signal
import subprocess
import time

import ends
import harness
from ends import LAUNCH, checkpoints, kill_chief, results
from harness import check, test

KIND = dict(steps=40)
SAVE = "--save-steps", "10"


def used(b, name="run", steps=40, **more):
    out = b.out(name)
    b.run(b.train("--out", out, *SAVE, steps=steps, **more))
    return out


def files(out):
    return {f: os.path.getmtime(os.path.join(out, f)) for f in os.listdir(out)}


@test
def a_new_training_in_a_used_folder_is_rejected_and_changes_nothing(b):
    out = used(b)
    before = files(out)
    for launch in [], [*LAUNCH, "--"], [*LAUNCH, "--max-restarts", "9", "--"]:
        code, _, err = b.end([*launch, *b.train("--out", out, *SAVE, rate=0.3, steps=20)])
        check(code == 2 and "step 40" in err and "--resume" in err and "--overwrite" in err and
              "restart 1" not in err, "%s: %d: %s" % (launch, code, err))
        check(files(out) == before, "%s: files have changed" % launch)
    code, _, err = b.end(b.train("--out", out, "--resume", "--overwrite"))
    check(code == 2 and "choose one" in err, err)


@test
def overwriting_removes_only_the_files_of_the_old_training(b):
    out = used(b)
    others = ["notes.txt", "events.out.tfevents.1.tensorflow", "model.ckpt-best.txt"]
    for name in others:
        with open(os.path.join(out, name), "w") as f:
            f.write("mine")
    old = set(files(out)) - set(others)
    b.run(b.train("--out", out, *SAVE, "--overwrite", steps=20, rate=0.3))
    check(checkpoints(out) == [10, 20], str(checkpoints(out)))
    check(set(others) <= set(files(out)), "files of others are gone: %s" % files(out))
    check(not [f for f in old & set(files(out)) if "ckpt-30" in f or "ckpt-40" in f or "tfevents" in f],
          "old files: %s" % files(out))
    r = b.run(b.train("--out", out, *SAVE, "--resume", steps=30, rate=0.3))
    check(results(r.stdout)[0]["weights_sha256"] == b.sha(steps=30, rate=0.3), "it continues another training")
    b.run(["audit", out])


@test
def checkpoints_of_another_run_are_not_continued(b):
    out, other = used(b, steps=20), used(b, "other", steps=40, rate=0.3)
    for name in os.listdir(other):
        if "ckpt-40" in name or "ckpt-30" in name:
            shutil.copy(os.path.join(other, name), out)
    code, text, err = b.end(b.train("--out", out, *SAVE, "--resume", steps=30))
    check(code == 0 and "is of another run" in err, err)
    check(results(text)[0]["weights_sha256"] == b.sha(steps=30), "other weights")


@test
def a_run_with_a_lost_or_damaged_id_is_resumed(b):
    first = used(b, steps=20)
    for i, text in enumerate((None, "", "run zero\n")):
        out = shutil.copytree(first, b.out("lost%d" % i))
        name = os.path.join(out, "run")
        os.remove(name)
        if text is not None:
            with open(name, "w") as f:
                f.write(text)
        code, got, err = b.end(b.train("--out", out, *SAVE, "--resume", steps=30))
        check(code == 0 and "does not name a run" in err, "%r: %d: %s" % (text, code, err))
        check(results(got)[0]["weights_sha256"] == b.sha(steps=30), "other weights")
        b.run(["audit", out])
    only = b.out("only")  # the checkpoint alone, out of a backup
    os.mkdir(only)
    for name in os.listdir(first):
        if "ckpt-20." in name:
            shutil.copy(os.path.join(first, name), only)
    code, got, err = b.end(b.train("--out", only, "--resume", steps=30))
    check(code == 0 and results(got)[0]["weights_sha256"] == b.sha(steps=30), err)
    with open(os.path.join(only, "run"), "w") as f:
        f.write("run 0123456789abcdef\n")
    code, _, err = b.end(b.train("--out", only, "--resume", steps=40))
    check(code == 2 and "remove that file" in err, "%d: %s" % (code, err))


@test
def two_trainings_do_not_write_into_one_folder(b):
    out = b.out("run")
    first = b.begin(*b.forever(out))
    harness.await_checkpoint(out)
    for launch, more in ([], []), ([], ["--resume"]), ([*LAUNCH, "--"], ["--overwrite"]):
        code, _, err = b.end([*launch, *b.train("--out", out, *more, steps=20)])
        check(code == 1 and "process %d on" % first.pid in err, "%s: %d: %s" % (more, code, err))
    first.send_signal(signal.SIGINT)
    text, err = first.communicate(timeout=60)
    check(first.returncode == harness.STOPPED, err)
    check(not os.path.exists(os.path.join(out, "run.lock")), "the lock is left")
    b.run(["audit", out])
    b.run(["ckpt", "verify", out])


@test
def the_folder_of_a_killed_training_can_be_used_at_once(b):
    out = b.out("run")
    first = b.begin(*b.forever(out))
    harness.await_checkpoint(out)
    first.kill()
    first.wait(30)
    check(os.path.exists(os.path.join(out, "run.lock")), "there is no lock")
    done = checkpoints(out)[-1]
    r = b.run(b.train("--out", out, *SAVE, "--resume", steps=done + 5))
    check(results(r.stdout)[0]["weights_sha256"] == b.sha(steps=done + 5), "other weights")


@test
def a_folder_that_is_removed_during_a_run_is_named_once(b):
    out = b.out("run")
    with open(b.out("d.csv"), "w") as f:  # epochs of one step: each would write the learning curve
        f.write("a,answer\n" + "".join("%g,%s\n" % (i % 7, ("no", "yes")[i % 2]) for i in range(8)))
    p = b.begin("train", "--model", "mlp", "--data", b.out("d.csv"), "--set", "label=answer", "--batch", "8", "--steps",
                "1000000", "--out", out, "--save-steps", "100", "--quiet", "--no-test")
    harness.await_checkpoint(out)
    os.rename(out, out + ".gone")
    _, err = p.communicate(timeout=60)
    check(p.returncode == 1 and "'%s' was removed while training wrote there" % out in err, err[-2000:])
    check(err.count("the learning curve could not be written") <= 1, err[-2000:])


@test
def a_folder_of_a_silent_remote_writer_is_free_after_the_lease(b):
    out = used(b)
    lock = os.path.join(out, "run.lock")

    def write(lease_ms):
        with open(lock, "w") as f:
            f.write("job a\nhost elsewhere\nspace other/pid:[1]\npid 77\nstart 5\nlease_ms %d\n" % lease_ms)

    write(60000)
    code, _, err = b.end(b.train("--out", out, "--resume", steps=50))
    check(code == 1 and "process 77 on elsewhere" in err, err)
    write(1)
    os.utime(lock, (time.time() - 5, time.time() - 5))
    b.run(b.train("--out", out, "--resume", steps=50))
    check(checkpoints(out)[-1] == 50 and not os.path.exists(lock), str(files(out)))
    with open(lock, "w") as f:  # nonsense ages like a stranger's
        f.write("\0\0")
    code, _, err = b.end(b.train("--out", out, "--resume", steps=60))
    check(code == 1 and "an unknown host" in err, err)


@test
def restarts_and_a_new_chief_of_the_same_job_continue_in_their_folder(b):
    kind = dict(steps=400)
    want = b.sha(**kind)
    for workers in "1", "2":
        out = b.out("run" + workers)
        p = b.begin("launch", "--workers", workers, "--json", "--max-restarts", "3", "--",
                    *b.train("--out", out, "--name", "k" + workers, *SAVE, **kind))
        harness.await_checkpoint(out)
        kill_chief(b, "k" + workers)
        text, err = p.communicate(timeout=60)
        check(p.returncode == 0 and checkpoints(out)[-1] == 400, "%d: %s" % (p.returncode, err))
        check(results(text)[-1]["weights_sha256"] == want, "other weights")
        check(not os.path.exists(os.path.join(out, "run.lock")), "the lock is left")
        b.run(["audit", out])


@test
def a_restarted_job_of_the_daemon_continues_without_resume(b):
    out, daemon = b.out("run"), b.begin("queue", "daemon", "--slots", "1")
    b.end(["queue", "submit", "--name", "a", "--restarts", "2", "--", b.program,
           *b.train("--out", out, "--name", "d", *SAVE, steps=400)])
    harness.await_checkpoint(out)
    kill_chief(b, "d")
    end = time.monotonic() + 60
    while True:
        job = json.loads(b.end(["queue", "list", "--json"])[1])["jobs"][0]
        if job["state"] in ("done", "failed", "stopped"):
            break
        check(time.monotonic() < end, str(job))
        time.sleep(0.05)
    check(job["state"] == "done" and job["tries"] == 2, "%s: %s" % (job, b.end(["queue", "attach", "a"])[1]))
    check(results(b.end(["queue", "attach", "a"])[1])[-1]["weights_sha256"] == b.sha(steps=400), "other weights")
    daemon.terminate()


@test
def the_run_id_does_not_disturb_tensorflow(b):
    out = used(b)
    with open(os.path.join(out, "run")) as f:
        run = f.read().split()[1]
    check(run in b.run(["ckpt", "show", out, "--values", "_meshflow/run"]).stdout, "checkpoint")
    check(run in b.run(["audit", out]).stdout, "ledger")
    check(b.run(["ckpt", "diff", out, used(b, "again")]).returncode == 0, "the run is no difference")


def contents(out):
    """Of every file, and when it has changed."""
    found = {}
    for name in os.listdir(out):
        with open(os.path.join(out, name), "rb") as f:
            found[name] = f.read(), os.path.getmtime(f.name)
    return found


@test
def resume_rejects_another_model_and_changes_no_file(b):
    out = used(b, steps=20)
    before = contents(out)
    for launch in [], [*LAUNCH, "--max-restarts", "3", "--"]:
        code, _, err = b.end([*launch, *b.train("--out", out, "--resume", model="mlp units=64", steps=30)])
        check(code == 2 and "'mlp'" in err and "'mlp units=64'" in err and "damaged" not in err, err)
        check(contents(out) == before, "files have changed: %s" % files(out))
    os.remove(os.path.join(out, "model.json"))  # then it is in the checkpoint
    code, _, err = b.end(b.train("--out", out, "--resume", model="mlp units=64", steps=30))
    check(code == 2 and "made by another model?" in err and "damaged" not in err, err)


@test
def settings_that_differ_from_the_run_are_listed_and_need_a_flag(b):
    out = used(b, steps=20)
    before = contents(out)
    other = dict(steps=30, batch=64, optimizer="sgd", rate=0.3)
    told = ("--batch was 32 and is 64", "--optimizer was momentum and is sgd", "--lr was 0.05 and is 0.3")
    for launch in [], [*LAUNCH, "--max-restarts", "3", "--"]:
        code, _, err = b.end([*launch, *b.train("--out", out, "--resume", **other)])
        check(code == 2 and all(t in err for t in told) and "--allow-changes" in err, err)
        check(contents(out) == before, "files have changed: %s" % files(out))
    code, _, err = b.end(b.train("--out", out, "--resume", "--allow-changes", **{**other, "seed": 4}))
    check(code == 2 and "--seed was 3 and is 4" in err and "cannot change" in err, err)
    code, _, err = b.end(b.train("--out", out, "--allow-changes", **other))
    check(code == 2 and "needs --resume" in err, err)
    check(contents(out) == before, "files have changed: %s" % files(out))
    code, _, err = b.end(b.train("--out", out, "--resume", "--allow-changes", **other))
    check(code == 0 and all(t in err for t in told), err)
    code, _, err = b.end(b.train("--out", out, "--resume", **{**other, "steps": 40, "rate": "3e-1"}))
    check(code == 0 and "was" not in err, "the run has these settings by now: " + err)


@test
def a_run_is_resumed_without_naming_its_model_and_data(b):
    out = used(b, steps=20)
    r = b.run(["train", "--out", out, "--resume", "--steps", "30", "--batch", "32", "--seed", "3", "--optimizer",
               "momentum", "--lr", "0.05", "--quiet", "--no-test", "--json"])
    check(results(r.stdout)[0]["weights_sha256"] == b.sha(steps=30), "other weights")


def write_table(path, answers):
    with open(path, "w") as f:
        f.write("a,b,answer\n")
        for i in range(60):
            f.write("%g,%g,%s\n" % (i % 7 / 7, i % 5 / 5, answers[i % len(answers)]))


@test
def a_resumed_run_keeps_the_classes_of_its_schema(b):
    data, out = b.out("d.csv"), b.out("run")

    def train(steps, *more):
        return b.end(["train", "--model", "mlp", "--data", data, "--set", "label=answer", "--batch", "8", "--steps",
                      str(steps), "--out", out, "--quiet", "--no-test", *more])

    write_table(data, ["maybe", "no", "yes"])
    code, _, err = train(5)
    check(code == 0, err)
    with open(os.path.join(out, "schema.json")) as f:
        schema = f.read()
    write_table(data, ["no", "yes"])  # `yes` would be class 1 of 2
    code, _, err = train(10, "--resume")
    check(code == 0, err)
    with open(os.path.join(out, "schema.json")) as f:
        check(f.read() == schema, "the classes are counted anew")
    write_table(data, ["no", "perhaps", "yes"])
    code, _, err = train(15, "--resume")
    check(code == 2 and "perhaps" in err, err)
    write_table(data, ["no", "yes"])
    with open(data, "a") as f:
        f.write("0,0,no\n")
    code, _, err = train(15, "--resume")
    check(code == 2 and "the number of samples was 60 and is 61" in err, err)


@test
def held_out_samples_are_not_trained_on_after_resume(b):
    data, out = b.out("d.csv"), b.out("run")
    write_table(data, ["no", "yes"])
    train = ["train", "--model", "mlp", "--data", data, "--set", "label=answer", "--batch", "8", "--out", out,
             "--quiet", "--json", "--steps"]
    first = json.loads(b.run([*train, "5"]).stdout.splitlines()[-1])
    again = json.loads(b.run([*train, "10", "--resume", "--no-test"]).stdout.splitlines()[-1])
    check(again["samples"]["train"] == first["samples"]["train"] == 54, "%s %s" % (first, again))


if __name__ == "__main__":
    harness.main(ends.Bench)
