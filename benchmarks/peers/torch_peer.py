"""The cases in PyTorch, eager; ``torch_compiled_peer`` compiles the same steps.

On a GPU, if there is one: a batch then goes there in each step, as a feed does, and products take TF32 as XLA's do.
"""

import numpy as np
import torch
import torch.nn.functional as F

from peers import shapes

torch.set_num_threads(max(1, torch.get_num_threads()))
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
if DEVICE.type == "cuda":
    torch.set_float32_matmul_precision("high")


def there(array, grad=False):
    """A parameter on the device."""
    return torch.tensor(array, device=DEVICE, requires_grad=grad)


def fed(arrays):
    """Tensors of a batch, on the device: made anew in each step where it has a memory of its own."""
    tensors = [torch.as_tensor(array) for array in arrays]
    return (lambda: tensors) if DEVICE.type == "cpu" else (lambda: [item.to(DEVICE) for item in tensors])


def finished():
    """Waits until the device has done what was asked of it."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def compiled(step):
    """Hook for the compiled peer."""
    return step


def stepping(loss, weights, batch, rate):
    params = [there(w, True) for w in weights]
    batch = fed(batch)
    forward = compiled(loss)

    def step():
        value = forward(params, *batch())
        value.backward()
        with torch.no_grad():
            for p in params:
                p -= rate * p.grad
                p.grad = None
        found = value.detach().cpu().numpy()
        finished()
        return found

    return step


def matmul_small():
    x, weights = shapes.small()
    w, batch = there(weights[0]), fed([x])
    product = compiled(lambda a, b: a @ b)
    return lambda: product(*batch(), w).cpu().numpy()


def train_small():
    x, weights = shapes.small()
    return stepping(lambda ws, x: sum(((x @ w) ** 2).sum() for w in ws), weights, (x,), 1e-6)


def mlp(*sizes):
    x, y, weights = shapes.mlp(*sizes)
    params = [item for w in weights for item in (w, np.zeros(w.shape[1], np.float32))]

    def loss(params, x, y):
        for i in range(3):
            x = x @ params[2 * i] + params[2 * i + 1]
            if i < 2:
                x = F.relu(x)
        return F.cross_entropy(x, y)

    return stepping(loss, params, (x, y), 0.01)


def channels_first(weights):
    """Filters as PyTorch has them, and the rows of the first matrix in the order of images with channels first."""
    found = []
    for before, w in zip([None, *weights], weights, strict=False):
        if w.ndim == 4:
            w = w.transpose(3, 2, 0, 1)
        elif before is not None and before.ndim == 4:
            channels = before.shape[-1]
            side = round((len(w) / channels) ** 0.5)
            w = w.reshape(side, side, channels, -1).transpose(2, 0, 1, 3).reshape(w.shape)
        found.append(np.ascontiguousarray(w))
    return found


def conv6(*sizes):
    x, y, weights = shapes.conv6(*sizes)

    def loss(params, x, y):
        x = x.contiguous(memory_format=torch.channels_last)
        for i, w in enumerate(params[:-1]):
            x = F.relu(F.conv2d(x, w, padding=1))
            if i in shapes.POOLED:
                x = F.max_pool2d(x, 2)
        return F.cross_entropy(x.flatten(1) @ params[-1], y)

    return stepping(loss, channels_first(weights), (np.ascontiguousarray(x.transpose(0, 3, 1, 2)), y), 0.001)


def digits():
    x, y, weights = shapes.digits()
    params = [there(w, True) for w in channels_first(weights)]
    optimizer = torch.optim.Adam(params, lr=1e-4)
    batch = fed([np.ascontiguousarray(x.transpose(0, 3, 1, 2)), y])

    def loss(params, x, y):
        for w in params[:2]:
            x = F.max_pool2d(F.relu(F.conv2d(x, w, padding=1)), 2)
        return F.cross_entropy(F.relu(x.flatten(1) @ params[2]) @ params[3], y)

    forward = compiled(loss)

    def step():
        optimizer.zero_grad()
        value = forward(params, *batch())
        value.backward()
        optimizer.step()
        found = value.detach().cpu().numpy()
        finished()
        return found

    return step


def language_model():
    words, following, weights = shapes.language_model()
    table, kernel, _, out, out_bias = weights
    wide = shapes.HIDDEN
    lstm = torch.nn.LSTM(wide, wide, batch_first=True, device=DEVICE)
    i, j, f, o = np.split(np.arange(4 * wide), 4)  # our order of gates; the library's is i, f, j, o
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(torch.as_tensor(kernel[:wide].T[np.concatenate([i, f, j, o])]))
        lstm.weight_hh_l0.copy_(torch.as_tensor(kernel[wide:].T[np.concatenate([i, f, j, o])]))
        lstm.bias_ih_l0.zero_()
        lstm.bias_hh_l0.zero_()
        lstm.bias_ih_l0[wide : 2 * wide] = 1.0
    lstm.bias_hh_l0.requires_grad_(False)  # one bias, as the others have
    rows = torch.nn.Embedding(*table.shape, sparse=True, device=DEVICE, _weight=there(table))
    out, out_bias = there(out, True), there(out_bias, True)
    optimizer = torch.optim.SGD(
        [p for p in (*rows.parameters(), *lstm.parameters(), out, out_bias) if p.requires_grad], lr=shapes.LM_RATE
    )
    batch = fed([words.astype(np.int64), following.astype(np.int64)])

    def loss(x, y):
        hidden, _ = lstm(rows(x))
        return F.cross_entropy(hidden.reshape(-1, wide) @ out + out_bias, y.reshape(-1))

    forward = compiled(loss)

    def step():
        optimizer.zero_grad()
        value = forward(*batch())
        value.backward()
        optimizer.step()
        found = value.detach().cpu().numpy()
        finished()
        return found

    return step


def embedding(rows=shapes.ROWS):
    table = torch.zeros(rows, shapes.WIDTH, device=DEVICE, requires_grad=True)
    batch = fed([np.random.RandomState(0).randint(0, rows, shapes.BATCH)])
    optimizer = torch.optim.SGD([table], lr=0.01)

    def step():
        optimizer.zero_grad()
        ((F.embedding(batch()[0], table, sparse=True) - 1.0) ** 2).sum().backward()
        optimizer.step()
        finished()

    return step


def plain_step():
    variables = [torch.zeros(1250, 1000, device=DEVICE) for _ in range(20)]
    batch = fed([np.ones(1000, np.float32)])

    def update(variables, x):
        for v in variables:
            v -= v * 0.01 + x

    forward = compiled(update)

    def step():
        forward(variables, *batch())
        finished()

    return step


CASES = {
    "matmul_small": matmul_small,
    "train_small": train_small,
    "mlp": mlp,
    "conv6": conv6,
    "mlp_wide": lambda: mlp(*shapes.WIDE_MLP),
    "conv6_wide": lambda: conv6(*shapes.WIDE_CONV),
    "digits": digits,
    "language_model": language_model,
    "embedding": embedding,
    "embedding_small": lambda: embedding(10_000),
    "plain_step": plain_step,
}
