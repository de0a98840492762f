/* SPDX-License-Identifier: Apache-2.0 */
/* replica.c - decodes, runs, encodes. An invalid request gets its error; the other requests of the
 * run get their answers. */
#include "serving/replica.h"

#include "base/log.h"
#include "base/mem.h"
#include "serving/replica_frame.h"

typedef struct replica_waiting {
    mf_serve_request request;
    int status; /* HTTP status: 200 until an error */
    mf_buf answer; /* the body of the error */
} replica_waiting;

typedef struct replica_state {
    const mf_serve_model *what;
    int fd;
    mf_served *served; /* NULL: no version is loaded yet */
    replica_waiting *run;
    int64_t n, cap;
    mf_buf body;
} replica_state;

int mf_serve_http_status(mf_status st)
{
    switch (st) {
    case MF_OK:
        return 200;
    case MF_INVALID_ARGUMENT:
    case MF_OUT_OF_RANGE:
    case MF_DATA_LOSS:
        return 400;
    case MF_NOT_FOUND:
        return 404;
    case MF_RESOURCE_EXHAUSTED:
    case MF_UNAVAILABLE:
        return 503;
    default:
        return 500;
    }
}

static void replica_refuse(replica_waiting *w, mf_status st)
{
    w->status = mf_serve_http_status(st);
    mf_buf_clear(&w->answer);
    mf_serve_error_encode(mf_error_message(), &w->answer);
}

static mf_status replica_add_request(replica_state *r, const mf_serve_head *head)
{
    replica_waiting *w;
    mf_status st;

    MF_TRY(mf_grow(&r->run, &r->cap, r->n + 1, sizeof *r->run));
    w = &r->run[r->n++];
    *w = (replica_waiting){ .status = 200 };
    if (!r->served)
        st = MF_FAIL(MF_UNAVAILABLE, "no model is loaded");
    else
        st = mf_serve_request_decode(mf_served_signature(r->served), (mf_serve_verb)head->detail,
                                     r->body.data, r->body.len, &w->request);
    if (st != MF_OK)
        replica_refuse(w, st);
    return MF_OK;
}

/* Runs the requests that have no error yet. */
static mf_status run_these(replica_state *r, int64_t from, int64_t to, mf_tensor *output)
{
    const mf_serve_request **requests = mf_calloc(to - from, sizeof *requests);
    mf_status st = requests ? MF_OK : MF_NOMEM("a run");
    int n = 0;

    for (int64_t i = from; st == MF_OK && i < to; i++) {
        if (r->run[i].status == 200)
            requests[n++] = &r->run[i].request;
    }
    if (st == MF_OK && n > 0)
        st = mf_served_run(r->served, requests, n, output);
    mf_free(requests);
    return st;
}

/* After a failure each request runs alone: an index beyond a table is the error of one request. */
static mf_status replica_answer(replica_state *r, int64_t from, int64_t to)
{
    const mf_serve_signature *s = r->served ? mf_served_signature(r->served) : NULL;
    mf_tensor output = { 0 };
    mf_status failed = run_these(r, from, to, &output), st = MF_OK;
    int64_t row = 0;

    if (failed != MF_OK && to - from > 1) {
        for (int64_t i = from; st == MF_OK && i < to; i++)
            st = replica_answer(r, i, i + 1);
        return st;
    }
    for (int64_t i = from; st == MF_OK && i < to; i++) {
        replica_waiting *w = &r->run[i];

        if (w->status == 200 && failed != MF_OK) {
            replica_refuse(w, failed);
        } else if (w->status == 200) {
            mf_serve_answer_encode(s, &w->request, &output, row, &w->answer);
            row += w->request.rows;
        }
        if (w->answer.failed)
            replica_refuse(w, MF_NOMEM("an answer"));
        st = mf_serve_frame_write(r->fd, MF_SERVE_ANSWER, w->status, w->answer.data, w->answer.len);
    }
    mf_tensor_clear(&output);
    return st;
}

static mf_status replica_run(replica_state *r)
{
    const mf_status st = replica_answer(r, 0, r->n);

    for (int64_t i = 0; i < r->n; i++) {
        mf_serve_request_deinit(&r->run[i].request);
        mf_buf_deinit(&r->run[i].answer);
    }
    r->n = 0;
    return st;
}

/* The old model is kept until the new one has answered a warm-up request. */
static mf_status replica_load(replica_state *r, const mf_serve_head *head)
{
    mf_served *next;
    const mf_status st = mf_served_new(r->what, r->body.data, &next);
    const char *why = mf_error_message();

    if (st != MF_OK)
        return mf_serve_frame_write(r->fd, MF_SERVE_LOADED, head->detail, why, strlen(why) + 1);
    mf_served_free(r->served);
    r->served = next;
    return mf_serve_frame_write(r->fd, MF_SERVE_LOADED, head->detail, NULL, 0);
}

static mf_status replica_take(replica_state *r)
{
    mf_serve_head head;

    MF_TRY(mf_serve_frame_read(r->fd, &head, &r->body));
    switch (head.kind) {
    case MF_SERVE_REQUEST:
        return replica_add_request(r, &head);
    case MF_SERVE_RUN:
        return replica_run(r);
    case MF_SERVE_LOAD:
        return replica_load(r, &head);
    default:
        return MF_FAIL(MF_INTERNAL, "frame of kind %llu", (unsigned long long)head.kind);
    }
}

int mf_replica_main(const mf_serve_model *what, int fd)
{
    replica_state r = { .what = what, .fd = fd };
    mf_status st = MF_OK;

    while (st == MF_OK)
        st = replica_take(&r);
    if (st != MF_UNAVAILABLE)
        MF_WARN("the replica ends: %s", mf_error_message());
    mf_served_free(r.served);
    mf_free(r.run);
    mf_buf_deinit(&r.body);
    return st == MF_UNAVAILABLE ? 0 : 1;
}
