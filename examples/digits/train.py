#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the digits network (64 -> 128 -> 64 -> 10) and writes every data file of this folder.

Needs numpy only. Without --csv the images and labels that lie beside this script are used.
One fifth of the images is held out first, and used for nothing but the last figure printed:
hyper-parameters and the number of epochs are chosen by cross-validation within the rest.
"""
import argparse
import itertools
import json
import os
import pathlib

# These products are far too small to share between threads. Must precede numpy's import.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import numpy as np

SEED = 0
SIZES = (64, 128, 64, 10)
HELD_OUT = 360
FOLDS = 5
BATCH = 32
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 0.03
CANDIDATES = [dict(epochs=epochs, shift=shift, smoothing=smoothing)
              for epochs, shift, smoothing in itertools.product((30, 60), (0.0, 0.3), (0.0, 0.1))]


def load(folder, csv):
    """Images as f16 [n, 64] in 0..1 and labels as u8 [n], from scikit-learn's CSV or as shipped."""
    if csv is None:
        return np.load(folder / "images.npy"), np.load(folder / "labels.npy")
    table = np.loadtxt(csv, delimiter=",")
    assert table.shape == (1797, 65), f"{csv}: expected 1797 rows of 64 pixels and a label"
    images = (table[:, :64] / 16).astype("<f2")
    assert (images.astype(float) * 16 == table[:, :64]).all(), "pixel/16 must be exact in f16"
    return images, table[:, 64].astype("u1")


def shifted(images):
    """The images moved by every (-1..1, -1..1) pixels, as [9, n, 64]; number 4 is not moved."""
    padded = np.pad(images.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    return np.stack([padded[:, y:y + 8, x:x + 8].reshape(-1, 64)
                     for y, x in itertools.product(range(3), repeat=2)])


def forward(layers, inputs):
    """The input and the output of every layer, in double; the last are the logits."""
    outputs = [inputs]
    for weight, bias in layers[:-1]:
        outputs.append(np.maximum(outputs[-1] @ weight.T + bias, 0))
    weight, bias = layers[-1]
    return outputs + [outputs[-1] @ weight.T + bias]


def backward(layers, outputs, error):
    """Gradients of weight 1, bias 1, weight 2, ... from the gradient of the logits."""
    gradients = []
    for (weight, _), inputs in zip(layers[::-1], outputs[-2::-1]):
        gradients = [error.T @ inputs, error.sum(0)] + gradients
        error = error @ weight * (inputs > 0)
    return gradients


def train(images, labels, epochs, shift, smoothing):
    """AdamW on smoothed cross-entropy, cosine rate; each image is moved with chance `shift`.

    Returns the layers as the job holds them: (weight f16 [out, in], bias f32 [out])."""
    random = np.random.default_rng(SEED)
    views = shifted(images.astype(float))
    targets = np.eye(SIZES[-1])[labels] * (1 - smoothing) + smoothing / SIZES[-1]

    layers = [(random.normal(0, np.sqrt(2 / fan_in), (fan_out, fan_in)), np.zeros(fan_out))
              for fan_in, fan_out in zip(SIZES, SIZES[1:])]
    parameters = [parameter for layer in layers for parameter in layer]
    mean = [np.zeros_like(p) for p in parameters]
    square = [np.zeros_like(p) for p in parameters]

    steps = epochs * (len(images) // BATCH)
    for step in range(steps):
        position = step % (len(images) // BATCH) * BATCH
        if position == 0:
            order = random.permutation(len(images))
        chosen = order[position:position + BATCH]
        view = np.where(random.random(BATCH) < shift, random.integers(0, 9, BATCH), 4)

        outputs = forward(layers, views[view, chosen])
        likelihood = np.exp(outputs[-1] - outputs[-1].max(1, keepdims=True))
        likelihood /= likelihood.sum(1, keepdims=True)
        gradients = backward(layers, outputs, (likelihood - targets[chosen]) / BATCH)

        rate = LEARNING_RATE * (1 + np.cos(np.pi * step / steps)) / 2
        for p, m, s, gradient in zip(parameters, mean, square, gradients):
            m += 0.1 * (gradient - m)
            s += 0.001 * (gradient**2 - s)
            adam = (m / (1 - 0.9**(step + 1))) / (np.sqrt(s / (1 - 0.999**(step + 1))) + 1e-8)
            p -= rate * (adam + (WEIGHT_DECAY * p if p.ndim == 2 else 0))

    return [(weight.astype("<f2"), bias.astype("<f4")) for weight, bias in layers]


def logits(layers, images):
    """As the job computes: f16 operands, f32 sums, bias and relu; hidden layers stored as f16."""
    hidden = images
    for weight, bias in layers[:-1]:
        sums = hidden.astype("f4") @ weight.astype("f4").T + bias
        hidden = np.maximum(sums, 0).astype("f2")
    weight, bias = layers[-1]
    return hidden.astype("f4") @ weight.astype("f4").T + bias


def correct(layers, images, labels):
    """How many images get their own label."""
    return int((logits(layers, images).argmax(1) == labels).sum())


def cross_validate(images, labels, candidate):
    """Correct answers over all folds, each given by a network that has not seen that fold."""
    fold = np.random.default_rng(SEED).permutation(len(images)) % FOLDS
    return sum(correct(train(images[fold != f], labels[fold != f], **candidate),
                       images[fold == f], labels[fold == f]) for f in range(FOLDS))


def save_safetensors(path, tensors):
    """8 bytes of header length, a JSON header padded to a multiple of 8, then the data."""
    header, data = {}, b""
    for name, tensor in tensors.items():
        header[name] = {"dtype": {"<f2": "F16", "<f4": "F32"}[tensor.dtype.str],
                        "shape": tensor.shape,
                        "data_offsets": (len(data), len(data) + tensor.nbytes)}
        data += tensor.tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def report(what, count, total):
    print(f"{what}: {count}/{total} = {100 * count / total:.2f} %", flush=True)


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--csv", help="digits.csv.gz of scikit-learn (default: the shipped images)")
    parser.add_argument("--out", type=pathlib.Path, default=here,
                        help="folder to write to (default: this script's)")
    arguments = parser.parse_args()
    images, labels = load(here, arguments.csv)

    shuffled = np.random.default_rng(SEED).permutation(len(images))
    heldout, training = np.sort(shuffled[:HELD_OUT]).astype("<i8"), np.sort(shuffled[HELD_OUT:])
    assert not np.intersect1d(training, heldout).size, "training and held-out images overlap"
    assert (np.union1d(training, heldout) == np.arange(len(images))).all(), "images are missing"

    seen = images[training], labels[training]
    scores = [cross_validate(*seen, candidate) for candidate in CANDIDATES]
    for candidate, score in zip(CANDIDATES, scores):
        report(f"validation {candidate}", score, len(training))
    best = CANDIDATES[int(np.argmax(scores))]
    layers = train(*seen, **best)
    print(f"chosen: {best}")
    report("training", correct(layers, *seen), len(training))
    report("validation", max(scores), len(training))
    report("held-out", correct(layers, images[heldout], labels[heldout]), HELD_OUT)

    np.save(arguments.out / "images.npy", images)
    np.save(arguments.out / "labels.npy", labels)
    np.save(arguments.out / "heldout.npy", heldout)
    save_safetensors(arguments.out / "weights.safetensors",
                     {f"layer{number}.{part}": tensor for number, layer in enumerate(layers, 1)
                      for part, tensor in zip(("weight", "bias"), layer)})


if __name__ == "__main__":
    main()
