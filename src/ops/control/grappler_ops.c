/* SPDX-License-Identifier: Apache-2.0 */
/* grappler_ops.c - ops that clients do not write: a TensorFlow master's optimizer creates them
 * before it sends a graph to a task. Compilation lowers them to the original ops
 * (compiler/lower_grappler_ops.c). */
#include "ops/control/grad_util.h"

static mf_status unknown_infer(mf_infer *in)
{
    (void)in;
    return MF_OK;
}

#define REWRITTEN(NAME, DEF)                                                                       \
    {                                                                                              \
        .name = NAME, .def = DEF, .control = MF_CONTROL_CALL, .infer = unknown_infer,              \
        .grad = mf_grad_missing                                                                    \
    }

#define FUSED                                                                                      \
    "fused_ops:list(string)=[], epsilon:float=9.99999975e-05, "                                    \
    "leakyrelu_alpha:float=0.200000003}"

const mf_op mf_ops_rewritten[] = {
    REWRITTEN("_SwitchN",
              "(data:T, output_index:int32) -> (outputs:num_outs*T) {num_outs:int>=1, T:type}"),
    REWRITTEN("_FusedMatMul",
              "(a:T, b:T, args:num_args*T) -> (product:T) {transpose_a:bool=false, "
              "transpose_b:bool=false, T:type in [bfloat16,half,float], num_args:int>=0, " FUSED),
    REWRITTEN("_FusedConv2D",
              "(input:T, filter:T, args:*TArgs, host_args:num_host_args*float) -> (output:T) "
              "{T:type in [half,float,double,int8,qint8], TArgs:list(type)>=1, num_args:int>=0, "
              "num_host_args:int>=0=0, strides:list(int), "
              "padding:string in ['SAME','VALID','EXPLICIT'], explicit_paddings:list(int)=[], "
              "data_format:string='NHWC' in ['NHWC','NCHW','NCHW_VECT_C'], "
              "filter_format:string='HWIO' in ['HWIO','OIHW','OIHW_VECT_I'], "
              "dilations:list(int)=[1,1,1,1], use_cudnn_on_gpu:bool=true, " FUSED),
    REWRITTEN("_FusedConv3D",
              "(input:T, filter:T, args:num_args*T) -> (output:T) "
              "{T:type in [bfloat16,float,half], num_args:int>=0, strides:list(int)>=5, "
              "padding:string in ['SAME','VALID'], "
              "data_format:string='NDHWC' in ['NDHWC','NCDHW'], dilations:list(int)=[1,1,1,1,1], "
              "padding_list:list(int)=[], " FUSED),
    REWRITTEN("_FusedDepthwiseConv2dNative",
              "(input:T, filter:T, args:num_args*T) -> (output:T) {T:type in floats, "
              "num_args:int>=0, strides:list(int), padding:string in ['SAME','VALID'], "
              "data_format:string='NHWC' in ['NHWC','NCHW'], "
              "dilations:list(int)=[1,1,1,1], " FUSED),
    REWRITTEN("_FusedBatchNormEx",
              "(x:T, scale:U, offset:U, mean:U, variance:U, side_input:num_side_inputs*T) -> "
              "(y:T, batch_mean:U, batch_variance:U, reserve_space_1:U, reserve_space_2:U, "
              "reserve_space_3:U) {T:type in [half,float,bfloat16], U:type in [float], "
              "epsilon:float=9.99999975e-05, exponential_avg_factor:float=1, "
              "num_side_inputs:int>=0=0, activation_mode:string='Identity', "
              "data_format:string='NHWC' in ['NHWC','NCHW'], is_training:bool=true}"),
    REWRITTEN("_UnaryOpsComposition",
              "(x:T) -> (y:T) {T:type in [float,half,double], op_names:list(string)}"),
    REWRITTEN("_TensorToHashBucketFast",
              "(input:T) -> (output:int64) {T:type in ints, num_buckets:int>=1}"),
    REWRITTEN("_MklFusedBatchMatMulV2",
              "(x:T, y:T, args:num_args*T) -> (output:T) {T:type in [bfloat16,float,half], "
              "adj_x:bool=false, adj_y:bool=false, num_args:int>=0, " FUSED),
    REWRITTEN("_MklFusedMish", "(features:T) -> (activations:T) {T:type in [bfloat16,float,half]}"),
    REWRITTEN("_MklSwish",
              "(features:T) -> (activations:T) {T:type=float in [float,bfloat16,half]}"),
    REWRITTEN("_MklLayerNorm", "(x:T, scale:T, offset:T) -> (y:T) "
                               "{T:type in [float,bfloat16,half], epsilon:float=0.00100000005}"),
    { 0 },
};
