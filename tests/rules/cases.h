// cases: the lines of tests/rules/*.case.
//     [rule] left  =>  right  when 0 <= x < 8, y in -3..3
// In: a line. Out: whether rewriting the left side gives exactly the right side: with the named
// rule once at the root, or, without [rule], with the sets of the file's last line "set exact" or
// "set real" until nothing changes. Variables are i32 with no stated bounds unless the line says
// otherwise (x:u8 on the left gives another type).
#pragma once
#include <stdio.h>

#include "base/os.h"
#include "base/vec.h"
#include "ir/rewrite.h"
#include "ir/rule_parse.h"
#include "ir/textform.h"
#include "rules/support.h"

typedef struct Case {
    const char *file, *left, *right, *rule;   // rule: NULL for whole sets
    int line;
    bool real;
    Bounds bounds[RULE_VARS];
    uint32_t bounded;
} Case;
typedef VEC(Case) CaseList;

static inline const char *trimmed(Arena *arena, const char *from, const char *to) {
    while (from < to && (*from == ' ' || *from == '\t')) from++;
    while (to > from && (to[-1] == ' ' || to[-1] == '\t')) to--;
    return text_cstr(arena, (Text){from, (size_t)(to - from)});
}

// "0 <= x < 8" or "x in -3..3"; false where it is neither.
static inline bool case_bounds(Case *c, const char *text) {
    long long lo, hi;
    char name, sign[3];
    int used = 0;
    if (sscanf(text, " %lld <= %c %2[<=] %lld %n", &lo, &name, sign, &hi, &used) == 4 &&
        !text[used]) {
        if (sign[1] != '=') hi--;
    } else if (sscanf(text, " %c in %lld..%lld %n", &name, &lo, &hi, &used) != 3 || text[used]) {
        return false;
    }
    if (name < 'a' || name > 'z' || lo > hi) return false;
    c->bounds[name - 'a'] = (Bounds){lo, hi};
    c->bounded |= 1u << (name - 'a');
    return true;
}

static inline bool case_parse(Arena *arena, const char *text, Case *c) {
    if (*text == '[') {
        const char *end = strchr(text, ']');
        if (!end) return false;
        c->rule = trimmed(arena, text + 1, end);
        text = end + 1;
    }
    const char *arrow = strstr(text, "=>"), *when = strstr(text, " when ");
    if (!arrow) return false;
    c->left = trimmed(arena, text, arrow);
    c->right = trimmed(arena, arrow + 2, when ? when : text + strlen(text));
    while (when) {
        const char *part = when + (*when == ',' ? 1 : 6), *end = strchr(part, ',');
        if (!case_bounds(c, trimmed(arena, part, end ? end : part + strlen(part)))) return false;
        when = end;
    }
    return true;
}

// All cases of a file, appended; an error names the line.
static inline bool cases_read(Arena *arena, const char *path, CaseList *out, Error *err) {
    Text text;
    TRY(file_read(arena, path, &text, err));
    bool real = false;
    int line = 0;
    for (const char *at = text.at, *end = text.at + text.len; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        const char *comment = memchr(at, '#', (size_t)(stop - at));
        const char *one = trimmed(arena, at, comment ? comment : stop);
        line++;
        at = stop + 1;
        if (!*one) continue;
        if (!strncmp(one, "set ", 4)) {
            real = !strcmp(one + 4, "real");
            continue;
        }
        Case c = {.file = path, .line = line, .real = real};
        if (!case_parse(arena, one, &c))
            return fail(err, LATHE_BAD_FILE, "%s:%d: no case: %s", path, line, one);
        vec_push(arena, out, c);
    }
    return true;
}

// The row of a name in the three sets; NULL where there is none.
static inline const Rule *rule_named(const char *name) {
    const RuleSet *all[] = {&rules_algebra, &rules_index, &rules_real};
    for (int s = 0; s < 3; s++) {
        const RuleTable *t = ruleset_table(all[s]);
        for (int i = 0; i < t->n_rules; i++)
            if (!strcmp(t->rules[i].row->name, name)) return &t->rules[i];
    }
    return NULL;
}

static inline void case_classes(const RuleTerm *t, uint32_t *vars, uint32_t dtypes[RULE_VARS]) {
    if (t->kind == TERM_VAR) *vars |= 1u << t->slot, dtypes[t->slot] = t->dtypes;
    for (int i = 0; i < t->n_src; i++) case_classes(t->src[i], vars, dtypes);
}

// Variables are made in order of their letters, so that sums come out in that order.
static inline void case_bind(const RuleTerm *t, const Case *c, Graph *g, Match *m) {
    uint32_t dtypes[RULE_VARS];
    case_classes(t, &m->bound, dtypes);
    for (int v = 0; v < RULE_VARS; v++) {
        if (!(m->bound >> v & 1)) continue;
        DType d = dtypes[v] >> DT_F32 & 1 ? DT_F32 : DT_I32;
        for (int k = 1; k < DT_COUNT; k++) if (dtypes[v] == 1u << k) d = (DType)k;
        Bounds b = c->bounded >> v & 1 ? c->bounds[v] : bounds_of_dtype(d);
        m->var[v] = variable(g, d, v, b.lo, b.hi);
    }
}

// rule: the row to use for a [rule] case (a mutant, say). False with what happened instead in *err.
static inline bool case_run(const Case *c, const Rule *rule, Error *err) {
    Arena *arena = arena_create();
    Graph *g = graph_create(arena);
    RuleRow row = {"case", c->left, c->right, "", c->file, c->line, false, NULL};
    Rule parsed;
    bool ok = rule_parse(arena, &rules_algebra, &row, &parsed, err);
    if (ok) {
        Match m = {0};
        case_bind(parsed.pattern, c, g, &m);
        UOp *like = uop_int(g, DT_I32, 0), *got, *right;
        UOp *left = rule_term(parsed.pattern, &m, like);
        RewriteContext ctx = {g, "case", NULL};
        const RuleSet *exact[] = {&rules_algebra, &rules_index, &rules_real};
        got = c->rule ? rule_apply(rule, &ctx, left)
                      : rewrite(left, exact, c->real ? 3 : 2, "case", NULL);
        right = rule_term(parsed.result, &m, left);
        if (!got) got = left;
        if (got != right)
            ok = fail(err, LATHE_BAD_FILE, "%s:%d: %s gives %s, not %s", c->file, c->line, c->left,
                      textform_expression(arena, got, 20), textform_expression(arena, right, 20));
    }
    arena_destroy(arena);
    return ok;
}
