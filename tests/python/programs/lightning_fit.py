"""Lightning's Trainer, which validates after each epoch."""
import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512))

    def training_step(self, batch, index):
        return self.net(batch[0]).pow(2).mean()

    def validation_step(self, batch, index):
        self.log("loss", self.net(batch[0]).pow(2).mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


trainer = lightning.Trainer(max_epochs=2, accelerator="gpu", devices=1, logger=False, enable_progress_bar=False,
                            enable_model_summary=False)
trainer.fit(Model(), DataLoader(TensorDataset(torch.randn(20 * 64, 512)), 64),
            DataLoader(TensorDataset(torch.randn(20 * 1024, 512)), 1024))
