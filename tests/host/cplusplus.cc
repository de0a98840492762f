// SPDX-License-Identifier: Apache-2.0
// cplusplus.cc - the headers and their macros in C++11.
#include <meshflow/meshflow.h>

#include <cstdio>

int main()
{
    mf_graph *g = nullptr;
    mf_session *s = nullptr;
    mf_tensor *sum = nullptr;
    const char *fetch = "sum:0";

    if (mf_graph_new(&g) != MF_OK)
        return 1;
    const mf_output x = mf_scalar(g, MF_DTYPE_F32, 1.5), y = mf_scalar(g, MF_DTYPE_F32, 2);
    const mf_output z = mf_apply(g, "Mul", MF_IN(x, y));
    (void)mf_applyf(g, "AddV2", MF_IN(z, mf_apply(g, "Neg", MF_IN(y))), "name='sum'");
    (void)mf_applyf(g, "NoOp", MF_NO_IN, "name='nothing'");
    if (mf_session_new(g, nullptr, &s) != MF_OK ||
        mf_session_run(s, nullptr, nullptr, nullptr, 0, &fetch, 1, nullptr, 0, &sum) != MF_OK) {
        std::fprintf(stderr, "%s\n", mf_error_message());
        return 1;
    }
    const float result = *static_cast<const float *>(mf_tensor_data(sum));
    mf_tensor_free(sum);
    mf_session_free(s);
    mf_graph_free(g);
    return result == 1.0F ? 0 : 1;
}
