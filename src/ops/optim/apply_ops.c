/* SPDX-License-Identifier: Apache-2.0 */
/* apply_ops.c - signatures of the Apply* ops. The rule is found by name, the roles of the inputs by
 * the signature: see apply_engine.h. */
#include "graph/split.h"
#include "ops/optim/apply_engine.h"

#define REF(name) name ":ref T"
#define RES(name) name ":resource"
#define S1(V) V("var")
#define S2(V, a) V("var") ", " V(a)
#define S3(V, a, b) S2(V, a) ", " V(b)
#define S4(V, a, b, c) S3(V, a, b) ", " V(c)

#define DENSE_ATTRS "{T:type in numbers, use_locking:bool=false"
#define SPARSE_ATTRS "{T:type in numbers, Tindices:type in index, use_locking:bool=false"

#define OP(NAME, DEF, SPLIT, ...)                                                                  \
    {                                                                                              \
        .name = NAME, .def = DEF, .flags = MF_OP_HEAP, .infer = mf_rule_infer,                     \
        .grad = mf_grad_missing, .prepare = mf_rule_prepare, .run = mf_rule_run, .split = SPLIT,   \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }
/* An op on resources, and the one on references. ATTRS: additional attributes. */
#define ON_RESOURCE(NAME, SLOTS, ARGS, COMMON, ATTRS, SPLIT, ...)                                  \
    OP("Resource" NAME, "(" SLOTS(RES) ", " ARGS ") -> () " COMMON ATTRS "} is_stateful", SPLIT,   \
       __VA_ARGS__)
#define BOTH(NAME, SLOTS, ARGS, COMMON, ATTRS, SPLIT, ...)                                         \
    OP(NAME, "(" SLOTS(REF) ", " ARGS ") -> (out:ref T) " COMMON ATTRS "}", SPLIT, __VA_ARGS__),   \
        ON_RESOURCE(NAME, SLOTS, ARGS, COMMON, ATTRS, SPLIT, __VA_ARGS__)
#define DENSE(NAME, SLOTS, ARGS, ATTRS, ...)                                                       \
    BOTH("Apply" NAME, SLOTS, ARGS, DENSE_ATTRS, ATTRS, mf_split_update, __VA_ARGS__)
#define SPARSE(NAME, SLOTS, ARGS, ATTRS, ...)                                                      \
    BOTH("SparseApply" NAME, SLOTS, ARGS, SPARSE_ATTRS, ATTRS, mf_rule_sparse_split, __VA_ARGS__)

#define NESTEROV ", use_nesterov:bool=false"
#define UPDATE_SLOTS ", update_slots:bool=true"
#define TIMES_LR ", multiply_linear_by_lr:bool=false"

#define ACCUM(V) S2(V, "accum")
#define MOMENTS(V) S3(V, "m", "v")
#define AMSGRAD(V) S4(V, "m", "v", "vhat")
#define DUAL(V) S3(V, "gradient_accumulator", "gradient_squared_accumulator")
#define DELTA(V) S3(V, "accum", "accum_update")
#define RMS(V) S3(V, "ms", "mom")
#define CENTERED(V) S4(V, "mg", "ms", "mom")
#define LINEAR(V) S3(V, "accum", "linear")
#define SIGNED(V) S2(V, "m")

/* Parts of samples: a variable, a positive slot, a hyperparameter, a gradient of three rows. */
#define V23 "var:f32[2,3] "
#define P23 "var:f32[2,3]@0.1:2 "
#define V5 "var:f32[5,2] "
#define P5 "var:f32[5,2]@0.1:2 "
#define F "f32[]@0.1:0.9 "
#define G23 "f32[2,3] "
#define G5 "f32[3,2] i32[3]{4,0,4} "

const mf_op mf_ops_optimizer[] = {
    DENSE("GradientDescent", S1, "alpha:T, delta:T", "", V23 F G23, "var:f64[3] f64[]@0.1:1 f64[3]",
          "var:f16[3] f16[]@0.1:1 f16[3]", "var:bf16[3] bf16[]@0.1:1 bf16[3]",
          "var:f32[] f32[] f32[]", "var:f32[0] f32[] f32[0]", V23 F "f32[3,2] !fails",
          V23 "f32[1] " G23 "!fails"),
    DENSE("ProximalGradientDescent", S1, "alpha:T, l1:T, l2:T, delta:T", "", V23 F F F G23,
          V23 F "f32[]{0} " F G23, "var:f64[4] f64[]@0.1:1 f64[]@0.1:1 f64[]@0.1:1 f64[4]"),
    SPARSE("ProximalGradientDescent", S1, "alpha:T, l1:T, l2:T, grad:T, indices:Tindices", "",
           V5 F F F G5, V5 F F F "f32[1,2] i64[1]{5} !fails"),
    DENSE("Momentum", ACCUM, "lr:T, grad:T, momentum:T", NESTEROV, V23 V23 F G23 F,
          V23 V23 F G23 F "; use_nesterov=true", "var:f64[3] var:f64[3] f64[] f64[3] f64[]",
          "var:bf16[3] var:bf16[3] bf16[] bf16[3] bf16[] !tol:0.05",
          V23 "var:f32[2] " F G23 F "!fails"),
    SPARSE("Momentum", ACCUM, "lr:T, grad:T, indices:Tindices, momentum:T", NESTEROV, V5 V5 F G5 F,
           V5 V5 F G5 F "; use_nesterov=true", V5 V5 F "f32[0,2] i32[0] " F,
           V5 V5 F "f32[2,3] i32[2]{0,1} " F "!fails", V5 V5 F "f32[2,2] i32[2]{0,-1} " F "!fails"),
    ON_RESOURCE("ApplyKerasMomentum", ACCUM, "lr:T, grad:T, momentum:T", DENSE_ATTRS, NESTEROV,
                mf_split_update, V23 V23 F G23 F, V23 V23 F G23 F "; use_nesterov=true"),
    ON_RESOURCE("SparseApplyKerasMomentum", ACCUM, "lr:T, grad:T, indices:Tindices, momentum:T",
                SPARSE_ATTRS, NESTEROV, mf_rule_sparse_split, V5 V5 F G5 F),
    DENSE("Adam", MOMENTS,
          "beta1_power:T, beta2_power:T, lr:T, beta1:T, beta2:T, epsilon:T, grad:T", NESTEROV,
          V23 V23 P23 F F F F F F G23, V23 V23 P23 F F F F F F G23 "; use_nesterov=true",
          V23 V23 V5 F F F F F F G23 "!fails"),
    ON_RESOURCE("ApplyAdamWithAmsgrad", AMSGRAD,
                "beta1_power:T, beta2_power:T, lr:T, beta1:T, beta2:T, epsilon:T, grad:T",
                DENSE_ATTRS, "", mf_split_update, V23 V23 P23 P23 F F F F F F G23),
    DENSE("AdaMax", MOMENTS, "beta1_power:T, lr:T, beta1:T, beta2:T, epsilon:T, grad:T", "",
          V23 V23 P23 F F F F F G23),
    DENSE("Adagrad", ACCUM, "lr:T, grad:T", UPDATE_SLOTS, V23 P23 F G23,
          V23 P23 F G23 "; update_slots=false"),
    SPARSE("Adagrad", ACCUM, "lr:T, grad:T, indices:Tindices", UPDATE_SLOTS, V5 P5 F G5,
           V5 P5 F G5 "; update_slots=false", "var:f32[] var:f32[] " F "f32[] i32[1]{0} !fails"),
    DENSE("AdagradV2", ACCUM, "lr:T, epsilon:T, grad:T", UPDATE_SLOTS, V23 P23 F F G23,
          V23 P23 F F G23 "; update_slots=false"),
    SPARSE("AdagradV2", ACCUM, "lr:T, epsilon:T, grad:T, indices:Tindices", UPDATE_SLOTS,
           V5 P5 F F G5),
    DENSE("AdagradDA", DUAL, "grad:T, lr:T, l1:T, l2:T, global_step:int64", "",
          V23 V23 P23 G23 F F F "i64[]{3}", V23 V23 P23 G23 F "f32[]{0} " F "i64[]{1}"),
    SPARSE("AdagradDA", DUAL, "grad:T, indices:Tindices, lr:T, l1:T, l2:T, global_step:int64", "",
           V5 V5 P5 G5 F F F "i64[]{3}"),
    DENSE("ProximalAdagrad", ACCUM, "lr:T, l1:T, l2:T, grad:T", "", V23 P23 F F F G23,
          V23 P23 F "f32[]{0} " F G23),
    SPARSE("ProximalAdagrad", ACCUM, "lr:T, l1:T, l2:T, grad:T, indices:Tindices", "",
           V5 P5 F F F G5),
    DENSE("Adadelta", DELTA, "lr:T, rho:T, epsilon:T, grad:T", "", V23 P23 P23 F F F G23),
    SPARSE("Adadelta", DELTA, "lr:T, rho:T, epsilon:T, grad:T, indices:Tindices", "",
           V5 P5 P5 F F F G5),
    DENSE("RMSProp", RMS, "lr:T, rho:T, momentum:T, epsilon:T, grad:T", "",
          V23 P23 V23 F F F F G23),
    SPARSE("RMSProp", RMS, "lr:T, rho:T, momentum:T, epsilon:T, grad:T, indices:Tindices", "",
           V5 P5 V5 F F F F G5),
    DENSE("CenteredRMSProp", CENTERED, "lr:T, rho:T, momentum:T, epsilon:T, grad:T", "",
          V23 "var:f32[2,3]@0:0.1 var:f32[2,3]@2:3 " V23 F F F F G23),
    SPARSE("CenteredRMSProp", CENTERED,
           "lr:T, rho:T, momentum:T, epsilon:T, grad:T, indices:Tindices", "",
           V5 "var:f32[5,2]@0:0.1 var:f32[5,2]@2:3 " V5 F F F F G5),
    DENSE("Ftrl", LINEAR, "grad:T, lr:T, l1:T, l2:T, lr_power:T", TIMES_LR,
          V23 P23 V23 G23 F F F "f32[]{-0.5}", V23 P23 V23 G23 F F F "f32[]{-0.7}",
          V23 P23 V23 G23 F F F "f32[]{-0.5} ; multiply_linear_by_lr=true"),
    SPARSE("Ftrl", LINEAR, "grad:T, indices:Tindices, lr:T, l1:T, l2:T, lr_power:T", TIMES_LR,
           V5 P5 V5 G5 F F F "f32[]{-0.5}"),
    DENSE("FtrlV2", LINEAR, "grad:T, lr:T, l1:T, l2:T, l2_shrinkage:T, lr_power:T", TIMES_LR,
          V23 P23 V23 G23 F F F F "f32[]{-0.5}", V23 P23 V23 G23 F F F F "f32[]{-0.7}"),
    SPARSE("FtrlV2", LINEAR,
           "grad:T, indices:Tindices, lr:T, l1:T, l2:T, l2_shrinkage:T, lr_power:T", TIMES_LR,
           V5 P5 V5 G5 F F F F "f32[]{-0.5}"),
    DENSE("AddSign", SIGNED, "lr:T, alpha:T, sign_decay:T, beta:T, grad:T", "",
          V23 V23 F F F F G23),
    DENSE("PowerSign", SIGNED, "lr:T, logbase:T, sign_decay:T, beta:T, grad:T", "",
          V23 V23 F F F F G23),
    { 0 },
};
