#!/usr/bin/env python3
"""Writes the fixtures of this folder with pytorch-lightning 2.6.6 and omegaconf 2.4.0, trained for two epochs on noise, and
what torch says of them. Needs what `../data/generate.py` needs, too; the weights depend on the machine's arithmetic.
"""
import argparse
import enum
import importlib.util
import pathlib
import warnings

import numpy
import omegaconf
import pytorch_lightning
import torch
from pytorch_lightning.callbacks import EarlyStopping, ModelCheckpoint, Timer

HERE = pathlib.Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("pytorch_fixtures", HERE.parent / "data" / "generate.py")
pytorch_fixtures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pytorch_fixtures)
pytorch_fixtures.HERE = HERE
warnings.filterwarnings("ignore")


class Kind(enum.Enum):
    SMALL = 1


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(self.fc(x))


class Lit(pytorch_lightning.LightningModule):
    def __init__(self, settings):
        super().__init__()
        self.save_hyperparameters()
        self.model = Encoder()

    def training_step(self, batch, _):
        return self.model(batch[0]).pow(2).mean()

    def validation_step(self, batch, _):
        self.log("val_loss", self.model(batch[0]).sum())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "val_loss"}}


def train(path, settings, callbacks=()):
    torch.manual_seed(20)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 4)), batch_size=4)
    keep = ModelCheckpoint(dirpath="/tmp/lightning-run", filename="{epoch}", monitor="val_loss", enable_version_counter=False)
    trainer = pytorch_lightning.Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        num_sanity_val_steps=0, callbacks=[keep, *callbacks],
    )
    trainer.fit(Lit(settings), data, data)
    trainer.save_checkpoint(path)


def main():
    plain = argparse.Namespace(
        lr=numpy.float64(0.5), layers=[1, 2], steps=numpy.int64(3), inner=argparse.Namespace(name="adam"),
        mean=numpy.arange(3.0), out=pathlib.PurePosixPath("runs/1"),
    )
    train(HERE / "plain.ckpt", plain, [EarlyStopping("val_loss"), Timer()])
    unknown = omegaconf.OmegaConf.create({"lr": 0.1, "layers": [1, 2], "sub": {"a": "b", "c": None}})
    train(HERE / "unknown.ckpt", {"config": unknown, "kind": Kind.SMALL, "act": torch.nn.functional.relu})
    train(HERE / "module.ckpt", {"net": torch.nn.Linear(2, 2)})
    for name in ("plain.ckpt", "unknown.ckpt"):
        loaded = torch.load(HERE / name, weights_only=False)
        pytorch_fixtures.golden(name, pytorch_fixtures.flatten(loaded))


if __name__ == "__main__":
    assert pytorch_lightning.__version__ == "2.6.6" and omegaconf.__version__ == "2.4.0"
    main()
