# SPDX-License-Identifier: Apache-2.0
"""Hooks and monitored sessions of libmeshflow through ctypes, as far as the tests need it."""
import ctypes

import meshflow_lib as mf
import trainer_lib
from meshflow_lib import P, check, lib
from trainer_lib import I64, TEXT, Hook

INT = ctypes.c_int
CALLS = {"begin": ctypes.CFUNCTYPE(INT, P, P), "after_create_session": ctypes.CFUNCTYPE(INT, P, P),
         "before_run": ctypes.CFUNCTYPE(INT, P, P, P), "after_run": ctypes.CFUNCTYPE(INT, P, P, P),
         "end": ctypes.CFUNCTYPE(INT, P, P)}


class Every(ctypes.Structure):
    _fields_ = [("steps", I64), ("seconds", ctypes.c_double)]


class SummaryOptions(ctypes.Structure):
    _fields_ = [("dir", TEXT), ("every", Every), ("summaries", ctypes.POINTER(TEXT)), ("n_summaries", INT),
                ("graph", ctypes.c_bool), ("weights_by_epoch", ctypes.c_bool), ("weight_steps", I64),
                ("gradient_steps", I64), ("image_steps", I64), ("images", INT)]


class MonitoredOptions(ctypes.Structure):
    _fields_ = [("checkpoint_dir", TEXT), ("init", TEXT), ("is_worker", ctypes.c_bool), ("wait_ms", I64),
                ("hooks", ctypes.POINTER(Hook)), ("n_hooks", INT), ("queue_runners", P), ("n_queue_runners", INT),
                ("session", mf.SessionOptions), ("connect", P), ("connect_ctx", P), ("grace_ms", I64),
                ("max_recoveries", INT)]


for name in ("mf_hook_loop_stop", "mf_hook_free"):
    getattr(lib, name).argtypes = [P]
lib.mf_monitored_session_should_stop.argtypes = [P]
lib.mf_monitored_session_should_stop.restype = ctypes.c_bool
lib.mf_monitored_session_close.argtypes = [P]
lib.mf_hook_stop_at_step.argtypes = [I64, I64, P]
lib.mf_hook_checkpoint.argtypes = [TEXT, Every, INT, P]
lib.mf_hook_profiler.argtypes = [TEXT, Every, P]
lib.mf_hook_step_counter.argtypes = [Every, TEXT, P]
lib.mf_hook_summary.argtypes = [P, P]


def ready(constructor, *args):
    """A ready-made hook, to be freed."""
    hook = Hook()
    check(constructor(*args, ctypes.byref(hook)))
    return hook


class PythonHook:
    """Calls a Python object with TensorFlow's methods; the results are converted to a status."""

    def __init__(self, methods):
        self.keep = {k: CALLS[k](v) for k, v in methods.items()}
        self.hook = Hook(**{k: ctypes.cast(f, P) for k, f in self.keep.items()})


class Monitored:
    """A monitored session over a serialised GraphDef."""

    def __init__(self, graph_def, hooks, checkpoint_dir=None, init="init"):
        self.session, self.hooks = P(), (Hook * len(hooks))(*hooks)
        graph = P()
        check(lib.mf_graph_new(ctypes.byref(graph)))
        options = MonitoredOptions(checkpoint_dir=checkpoint_dir.encode() if checkpoint_dir else None,
                                   init=init.encode(), hooks=self.hooks, n_hooks=len(hooks))
        try:
            check(lib.mf_graph_decode(graph, graph_def, ctypes.c_size_t(len(graph_def))))
            check(lib.mf_monitored_session_new(graph, ctypes.byref(options), ctypes.byref(self.session)))
        finally:
            lib.mf_graph_free(graph)

    def should_stop(self):
        return lib.mf_monitored_session_should_stop(self.session)

    def run(self, target):
        check(lib.mf_monitored_session_run(self.session, None, None, None, 0, None, 0,
                                           (TEXT * 1)(target.encode()), 1, None))

    def fetch(self, name):
        result = (P * 1)()
        lib.mf_monitored_session_raw.restype = P
        raw = P(lib.mf_monitored_session_raw(self.session))
        check(lib.mf_session_run(raw, None, None, None, 0, (TEXT * 1)(name.encode()), 1, None, 0, result))
        try:
            return mf.from_tensor(result[0])
        finally:
            lib.mf_tensor_free(result[0])

    def close(self):
        check(lib.mf_monitored_session_close(self.session))


def train(model, columns, hooks=(), **options):
    """Fit a model_lib.Model on these columns; options are those of mf_fit()."""
    trainer = trainer_lib.Trainer(model, metrics="accuracy", optimizer="sgd learning_rate=0.1", seed=3)
    tensors = [mf.to_tensor(a) for a in columns.values()]
    data, all_hooks = P(), (Hook * max(1, len(hooks)))(*hooks)
    values = {k: v.encode() if isinstance(v, str) else v for k, v in options.items()}
    try:
        check(lib.mf_dataset_of((TEXT * len(columns))(*[n.encode() for n in columns]),
                                (P * len(columns))(*tensors), len(columns), ctypes.byref(data)))
        check(lib.mf_fit(trainer.trainer, data, data, ctypes.byref(
            trainer_lib.FitOptions(hooks=ctypes.cast(all_hooks, P), n_hooks=len(hooks), in_order=True, **values))))
    finally:
        lib.mf_dataset_unref(data)
        for t in tensors:
            lib.mf_tensor_free(t)
        trainer.close()
