# SPDX-License-Identifier: Apache-2.0
"""Finds libmeshflow and describes what is called of it (include/meshflow/server.h, status.h)."""
import ctypes
import glob
import os

NAME = "libmeshflow.so.0"


def _candidates():
    """Where the library may be: named, installed with this package, built beside it, known to the system."""
    here = os.path.dirname(os.path.abspath(__file__))
    if os.environ.get("MESHFLOW_LIB"):
        return [os.environ["MESHFLOW_LIB"]]
    places = ["../../..", "../../../*", "../../build", "../../build/release"]
    found = [path for place in places for path in glob.glob(os.path.join(here, place, NAME))]
    return found + [NAME]


def _open():
    tried = []
    for path in _candidates():
        try:
            return ctypes.CDLL(path)
        except OSError as e:
            tried.append(str(e))
    raise ImportError("%s is not here; build or install Meshflow, or name the file in MESHFLOW_LIB: %s"
                      % (NAME, "; ".join(tried)))


class ServerOptions(ctypes.Structure):
    """mf_server_options"""
    _fields_ = [("cluster", ctypes.c_char_p), ("job_name", ctypes.c_char_p), ("task_index", ctypes.c_char_p),
                ("threads", ctypes.c_int), ("allow_dirs", ctypes.POINTER(ctypes.c_char_p)),
                ("n_allow_dirs", ctypes.c_int), ("tls_dir", ctypes.c_char_p),
                ("insecure_any_peer", ctypes.c_bool), ("inside", ctypes.c_bool), ("memory", ctypes.c_int64)]


lib = _open()
lib.mf_server_new.argtypes = [ctypes.POINTER(ServerOptions), ctypes.POINTER(ctypes.c_void_p)]
lib.mf_server_target.argtypes = [ctypes.c_void_p]
lib.mf_server_target.restype = ctypes.c_char_p
lib.mf_local_cluster_new.argtypes = [ctypes.c_char_p, ctypes.POINTER(ServerOptions), ctypes.POINTER(ctypes.c_void_p)]
lib.mf_local_cluster_spec.argtypes = [ctypes.c_void_p]
lib.mf_local_cluster_spec.restype = ctypes.c_char_p
for _name in ("mf_server_join", "mf_server_stop", "mf_server_free", "mf_local_cluster_join", "mf_local_cluster_stop",
              "mf_local_cluster_free"):
    getattr(lib, _name).argtypes = [ctypes.c_void_p]
    getattr(lib, _name).restype = None
lib.mf_error_message.restype = ctypes.c_char_p
lib.mf_status_name.restype = ctypes.c_char_p
lib.mf_version.restype = ctypes.c_char_p


class Error(RuntimeError):
    """A call of the library that failed. `code` is gRPC's and TensorFlow's number, `name` its name."""

    def __init__(self, status):
        self.code = status
        self.name = lib.mf_status_name(status).decode()
        super().__init__("%s: %s" % (self.name, lib.mf_error_message().decode("utf-8", "replace")))


def check(status):
    if status != 0:
        raise Error(status)


def version():
    return lib.mf_version().decode()
