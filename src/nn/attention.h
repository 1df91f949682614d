// attention: scores, soft-max and weighted sum over the pages of a cache, for any number of heads and widths.
// In: scaled queries, keys, values, what a row sees of them. Out: one value vector a head.
// Invariant: a key that is not seen never contributes, whatever its cell holds (also NaN); a row that sees nothing gives
// zeros. Each page has a soft-max of its own, and pages are joined in their order: so pages are work for several workers
// when rows are few, and the result has the same bits when they are not.
// Example: grouped: q [m, 2, 4, 64] over 2 key heads with 4 query heads each; latent: q [m, 1, 20, 576].
#pragma once
#include "nn/kvcache.h"

// q: [m, kv heads, queries a kv head, d], already scaled. keys: [m, pages, KV_PAGE, kv heads, d]. values: the same, v wide.
// cap: soft cap of scores, 0: none. Returns [m, kv heads, queries a kv head, v].
// Formula, for pages p and keys k of one: a_p = max_k q·k, l_p = Σ_k exp(q·k − a_p), o_p = Σ_k exp(q·k − a_p) v_k;
// a = max_p a_p, y = Σ_p exp(a_p − a) o_p / Σ_p exp(a_p − a) l_p (https://arxiv.org/abs/2205.14135, section 3).
Tensor attention(Tensor q, Tensor keys, Tensor values, const KvView *view, double cap);
