// experts: a router's choice and the weighted sum of the chosen feed-forwards.
// In: router logits [m, E]. Out: ids i32 [m, used], weights f32 [m, used]; the mixture f32 [m, dim].
// Invariant: ids are distinct and inside [0, E) whatever the logits hold (NaN ranks as −∞); equal scores go to the
// lower index; the selection bias decides the choice only, never a weight.
// Example: E = 4, used = 2, probabilities {.1, .4, .2, .3} → ids {1, 3}, weights {.4, .3} (normalised: .57, .43).
#pragma once
#include "nn/layers.h"

typedef enum Gating { GATE_NONE, GATE_SOFTMAX, GATE_SIGMOID } Gating;

typedef struct Router {
    Gating gating;                 // GATE_SOFTMAX or GATE_SIGMOID
    int64_t experts, used;
    int64_t groups, groups_used;   // ≤ 1 groups: plain top-k. Else only experts of the best groups are eligible; a
                                   // group's score is the sum of its two best (DeepSeek-V3, arXiv:2412.19437, 2.1.2)
    bool is_normalised;            // weights of the chosen sum to one before the scale
    double scale;
} Router;

typedef struct Routing { Tensor ids, weights; } Routing;
typedef struct ExpertWeights { Weight gate, up, down; } ExpertWeights;   // [E, hidden, dim], [E, dim, hidden]

// bias: f32 [E] or NULL.
Routing experts_route(const Router *router, Tensor logits, Tensor bias);
// Σ_i weights_i · down_i(act(gate_i(x)) · up_i(x)), in the order of i; x [m, dim].
Tensor experts_mix(const Layers *l, Input x, const Routing *routing, const ExpertWeights *w, Activation activation);
