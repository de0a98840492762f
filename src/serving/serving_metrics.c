/* SPDX-License-Identifier: Apache-2.0 */
/* serving_metrics.c - counters in the Prometheus text format. */
#include "base/clock.h"
#include "serving/front.h"

static const double bounds[MF_SERVE_BUCKETS] = { 0.001, 0.002, 0.005, 0.01, 0.02, 0.05,
                                                 0.1,   0.2,   0.5,   1.0,  2.0,  5.0 };

void mf_serve_count(mf_front *f, const mf_serve_call *c, int status)
{
    mf_serve_metrics *m = &f->metrics;
    double seconds;

    if (status >= 0 && status < MF_SERVE_CODES)
        m->codes[status]++;
    if (!c)
        return;
    seconds = 1e-9 * (double)(mf_clock_ns() - c->since_ns);
    m->answers++;
    m->seconds += seconds;
    for (int i = 0; i < MF_SERVE_BUCKETS; i++)
        m->buckets[i] += seconds <= bounds[i];
}

static void serving_metrics_add(mf_buf *out, const char *name, const char *type, const char *help,
                                int64_t value)
{
    mf_buf_printf(out, "# HELP meshflow_serve_%s %s\n# TYPE meshflow_serve_%s %s\n", name, help,
                  name, type);
    mf_buf_printf(out, "meshflow_serve_%s %lld\n", name, (long long)value);
}

static void add_requests(const mf_serve_metrics *m, mf_buf *out)
{
    mf_buf_str(out, "# HELP meshflow_serve_requests_total Requests by status.\n# TYPE "
                    "meshflow_serve_requests_total counter\n");
    for (int i = 0; i < MF_SERVE_CODES; i++) {
        if (m->codes[i] > 0)
            mf_buf_printf(out, "meshflow_serve_requests_total{code=\"%d\"} %lld\n", i,
                          (long long)m->codes[i]);
    }
    mf_buf_str(out, "# HELP meshflow_serve_seconds Time from request to answer.\n"
                    "# TYPE meshflow_serve_seconds histogram\n");
    for (int i = 0; i < MF_SERVE_BUCKETS; i++)
        mf_buf_printf(out, "meshflow_serve_seconds_bucket{le=\"%g\"} %lld\n", bounds[i],
                      (long long)m->buckets[i]);
    mf_buf_printf(out, "meshflow_serve_seconds_bucket{le=\"+Inf\"} %lld\n", (long long)m->answers);
    mf_buf_printf(out, "meshflow_serve_seconds_sum %.9g\nmeshflow_serve_seconds_count %lld\n",
                  m->seconds, (long long)m->answers);
}

void mf_serve_metrics_print(const mf_front *f, mf_buf *out)
{
    const mf_serve_metrics *m = &f->metrics;
    int64_t ready = 0;

    for (int i = 0; i < f->o->replicas; i++)
        ready += f->replicas[i].version >= 0;
    add_requests(m, out);
    serving_metrics_add(out, "runs_total", "counter", "Runs of the model.", m->runs);
    serving_metrics_add(out, "run_requests_total", "counter", "Requests answered by runs.",
                        m->joined);
    serving_metrics_add(out, "queued", "gauge", "Requests waiting for a replica.", f->n_queue);
    serving_metrics_add(out, "replicas", "gauge", "Replicas that are ready.", ready);
    serving_metrics_add(out, "replica_deaths_total", "counter", "Replicas that were replaced.",
                        m->crashes);
    serving_metrics_add(out, "retries_total", "counter",
                        "Requests retried after the death of their replica.", m->retries);
    serving_metrics_add(out, "version", "gauge", "The version served.", f->good.number);
    serving_metrics_add(out, "reloads_total", "counter", "Newer versions loaded.", m->reloads);
    serving_metrics_add(out, "failed_reloads_total", "counter",
                        "Versions that could not be loaded.", m->failed_reloads);
}
