# SPDX-License-Identifier: Apache-2.0
"""Training with libmeshflow through ctypes, as far as the tests need it."""
import ctypes
import json
import os
import re

import meshflow_lib as mf
import model_lib  # noqa: F401  (declares the functions of models)
from meshflow_lib import P, check, lib

I64, TEXT = ctypes.c_int64, ctypes.c_char_p


_HEADERS = os.path.join(os.path.dirname(__file__), "..", "..", "include", "meshflow")
_TYPES = {"const char *": TEXT, "double ": ctypes.c_double, "int ": ctypes.c_int, "bool ": ctypes.c_bool,
          "int64_t ": I64, "uint64_t ": ctypes.c_uint64}


def _structure(name, header="train.h"):
    """The struct as the header has it: all its pointers but strings are plain ones."""
    with open(os.path.join(_HEADERS, header), encoding="utf-8") as f:
        body = re.search(r"typedef struct %s \{(.*?)\n\}" % name, f.read(), re.S)[1]
    fields = []
    for line in re.sub(r"/\*.*?\*/", "", body, flags=re.S).split(";"):
        line, *more = " ".join(line.split()).split(", *") if "(" not in line else [" ".join(line.split())]
        m = re.fullmatch(r"(.*?[ *])(\w+)", line) or re.fullmatch(r"(.*\()\*(\w+)\)\(.*\)", line)
        if m:
            fields += [(n, _TYPES.get(m[1], P)) for n in (m[2], *more)]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


CompileOptions, Report = _structure("mf_compile_options"), _structure("mf_step_report")
Hook, FitOptions = _structure("mf_hook"), _structure("mf_fit_options")
StrategyOptions = _structure("mf_strategy_options", "strategy.h")
AFTER_STEP = ctypes.CFUNCTYPE(ctypes.c_int, P, P, ctypes.POINTER(Report))

for name in ("mf_trainer_free", "mf_dataset_unref", "mf_strategy_close"):
    getattr(lib, name).argtypes = [P]
lib.mf_trainer_get.argtypes = [P, TEXT, P]


class Strategy:
    """Task `index` of a job of a cluster, as one of the threads of this process."""

    def __init__(self, text, cluster, job, index):
        options = StrategyOptions(cluster=json.dumps(cluster).encode(), job_name=job.encode(),
                                  task_index=str(index).encode(), timeout_ms=60000)
        self.strategy = P()
        check(lib.mf_strategy_open(text.encode(), ctypes.byref(options), ctypes.byref(self.strategy)))

    def close(self):
        lib.mf_strategy_close(self.strategy)


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

    def get(self, name):
        value = P()
        check(lib.mf_trainer_get(self.trainer, name.encode(), ctypes.byref(value)))
        out = mf.from_tensor(value)
        lib.mf_tensor_free(value)
        return out

    def fit(self, columns, steps, batch, out=None, then=None):
        """Columns by name, in order; out: a folder for checkpoints; then: called after every step. Returns the
        learning rates of the steps."""
        rates = []

        def after(_, __, report):
            rates.append(report.contents.learning_rate)
            if then:
                then()
            return 0
        call = AFTER_STEP(after)
        hook = Hook(after_step=ctypes.cast(call, P))
        tensors = [mf.to_tensor(a) for a in columns.values()]
        data = P()
        options = FitOptions(steps=steps, batch=batch, in_order=True, out=out.encode() if out else None, hooks=ctypes.cast(ctypes.pointer(hook), P),
                             n_hooks=1)
        try:
            check(lib.mf_dataset_of((TEXT * len(columns))(*[n.encode() for n in columns]),
                                    (P * len(columns))(*tensors), len(columns), ctypes.byref(data)))
            check(lib.mf_fit(self.trainer, data, None, ctypes.byref(options)))
        finally:
            lib.mf_dataset_unref(data)
            for t in tensors:
                lib.mf_tensor_free(t)
        return rates
