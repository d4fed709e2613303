#!/bin/sh
# Runs benchmarks/gpu.py on a machine with an NVIDIA GPU: sh benchmarks/gpu.sh OUT [arguments of gpu.py]
#
# PYTHON (python3) is used as it is if its jax sees a GPU; what else we need may come in by PYTHONPATH. Otherwise an
# environment is made in VENV (.venv-gpu) with jax for CUDA from the package index. PyTorch takes part if PYTHON, or
# TORCH_PYTHON, has it.
set -eu
out=$1
shift
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv-gpu}
mkdir -p "$out"
sees_gpu='import jax; jax.devices("gpu")'
needed='import numpy, google.protobuf, absl, google_crc32c, rich, pytest, hypothesis'
if ! "$PYTHON" -c "$sees_gpu" 2>"$out/setup.log" || ! "$PYTHON" -c "$needed" 2>>"$out/setup.log"; then
  TORCH_PYTHON=${TORCH_PYTHON:-$PYTHON}
  "$PYTHON" -m venv "$VENV"
  timeout "${SETUP_LIMIT:-240}" "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check \
    'jax[cuda12]' -e '.[dev]' >>"$out/setup.log" 2>&1 || { tail -5 "$out/setup.log"; exit 1; }
  PYTHON=$VENV/bin/python
fi
TORCH_PYTHON=${TORCH_PYTHON:-$PYTHON}
if "$TORCH_PYTHON" -c 'import torch' 2>>"$out/setup.log"; then
  set -- --python "torch=$TORCH_PYTHON" "$@"
fi
PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} exec "$PYTHON" benchmarks/gpu.py --out "$out" "$@"
