"""transformers' Trainer, which evaluates every 20 steps and after each epoch."""
import torch
import transformers


class Texts(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        tokens = torch.randint(2000, (64,))
        return {"input_ids": tokens, "labels": tokens}


config = transformers.GPT2Config(n_layer=2, n_embd=128, n_head=2, vocab_size=2000, bos_token_id=0, eos_token_id=0)
for strategy in ("steps", "epoch"):
    arguments = transformers.TrainingArguments(
        output_dir="out", per_device_train_batch_size=4, per_device_eval_batch_size=32, num_train_epochs=1, eval_steps=20,
        eval_strategy=strategy, save_strategy=strategy, save_steps=20, report_to=[], disable_tqdm=True,
        gradient_accumulation_steps=2)
    trainer = transformers.Trainer(model=transformers.GPT2LMHeadModel(config), args=arguments, train_dataset=Texts(200),
                                   eval_dataset=Texts(320))
    trainer.train()
    print(trainer.evaluate()["eval_loss"])
