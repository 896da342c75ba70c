"""Weights from the configuration (`memtrace dry-run --weights from-config`): from_pretrained of transformers and diffusers, without a
checkpoint.

    from_pretrained(NAME) ──▶ config.json of NAME ──▶ a model on the host, whose weights nobody writes (weights.py)
                                                                │ its save_pretrained
                                                                ▼
                              the library's from_pretrained ◀── a checkpoint without bytes, in the job's folder (saving.py)

So the library's own code loads what it would load of a real checkpoint: shards, dtypes, tied weights, device maps.
"""
from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import tempfile
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple

import torch

from .._settings import settings
from ..recording.handover import tell
from . import imported
from .places import Place, place_of_user

OPTION = "--weights from-config"

# Arguments of from_pretrained that say where a file is.
SOURCE = "cache_dir", "force_download", "local_files_only", "proxies", "token", "revision", "subfolder", "trust_remote_code"


class Made(NamedTuple):
    """A model whose weights were made from its configuration."""

    name: str  # as the program spells it
    place: Place


made: list[Made] = []
folders: dict[Any, str] = {}  # with a checkpoint each, by what it was made of


@contextlib.contextmanager
def on_host() -> Iterator[None]:
    """Has tensors be made on the host, with random numbers that do not count."""
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        yield


def source_of(named: dict[str, Any]) -> dict[str, Any]:
    return {key: named[key] for key in SOURCE if key in named}


def new_folder() -> str:
    return tempfile.mkdtemp(prefix="weights.", dir=settings().files or None)


# ---- transformers ----

@contextlib.contextmanager
def without_progress() -> Iterator[None]:
    """Has transformers show no progress."""
    logging: Any = importlib.import_module("transformers.utils.logging")
    is_shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if is_shown:
            logging.enable_progress_bar()


def config_of(model_class: Any, name: Any, config: Any, named: dict[str, Any]) -> Any:
    """Returns the configuration of a checkpoint, which need not be the one that the program loads it with."""
    config_class = type(config) if hasattr(config, "to_dict") else model_class.config_class
    found = config_class.from_pretrained(name, **source_of(named))
    if getattr(found, "quantization_config", None) is not None:
        raise ValueError(f"memtrace: {OPTION} can't make the quantized weights of {name}: load an unquantized model, or run without "
                         f"{OPTION}")
    return found


def class_of_checkpoint(model_class: Any, config: Any) -> Any:
    """Returns the class of the model that was saved, which may have another head than the program's."""
    transformers: Any = importlib.import_module("transformers")
    names = getattr(config, "architectures", None) or [""]
    found = getattr(transformers, names[0], None)
    return found if found is not None and found.config_class is type(config) else model_class


def save_transformers(model_class: Any, name: Any, config: Any, named: dict[str, Any], folder: str) -> None:
    """Saves a checkpoint without bytes."""
    config = config_of(model_class, name, config, named)
    variant = {"variant": named["variant"]} if named.get("variant") else {}
    target = os.path.join(folder, named.get("subfolder") or "")
    with on_host():
        model = class_of_checkpoint(model_class, config)._from_config(config)
    if getattr(model, "generation_config", None) is not None:
        with contextlib.suppress(OSError):  # it has none of its own
            model.generation_config = type(model.generation_config).from_pretrained(name, **source_of(named))
    with without_progress():
        model.save_pretrained(target, **variant)


def name_model(loaded: Any, name: Any) -> None:
    """Gives a model, alone or with what the library says of its loading, the name that the program used."""
    model = loaded[0] if isinstance(loaded, tuple) else loaded
    model.name_or_path = model.config._name_or_path = os.fspath(name)


# ---- diffusers ----

def save_diffusers(model_class: Any, name: Any, config: Any, named: dict[str, Any], folder: str) -> None:
    """Saves a checkpoint without bytes. It is in the dtype of the program, since a configuration has none."""
    found = model_class.load_config(name, **source_of(named))
    target = os.path.join(folder, named.get("subfolder") or "")
    variant = {"variant": named["variant"]} if named.get("variant") else {}
    with on_host():
        model = model_class.from_config(found)
    torch.nn.Module.to(model, named.get("torch_dtype") or torch.float32).save_pretrained(target, **variant)


# ---- both ----

def folder_of(save: Callable[..., None], model_class: Any, name: Any, config: Any, named: dict[str, Any]) -> str:
    """Returns the folder of a checkpoint, which is made once."""
    key = model_class, os.fspath(name), json.dumps({key: str(named.get(key)) for key in (*SOURCE, "variant", "torch_dtype")})
    if key not in folders:
        folder = new_folder()
        save(model_class, name, config, named, folder)
        folders[key] = folder
    return folders[key]


def make(save: Callable[..., None], rename: Callable[[Any, Any], None], load: Any, model_class: Any, name: Any, *given: Any,
         **named: Any) -> Any:
    """Loads a model without its checkpoint."""
    if name is None or named.get("state_dict") is not None:
        return load(model_class, name, *given, **named)
    if named.get("gguf_file"):
        raise ValueError(f"memtrace: {OPTION} can't make the weights of a GGUF file: run without {OPTION}")
    made.append(Made(os.fspath(name), place_of_user()))
    folder = folder_of(save, model_class, name, named.get("config"), named)
    loaded = load(model_class, folder, *given, **{**named, "use_safetensors": None})
    rename(loaded, name)
    return loaded


def explain(load: Any, model_class: Any, name: Any, *given: Any, **named: Any) -> Any:
    """Loads a model, and names the option that needs no checkpoint if there is none."""
    try:
        return load(model_class, name, *given, **named)
    except OSError:
        tell(f"{name} was not loaded; {OPTION} needs nothing but its configuration")
        raise


def change(name: str, loader: Callable[..., Any], module: Any) -> None:
    """Has from_pretrained of a class of a module go to `loader`, which gets the original first."""
    owner = getattr(module, name)
    load = owner.from_pretrained.__func__

    @functools.wraps(load)
    def from_pretrained(model_class: Any, *given: Any, **named: Any) -> Any:
        return loader(load, model_class, *given, **named)

    owner.from_pretrained = classmethod(from_pretrained)


def begin() -> None:
    """Begins. Does nothing for programs without these libraries."""
    is_made = settings().weights == "from-config"
    by_transformers = functools.partial(make, save_transformers, name_model) if is_made else explain
    by_diffusers = functools.partial(make, save_diffusers, lambda model, name: None) if is_made else explain
    imported.follow({"transformers.modeling_utils": functools.partial(change, "PreTrainedModel", by_transformers),
                     "diffusers.models.modeling_utils": functools.partial(change, "ModelMixin", by_diffusers)})
