"""Programs with models of `transformers`, and with other people's loops: those that were measured on a card first."""
from __future__ import annotations

from typing import Any

from dry_stage import PROGRAMS, STEPS, Stage, Step, program

# ---- the reference: models of transformers that were measured on a card ----

LLAMA_1B = dict(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
                num_key_value_heads=8, head_dim=64, rms_norm_eps=1e-5, tie_word_embeddings=True,
                max_position_embeddings=131072)
LLAMA_8B = dict(vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                num_key_value_heads=8, rms_norm_eps=1e-5, max_position_embeddings=8192)
LLAMA_200M = dict(vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=12, num_attention_heads=16,
                  num_key_value_heads=4)
LLAMA_TINY = dict(vocab_size=8000, hidden_size=512, intermediate_size=1536, num_hidden_layers=6, num_attention_heads=8,
                  num_key_value_heads=2)


def hf(stage: Stage, model: str, config: str, dtype: str = "float32", **settings: Any) -> Any:
    """Returns a model of transformers."""
    import transformers

    built = getattr(transformers, config)(**settings)
    made = stage.made(lambda: getattr(transformers, model)(built), dtype)
    made.config.use_cache = False
    return made


def llama(stage: Stage, dtype: str = "float32", **config: Any) -> Any:
    return hf(stage, "LlamaForCausalLM", "LlamaConfig", dtype, **config)


def checkpointed(model: Any, reentrant: bool = False) -> Any:
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
    return model


def reads(stage: Stage, model: Any, batch: int, length: int, **training: Any) -> Step:
    """Returns a step of a causal language model."""
    def data() -> dict[str, Any]:
        text = stage.words(model.config.vocab_size, batch, length)
        return dict(input_ids=text, labels=text)

    return stage.trained(model, data_of=data, **training)


def gpt2(stage: Stage, **settings: Any) -> Any:
    return hf(stage, "GPT2LMHeadModel", "GPT2Config", attn_implementation="sdpa", **settings)


@program(10, "transformers")
def gpt2_fp32(stage: Stage) -> Step:
    return reads(stage, gpt2(stage), 4, 1024, keeps_data=True)


@program(9, "transformers")
def gpt2_autocast(stage: Stage) -> Step:
    return reads(stage, gpt2(stage), 4, 1024, keeps_data=True, autocast="bfloat16")


@program(22, "transformers")
def llama1b_bf16(stage: Stage) -> Step:
    return reads(stage, llama(stage, "bfloat16", **LLAMA_1B), 2, 2048, keeps_data=True)


@program(36, "transformers")
def llama1b_autocast(stage: Stage) -> Step:
    return reads(stage, llama(stage, **LLAMA_1B), 2, 2048, keeps_data=True, autocast="bfloat16")


@program(16, "transformers")
def llama1b_bf16_ckpt(stage: Stage) -> Step:
    return reads(stage, checkpointed(llama(stage, "bfloat16", **LLAMA_1B)), 2, 2048, keeps_data=True)


@program(82, "transformers")
def llama8b_bf16_ckpt(stage: Stage) -> Step:
    return reads(stage, checkpointed(llama(stage, "bfloat16", **LLAMA_8B)), 1, 2048, keeps_data=True)


@program(8, "transformers")
def llama_fused_adamw_autocast(stage: Stage) -> Step:
    model = llama(stage, **LLAMA_200M)
    return reads(stage, model, 4, 1024, autocast="bfloat16",
                 optimizer=stage.torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True))


@program(8, "transformers")
def llama_sgd_accum_clip_autocast(stage: Stage) -> Step:
    model = llama(stage, **LLAMA_200M)
    return reads(stage, model, 4, 1024, autocast="bfloat16", accumulate=2, clip=1.0,
                 optimizer=stage.torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))


@program(8, "transformers")
def llama_fp16_scaler(stage: Stage) -> Step:
    return reads(stage, llama(stage, **LLAMA_200M), 4, 1024, autocast="float16")


@program(6, "transformers")
def bert_cls_autocast(stage: Stage) -> Step:
    model = hf(stage, "BertForSequenceClassification", "BertConfig", num_labels=3)

    def data() -> dict[str, Any]:
        return dict(input_ids=stage.words(30000, 16, 512),
                    attention_mask=stage.torch.ones(16, 512, dtype=stage.torch.long, device=stage.device),
                    labels=stage.words(3, 16))

    return stage.trained(model, data_of=data, autocast="bfloat16")


REFERENCE = tuple(name for name, program in PROGRAMS.items() if program.make.__module__ == __name__)


# ---- other libraries ----

def watched(stage: Stage, name: str) -> None:
    """Runs a program of bench/watched_program.py, which ends by itself."""
    import watched_program

    watched_program.run(name, steps=STEPS, width=512, hear=stage.end_step)


@program(2)
def loop(stage: Stage) -> None:
    watched(stage, "loop")


@program(2, "transformers", "accelerate")
def trainer(stage: Stage) -> None:
    watched(stage, "trainer")


@program(2, "lightning")
def lightning(stage: Stage) -> None:
    watched(stage, "lightning")


@program(3, "transformers", "accelerate")
def accelerate_accumulates(stage: Stage) -> Step:
    from accelerate import Accelerator

    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2, cpu=stage.device == "cpu")
    model = gpt2(stage, n_layer=6)
    model, optimizer = accelerator.prepare(model, stage.torch.optim.AdamW(model.parameters(), lr=1e-4))

    def step() -> None:
        for _ in range(2):
            text = stage.words(model.config.vocab_size, 4, 256)
            with accelerator.accumulate(model):
                accelerator.backward(model(input_ids=text, labels=text).loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()

    return step


@program(3, "transformers", "peft")
def lora(stage: Stage) -> Step:
    import peft

    model = llama(stage, "bfloat16", **LLAMA_200M)
    with stage.torch.device(stage.device):
        adapted = peft.get_peft_model(model, peft.LoraConfig(r=16, target_modules=["q_proj", "v_proj"], lora_dropout=0.05))
    return reads(stage, adapted, 4, 512)


# ---- more of transformers ----

@program(3, "transformers")
def generate(stage: Stage) -> Step:
    model = llama(stage, "bfloat16", **LLAMA_200M).eval()
    prompt = stage.words(32000, 4, 200)

    def step() -> None:
        with stage.torch.no_grad():
            model.generate(prompt, attention_mask=stage.torch.ones_like(prompt), max_new_tokens=24, do_sample=False,
                           use_cache=True, pad_token_id=0)

    return step


@program(3, "transformers")
def vit(stage: Stage) -> Step:
    model = hf(stage, "ViTForImageClassification", "ViTConfig", num_hidden_layers=6, num_labels=100)
    return stage.trained(model, lambda: model(pixel_values=stage.noise(16, 3, 224, 224), labels=stage.words(100, 16)).loss,
                         autocast="bfloat16")


@program(3, "transformers")
def clip(stage: Stage) -> Step:
    model = hf(stage, "CLIPModel", "CLIPConfig", text_config=dict(num_hidden_layers=4), vision_config=dict(num_hidden_layers=4))
    return stage.trained(model, lambda: model(input_ids=stage.words(49000, 16, 64), pixel_values=stage.noise(16, 3, 224, 224),
                                              return_loss=True).loss, autocast="bfloat16")


@program(3, "transformers")
def t5_adafactor(stage: Stage) -> Step:
    model = hf(stage, "T5ForConditionalGeneration", "T5Config", decoder_start_token_id=0)
    return stage.trained(model, lambda: model(input_ids=stage.words(32000, 8, 256), labels=stage.words(32000, 8, 128)).loss,
                         optimizer=stage.torch.optim.Adafactor(model.parameters(), lr=1e-3))


@program(3, "transformers")
def distilbert_masked(stage: Stage) -> Step:
    model = hf(stage, "DistilBertForMaskedLM", "DistilBertConfig", n_layers=4)

    def data() -> dict[str, Any]:
        text = stage.words(30000, 16, 128)
        return dict(input_ids=text, labels=text.masked_fill(stage.noise(16, 128) < 1, -100))

    return stage.trained(model, data_of=data, optimizer=stage.torch.optim.RMSprop(model.parameters(), lr=1e-4))


@program(3, "transformers")
def qwen_grouped_heads(stage: Stage) -> Step:
    model = hf(stage, "Qwen2ForCausalLM", "Qwen2Config", "bfloat16", vocab_size=32000, hidden_size=896, intermediate_size=4864,
               num_hidden_layers=6, num_attention_heads=14, num_key_value_heads=2)
    return reads(stage, model, 2, 1024, clip=1.0)


@program(3, "transformers")
def mixtral(stage: Stage) -> Step:
    model = hf(stage, "MixtralForCausalLM", "MixtralConfig", "bfloat16", vocab_size=8000, hidden_size=512, intermediate_size=1024,
               num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=4, num_local_experts=8, output_router_logits=True)
    return reads(stage, model, 4, 512)


@program(3, "transformers")
def whisper(stage: Stage) -> Step:
    model = hf(stage, "WhisperForConditionalGeneration", "WhisperConfig", d_model=384, encoder_layers=4, decoder_layers=4,
               encoder_attention_heads=6, decoder_attention_heads=6, encoder_ffn_dim=1536, decoder_ffn_dim=1536)
    return stage.trained(model, lambda: model(input_features=stage.noise(4, 80, 3000), labels=stage.words(50000, 4, 64)).loss,
                         autocast="float16")


@program(3, "transformers")
def reentrant_checkpoints(stage: Stage) -> Step:
    return reads(stage, checkpointed(llama(stage, **LLAMA_TINY), reentrant=True), 4, 512, autocast="bfloat16")


def of_varying_lengths(stage: Stage) -> Step:
    """Returns steps of 256, 384, 512, 640 tokens, and again."""
    model, lengths = llama(stage, **LLAMA_TINY), iter(list(range(256, 641, 128)) * STEPS)

    def data() -> dict[str, Any]:
        text = stage.words(8000, 4, next(lengths))
        return dict(input_ids=text, labels=text)

    return stage.trained(model, data_of=data, autocast="bfloat16")


@program(3, "transformers")
def varying_lengths(stage: Stage) -> Step:
    return of_varying_lengths(stage)


@program(3, "transformers", allocator="expandable_segments:True")
def expandable_segments(stage: Stage) -> Step:
    return of_varying_lengths(stage)


@program(3, "transformers", allocator="roundup_power2_divisions:4")
def rounded_requests(stage: Stage) -> Step:
    return of_varying_lengths(stage)


@program(3, "transformers", allocator="max_split_size_mb:32,garbage_collection_threshold:0.6")
def split_limited(stage: Stage) -> Step:
    return of_varying_lengths(stage)


@program(3, "transformers")
def train_and_evaluate(stage: Stage) -> Step:
    model = llama(stage, **LLAMA_TINY)
    train = reads(stage, model, 4, 512, optimizer=stage.torch.optim.NAdam(model.parameters(), lr=1e-4))

    def step() -> None:
        model.train()
        train()
        model.eval()
        with stage.torch.inference_mode():
            logits = model(input_ids=stage.words(8000, 8, 512)).logits
            logits.float().softmax(-1).max(-1)

    return step
