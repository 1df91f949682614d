// passes: THE list of passes from items to kernels, run and checked in one loop.
// In: the items of schedule_build. Out: kernels, or an error that names the pass. Invariant: after each pass the items are
// what ir/verify asks of them, where checks are wanted; else the checks cost nothing.
// Example: "after factor: items: range is never closed: r7".
#include "ir/verify.h"
#include "schedule/schedule.h"

typedef struct Pass { const char *name; void (*run)(Schedule *s); } Pass;

static const Pass passes[] = {
    {"split", schedule_split},
    {"factor", schedule_factor},
    {"ragged", schedule_ragged},
    {"addends", schedule_addends},
    {"apart", schedule_apart},
};

static bool check(UOp *const *stores, size_t n, const char *pass, Error *err) {
    Error wrong = {0};
    UOp *sink = uop_sink(stores[0]->graph, stores, (int)n);
    return verify(sink, STAGE_ITEMS, &wrong) || fail(err, LATHE_UNSUPPORTED, "after %s: %s", pass, wrong.text);
}

static bool check_items(const Schedule *s, const char *pass, Error *err) {
    for (size_t i = 0; i < s->items.len && verify_wanted(); i++) TRY(check(&s->items.at[i].store, 1, pass, err));
    return true;
}

static bool check_kernels(const KernelList *kernels, const char *pass, Error *err) {
    for (size_t i = 0; i < kernels->len && verify_wanted(); i++)
        TRY(check(kernels->at[i].stores.at, kernels->at[i].stores.len, pass, err));
    return true;
}

bool schedule_kernels(Schedule *s, KernelList *out, Error *err) {
    TRY(check_items(s, "indexing", err));
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        passes[i].run(s);
        TRY(check_items(s, passes[i].name, err));
    }
    *out = schedule_fuse(s);
    TRY(check_kernels(out, "fuse", err));
    schedule_forward(s, out);
    TRY(check_kernels(out, "forward", err));
    *out = schedule_sections(s, *out);
    TRY(check_kernels(out, "sections", err));
    *out = schedule_tails(s, *out);
    TRY(check_kernels(out, "tails", err));
    schedule_local(s, out);
    TRY(check_kernels(out, "local", err));
    schedule_interleave(s, out);
    return check_kernels(out, "interleave", err);
}
