// http: see http.h. The road of a request: its head (row, key, origin, length) → its body, piece by piece → the endpoint's
// function → the reply. A refusal that is clear from the head is given when the body has been read and thrown away: who
// still writes would see a broken connection instead of the reason.
// Example: POST /v1/completions without a key → body discarded → 401 {"error": …}
#include "app/http.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"

enum { CONNECTIONS_MAX = 512, HEAD_BYTES = 64 << 10, STACK_BYTES = 8 << 20, PART_BYTES = 32 << 10, SEND_S = 5 };
static const size_t DISCARD_BYTES = (size_t)256 << 20;    // of a body that is too long; then the connection is closed

struct Http {
    struct MHD_Daemon *daemon;
    HttpOptions options;
    bool is_local;                // reachable from this machine only
    atomic_int exchanges;         // begun and not yet sent whole
    int quiesced;                 // the listening socket after http_quiesce, −1 before
    char url[320];
};

// ---- replies

Text json_text(Arena *arena, const json_t *value) {
    char *dumped = json_dumps(value, JSON_REAL_PRECISION(9) | JSON_ENCODE_ANY | JSON_COMPACT);
    Text text = text_copy(arena, text_of(dumped ? dumped : "null"));
    free(dumped);
    return text;
}

void reply_text(Exchange *x, int status, const char *content_type, Text content) {
    x->status = status;
    x->content_type = content_type;
    x->content = content;
}

void reply_json(Exchange *x, int status, json_t *value) {
    reply_text(x, status, "application/json; charset=utf-8", json_text(x->arena, value));
    json_decref(value);
}

void reply_stream(Exchange *x, const char *content_type, StreamNext *next, void *stream, void (*close)(void *stream)) {
    x->status = MHD_HTTP_OK;
    x->content_type = content_type;
    x->next = next;
    x->stream = stream;
    x->close = close;
}

void reply_header(Exchange *x, const char *name, const char *value) {
    vec_push(x->arena, &x->headers, ((HttpHeader){name, value}));
}

static const char *error_type(int status) {
    static const struct {
        int status;
        const char *type;
    } rows[] = {{401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"},
                {413, "request_too_large"}, {429, "rate_limit_error"}, {503, "unavailable_error"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].status == status) return rows[i].type;
    return status >= 500 ? "server_error" : "invalid_request_error";
}

json_t *error_object(int status, const char *code, const char *param, const char *message) {
    Arena *arena = arena_create();
    Text clean = utf8_clean(arena, text_of(message));
    json_t *error = json_pack("{s:{s:s#, s:s, s:s?, s:s?}}", "error", "message", clean.at, (int)clean.len, "type",
                              error_type(status), "param", param, "code", code);
    arena_destroy(arena);
    return error;
}

// {"type": "error", "error": {"type", "message"}}, the form of the other family of clients.
json_t *error_anthropic(int status, const char *message) {
    json_t *plain = error_object(status, NULL, NULL, message), *inner = json_object_get(plain, "error");
    json_t *error = json_pack("{s:s, s:{s:O, s:O}}", "type", "error", "error", "type", json_object_get(inner, "type"),
                              "message", json_object_get(inner, "message"));
    json_decref(plain);
    return error;
}

bool refuse(Exchange *x, int status, const char *code, const char *param, const char *format, ...) {
    char message[1536];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    bool is_other = x->endpoint && x->endpoint->error_form == ERRORS_ANTHROPIC;
    reply_json(x, status, is_other ? error_anthropic(status, message) : error_object(status, code, param, message));
    return false;
}

// ---- who may ask

// Takes as long for a wrong key as for a right one, wherever they differ.
static bool key_equal(const char *key, const char *given) {
    size_t n = strlen(key), m = strlen(given);
    unsigned differs = n != m;
    for (size_t i = 0; i < n; i++) differs |= (unsigned char)key[i] ^ (unsigned char)given[m ? i % m : 0];
    return m > 0 && !differs;
}

static const char *header(struct MHD_Connection *c, const char *name) {
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

static bool key_is_right(const Http *h, struct MHD_Connection *c) {
    const char *const *keys = h->options.keys;
    const char *bearer = header(c, "Authorization"), *plain = header(c, "x-api-key");
    bool is_right = !keys || !keys[0];
    if (bearer) bearer = strncasecmp(bearer, "Bearer ", 7) == 0 ? bearer + 7 : NULL;
    for (int i = 0; keys && keys[i]; i++)
        if ((bearer && key_equal(keys[i], bearer)) || (plain && key_equal(keys[i], plain))) is_right = true;
    return is_right;
}

// The name in "host:port" or "[::1]:port", compared with this machine's own.
static bool host_is_local(const char *host) {
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t n = strlen(names[i]);
        if (strncasecmp(host, names[i], n) == 0 && (host[n] == '\0' || host[n] == ':')) return true;
    }
    return false;
}

// A page of another origin reaches a server on this machine through its reader's browser, with the browser's own Host
// header, or with a name of its own that resolves to this machine. Neither gets anything.
static bool origin_is_allowed(const Http *h, struct MHD_Connection *c) {
    const char *origin = header(c, "Origin"), *host = header(c, "Host"), *cors = h->options.cors;
    bool asks_key = h->options.keys && h->options.keys[0];
    if (!asks_key && h->is_local && host && !host_is_local(host)) return false;
    if (!origin || (cors && (strcmp(cors, "*") == 0 || strcmp(cors, origin) == 0))) return true;
    const char *name = strstr(origin, "://");
    return host && name && strcmp(name + 3, host) == 0;
}

static bool server_is_there(const Http *h, Exchange *x) {
    if (!h->options.is_open || atomic_load(h->options.is_open)) return true;
    reply_header(x, "Retry-After", "1");
    return refuse(x, MHD_HTTP_SERVICE_UNAVAILABLE, "loading", NULL, "the model is being loaded: ask again in a second");
}

static bool head_check(const Http *h, Exchange *x, struct MHD_Connection *c, const char *method, const char *path) {
    const char *other;
    x->endpoint = endpoint_find(method, path, &other);
    if (!origin_is_allowed(h, c))
        return refuse(x, MHD_HTTP_FORBIDDEN, "origin_not_allowed", NULL,
                      "pages of this origin may not ask this server: start it with --cors ORIGIN, or with --api-key where "
                      "it is reached by another name");
    if (!x->endpoint && other) {
        reply_header(x, "Allow", other);
        return refuse(x, MHD_HTTP_METHOD_NOT_ALLOWED, "method_not_allowed", NULL, "%.64s answers %s, not %.16s", path, other,
                      method);
    }
    if (!x->endpoint) return refuse(x, MHD_HTTP_NOT_FOUND, "not_found", NULL, "there is no %.16s %.200s here", method, path);
    if (x->endpoint->needs_key && !key_is_right(h, c)) {
        reply_header(x, "WWW-Authenticate", "Bearer");
        return refuse(x, MHD_HTTP_UNAUTHORIZED, "invalid_api_key", NULL,
                      "the API key is missing or wrong: send it as \"Authorization: Bearer KEY\"");
    }
    if (x->endpoint->needs_key && !server_is_there(h, x)) return false;
    size_t n = strlen(x->endpoint->path);
    if (n > 1 && x->endpoint->path[n - 1] == '/') x->rest = text_copy(x->arena, text_of(path + n));
    return true;
}

// ---- bodies

static bool body_too_long(const Http *h, Exchange *x) {
    return refuse(x, MHD_HTTP_CONTENT_TOO_LARGE, "request_too_large", NULL,
                  "the body is longer than %zu bytes; see lathe serve --max-body", h->options.most_body_bytes);
}

static enum MHD_Result body_take(const Http *h, Exchange *x, const char *data, size_t *n) {
    if (time_us() - x->begun_us > (uint64_t)h->options.body_s * 1000000u) return MHD_NO;
    if (!x->status && x->received.len + *n > h->options.most_body_bytes) body_too_long(h, x);
    if (x->status) x->discarded += *n;
    else builder_append(&x->received, data, *n);
    *n = 0;
    return x->discarded > DISCARD_BYTES ? MHD_NO : MHD_YES;
}

// ---- sending

static ssize_t part_send(void *context, uint64_t position, char *out, size_t most) {
    (void)position;
    Exchange *x = context;
    while (x->sent == x->pending.len) {
        if (x->is_over) return MHD_CONTENT_READER_END_OF_STREAM;
        x->sent = x->pending.len = 0;
        x->is_over = !x->next(x->stream, &x->pending);
    }
    size_t n = x->pending.len - x->sent < most ? x->pending.len - x->sent : most;
    memcpy(out, x->pending.at + x->sent, n);
    x->sent += n;
    return (ssize_t)n;
}

static void cors_headers(const Http *h, struct MHD_Connection *c, struct MHD_Response *r) {
    if (!h->options.cors || !header(c, "Origin")) return;
    MHD_add_response_header(r, "Access-Control-Allow-Origin", h->options.cors);
    MHD_add_response_header(r, "Vary", "Origin");
    MHD_add_response_header(r, "Access-Control-Allow-Headers", "authorization, content-type, x-api-key, anthropic-version");
    MHD_add_response_header(r, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
    MHD_add_response_header(r, "Access-Control-Expose-Headers", "x-lathe-warning, retry-after");
}

static enum MHD_Result reply_send(const Http *h, Exchange *x, struct MHD_Connection *c) {
    struct MHD_Response *r;
    if (x->next) r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PART_BYTES, part_send, x, NULL);
    else r = MHD_create_response_from_buffer(x->content.len, (void *)(uintptr_t)x->content.at, MHD_RESPMEM_PERSISTENT);
    if (!r) return MHD_NO;
    if (x->content_type) MHD_add_response_header(r, "Content-Type", x->content_type);
    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    if (x->next) MHD_add_response_header(r, "Cache-Control", "no-cache");
    for (size_t i = 0; i < x->headers.len; i++) MHD_add_response_header(r, x->headers.at[i].name, x->headers.at[i].value);
    cors_headers(h, c, r);
    enum MHD_Result result = MHD_queue_response(c, (unsigned)x->status, r);
    MHD_destroy_response(r);
    return result;
}

// ---- libmicrohttpd's calls

static Exchange *exchange_begin(Http *h, struct MHD_Connection *c) {
    Arena *arena = arena_create();
    Exchange *x = arena_new(arena, sizeof *x);
    const union MHD_ConnectionInfo *socket = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
    *x = (Exchange){.arena = arena, .server = h->options.server, .fd = socket ? socket->connect_fd : -1,
                    .begun_us = time_us()};
    atomic_fetch_add(&h->exchanges, 1);
    x->received = builder(arena);
    x->pending = builder(arena);
    return x;
}

static bool announces_too_much(const Http *h, struct MHD_Connection *c) {
    const char *length = header(c, "Content-Length");
    return length && strtoull(length, NULL, 10) > h->options.most_body_bytes + DISCARD_BYTES / 4;
}

static enum MHD_Result request_take(void *context, struct MHD_Connection *c, const char *url, const char *method,
                                    const char *version, const char *data, size_t *n, void **state) {
    (void)version;
    Http *h = context;
    Exchange *x = *state;
    if (!x) {
        *state = x = exchange_begin(h, c);
        if (strcmp(method, "OPTIONS") == 0) reply_text(x, MHD_HTTP_NO_CONTENT, NULL, (Text){"", 0});
        else if (head_check(h, x, c, method, url) && announces_too_much(h, c)) {
            body_too_long(h, x);
            return reply_send(h, x, c);
        }
        return MHD_YES;
    }
    if (*n) return body_take(h, x, data, n);
    x->body = builder_view(&x->received);
    if (!x->status) x->endpoint->answer(x);
    if (!x->status) refuse(x, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, NULL, "there was no answer: this is a fault of lathe");
    return reply_send(h, x, c);
}

static void request_end(void *context, struct MHD_Connection *c, void **state, enum MHD_RequestTerminationCode why) {
    (void)c;
    (void)why;
    Http *h = context;
    Exchange *x = *state;
    if (!x) return;
    if (x->close) x->close(x->stream);
    if (h->options.done) h->options.done(h->options.server, x->endpoint, x->status);
    arena_destroy(x->arena);
    *state = NULL;
    atomic_fetch_sub(&h->exchanges, 1);
}

static void log_drop(void *context, const char *format, va_list args) {
    (void)context;
    (void)format;
    (void)args;
}

// ---- life

static bool address_is_local(const struct sockaddr *address) {
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(six);
}

static void url_make(Http *h, const struct sockaddr *address) {
    const union MHD_DaemonInfo *port = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_BIND_PORT);
    bool is_six = address->sa_family == AF_INET6;
    snprintf(h->url, sizeof h->url, "%s://%s%.255s%s:%d", h->options.certificate ? "https" : "http", is_six ? "[" : "",
             h->options.host, is_six ? "]" : "", port ? port->port : h->options.port);
}

static bool daemon_start(Http *h, const struct addrinfo *found, Error *err) {
    const HttpOptions *o = &h->options;
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC |
                     MHD_USE_ERROR_LOG;
    if (found->ai_family == AF_INET6) flags |= MHD_USE_IPv6;
    if (o->certificate) flags |= MHD_USE_TLS;
    struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)o->certificate},
                                   {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)o->private_key},
                                   {MHD_OPTION_END, 0, NULL}};
    if (!o->certificate) tls[0] = tls[2];
    h->daemon = MHD_start_daemon(
        flags, (uint16_t)o->port, NULL, NULL, request_take, h, MHD_OPTION_EXTERNAL_LOGGER, log_drop, NULL,
        MHD_OPTION_NOTIFY_COMPLETED, request_end, h, MHD_OPTION_SOCK_ADDR, found->ai_addr, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)o->idle_s, MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
    if (h->daemon) return true;
    return fail(err, LATHE_IO, "cannot listen at %s, port %d%s", o->host, o->port,
                o->certificate ? ": is the port in use, or are certificate and key no PEM files that belong together?"
                               : ": is another server there? Choose another --port");
}

bool http_open(Http **out, const HttpOptions *options, Error *err) {
    char port[16];
    struct addrinfo *found = NULL, wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM,
                                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    snprintf(port, sizeof port, "%d", options->port);
    int why = getaddrinfo(options->host, port, &wanted, &found);
    if (why != 0) return fail(err, LATHE_BAD_REQUEST, "--host %s: %s", options->host, gai_strerror(why));
    Http *h = calloc(1, sizeof *h);
    if (!h) memory_exhausted(sizeof *h);
    h->options = *options;
    h->quiesced = -1;
    h->is_local = address_is_local(found->ai_addr);
    bool has_key = options->keys && options->keys[0];
    bool ok = h->is_local || has_key || options->is_open_to_all ||
              fail(err, LATHE_BAD_REQUEST,
                   "--host %s lets other machines ask: give --api-key KEY, or --no-auth where everybody may", options->host);
    ok = ok && daemon_start(h, found, err);
    if (ok) url_make(h, found->ai_addr);
    freeaddrinfo(found);
    if (!ok) free(h);
    else *out = h;
    return ok;
}

const char *http_url(const Http *h) {
    return h->url;
}

int http_connections(const Http *h) {
    const union MHD_DaemonInfo *n = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
    return n ? (int)n->num_connections : 0;
}

void http_quiesce(Http *h) {
    if (h->quiesced < 0) h->quiesced = MHD_quiesce_daemon(h->daemon);
}

void http_close(Http *h) {
    if (!h) return;
    http_quiesce(h);
    // Stopping cuts connections off, so what is ready to be sent is sent first.
    for (int i = 0; atomic_load(&h->exchanges) > 0 && i < SEND_S * 100; i++) usleep(10000);
    MHD_stop_daemon(h->daemon);
    if (h->quiesced >= 0) close(h->quiesced);
    free(h);
}
