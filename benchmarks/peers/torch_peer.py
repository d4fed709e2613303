"""The cases in PyTorch, eager; ``torch_compiled_peer`` compiles the same steps."""

import numpy as np
import torch
import torch.nn.functional as F

from peers import shapes

torch.set_num_threads(max(1, torch.get_num_threads()))


def compiled(step):
    """Hook for the compiled peer."""
    return step


def stepping(loss, weights, batch, rate):
    params = [torch.tensor(w, requires_grad=True) for w in weights]
    batch = [torch.tensor(item) for item in batch]
    forward = compiled(loss)

    def step():
        value = forward(params, *batch)
        value.backward()
        with torch.no_grad():
            for p in params:
                p -= rate * p.grad
                p.grad = None
        return value.detach().numpy()

    return step


def matmul_small():
    x, weights = shapes.small()
    w = torch.tensor(weights[0])
    product = compiled(lambda a, b: a @ b)
    return lambda: product(torch.tensor(x), w).numpy()


def train_small():
    x, weights = shapes.small()
    return stepping(lambda ws, x: sum(((x @ w) ** 2).sum() for w in ws), weights, (x,), 1e-6)


def mlp():
    x, y, weights = shapes.mlp()
    params = [item for w in weights for item in (w, np.zeros(w.shape[1], np.float32))]

    def loss(params, x, y):
        for i in range(3):
            x = x @ params[2 * i] + params[2 * i + 1]
            if i < 2:
                x = F.relu(x)
        return F.cross_entropy(x, y)

    return stepping(loss, params, (x, y), 0.01)


def channels_first(weights):
    return [np.ascontiguousarray(w.transpose(3, 2, 0, 1)) if w.ndim == 4 else w for w in weights]


def conv6():
    x, y, weights = shapes.conv6()

    def loss(params, x, y):
        x = x.contiguous(memory_format=torch.channels_last)
        for i, w in enumerate(params[:-1]):
            x = F.relu(F.conv2d(x, w, padding=1))
            if i in shapes.POOLED:
                x = F.max_pool2d(x, 2)
        return F.cross_entropy(x.flatten(1) @ params[-1], y)

    return stepping(loss, channels_first(weights), (x.transpose(0, 3, 1, 2), y), 0.001)


def digits():
    x, y, weights = shapes.digits()
    params = [torch.tensor(w, requires_grad=True) for w in channels_first(weights)]
    optimizer = torch.optim.Adam(params, lr=1e-4)
    images, labels = torch.tensor(np.ascontiguousarray(x.transpose(0, 3, 1, 2))), torch.tensor(y)

    def loss(params, x, y):
        for w in params[:2]:
            x = F.max_pool2d(F.relu(F.conv2d(x, w, padding=1)), 2)
        return F.cross_entropy(F.relu(x.flatten(1) @ params[2]) @ params[3], y)

    forward = compiled(loss)

    def step():
        optimizer.zero_grad()
        value = forward(params, images, labels)
        value.backward()
        optimizer.step()
        return value.detach().numpy()

    return step


def embedding(rows=shapes.ROWS):
    table = torch.zeros(rows, shapes.WIDTH, requires_grad=True)
    ids = torch.tensor(np.random.RandomState(0).randint(0, rows, shapes.BATCH))
    optimizer = torch.optim.SGD([table], lr=0.01)

    def step():
        optimizer.zero_grad()
        ((F.embedding(ids, table, sparse=True) - 1.0) ** 2).sum().backward()
        optimizer.step()

    return step


def plain_step():
    variables = [torch.zeros(1250, 1000) for _ in range(20)]
    x = torch.ones(1000)

    def update(variables, x):
        for v in variables:
            v -= v * 0.01 + x

    forward = compiled(update)
    return lambda: forward(variables, x)


CASES = {
    "matmul_small": matmul_small,
    "train_small": train_small,
    "mlp": mlp,
    "conv6": conv6,
    "digits": digits,
    "embedding": embedding,
    "embedding_small": lambda: embedding(10_000),
    "plain_step": plain_step,
}
