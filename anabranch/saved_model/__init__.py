"""SavedModels: models as folders that other programs load, in TensorFlow's format.

``builder``, ``loader``, ``signature_def_utils`` and their kin are TensorFlow 1.x's interface: a MetaGraph per set of
tags, variables beside it, signatures that name inputs and outputs. :func:`~anabranch.saved_model.loaded.load` reads
either kind of SavedModel, that of TensorFlow 2 with its functions too, and gives callables.

Files come from strangers: nothing in them is executed while they load, and assets are taken from the model's own folder
only (:mod:`anabranch.saved_model.files`).
"""

from anabranch.core.contract import api
from anabranch.saved_model import (
    asset,
    builder,
    constants,
    exporting,
    loaded,
    loader,
    main_op,
    signature_constants,
    signature_def_utils,
    tag_constants,
)
from anabranch.saved_model.composite import RaggedTensorValue

__all__ = [
    "RaggedTensorValue",
    "asset",
    "builder",
    "constants",
    "exporting",
    "loaded",
    "loader",
    "main_op",
    "signature_constants",
    "signature_def_utils",
    "tag_constants",
]
__getattr__, __dir__ = api.module_attributes("saved_model")
