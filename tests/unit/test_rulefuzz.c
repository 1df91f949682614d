// test_rulefuzz: every row of the rule sets on random numbers, and the proof that this finds wrong
// rows.
// In: the rows. EXACT rows: both sides are computed by eval and must have the same bits, on
// integers up to their limits and on odd floats; REAL rows are computed in exact fractions. Mutants
// of each text row (a guard or part of it dropped, a constant bumped, operands swapped where order
// matters) must be refuted by the same fuzzer or by a [row] line of the .case files; those that are
// not are listed in tests/rules/survivors.tsv with the reason.
#include "base/map.h"
#include "rules/cases.h"
#include "rules/rational.h"
#include "rules/sample.h"

#include "rules/with_cmocka.h"

static const RuleSet *const sets[] = {&rules_algebra, &rules_index, &rules_real};
enum { SETS = 3, WANTED_FIRES = 300, MAX_DRAWS = 60000, VALUES = 12 };

typedef enum Verdict { SOUND, REFUTED, ILL_FORMED } Verdict;
typedef struct Fuzzed { Verdict verdict; int fires, draws; char why[600]; } Fuzzed;

// ---------------------------------------------------------------- one row

static void refute(Fuzzed *f, Arena *arena, UOp *left, UOp *right, const Values *v) {
    f->verdict = REFUTED;
    Number a = value_of(arena, left, v), b = value_of(arena, right, v);
    bool real = dtype_is_float(left->dtype);
    snprintf(f->why, sizeof f->why, "%s = %.17g, but %s = %.17g (%s)",
             textform_expression(arena, left, 9), real ? a.f : (double)a.i,
             textform_expression(arena, right, 9), real ? b.f : (double)b.i,
             dtype_info[left->dtype].name);
}

static void fuzz_exact_once(const Rule *rule, Random *r, Arena *arena, Fuzzed *f) {
    Sample s;
    Graph *g = graph_create(arena);
    RewriteContext ctx = {g, "fuzz", NULL};
    if (!sample_make(&s, rule, g, r) || s.left->lanes != 1 || !rule_guard(rule, &s.match)) return;     // bytes of a number are lanes
    UOp *right = rule->row->action ? rule_apply(rule, &ctx, s.left)
                                   : rule_term(rule->result, &s.match, s.left);
    if (!right) return;
    f->fires++;
    if (uop_is_poison(right) || right->dtype != s.left->dtype || right->lanes != 1) {
        f->verdict = ILL_FORMED;
        snprintf(f->why, sizeof f->why, "%s becomes an ill-formed node",
                 textform_expression(arena, s.left, 9));
        return;
    }
    for (int t = 0; t < VALUES && f->verdict == SOUND; t++) {
        Values v = {0};
        sample_values(&s, r, &v);
        if (!same_number(s.left->dtype, value_of(arena, s.left, &v), value_of(arena, right, &v)))
            refute(f, arena, s.left, right, &v);
    }
}

static Rational small_fraction(Random *r) {
    static const int64_t dens[] = {1, 1, 1, 2, 4};
    return rational(random_below(r, 13) - 6, dens[random_below(r, 5)]);
}

static void fuzz_real_once(const Rule *rule, Random *r, Arena *arena, Fuzzed *f) {
    Sample s;
    Graph *g = graph_create(arena);
    if (!sample_make(&s, rule, g, r)) return;
    RationalValues v;
    for (int i = 0; i < RULE_CONSTANTS; i++) {
        if (!(s.match.bound_constants >> i & 1)) continue;
        v.constants[i] = small_fraction(r);
        s.match.value[i].f = (double)v.constants[i].num / (double)v.constants[i].den;
        s.match.constant[i] = uop_float(g, s.match.constant[i]->dtype, s.match.value[i].f);
    }
    if (!rule_guard(rule, &s.match)) return;
    f->fires++;
    for (int t = 0; t < VALUES && f->verdict == SOUND; t++) {
        Values n = {0};
        sample_values(&s, r, &n);
        for (int i = 0; i < RULE_VARS; i++) {
            if (!(s.match.bound >> i & 1)) continue;
            bool whole = dtype_is_int(s.match.var[i]->dtype);
            v.vars[i] = whole ? rational(n.slots[i].i, 1) : small_fraction(r);
        }
        Rational a = rational_term(rule->pattern, &v), b = rational_term(rule->result, &v);
        if (!a.ok || !b.ok || (a.num == b.num && a.den == b.den)) continue;
        f->verdict = REFUTED;
        snprintf(f->why, sizeof f->why, "%s => %s: %lld/%lld, but %lld/%lld", rule->row->pattern,
                 rule->row->result, (long long)a.num, (long long)a.den, (long long)b.num,
                 (long long)b.den);
    }
}

// Integers of a REAL row are exact as well: its right side must not wrap where the guard says it
// fits.
static bool has_whole_names(const RuleTerm *t) {
    Names n = {0};
    names_of(t, &n);
    for (int i = 0; i < RULE_VARS; i++)
        if (n.vars >> i & 1 && n.dtypes[i] >> DT_I32 & 1) return true;
    return false;
}

// The right side's integers by eval (they may wrap), the left side exactly.
static void fuzz_cast_once(const Rule *rule, Random *r, Arena *arena, Fuzzed *f) {
    Sample s;
    Graph *g = graph_create(arena);
    if (!sample_make(&s, rule, g, r) || !rule_guard(rule, &s.match)) return;
    UOp *right = rule_term(rule->result, &s.match, s.left);
    f->fires++;
    if (!right || uop_is_poison(right) || right->op != OP_CAST || right->dtype != s.left->dtype) {
        f->verdict = ILL_FORMED;
        return;
    }
    for (int t = 0; t < VALUES && f->verdict == SOUND; t++) {
        Values n = {0};
        RationalValues v;
        sample_values(&s, r, &n);
        for (int i = 0; i < RULE_VARS; i++) v.vars[i] = rational(n.slots[i].i, 1);
        Rational a = rational_term(rule->pattern, &v);
        Number b = value_of(arena, right->src[0], &n);
        if (!a.ok || (a.den == 1 && a.num == b.i)) continue;
        f->verdict = REFUTED;
        snprintf(f->why, sizeof f->why, "%s: %lld, but %lld", rule->row->pattern, (long long)a.num,
                 (long long)b.i);
    }
}

static Fuzzed fuzz(const Rule *rule, uint64_t seed, int wanted, int max_draws) {
    Fuzzed f = {SOUND, 0, 0, ""};
    Random r = {seed};
    bool real = rule->set == &rules_real, casts = real && has_whole_names(rule->pattern);
    Arena *arena = arena_create();
    for (; f.verdict == SOUND && f.fires < wanted && f.draws < max_draws; f.draws++) {
        arena_reset(arena);
        if (casts) fuzz_cast_once(rule, &r, arena, &f);
        else if (real) fuzz_real_once(rule, &r, arena, &f);
        else fuzz_exact_once(rule, &r, arena, &f);
    }
    arena_destroy(arena);
    return f;
}

// Rows about memory have no numbers; test_rule has them.
static bool has_numbers(const Rule *rule) {
    Names n = {.only_values = true};
    names_of(rule->pattern, &n);
    return n.only_values;
}

static void test_every_row(void **state) {
    (void)state;
    int rows = 0, left_out = 0;
    const char *only = getenv("LATHE_TEST_RULE"), *more = getenv("LATHE_TEST_FIRES");
    int wanted = more ? atoi(more) : WANTED_FIRES;
    for (int s = 0; s < SETS; s++) {
        const RuleTable *table = ruleset_table(sets[s]);
        for (int i = 0; i < table->n_rules; i++) {
            const Rule *rule = &table->rules[i];
            if (only && strcmp(only, rule->row->name)) continue;
            if (!has_numbers(rule)) {
                left_out++;
                continue;
            }
            Fuzzed f = fuzz(rule, 1000u * (unsigned)s + (unsigned)i, wanted,
                            MAX_DRAWS * (wanted / WANTED_FIRES));
            rows++;
            if (f.verdict != SOUND)
                fail_msg("%s:%d: rule \"%s\": %s", rule->row->file, rule->row->line,
                         rule->row->name, f.why);
            if (f.fires < 30)
                fail_msg("%s:%d: rule \"%s\" fired %d times in %d draws", rule->row->file,
                         rule->row->line, rule->row->name, f.fires, f.draws);
            if (only) printf("%s: %d fires in %d draws\n", rule->row->name, f.fires, f.draws);
        }
    }
    printf("%d rows fuzzed, %d without numbers\n", rows, left_out);
    assert_true(only || left_out <= 2);
}

// ---------------------------------------------------------------- mutants

typedef enum MutationKind { BUMP_UP, BUMP_DOWN, SWAP, DROP } MutationKind;
static const char *const mutation_names[] = {"constant up", "constant down", "operands swapped",
                                             "guard dropped"};

typedef struct Mutator {
    Arena *arena;
    int wanted, site;
    MutationKind kind;
    bool in_guard;
} Mutator;

static bool is_ordered(const RuleTerm *t) {
    if (t->kind == TERM_LE) return true;
    if (t->kind != TERM_OP || t->n_src < 2) return false;
    return t->op == OP_WHERE || !(op_info[t->op].traits & TRAIT_COMM);
}

static bool same_term(const RuleTerm *a, const RuleTerm *b) {
    if (a->kind != b->kind || a->op != b->op || a->slot != b->slot || a->n_src != b->n_src ||
        a->i != b->i)
        return false;
    for (int i = 0; i < a->n_src; i++) if (!same_term(a->src[i], b->src[i])) return false;
    return true;
}

static const RuleTerm *mutate(Mutator *m, const RuleTerm *t);

static RuleTerm *clone(Mutator *m, const RuleTerm *t) {
    RuleTerm *copy = arena_copy(m->arena, t, sizeof *t);
    for (int i = 0; i < t->n_src; i++) copy->src[i] = mutate(m, t->src[i]);
    return copy;
}

// {e} becomes {e ± 1}.
static RuleTerm *bumped(Mutator *m, RuleTerm *t) {
    int step = m->kind == BUMP_UP ? 1 : -1;
    if (t->kind == TERM_LITERAL) {
        t->i = t->dtypes ? !t->i : t->i + step;
        t->f += step;
        return t;
    }
    RuleTerm *one = arena_new(m->arena, sizeof *one), *sum = arena_new(m->arena, sizeof *sum);
    *one = (RuleTerm){.kind = TERM_LITERAL, .i = step, .f = step, .rest = -1};
    *sum =
        (RuleTerm){.kind = TERM_OP, .op = OP_ADD, .n_src = 2, .rest = -1, .src = {t->src[0], one}};
    t->src[0] = sum;
    return t;
}

// The wanted site of this kind changed, everything else copied.
static const RuleTerm *mutate(Mutator *m, const RuleTerm *t) {
    bool bump = m->kind == BUMP_UP || m->kind == BUMP_DOWN;
    bool is_site = bump ? t->kind == TERM_LITERAL || t->kind == TERM_COMPUTED
                   : m->kind == SWAP
                       ? is_ordered(t) && !same_term(t->src[t->n_src - 2], t->src[t->n_src - 1])
                       : m->in_guard && t->kind == TERM_AND;
    // A bool has one other value.
    if (m->kind == BUMP_DOWN && t->kind == TERM_LITERAL && t->dtypes) is_site = false;
    bool here = is_site && m->site++ == m->wanted;
    if (here && m->kind == DROP) return mutate(m, t->src[1]);
    RuleTerm *copy = clone(m, t);
    if (!here) return copy;
    if (bump) return bumped(m, copy);
    const RuleTerm *last = copy->src[t->n_src - 1];
    copy->src[t->n_src - 1] = copy->src[t->n_src - 2];
    copy->src[t->n_src - 2] = last;
    return copy;
}

// Mutant `wanted` of a rule of one kind; false where there are no more. Dropping: first the whole
// guard, then for each && its left and its right side.
static bool mutant_make(Arena *arena, const Rule *rule, MutationKind kind, int wanted, Rule *out) {
    *out = *rule;
    if (kind == DROP) {
        if (!rule->guard) return false;
        if (wanted == 0) {
            out->guard = NULL;
            return true;
        }
        // Right conjuncts stay for odd numbers, left ones for even: swap sides before dropping the
        // left.
        Mutator m = {arena, (wanted - 1) / 2, 0, DROP, true};
        out->guard = mutate(&m, rule->guard);
        if (wanted % 2 == 0 && m.site > m.wanted) {
            Mutator again = {arena, (wanted - 1) / 2, 0, DROP, true};
            RuleTerm *flipped = arena_copy(arena, rule->guard, sizeof *flipped);
            if (flipped->kind != TERM_AND) return false;
            flipped->src[0] = rule->guard->src[1];
            flipped->src[1] = rule->guard->src[0];
            out->guard = mutate(&again, flipped);
        }
        return m.site > m.wanted;
    }
    Mutator m = {arena, wanted, 0, kind, false};
    out->pattern = mutate(&m, rule->pattern);
    out->result = mutate(&m, rule->result);
    m.in_guard = true;
    if (rule->guard) out->guard = mutate(&m, rule->guard);
    return m.site > wanted;
}

static bool caught_by_case(const CaseList *cases, const Rule *mutant) {
    Error err;
    for (size_t i = 0; i < cases->len; i++) {
        const Case *c = &cases->at[i];
        if (c->rule && !strcmp(c->rule, mutant->row->name) && !case_run(c, mutant, &err))
            return true;
    }
    return false;
}

typedef struct Tally { int mutants, caught, explained; Map reasons; Map seen; } Tally;

static void try_mutant(const CaseList *cases, const Rule *mutant, MutationKind kind, int number,
                       Tally *tally) {
    tally->mutants++;
    Fuzzed f = fuzz(mutant, 77u * (unsigned)number + (unsigned)kind, WANTED_FIRES, MAX_DRAWS / 3);
    if (f.verdict != SOUND || caught_by_case(cases, mutant)) {
        tally->caught++;
        return;
    }
    char key[128];
    snprintf(key, sizeof key, "%s\t%s\t%d", mutant->row->name, mutation_names[kind], number);
    if (map_get_text(&tally->reasons, key)) {
        tally->explained++;
        map_put_text(&tally->seen, key, (void *)1);
    } else {
        print_error("survivor without a reason: %s\n", key);
    }
}

// Lines of survivors.tsv: rule, mutation, number, reason.
static void read_survivors(Arena *arena, Map *reasons) {
    Text text;
    Error err;
    map_init(reasons, arena);
    if (!file_read(arena, "tests/rules/survivors.tsv", &text, &err)) fail_msg("%s", err.text);
    for (const char *at = text.at, *end = text.at + text.len; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        const char *line = text_cstr(arena, (Text){at, (size_t)(stop - at)}),
                   *tab = strrchr(line, '\t');
        at = stop + 1;
        if (!*line || *line == '#') continue;
        if (!tab || strlen(tab) < 10) fail_msg("survivors.tsv: no reason in: %s", line);
        map_put_text(reasons, text_cstr(arena, (Text){line, (size_t)(tab - line)}),
                     (void *)(uintptr_t)tab);
    }
}

static void test_mutants(void **state) {
    (void)state;
    Arena *arena = arena_create();
    CaseList cases = {0};
    Error err;
    Tally tally = {0};
    if (!cases_read(arena, "tests/rules/algebra.case", &cases, &err) || !cases_read(arena, "tests/rules/index.case", &cases, &err))
        fail_msg("%s", err.text);
    read_survivors(arena, &tally.reasons);
    map_init(&tally.seen, arena);
    for (int s = 0; s < SETS; s++) {
        const RuleTable *table = ruleset_table(sets[s]);
        for (int i = 0; i < table->n_rules; i++) {
            if (table->rules[i].row->action || !has_numbers(&table->rules[i])) continue;
            for (MutationKind kind = BUMP_UP; kind <= DROP; kind++) {
                Rule mutant;
                for (int k = 0; mutant_make(arena, &table->rules[i], kind, k, &mutant); k++)
                    try_mutant(&cases, &mutant, kind, k, &tally);
            }
        }
    }
    printf("%d mutants, %d caught (%.1f %%), %d survivors explained\n", tally.mutants, tally.caught,
           100.0 * tally.caught / tally.mutants, tally.explained);
    for (size_t i = 0; i < tally.reasons.len; i++)
        if (!map_has(&tally.seen, tally.reasons.entries[i].key, tally.reasons.entries[i].key_bytes))
            print_error("survivors.tsv lists one that is caught: %s\n",
                        (const char *)tally.reasons.entries[i].key);
    assert_int_equal(tally.caught + tally.explained, tally.mutants);
    assert_true(tally.caught * 100 >= tally.mutants * 98);
    arena_destroy(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row),
        cmocka_unit_test(test_mutants),
    };
    return cmocka_run_group_tests_name("rulefuzz", tests, NULL, NULL);
}
