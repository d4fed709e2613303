"""Models in files and as configs."""

from anabranch.keras.v1.saving.configs import (
    VERSION,
    clone_model,
    model_from_config,
    model_from_json,
    model_from_yaml,
    to_json,
    to_yaml,
)
from anabranch.keras.v1.saving.exported import export_saved_model, load_from_saved_model
from anabranch.keras.v1.saving.hdf5 import (
    _h5py,
    load_model,
    load_weights,
    save_model,
    save_weights,
    summary_lines,
)

__all__ = [
    "VERSION",
    "_h5py",
    "clone_model",
    "export_saved_model",
    "load_from_saved_model",
    "load_model",
    "load_weights",
    "model_from_config",
    "model_from_json",
    "model_from_yaml",
    "save_model",
    "save_weights",
    "summary_lines",
    "to_json",
    "to_yaml",
]
