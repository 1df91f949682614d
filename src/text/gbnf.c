// gbnf: see gbnf.h. Read into items first, since rules may be used before they are defined; then every rule is looked at:
// may it be empty, does it begin with itself, does it ever end; then items become nodes.
// Example: root ::= "a" root | → CHOICE(SEQUENCE("a", RULE root), SEQUENCE()) → may be empty
#include "text/gbnf.h"

#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "text/code_ranges.h"
#include "text/cursor.h"

typedef enum ItemKind { ITEM_NODE, ITEM_RULE, ITEM_SEQUENCE, ITEM_CHOICE, ITEM_REPEAT } ItemKind;

typedef struct Item Item;
struct Item {
    ItemKind kind;
    size_t place;                    // in the source, for errors
    GrammarNode node;                // NODE: a literal or a class
    int rule;                        // RULE
    struct { Item **at; size_t len, cap; } parts;    // REPEAT: one
    int64_t least, most;             // REPEAT
};

typedef enum RuleState { NOT_SEEN, UNDER_WAY, SEEN } RuleState;
typedef struct Rule {
    const char *name;
    Item *body;                      // NULL: not defined
    size_t place;                    // of its definition, or of the first use
    RuleState state;
    bool may_be_empty, has_end;      // some text of it ends
    GrammarNode node;
} Rule;

typedef struct Reader {
    Grammar *g;
    Arena *arena;
    TextCursor in;
    int groups, steps;
    VEC(Rule) rules;
    Map numbers;                     // of rules, by name: number + 1
    Error *err;
} Reader;

static bool refuse_at(Reader *r, size_t place, const char *what) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < place && i < r->in.text.len; i++) {
        bool is_new = r->in.text.at[i] == '\n', is_within = (r->in.text.at[i] & 0xC0) == 0x80;
        line += is_new;
        column = is_new ? 1 : column + !is_within;
    }
    return fail(r->err, LATHE_BAD_REQUEST, "line %zu, column %zu: %s", line, column, what);
}

static bool refuse(Reader *r, const char *what) {
    return refuse_at(r, r->in.at, what);
}

static bool refuse_rule(Reader *r, size_t place, const char *what, const char *name) {
    TextBuilder text = builder(r->arena);
    builder_cstring(&text, "the rule \"");
    builder_append(&text, name, strnlen(name, 80));
    builder_printf(&text, "\" %s", what);
    return refuse_at(r, place, builder_cstr(&text));
}

// ---- characters

static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static bool is_line_end(char c) {
    return c == '\n' || c == '\r';
}

static void space_skip(Reader *r, bool over_lines) {
    for (; !cursor_is_over(&r->in); r->in.at++) {
        char c = cursor_peek(&r->in);
        if (c == '#')
            while (r->in.at + 1 < r->in.text.len && !is_line_end(r->in.text.at[r->in.at + 1])) r->in.at++;
        else if (c != ' ' && c != '\t' && !(over_lines && is_line_end(c))) return;
    }
}

static bool hex_take(Reader *r, int digits, int32_t *code) {
    int64_t value;
    if (!cursor_hex(&r->in, digits, &value)) return refuse(r, "an escape with too few digits");
    if (value > LAST_CODE || (value >= 0xD800 && value <= 0xDFFF)) return refuse(r, "an escape of what is no character");
    *code = (int32_t)value;
    return true;
}

static bool character_take(Reader *r, int32_t *code) {
    static const char letters[] = "nrt\\\"[]", values[] = "\n\r\t\\\"[]";
    static const struct { char letter; int digits; } hex[] = {{'x', 2}, {'u', 4}, {'U', 8}};
    size_t used;
    if (!cursor_take(&r->in, '\\')) {
        *code = utf8_decode(r->in.text.at + r->in.at, r->in.text.len - r->in.at, &used);
        if (*code < 0) return refuse(r, "bytes that are no character");
        r->in.at += used;
        return true;
    }
    char c = cursor_peek(&r->in);
    for (size_t i = 0; i < sizeof hex / sizeof *hex; i++)
        if (cursor_take(&r->in, hex[i].letter)) return hex_take(r, hex[i].digits, code);
    const char *known = c ? strchr(letters, c) : NULL;
    if (!known) return refuse(r, "an unknown escape: known are \\n \\r \\t \\\\ \\\" \\[ \\] \\xHH \\uHHHH \\UHHHHHHHH");
    *code = values[known - letters];
    r->in.at++;
    return true;
}

// ---- items

static Item *item_make(Reader *r, ItemKind kind, size_t place) {
    Item *item = arena_new(r->arena, sizeof *item);
    *item = (Item){.kind = kind, .place = place};
    return item;
}

static bool literal_take(Reader *r, Item **out) {
    TextBuilder text = builder(r->arena);
    size_t begin = r->in.at++;
    while (!cursor_is_over(&r->in) && cursor_peek(&r->in) != '"' && !is_line_end(cursor_peek(&r->in))) {
        int32_t code;
        char bytes[4];
        TRY(character_take(r, &code));
        builder_append(&text, bytes, utf8_encode(code, bytes));
    }
    if (!cursor_take(&r->in, '"')) return refuse_at(r, begin, "a literal without its closing \"");
    *out = item_make(r, ITEM_NODE, begin);
    (*out)->node = grammar_text(r->g, builder_view(&text));
    return true;
}

static bool class_take(Reader *r, Item **out) {
    CodeRanges ranges = {0};
    size_t begin = r->in.at++;
    bool is_inverted = cursor_take(&r->in, '^');
    while (!cursor_is_over(&r->in) && cursor_peek(&r->in) != ']' && !is_line_end(cursor_peek(&r->in))) {
        int32_t first, last;
        size_t place = r->in.at;
        TRY(character_take(r, &first));
        last = first;
        bool is_range = cursor_peek(&r->in) == '-' && r->in.at + 1 < r->in.text.len && r->in.text.at[r->in.at + 1] != ']';
        if (is_range) {
            r->in.at++;
            TRY(character_take(r, &last));
        }
        if (last < first) return refuse_at(r, place, "a range that ends before it begins");
        code_ranges_put(r->arena, &ranges, first, last);
    }
    if (!cursor_take(&r->in, ']')) return refuse_at(r, begin, "a class without its ]");
    if (is_inverted) ranges = code_ranges_invert(r->arena, &ranges);
    *out = item_make(r, ITEM_NODE, begin);
    (*out)->node = code_ranges_node(r->g, &ranges, false);
    return (*out)->node >= 0 || refuse_at(r, begin, "a class that no character is in");
}

static Item *any_take(Reader *r) {
    CodeRanges all = {0};
    Item *item = item_make(r, ITEM_NODE, r->in.at++);
    code_ranges_put(r->arena, &all, 0, LAST_CODE);
    item->node = code_ranges_node(r->g, &all, false);
    return item;
}

static bool name_take(Reader *r, int *number) {
    size_t begin = r->in.at;
    while (is_name(cursor_peek(&r->in))) r->in.at++;
    if (r->in.at == begin) return refuse(r, "the name of a rule is expected here");
    const char *name = text_cstr(r->arena, (Text){r->in.text.at + begin, r->in.at - begin});
    uintptr_t known = (uintptr_t)map_get_text(&r->numbers, name);
    *number = (int)known - 1;
    if (known) return true;
    if (r->rules.len >= GBNF_RULES_MAX) return refuse_at(r, begin, "too many rules");
    *number = (int)r->rules.len;
    vec_push(r->arena, &r->rules, ((Rule){.name = name, .place = begin}));
    map_put_text(&r->numbers, name, (void *)(uintptr_t)r->rules.len);
    return true;
}

static bool choice_take(Reader *r, Item **out);

static bool group_take(Reader *r, Item **out) {
    size_t begin = r->in.at++;
    if (++r->groups > GBNF_GROUPS_MAX) return refuse_at(r, begin, "groups nested too deep");
    space_skip(r, true);
    TRY(choice_take(r, out));
    r->groups--;
    return cursor_take(&r->in, ')') || refuse_at(r, begin, "a group without its )");
}

static bool atom_take(Reader *r, Item **out) {
    size_t begin = r->in.at;
    switch (cursor_peek(&r->in)) {
    case '"': return literal_take(r, out);
    case '[': return class_take(r, out);
    case '(': return group_take(r, out);
    case '.': *out = any_take(r); return true;
    default:
        *out = item_make(r, ITEM_RULE, begin);
        return name_take(r, &(*out)->rule);
    }
}

static bool number_take(Reader *r, int64_t *number) {
    size_t begin = r->in.at;
    for (*number = 0; cursor_peek(&r->in) >= '0' && cursor_peek(&r->in) <= '9'; r->in.at++) {
        *number = *number * 10 + (cursor_peek(&r->in) - '0');
        if (*number > INT32_MAX) return refuse_at(r, begin, "a count that is too large");
    }
    return r->in.at > begin || refuse(r, "a count is expected here");
}

static bool counts_take(Reader *r, int64_t *least, int64_t *most) {
    static const struct { char sign; int64_t least, most; } signs[] = {{'*', 0, GRAMMAR_FOREVER}, {'+', 1, GRAMMAR_FOREVER}, {'?', 0, 1}};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (!cursor_take(&r->in, signs[i].sign)) continue;
        *least = signs[i].least, *most = signs[i].most;
        return true;
    }
    size_t begin = r->in.at++;          // {
    space_skip(r, true);
    TRY(number_take(r, least));
    *most = *least;
    space_skip(r, true);
    if (cursor_take(&r->in, ',')) {
        space_skip(r, true);
        *most = GRAMMAR_FOREVER;
        if (cursor_peek(&r->in) != '}') TRY(number_take(r, most));
        space_skip(r, true);
    }
    if (!cursor_take(&r->in, '}')) return refuse(r, "a } is expected here");
    return *most == GRAMMAR_FOREVER || *most >= *least || refuse_at(r, begin, "at least more than at most");
}

// Operators behind an atom; each takes all before it.
static bool repeats_take(Reader *r, Item **item) {
    for (int n = 0;; n++) {
        space_skip(r, r->groups > 0);
        if (cursor_is_over(&r->in) || !strchr("*+?{", cursor_peek(&r->in))) return true;
        if (n == GBNF_GROUPS_MAX) return refuse(r, "too many repetitions of one thing");
        Item *repeat = item_make(r, ITEM_REPEAT, r->in.at);
        TRY(counts_take(r, &repeat->least, &repeat->most));
        vec_push(r->arena, &repeat->parts, *item);
        *item = repeat;
    }
}

static bool sequence_take(Reader *r, Item **out) {
    *out = item_make(r, ITEM_SEQUENCE, r->in.at);
    while (!cursor_is_over(&r->in) && (is_name(cursor_peek(&r->in)) || strchr("\"[(.", cursor_peek(&r->in)))) {
        Item *atom;
        TRY(atom_take(r, &atom));
        TRY(repeats_take(r, &atom));
        vec_push(r->arena, &(*out)->parts, atom);
    }
    return true;
}

static bool choice_take(Reader *r, Item **out) {
    *out = item_make(r, ITEM_CHOICE, r->in.at);
    do {
        Item *sequence;
        space_skip(r, r->groups > 0 || (*out)->parts.len > 0);
        TRY(sequence_take(r, &sequence));
        vec_push(r->arena, &(*out)->parts, sequence);
    } while (cursor_take(&r->in, '|'));
    return true;
}

static bool rule_take(Reader *r) {
    int number;
    size_t begin = r->in.at;
    TRY(name_take(r, &number));
    if (r->rules.at[number].body) return refuse_rule(r, begin, "is defined twice", r->rules.at[number].name);
    space_skip(r, false);
    for (const char *c = "::="; *c; c++)
        if (!cursor_take(&r->in, *c)) return refuse(r, "::= is expected here");
    space_skip(r, true);
    Item *body;
    TRY(choice_take(r, &body));
    r->rules.at[number].body = body;
    r->rules.at[number].place = begin;
    if (!cursor_is_over(&r->in) && !is_line_end(cursor_peek(&r->in))) return refuse(r, "nothing that a rule is made of begins so");
    space_skip(r, true);
    return true;
}

// ---- what rules are

// May the item be empty? All that it may begin with is looked at, so that a rule that comes by again while it is under way
// begins with itself.
static bool item_look(Reader *r, const Item *item, bool *may_be_empty);

static bool rule_look(Reader *r, int number, size_t place) {
    Rule *rule = &r->rules.at[number];
    if (rule->state == SEEN) return true;
    if (rule->state == UNDER_WAY) return refuse_rule(r, place, "begins with itself, which no text can be held to: put it last", rule->name);
    rule->state = UNDER_WAY;
    TRY(item_look(r, rule->body, &rule->may_be_empty));
    rule->state = SEEN;
    return true;
}

static bool parts_look(Reader *r, const Item *item, bool *may_be_empty) {
    bool is_choice = item->kind == ITEM_CHOICE;
    *may_be_empty = !is_choice;
    for (size_t i = 0; i < item->parts.len; i++) {
        bool is_empty;
        TRY(item_look(r, item->parts.at[i], &is_empty));
        if (is_empty == is_choice) *may_be_empty = is_choice;
        if (!is_choice && !is_empty) break;
    }
    return true;
}

static bool item_look(Reader *r, const Item *item, bool *may_be_empty) {
    bool ok = true;
    if (++r->steps > GBNF_STEPS_MAX) return refuse_at(r, item->place, "rules that lead to rules, too deep, before a first character");
    switch (item->kind) {
    case ITEM_NODE: *may_be_empty = r->g->at[item->node].may_be_empty; break;
    case ITEM_RULE:
        ok = rule_look(r, item->rule, item->place);
        *may_be_empty = r->rules.at[item->rule].may_be_empty;
        break;
    case ITEM_SEQUENCE: case ITEM_CHOICE: ok = parts_look(r, item, may_be_empty); break;
    case ITEM_REPEAT:
        ok = item_look(r, item->parts.at[0], may_be_empty);
        *may_be_empty |= item->least == 0;
        break;
    }
    r->steps--;
    return ok;
}

static bool item_has_end(const Reader *r, const Item *item) {
    bool has_end = item->kind != ITEM_CHOICE;
    if (item->kind == ITEM_RULE) return r->rules.at[item->rule].has_end;
    if (item->kind == ITEM_REPEAT && item->least == 0) return true;
    for (size_t i = 0; i < item->parts.len; i++) {
        if (item_has_end(r, item->parts.at[i]) == has_end) continue;
        return !has_end;
    }
    return has_end;
}

static bool ends_find(Reader *r) {
    for (bool is_new = true; is_new;) {
        is_new = false;
        for (size_t i = r->rules.len; i-- > 0;) {        // what is used mostly stands behind what uses it
            Rule *rule = &r->rules.at[i];
            bool ends = !rule->has_end && item_has_end(r, rule->body);
            rule->has_end |= ends;
            is_new |= ends;
        }
    }
    for (size_t i = 0; i < r->rules.len; i++)
        if (!r->rules.at[i].has_end) return refuse_rule(r, r->rules.at[i].place, "never ends: it always needs itself again", r->rules.at[i].name);
    return true;
}

static bool rules_check(Reader *r) {
    if (!map_has(&r->numbers, "root", strlen("root"))) return refuse(r, "there is no rule called root");
    for (size_t i = 0; i < r->rules.len; i++)
        if (!r->rules.at[i].body) return refuse_rule(r, r->rules.at[i].place, "is not defined", r->rules.at[i].name);
    for (size_t i = 0; i < r->rules.len; i++) TRY(rule_look(r, (int)i, r->rules.at[i].place));
    return ends_find(r);
}

// ---- nodes

static bool item_node(Reader *r, const Item *item, GrammarNode *out) {
    size_t n = item->parts.len;
    GrammarNode *nodes = arena_new(r->arena, (n + 1) * sizeof *nodes);
    Error inner;
    for (size_t i = 0; i < n; i++) TRY(item_node(r, item->parts.at[i], &nodes[i]));
    switch (item->kind) {
    case ITEM_NODE: *out = item->node; break;
    case ITEM_RULE: *out = r->rules.at[item->rule].node; break;
    case ITEM_SEQUENCE: *out = grammar_seq(r->g, nodes, (int)n); break;
    case ITEM_CHOICE: *out = grammar_alt(r->g, nodes, (int)n); break;
    case ITEM_REPEAT:
        return grammar_repeat(r->g, nodes[0], item->least, item->most, out, &inner) || refuse_at(r, item->place, inner.text);
    }
    return true;
}

bool gbnf_parse(Grammar *g, Text source, GrammarNode *out, Error *err) {
    Reader r = {.g = g, .arena = g->arena, .in = {source, 0}, .err = err};
    map_init(&r.numbers, g->arena);
    space_skip(&r, true);
    while (!cursor_is_over(&r.in)) TRY(rule_take(&r));
    TRY(rules_check(&r));
    for (size_t i = 0; i < r.rules.len; i++) r.rules.at[i].node = grammar_rule_known(g, r.rules.at[i].may_be_empty);
    for (size_t i = 0; i < r.rules.len; i++) {
        GrammarNode meaning;
        TRY(item_node(&r, r.rules.at[i].body, &meaning));
        grammar_set(g, r.rules.at[i].node, meaning);
    }
    if (grammar_is_full(g)) return refuse(&r, "the grammar is too large");
    *out = r.rules.at[(uintptr_t)map_get_text(&r.numbers, "root") - 1].node;
    return true;
}
