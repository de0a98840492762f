# SPDX-License-Identifier: Apache-2.0
"""Layers and losses against Keras: same weights, same input; outputs in training and inference, gradients
of the sum of outputs times random numbers, and the names of the weights."""
import inspect

CASES = {}


def layer(name, kind, settings, keras, *shapes, integers=0, training=True, call=None):
    """keras: the layer as Python text, `call` what its call takes beside the inputs. shapes: of the inputs,
    with the batch. integers: inputs are class numbers below this. training=False: random while training,
    so not compared then."""
    CASES[name] = dict(kind=kind, settings=settings, keras=keras, shapes=shapes, integers=integers,
                       training=training, call=call or {})


IMAGE, ROWS, TEXT = (6, 9, 8, 3), (7, 5), (4, 10, 6)
layer("Dense", "Dense", "units=4 activation=tanh", "Dense(4, activation='tanh')", ROWS)
layer("Dense without bias", "Dense", "units=4 use_bias=false", "Dense(4, use_bias=False)", ROWS)
layer("Dense of sequences", "Dense", "units=4", "Dense(4)", TEXT)
layer("Dense of images", "Dense", "units=4", "Dense(4)", IMAGE)
for activation in ("relu", "relu6", "elu", "selu", "gelu", "sigmoid", "tanh", "softmax", "log_softmax",
                   "softplus", "softsign", "swish", "silu", "leaky_relu", "exponential", "hard_sigmoid",
                   "linear"):
    layer("activation %s" % activation, "Activation", "activation=%s" % activation,
          "Activation('%s')" % activation, (20, 30))
layer("activation gelu_approximate", "Activation", "activation=gelu_approximate",
      "Activation(lambda x: keras.activations.gelu(x, approximate=True), name='activation')", (20, 30))
layer("ReLU", "ReLU", "", "ReLU()", ROWS)
layer("LeakyReLU", "LeakyReLU", "negative_slope=0.1", "LeakyReLU(negative_slope=0.1)", ROWS)
layer("Softmax", "Softmax", "", "Softmax()", TEXT)

layer("Conv1D", "Conv1D", "filters=5 kernel_size=3 activation=relu", "Conv1D(5, 3, activation='relu')", TEXT)
layer("Conv1D same, strides", "Conv1D", "filters=5 kernel_size=4 padding=same strides=2",
      "Conv1D(5, 4, padding='same', strides=2)", TEXT)
layer("Conv1D causal, dilated", "Conv1D", "filters=5 kernel_size=3 padding=causal dilation_rate=2",
      "Conv1D(5, 3, padding='causal', dilation_rate=2)", TEXT)
layer("Conv2D", "Conv2D", "filters=5 kernel_size=3", "Conv2D(5, 3)", IMAGE)
layer("Conv2D same, strides", "Conv2D", "filters=5 kernel_size=[3,5] strides=2 padding=same activation=relu",
      "Conv2D(5, (3, 5), strides=2, padding='same', activation='relu')", IMAGE)
layer("Conv2D dilated", "Conv2D", "filters=5 kernel_size=3 dilation_rate=2 use_bias=false",
      "Conv2D(5, 3, dilation_rate=2, use_bias=False)", IMAGE)
layer("Conv2D in groups", "Conv2D", "filters=6 kernel_size=3 groups=3", "Conv2D(6, 3, groups=3)", IMAGE)
layer("DepthwiseConv2D", "DepthwiseConv2D", "kernel_size=3 depth_multiplier=2 padding=same",
      "DepthwiseConv2D(3, depth_multiplier=2, padding='same')", IMAGE)
layer("DepthwiseConv2D strides", "DepthwiseConv2D", "kernel_size=3 strides=2", "DepthwiseConv2D(3, strides=2)",
      IMAGE)
layer("SeparableConv2D", "SeparableConv2D", "filters=7 kernel_size=3 depth_multiplier=2 activation=relu",
      "SeparableConv2D(7, 3, depth_multiplier=2, activation='relu')", IMAGE)

layer("MaxPooling2D", "MaxPooling2D", "", "MaxPooling2D()", IMAGE)
layer("MaxPooling2D same", "MaxPooling2D", "pool_size=3 strides=2 padding=same",
      "MaxPooling2D(3, strides=2, padding='same')", IMAGE)
layer("AveragePooling2D", "AveragePooling2D", "pool_size=[2,3]", "AveragePooling2D((2, 3))", IMAGE)
layer("AveragePooling2D same", "AveragePooling2D", "pool_size=3 strides=2 padding=same",
      "AveragePooling2D(3, strides=2, padding='same')", IMAGE)
for kind, shape in (("GlobalAveragePooling1D", TEXT), ("GlobalAveragePooling2D", IMAGE),
                    ("GlobalMaxPooling1D", TEXT), ("GlobalMaxPooling2D", IMAGE)):
    layer(kind, kind, "", kind + "()", shape)
layer("GlobalAveragePooling2D keepdims", "GlobalAveragePooling2D", "keepdims=true",
      "GlobalAveragePooling2D(keepdims=True)", IMAGE)

for name, shape in (("images", IMAGE), ("rows", ROWS), ("sequences", TEXT)):
    layer("BatchNormalization of %s" % name, "BatchNormalization", "", "BatchNormalization()", shape)
layer("BatchNormalization without scale", "BatchNormalization", "scale=false epsilon=0.1",
      "BatchNormalization(scale=False, epsilon=0.1)", IMAGE)
layer("BatchNormalization without center", "BatchNormalization", "center=false", "BatchNormalization(center=False)",
      ROWS)
layer("LayerNormalization", "LayerNormalization", "", "LayerNormalization()", TEXT)
layer("LayerNormalization without center", "LayerNormalization", "center=false epsilon=0.00001",
      "LayerNormalization(center=False, epsilon=0.00001)", ROWS)
layer("GroupNormalization", "GroupNormalization", "groups=2", "GroupNormalization(2)", (4, 5, 3, 8))
layer("GroupNormalization, each channel", "GroupNormalization", "groups=-1", "GroupNormalization(-1)", TEXT)
layer("UnitNormalization", "UnitNormalization", "", "UnitNormalization()", TEXT)
layer("Dropout", "Dropout", "rate=0.5", "Dropout(0.5)", ROWS, training=False)
layer("Dropout of nothing", "Dropout", "rate=0.0", "Dropout(0.0)", ROWS)
layer("SpatialDropout2D", "SpatialDropout2D", "rate=0.5", "SpatialDropout2D(0.5)", IMAGE, training=False)

layer("Flatten", "Flatten", "", "Flatten()", IMAGE)
layer("Reshape", "Reshape", "target_shape=[4,-1]", "Reshape((4, -1))", IMAGE)
layer("Permute", "Permute", "dims=[3,1,2]", "Permute((3, 1, 2))", IMAGE)
layer("ZeroPadding2D", "ZeroPadding2D", "padding=[1,2]", "ZeroPadding2D((1, 2))", IMAGE)
layer("ZeroPadding2D, four", "ZeroPadding2D", "padding=[1,0,2,3]", "ZeroPadding2D(((1, 0), (2, 3)))", IMAGE)
layer("Rescaling", "Rescaling", "scale=0.5 offset=-1.0", "Rescaling(0.5, -1.0)", ROWS)
for kind in ("Add", "Multiply", "Average", "Maximum", "Concatenate"):
    layer(kind, kind, "", kind + "()", ROWS, ROWS, ROWS)
layer("Subtract", "Subtract", "", "Subtract()", ROWS, ROWS)
layer("Concatenate axis 1", "Concatenate", "axis=1", "Concatenate(axis=1)", TEXT, TEXT)

layer("Embedding", "Embedding", "input_dim=9 output_dim=5", "Embedding(9, 5)", (4, 6), integers=9)
layer("Hashing", "Hashing", "num_bins=7", "Hashing(7)", (4, 6), integers=1000)
for mode in ("multi_hot", "one_hot", "count"):
    layer("CategoryEncoding %s" % mode, "CategoryEncoding", "num_tokens=9 output_mode=%s" % mode,
          "CategoryEncoding(9, output_mode='%s')" % mode, (4,) if mode == "one_hot" else (4, 6), integers=9)
for kind in ("SimpleRNN", "LSTM", "GRU"):
    layer(kind, kind, "units=5", kind + "(5)", TEXT)
    layer(kind + " sequences", kind, "units=5 return_sequences=true", kind + "(5, return_sequences=True)", TEXT)
    layer(kind + " backwards, without bias", kind, "units=5 go_backwards=true use_bias=false activation=relu",
          kind + "(5, go_backwards=True, use_bias=False, activation='relu')", TEXT)
    layer(kind + " of one step", kind, "units=5", kind + "(5)", (3, 1, 4))
layer("MultiHeadAttention", "MultiHeadAttention", "num_heads=2 key_dim=3", "MultiHeadAttention(2, 3)", TEXT, TEXT)
layer("MultiHeadAttention causal", "MultiHeadAttention", "num_heads=3 key_dim=2 use_causal_mask=true",
      "MultiHeadAttention(3, 2)", TEXT, TEXT, call=dict(use_causal_mask=True))
layer("MultiHeadAttention of three", "MultiHeadAttention", "num_heads=2 key_dim=3 value_dim=4 use_bias=false",
      "MultiHeadAttention(2, 3, value_dim=4, use_bias=False)", TEXT, (4, 7, 5), (4, 7, 3))
layer("MultiHeadAttention with dropout", "MultiHeadAttention", "num_heads=2 key_dim=3 dropout=0.5",
      "MultiHeadAttention(2, 3, dropout=0.5)", TEXT, TEXT, training=False)

LOSSES = {}


def PAIRS(same, distance):
    """The loss of pairs with a margin of 0.8, which Keras does not have."""
    import tensorflow as tf
    return tf.reduce_mean(same * distance ** 2 + (1 - same) * tf.nn.relu(0.8 - distance) ** 2)


def loss(name, text, keras, output, label, kind="numbers"):
    """kind of the label (and the output): numbers, classes, zero_one, probabilities (both), positive (both)."""
    LOSSES[name] = dict(text=text, keras=keras, output=output, label=label, kind=kind)


loss("sparse_categorical_crossentropy", "sparse_categorical_crossentropy",
     "SparseCategoricalCrossentropy(from_logits=True)", (8, 5), (8,), "classes")
loss("sparse_categorical_crossentropy of sequences", "sparse_categorical_crossentropy",
     "SparseCategoricalCrossentropy(from_logits=True)", (4, 6, 5), (4, 6), "classes")
loss("categorical_crossentropy", "categorical_crossentropy", "CategoricalCrossentropy(from_logits=True)", (8, 5),
     (8, 5), "labels")
loss("categorical_crossentropy smoothed", "categorical_crossentropy label_smoothing=0.1",
     "CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)", (4, 6, 5), (4, 6, 5), "labels")
loss("binary_crossentropy", "binary_crossentropy", "BinaryCrossentropy(from_logits=True)", (8, 1), (8, 1), "zero_one")
loss("binary_crossentropy smoothed", "binary_crossentropy label_smoothing=0.2",
     "BinaryCrossentropy(from_logits=True, label_smoothing=0.2)", (8, 3), (8, 3), "zero_one")
loss("mean_squared_error", "mean_squared_error", "MeanSquaredError()", (8, 5), (8, 5))
loss("mean_squared_error of images", "mean_squared_error", "MeanSquaredError()", (4, 3, 3, 2), (4, 3, 3, 2))
loss("mean_absolute_error", "mean_absolute_error", "MeanAbsoluteError()", (8, 5), (8, 5))
loss("huber", "huber delta=0.7", "Huber(delta=0.7)", (8, 5), (8, 5))
loss("hinge", "hinge", "Hinge()", (8, 5), (8, 5), "zero_one")
loss("kl_divergence", "kl_divergence", "KLDivergence()", (8, 5), (8, 5), "probabilities")
loss("cosine_similarity", "cosine_similarity", "CosineSimilarity()", (8, 5), (8, 5))
loss("poisson", "poisson", "Poisson()", (8, 5), (8, 5), "positive")

loss("contrastive", "contrastive margin=0.8", "PAIRS", (8,), (8,), "zero_one")

NAMES = list(CASES) + ["loss " + n for n in LOSSES]
OUTPUT_TOLERANCE, GRADIENT_TOLERANCE = 1e-5, 1e-4


def differs(what, ours, theirs, tolerance):
    """A list of complaints."""
    import numpy as np
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if ours.shape != theirs.shape:
        return ["%s has shape %s, not %s" % (what, ours.shape, theirs.shape)]
    scale = max(1.0, float(np.abs(theirs).max(initial=0)))
    worst = float(np.abs(ours - theirs).max(initial=0)) / scale
    return [] if worst <= tolerance else ["%s differs by %g" % (what, worst)]


def check_layer(case, seed):
    import keras
    import numpy as np
    import tensorflow as tf
    import model_lib
    rng = np.random.default_rng(seed)
    keras.backend.clear_session()
    theirs = eval("keras.layers." + case["keras"], {"keras": keras})  # pylint: disable=eval-used
    if case["integers"]:
        arrays = [rng.integers(0, case["integers"], s).astype(np.int32) for s in case["shapes"]]
    else:
        arrays = [rng.normal(size=s).astype(np.float32) for s in case["shapes"]]
    xs = [tf.Variable(a) for a in arrays]


    def call(training):
        inputs = [tf.identity(x) for x in xs]
        if not isinstance(theirs, keras.layers.MultiHeadAttention) and len(xs) > 1:
            inputs = [inputs]
        mode = {"training": training} if "training" in inspect.signature(theirs.call).parameters else {}
        return theirs(*inputs, **mode, **case["call"])

    call(False)
    for w in theirs.weights:
        low = 0.5 if "variance" in w.path else -0.5
        if "seed" not in w.path:
            w.assign(rng.uniform(low, low + 1, w.shape))
    values = {w.path: w.numpy() for w in theirs.weights if "seed" not in w.path}
    still = call(False)
    dy = rng.normal(size=still.shape).astype(np.float32)
    with tf.GradientTape() as tape:
        y = call(True)
    sources = [] if case["integers"] else list(zip(["x%d" % i for i in range(len(xs))], xs))
    sources += [(w.path, w.value) for w in theirs.trainable_variables]
    grads = tape.gradient(y, [s for _, s in sources], output_gradients=tf.constant(dy))

    m = model_lib.Model()
    try:
        ins = [m.input("x%d" % i, a) for i, a in enumerate(arrays)]
        ours = m.layer(case["kind"], ins, case["settings"])
        if list(m.weights()) != list(values) and set(m.weights()) != set(values):
            return ["weights are called %s, not %s" % (list(m.weights()), list(values))]
        our_still, our_y, our_grads = m.run(ours, dy, values)
    finally:
        m.close()
    bad = differs("the output", our_still, still, OUTPUT_TOLERANCE)
    if case["training"]:
        bad += differs("the output in training", our_y, y, OUTPUT_TOLERANCE)
        for (name, s), g in zip(sources, grads):
            g = tf.zeros_like(s) if g is None else tf.convert_to_tensor(g)
            bad += differs("the gradient of " + name, our_grads.get(name, np.zeros(s.shape)), g, GRADIENT_TOLERANCE)
    return bad


def check_loss(case, seed):
    import keras
    import numpy as np
    import tensorflow as tf
    import model_lib
    rng = np.random.default_rng(seed)
    x = rng.normal(size=case["output"]).astype(np.float32)
    label = rng.normal(size=case["label"]).astype(np.float32)

    def softmax(a):
        return np.exp(a) / np.exp(a).sum(-1, keepdims=True)
    kind = case["kind"]
    if kind == "classes":
        label = rng.integers(0, x.shape[-1], case["label"]).astype(np.int32)
    elif kind == "labels":
        label = softmax(label)
    elif kind == "zero_one":
        label = (label > 0).astype(np.float32)
    elif kind == "probabilities":
        x, label = softmax(x), softmax(label)
    elif kind == "positive":
        x, label = np.exp(x), np.floor(np.exp(label))
    fn = PAIRS if case["keras"] == "PAIRS" else \
        eval("keras.losses." + case["keras"], {"keras": keras})  # pylint: disable=eval-used
    v = tf.Variable(x)
    with tf.GradientTape() as tape:
        y = fn(label, v)
    grad = tape.gradient(y, v)
    m = model_lib.Model()
    try:
        ours = m.loss(case["text"], m.input("x0", x), m.input("label", label))
        n = len(x)
        _, our_y, grads = m.run(ours, np.full([n], 1 / n, np.float32), {})
    finally:
        m.close()
    if our_y.shape != (n,):
        return ["the loss has shape %s" % (our_y.shape,)]
    return (differs("the loss", our_y.mean(), y, OUTPUT_TOLERANCE) +
            differs("the gradient", grads["x0"], grad, GRADIENT_TOLERANCE))


def check(name, seed):
    """A list of complaints; empty: equal."""
    import tensorflow.compat.v1 as v1
    from tensorflow.python.eager import context
    v1.enable_v2_tensorshape()  # the other tests of this process are TensorFlow 1 clients
    try:
        with context.eager_mode():
            if name.startswith("loss "):
                return check_loss(LOSSES[name[5:]], seed)
            return check_layer(CASES[name], seed)
    finally:
        v1.disable_v2_tensorshape()
