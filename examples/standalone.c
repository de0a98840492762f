/* SPDX-License-Identifier: Apache-2.0 */
/* standalone.c - a cluster in one process, as threads without sockets: a variable on a parameter
 * server,
 * used by two workers.
 *
 *   cc standalone.c $(pkg-config --cflags --libs meshflow) */
#include <meshflow/meshflow.h>

#include <stdio.h>

int main(void)
{
    static const char *const set = "set", *const y = "y";
    mf_local_cluster *c = NULL;
    mf_session *s = NULL;
    mf_tensor *t = NULL;
    mf_graph *g;
    mf_status st = mf_graph_new(&g);
    mf_output v =
        mf_applyf(g, "VarHandleOp", MF_NO_IN, "dtype=float shape=shape[] device='/job:ps'");
    mf_output two = mf_scalar(g, MF_DTYPE_F32, 2);

    mf_applyf(g, "AssignVariableOp", MF_IN(v, two), "name='set'");
    v = mf_applyf(g, "ReadVariableOp", MF_IN(v), "dtype=float");
    mf_applyf(g, "Mul", MF_IN(v, two), "name='y' device='/job:worker/task:1'");
    if (st == MF_OK && (st = mf_local_cluster_new(
                            "worker=2,ps=1", &(mf_server_options){ .inside = true }, &c)) == MF_OK)
        st = mf_session_new(
            g, &(mf_session_options){ .target = mf_local_cluster_target(c, "worker", 0) }, &s);
    if (st == MF_OK &&
        (st = mf_session_run(s, NULL, NULL, NULL, 0, NULL, 0, &set, 1, NULL)) == MF_OK)
        st = mf_session_run(s, NULL, NULL, NULL, 0, &y, 1, NULL, 0, &t);
    if (st == MF_OK)
        printf("%g\n", (double)*(const float *)mf_tensor_data(t));
    else
        fprintf(stderr, "%s\n", mf_error_message());
    mf_tensor_free(t);
    mf_session_free(s);
    mf_local_cluster_free(c);
    mf_graph_free(g);
    return st != MF_OK;
}
