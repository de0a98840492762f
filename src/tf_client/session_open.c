/* SPDX-License-Identifier: Apache-2.0 */
/* session_open.c - opens a local or a remote session behind one interface. */
#include "base/host_state.h"
#include "runtime/session.h"
#include "tf_client/remote_session.h"

static bool is_remote(const mf_session_options *options)
{
    return options && options->target && options->target[0];
}

mf_status mf_session_new(const mf_graph *graph, const mf_session_options *options, mf_session **out)
{
    MF_ENTRY;
    MF_NEED(graph, out);

    *out = NULL;
    if (options) {
        MF_NEED_ALL(options->allow_dirs, options->n_allow_dirs);
        MF_NEED_ALL(options->device_filters, options->n_device_filters);
    }
    return is_remote(options) ? mf_remote_new(graph, options, out)
                              : mf_session_new_shared(graph, options, NULL, out);
}

mf_status mf_session_reset(const mf_session_options *options, const char *const *containers,
                           int n_containers)
{
    MF_ENTRY;
    MF_NEED_ALL(containers, n_containers);

    if (!is_remote(options))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "no server given: set options.target to grpc://host:port");
    return mf_remote_reset(options, containers, n_containers);
}

void mf_session_free(mf_session *session)
{
    MF_ENTRY_OR();

    if (session)
        session->kind->free(session);
}

mf_status mf_session_extend(mf_session *session, const mf_graph *graph)
{
    MF_ENTRY;
    MF_NEED(session, graph);

    return session->kind->extend(session, graph);
}

mf_status mf_session_run_with(mf_session *session, const mf_run_options *options,
                              const mf_run_with *with, const char *const *feed_names,
                              const mf_tensor *const *feeds, int n_feeds,
                              const char *const *fetches, int n_fetches, const char *const *targets,
                              int n_targets, mf_tensor **results)
{
    static const mf_run_with nothing;

    return session->kind->run(session, options, with ? with : &nothing, feed_names, feeds, n_feeds,
                              fetches, n_fetches, targets, n_targets, results);
}

mf_status mf_session_run(mf_session *session, const mf_run_options *options,
                         const char *const *feed_names, const mf_tensor *const *feeds, int n_feeds,
                         const char *const *fetches, int n_fetches, const char *const *targets,
                         int n_targets, mf_tensor **results)
{
    MF_ENTRY;
    MF_NEED(session);
    MF_NEED_ALL(feed_names, n_feeds);
    MF_NEED_ALL(feeds, n_feeds);
    MF_NEED_ALL(fetches, n_fetches);
    MF_NEED_ALL(targets, n_targets);
    MF_NEED_ARRAY(results, n_fetches);

    return mf_session_run_with(session, options, NULL, feed_names, feeds, n_feeds, fetches,
                               n_fetches, targets, n_targets, results);
}

mf_status mf_session_devices(mf_session *session, mf_device_fn *each, void *ctx)
{
    MF_ENTRY;
    MF_NEED(session);
    MF_NEED_FUNCTION(each);

    MF_CALLBACK;
    return session->kind->devices(session, each, ctx);
}

void mf_session_cancel(mf_session *session)
{
    MF_ENTRY_OR();
    if (!session)
        return;

    session->kind->cancel(session);
}
