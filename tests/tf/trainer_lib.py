# SPDX-License-Identifier: Apache-2.0
"""Training with libmeshflow through ctypes, as far as the tests need it."""
import ctypes

import meshflow_lib as mf
import model_lib  # noqa: F401  (declares the functions of models)
from meshflow_lib import P, check, lib

I64, TEXT = ctypes.c_int64, ctypes.c_char_p


class CompileOptions(ctypes.Structure):
    _fields_ = [("optimizer", TEXT), ("loss", TEXT), ("metrics", TEXT), ("label", TEXT), ("schedule", TEXT),
                ("learning_rate", ctypes.c_double), ("clip", TEXT), ("weight_decay", ctypes.c_double),
                ("ema", ctypes.c_double), ("precision", TEXT), ("shards", ctypes.c_int),
                ("micro_batches", ctypes.c_int), ("seed", ctypes.c_uint64), ("threads", ctypes.c_int),
                ("disable", TEXT), ("ema_eval", ctypes.c_bool), ("hogwild", ctypes.c_bool)]


class Report(ctypes.Structure):
    _fields_ = [("step", I64), ("epoch", I64), ("samples", I64), ("learning_rate", ctypes.c_double),
                ("results", P), ("n_results", ctypes.c_int)]


AFTER_STEP = ctypes.CFUNCTYPE(ctypes.c_int, P, P, ctypes.POINTER(Report))


class Hook(ctypes.Structure):
    _fields_ = [("ctx", P), ("begin", P), ("after_step", AFTER_STEP), ("after_epoch", P), ("end", P),
                ("after_create_session", P), ("before_run", P), ("after_run", P), ("forgive", P), ("release", P)]


class FitOptions(ctypes.Structure):
    _fields_ = [("epochs", I64), ("steps", I64), ("batch", I64), ("in_order", ctypes.c_bool),
                ("hooks", ctypes.POINTER(Hook)), ("n_hooks", ctypes.c_int), ("out", TEXT), ("save_steps", I64),
                ("keep", ctypes.c_int), ("trace", TEXT), ("trace_step", I64), ("resume", ctypes.c_bool),
                ("summary_steps", I64)]


for name in ("mf_trainer_free", "mf_dataset_unref"):
    getattr(lib, name).argtypes = [P]


class Trainer:
    """A compiled model_lib.Model, which must outlive it."""

    def __init__(self, model, **options):
        values = {k: v.encode() if isinstance(v, str) else v for k, v in options.items()}
        self.trainer = P()
        check(lib.mf_model_compile(model.model, ctypes.byref(CompileOptions(**values)),
                                   ctypes.byref(self.trainer)))

    def close(self):
        lib.mf_trainer_free(self.trainer)

    def load(self, prefix):
        check(lib.mf_trainer_load_weights(self.trainer, prefix.encode(), None))

    def save(self, prefix):
        check(lib.mf_trainer_save(self.trainer, prefix.encode()))

    def fit(self, columns, steps, batch):
        """Columns by name, in order. Returns the learning rates of the steps."""
        rates = []

        def after(_, __, report):
            rates.append(report.contents.learning_rate)
            return 0
        hook = Hook(after_step=AFTER_STEP(after))
        tensors = [mf.to_tensor(a) for a in columns.values()]
        data = P()
        options = FitOptions(steps=steps, batch=batch, in_order=True, hooks=ctypes.pointer(hook), n_hooks=1)
        try:
            check(lib.mf_dataset_of((TEXT * len(columns))(*[n.encode() for n in columns]),
                                    (P * len(columns))(*tensors), len(columns), ctypes.byref(data)))
            check(lib.mf_fit(self.trainer, data, None, ctypes.byref(options)))
        finally:
            lib.mf_dataset_unref(data)
            for t in tensors:
                lib.mf_tensor_free(t)
        return rates
