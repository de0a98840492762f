/* SPDX-License-Identifier: Apache-2.0 */
/* rest_routes.c - the paths and their answers.
 *
 *     POST /v1/models/NAME[/versions/V]:predict|:classify|:regress
 *     GET  /v1/models/NAME[/versions/V][/metadata]
 *     GET  /healthz, /metrics (/monitoring/prometheus/metrics) */
#include "base/clock.h"
#include "base/mem.h"
#include "serving/front.h"

#include <event2/keyvalq_struct.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- answers ---- */

/* The client disconnects before it has received the whole answer. */
static void on_closed_early(struct evhttp_connection *connection, void *arg)
{
    (void)connection;
    ((mf_front *)arg)->unsent--;
}

static void rest_routes_on_sent(struct evhttp_request *http, void *arg)
{
    struct evhttp_connection *connection = evhttp_request_get_connection(http);

    if (connection)
        evhttp_connection_set_closecb(connection, NULL, NULL);
    ((mf_front *)arg)->unsent--;
}

static void rest_routes_send_answer(mf_front *f, struct evhttp_request *http, int status,
                                    const char *type, const void *body, size_t len)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(http);
    struct evbuffer *out = evhttp_request_get_output_buffer(http);
    struct evhttp_connection *connection = evhttp_request_get_connection(http);
    char length[24];

    (void)snprintf(length, sizeof length, "%zu", len);
    (void)evhttp_add_header(headers, "Content-Type", type);
    (void)evhttp_add_header(headers, "Content-Length", length);
    if (status == 503)
        (void)evhttp_add_header(headers, "Retry-After", "1");
    if (f->stop_ns) /* else busy clients would keep the server running */
        (void)evhttp_add_header(headers, "Connection", "close");
    if (status == 405)
        (void)evhttp_add_header(headers, "Allow", "GET, POST");
    if (evhttp_request_get_command(http) != EVHTTP_REQ_HEAD)
        (void)evbuffer_add(out, body, len);
    f->unsent++;
    evhttp_request_set_on_complete_cb(http, rest_routes_on_sent, f);
    if (connection) {
        evhttp_connection_set_closecb(connection, on_closed_early, f);
        (void)bufferevent_enable(evhttp_connection_get_bufferevent(connection), EV_READ | EV_WRITE);
    }
    evhttp_send_reply(http, status, NULL, NULL);
}

static void send_json(mf_front *f, struct evhttp_request *http, int status, mf_buf *body)
{
    rest_routes_send_answer(f, http, status, "application/json", body->data, body->len);
    mf_buf_deinit(body);
}

static void send_error(mf_front *f, struct evhttp_request *http, int status, const char *message)
{
    mf_buf body = { 0 };

    mf_serve_error_encode(message, &body);
    mf_serve_count(f, NULL, status);
    send_json(f, http, status, &body);
}

void mf_serve_answer(mf_serve_call *c, int status, const void *body, size_t len)
{
    mf_front *f = c->front;

    f->n_calls--;
    mf_serve_count(f, c, status);
    if (c->http)
        rest_routes_send_answer(f, c->http, status, "application/json", body, len);
    evbuffer_free(c->body);
    mf_free(c);
}

void mf_serve_answer_error(mf_serve_call *c, int status, const char *message)
{
    mf_buf body = { 0 };

    mf_serve_error_encode(message, &body);
    mf_serve_answer(c, status, body.data, body.len);
    mf_buf_deinit(&body);
}

/* ---- a request for the model ---- */

static void on_client_closed(struct evhttp_connection *connection, void *arg)
{
    (void)connection;
    ((mf_serve_call *)arg)->http = NULL; /* libevent frees it */
}

static void rest_routes_add_call(mf_front *f, struct evhttp_request *http, mf_serve_verb verb,
                                 int64_t version)
{
    struct evhttp_connection *connection = evhttp_request_get_connection(http);
    mf_serve_call *c = mf_calloc(1, sizeof *c);
    struct evbuffer *body = evbuffer_new();

    if (!c || !body || evbuffer_add_buffer(body, evhttp_request_get_input_buffer(http)) != 0) {
        mf_free(c);
        if (body)
            evbuffer_free(body);
        send_error(f, http, 503, "not enough memory for this request");
        return;
    }
    *c = (mf_serve_call){ .front = f,
                          .http = http,
                          .body = body,
                          .verb = verb,
                          .version = version,
                          .since_ns = mf_clock_ns() };
    /* Do not read the client's next request yet: libevent 2.1 mixes it up with this answer. */
    (void)bufferevent_disable(evhttp_connection_get_bufferevent(connection), EV_READ);
    evhttp_connection_set_closecb(connection, on_client_closed, c);
    TAILQ_INSERT_TAIL(&f->queue, c, link);
    f->n_queue++;
    f->n_calls++;
    f->queue_bytes += (int64_t)evbuffer_get_length(body);
    mf_serve_dispatch(f);
}

static void take_request(mf_front *f, struct evhttp_request *http, const char *verb,
                         int64_t version)
{
    static const char *const verbs[] = { "predict", "classify", "regress" };
    const int64_t len = (int64_t)evbuffer_get_length(evhttp_request_get_input_buffer(http));
    char message[160];

    for (int i = 0; i < MF_COUNT(verbs); i++) {
        if (strcmp(verb, verbs[i]) != 0)
            continue;
        if (evhttp_request_get_command(http) != EVHTTP_REQ_POST)
            send_error(f, http, 405, "requests for the model are sent with POST");
        else if (f->over)
            send_error(f, http, 503, "the server is shutting down");
        else if (f->n_queue >= f->o->queue || f->queue_bytes + len > 16 * f->o->max_body)
            send_error(f, http, 503, "too many requests are waiting; try again later");
        else
            rest_routes_add_call(f, http, (mf_serve_verb)i, version);
        return;
    }
    (void)snprintf(message, sizeof message,
                   "there is no method ':%.40s'; use :predict, :classify or :regress", verb);
    send_error(f, http, 404, message);
}

/* ---- paths that need no model ---- */

static void add_status(mf_buf *out, int64_t version, const char *state, const char *code,
                       const char *why)
{
    mf_buf_printf(out,
                  "%s{\"version\": \"%lld\", \"state\": \"%s\", \"status\": {\"error_code\": "
                  "\"%s\", \"error_message\": ",
                  out->data && strchr(out->data, '}') ? ", " : "", (long long)version, state, code);
    mf_buf_json(out, why, strlen(why));
    mf_buf_str(out, "}}");
}

static bool is_available(const mf_front *f, int64_t version)
{
    for (int i = 0; i < f->o->replicas; i++) {
        if (f->replicas[i].version == version)
            return true;
    }
    return false;
}

static void send_status(mf_front *f, struct evhttp_request *http, int64_t version)
{
    mf_buf out = { 0 };

    mf_buf_str(&out, "{\"model_version_status\": [");
    if (version == MF_ANY_VERSION || version == f->good.number)
        add_status(&out, f->good.number, is_available(f, f->good.number) ? "AVAILABLE" : "LOADING",
                   "OK", "");
    else if (is_available(f, version))
        add_status(&out, version, "UNLOADING", "OK", "");
    if (f->bad.checkpoint && f->bad.number != f->good.number &&
        (version == MF_ANY_VERSION || version == f->bad.number))
        add_status(&out, f->bad.number, "END", "UNKNOWN", f->bad_why);
    if (f->next.checkpoint && (version == MF_ANY_VERSION || version == f->next.number))
        add_status(&out, f->next.number, "LOADING", "OK", "");
    mf_buf_str(&out, "]}\n");
    mf_serve_count(f, NULL, 200);
    send_json(f, http, 200, &out);
}

static void send_metadata(mf_front *f, struct evhttp_request *http)
{
    mf_buf out = { 0 };

    mf_serve_signature_metadata(&f->signature, f->o->name, f->good.number, &out);
    mf_serve_count(f, NULL, 200);
    send_json(f, http, 200, &out);
}

static void send_health(mf_front *f, struct evhttp_request *http)
{
    const bool well = is_available(f, f->good.number) && !f->stop_ns;

    rest_routes_send_answer(f, http, well ? 200 : 503, "text/plain", well ? "ok\n" : "not ready\n",
                            well ? 3 : 10);
}

static void send_metrics(mf_front *f, struct evhttp_request *http)
{
    mf_buf out = { 0 };

    mf_serve_metrics_print(f, &out);
    rest_routes_send_answer(f, http, 200, "text/plain; version=0.0.4", out.data, out.len);
    mf_buf_deinit(&out);
}

/* ---- paths ---- */

/* "/versions/3" -> 3, and *path advances. False: not a number. */
static bool take_version(const char **path, int64_t *version)
{
    static const char versions[] = "/versions/";
    char *end;

    *version = MF_ANY_VERSION;
    if (strncmp(*path, versions, sizeof versions - 1) != 0)
        return true;
    *path += sizeof versions - 1;
    *version = strtoll(*path, &end, 10);
    if (end == *path || **path < '0' || **path > '9' || *version < 0)
        return false;
    *path = end;
    return true;
}

static void send_unknown(mf_front *f, struct evhttp_request *http)
{
    mf_buf message = { 0 };

    mf_buf_printf(&message, "there is no such path; the model is /v1/models/%s", f->o->name);
    send_error(f, http, 404, message.data ? message.data : "there is no such path");
    mf_buf_deinit(&message);
}

/* The path after /v1/models/NAME. */
static void route_model(mf_front *f, struct evhttp_request *http, const char *rest)
{
    int64_t version;
    char message[100];

    if (!take_version(&rest, &version)) {
        send_error(f, http, 400, "a version is a whole number: /versions/3");
        return;
    }
    if (version != MF_ANY_VERSION && !mf_serve_has_version(f, version) &&
        !(f->bad.checkpoint && version == f->bad.number && !*rest)) {
        (void)snprintf(message, sizeof message, "version %lld is not served, but %lld is",
                       (long long)version, (long long)f->good.number);
        send_error(f, http, 404, message);
        return;
    }
    if (*rest == ':')
        take_request(f, http, rest + 1, version);
    else if (*rest && strcmp(rest, "/metadata") != 0)
        send_unknown(f, http);
    else if (evhttp_request_get_command(http) != EVHTTP_REQ_GET &&
             evhttp_request_get_command(http) != EVHTTP_REQ_HEAD)
        send_error(f, http, 405, "this path answers GET; requests for the model go to ...:predict");
    else if (*rest)
        send_metadata(f, http);
    else
        send_status(f, http, version);
}

void mf_serve_route(struct evhttp_request *http, void *arg)
{
    static const char models[] = "/v1/models/";
    mf_front *f = arg;
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(http));
    const size_t n = strlen(f->o->name);

    if (!path)
        path = "";
    if (strcmp(path, "/healthz") == 0) {
        send_health(f, http);
    } else if (strcmp(path, "/metrics") == 0 ||
               strcmp(path, "/monitoring/prometheus/metrics") == 0) {
        send_metrics(f, http);
    } else if (strncmp(path, models, sizeof models - 1) == 0) {
        const char *name = path + sizeof models - 1;

        if (strncmp(name, f->o->name, n) == 0 && (!name[n] || name[n] == '/' || name[n] == ':'))
            route_model(f, http, name + n);
        else
            send_unknown(f, http);
    } else {
        send_unknown(f, http);
    }
}
