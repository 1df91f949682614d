// http: requests in, replies out: the only file that knows libmicrohttpd.
// In: rows of endpoints, and what may be asked by whom. Out: each request as an Exchange to its endpoint's function, each
// reply whole or as a stream. Every connection has a thread of its own, so that an endpoint may wait.
// Invariant: a request is handed over only when it is whole, within its limits, and allowed; a path is compared with the
// rows and with nothing else. Every refusal is JSON in OpenAI's form.
// Example: TRY(http_open(&h, &options, err)); … http_quiesce(h); … http_close(h);
#pragma once
#include <jansson.h>
#include <stdatomic.h>
#include "app/endpoints.h"
#include "base/error.h"
#include "base/text.h"
#include "base/vec.h"

typedef struct Http Http;

// The next part of a streamed reply, appended to out; may wait. False: that was all.
typedef bool StreamNext(void *stream, TextBuilder *out);
typedef struct HttpHeader { const char *name, *value; } HttpHeader;

struct Exchange {
    Arena *arena;                       // dies with the exchange
    void *server;                       // HttpOptions.server
    const Endpoint *endpoint;
    Text body;
    Text rest;                          // of the path, where the row ends with /
    int fd;                             // the connection's socket, to see whether the asker is there

    // the reply
    int status;                         // 0: none yet
    const char *content_type;
    Text content;                       // must live as long as the arena
    VEC(HttpHeader) headers;
    StreamNext *next;                   // NULL: content is all
    void *stream;
    void (*close)(void *stream);        // called once after the stream's end, however it ends; may be NULL

    // http's own
    TextBuilder received, pending;
    size_t discarded, sent;             // of pending
    bool is_over;
    uint64_t begun_us;
};

typedef struct HttpOptions {
    const char *host;                   // a name or an address
    int port;                           // 0: the system chooses
    bool is_open_to_all;                // --no-auth: no key is asked for, whatever host says
    const char *const *keys;            // any of them opens; NULL-terminated, empty: none is asked for
    const char *cors;                   // an origin, or "*"; NULL: pages of other origins get nothing
    const char *certificate, *private_key;   // PEM texts; NULL: no TLS
    size_t most_body_bytes;
    int idle_s;                         // a connection that sends and receives nothing for so long is closed
    int body_s;                         // a body must be there after so long
    void *server;
    const atomic_bool *is_open;         // while false, what needs a key or a model (Endpoint.needs_key) gets a 503; NULL: open
    void (*done)(void *server, const Endpoint *endpoint, int status);   // counts; endpoint is NULL where none was found
} HttpOptions;

// Errors: LATHE_BAD_REQUEST where host is beyond this machine and neither keys nor is_open_to_all are there; LATHE_IO.
bool http_open(Http **http, const HttpOptions *options, Error *err) MUST_CHECK;
const char *http_url(const Http *http);           // http://127.0.0.1:8080
void http_quiesce(Http *http);                    // no new connections; those that are open go on
int http_connections(const Http *http);
void http_close(Http *http);                      // waits for endpoints that still run

// ---- replies

void reply_json(Exchange *x, int status, json_t *value);      // takes the reference
void reply_text(Exchange *x, int status, const char *content_type, Text content);
void reply_stream(Exchange *x, const char *content_type, StreamNext *next, void *stream, void (*close)(void *stream));
void reply_header(Exchange *x, const char *name, const char *value);
// {"error": {"message", "type", "param", "code"}}; returns false, for return refuse(…). param and code may be NULL.
bool refuse(Exchange *x, int status, const char *code, const char *param, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
json_t *error_object(int status, const char *code, const char *param, const char *message);
json_t *error_anthropic(int status, const char *message);
// JSON text on the arena; reals with 9 digits.
Text json_text(Arena *arena, const json_t *value);
