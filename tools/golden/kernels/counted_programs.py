"""Programs whose operations on floats are counted, here and by TensorFlow."""

_UNARY = "Reciprocal Square Rsqrt Log Neg"
_BINARY = "Add Sub Mul RealDiv Maximum Minimum Pow GreaterEqual Greater LessEqual Less Equal NotEqual SquaredDifference"


def programs(tf):
    """A function that builds each, by name."""

    def fed(*shape):
        return tf.placeholder(tf.float32, shape)

    def variable(*shape):
        return tf.get_variable("v", shape, initializer=tf.zeros_initializer())

    raw = tf.raw_ops
    built = {}
    for name in _UNARY.split():
        built[name] = lambda name=name: getattr(raw, name)(x=fed(2, 3))
    for name in _BINARY.split():
        built[name] = lambda name=name: getattr(raw, name)(x=fed(2, 3), y=fed(3))
    built["softmax"] = lambda: raw.Softmax(logits=fed(2, 3))
    built["squares"] = lambda: raw.L2Loss(t=fed(2, 3))
    built["rsqrt_gradient"] = lambda: raw.RsqrtGrad(y=fed(2, 3), dy=fed(2, 3))
    built["mean"] = lambda: raw.Mean(input=fed(2, 3), axis=[0])
    built["sum"] = lambda: raw.Sum(input=fed(2, 3), axis=[0])
    built["largest"] = lambda: raw.ArgMax(input=fed(2, 3), dimension=0)
    built["smallest"] = lambda: raw.ArgMin(input=fed(2, 3), dimension=0)
    built["bias"] = lambda: raw.BiasAdd(value=fed(2, 3), bias=fed(3))
    built["bias_gradient"] = lambda: raw.BiasAddGrad(out_backprop=fed(2, 3))
    for window, stride, padding in ((2, 2, "VALID"), (3, 1, "SAME")):
        steps, sizes = [1, stride, stride, 1], [1, window, window, 1]
        for kind in ("avg_pool", "max_pool"):

            def pool(kind=kind, sizes=sizes, steps=steps, padding=padding):
                x = variable(2, 6, 6, 3)
                tf.gradients(getattr(tf.nn, kind)(x, sizes, steps, padding), [x])

            built[f"{kind}_{padding}"] = pool

        def convolution(steps=steps, padding=padding):
            x, w = variable(2, 6, 6, 3), tf.get_variable("w", [3, 2, 3, 4], initializer=tf.zeros_initializer())
            tf.gradients(tf.nn.relu(tf.nn.conv2d(x, w, steps, padding)), [x, w])

        built[f"conv2d_{padding}"] = convolution
        built[f"depthwise_{padding}"] = lambda steps=steps, padding=padding: tf.nn.depthwise_conv2d(
            fed(2, 6, 6, 3), fed(3, 2, 3, 2), steps, padding
        )
    built["conv3d"] = lambda: tf.nn.conv3d(fed(1, 4, 4, 4, 2), fed(2, 2, 3, 2, 3), [1] * 5, "SAME")
    built["dilation"] = lambda: tf.nn.dilation2d(fed(2, 6, 6, 3), fed(3, 2, 3), [1] * 4, [1] * 4, "SAME")
    built["channels_first"] = lambda: raw.Conv2D(
        input=fed(2, 3, 6, 6), filter=fed(3, 2, 3, 4), strides=[1] * 4, padding="SAME", data_format="NCHW"
    )
    built["matmul"] = lambda: tf.matmul(fed(2, 3), fed(3, 4))
    built["matmul_transposed"] = lambda: tf.matmul(fed(3, 2), fed(4, 3), transpose_a=True, transpose_b=True)
    built["batch_matmul"] = lambda: raw.BatchMatMul(x=fed(5, 2, 3), y=fed(5, 3, 4))
    built["sum_of_many"] = lambda: tf.add_n([fed(2, 3)] * 3)
    built["added"] = lambda: tf.assign_add(variable(2, 3), tf.ones([2, 3]))
    built["subtracted"] = lambda: tf.assign_sub(variable(2, 3), tf.ones([2, 3]))
    built["of_unknown_shape"] = lambda: tf.matmul(fed(None, 3), fed(3, 2))
    return built
