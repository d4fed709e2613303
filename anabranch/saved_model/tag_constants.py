"""Tags by which programs find a MetaGraph in a SavedModel."""

from __future__ import annotations

from anabranch.core.contract.api import publish_as

SERVING = "serve"
TRAINING = "train"
EVAL = "eval"
GPU = "gpu"
TPU = "tpu"

for _name in ["SERVING", "TRAINING", "EVAL", "GPU", "TPU"]:
    publish_as(f"saved_model.tag_constants.{_name}", globals()[_name])
for _name in ["SERVING", "TRAINING", "GPU", "TPU"]:
    publish_as(f"saved_model.{_name}", globals()[_name])
