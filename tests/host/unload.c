/* SPDX-License-Identifier: Apache-2.0 */
/* unload.c - a host program that opens the library, and closes it while a session still has
 * threads.
 *
 *     unload LIBRARY */
#include <meshflow/meshflow.h>

#include <dlfcn.h>
#include <stdio.h>

enum { ROUNDS = 3 };

#define FIND(function)                                                                             \
    __typeof__(&function) call_##function = (__typeof__(&function))dlsym(library, #function)

/* 0: the graph of one constant was run. */
static int run_in(void *library)
{
    FIND(mf_graph_new);
    FIND(mf_graph_free);
    FIND(mf_scalar);
    FIND(mf_session_new);
    FIND(mf_session_run);
    FIND(mf_tensor_data);
    FIND(mf_tensor_free);
    const char *fetch = "Const:0";
    mf_tensor *result = NULL;
    mf_session *session;
    mf_graph *graph;
    int wrong;

    if (call_mf_graph_new(&graph) != MF_OK)
        return 1;
    (void)call_mf_scalar(graph, MF_DTYPE_F32, 0.5);
    if (call_mf_session_new(graph, &(mf_session_options){ .threads = 3 }, &session) != MF_OK ||
        call_mf_session_run(session, NULL, NULL, NULL, 0, &fetch, 1, NULL, 0, &result) != MF_OK)
        return 1;
    wrong = *(const float *)call_mf_tensor_data(result) != 0.5F;
    call_mf_tensor_free(result);
    call_mf_graph_free(graph);
    return wrong; /* the session stays */
}

int main(int argc, char **argv)
{
    for (int i = 0; argc == 2 && i < ROUNDS; i++) {
        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);

        if (!library || run_in(library) != 0 || dlclose(library) != 0) {
            fprintf(stderr, "round %d: %s\n", i, library ? "a call has failed" : dlerror());
            return 1;
        }
        library = dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD);
        if (!library) {
            fprintf(stderr, "the library was unloaded while threads of it still run\n");
            return 1;
        }
        dlclose(library);
    }
    return argc == 2 ? 0 : 2;
}
