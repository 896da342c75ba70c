"""The disk below a dry run's overlay: the functions of os as Python has them, and what is known of files and folders there."""
from __future__ import annotations

import ctypes
import functools
import getpass
import os
import stat
import sys
import tempfile
from types import SimpleNamespace
from typing import Any, NoReturn

# The functions of os before they are replaced.
real = SimpleNamespace(open_file=open, **{name: getattr(os, name) for name in (
    "open", "stat", "lstat", "access", "listdir", "scandir", "mkdir", "rmdir", "remove", "unlink", "rename", "replace", "link",
    "symlink", "readlink", "truncate", "chmod", "chown", "lchown", "utime", "getxattr", "listxattr", "setxattr", "removexattr")})

# Folders of caches: the variable that names one, what is below it, and where it is without the variable.
CACHES = (("XDG_CACHE_HOME", "", "~/.cache"), ("HF_HOME", "hub", ""), ("HF_HOME", "datasets", ""), ("HF_HOME", "modules", ""),
          ("HF_HOME", "xet", ""), ("HF_HUB_CACHE", "", ""), ("HUGGINGFACE_HUB_CACHE", "", ""), ("HF_DATASETS_CACHE", "", ""),
          ("HF_MODULES_CACHE", "", ""), ("TRANSFORMERS_CACHE", "", ""), ("TORCH_HOME", "", ""), ("TORCH_EXTENSIONS_DIR", "", ""),
          ("TORCHINDUCTOR_CACHE_DIR", "", ""), ("TRITON_CACHE_DIR", "", "~/.triton"), ("MPLCONFIGDIR", "", "~/.config/matplotlib"),
          ("NUMBA_CACHE_DIR", "", ""), ("PYTHONPYCACHEPREFIX", "", ""), ("CUDA_CACHE_PATH", "", "~/.nv"), ("NLTK_DATA", "", ""),
          ("KAGGLEHUB_CACHE", "", ""))

# Modules that fetch data. New files that they write stay: they are the same without a card, and may be large.
DOWNLOADERS = ("huggingface_hub.file_download", "huggingface_hub._snapshot_download", "huggingface_hub._local_folder", "datasets.",
               "torch.hub", "torchvision.datasets.", "torchaudio.datasets.", "urllib.request", "gdown.", "kagglehub.",
               "nltk.downloader")


def fail(number: int, path: str) -> NoReturn:
    """Raises the OSError for an errno."""
    raise OSError(number, os.strerror(number), path)


@functools.lru_cache(1)
def statx() -> Any:
    return getattr(ctypes.CDLL(None), "statx", None)


def born(path: str) -> tuple[int, int]:
    """Returns when a file was made, in seconds and nanoseconds; (0, 0) where the file system does not say."""
    basic, birth, no_follow = 0x7ff, 0x800, 0x100  # STATX_BASIC_STATS, STATX_BTIME, AT_SYMLINK_NOFOLLOW
    found = (ctypes.c_uint8 * 256)()
    if statx() is None or statx()(-100, os.fsencode(path), no_follow, basic | birth, found):
        return 0, 0
    mask = ctypes.c_uint32.from_buffer(found, 0).value
    seconds, nanoseconds = ctypes.c_int64.from_buffer(found, 80).value, ctypes.c_uint32.from_buffer(found, 88).value
    return (seconds, nanoseconds) if mask & birth else (0, 0)


def cache_folders() -> list[str]:
    """Returns the folders of caches, which programs without a card may fill as others do."""
    found = [os.path.join(os.environ.get(name) or default, below) for name, below, default in CACHES
             if os.environ.get(name) or default]
    try:
        found.append(os.path.join(tempfile.gettempdir(), "torchinductor_" + getpass.getuser()))
    except (KeyError, OSError):
        pass  # a user without a name
    return [os.path.realpath(os.path.expanduser(path)) for path in found]


def is_download() -> bool:
    """True if a module that fetches data is among the callers."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if (frame.f_globals.get("__name__") or "").startswith(DOWNLOADERS):
            return True
        frame = frame.f_back
    return False


def copy(source: str, target: str) -> None:
    """Copies a file with its mode. Gaps stay gaps."""
    with real.open_file(source, "rb", 0) as reader, real.open_file(target, "wb", 0) as writer:
        copy_data(reader.fileno(), writer.fileno())
        os.fchmod(writer.fileno(), stat.S_IMODE(os.fstat(reader.fileno()).st_mode) | stat.S_IWUSR)


def copy_data(source: int, target: int) -> None:
    """Copies what an open file holds from its position on. Gaps stay gaps."""
    end, at = os.fstat(source).st_size, os.lseek(source, 0, os.SEEK_CUR)
    shift = os.lseek(target, 0, os.SEEK_CUR) - at
    while at < end:
        try:
            begin = os.lseek(source, at, os.SEEK_DATA)
        except OSError:
            break  # the rest is a gap
        at = os.lseek(source, begin, os.SEEK_HOLE)
        os.lseek(source, begin, os.SEEK_SET)
        os.lseek(target, begin + shift, os.SEEK_SET)
        while begin < at:
            begin += os.sendfile(target, source, None, at - begin)
    os.ftruncate(target, end + shift)
    os.lseek(target, end + shift, os.SEEK_SET)
