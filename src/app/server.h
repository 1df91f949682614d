// server: what every endpoint shares: the model, the queue before it, defaults, counters.
// In: flags. Out: one Server for the life of `lathe serve`. Invariant: after is_open only counters change, so that
// the connections' threads read the rest without a lock.
// Example: static Server *server_of(Exchange *x) …; tokenizer_encode(server_of(x)->tokenizer, …)
#pragma once
#include <stdatomic.h>
#include <time.h>
#include "app/chat_form.h"
#include "app/http.h"
#include "app/loaded.h"
#include "app/scheduler.h"
#include "text/reply_scanner.h"

enum { STATUS_CLASSES = 6 };           // 2xx is class 2, and so on

typedef struct Server {
    Loaded loaded;
    Tokenizer *tokenizer;
    ChatForm *form;
    TokenOrder *token_order;           // for answers that must look like something
    ReplyFormat format;                // how this model writes calls and thinking
    Scheduler *scheduler;
    Http *http;
    atomic_bool is_open;               // all of the above is there; before, http answers that it is not
    const char *name;                  // of the model, in replies
    SamplingOptions sampling;          // where a request says nothing; the seed is drawn anew for each
    int64_t most_tokens;               // < 0: no limit but the context
    int64_t thinking_budget;           // tokens; < 0: no limit
    double roof_gb_s;                  // --roof; 0: not measured
    bool finds_text;                   // --cache-text
    double keep_alive_s, timeout_s;
    time_t started;
    atomic_long answered[ENDPOINT_COUNT + 1][STATUS_CLASSES];   // the last row: of no endpoint
    atomic_ullong drawn_seeds;
} Server;

static inline Server *server_of(const Exchange *x) {
    return x->server;
}
// A seed that no other request of this run has.
uint64_t server_seed(Server *server);
