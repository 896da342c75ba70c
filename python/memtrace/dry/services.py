"""What would leave the machine in a dry run stays on it: W&B and MLflow log to the job's folder, and nothing is pushed to the Hugging
Face Hub. Downloads work as usual.

begin() changes the libraries that are imported, and the others as the program imports them.
"""
from __future__ import annotations

import functools
import os
from concurrent import futures
from typing import Any, Callable

from .._settings import settings
from ..recording.handover import tell
from . import files, imported

HUB = "https://huggingface.co/"
# The methods of HfApi that change a repository.
CHANGING = ("create_repo", "delete_repo", "move_repo", "update_repo_settings", "update_repo_visibility", "create_commit", "upload_file",
            "upload_folder", "upload_large_folder", "preupload_lfs_files", "delete_file", "delete_files", "delete_folder",
            "create_branch", "delete_branch", "create_tag", "delete_tag", "create_discussion", "create_pull_request",
            "super_squash_history", "create_collection", "add_collection_item", "create_bucket", "batch_bucket_files", "sync_bucket")


@functools.lru_cache(None)
def note(words: str) -> None:
    """Says something once."""
    tell(words)


# ---- the Hugging Face Hub ----

def answer_of(module: Any, name: str, repository: str, is_future: bool) -> Any:
    """Returns what a method would return if it had changed the repository."""
    url = HUB + (repository if "/" in repository else "user/" + repository)
    answer: Any = None
    if name == "create_repo":
        answer = module.RepoUrl(url)
    elif name.startswith(("create_commit", "upload_f", "delete_f")):
        answer = module.CommitInfo(url + "/commit/main", commit_message="", commit_description="", oid="0" * 40)
    if not is_future:
        return answer
    future: futures.Future[Any] = futures.Future()
    future.set_result(answer)
    return future


def refuse_changes(module: Any) -> None:
    """Has huggingface_hub's functions that change a repository do nothing."""
    def refusing(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            note("nothing is pushed to the Hugging Face Hub in a dry run")
            repository = named.get("repo_id") or next((value for value in given if isinstance(value, str)), "user/repository")
            return answer_of(module, name, repository, named.get("run_as_future", False))
        return functools.wraps(original)(call)

    for name in CHANGING:
        if hasattr(module.HfApi, name):
            refused = refusing(name, getattr(module.HfApi, name))
            setattr(module.HfApi, name, refused)
            setattr(module, name, functools.partial(refused, module.api))


def refuse_pushes(module: Any) -> None:
    """Has transformers' push_to_hub not look for the model card of a repository that is not made."""
    original = module.PushToHubMixin.push_to_hub

    def push_to_hub(thing: Any, repo_id: str, *given: Any, **named: Any) -> str:
        note("nothing is pushed to the Hugging Face Hub in a dry run")
        return HUB + repo_id

    module.PushToHubMixin.push_to_hub = functools.wraps(original)(push_to_hub)


# ---- others ----

def keep_offline(module: Any) -> None:
    """Has W&B log to the job's folder."""
    original = module.init
    if os.environ.get("WANDB_MODE") not in ("disabled", "dryrun"):
        os.environ["WANDB_MODE"] = "offline"
    os.environ["WANDB_DIR"] = settings().files

    def init(*given: Any, **named: Any) -> Any:
        named.pop("dir", None)
        if named.get("mode") == "online":
            named["mode"] = "offline"
        return original(*given, **named)

    module.init = functools.wraps(original)(init)


def keep_local(module: Any) -> None:
    """Has MLflow log to the job's folder."""
    def set_tracking_uri(uri: Any) -> None:
        note("MLflow logs to a folder of the dry run")

    os.environ["MLFLOW_TRACKING_URI"] = f"file://{settings().files}/mlruns"
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    module.set_tracking_uri = set_tracking_uri


def redirect_tokenizers(module: Any) -> None:
    """Has the library of tokenizers, which is native code, read and write the job's files."""
    kind = module.Tokenizer
    save, from_file = kind.save, kind.from_file
    kind.save = lambda tokenizer, path, *given, **named: save(tokenizer, files.place_to_write(path), *given, **named)
    kind.from_file = staticmethod(lambda path: from_file(files.place_to_read(path)))


CHANGES: dict[str, Callable[[Any], None]] = {
    "huggingface_hub.hf_api": refuse_changes,
    "transformers.utils.hub": refuse_pushes,
    "wandb": keep_offline,
    "mlflow.tracking._tracking_service.utils": keep_local,
    "tokenizers": redirect_tokenizers,
}


def begin() -> None:
    imported.follow(CHANGES)
