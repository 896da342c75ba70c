"""Programs with bitsandbytes: optimizers in 8 bits and paged, and a Llama in 8 and 4 bits with LoRA, as QLoRA trains it."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dry_library_models import LLAMA_200M, reads
from dry_own_models import Gpt, next_word_loss
from dry_stage import Stage, Step, program


def small_gpt(stage: Stage, optimizer: str) -> Step:
    import bitsandbytes

    model = stage.made(Gpt)

    def loss() -> Any:
        text = stage.words(50000, 8, 512)
        return next_word_loss(model(text), text)

    return stage.trained(model, loss, autocast="bfloat16", optimizer=getattr(bitsandbytes.optim, optimizer)(model.parameters(), lr=1e-4))


@program(5, "bitsandbytes", suite="kernels")
def adam_8bit(stage: Stage) -> Step:
    return small_gpt(stage, "Adam8bit")


@program(5, "bitsandbytes", suite="kernels")
def paged_adamw_8bit(stage: Stage) -> Step:
    return small_gpt(stage, "PagedAdamW8bit")


def quantized(stage: Stage, dtype: str, linear_of: Callable[[Any], Any]) -> Any:
    """Returns a Llama whose products, but the last one, are quantized as it moves to the device."""
    import transformers

    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA_200M, use_cache=False)).to(getattr(stage.torch, dtype))
    for name, module in list(model.named_modules()):
        if isinstance(module, stage.torch.nn.Linear) and name != "lm_head":
            model.set_submodule(name, linear_of(module))
    return model.to(stage.device)


def in_4bit(stage: Stage) -> Any:
    """Returns a Llama in NF4 with double quantization."""
    import bitsandbytes

    def linear_of(module: Any) -> Any:
        made = bitsandbytes.nn.Linear4bit(module.in_features, module.out_features, bias=False, compute_dtype=stage.torch.bfloat16,
                                          quant_type="nf4", compress_statistics=True)
        made.weight = bitsandbytes.nn.Params4bit(module.weight.data, requires_grad=False, quant_type="nf4", compress_statistics=True,
                                                 module=made)
        return made

    return quantized(stage, "bfloat16", linear_of)


def adapted(stage: Stage, model: Any) -> Step:
    """Returns a step that trains LoRA's weights with a paged optimizer."""
    import bitsandbytes
    import peft

    model = peft.prepare_model_for_kbit_training(model, gradient_checkpointing_kwargs={"use_reentrant": False})
    model = peft.get_peft_model(model, peft.LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM"))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return reads(stage, model, 4, 512, optimizer=bitsandbytes.optim.PagedAdamW8bit(trained, lr=1e-4))


@program(3, "transformers", "peft", "bitsandbytes", suite="kernels")
def lora_4bit(stage: Stage) -> Step:
    model = in_4bit(stage)
    model.is_loaded_in_4bit = True
    return adapted(stage, model.train())


@program(3, "transformers", "peft", "bitsandbytes", suite="kernels")
def lora_8bit(stage: Stage) -> Step:
    import bitsandbytes

    def linear_of(module: Any) -> Any:
        made = bitsandbytes.nn.Linear8bitLt(module.in_features, module.out_features, bias=False, has_fp16_weights=False, threshold=6.0)
        made.weight = bitsandbytes.nn.Int8Params(module.weight.data, requires_grad=False, has_fp16_weights=False)
        return made

    model = quantized(stage, "float16", linear_of)
    model.is_loaded_in_8bit = True
    return adapted(stage, model.train())


@program(2, "transformers", "bitsandbytes", suite="kernels")
def generate_4bit(stage: Stage) -> Step:
    model = in_4bit(stage).eval()
    prompt = stage.words(32000, 1, 200)

    def step() -> None:
        with stage.torch.no_grad():
            model.generate(prompt, attention_mask=stage.torch.ones_like(prompt), max_new_tokens=16, do_sample=False, use_cache=True,
                           pad_token_id=0)

    return step
