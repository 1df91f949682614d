// serve: the life of the server: load, compile, listen, wait for a signal, let what runs end, leave.
// In: flags. Out: one line on standard output that says where it listens; the rest is HTTP.
// Invariant: the first SIGTERM or SIGINT refuses what is new and lets answers end (GRACE_S seconds); a second one, or the
// end of that time, cancels them. Exit code 0 either way.
// Example: lathe serve model.gguf --port 0 → lathe is listening at http://127.0.0.1:40123
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app/server.h"
#include "base/map.h"
#include "base/os.h"

enum { GRACE_S = 30, IDLE_S = 75, BODY_S = 120, MIB = 1 << 20 };

uint64_t server_seed(Server *server) {
    uint64_t number = atomic_fetch_add(&server->drawn_seeds, 1);
    return hash_bytes(&number, sizeof number, server->sampling.seed) & INT64_MAX;
}

// ---- what the flags say

// --api-key KEY, or @FILE with one a line.
static bool keys_read(const Options *o, const char ***keys, Error *err) {
    const char *given = option_text(o, OPTION_api_key);
    VEC(const char *) found = {0};
    Text text = {"", 0};
    if (given && given[0] != '@') vec_push(o->arena, &found, given);
    if (given && given[0] == '@') TRY(file_read(o->arena, given + 1, &text, err));
    for (size_t at = 0; at < text.len;) {
        size_t end = at;
        while (end < text.len && text.at[end] != '\n' && text.at[end] != '\r') end++;
        if (end > at) vec_push(o->arena, &found, text_cstr(o->arena, (Text){text.at + at, end - at}));
        at = end + 1;
    }
    if (given && found.len == 0) return fail(err, LATHE_BAD_REQUEST, "--api-key %s: there is no key in the file", given);
    vec_push(o->arena, &found, NULL);
    *keys = found.at;
    return true;
}

// The file name without folder and ending, or the name of the model inside.
static const char *name_of(Arena *arena, const Loaded *loaded) {
    const char *slash = strrchr(loaded->path, '/');
    Text name = text_of(slash ? slash + 1 : loaded->path);
    if (text_ends(name, ".gguf")) name.len -= strlen(".gguf");
    for (size_t i = 0; i < name.len; i++)
        if (name.at[i] == ' ') name.len = i;
    return text_cstr(arena, name);
}

// What makes two caches the same: the file, how it is computed, and this program.
static uint64_t cache_key(const Server *server, const Options *o) {
    FileStamp stamp = {0};
    uint64_t key = hash_bytes(server->loaded.path, strlen(server->loaded.path), 0);
    if (file_stamp(server->loaded.path, &stamp)) key = hash_bytes(&stamp, sizeof stamp, key);
    Text build = program_build_id();
    key = hash_bytes(build.at, build.len, key);
    const char *kind = option_text(o, OPTION_cache_type);
    if (kind) key = hash_bytes(kind, strlen(kind), key);
    for (int i = 0; i < o->n_overrides; i++) key = hash_bytes(o->overrides[i], strlen(o->overrides[i]), key);
    return hash_bytes(option_given(o, OPTION_exact) ? "exact" : "fast", 4, key);
}

static bool cache_place(const Server *server, const Options *o, SchedulerOptions *options, Error *err) {
    options->cache_most_bytes = (size_t)option_int(o, OPTION_cache_size) * MIB;
    if (options->cache_most_bytes == 0 || engine_device(server->loaded.engine)->runs_nothing) return true;
    options->cache_key = cache_key(server, o);
    const char *folder = arena_printf(o->arena, "%s/prompts", cache_dir(o->arena));
    TRY(dir_make(folder, err));
    options->cache_path = arena_printf(o->arena, "%s/%016llx.kv", folder, (unsigned long long)options->cache_key);
    return true;
}

// ---- listening

static void request_done(void *opaque, const Endpoint *endpoint, int status) {
    Server *server = opaque;
    int row = endpoint ? (int)endpoint->id : ENDPOINT_COUNT, class = status / 100;
    if (class >= 0 && class < STATUS_CLASSES) atomic_fetch_add(&server->answered[row][class], 1);
}

static bool listen_begin(Server *server, const Options *o, Error *err) {
    const char **keys = NULL;
    Text pem = {"", 0};
    TRY(keys_read(o, &keys, err));
    if (option_given(o, OPTION_tls)) TRY(file_read(o->arena, option_text(o, OPTION_tls), &pem, err));
    HttpOptions options = {
        .host = option_text(o, OPTION_host),
        .port = (int)option_int(o, OPTION_port),
        .is_open_to_all = option_given(o, OPTION_no_auth),
        .keys = keys,
        .cors = option_text(o, OPTION_cors),
        .certificate = pem.len ? pem.at : NULL,
        .private_key = pem.len ? pem.at : NULL,
        .most_body_bytes = (size_t)option_int(o, OPTION_max_body) * MIB,
        .idle_s = IDLE_S,
        .body_s = BODY_S,
        .server = server,
        .is_open = &server->is_open,
        .done = request_done,
    };
    return http_open(&server->http, &options, err);
}

// ---- the end

static void signals_block(sigset_t *watched) {
    sigemptyset(watched);
    sigaddset(watched, SIGINT);
    sigaddset(watched, SIGTERM);
    pthread_sigmask(SIG_BLOCK, watched, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void second_signal(int number) {
    (void)number;
    _exit(0);
}

// While answers end, one more signal leaves at once.
static void signals_end(const sigset_t *watched) {
    signal(SIGINT, second_signal);
    signal(SIGTERM, second_signal);
    pthread_sigmask(SIG_UNBLOCK, watched, NULL);
}

static bool server_open(Server *server, const Options *o, Error *err) {
    SchedulerOptions options = {.most_queued = (int)option_int(o, OPTION_queue), .sampling = sampling_from(o),
                                .finds_text = option_given(o, OPTION_cache_text)};
    LoadOptions load = load_options(o, 0);
    load.generates = true;
    load.model_options.slots = (int)option_int(o, OPTION_slots);
    TRY(loaded_open(&server->loaded, o->arena, &load, err));
    server->name = name_of(o->arena, &server->loaded);
    server->sampling = options.sampling;
    server->finds_text = options.finds_text;
    if (option_given(o, OPTION_roof)) server->roof_gb_s = loaded_roof_gb_s(&server->loaded);
    server->most_tokens = option_int(o, OPTION_n_tokens);
    server->thinking_budget = option_int(o, OPTION_reasoning_budget);
    server->keep_alive_s = option_real(o, OPTION_keep_alive);
    server->timeout_s = (double)option_int(o, OPTION_timeout);
    server->started = time(NULL);
    TRY(tokenizer_create(&server->tokenizer, &server->loaded.gguf, err));
    TRY(chat_form_open(&server->form, &server->loaded.gguf, option_text(o, OPTION_template_file), err));
    server->format = reply_format_find(chat_form_source(server->form));
    const Text *markers;
    size_t n_markers;
    reply_format_markers(&server->format, o->arena, &markers, &n_markers);
    server->token_order = token_order_create(server->tokenizer, markers, n_markers);
    TRY(cache_place(server, o, &options, err));
    return scheduler_open(&server->scheduler, &server->loaded, &options, err);
}

// Listens first, so that a port in use is told at once and who asks early hears that there is something to wait for.
static bool server_run(Server *server, const Options *o, const sigset_t *watched, Error *err) {
    int number;
    TRY(listen_begin(server, o, err));
    TRY(server_open(server, o, err));
    loaded_print(&server->loaded);
    TRY(scheduler_start(server->scheduler, err));
    atomic_store(&server->is_open, true);
    printf("lathe is listening at %s\n", http_url(server->http));
    fflush(stdout);
    sigwait(watched, &number);
    if (scheduler_state(server->scheduler, err) == SCHEDULER_FAILED) return false;
    fputs("[no new requests; what runs may end, one more signal leaves at once]\n", stderr);
    signals_end(watched);
    http_quiesce(server->http);
    return true;
}

bool command_serve(const Options *o, Error *err) {
    Server *server = arena_new(o->arena, sizeof *server);
    sigset_t watched;
    signals_block(&watched);
    bool ok = server_run(server, o, &watched, err);
    scheduler_end(server->scheduler, ok ? GRACE_S : 0);
    http_close(server->http);
    scheduler_close(server->scheduler);
    chat_form_close(server->form);
    token_order_destroy(server->token_order);
    tokenizer_destroy(server->tokenizer);
    if (server->loaded.model) loaded_close(&server->loaded);
    return ok;
}
