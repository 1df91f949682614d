// constraint: see constraint.h. A reading of the text so far is a stack of frames (which sequence, how far; which
// repetition, how often) on top of the class that the next byte must be in. Frames are made once each, so that equal
// stacks are equal numbers; a state is the set of all readings, and what each byte leads to is worked out once a state.
// Example: "[0-9]{2}" behind one digit: one reading, the class [0-9] on REPEAT with count 2
#include "text/constraint.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"

// ---------------------------------------------------------------- the vocabulary

struct TokenOrder {
    Arena *arena;
    const Tokenizer *tokenizer;
    int32_t vocabulary;
    int32_t *ids;              // [n], by their bytes
    Text *texts;               // [n]
    uint16_t *common;          // [n]: bytes in common with the token before
    size_t n, longest;         // bytes of the longest
};

enum { TOKEN_BYTES_MAX = 1024 };

typedef struct OrderedToken {
    Text text;
    int32_t id;
} OrderedToken;

static int order_compare(const void *a, const void *b) {
    const OrderedToken *x = a, *y = b;
    size_t n = x->text.len < y->text.len ? x->text.len : y->text.len;
    int difference = memcmp(x->text.at, y->text.at, n);
    if (difference) return difference;
    if (x->text.len != y->text.len) return x->text.len < y->text.len ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static bool is_text(const Tokenizer *tokenizer, int32_t id, Text piece, const Text *shown, size_t n_shown) {
    if (piece.len == 0 || piece.len > TOKEN_BYTES_MAX || tokenizer_is_end(tokenizer, id)) return false;
    for (size_t i = 0; i < n_shown; i++)
        if (text_equal(shown[i], piece)) return true;
    return !tokenizer_is_special(tokenizer, id);
}

TokenOrder *token_order_create(const Tokenizer *tokenizer, const Text *shown, size_t n_shown) {
    Arena *arena = arena_create();
    TokenOrder *o = arena_new(arena, sizeof *o);
    int32_t vocabulary = tokenizer_vocabulary_size(tokenizer);
    OrderedToken *tokens = malloc(((size_t)vocabulary + 1) * sizeof *tokens);
    if (!tokens) memory_exhausted(((size_t)vocabulary + 1) * sizeof *tokens);
    size_t n = 0;
    for (int32_t id = 0; id < vocabulary; id++) {
        Text piece = tokenizer_decode_piece(tokenizer, id);
        if (is_text(tokenizer, id, piece, shown, n_shown)) tokens[n++] = (OrderedToken){piece, id};
    }
    qsort(tokens, n, sizeof *tokens, order_compare);
    *o = (TokenOrder){.arena = arena, .tokenizer = tokenizer, .vocabulary = vocabulary, .n = n};
    o->ids = arena_new(arena, n * sizeof *o->ids);
    o->texts = arena_new(arena, n * sizeof *o->texts);
    o->common = arena_new(arena, n * sizeof *o->common);
    for (size_t i = 0; i < n; i++) {
        o->ids[i] = tokens[i].id;
        o->texts[i] = tokens[i].text;
        size_t same = 0;
        while (i && same < tokens[i].text.len && same < tokens[i - 1].text.len && tokens[i].text.at[same] == tokens[i - 1].text.at[same])
            same++;
        o->common[i] = (uint16_t)same;
        if (tokens[i].text.len > o->longest) o->longest = tokens[i].text.len;
    }
    free(tokens);
    return o;
}

void token_order_destroy(TokenOrder *order) {
    if (order) arena_destroy(order->arena);
}

// ---------------------------------------------------------------- readings

enum { NOWHERE = -1, UNKNOWN = -2, READINGS_MAX = 2000, STATES_MAX = 4096, MASKS_MAX = 64, DEPTH_MAX = 8000, KIND_MAX = 512 };

// parent 0: the end of the text.
typedef struct Frame {
    GrammarNode node;
    int32_t at;                // SEQ: the child that comes next; REPEAT: how often so far
    int32_t parent;
} Frame;

typedef struct State {
    int32_t *readings;         // frames whose node is BYTES, rising
    int n;
    bool accepts;
    int32_t next[256];
    int mask;                  // index into masks, −1: none
} State;

// What of a state decides its mask: for each reading the nodes of its frames and how near a repetition is to its bounds.
typedef struct StateKind {
    int32_t at[KIND_MAX];
    size_t n;                  // 0: too many to compare
} StateKind;

typedef struct KeptMask {
    int32_t state;             // the one that asked last; −1: none
    StateKind *kind;
    uint8_t *allowed;          // [vocabulary]
    ConstraintState is;
} KeptMask;

struct Constraint {
    const Grammar *grammar;
    const TokenOrder *order;
    Arena *arena;              // of frames and states
    VEC(Frame) frames;         // [0] is the end
    VEC(int) visited;          // [frames]: the closure that came by
    Map frame_ids, state_ids;
    VEC(State) states;
    int32_t current;
    int closure, depth;
    VEC(int32_t) found;        // readings of the closure under way
    bool accepts, is_stuck;
    int32_t *least_bytes;      // [nodes of the grammar]: what they stand for is at least so long
    StateKind kind;            // of the current state
    KeptMask masks[MASKS_MAX];
    int next_mask;
    Arena *mask_arena;
};

static int32_t frame_make(Constraint *c, GrammarNode node, int32_t at, int32_t parent) {
    Frame frame = {node, at, parent};
    uintptr_t known = (uintptr_t)map_get(&c->frame_ids, &frame, sizeof frame);
    if (known) return (int32_t)known;
    int32_t id = (int32_t)c->frames.len;
    vec_push(c->arena, &c->frames, frame);
    vec_push(c->arena, &c->visited, 0);
    map_put(&c->frame_ids, &frame, sizeof frame, (void *)(uintptr_t)id);
    return id;
}

static bool comes_first(Constraint *c, int32_t frame) {
    if (c->visited.at[frame] == c->closure) return false;
    c->visited.at[frame] = c->closure;
    return true;
}

static void enter(Constraint *c, GrammarNode node, int32_t parent);

// Behind `count` repetitions. Without a limit all counts from the least on are the same.
static void repeat_at(Constraint *c, GrammarNode node, int32_t count, int32_t parent);

static void leave(Constraint *c, int32_t id) {
    if (id == 0) {
        c->accepts = true;
        return;
    }
    if (!comes_first(c, id)) return;
    Frame frame = c->frames.at[id];
    const GrammarPart *part = &c->grammar->at[frame.node];
    if (part->kind == NODE_REPEAT) {
        repeat_at(c, frame.node, frame.at, frame.parent);
        return;
    }
    bool is_last = frame.at + 1 == part->n;
    enter(c, part->children[frame.at], is_last ? frame.parent : frame_make(c, frame.node, frame.at + 1, frame.parent));
}

static void repeat_at(Constraint *c, GrammarNode node, int32_t count, int32_t parent) {
    const GrammarPart *part = &c->grammar->at[node];
    if (count >= part->least) leave(c, parent);
    if (part->most != GRAMMAR_FOREVER && count >= part->most) return;
    int32_t next = part->most == GRAMMAR_FOREVER && count >= part->least ? part->least : count + 1;
    enter(c, part->children[0], frame_make(c, node, next, parent));
}

static void enter(Constraint *c, GrammarNode node, int32_t parent) {
    const GrammarPart *part = &c->grammar->at[node];
    if (++c->depth > DEPTH_MAX || c->found.len > READINGS_MAX) c->is_stuck = true;
    if (c->is_stuck) return;
    switch (part->kind) {
    case NODE_BYTES: {
        int32_t reading = frame_make(c, node, 0, parent);
        if (comes_first(c, reading)) vec_push(c->arena, &c->found, reading);
        break;
    }
    case NODE_SEQ:
        if (part->n == 0) leave(c, parent);
        else enter(c, part->children[0], frame_make(c, node, 1, parent));
        break;
    case NODE_ALT:
        for (int i = 0; i < part->n; i++) enter(c, part->children[i], parent);
        break;
    case NODE_REPEAT: repeat_at(c, node, 0, parent); break;
    case NODE_RULE:
        // A rule that leads to itself without a byte in between says nothing new.
        if (comes_first(c, frame_make(c, node, 0, parent))) enter(c, part->children[0], parent);
        break;
    }
    c->depth--;
}

// ---------------------------------------------------------------- states

static void closure_begin(Constraint *c) {
    c->closure++;
    c->found.len = 0;
    c->accepts = false;
    c->depth = 0;
}

static int reading_compare(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static int32_t state_make(Constraint *c) {
    if (c->is_stuck || (c->found.len == 0 && !c->accepts)) return NOWHERE;
    qsort(c->found.at, c->found.len, sizeof *c->found.at, reading_compare);
    // The key is the readings and whether the text may end.
    vec_push(c->arena, &c->found, c->accepts);
    uintptr_t known = (uintptr_t)map_get(&c->state_ids, c->found.at, c->found.len * sizeof *c->found.at);
    if (known) return (int32_t)known - 1;
    State state = {.n = (int)c->found.len - 1, .accepts = c->accepts, .mask = -1};
    state.readings = arena_copy(c->arena, c->found.at, (size_t)state.n * sizeof *state.readings);
    for (int b = 0; b < 256; b++) state.next[b] = UNKNOWN;
    vec_push(c->arena, &c->states, state);
    map_put(&c->state_ids, c->found.at, c->found.len * sizeof *c->found.at, (void *)(uintptr_t)c->states.len);
    return (int32_t)c->states.len - 1;
}

static int32_t state_step(Constraint *c, int32_t from, uint8_t byte) {
    int32_t next = c->states.at[from].next[byte];
    if (next != UNKNOWN) return next;
    closure_begin(c);
    for (int i = 0; i < c->states.at[from].n; i++) {
        Frame reading = c->frames.at[c->states.at[from].readings[i]];
        if (byte_set_has(&c->grammar->at[reading.node].bytes, byte)) leave(c, reading.parent);
    }
    next = state_make(c);
    c->states.at[from].next[byte] = next;
    return next;
}

static void machine_begin(Constraint *c) {
    c->arena = arena_create();
    map_init(&c->frame_ids, c->arena);
    map_init(&c->state_ids, c->arena);
    vec_push(c->arena, &c->frames, ((Frame){-1, 0, 0}));
    vec_push(c->arena, &c->visited, 0);
    for (int i = 0; i < MASKS_MAX; i++) c->masks[i].state = NOWHERE;
}

// A frame of the old machine, in the new one.
static int32_t frame_move(Constraint *c, const Frame *old, int32_t id) {
    if (id == 0) return 0;
    return frame_make(c, old[id].node, old[id].at, frame_move(c, old, old[id].parent));
}

// Forgets every state but the current one.
static void machine_renew(Constraint *c) {
    Arena *before = c->arena;
    const Frame *frames = c->frames.at;
    State state = c->states.at[c->current];
    c->frames.at = NULL, c->frames.len = c->frames.cap = 0;
    c->visited.at = NULL, c->visited.len = c->visited.cap = 0;
    c->states.at = NULL, c->states.len = c->states.cap = 0;
    c->found.at = NULL, c->found.len = c->found.cap = 0;
    machine_begin(c);
    closure_begin(c);
    for (int i = 0; i < state.n; i++) vec_push(c->arena, &c->found, frame_move(c, frames, state.readings[i]));
    c->accepts = state.accepts;
    c->current = state_make(c);
    arena_destroy(before);
}

// Lower bounds, better with each pass; in a graph without rules one is enough.
static void least_bytes_find(Constraint *c) {
    enum { PASSES = 4, MOST_BYTES = 1 << 20 };
    const Grammar *g = c->grammar;
    c->least_bytes = arena_new(c->mask_arena, (g->len + 1) * sizeof *c->least_bytes);
    for (int pass = 0; pass < PASSES; pass++)
        for (size_t k = 0; k < g->len; k++) {
            const GrammarPart *part = &g->at[k];
            int64_t least = part->kind == NODE_BYTES, first = part->n ? c->least_bytes[part->children[0]] : 0;
            if (part->kind == NODE_REPEAT) least = first * part->least;
            if (part->kind == NODE_RULE || part->kind == NODE_ALT) least = first;
            for (int i = 0; i < part->n && part->kind == NODE_SEQ; i++) least += c->least_bytes[part->children[i]];
            for (int i = 0; i < part->n && part->kind == NODE_ALT; i++)
                if (c->least_bytes[part->children[i]] < least) least = c->least_bytes[part->children[i]];
            c->least_bytes[k] = least > MOST_BYTES ? MOST_BYTES : (int32_t)least;
        }
}

Constraint *constraint_create(const Grammar *grammar, GrammarNode root, const TokenOrder *order) {
    Constraint *c = calloc(1, sizeof *c);
    if (!c) memory_exhausted(sizeof *c);
    c->grammar = grammar;
    c->order = order;
    c->mask_arena = arena_create();
    if (order) least_bytes_find(c);   // for masks
    machine_begin(c);
    closure_begin(c);
    enter(c, root, 0);
    c->current = state_make(c);
    return c;
}

void constraint_destroy(Constraint *c) {
    if (!c) return;
    arena_destroy(c->arena);
    arena_destroy(c->mask_arena);
    free(c);
}

// ---------------------------------------------------------------- masks

// Neighbours in the order share their first bytes, whose states are still there; behind a byte that leads nowhere all
// tokens that begin like this one are passed over.
static size_t mask_fill(Constraint *c, uint8_t *allowed) {
    int32_t path[TOKEN_BYTES_MAX + 1] = {c->current};
    const TokenOrder *o = c->order;
    size_t alive = 0, dead_at = TOKEN_BYTES_MAX + 1, n_allowed = 0;
    for (size_t i = 0; i < o->n; i++) {
        size_t same = o->common[i];
        if (same > dead_at) continue;
        dead_at = TOKEN_BYTES_MAX + 1;
        alive = same < alive ? same : alive;
        while (alive < o->texts[i].len) {
            int32_t next = state_step(c, path[alive], (uint8_t)o->texts[i].at[alive]);
            if (next == NOWHERE) break;
            path[++alive] = next;
        }
        if (alive < o->texts[i].len) dead_at = alive;
        else allowed[o->ids[i]] = 1, n_allowed++;
    }
    return n_allowed;
}

static ConstraintState mask_make(Constraint *c, uint8_t *allowed) {
    memset(allowed, 0, (size_t)c->order->vocabulary);
    if (c->current == NOWHERE || c->is_stuck) return CONSTRAINT_STUCK;
    bool accepts = c->states.at[c->current].accepts;
    size_t n_ends = 0, n_allowed = mask_fill(c, allowed);
    if (c->is_stuck) return CONSTRAINT_STUCK;
    if (n_allowed == 0) return accepts ? CONSTRAINT_DONE : CONSTRAINT_STUCK;
    const int32_t *ends = tokenizer_end_ids(c->order->tokenizer, &n_ends);
    for (size_t i = 0; i < n_ends && accepts; i++) allowed[ends[i]] = 1;
    return CONSTRAINT_OPEN;
}

// How often so far, as far as one token can tell: from bounds that it cannot reach all counts are as far.
static int32_t count_kind(const Constraint *c, const Frame *frame) {
    enum { FAR_BELOW = -1, FAR_WITHIN = -2 };
    const GrammarPart *part = &c->grammar->at[frame->node];
    if (part->kind != NODE_REPEAT) return frame->at;
    int32_t each = c->least_bytes[part->children[0]];
    if (each == 0) return frame->at;
    int64_t reach = (int64_t)frame->at + (int64_t)c->order->longest / each + 1;   // the repetition under way may end at once
    if (reach < part->least) return FAR_BELOW;
    if (frame->at >= part->least && (part->most == GRAMMAR_FOREVER || reach < part->most)) return FAR_WITHIN;
    return frame->at;
}

static void kind_find(Constraint *c) {
    const State *state = &c->states.at[c->current];
    StateKind *kind = &c->kind;
    kind->n = 0;
    kind->at[kind->n++] = state->accepts;
    for (int i = 0; i < state->n; i++) {
        int32_t id = state->readings[i];
        for (; id && kind->n + 3 < KIND_MAX; id = c->frames.at[id].parent) {
            kind->at[kind->n++] = c->frames.at[id].node;
            kind->at[kind->n++] = count_kind(c, &c->frames.at[id]);
        }
        kind->at[kind->n++] = NOWHERE;                 // no node's number
        if (!id && kind->n + 3 < KIND_MAX) continue;
        kind->n = 0;
        return;
    }
}

// The mask of a state of the same kind; −1: there is none.
static int mask_find(Constraint *c) {
    kind_find(c);
    for (int i = 0; i < MASKS_MAX && c->kind.n; i++) {
        const StateKind *kept = c->masks[i].kind;
        if (kept && kept->n == c->kind.n && memcmp(kept->at, c->kind.at, kept->n * sizeof *kept->at) == 0) return i;
    }
    return -1;
}

static int mask_new(Constraint *c) {
    int at = c->next_mask;
    KeptMask *kept = &c->masks[at];
    c->next_mask = (c->next_mask + 1) % MASKS_MAX;
    if (!kept->allowed) {
        kept->allowed = arena_new(c->mask_arena, (size_t)c->order->vocabulary);
        kept->kind = arena_new(c->mask_arena, sizeof *kept->kind);
    }
    kept->is = mask_make(c, kept->allowed);
    *kept->kind = c->kind;
    return at;
}

ConstraintState constraint_mask(Constraint *c, const uint8_t **mask) {
    static const uint8_t none[1];
    *mask = none;
    if (c->current == NOWHERE) return CONSTRAINT_STUCK;
    if (c->states.len > STATES_MAX) machine_renew(c);
    int at = c->states.at[c->current].mask;
    if (at < 0 || c->masks[at].state != c->current) {
        at = mask_find(c);
        if (at < 0) at = mask_new(c);
        c->masks[at].state = c->current;
        c->states.at[c->current].mask = at;
    }
    *mask = c->masks[at].allowed;
    return c->masks[at].is;
}

void constraint_take(Constraint *c, int32_t token) {
    Text piece = tokenizer_decode_piece(c->order->tokenizer, token);
    if (tokenizer_is_end(c->order->tokenizer, token)) return;
    for (size_t i = 0; i < piece.len && c->current != NOWHERE; i++) c->current = state_step(c, c->current, (uint8_t)piece.at[i]);
}

bool constraint_accepts(const Grammar *grammar, GrammarNode root, Text text) {
    Constraint *c = constraint_create(grammar, root, NULL);
    for (size_t i = 0; i < text.len && c->current != NOWHERE; i++) {
        if (c->states.len > STATES_MAX) machine_renew(c);
        c->current = state_step(c, c->current, (uint8_t)text.at[i]);
    }
    bool accepts = c->current != NOWHERE && c->states.at[c->current].accepts;
    constraint_destroy(c);
    return accepts;
}
