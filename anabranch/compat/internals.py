"""Modules of TensorFlow that are not public, and where the names that programs import from them stand here.

:data:`MODULES` says for each module which namespaces are searched, in order. ``top`` is the top; ``@a.b`` is the
module ``anabranch.a.b``; what begins with ``=`` is one of the tables at the end of this module, what begins with ``!``
a module of a library that is not here (:mod:`anabranch.compat.absent_libraries`). A module of ``tf.contrib`` that is
not named here stands for its library, if :mod:`anabranch.compat.contrib_modules` lists it.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
import types
from collections.abc import Callable
from typing import Any

import anabranch
from anabranch.compat import absent_libraries, contrib_modules
from anabranch.core.contract import api, opdef

_OPS = "math nn linalg debugging manip random strings sparse image"

# Module below `tensorflow.` -> places: 'top', a namespace, '@module' of anabranch, '=table' of this module.
MODULES: dict[str, str] = {}


def _table(text: str, prefix: str = "") -> None:
    for line in text.strip().replace("\n    ", " ").splitlines():  # an indented line continues the one before
        names, _, places = line.partition(":")
        for name in names.split():
            MODULES[prefix + name] = places.strip()


_table(
    """
ops: top @compat.internal.ops @core.graph.graph @core.graph.convert @core.graph.indexed_slices @core.graph.operation
    @core.graph.collections
dtypes: dtypes top @core.values.dtypes @compat.internal.private_names
config: =eager config.experimental config
op_def_library: @compat.internal.op_def_library @compat.internal.private_names
tensor_shape: top @core.values.shapes @core.values.dimensions
device_spec: top @compat.internal.private_names
tensor_util: contrib.util top @core.values.tensor_proto @compat.internal.private_names
constant_op: top @compat.internal.private_names
meta_graph: @compat.internal.scoped_meta_graphs top train @train.meta_graph
load_library: top
sparse_tensor random_seed common_shapes: top @compat.internal.private_names @core.graph.sparse_tensor
tensor_spec: @core.values.tensor_spec top
importer: top @compat.internal.private_names
versions: @compat.internal.private_names top
smart_cond: @compat.internal.conditions =layer_utilities
errors errors_impl: errors @compat.internal.private_names
tensor_conversion_registry: top
graph_util graph_util_impl convert_to_constants: graph_util @core.graphdef.graph_util
device: top @core.device
function: top @ops.control.public_defun @compat.internal.private_names @compat.internal.functional_ops
framework_lib: top
graph_io: train
test_util: =test_utilities test @testing.test_case @compat.internal.private_names
op_def_registry: =registry
registry: @compat.internal.registry
indexed_slices: top
type_spec: @core.values.type_spec @core.values.composite_tensor top
composite_tensor: @core.values.composite_tensor
""",
    "python.framework.",
)
_table(
    """
model_analyzer profiler: profiler contrib.tfprof.model_analyzer
option_builder: profiler
""",
    "python.profiler.",
)
_table(
    f"""
array_ops: top {_OPS} @compat.internal.private_names =generated
math_ops linalg_ops check_ops special_math_ops clip_ops numerics: top {_OPS} @compat.internal.private_names =generated
control_flow_util: @compat.internal.control_flow_contexts
collective_ops: @compat.internal.distribution
functional_ops: @compat.internal.functional_ops top =generated
gen_functional_ops: @compat.internal.functional_ops =generated
inplace_ops: @ops.array.public_inplace
ragged.ragged_tensor ragged.ragged_tensor_value: top ragged
ragged.ragged_factory_ops ragged.ragged_array_ops ragged.ragged_math_ops: ragged top
ragged.ragged_functional_ops ragged.ragged_string_ops ragged.ragged_conversion_ops: ragged top
op_selector: contrib.graph_editor top
control_flow_ops: control_flow_ops top {_OPS} @compat.internal.control_flow_contexts @compat.internal.conditions
    =generated
gradients gradients_impl gradients_util: top {_OPS} @compat.internal.private_names @compat.internal.training_internals
map_fn script_ops logging_ops histogram_ops: top {_OPS} @compat.internal.private_names =generated
tensor_array_ops session_ops confusion_matrix: top {_OPS} @compat.internal.private_names =generated
sparse_ops: @compat.internal.sparse_names top {_OPS} @compat.internal.private_names @core.graph.sparse_tensor =generated
template: top @variables.template
sets_impl: sets top
linalg_ops_impl: top
initializers_ns: initializers top
spectral_ops parsing_ops string_ops bitwise_ops: top {_OPS} spectral signal bitwise io =generated
array_grad control_flow_grad cudnn_rnn_grad data_flow_grad image_grad linalg_grad manip_grad math_grad: =gradients top
sparse_grad spectral_grad state_grad tensor_array_grad: =gradients top
random_ops stateless_random_ops: top random contrib.random =generated
nn nn_ops nn_impl: nn top contrib.nn @compat.internal.private_names @compat.internal.convolutions =generated
nn_grad: =gradients nn top
embedding_ops candidate_sampling_ops ctc_ops: nn top @compat.internal.private_names @compat.internal.layer_names
    =generated
resource_variable_ops: top @variables.resource_variable @compat.internal.private_names =generated
variables variable_v1 partitioned_variables: top @compat.internal.private_names @variables.variable
    @variables.ref_variable
variable_scope: top @compat.internal.private_names @compat.internal.variable_scopes @variables.variable
    =generated
state_ops: @compat.internal.variable_ops top @compat.internal.private_names @variables.variable =generated
init_ops init_ops_v2: initializers contrib.framework top @variables.initializers @variables.orthogonal_kernels
    @compat.internal.private_names
summary_op_util: @summary.collected @compat.internal.private_names
rnn: nn contrib.rnn @compat.internal.layer_names @compat.internal.private_names
rnn_cell rnn_cell_impl: nn.rnn_cell contrib.rnn @compat.internal.layer_names @compat.internal.private_names
nccl_ops: contrib.nccl
parallel_for parallel_for.control_flow_ops parallel_for.gradients parallel_for.pfor: @compat.internal.parallel_for
gradient_checker: test
resources: @compat.internal.resources
manip_ops: manip top =generated
sets: sets
list_ops: top =generated
seq2seq: contrib.legacy_seq2seq
lookup_ops: contrib.lookup top lookup
data_flow_ops: top queue @ops.queues.public_staging @ops.queues.public_barriers @ops.io.public_record_input =generated
io_ops: top io =generated
image_ops image_ops_impl: image top =generated
metrics metrics_impl: @compat.internal.metric_internals metrics @compat.internal.private_names
losses losses.losses losses.losses_impl losses.util: losses @compat.internal.private_names
summary_ops: summary contrib.summary
summary_ops_v2: contrib.summary
standard_ops custom_gradient unconnected_gradients: top
distributions.distribution distributions.bernoulli: distributions
distributions.normal distributions.beta: distributions contrib.distributions
distributions.categorical distributions.dirichlet distributions.dirichlet_multinomial: distributions
distributions.exponential: distributions contrib.distributions
distributions.multinomial: distributions
distributions.gamma distributions.laplace distributions.student_t: distributions contrib.distributions
distributions.uniform distributions.distributions: distributions contrib.distributions
distributions.kullback_leibler: distributions contrib.distributions @compat.internal.special_math @distributions.base
distributions.bijector distributions.bijector_impl distributions.identity_bijector: contrib.distributions.bijectors
distributions.transformed_distribution: contrib.distributions
distributions.special_math: @compat.internal.special_math
distributions.util: @compat.internal.distribution_utilities contrib.distributions
linalg.sparse.sparse_csr_matrix_ops: @compat.internal.sparse_names =generated
linalg.linalg linalg.linalg_impl linalg.linear_operator linalg.linear_operator_diag: linalg
linalg.linear_operator_identity linalg.linear_operator_full_matrix linalg.linear_operator_block_diag: linalg
linalg.linear_operator_lower_triangular linalg.linear_operator_composition linalg.linear_operator_kronecker: linalg
linalg.linear_operator_low_rank_update linalg.linear_operator_adjoint linalg.linear_operator_inversion: linalg
signal.signal signal.fft_ops signal.window_ops signal.shape_ops signal.spectral_ops signal.mel_ops: signal
signal.mfcc_ops signal.dct_ops signal.reconstruction_ops: signal
linalg.linear_operator_util: @compat.internal.linear_operators.utilities
linalg.linear_operator_addition: @compat.internal.linear_operators.addition
linalg.linear_operator_circulant linalg.linear_operator_householder linalg.linear_operator_toeplitz: linalg
linalg.linear_operator_zeros: linalg
weights_broadcast_ops: @losses.broadcasting
""",
    "python.ops.",
)
_table(
    """
moving_averages: train @train.moving_averages
optimizer: train @train.optimizer @compat.internal.training_internals
adam momentum gradient_descent rmsprop adagrad adadelta ftrl proximal_adagrad: train @train.optimizer
proximal_gradient_descent adagrad_da slot_creator: train @train.slots
training_util: train @compat.internal.private_names
basic_loops saveable_object: train @train.saving.saveable
saver: train @train.saving.saver_builder @train.saving.saver @compat.internal.private_names
    @compat.internal.training_internals
checkpoint_ops: @compat.internal.training_internals
warm_starting_util: @train.warm_starting train
training checkpoint_utils learning_rate_decay: train
checkpoint_management: train @compat.internal.training_internals
learning_rate_decay_v2 session_run_hook basic_session_run_hooks: train
supervisor: train @train.supervisor
monitored_session session_manager: train @compat.internal.training_internals
queue_runner queue_runner_impl coordinator input server_lib sync_replicas_optimizer: train
device_setter: train @compat.internal.training_internals
evaluation: train @compat.internal.training_internals
saver_pb2 checkpoint_state_pb2: =protos
training_ops gen_training_ops: =generated
py_checkpoint_reader: train
summary_io: summary train
distribution_strategy_context distribute: distribute contrib.distribute @distribute.towers
""",
    "python.training.",
)
_table(
    """
platform.gfile: gfile
platform.flags: flags app @platform.flags
platform.build_info: =devices
platform.app: app
platform.tf_logging platform.logging: logging @compat.internal.private_names
platform.googletest platform.test: test @testing.test
platform.benchmark: @testing.benchmarks test
platform.resource_loader: resource_loader
platform.sysconfig: sysconfig
data.util.nest data.util.sparse data.util.convert data.util.random_seed: @compat.internal.data_structures
util.nest: nest contrib.framework.nest @core.values.nest @compat.internal.private_names
util.compat: compat
util.tf_inspect: =inspect
util.all_util util.tf_export util.deprecation util.function_utils util.tf_decorator util.tf_contextlib: =utilities
util.tf_should_use util.keyword_args util.serialization util.decorator_utils: =utilities
client.client_lib: top
client.session: top @session @compat.internal.session_names
client.device_lib: =devices
debug debug.lib.debug_data debug.lib.debug_utils debug.wrappers.hooks debug.wrappers.framework: @debug
debug.wrappers.dumping_wrapper debug.wrappers.local_cli_wrapper debug.wrappers.grpc_wrapper: @debug
client.timeline: =timeline
layers.base layers.core layers.layers: layers @compat.internal.layer_names
layers.convolutional layers.normalization layers.pooling: layers @compat.internal.layer_names
layers.utils: =layer_utilities
lib.io.file_io: =file_io
lib.io.tf_record lib.io.python_io: python_io io
saved_model.tag_constants: saved_model.tag_constants
saved_model.signature_constants: saved_model.signature_constants
saved_model.builder saved_model.builder_impl: saved_model.builder saved_model
saved_model.loader saved_model.loader_impl: saved_model.loader saved_model
saved_model.utils saved_model.utils_impl: saved_model.utils saved_model
saved_model.main_op saved_model.main_op_impl: saved_model.main_op saved_model
saved_model.simple_save: saved_model
saved_model.signature_def_utils saved_model.signature_def_utils_impl: saved_model
    @compat.internal.scoped_meta_graphs
saved_model.saved_model: saved_model
saved_model.constants: saved_model.constants
pywrap_tensorflow pywrap_tensorflow_internal: train errors =devices @compat.internal.training_internals
summary.summary summary.writer.writer_cache: summary
summary.writer.writer: summary @compat.internal.training_internals
summary.writer.event_file_writer: @summary.event_file
summary.writer.event_file_writer_v2: @compat.internal.training_internals
summary.summary_iterator: train
summary.text_summary: @compat.internal.training_internals summary
summary.plugin_asset: @summary.plugin_asset
eager.context eager.backprop eager.def_function eager.function: =eager top
eager.core eager.execute eager.tape eager.execution_callbacks eager.imperative_grad: =eager top
eager.wrap_function: @eager.wrapped_function
eager.test: test
tf2 compat.v2_compat: =eager
tools.freeze_graph: @compat.tools.freeze_graph graph_util
tools.strip_unused_lib: @compat.tools.strip_unused_lib
tools.optimize_for_inference_lib: @compat.tools.optimize_for_inference_lib
tools.inspect_checkpoint: @compat.tools.inspect_checkpoint
distribute.distribution_strategy_context: distribute contrib.distribute @distribute.towers
distribute.all_reduce distribute.v1.all_reduce: contrib.all_reduce
distribute.summary_op_util: @summary.collected @compat.internal.private_names
util.tf_stack util.object_identity util.lazy_loader: @compat.internal.python_utilities
util.deprecation_wrapper util.module_wrapper: @compat.internal.python_utilities
training.tracking.base training.tracking.tracking training.tracking.data_structures: @compat.internal.tracking
training.checkpointable training.checkpointable.base training.checkpointable.tracking: @compat.internal.tracking
training.checkpointable.data_structures: @compat.internal.tracking
training.checkpointable_utils training.checkpointable.util: train contrib.checkpoint @compat.internal.tracking
training.tracking.util: train contrib.checkpoint @compat.internal.tracking
trackable.base trackable.autotrackable trackable.data_structures: @compat.internal.tracking
autograph.impl.api: autograph =utilities
keras.engine.input_spec: layers
keras: keras
keras.layers keras.layers.core keras.layers.convolutional keras.layers.pooling keras.layers.merge: keras.layers
keras.layers.recurrent keras.layers.embeddings keras.layers.normalization keras.layers.wrappers: keras.layers
keras.layers.advanced_activations keras.layers.noise keras.layers.local keras.engine.base_layer: keras.layers
keras.models keras.engine.training keras.engine.sequential keras.engine.saving: keras.models
keras.engine.input_layer: keras keras.layers
keras.saving keras.saving.save keras.saving.hdf5_format keras.saving.model_config keras.saving.saving_utils:
    keras.models @keras.v1.saving
keras.engine keras.engine.topology keras.engine.network: keras.layers keras.models keras
keras.layers.convolutional_recurrent keras.layers.cudnn_recurrent keras.layers.serialization: keras.layers
keras.utils.vis_utils keras.utils.io_utils keras.utils.layer_utils: keras.utils
keras.backend: keras.backend
keras.activations: keras.activations
keras.initializers: keras.initializers
keras.regularizers: keras.regularizers
keras.constraints: keras.constraints
keras.losses: keras.losses
keras.metrics: keras.metrics
keras.callbacks: keras.callbacks
keras.optimizers: keras.optimizers
keras.utils: keras.utils
keras.applications: keras.applications
keras.datasets: keras.datasets
keras.preprocessing: keras.preprocessing
keras.utils.np_utils keras.utils.data_utils: keras.utils
keras.utils.generic_utils keras.utils.tf_utils keras.utils.losses_utils: keras.utils @keras.v1.internal_names
keras.optimizer_v2.optimizer_v2: keras.optimizers @keras.v1.internal_names
keras.optimizer_v2.learning_rate_schedule: keras.optimizers.schedules
keras.optimizer_v2.gradient_descent keras.optimizer_v2.adam keras.optimizer_v2.rmsprop: keras.optimizers
keras.optimizer_v2.adagrad keras.optimizer_v2.adadelta keras.optimizer_v2.adamax
    keras.optimizer_v2.nadam: keras.optimizers
keras.keras_parameterized keras.testing_utils: @compat.keras_testing
keras.preprocessing.sequence: keras.preprocessing.sequence
keras.preprocessing.text: keras.preprocessing.text
keras.preprocessing.image: keras.preprocessing.image
data data.ops.dataset_ops data.ops.iterator_ops data.ops.readers data.ops.optional_ops: data data.experimental
    @compat.internal.data_structures
data.ops.multi_device_iterator_ops: @data.placing
""",
    "python.",
)
_table("compiler.tf2xla.python.xla: @compat.internal.xla_slices")
_table("contrib.compiler:\ncontrib.compiler.xla python.compiler.xla.xla: @compat.internal.xla_slices")
_table("contrib.slim: contrib.slim contrib.layers")  # which has all that the files of contrib.layers have
_table("examples.tutorials.mnist.input_data examples.tutorials.mnist.mnist: @compat.mnist")
_table("contrib.learn.python.learn.datasets.mnist contrib.learn.datasets.mnist: @compat.mnist")
_table("contrib.learn.datasets contrib.learn.python.learn.datasets:")
_table("contrib.learn.datasets.base contrib.learn.python.learn.datasets.base: @contrib.learn.datasets")
_table(
    """
batching counter dataset_ops enumerate_ops error_ops get_single_element grouping interleave_ops: contrib.data data
iterator_ops optional_ops parsing_ops prefetching_ops random_ops readers resampling scan_ops: contrib.data data
shuffle_ops sliding stats_ops threadpool unique writers: contrib.data data
""",
    "contrib.data.python.ops.",
)
_table(
    """
batching cardinality counter distribute_options enumerate_ops error_ops get_single_element grouping: data.experimental
interleave_ops iterator_ops optimization_options parsing_ops prefetching_ops random_ops readers: data.experimental
resampling scan_ops shuffle_ops stats_aggregator stats_ops stats_options take_while_ops: data.experimental
threading_options unique writers: data.experimental
threadpool: contrib.data
""",
    "python.data.experimental.ops.",
)
_table("contrib.layers.python.layers.utils: contrib.layers.utils contrib.layers")
_table("contrib.opt.python.training.sign_decay: @contrib.opt.sign_decays contrib.opt")
_table("contrib.predictor.saved_model_predictor: @contrib.predictor")
_table("contrib.layers.python.ops.sparse_ops: @contrib.layers.shapes contrib.layers")
_table(
    """
tfe saver datasets network: contrib.eager
metrics metrics_impl tfe.metrics: contrib.eager.metrics contrib.eager
""",
    "contrib.eager.python.",
)
_table(
    """
nets: contrib.slim.nets
nets.alexnet: contrib.slim.nets.alexnet
nets.inception: contrib.slim.nets.inception
nets.inception_v1: contrib.slim.nets.inception_v1
nets.inception_v2: contrib.slim.nets.inception_v2
nets.inception_v3: contrib.slim.nets.inception_v3
nets.overfeat: contrib.slim.nets.overfeat
nets.resnet_utils: contrib.slim.nets.resnet_utils
nets.resnet_v1: contrib.slim.nets.resnet_v1
nets.resnet_v2: contrib.slim.nets.resnet_v2
nets.vgg: contrib.slim.nets.vgg
evaluation: contrib.slim.evaluation
learning: contrib.slim.learning
model_analyzer: contrib.slim.model_analyzer
summaries: contrib.slim.summaries
queues: contrib.slim.queues
data: contrib.slim.data
data.dataset: contrib.slim.dataset
data.data_provider: contrib.slim.data_provider
data.dataset_data_provider: contrib.slim.dataset_data_provider
data.tfexample_decoder: contrib.slim.tfexample_decoder
data.data_decoder: contrib.slim.data_decoder
data.parallel_reader: contrib.slim.parallel_reader
data.prefetch_queue: contrib.slim.prefetch_queue
""",
    "contrib.slim.python.slim.",
)
_table(
    """
mirrored_strategy one_device_strategy parameter_server_strategy collective_all_reduce_strategy: contrib.distribute
values cross_tower_ops cross_device_ops: contrib.distribute distribute @distribute.values
""",
    "contrib.distribute.python.",
)
_table(
    """
elastic_average_optimizer model_average_optimizer agn_optimizer: contrib.opt @contrib.opt.averages
matrix_functions: @contrib.opt.preconditioned
""",
    "contrib.opt.python.training.",
)
_table(
    """
train: contrib.gan @contrib.gan.training
eval eval.python: contrib.gan.eval
eval.python.classifier_metrics eval.python.classifier_metrics_impl: contrib.gan.eval @contrib.gan.scores
eval.python.sliced_wasserstein eval.python.sliced_wasserstein_impl: contrib.gan.eval @contrib.gan.scores
eval.python.eval_utils eval.python.eval_utils_impl eval.python.summaries eval.python.summaries_impl: contrib.gan.eval
features features.python: contrib.gan.features
features.python.clip_weights features.python.clip_weights_impl: contrib.gan.features
features.python.conditioning_utils features.python.conditioning_utils_impl: contrib.gan.features
features.python.random_tensor_pool features.python.random_tensor_pool_impl: contrib.gan.features
features.python.virtual_batchnorm features.python.virtual_batchnorm_impl: contrib.gan.features
losses losses.python: contrib.gan.losses
losses.python.tuple_losses losses.python.tuple_losses_impl: contrib.gan.losses @contrib.gan.model_losses
losses.wargs losses.python.losses_impl losses.python.losses_wargs: contrib.gan.losses.wargs @contrib.gan.formulas
""",
    "contrib.gan.python.",
)
_table(
    """
common fold_batch_norms: @contrib.quantize.folding
graph_matcher: @contrib.quantize.patterns
input_to_ops quantize: @contrib.quantize.insertion
quant_ops: @contrib.quantize.ranges
quantize_graph: contrib.quantize
""",
    "contrib.quantize.python.",
)
_table(
    """
pruning: contrib.model_pruning
layers.core_layers: @contrib.model_pruning.core_layers @contrib.model_pruning.masks
learning: @contrib.model_pruning.learning
""",
    "contrib.model_pruning.python.",
)
_table(
    """
feature_column feature_column_v2 feature_column_lib sequence_feature_column: feature_column
    @feature_column.internal_names
""",
    "python.feature_column.",
)
_table(
    """
monte_carlo monte_carlo_impl: contrib.bayesflow.monte_carlo @contrib.bayesflow.monte_carlo
stochastic_gradient_estimators: contrib.bayesflow.stochastic_gradient_estimators
stochastic_graph stochastic_graph_impl: contrib.bayesflow.stochastic_graph @contrib.bayesflow.surrogate_losses
stochastic_tensor stochastic_tensor_impl: contrib.bayesflow.stochastic_tensor @contrib.bayesflow.stochastic_tensors
""",
    "contrib.bayesflow.python.ops.",
)
_table(
    "external_regret_optimizer swap_regret_optimizer: @contrib.constrained_optimization.games",
    "contrib.constrained_optimization.python.",
)
# Where modules of some parts of tf.contrib look besides.
_BESIDE_CONTRIB = {
    "contrib.rnn": " nn.rnn_cell @compat.internal.layer_names @compat.internal.private_names",
    "contrib.seq2seq": " @compat.internal.private_names",
    "contrib.linalg": " @compat.internal.linear_operators.addition @compat.internal.linear_operators.utilities linalg",
    "contrib.slim": " contrib.layers",
    "contrib.solvers": " contrib.solvers.lanczos contrib.solvers.least_squares contrib.solvers.linear_equations "
    "contrib.solvers.util",
    "contrib.distributions": " contrib.distributions.bijectors @compat.internal.distribution_utilities",
    "contrib.framework": " contrib.layers nn top",
    "contrib.signal": " spectral",
}
for _path in contrib_modules.MODULES:  # names that distributions have, too, are those of bijectors there
    if _path.startswith("contrib.distributions.python.ops.bijectors."):
        MODULES.setdefault(_path, "contrib.distributions.bijectors contrib.distributions")
for _path in [*contrib_modules.MODULES, *(path for path in MODULES if path.startswith("contrib."))]:
    _parts = _path.split(".")
    _library = f"contrib.{_parts[1]}"
    for _size in range(3, len(_parts) + 1):  # the module, and the folders that it lies in
        _folder = ".".join(_parts[:_size])
        if absent_libraries.library_of(_folder) is None:
            MODULES.setdefault(_folder, _library + _BESIDE_CONTRIB.get(_library, ""))
# Modules that are called like a function in them, which is what their folder has under that name.
NAMED_LIKE_A_FUNCTION = frozenset(
    ["contrib.framework.python.ops.arg_scope", "contrib.framework.python.framework.experimental"]
)
# What is here of libraries that are not.
_BEFORE_ABSENT = {
    "contrib.learn": ["contrib.learn"],
    "contrib.factorization": ["contrib.factorization"],
    "contrib.factorization.python.ops.clustering_ops": ["contrib.factorization"],
    "contrib.factorization.python.ops.factorization_ops": ["contrib.factorization"],
}
# Where Keras was before TensorFlow 1.9, from the newest place to the oldest.
_KERAS_BEFORE = ("python.keras._impl", "contrib.keras.api", "contrib.keras.python")
_PROTO = re.compile(r"(core|python|compiler|contrib)\.(\w+\.)*\w+_pb2$")
_GENERATED = re.compile(r"python\.ops\.gen_\w+_ops$")


def places(module: str) -> list[str] | None:
    """Where the names of an internal module are looked for; None if it is none. ``module`` is below ``tensorflow.``."""
    if module in _KERAS_BEFORE:
        return ["top"]
    for before in _KERAS_BEFORE:
        if module.startswith(f"{before}.keras"):
            module = module.replace(f"{before}.keras", "python.keras", 1)
    if module in MODULES:
        return MODULES[module].split()
    if module.startswith("python.keras.") and _is_namespace(module.removeprefix("python.")):
        return [module.removeprefix("python.")]
    if absent_libraries.library_of(module) is not None:
        return [*_BEFORE_ABSENT.get(module, []), f"!{module}"]
    if _PROTO.match(module):
        return ["=protos"]
    if _GENERATED.match(module):
        return ["=generated"]
    if module in ("python", "core", "examples", "_api") or re.match(r"core(\.\w+)+$", module):
        return []
    if module in _folders():
        return []
    return None


@functools.cache
def _is_namespace(path: str) -> bool:
    """Whether a module of the public interface has this name."""
    value: Any = anabranch
    for part in path.split("."):
        value = getattr(value, part, None)
        if not isinstance(value, types.ModuleType):
            return False
    return True


@functools.cache
def _folders() -> frozenset[str]:
    """The folders that internal modules lie in."""
    modules = [module.split(".") for module in MODULES if module.startswith(("python.", "examples."))]
    return frozenset(".".join(parts[:size]) for parts in modules for size in range(2, len(parts)))


def special(table: str, name: str) -> Any:
    """A name of one of the tables ``=...``; AttributeError if it is not there."""
    return _TABLES[table](name)


# ------------------------------------------------------------------------------------------------------------- tables
def _protos(name: str) -> Any:
    package = importlib.import_module("anabranch.core.protos")
    for module in pkgutil.iter_modules(package.__path__):
        if module.name.endswith("_pb2"):
            loaded = importlib.import_module(f"{package.__name__}.{module.name}")
            if name in loaded.DESCRIPTOR.message_types_by_name or name in loaded.DESCRIPTOR.enum_types_by_name:
                return getattr(loaded, name)
            if any(name in kind.values_by_name for kind in loaded.DESCRIPTOR.enum_types_by_name.values()):
                return getattr(loaded, name)
    raise AttributeError(name)


@functools.lru_cache(maxsize=1)
def _types_in_lower_case(count: int) -> dict[str, str]:
    """Each type of op by its name in lower case; ``count`` is the number of types, which programs add to."""
    by_name: dict[str, str] = {}
    for kind in opdef.all_definitions():
        by_name.setdefault(kind.lower(), kind)
    return by_name


def _generated(name: str) -> Callable[..., Any]:
    """The function of an op under the snake-case form of its type, as TensorFlow generates them."""
    wanted = name.strip("_").replace("_", "").lower()
    definitions = opdef.all_definitions()
    opdef_kind = _types_in_lower_case(len(definitions)).get(wanted)
    if opdef_kind is None:
        raise AttributeError(name)
    definition = opdef.lookup(opdef_kind)
    inferred = definition.inferred_attrs  # type: ignore[attr-defined]
    attrs = [key for key in definition.attrs if key not in inferred and not key.startswith("_")]
    required = [key for key in attrs if definition.attrs[key].default is opdef.REQUIRED]
    later = _LATER_INPUTS.get(opdef_kind, {})
    inputs = [spec.name for spec in definition.inputs]
    order = inputs + required + [key for key in attrs if key not in required]
    function = api.public_op(opdef_kind, arguments=" ".join(order))
    if not later:
        return function
    early = [key for key in order if key not in later]

    @functools.wraps(function)
    def with_defaults(*args: Any, **kwargs: Any) -> Any:
        # By position come the arguments of the op as it was first, or all of those that it has now.
        if len(args) <= len(early) and not (later.keys() & kwargs.keys()) and len(args) + len(kwargs) < len(order):
            return function(**{**later, **dict(zip(early, args, strict=False)), **kwargs})
        return function(*args, **kwargs)

    return with_defaults


# Inputs that ops did not have in the first versions with them, and the values that mean what these did.
_LATER_INPUTS: dict[str, dict[str, Any]] = {
    "EmptyTensorList": {"max_num_elements": -1},
    "TensorListPopBack": {"element_shape": -1},
    "TensorListGetItem": {"element_shape": -1},
    "TensorListStack": {"element_shape": -1},
}


def _gradient_functions(name: str) -> Callable[..., Any]:
    """The function ``_TypeGrad`` of op and gradients that differentiates ops of a type, for rules that build on it."""
    matched = re.fullmatch(r"_(\w+)Grad", name)
    definition = opdef.find(matched[1]) if matched else None
    if definition is None or isinstance(definition.gradient, opdef.NotDifferentiable):
        raise AttributeError(name)
    registry: Any = importlib.import_module("anabranch.autodiff.registry")
    return registry.own_rule(definition).function


def _lazy(module: str) -> Callable[[str], Any]:
    def find(name: str) -> Any:
        return getattr(importlib.import_module(module), name)

    return find


_TABLES: dict[str, Callable[[str], Any]] = {
    "=protos": _protos,
    "=generated": _generated,
    "=gradients": _gradient_functions,
    "=inspect": _lazy("anabranch.compat.inspection"),
    "=registry": _lazy("anabranch.compat.machine"),
    "=devices": _lazy("anabranch.compat.machine"),
    "=timeline": _lazy("anabranch.debug.timeline"),
    "=eager": _lazy("anabranch.compat.eager_names"),
    "=test_utilities": _lazy("anabranch.compat.test_utilities"),
    "=utilities": _lazy("anabranch.compat.utilities"),
    "=layer_utilities": _lazy("anabranch.compat.layer_utilities"),
    "=file_io": _lazy("anabranch.compat.file_io"),
}
