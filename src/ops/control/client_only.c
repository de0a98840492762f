/* SPDX-License-Identifier: Apache-2.0 */
/* client_only.c - ops that need the client's process: tensors kept in a local session, and Python
 * functions. Graphs that contain them load; running them fails, as on TensorFlow's remote servers.
 */
#include "ops/control/grad_util.h"

static mf_status no_session_state(mf_kernel *k)
{
    const bool get_handle = strncmp(k->node->op_name, "GetSessionHandle", 16) == 0;

    return MF_FAIL(MF_FAILED_PRECONDITION, "%s called on null session state",
                   get_handle ? "GetSessionHandle" : k->node->op_name);
}

static mf_status no_python(mf_kernel *k)
{
    return MF_FAIL(MF_INVALID_ARGUMENT, "ValueError: callback %.100s is not found",
                   mf_node_string(k->node, "token"));
}

#define CLIENT_OP(NAME, DEF, GRAD, RUN, ...)                                                       \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = mf_infer_unknown, .grad = GRAD, .run = RUN,             \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }

const mf_op mf_ops_client_only[] = {
    CLIENT_OP("GetSessionHandle", "(value:T) -> (handle:string) {T:type} is_stateful", mf_grad_none,
              no_session_state, "f32[2] !fails !notf"),
    CLIENT_OP("GetSessionHandleV2", "(value:T) -> (handle:resource) {T:type} is_stateful",
              mf_grad_none, no_session_state, "f32[2] !fails !notf"),
    CLIENT_OP("GetSessionTensor", "(handle:string) -> (value:dtype) {dtype:type} is_stateful",
              mf_grad_none, no_session_state, "str[]{x} ; dtype=float !fails !notf"),
    CLIENT_OP("DeleteSessionTensor", "(handle:string) -> () {} is_stateful", mf_grad_none,
              no_session_state, "str[]{x} !fails !notf"),
    CLIENT_OP("PyFunc",
              "(input:*Tin) -> (output:*Tout) {token:string, Tin:list(type)>=0, "
              "Tout:list(type)>=0} is_stateful",
              mf_grad_none, no_python, "f32[2] ; token='pyfunc_0' Tout=[float] !fails"),
    CLIENT_OP("PyFuncStateless",
              "(input:*Tin) -> (output:*Tout) {token:string, Tin:list(type)>=0, "
              "Tout:list(type)>=0}",
              mf_grad_none, no_python, "f32[2] ; token='pyfunc_0' Tout=[float] !fails"),
    CLIENT_OP("EagerPyFunc",
              "(input:*Tin) -> (output:*Tout) {token:string, is_async:bool=false, "
              "Tin:list(type)>=0, Tout:list(type)>=0} is_stateful",
              mf_grad_missing, no_python, "f32[2] ; token='pyfunc_0' Tout=[float] !fails"),
    { 0 },
};
