# SPDX-License-Identifier: Apache-2.0
"""All intentional differences from TensorFlow, each with its reason. Failures are matched by their text, so that an op
listed here is still compared in everything else."""
import re

import numpy as np

# Samples marked !fails that fail with another status than TensorFlow's: op -> (ours, theirs).
STATUS = {
    # "Unexpected error in binary operator": TensorFlow misses these two. Its FloorDiv has the right message.
    "TruncateDiv": ("INVALID_ARGUMENT", "INTERNAL"),
    "TruncateMod": ("INVALID_ARGUMENT", "INTERNAL"),
    "SparseSliceGrad": ("INVALID_ARGUMENT", "INTERNAL"),  # of arguments that do not fit
    # Before the run, where the shape is known then, it is INVALID_ARGUMENT there as well.
    "RGBToHSV": ("INVALID_ARGUMENT", "FAILED_PRECONDITION"),
    "HSVToRGB": ("INVALID_ARGUMENT", "FAILED_PRECONDITION"),
}

# Ops compared in no way.
SESSION_STATE = "fails as on TensorFlow's gRPC servers; a session of its own process has state"
NOT_COMPARED = {
    **dict.fromkeys(["GetSessionHandle", "GetSessionHandleV2", "GetSessionTensor",
                     "DeleteSessionTensor"], SESSION_STATE),
}

# Attributes that are not varied.
NOT_VARIED = {
    ("Empty", "init"): "without, TensorFlow's values are whatever memory held",
    ("TopK", "sorted"): "without, the order is anyone's",
    ("TopKV2", "sorted"): "without, the order is anyone's",
}

# Types of attributes that are not tried.
NOT_TYPES = {
    ("ArgMax", "Tidx"): {5},  # TensorFlow reads an axis of 16 bits as one of 32: by chance the right one
}

# Ops that are not tried on many elements.
STEPS = "of a million values one is just between two steps, and falls to either"
NOT_LARGE = {
    **dict.fromkeys(["FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars",
                     "FakeQuantWithMinMaxVarsPerChannel", "QuantizeAndDequantizeV2"], STEPS),
    **dict.fromkeys(["SelfAdjointEigV2", "Svd"],
                    "of a thousand matrices one has values so close that its vectors are badly determined"),
    "AdjustSaturation": "TensorFlow's floats cancel where a colour is nearly grey",
    **dict.fromkeys(["Diag", "MatrixDiag", "MatrixDiagV2", "MatrixDiagV3"],
                    "what comes out is the square of what goes in: gigabytes, and seconds"),
    "Cumprod": "overflows sooner or later, depending on the order of products",
}

# Generated inputs that only we refuse: ops, our message, why.
WE_REFUSE = [
    (r"AvgPool(3D)?Grad", r"Expected grad shape to be",
     "TensorFlow takes any gradient and reads it by its own idea of the shape"),
    (r"(Inv|Reciprocal|Sigmoid|Tanh|Sqrt|Rsqrt)Grad", r"not compatible|must be of the same shape",
     "TensorFlow reads both as flat arrays without looking at their shapes"),
    (r"(Avg|Max)Pool.*", r"stride for dimension [03] must be positive",
     "TensorFlow does not look at these strides over batch and channels"),
    (r"ResourceGather", r"should be equal to indices.shape|indices.* is not in \[0",
     "TensorFlow reads on into another batch, or behind the end"),
    (r"(Resource)?Scatter.*", r"params must be at least 1-D", "TensorFlow takes a scalar for a row"),
    (r"(Resource)?SparseApply.*", r"grad must have the rank of var",
     "TensorFlow reads rows of the gradient as if they had the variable's shape"),
    (r"SoftmaxCrossEntropyWithLogits", r"Must have at least one class",
     "there is no answer without classes"),
    (r"Gather(V2)?", r"indices.* is not in \[0", "TensorFlow checks none where nothing is gathered"),
    (r"DepthwiseConv2dNativeBackprop(Input|Filter)", r"dilations|out_backprop doesn't match computed",
     "TensorFlow ignores dilations"),
    (r".*", r"the result would have rank \d+; at most 8 is supported", "MF_MAX_RANK"),
    (r"(Depthwise)?Conv[23][dD].*", r"the window has size 0",
     "TensorFlow slides it over one position too many"),
    (r"ConcatOffset", r"is negative or too large", "a size below 0 is none"),
    (r"MatrixDiagV[23]", r"diag_index is out of bound",
     "TensorFlow makes a matrix without the diagonals it was given"),
    (r"ReverseV2", r"out of valid range", "TensorFlow checks no axes of a scalar or of nothing"),
    (r"SparseSegment.*Grad", r"out of range \[0, 0\)", "TensorFlow checks nothing that goes nowhere"),
    (r"UnsortedSegment.*", r"segment_ids.* is out of range",
     "TensorFlow does not look at them where there is nothing to add up"),
    (r"Resize.*Grad", r"gradients and images differ in batch or channels",
     "TensorFlow takes the smaller, or reads behind the end"),
    (r"SparseReduce(Sum|Max)(Sparse)?|SparseSoftmax", r"is out of bounds",
     "TensorFlow takes elements that lie outside for such that do not"),
    (r"RaggedTensorToTensor", r"row partitions have", "TensorFlow reads behind the end"),
    (r"SerializeSparse", r"of a sparse tensor do not fit", "TensorFlow does not look, until it reads it"),
    (r"SparseSlice", r"must not be negative", "TensorFlow makes a larger tensor than there was"),
    (r"UnravelIndex", r"index -\d+ is out of bound", "TensorFlow looks for indices too large only"),
]

# Generated inputs that only TensorFlow refuses: ops, its message, why.
THEY_REFUSE = [
    (r"(Resource)?SparseApply.*", r"Inner dimension should be greater than zero",
     "rows without elements need no update, and most of TensorFlow's rules agree"),
    (r"Conv[23]D.*", r"filter_size does not have enough|must have the same number of channels. Got 0|"
     r"filter must not have zero elements|filter depth must be stricly positive",
     "nothing from nothing; TensorFlow does so elsewhere"),
    (r"DepthwiseConv2dNative.*", r"only supports equal length strides",
     "TensorFlow's kernels have one stride for both dimensions"),
    (r"MaxPoolGrad.*", r"not yet supported on the depth dimension",
     "MaxPool ignores the stride over channels; TensorFlow's gradient refuses it"),
    (r"QuantizeAndDequantizeV2", r"input_min must be a scalar",
     "even with an axis, along which TensorFlow's own kernel reads a vector"),
    (r"Reverse", r"Invalid input first dimension. Found 0", "nothing reversed is nothing"),
    (r"QuantizeV2|Dequantize", r"MIN_FIRST mode is not implemented|When output type is bfloat16|"
     r"Axis must be less than input dimension\(-1\)", "not implemented there"),
    (r"(Depthwise)?Conv.*", r"dilat", "most of TensorFlow's CPU kernels have no dilations"),
]


# Ops whose answers to NaN and infinities differ: ops, which values, why. docs/reference/ops.md has this
# table. The rule is that NaN stays NaN, so that a training that diverges is noticed.
NOT_SPECIAL = [
    (r"TopK(V2)?|NthElement", "nan",
     "NaN counts as larger than all numbers; TensorFlow's order depends on where it stands"),
    (r"(Unsorted)?Segment(Max|Min)|MaxPool(V2|3D)?", "nan",
     "NaN stays NaN; in TensorFlow it vanishes if a number follows it"),
    (r"CumulativeLogsumexp", "nan inf",
     "NaN stays NaN, and two infinities are one; TensorFlow skips NaN, and makes NaN of infinities"),
    (r"LRN(Grad)?", "nan inf",
     "a channel counts in its window alone; TensorFlow multiplies all others by zero, which makes them NaN"),
    (r"Conv[23]D.*|DepthwiseConv2dNative.*", "nan inf",
     "where windows reach beyond the image, an infinite filter gives NaN in Conv2D and Conv3D of float, as in TensorFlow, and has no effect in the other kernels"),
    (r"ResizeBicubic", "nan inf",
     "a pixel of weight zero does not count; TensorFlow multiplies it, which makes NaN"),
    (r"(Resource)?(Sparse)?ApplyFtrl(V2)?", "nan inf",
     "NaN stays NaN; TensorFlow sets such weights to zero"),
    (r"ResourceApplyAdamWithAmsgrad|(Resource)?ApplyAdaMax", "nan inf",
     "NaN stays NaN; in TensorFlow the largest moment forgets it"),
    (r"(Resource)?SparseApply(Centered)?RMSProp", "inf",
     "of infinite slots: inf - inf is NaN, and sums are in another order"),
    (r"QuantizeV2", "nan inf", "no integer stands for NaN; TensorFlow's is what the processor makes of it"),
    (r"AdjustHue|AdjustSaturation|RGBToHSV|HSVToRGB", "nan inf",
     "a pixel with NaN becomes NaN as a whole; TensorFlow makes a colour of the rest of some"),
    (r"(CombinedNonMaxSuppression|NonMaxSuppression.*)", "nan inf",
     "how much boxes without size overlap is undefined"),
    (r"Erf", "inf", "the limit; TensorFlow has NaN for doubles"),
    (r"Zeta|Polygamma", "inf", "undefined: neither side has the limit everywhere"),
    (r"MatrixDeterminant|LogMatrixDeterminant", "inf", "NaN; TensorFlow has inf or NaN by the size"),
    (r"HistogramFixedWidth", "nan", "refused; TensorFlow looks for NaN in some ways of counting only"),
    (r"Lu", "nan inf", "of NaN comes NaN; TensorFlow says that some are not invertible"),
]


def special_differs(op, values):
    """Whether answers to these values differ on purpose."""
    kinds = {"nan" if v != v else "inf" for v in values}
    return any(re.fullmatch(ops, op) and kinds & set(which.split()) for ops, which, _ in NOT_SPECIAL)


def refused(op, ours, theirs):
    """Whether one side's Failure (None: it has an answer) is a difference on purpose."""
    table, message = (WE_REFUSE, ours.message) if ours else (THEY_REFUSE, theirs.message)
    return any(re.fullmatch(ops, op) and re.search(text, message) for ops, text, _ in table)


def _is_integer(case):
    return case.inputs[0].dtype in (3, 4, 5, 6, 9, 17, 22, 23)


def _is_empty(case):
    return any(0 in i.shape for i in case.inputs)


def _is_dilated(case):
    return "dilations" in case.attrs and set(case.attrs["dilations"].list.i) != {1}


def _is_not_filled(case):
    return "init" not in case.attrs or not case.attrs["init"].b


def _is_truncated_to_complex(case):
    return ("Truncate" in case.attrs and case.attrs["Truncate"].b and case.attrs["DstT"].type in (8, 18))


def _is_negative_to_unsigned(case):
    x = case.inputs[0]
    return x.dtype in (14, 19) and case.attrs["DstT"].type in (4, 17, 22, 23) and (x.lo or -1) < 0


def _has_infinity(case):
    return any("inf" in w for i in case.inputs for w in i.literal or () if i.dtype == 2)


def _no_statistics(case):
    training = "is_training" not in case.attrs or case.attrs["is_training"].b
    return not training or 0 in case.inputs[0].shape


def _has_no_vectors(case):
    return any(name in case.attrs and not case.attrs[name].b for name in ("compute_uv", "compute_v"))


def _has_no_factor(case):
    x = case.inputs[0]
    return x.literal is None and (x.shape[-1:] != (1,) or (x.lo or -1) < 0)


# Outputs in which TensorFlow is wrong: ops, when (a case), which, why.
WRONG = [
    (r"FusedBatchNorm(V2|V3)?", _no_statistics, {3, 4}, "uninitialised"),
    (r"(Depthwise)?Conv.*BackpropFilter.*", _is_empty, {0}, "uninitialised"),
    (r"DepthwiseConv2dNativeBackprop.*", _is_dilated, {0}, "as if there were no dilations"),
    (r"Cast", _is_truncated_to_complex, {0}, "the wrong bits are cut off: 1.0005 becomes 0.5"),
    (r"Cast", _is_negative_to_unsigned, {0}, "undefined, and differs within one tensor"),
    (r"Cholesky", _has_no_factor, {0}, "half of a random matrix is left as it was; NaN is zero if complex"),
    (r"I?RFFT.*", _is_empty, {0}, "uninitialised"),
    (r"SelfAdjointEigV2|Svd", _has_no_vectors, {1, 2}, "not set"),
    (r"Empty", _is_not_filled, {0}, "uninitialised"),
    (r"Erf", _has_infinity, {0}, "of an infinite double it is 1, not NaN"),
    (r"QuantizeV2", lambda case: case.attrs["T"].type == 13, {0}, "2^31 becomes -2^31"),
    (r"Round", _is_integer, {0}, "an odd number becomes an even one: Round(1) is 0"),
]


def wrong(case):
    """Outputs that TensorFlow leaves undefined."""
    return set().union(*[which for ops, when, which, _ in WRONG
                         if re.fullmatch(ops, case.op) and when(case)])


# Ops whose outputs depend on a mean over all elements, which sizes do not show.
HANGS_ON_ALL = re.compile(r"FusedBatchNorm(Grad)?(V2|V3)?")


# Outputs whose columns may be multiplied by any number of magnitude 1, and that are no function of the
# input but for as many columns as output 0 has elements.
UP_TO_PHASE = {"SelfAdjointEigV2": {1}, "Svd": {1, 2}}


def _wide(x):
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def in_phase(ours, theirs, columns):
    """Both without undetermined columns; the phases of Meshflow's columns are rotated to TensorFlow's."""
    a, b = ours[..., :columns], theirs[..., :columns]
    turn = np.sum(np.conj(_wide(a)) * _wide(b), axis=-2, keepdims=True)
    size = np.abs(turn)
    turn = np.where(size > 0, turn / np.where(size > 0, size, 1), 1)
    return (_wide(a) * turn).astype(a.dtype), b
