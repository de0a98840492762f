#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the library's code runs in its own locale and floating-point environment.

1. Every public function (MF_API in include/meshflow/) begins with MF_ENTRY, MF_ENTRY_SMALL or
   MF_ENTRY_OR (src/base/host_state.h), unless it is in PLAIN.
2. Threads are started by base/thread.c alone, which gives them both.
3. Nothing of src/ but base/host_state.c and the program sets a locale, a floating-point environment or a
   signal's handler.

Usage: check_host.py [ROOT]
"""
import os
import re
import sys
import tempfile

# These only read a field or store a flag: they compute and print nothing, and take no lock.
PLAIN = set("""
mf_status_name mf_error_message mf_error_trace mf_version mf_dtype_name mf_dtype_size
mf_tensor_dtype mf_tensor_rank mf_tensor_dim mf_tensor_count mf_tensor_data mf_tensor_bytes
mf_node_name mf_model_graph mf_model_defaults
mf_dataset_ref mf_dataset_count mf_dataset_columns mf_dataset_classes
mf_trainer_session mf_trainer_step mf_trainer_variable mf_trainer_stop
mf_hook_loop_session mf_hook_loop_trainer mf_hook_loop_coordinator mf_hook_final_values
mf_coordinator_should_stop mf_server_target mf_local_cluster_spec mf_dispatch_is_master
mf_strategy_rank mf_strategy_size mf_strategy_serves mf_strategy_is_chief mf_strategy_is_over
mf_strategy_has_left mf_strategy_stop mf_strategy_leave
mf_plugin_open_v1
""".split())

DECLARED = re.compile(r"\bMF_API\b[^;(]*?\b(mf_\w+)\s*\(", re.S)
DEFINED = re.compile(r"^[a-z_][\w \*]*?\b(mf_\w+)\([^;{]*\)\n\{\n(.*)", re.M)
FORBIDDEN = [
    (re.compile(r"\bpthread_create\("), {"base/thread.c"}, "use mf_thread_start()"),
    (re.compile(r"\b(setlocale|uselocale|newlocale)\("), {"base/host_state.c", "ops/string/string.c", "cli/"},
     "MF_ENTRY has set the C locale"),
    (re.compile(r"\b(fesetround|fesetenv|feenableexcept|_mm_setcsr)\("), {"base/host_state.c"},
     "MF_ENTRY has set the default environment"),
    (re.compile(r"\b(signal|sigaction)\("), {"cli/", "jobqueue/", "serving/", "supervisor/"},
     "signals belong to the host program"),
]


def read(path):
    with open(path, encoding="utf-8") as source:
        return source.read()


def files(top, ending):
    for where, _, names in sorted(os.walk(top)):
        yield from (os.path.join(where, n) for n in sorted(names) if n.endswith(ending))


def unguarded(include, src):
    """Complaints about public functions."""
    declared = set()
    for path in files(include, ".h"):
        declared |= set(DECLARED.findall(re.sub(r"/\*.*?\*/", "", read(path), flags=re.S)))
    seen = set()
    for path in files(src, ".c"):
        if os.sep + "plugins" + os.sep in path:
            continue
        for name, first in DEFINED.findall(read(path)):
            if name not in declared:
                continue
            seen.add(name)
            if name not in PLAIN and not re.match(r"\s*MF_ENTRY(;|_SMALL;|_OR\()", first):
                yield "%s: %s() does not begin with MF_ENTRY, MF_ENTRY_SMALL or MF_ENTRY_OR" % (path, name)
    for name in sorted(declared - seen - PLAIN):
        yield "%s() is declared and not defined" % name
    for name in sorted(PLAIN - declared):
        yield "tools/check_host.py: there is no %s()" % name


def forbidden(src):
    """Complaints about calls."""
    for path in files(src, ".c"):
        inside = os.path.relpath(path, src)
        for number, line in enumerate(read(path).splitlines(), 1):
            for call, where, instead in FORBIDDEN:
                if call.search(line) and not any(inside == w or w.endswith("/") and inside.startswith(w) for w in where):
                    yield "%s:%d: %s: %s" % (path, number, call.search(line).group(0), instead)


def goes_red():
    """A tree with each mistake: complaints if one is not seen."""
    with tempfile.TemporaryDirectory() as top:
        os.makedirs(os.path.join(top, "src", "graph"))
        os.makedirs(os.path.join(top, "include"))
        with open(os.path.join(top, "include", "x.h"), "w", encoding="utf-8") as header:
            header.write("MF_API int mf_naked(void);\nMF_API int mf_dressed(void);\n")
        with open(os.path.join(top, "src", "graph", "x.c"), "w", encoding="utf-8") as source:
            source.write("int mf_naked(void)\n{\n    return 1;\n}\n\nint mf_dressed(void)\n{\n    MF_ENTRY_OR(0);\n}\n"
                         "    pthread_create(a);\n    setlocale(b);\n    fesetround(c);\n    signal(d);\n")
        found = list(forbidden(os.path.join(top, "src")))
        naked = [c for c in unguarded(os.path.join(top, "include"), os.path.join(top, "src")) if "naked" in c or "dressed" in c]
    return [] if len(found) == len(FORBIDDEN) and len(naked) == 1 else ["saw %s and %s" % (found, naked)]


def main():
    os.chdir(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    tests = [
        ("the check of entries sees each mistake", goes_red()),
        ("every public function sets the library's locale and floating-point environment",
         list(unguarded("include/meshflow", "src"))),
        ("nothing else of the library sets a thread's state", list(forbidden("src"))),
    ]
    for number, (name, complaints) in enumerate(tests, 1):
        print("%s %d - %s" % ("not ok" if complaints else "ok", number, name))
        for complaint in complaints:
            print("#   " + complaint)
    failed = sum(bool(c) for _, c in tests)
    print("%d passed, %d failed, 0 skipped" % (len(tests) - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
