#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One's own tables, pictures, records and regression, trained by us and by Keras.

Usage: build/venv/bin/python own_data.py PROGRAM [PATTERN]

Prints TAP lines and, last, `N passed, N failed, N skipped`. Both train the same architecture from the
same weights (an npz file that both read) with the same optimizer, on the same batches: the ids of
each step are in samples.ledger. The test samples are those that the ledger never has. So all numbers
must agree within BAR: weights, losses, accuracies and predictions differ by rounding alone.
"""
import csv
import json
import os
import subprocess
import sys

import harness
from harness import check, test

try:
    import numpy as np
    import tensorflow as tf
except ImportError:
    print("ok 1 - own data against Keras # SKIP TensorFlow is not installed")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit()

BAR = 2e-4
STEPS, BATCH, RATE = 40, 16, 0.1


def name_of(variable):
    """ "sequential_1/dense/kernel" is dense/kernel here."""
    return "/".join(variable.path.split("/")[-2:])


class Bench(harness.Bench):
    def __init__(self, args):
        super().__init__(args)
        self.rng = np.random.default_rng(7)

    def run(self, *command, code=0):
        r = subprocess.run([self.program, *map(str, command)], capture_output=True, text=True, timeout=120,
                           cwd=self.dir)
        check(r.returncode == code, "%s: exit code %d, not %d: %s" %
              (" ".join(map(str, command)), r.returncode, code, r.stderr))
        return r

    def json(self, *command):
        return json.loads(self.run(*command, "--json").stdout.splitlines()[-1])

    def train(self, data, keras, *more, model="mlp units=[16]", out="run", steps=STEPS, rate=RATE):
        """Starts from Keras's weights; returns the output."""
        weights = {name_of(v): v.numpy() for v in keras.variables}
        np.savez(self.out("init.npz"), **weights)
        return self.json("train", "--model", model, "--data", data, "--batch", BATCH, "--steps", steps, "--lr", rate,
                         "--init", "init.npz", "--out", out, "--quiet", *more)

    def weights(self, out="run"):
        self.run("ckpt", "convert", out, "final.npz")
        return dict(np.load(self.out("final.npz")))

    def table(self, name, x, labels, header):
        with open(self.out(name), "w", newline="") as f:
            rows = csv.writer(f)
            rows.writerow(header)
            for i, row in enumerate(x):
                rows.writerow([repr(float(v)) for v in row] + ([labels[i]] if labels is not None else []))
        return name


# ---- the ledger, by its description in docs/guides/data.md ----

def varints(data):
    n = shift = 0
    for byte in data:
        n |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield n
            n = shift = 0


def ledger(b, out="run"):
    """The ids of each step, in order."""
    data = open(os.path.join(b.out(out), "samples.ledger"), "rb").read()
    records, at = [], 0
    while at < len(data):
        n = int.from_bytes(data[at:at + 8], "little")
        records.append(data[at + 12:at + 12 + n])
        at += 16 + n
    check(records[0][:8] == b"MFLEDGER", "this is no ledger")
    steps = []
    for record in records[1:]:
        _, _, _, n, *deltas = varints(record)
        last, ids = 0, []
        for d in deltas[:n]:
            last += d // 2 if d % 2 == 0 else -(d + 1) // 2
            ids.append(last)
        steps.append(ids)
    return steps


# ---- Keras ----

def dense(inputs, outputs, *first, units=16):
    """mlp, with weights of its own."""
    return sequential(inputs, *first, tf.keras.layers.Flatten(), tf.keras.layers.Dense(units, "relu", name="dense"),
                      tf.keras.layers.Dense(outputs, name="dense_1"))


def sequential(inputs, *layers):
    tf.keras.utils.set_random_seed(3)
    model = tf.keras.Sequential([tf.keras.Input(inputs), *layers])
    model.summary(print_fn=lambda *a, **k: None)
    return model


CLASSES = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
NUMBERS = tf.keras.losses.MeanSquaredError()


def fit(model, loss, x, y, steps, rate=RATE):
    """The same batches in the same order."""
    optimizer = tf.keras.optimizers.SGD(rate)

    @tf.function(reduce_retracing=True)
    def step(xs, ys):
        with tf.GradientTape() as tape:
            value = loss(ys, model(xs, training=True))
        optimizer.apply_gradients(zip(tape.gradient(value, model.trainable_variables), model.trainable_variables))

    for ids in steps:
        step(tf.constant(x[ids]), tf.constant(y[ids]))


def accuracy(model, x, y):
    return float(np.mean(np.argmax(model.predict(x, verbose=0), -1) == y))


def loss_of(model, loss, x, y):
    out = model.predict(x, verbose=0)
    return float(loss(y, out[:, 0] if loss is NUMBERS else out))


def near(got, want, what):
    check(abs(got - want) <= BAR * max(1.0, abs(want)), "%s: %.7g, Keras: %.7g" % (what, got, want))


def same_weights(b, model, out="run"):
    ours = b.weights(out)
    for v in model.variables:
        name = name_of(v)
        check(name in ours, "no weight %s in %s" % (name, sorted(ours)))
        far = float(np.max(np.abs(ours[name] - v.numpy())))
        check(far <= BAR, "%s is %.3g away from Keras's" % (name, far))


def unseen(steps, n):
    return np.array(sorted(set(range(n)) - {i for ids in steps for i in ids}))


def compare(b, model, loss, x, y, said, out="run"):
    """Weights, and predictions for the test samples."""
    steps = ledger(b, out)
    held = unseen(steps, len(x))
    check(said["samples"]["test"] == len(held), "%s test samples, %d were never trained on" %
          (said["samples"], len(held)))
    fit(model, loss, x, y, steps)
    same_weights(b, model, out)
    near(said["test_loss"], loss_of(model, loss, x[held], y[held]), "test loss")
    if loss is CLASSES:
        near(said["accuracy"], accuracy(model, x[held], y[held]), "test accuracy")
    return held


# ---- data ----

NAMES = ["cat", "dog", "owl"]


def flowers(b, n):
    """Points in three classes, as far apart as not to be trivial."""
    y = b.rng.integers(0, 3, n)
    x = b.rng.normal(size=(n, 4)) + np.array([[0, 0, 1, 0], [1, 1, 0, 0], [-1, 1, 0, 0.5]])[y] * 1.5
    return np.round(x, 4).astype("float32"), y.astype("int32")


def prices(b, n):
    x = np.round(b.rng.uniform(-1, 1, (n, 5)), 4).astype("float32")
    y = 0.5 + x @ np.array([0.3, -0.2, 0.1, 0, 0.05]) + 0.1 * x[:, 0] * x[:, 1]
    return x, np.round(y, 5).astype("float32")


def names(y):
    return [NAMES[i] for i in y]


HEADER = ["length", "width", "height", "weight", "animal"]


def trained_table(b):
    """Both have learned the table. Returns Keras's model."""
    x, y = flowers(b, 320)
    b.table("animals.csv", x, names(y), HEADER)
    model = dense((4,), 3)
    said = b.train("animals.csv", model, "--set", "label=animal")
    compare(b, model, CLASSES, x, y, said)
    check(said["accuracy"] > 0.7, "nothing was learned: %s" % said)
    return model


# ---- tests ----

@test
def a_csv_with_a_header_trains_as_in_keras(b):
    trained_table(b)
    said = b.json("eval", "--from", "run")
    check(said["samples"]["test"] == 32, str(said))


@test
def eval_of_several_test_sets_matches_keras(b):
    model = trained_table(b)
    for name, n, classes in ("small.csv", 30, (0, 1, 2)), ("large.csv", 300, (0, 1, 2)), ("two.csv", 60, (1, 2)), (
            "one.csv", 40, (2,)):
        x, y = flowers(b, 4 * n)
        x, y = x[np.isin(y, classes)][:n], y[np.isin(y, classes)][:n]
        b.table(name, x, names(y), HEADER)
        said = b.json("eval", "--from", "run", "--test", name)
        near(said["loss"], loss_of(model, CLASSES, x, y), name + ", loss")
        near(said["accuracy"], accuracy(model, x, y), name + ", accuracy")


@test
def predict_with_and_without_labels_matches_keras(b):
    model = trained_table(b)
    x, y = flowers(b, 50)
    want = model.predict(x, verbose=0)
    b.table("with.csv", x, names(y), HEADER)
    b.table("without.csv", x, None, HEADER[:4])
    b.table("turned.csv", x[:, ::-1], None, HEADER[3::-1])  # the same columns in another order
    for name in "with.csv", "without.csv", "turned.csv":
        got = b.json("predict", "--from", "run", "--test", name)["predictions"]
        check([p["name"] for p in got] == names(np.argmax(want, -1)), name + ": other classes")
        far = float(np.max(np.abs(np.array([p["scores"] for p in got]) - want)))
        check(far <= 10 * BAR, "%s: scores are %.3g away from Keras's" % (name, far))
    b.run("predict", "--from", "run", "--test", "without.csv", "--output", "scores.npy")
    check(np.allclose(np.load(b.out("scores.npy")), want, atol=10 * BAR), "scores.npy has others")


@test
def regression_on_a_csv_matches_keras(b):
    x, y = prices(b, 320)
    b.table("prices.csv", x, y, ["a", "b", "c", "d", "e", "price"])
    model = dense((5,), 1)
    said = b.train("prices.csv", model, "--set", "label=price")
    held = compare(b, model, NUMBERS, x, y, said)
    out = model.predict(x[held], verbose=0)[:, 0]
    near(said["mean_absolute_error"], float(np.mean(np.abs(out - y[held]))), "mean absolute error")
    check(said["test_loss"] < 0.1, "nothing was learned: %s" % said)
    got = b.json("predict", "--from", "run")["predictions"]
    check([p["sample"] for p in got] == list(held), "other samples were predicted")
    check(np.allclose([p["values"][0] for p in got], out, atol=BAR), "other predictions")


@test
def the_final_validation_uses_the_final_weights(b):
    x, y = flowers(b, 320)
    b.table("animals.csv", x, names(y), HEADER)
    model = dense((4,), 3)
    said = b.train("animals.csv", model, "--set", "label=animal", "--no-test", steps=40)
    everything = ledger(b)  # 320 samples, no split: an epoch is 20 steps, the second ends with step 40
    check(len({i for ids in everything for i in ids}) == 320, "samples are missing")
    model = dense((4,), 3)
    said = b.train("animals.csv", model, "--set", "label=animal", "--validation", "0.25", out="validated", steps=30)
    check(said["samples"] == {"train": 216, "validation": 72, "test": 32}, str(said))
    steps = ledger(b, "validated")
    fit(model, CLASSES, x, y, steps)
    same_weights(b, model, "validated")
    rest = unseen(steps, 320)
    check(len(rest) == 104, "%d samples were never trained on" % len(rest))
    tested = {p["sample"] for p in b.json("predict", "--from", "validated")["predictions"]}
    held = np.array([i for i in rest if i not in tested])
    check(len(held) == 72, "validation and test have samples in common")
    near(said["validation"]["loss"], loss_of(model, CLASSES, x[held], y[held]), "validation loss")
    near(said["validation"]["accuracy"], accuracy(model, x[held], y[held]), "validation accuracy")


def write_records(path, x, y):
    feature = tf.train.Feature
    with tf.io.TFRecordWriter(path) as f:
        for i, row in enumerate(x):
            features = {"x": feature(float_list=tf.train.FloatList(value=row))}
            if y is not None:
                features["label"] = feature(int64_list=tf.train.Int64List(value=[y[i]]))
            f.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


@test
def records_that_tensorflow_wrote_train_as_in_keras(b):
    x, y = flowers(b, 320)
    write_records(b.out("animals.tfrecord"), x, y)
    model = dense((4,), 3)
    said = b.train("animals.tfrecord", model, "--set", "classes=3")
    held = compare(b, model, CLASSES, x, y, said)
    near(b.json("eval", "--from", "run")["loss"], loss_of(model, CLASSES, x[held], y[held]), "loss by eval")
    write_records(b.out("more.tfrecord"), x[:20], None)
    got = b.json("predict", "--from", "run", "--test", "more.tfrecord")["predictions"]
    want = np.argmax(model.predict(x[:20], verbose=0), -1)
    check([p["class"] for p in got] == list(want), "other predictions")


def write_pictures(b, folder, n, classes):
    """Stripes, in a folder for each class. Returns pictures and labels in the order of their names."""
    x, y = [], []
    for c in classes:
        for i in range(n):
            picture = b.rng.integers(0, 90, (8, 8, 1)).astype("uint8")
            if c == 0:
                picture[::2] += 120
            elif c == 1:
                picture[:, ::2] += 120
            path = os.path.join(b.out(folder), NAMES[c], "%03d.png" % i)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.write(tf.io.encode_png(picture).numpy())
            x.append(picture)
            y.append(c)
    return np.array(x), np.array(y, "int32")


@test
def images_in_folders_train_as_in_keras(b):
    x, y = write_pictures(b, "pictures/train", 60, (0, 1, 2))
    for model, keras in (("mlp units=[16]", dense((8, 8, 1), 3, tf.keras.layers.Rescaling(1 / 255))), (
            "fashion-cnn", sequential(
                (8, 8, 1), tf.keras.layers.Rescaling(1 / 255),
                tf.keras.layers.Conv2D(32, 3, padding="same", activation="relu", name="conv2d"),
                tf.keras.layers.MaxPooling2D(), tf.keras.layers.Conv2D(64, 3, padding="same", activation="relu",
                                                                       name="conv2d_1"),
                tf.keras.layers.MaxPooling2D(), tf.keras.layers.Flatten(),
                tf.keras.layers.Dense(128, "relu", name="dense"), tf.keras.layers.Dense(3, name="dense_1")))):
        out = model.split()[0]
        said = b.train("pictures", keras, model=model, out=out)
        compare(b, keras, CLASSES, x, y, said, out)
        # A test set without the first class: the others keep their numbers.
        tx, ty = write_pictures(b, "some-" + out, 10, (1, 2))
        said = b.json("eval", "--from", out, "--test", "some-" + out)
        near(said["accuracy"], accuracy(keras, tx, ty), "accuracy without a class")
        near(said["loss"], loss_of(keras, CLASSES, tx, ty), "loss without a class")
        said = b.run("eval", "--from", out, "--test", "pictures/train").stdout
        check("180 of pictures/train" in said, said)


@test
def a_test_part_of_images_uses_the_classes_of_the_training(b):
    x, y = write_pictures(b, "parts/train", 40, (0, 1, 2))
    tx, ty = write_pictures(b, "parts/test", 12, (0, 2))
    model = dense((8, 8, 1), 3, tf.keras.layers.Rescaling(1 / 255))
    said = b.train("parts", model)
    check(said["samples"] == {"train": 120, "validation": 0, "test": 24}, str(said))
    fit(model, CLASSES, x, y, ledger(b))
    same_weights(b, model)
    near(said["test_loss"], loss_of(model, CLASSES, tx, ty), "test loss")
    near(said["accuracy"], accuracy(model, tx, ty), "test accuracy")


@test
def a_resumed_training_keeps_its_test_samples(b):
    x, y = flowers(b, 320)
    b.table("animals.csv", x, names(y), HEADER)
    whole = b.train("animals.csv", dense((4,), 3), "--set", "label=animal", out="whole")
    b.train("animals.csv", dense((4,), 3), "--set", "label=animal", out="parts", steps=15)
    model = dense((4,), 3)
    said = b.json("train", "--model", "mlp units=[16]", "--data", "animals.csv", "--set", "label=animal", "--batch", BATCH,
                  "--steps", STEPS, "--lr", RATE, "--out", "parts", "--resume", "--quiet")
    check(said["weights_sha256"] == whole["weights_sha256"], "other weights after going on")
    check(said["test_loss"] == whole["test_loss"], "tested on other samples")
    compare(b, model, CLASSES, x, y, said, "parts")


harness.main(Bench)
