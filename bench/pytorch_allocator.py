#!/usr/bin/env python3
"""PyTorch's caching allocator as a peer: what a cached pair and an event of a replayed sequence take, called from C++.

Needs torch with a GPU, g++ and CUDA's headers: it builds pytorch_allocator.cpp against them. Answers on stdin, as
bench/peer.h says:

    history off|python|all          what memory history records from now on
    pair BYTES PAIRS                nanoseconds of a pair
    event FILE WARM_UP TIMES        nanoseconds of an event of the sequence in FILE
    reserved FILE                   bytes that it reserves for that sequence
"""
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch.utils import cpp_extension

from pytorch_serve import serve

HISTORY_ENTRIES = 100000  # the newest of them are kept
HERE = pathlib.Path(__file__).resolve().parent


def cuda_headers():
    """Folders of CUDA's headers: the toolkit's, and those of Python's packages."""
    toolkits = [cpp_extension.CUDA_HOME, os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    folders = [pathlib.Path(toolkit) / "include" for toolkit in toolkits if toolkit]
    folders += sorted(pathlib.Path(torch.__file__).parents[1].glob("nvidia/*/include"))
    return [folder for folder in folders if (folder / "cuda_runtime_api.h").exists()]


def build(folder):
    """The library made of pytorch_allocator.cpp; what it uses of torch is loaded already."""
    library = os.path.join(folder, "pytorch_allocator.so")
    torch_folder = pathlib.Path(torch.__file__).parent
    includes = [torch_folder / "include", *cuda_headers()[:1]]
    command = [os.environ.get("CXX", "g++"), "-O2", "-std=c++20", "-shared", "-fPIC", "-o", library]
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", f"-I{HERE.parent}"]
    command += [word for folder in includes for word in ("-isystem", str(folder))]
    command += [str(HERE / "pytorch_allocator.cpp"), f"-L{torch_folder / 'lib'}", "-lc10_cuda", "-lc10"]
    subprocess.run([*command, f"-Wl,-rpath,{torch_folder / 'lib'}"], check=True, stdout=sys.stderr)
    return library


def load():
    with tempfile.TemporaryDirectory() as folder:
        library = ctypes.PyDLL(build(folder))  # PyDLL: the interpreter's lock stays held
    library.torch_pair_ns.restype = library.torch_event_ns.restype = ctypes.c_double
    library.torch_pair_ns.argtypes = [ctypes.c_uint64, ctypes.c_int]
    library.torch_event_ns.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
    return library


def set_history(which):
    torch.cuda.memory._record_memory_history(enabled=None)
    if which != "off":
        torch.cuda.memory._record_memory_history("all", context="all", stacks=which, max_entries=HISTORY_ENTRIES)
    return []


def event_ns(library, path, warm_up, times):
    ns = library.torch_event_ns(path.encode(), int(warm_up), int(times))
    torch.cuda.empty_cache()  # leave the card to others
    return ns


def reserved_bytes(library, path):
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    event_ns(library, path, 0, 1)
    return torch.cuda.max_memory_reserved() - before


def main():
    torch.cuda.init()
    library = load()
    serve(
        {
            "history": set_history,
            "pair": lambda size, pairs: [library.torch_pair_ns(int(size), int(pairs))],
            "event": lambda path, warm_up, times: [event_ns(library, path, warm_up, times)],
            "reserved": lambda path: [reserved_bytes(library, path)],
        }
    )


if __name__ == "__main__":
    main()
