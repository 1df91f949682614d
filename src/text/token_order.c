// token_order: see token_order.h. Sorted tokens → nodes, one for each beginning that is new. A mask is kept as bits, eight
// tokens a byte.
// Example: behind "ab", "ac" adds one node, whose parent is the node of "a"
#include "text/token_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

enum { WAYS = 4, SETS_MAX = 512, SHELF_BYTES = 32 << 20 };
enum { EACH = 8 };             // tokens a byte of bits

typedef struct KeptMask {
    MaskKey key;
    uint64_t used;             // 0: never
    int is;                    // what the owner of the key says of it
    uint8_t *bits;             // [mask_bytes]: token i is bit i % 8 of byte i / 8
} KeptMask;

typedef struct MaskShelf {
    Arena *arena;
    size_t n_sets;
    uint64_t clock;
    KeptMask *masks;           // [n_sets, WAYS]
    uint8_t spread[256][EACH];
} MaskShelf;

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

static size_t common_bytes(Text a, Text b) {
    size_t n = a.len < b.len ? a.len : b.len, same = 0;
    while (same < n && a.at[same] == b.at[same]) same++;
    return same;
}

// path: the node at each depth of the token before. What is deeper than the bytes in common ends here.
static void trie_build(TokenOrder *o, const OrderedToken *tokens, size_t n) {
    VEC(TokenNode) nodes = {0};
    uint32_t path[TOKEN_BYTES_MAX + 1];
    Text before = {"", 0};
    for (size_t i = 0; i < n; i++) {
        Text text = tokens[i].text;
        size_t same = common_bytes(before, text);
        for (size_t d = before.len; d > same; d--) nodes.at[path[d]].end = (uint32_t)nodes.len;
        for (size_t d = same + 1; d <= text.len; d++) {
            path[d] = (uint32_t)nodes.len;
            vec_push(o->arena, &nodes, ((TokenNode){.byte = (uint8_t)text.at[d - 1], .depth = (uint16_t)d, .first = (uint32_t)i}));
        }
        o->ids[i] = tokens[i].id;
        if (text.len > o->longest) o->longest = text.len;
        before = text;
    }
    for (size_t d = before.len; d > 0; d--) nodes.at[path[d]].end = (uint32_t)nodes.len;
    o->n = nodes.len;
    vec_push(o->arena, &nodes, ((TokenNode){.end = (uint32_t)nodes.len, .first = (uint32_t)n}));
    o->nodes = nodes.at;
    // A node that only leads on has no token of its own: those of the next node are not its.
    for (size_t i = o->n; i-- > 0;)
        if (tokens[o->nodes[i].first].text.len > o->nodes[i].depth) o->nodes[i].first = o->nodes[i + 1].first;
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
    *o = (TokenOrder){.arena = arena, .tokenizer = tokenizer, .vocabulary = vocabulary,
                      .mask_bytes = ((size_t)vocabulary + EACH - 1) / EACH};
    o->ids = arena_new(arena, (n + 1) * sizeof *o->ids);
    trie_build(o, tokens, n);
    free(tokens);
    o->shelf = arena_new(arena, sizeof *o->shelf);
    size_t sets = SHELF_BYTES / (WAYS * (o->mask_bytes + sizeof(KeptMask)));
    *o->shelf = (MaskShelf){.arena = arena, .n_sets = sets < 1 ? 1 : sets > SETS_MAX ? SETS_MAX : sets};
    size_t nbytes = o->shelf->n_sets * WAYS * sizeof(KeptMask);
    for (int byte = 0; byte < 256; byte++)
        for (int k = 0; k < EACH; k++) o->shelf->spread[byte][k] = byte >> k & 1;
    o->shelf->masks = memset(arena_new(arena, nbytes), 0, nbytes);
    return o;
}

void token_order_destroy(TokenOrder *order) {
    if (order) arena_destroy(order->arena);
}

// ---- masks

static KeptMask *set_of(const MaskShelf *shelf, MaskKey key) {
    return &shelf->masks[key.a % shelf->n_sets * WAYS];
}

const uint8_t *token_order_recall(const TokenOrder *o, MaskKey key, int *is) {
    KeptMask *set = set_of(o->shelf, key);
    for (int w = 0; w < WAYS; w++) {
        KeptMask *kept = &set[w];
        if (!kept->used || kept->key.a != key.a || kept->key.b != key.b) continue;
        kept->used = ++o->shelf->clock;
        *is = kept->is;
        return kept->bits;
    }
    return NULL;
}

void token_order_keep(const TokenOrder *o, MaskKey key, const uint8_t *bits, int is) {
    KeptMask *set = set_of(o->shelf, key), *oldest = &set[0];
    for (int w = 1; w < WAYS; w++)
        if (set[w].used < oldest->used) oldest = &set[w];
    uint8_t *own = oldest->bits ? oldest->bits : arena_new(o->shelf->arena, o->mask_bytes);
    memcpy(own, bits, o->mask_bytes);
    *oldest = (KeptMask){key, ++o->shelf->clock, is, own};
}

void token_order_spread(const TokenOrder *o, const uint8_t *bits, uint8_t *bytes) {
    size_t n = (size_t)o->vocabulary, whole = n / EACH;
    for (size_t i = 0; i < whole; i++) memcpy(bytes + i * EACH, o->shelf->spread[bits[i]], EACH);
    if (n % EACH) memcpy(bytes + whole * EACH, o->shelf->spread[bits[whole]], n % EACH);
}
