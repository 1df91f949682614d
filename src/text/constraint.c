// constraint: see constraint.h. A reading of the text so far is a stack of frames (which sequence, how far; which
// repetition, how often) on top of the class that the next byte must be in. Frames are made once each, so that equal
// stacks are equal numbers; a state is the set of all readings, and what each byte leads to is worked out once a state, where
// a mask asks for it. A token taken makes one state, behind its last byte: on the way readings that its next byte ends are
// not made at all.
// A mask is worked out once for all states that differ only in what one token cannot reach, of all answers that are held to
// the same grammar: text/token_order keeps it.
// Example: "[0-9]{2}" behind one digit: one reading, the class [0-9] on REPEAT with count 2
#include "text/constraint.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"

// ---------------------------------------------------------------- readings

enum { NOWHERE = -1, UNKNOWN = -2, ANY_BYTE = -1, READINGS_MAX = 2000, STATES_MAX = 4096, DEPTH_MAX = 8000 };

// parent 0: the end of the text.
typedef struct Frame {
    GrammarNode node;
    int32_t at;                // SEQ: the child that comes next; REPEAT: how often so far
    int32_t parent;
} Frame;

typedef struct State {
    int32_t *readings;         // frames whose node is BYTES, rising
    int n;
    bool accepts, has_key;
    int32_t *next;             // [256], NULL: nothing of it is known yet
    MaskKey key;
} State;

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
    VEC(int32_t) passed;       // those of the byte before, while a token is taken
    int wanted;                // the byte that comes next, where it is known: readings without it are left out; else ANY_BYTE
    bool accepts, is_stuck;

    // of masks
    Arena *mask_arena;
    int32_t *least_bytes;      // [nodes of the grammar]: what they stand for is at least so long
    MaskKey grammar_key;       // equal grammars have equal keys
    int32_t *kind;             // [kind_cap]: a reading as far as a mask depends on it
    size_t kind_cap;
    uint8_t *bits;             // a mask under way
    uint8_t *allowed;          // [vocabulary]: the mask of allowed_key
    MaskKey allowed_key;
    ConstraintState allowed_is;
    bool has_allowed;
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

// Does its first byte say already that the wanted one does not come next?
static bool is_unwanted(const Constraint *c, GrammarNode node) {
    const GrammarPart *part = &c->grammar->at[node];
    if (c->wanted == ANY_BYTE) return false;
    while (part->kind == NODE_SEQ && part->n) part = &c->grammar->at[part->children[0]];
    return part->kind == NODE_BYTES && !byte_set_has(&part->bytes, (uint8_t)c->wanted);
}

static void enter(Constraint *c, GrammarNode node, int32_t parent) {
    const GrammarPart *part = &c->grammar->at[node];
    if (is_unwanted(c, node)) return;
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
    c->wanted = ANY_BYTE;
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
    State state = {.n = (int)c->found.len - 1, .accepts = c->accepts};
    state.readings = arena_copy(c->arena, c->found.at, (size_t)state.n * sizeof *state.readings);
    vec_push(c->arena, &c->states, state);
    map_put(&c->state_ids, c->found.at, c->found.len * sizeof *c->found.at, (void *)(uintptr_t)c->states.len);
    return (int32_t)c->states.len - 1;
}

// The bytes that all readings treat like this one, which so lead to the same state.
static ByteSet bytes_like(const Constraint *c, const State *state, uint8_t byte) {
    ByteSet like = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    for (int i = 0; i < state->n; i++) {
        const ByteSet *set = &c->grammar->at[c->frames.at[state->readings[i]].node].bytes;
        uint64_t flip = byte_set_has(set, byte) ? 0 : UINT64_MAX;
        for (int w = 0; w < 4; w++) like.bits[w] &= set->bits[w] ^ flip;
    }
    return like;
}

static int32_t *nexts_unknown(Arena *arena) {
    int32_t *next = arena_new(arena, 256 * sizeof *next);
    for (int b = 0; b < 256; b++) next[b] = UNKNOWN;
    return next;
}

static int32_t state_next(const State *state, uint8_t byte) {
    return state->next ? state->next[byte] : UNKNOWN;
}

static int32_t state_step(Constraint *c, int32_t from, uint8_t byte) {
    int32_t next = state_next(&c->states.at[from], byte);
    if (next != UNKNOWN) return next;
    closure_begin(c);
    for (int i = 0; i < c->states.at[from].n; i++) {
        Frame reading = c->frames.at[c->states.at[from].readings[i]];
        if (byte_set_has(&c->grammar->at[reading.node].bytes, byte)) leave(c, reading.parent);
    }
    next = state_make(c);
    State *state = &c->states.at[from];
    ByteSet like = bytes_like(c, state, byte);
    if (!state->next) state->next = nexts_unknown(c->arena);
    for (int w = 0; w < 4; w++)
        for (uint64_t left = like.bits[w]; left; left &= left - 1) state->next[w * 64 + __builtin_ctzll(left)] = next;
    return next;
}

// Behind several bytes from `from`, of which nothing is known: readings are followed without states in between.
static int32_t state_behind(Constraint *c, int32_t from, Text bytes) {
    const State *state = &c->states.at[from];
    c->passed.len = 0;
    for (int i = 0; i < state->n; i++) vec_push(c->arena, &c->passed, state->readings[i]);
    for (size_t k = 0; k < bytes.len; k++) {
        uint8_t byte = (uint8_t)bytes.at[k];
        closure_begin(c);
        if (k + 1 < bytes.len) c->wanted = (uint8_t)bytes.at[k + 1];
        for (size_t i = 0; i < c->passed.len; i++) {
            Frame reading = c->frames.at[c->passed.at[i]];
            if (byte_set_has(&c->grammar->at[reading.node].bytes, byte)) leave(c, reading.parent);
        }
        if (c->is_stuck || k + 1 == bytes.len) break;
        c->passed.len = 0;
        for (size_t i = 0; i < c->found.len; i++) vec_push(c->arena, &c->passed, c->found.at[i]);
    }
    return state_make(c);
}

static void machine_begin(Constraint *c) {
    c->arena = arena_create();
    map_init(&c->frame_ids, c->arena);
    map_init(&c->state_ids, c->arena);
    vec_push(c->arena, &c->frames, ((Frame){-1, 0, 0}));
    vec_push(c->arena, &c->visited, 0);
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
    c->passed.at = NULL, c->passed.len = c->passed.cap = 0;
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

static MaskKey key_add(MaskKey key, const void *data, size_t nbytes) {
    return (MaskKey){key.a + hash_bytes(data, nbytes, key.a), key.b + hash_bytes(data, nbytes, ~key.b)};
}

static MaskKey grammar_key_find(const Grammar *g) {
    MaskKey key = {g->len, 0};
    for (size_t k = 0; k < g->len; k++) {
        const GrammarPart *part = &g->at[k];
        const int32_t head[] = {(int32_t)part->kind, part->n, part->least, part->most};
        key = key_add(key, head, sizeof head);
        if (part->kind == NODE_BYTES) key = key_add(key, &part->bytes, sizeof part->bytes);
        if (part->n) key = key_add(key, part->children, (size_t)part->n * sizeof *part->children);
    }
    return key;
}

static void masks_begin(Constraint *c) {
    least_bytes_find(c);
    c->grammar_key = grammar_key_find(c->grammar);
    c->bits = arena_new(c->mask_arena, c->order->mask_bytes);
    c->allowed = arena_new(c->mask_arena, (size_t)c->order->vocabulary);
}

Constraint *constraint_create(const Grammar *grammar, GrammarNode root, const TokenOrder *order) {
    Constraint *c = calloc(1, sizeof *c);
    if (!c) memory_exhausted(sizeof *c);
    c->grammar = grammar;
    c->order = order;
    c->mask_arena = arena_create();
    if (order) masks_begin(c);
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

static void bit_set(uint8_t *bits, int32_t i) {
    bits[i >> 3] |= (uint8_t)(1 << (i & 7));
}

// Nodes that share their first bytes share the states behind them; behind a byte that leads nowhere all that begin with it
// are passed over.
static size_t mask_fill(Constraint *c) {
    int32_t path[TOKEN_BYTES_MAX + 1] = {c->current};
    const TokenOrder *o = c->order;
    size_t n_allowed = 0;
    for (size_t i = 0; i < o->n;) {
        const TokenNode *node = &o->nodes[i];
        int32_t next = state_step(c, path[node->depth - 1], node->byte);
        if (next == NOWHERE) {
            i = node->end;
            continue;
        }
        path[node->depth] = next;
        for (uint32_t t = node->first; t < node[1].first; t++, n_allowed++) bit_set(c->bits, o->ids[t]);
        i++;
    }
    return n_allowed;
}

static ConstraintState mask_make(Constraint *c) {
    bool accepts = c->states.at[c->current].accepts;
    size_t n_ends = 0;
    memset(c->bits, 0, c->order->mask_bytes);
    size_t n_allowed = mask_fill(c);
    if (c->is_stuck) return CONSTRAINT_STUCK;
    if (n_allowed == 0) return accepts ? CONSTRAINT_DONE : CONSTRAINT_STUCK;
    const int32_t *ends = tokenizer_end_ids(c->order->tokenizer, &n_ends);
    for (size_t i = 0; i < n_ends && accepts; i++) bit_set(c->bits, ends[i]);
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

// What of a reading decides the mask: its nodes, and how near its repetitions are to their bounds.
static size_t kind_find(Constraint *c, int32_t id) {
    size_t n = 0;
    for (; id; id = c->frames.at[id].parent) {
        if (n + 2 > c->kind_cap) c->kind = vec_grow(c->mask_arena, c->kind, n, &c->kind_cap, sizeof *c->kind);
        c->kind[n++] = c->frames.at[id].node;
        c->kind[n++] = count_kind(c, &c->frames.at[id]);
    }
    return n;
}

// Of equal keys the masks are equal, also between answers. Readings are a set: their order, which is that of their making,
// does not count.
static MaskKey state_key(Constraint *c) {
    State *state = &c->states.at[c->current];
    if (state->has_key) return state->key;
    MaskKey all = c->grammar_key;
    for (int i = 0; i < state->n; i++) {
        size_t n = kind_find(c, state->readings[i]);
        MaskKey one = key_add((MaskKey){0, 0}, c->kind, n * sizeof *c->kind);
        all.a += one.a, all.b += one.b;
    }
    state->key = key_add(all, &state->accepts, sizeof state->accepts);
    state->has_key = true;
    return state->key;
}

ConstraintState constraint_mask(Constraint *c, const uint8_t **mask) {
    int is;
    *mask = c->allowed;
    if (c->current == NOWHERE || c->is_stuck) return CONSTRAINT_STUCK;
    if (c->states.len > STATES_MAX) machine_renew(c);
    MaskKey key = state_key(c);
    if (c->has_allowed && key.a == c->allowed_key.a && key.b == c->allowed_key.b) return c->allowed_is;
    const uint8_t *bits = token_order_recall(c->order, key, &is);
    if (!bits) {
        bits = c->bits;
        is = (int)mask_make(c);
        if (!c->is_stuck) token_order_keep(c->order, key, bits, is);
    }
    token_order_spread(c->order, bits, c->allowed);
    c->allowed_key = key;
    c->has_allowed = true;
    return c->allowed_is = (ConstraintState)is;
}

void constraint_take(Constraint *c, int32_t token) {
    Text piece = tokenizer_decode_piece(c->order->tokenizer, token);
    if (tokenizer_is_end(c->order->tokenizer, token)) return;
    size_t i = 0;
    for (int32_t next; i < piece.len && c->current != NOWHERE; i++, c->current = next)
        if ((next = state_next(&c->states.at[c->current], (uint8_t)piece.at[i])) == UNKNOWN) break;
    if (i < piece.len && c->current != NOWHERE) c->current = state_behind(c, c->current, (Text){piece.at + i, piece.len - i});
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
