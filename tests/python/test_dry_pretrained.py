"""from_pretrained in a dry run with --weights from-config: what is loaded, and what is said."""
import importlib.util
import json

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")
needs_transformers = pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="there is no transformers")

LOADS = """
import sys
import torch
from transformers import AutoModelForSequenceClassification

folder = sys.argv[1]
model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=3, dtype=torch.bfloat16).to("cuda")
assert model.name_or_path == model.config._name_or_path == folder, model.name_or_path
model.train()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    model(torch.ones(2, 32, dtype=torch.long, device="cuda"), labels=torch.ones(2, dtype=torch.long, device="cuda")).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def save_bert(path):
    import transformers

    transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=4000, num_hidden_layers=2)).save_pretrained(path / "whole")
    (path / "config").mkdir()
    (path / "config/config.json").write_text((path / "whole/config.json").read_text())


@needs_transformers
def test_weights_from_the_configuration_are_loaded_as_from_a_checkpoint(folder):
    save_bert(folder.path)
    whole = folder.dry(LOADS, "whole", trace="whole.db")
    made = folder.dry(LOADS, "config", options=["--weights", "from-config"])
    assert whole.returncode == made.returncode == 0, whole.stderr + made.stderr
    events = [folder.rows("SELECT kind, requested_bytes FROM event ORDER BY id", trace) for trace in ("whole.db", "dry.db")]
    assert len(events[0]) > 900 and events[0] == events[1]
    line = "memtrace: weights from the configuration, not from a checkpoint: config (program.py:7)"
    assert line in made.stderr.splitlines() and "weights from" not in whole.stderr
    assert folder.rows("SELECT name, line FROM caveat WHERE kind = 'weights'") == [["config", 7]]


@needs_transformers
def test_the_option_is_named_where_there_is_no_checkpoint(folder):
    save_bert(folder.path)
    failed = folder.dry(LOADS, "config")
    assert failed.returncode == 1 and "memtrace: config was not loaded; --weights from-config needs" in failed.stderr


@needs_transformers
def test_quantized_weights_are_not_made(folder):
    save_bert(folder.path)
    path = folder.path / "config/config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "quantization_config": {"quant_method": "gptq", "bits": 4}}))
    failed = folder.dry(LOADS, "config", options=["--weights", "from-config"])
    assert failed.returncode == 1 and "can't make the quantized weights of config" in failed.stderr


def test_another_origin_of_weights_is_refused(folder):
    failed = folder.dry("", options=["--weights", "none"])
    assert failed.returncode == 2 and 'weights can be made from-config, not from "none"' in failed.stderr
