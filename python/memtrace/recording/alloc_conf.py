"""The settings of PyTorch's allocator (PYTORCH_ALLOC_CONF), in memtrace's spelling."""
from __future__ import annotations

import os
import re

# The environment variables of the settings: the name since PyTorch 2.9, and the one before it.
VARIABLES = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"


def configuration() -> str:
    """Returns the settings in this process's environment."""
    return next(filter(None, map(os.environ.get, VARIABLES)), "")


def alloc_settings(text: str) -> tuple[str, list[str]]:
    """Returns memtrace's spelling of settings ("expandable_segments:True"), and those that it has no spelling for."""
    settings, unknown = ["policy=torch"], []
    for item in filter(None, (item.strip() for item in re.sub(r"\[.*?\]", "", text).split(","))):
        name, _, value = (part.strip() for part in item.partition(":"))
        if name == "expandable_segments":
            settings.append("expandable_segments=" + ("on" if value.lower() == "true" else "off"))
        elif name == "max_split_size_mb":
            settings.append(f"max_split={value}MiB")
        elif name == "roundup_power2_divisions" and value:
            settings.append(f"roundup_power2_divisions={value}")
        elif name == "garbage_collection_threshold":
            settings.append(f"gc_threshold={value}")
        elif item != "backend:native":
            unknown.append(item)
    return ",".join(settings), unknown
