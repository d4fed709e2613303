"""Modules of ``tf.contrib`` that lie below its libraries, and that programs import by their paths.

``from tensorflow.contrib.rnn.python.ops import core_rnn_cell`` names a file of TensorFlow's, of which there were
several hundred over the years of version 1. Each stands here for the whole library, since which file a name was in
changed from release to release; a path that no release had is refused with advice like a misspelt name. The table
holds the libraries that are here, a folder with its modules on each line; a line that is indented further continues
the one before.
"""

from __future__ import annotations

_TEXT = {
    "all_reduce": """
    python: all_reduce
    """,
    "bayesflow": """
    python.ops: monte_carlo monte_carlo_impl stochastic_gradient_estimators stochastic_graph stochastic_graph_impl
        stochastic_tensor stochastic_tensor_impl
    """,
    "checkpoint": """
    python: containers python_state split_dependency visualize
    """,
    "constrained_optimization": """
    python: candidates constrained_minimization_problem constrained_optimizer external_regret_optimizer
        swap_regret_optimizer
    """,
    "copy_graph": """
    python.util: copy_elements
    """,
    "crf": """
    python.ops: crf
    """,
    "cudnn_rnn": """
    python.layers: cudnn_rnn
    python.ops: cudnn_rnn_ops
    """,
    "distribute": """
    python: collective_all_reduce_strategy cross_device_ops cross_tower_ops cross_tower_utils mirrored_strategy
        monitor one_device_strategy parameter_server_strategy prefetching_ops_v2 shared_variable_creator step_fn
        tpu_strategy values
    """,
    "distributions": """
    python.ops: autoregressive batch_reshape bernoulli beta binomial categorical dirichlet dirichlet_multinomial
        distribution exponential gamma kullback_leibler laplace multinomial normal student_t uniform
        transformed_distribution bijector bijector_impl binomial cauchy chi2 conditional_distribution
        conditional_transformed_distribution deterministic distribution_util estimator geometric gumbel half_normal
        independent inverse_gamma kumaraswamy logistic mixture mixture_same_family moving_stats mvn_diag
        mvn_diag_plus_low_rank mvn_full_covariance mvn_linear_operator mvn_tril negative_binomial
        normal_conjugate_posteriors onehot_categorical poisson poisson_lognormal quantized_distribution
        relaxed_bernoulli relaxed_onehot_categorical sample_stats seed_stream shape sinh_arcsinh
        vector_diffeomixture vector_exponential_diag vector_exponential_linear_operator vector_laplace_diag
        vector_laplace_linear_operator vector_sinh_arcsinh_diag vector_student_t wishart
    python.ops.bijectors: bijector bijector_impl identity absolute_value affine affine_linear_operator
        affine_scalar batch_normalization chain cholesky_outer_product
        conditional_bijector exp fill_triangular gumbel inline invert kumaraswamy
        masked_autoregressive matrix_inverse_tril ordered permute power_transform real_nvp reshape scale_tril
        sigmoid sinh_arcsinh softmax_centered softplus softsign square transform_diagonal weibull
    """,
    "eager": """
    python: datasets evaluator metrics metrics_impl network saver tfe
    """,
    "framework": """
    python.framework: checkpoint_utils experimental graph_util tensor_util
    python.ops: arg_scope audio_ops checkpoint_ops critical_section_ops embedding_ops ops prettyprint_ops
        script_ops sort_ops variables
    """,
    "gan": """
    python: namedtuples train
    python.eval.python: classifier_metrics classifier_metrics_impl eval_utils eval_utils_impl sliced_wasserstein
        sliced_wasserstein_impl summaries summaries_impl
    python.features.python: clip_weights clip_weights_impl conditioning_utils conditioning_utils_impl
        random_tensor_pool random_tensor_pool_impl virtual_batchnorm virtual_batchnorm_impl
    python.losses.python: losses_impl losses_wargs tuple_losses tuple_losses_impl
    """,
    "graph_editor": """
    .: edit reroute select subgraph transform util
    """,
    "grid_rnn": """
    python.ops: grid_rnn_cell
    """,
    "image": """
    python.ops: dense_image_warp distort_image_ops image_ops interpolate_spline
        single_image_random_dot_stereograms sparse_image_warp
    """,
    "input_pipeline": """
    python.ops: input_pipeline_ops
    """,
    "integrate": """
    python.ops: odes
    """,
    "layers": """
    python.layers: embedding_ops encoders feature_column feature_column_ops initializers layers normalization
        optimizers regularizers rev_block_lib summaries target_column utils
    python.ops: bucketization_op sparse_feature_cross_op sparse_ops
    """,
    "legacy_seq2seq": """
    python.ops: seq2seq
    """,
    "linalg": """
    python.ops: linear_operator linear_operator_addition linear_operator_block_diag linear_operator_circulant
        linear_operator_composition linear_operator_diag linear_operator_full_matrix linear_operator_identity
        linear_operator_kronecker linear_operator_low_rank_update linear_operator_tril linear_operator_util
    """,
    "lookup": """
    .: lookup_ops
    """,
    "losses": """
    python.losses: loss_ops
    python.metric_learning: metric_loss_ops
    """,
    "memory_stats": """
    python.ops: memory_stats_ops
    """,
    "metrics": """
    python.metrics: classification
    python.ops: confusion_matrix_ops histogram_ops metric_ops set_ops
    """,
    "mixed_precision": """
    python: loss_scale_manager loss_scale_optimizer
    """,
    "model_pruning": """
    python: learning pruning pruning_utils strip_pruning_vars_lib
    python.layers: core_layers layers rnn_cells
    """,
    "nccl": """
    python.ops: nccl_ops
    """,
    "nearest_neighbor": """
    python.ops: nearest_neighbor_ops
    """,
    "nn": """
    python.ops: alpha_dropout cross_entropy fwd_gradients sampling_ops scaled_softplus
    """,
    "opt": """
    python.training: adam_gs_optimizer adamax addsign agn_optimizer drop_stale_gradient_optimizer
        elastic_average_optimizer external_optimizer ggt lars_optimizer lazy_adam_gs_optimizer lazy_adam_optimizer
        matrix_functions model_average_optimizer moving_average_optimizer multitask_optimizer_wrapper
        nadam_optimizer powersign reg_adagrad_optimizer shampoo sign_decay variable_clipping_optimizer
        weight_decay_optimizers
    """,
    "optimizer_v2": """
    .: adadelta adagrad adam gradient_descent momentum optimizer_v2 optimizer_v2_symbols rmsprop
    """,
    "kernel_methods": """
    python: losses
    python.mappers: dense_kernel_mapper random_fourier_features
    """,
    "periodic_resample": """
    python.ops: periodic_resample_op
    """,
    "predictor": """
    .: contrib_estimator_predictor core_estimator_predictor predictor predictor_factories saved_model_predictor
    """,
    "quantize": """
    python: common fold_batch_norms graph_matcher input_to_ops quant_ops quantize quantize_graph
    """,
    "receptive_field": """
    .: receptive_field_api
    python.util: graph_compute_order receptive_field
    """,
    "recurrent": """
    python.ops: functional_rnn recurrent
    """,
    "reduce_slice_ops": """
    python.ops: reduce_slice_ops
    """,
    "resampler": """
    python.ops: resampler_ops
    """,
    "rnn": """
    python.ops: core_rnn core_rnn_cell core_rnn_cell_impl fused_rnn_cell gru_ops lstm_ops rnn rnn_cell
    """,
    "seq2seq": """
    python.ops: attention_wrapper basic_decoder beam_search_decoder beam_search_ops decoder
        dynamic_attention_wrapper helper loss sampler
    """,
    "signal": """
    python.ops: mel_ops mfcc_ops reconstruction_ops shape_ops spectral_ops util_ops window_ops
    """,
    "slim": """
    python.slim.data: data_decoder data_provider dataset dataset_data_provider parallel_reader prefetch_queue
        tfexample_decoder
    python.slim: evaluation learning model_analyzer queues summaries
    python.slim.nets: alexnet inception inception_v1 inception_v2 inception_v3 overfeat resnet_utils resnet_v1
        resnet_v2 vgg
    """,
    "solvers": """
    python.ops: lanczos least_squares linear_equations util
    """,
    "sparsemax": """
    python.ops: sparsemax sparsemax_loss
    """,
    "tensor_forest": """
    python: tensor_forest
    python.ops: data_ops model_ops stats_ops tensor_forest_ops
    """,
    "text": """
    python.ops: skip_gram_ops
    """,
    "tfprof": """
    python.tools.tfprof: model_analyzer
    """,
    "training": """
    python.training: bucket_ops device_setter evaluation feeding_queue_runner hparam inputs resample
        sampling_ops sequence_queueing_state_saver tensor_queue_dataset training training_util tuner
    """,
    "util": """
    .: loader
    """,
}


def _paths(library: str, text: str) -> list[str]:
    """The modules of a library, as dotted paths below ``tensorflow.``."""
    paths = []
    folder = ""
    for line in text.splitlines():
        head, colon, names = line.rpartition(":")
        if colon:
            folder = "" if head.strip() == "." else f".{head.strip()}"
        paths += [f"contrib.{library}{folder}.{name}" for name in names.split()]
    return paths


MODULES = frozenset(path for library, text in _TEXT.items() for path in _paths(library, text))
"""The paths of the modules, below ``tensorflow.``."""
