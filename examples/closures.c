/* SPDX-License-Identifier: Apache-2.0 */
/* closures.c - a master dispatches calls to workers: the squares of some numbers.
 *
 *   cc closures.c $(pkg-config --cflags --libs meshflow)
 *   meshflow launch --masters 1 --workers 3 -- ./a.out        or a single process: ./a.out */
#include <meshflow/meshflow.h>

#include <stdio.h>

enum { CALLS = 100 };

static mf_status hand_out(mf_dispatch *d, const mf_graph *g, double *sum)
{
    static const char *const x[] = { "x:0" }, *const y[] = { "y:0" };
    mf_future *f[CALLS];
    mf_tensor *t = NULL;
    mf_closure *square;
    mf_status st = mf_closure_new(
        d, &(mf_closure_spec){ .graph = g, .feeds = x, .n_feeds = 1, .fetches = y, .n_fetches = 1 },
        &square);
    int n = 0;

    for (; st == MF_OK && n < CALLS; n++) {
        if ((st = mf_tensor_new(MF_DTYPE_F32, NULL, 0, &t)) != MF_OK)
            break;
        *(float *)mf_tensor_data(t) = (float)n;
        st = mf_dispatch_schedule(d, square, (const mf_tensor *const *)&t, &f[n]);
        mf_tensor_free(t);
    }
    t = NULL;
    for (int i = 0; i < n && st == MF_OK; i++)
        if ((st = mf_future_wait(f[i], -1, &t)) == MF_OK)
            *sum += *(const float *)mf_tensor_data(t);
    for (int i = 0; i < n; i++)
        mf_future_free(f[i]);
    mf_tensor_free(t);
    mf_closure_free(square);
    return st;
}

int main(void)
{
    mf_dispatch *d = NULL;
    double sum = 0;
    mf_graph *g;
    mf_status st = mf_graph_new(&g);
    mf_output x = mf_applyf(g, "Placeholder", MF_NO_IN, "dtype=float shape=shape[] name='x'");

    mf_applyf(g, "Mul", MF_IN(x, x), "name='y'");
    if (st == MF_OK && (st = mf_dispatch_open(NULL, &d)) == MF_OK)
        st = mf_dispatch_is_master(d) ? hand_out(d, g, &sum) : mf_dispatch_serve(d);
    if (st != MF_OK)
        fprintf(stderr, "%s\n", mf_error_message());
    else if (mf_dispatch_is_master(d))
        printf("0^2 + ... + %d^2 = %.0f\n", CALLS - 1, sum);
    mf_dispatch_close(d);
    mf_graph_free(g);
    return st != MF_OK;
}
