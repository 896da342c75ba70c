#!/usr/bin/env python3
"""An ordinary program of PyTorch, which `memtrace record` does not need to know: bench/pytorch_watched.py runs it.

    watched_program.py loop|trainer|lightning|ranks [--steps N] [--width N] [--history FILE]

Prints as JSON what PyTorch counts itself, the losses, and the median time of a step. `ranks` is for torchrun.
"""
import argparse
import json
import os
import statistics
import time

import torch

LAYERS, SEQUENCE, BATCH, VOCABULARY = 4, 128, 8, 1000


class Times:
    """The times of steps, in milliseconds, the first ones left out."""

    def __init__(self, given):
        self.marks, self.warm_up, self.hear = [], given.steps // 4, given.hear

    def mark(self):
        torch.cuda.synchronize()
        self.marks.append(time.perf_counter())
        self.hear()

    def median(self):
        pairs = zip(self.marks[self.warm_up:], self.marks[self.warm_up + 1:])
        return 1000 * statistics.median(end - begin for begin, end in pairs)


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed = torch.nn.Embedding(VOCABULARY, width)
        layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, dropout=0)
        self.layers = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.layers(self.embed(tokens)))


def tokens_of(index):
    generator = torch.Generator().manual_seed(index)
    return torch.randint(0, VOCABULARY, (BATCH, SEQUENCE), generator=generator)


def loss_of(model, tokens):
    logits = model(tokens)
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def loop(given, model=None):
    model = model or Model(given.width).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    times, losses = Times(given), []
    for index in range(given.steps):
        loss = loss_of(model, tokens_of(index).cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
        times.mark()
    return times.median(), [float(loss) for loss in losses]


def ranks(given):
    torch.distributed.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    parallel = torch.nn.parallel.DistributedDataParallel(Model(given.width).cuda())
    result = loop(given, parallel)
    torch.distributed.destroy_process_group()
    return result


def trainer(given):
    import transformers

    config = transformers.LlamaConfig(hidden_size=given.width, intermediate_size=4 * given.width, num_hidden_layers=LAYERS,
                                      num_attention_heads=4, vocab_size=VOCABULARY)
    model = transformers.LlamaForCausalLM(config)
    data = [{"input_ids": row, "labels": row} for index in range(given.steps) for row in tokens_of(index)]
    times, losses = Times(given), []

    class Mark(transformers.TrainerCallback):
        def on_step_end(self, arguments, state, control, **named):
            times.mark()

        def on_log(self, arguments, state, control, logs=None, **named):
            losses.extend([logs["loss"]] if "loss" in logs else [])

    arguments = transformers.TrainingArguments("/tmp/memtrace-trainer", per_device_train_batch_size=BATCH, report_to=[],
                                               max_steps=given.steps, logging_steps=1, save_strategy="no", seed=0)
    transformers.Trainer(model, arguments, train_dataset=data, callbacks=[Mark()]).train()
    return times.median(), losses


def lightning(given):
    import lightning as L

    times, losses = Times(given), []

    class Module(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Model(given.width)

        def training_step(self, batch, index):
            loss = loss_of(self.model, batch)
            losses.append(loss.detach())
            return loss

        def on_train_batch_end(self, *arguments):
            times.mark()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

    data = torch.utils.data.DataLoader([row for index in range(given.steps) for row in tokens_of(index)], batch_size=BATCH)
    L.Trainer(max_steps=given.steps, logger=False, enable_checkpointing=False, devices=1).fit(Module(), data)
    return times.median(), [float(loss) for loss in losses]


def run(kind, **given):
    """Runs a program, and calls `hear` at the end of each step. Returns the median time of a step, and the losses."""
    return globals()[kind](argparse.Namespace(**given))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=("loop", "trainer", "lightning", "ranks"))
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--history")
    given = parser.parse_args()
    torch.manual_seed(0)
    if given.history:
        torch.cuda.memory._record_memory_history(max_entries=10_000_000)
    milliseconds, losses = run(given.kind, steps=given.steps, width=given.width, hear=lambda: None)
    said = {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved(),
            "milliseconds": milliseconds, "losses": losses, "rank": int(os.environ.get("RANK", 0))}
    if given.history:
        torch.cuda.memory._dump_snapshot(given.history)
    print("said " + json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
