#!/usr/bin/python3
"""Trains the demo model and writes the demo model repository and the held-back digits.

Needs Debian's python3-sklearn and python3-torch. Writes, beside this file:
  repository/digits/1/model.onnx  input `image` FP32 [N,1,8,8] with ink from 0 to 16,
                                  outputs `logits` and `probabilities` FP32 [N,10]
  digits.csv                      digits the model was not trained on: label, then 64 pixels
and tests/data/digits/logits.csv, PyTorch's logits of those digits.
"""
import hashlib
import pathlib

import numpy as np
import torch
from sklearn import datasets
from torch import nn

SEED = 20240229
HELD_BACK = 450
EPOCHS = 60
BATCH = 32
WANTED_ACCURACY = 0.97
OPSET = 13
HERE = pathlib.Path(__file__).resolve().parent
LOGITS = HERE.parent.parent / "tests" / "data" / "digits" / "logits.csv"
LICENCE_NOTE = """\
# Handwritten digits that the demo model was not trained on. One digit a line: its label, then
# 8 x 8 pixels row by row, ink from 0 to 16.
# Source: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
# Repository, 1998, https://doi.org/10.24432/C50P49, licensed under CC BY 4.0
# (https://creativecommons.org/licenses/by/4.0/); the test part of it, as scikit-learn bundles it
# (sklearn.datasets.load_digits). Changed: a subset, written as text.
"""


class Digits(nn.Module):
    """Two convolution blocks, the second with a residual connection, and two linear layers."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 16, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(16)
        self.conv3 = nn.Conv2d(16, 32, 3, padding=1, bias=False)
        self.norm3 = nn.BatchNorm2d(32)
        self.pool = nn.MaxPool2d(2)
        self.hidden = nn.Linear(32 * 2 * 2, 48)
        self.answer = nn.Linear(48, 10)

    def forward(self, image):
        x = torch.relu(self.norm1(self.conv1(image)))
        x = torch.relu(self.norm2(self.conv2(x)) + x)
        x = self.pool(x)
        x = self.pool(torch.relu(self.norm3(self.conv3(x))))
        x = torch.relu(self.hidden(torch.flatten(x, 1)))
        logits = self.answer(x)
        return logits, torch.softmax(logits, dim=1)


def split():
    """(train images, train labels, held-back images, held-back labels); no image is in both parts."""
    data = datasets.load_digits()
    images = data.images.astype(np.uint8)
    assert np.array_equal(images, data.images), "ink is not whole numbers"
    labels = data.target.astype(np.uint8)
    order = np.random.RandomState(SEED).permutation(len(images))
    held, train = order[:HELD_BACK], order[HELD_BACK:]
    assert not set(held) & set(train)
    fingerprints = [hashlib.sha256(image.tobytes()).digest() for image in images]
    shared = {fingerprints[i] for i in held} & {fingerprints[i] for i in train}
    assert not shared, f"{len(shared)} held-back images are among the training images"
    return images[train], labels[train], images[held], labels[held]


def as_input(images):
    return torch.from_numpy(images.astype(np.float32)).reshape(-1, 1, 8, 8)


def train(images, labels):
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    model = Digits()
    inputs, targets = as_input(images), torch.from_numpy(labels.astype(np.int64))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    loss_of = nn.CrossEntropyLoss()
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(inputs)).split(BATCH):
            optimizer.zero_grad()
            loss_of(model(inputs[batch])[0], targets[batch]).backward()
            optimizer.step()
        schedule.step()
    return model.eval()


def export(model, path):
    """Writes `model` with its BatchNormalization nodes, which the engine folds when it loads it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.onnx.export(
        model, torch.zeros(1, 1, 8, 8), str(path), opset_version=OPSET,
        input_names=["image"], output_names=["logits", "probabilities"],
        dynamic_axes={name: {0: "N"} for name in ("image", "logits", "probabilities")},
        training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)


def main():
    train_images, train_labels, images, labels = split()
    model = train(train_images, train_labels)
    with torch.no_grad():
        logits = model(as_input(images))[0].numpy()
    answers = logits.argmax(axis=1)
    right = int((answers == labels).sum())
    print(f"{right} of {len(labels)} held-back digits are right")
    assert len(labels) >= 360
    assert right >= WANTED_ACCURACY * len(labels)
    export(model, HERE / "repository" / "digits" / "1" / "model.onnx")
    rows = (",".join(map(str, [label, *image.ravel()])) for label, image in zip(labels, images))
    (HERE / "digits.csv").write_text(LICENCE_NOTE + "\n".join(rows) + "\n")
    LOGITS.parent.mkdir(parents=True, exist_ok=True)
    np.savetxt(LOGITS, logits, fmt="%.9g", delimiter=",")


if __name__ == "__main__":
    main()
