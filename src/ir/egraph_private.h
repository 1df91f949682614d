// egraph_private: the classes and nodes that egraph.c grows, egraph_match.c searches and
// egraph_extract.c chooses from.
// Invariant: after egraph_rebuild no two live nodes have the same op, args and canonical source
// classes.
// Example: after x + 0 → x, the class of x holds the nodes x and ADD(x, 0).
#pragma once
#include "base/map.h"
#include "base/vec.h"
#include "ir/bounds.h"
#include "ir/egraph.h"

typedef uint32_t ClassId;

typedef struct ENode {
    UOp *uop;                // op, type and args; its sources are members of the source classes
    ClassId *src;            // n_src classes
    int n_src;               // 0 for nodes that stay as they are
    ClassId home;            // class at the time of making; class_find gives today's
    const Rule *reason;      // the row that made it, NULL for the original graph
    bool dead;               // the same as another node
} ENode;

typedef struct EClass {
    ClassId parent;          // union-find
    VEC(uint32_t) nodes;
    VEC(uint32_t) users;     // nodes that have this class as a source
    UOp *member;             // some node of the class, for building right sides
    UOp *constant;           // the CONST that the class is, or NULL
    Bounds bounds;
} EClass;

typedef struct EGraph {
    Arena *arena;
    Graph *graph;
    VEC(ENode) nodes;
    VEC(EClass) classes;
    UOpMap class_of;         // UOp → class + 1
    Map memo;                // op, args, source classes → node + 1
    VEC(uint32_t) pending;   // nodes whose source classes were joined
    VEC(uint32_t) stale;     // nodes whose facts may be better now
    int unions;
} EGraph;

// One right side that a search found: it equals the class.
typedef struct Found { ClassId root; UOp *right; const Rule *rule; } Found;
typedef VEC(Found) FoundList;

ClassId class_find(EGraph *e, ClassId c);
ClassId egraph_add(EGraph *e, UOp *root, const Rule *reason);
void egraph_union(EGraph *e, ClassId a, ClassId b);
void egraph_rebuild(EGraph *e);

// Appends what a row makes of every class, at most `matches` times.
void egraph_search(EGraph *e, const Rule *rule, int matches, FoundList *found);

// The cheapest node of a class that could be found.
UOp *egraph_extract(EGraph *e, ClassId root, EgraphCost node_cost, void *ctx, EgraphReport *report);
