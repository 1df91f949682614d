// json_schema: see json_schema.h. One function a type; keywords that combine schemas (allOf, anyOf beside others) merge them
// first. What a keyword means for the grammar is a row of `keywords`.
// Example: {"enum": ["a", "b"]} → "\"a\"" or "\"b\""
#include "text/json_schema.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "text/json_numbers.h"
#include "text/json_values.h"
#include "text/pattern.h"
#include "text/schema_disjoint.h"

typedef struct Schema {
    Grammar *g;
    const json_t *root;
    const char **path;
    Error *err;
    Map rules;                 // of $ref: pointer → rule + 1
    json_t *made;              // merged schemas, alive until the grammar is there
    GrammarNode any;           // −1: not yet
    int comparisons;           // that oneOf may still take
} Schema;

typedef struct Place { const json_t *schema; const char *path; int depth; } Place;
typedef struct Places { Place *at; size_t len, cap; } Places;
enum { ONE_OF_MAX = 300, COMPARISONS_MAX = 500000 };

// HELD: some function below looks at it. REFUSED: may stand only where it says nothing (false, or an empty value).
typedef enum KeywordKind { HELD, REFUSED } KeywordKind;
static const struct Keyword { const char *name, *type; KeywordKind kind; } keywords[] = {
    {"$ref", NULL, HELD}, {"enum", NULL, HELD}, {"const", NULL, HELD}, {"anyOf", NULL, HELD}, {"oneOf", NULL, HELD}, {"allOf", NULL, HELD},
    {"type", NULL, HELD}, {"nullable", NULL, HELD},
    {"properties", "object", HELD}, {"required", "object", HELD}, {"additionalProperties", "object", HELD},
    {"minProperties", "object", HELD}, {"maxProperties", "object", HELD},
    {"items", "array", HELD}, {"prefixItems", "array", HELD}, {"additionalItems", "array", HELD}, {"minItems", "array", HELD}, {"maxItems", "array", HELD},
    {"minLength", "string", HELD}, {"maxLength", "string", HELD}, {"pattern", "string", HELD}, {"format", "string", HELD},
    {"minimum", "number", HELD}, {"maximum", "number", HELD}, {"exclusiveMinimum", "number", HELD}, {"exclusiveMaximum", "number", HELD},
    {"not", NULL, REFUSED}, {"if", NULL, REFUSED}, {"then", NULL, REFUSED}, {"else", NULL, REFUSED},
    {"patternProperties", "object", REFUSED}, {"propertyNames", "object", REFUSED}, {"dependencies", "object", REFUSED},
    {"dependentRequired", "object", REFUSED}, {"dependentSchemas", "object", REFUSED}, {"unevaluatedProperties", "object", REFUSED},
    {"contains", "array", REFUSED}, {"minContains", "array", REFUSED}, {"maxContains", "array", REFUSED}, {"uniqueItems", "array", REFUSED},
    {"unevaluatedItems", "array", REFUSED}, {"multipleOf", "number", REFUSED}, {"$dynamicRef", NULL, REFUSED}, {"$recursiveRef", NULL, REFUSED},
};
enum { N_KEYWORDS = sizeof keywords / sizeof *keywords };

static bool schema_node(Schema *s, Place at, GrammarNode *out);

static bool refuse(Schema *s, const char *path, const char *why) {
    *s->path = text_copy(s->g->arena, text_of(path)).at;
    return fail(s->err, LATHE_BAD_REQUEST, "%.300s: %s", path, why);
}

// An error of a part gets its place.
static bool placed(Schema *s, const char *path, bool ok) {
    if (ok) return true;
    Error inner = *s->err;
    return refuse(s, path, inner.text);
}

static Place below(Schema *s, Place at, const json_t *schema, const char *step) {
    return (Place){schema, arena_printf(s->g->arena, "%.250s.%.100s", at.path, step), at.depth + 1};
}

static const json_t *get(Place at, const char *key) {
    return json_object_get(at.schema, key);
}

// ---- texts

static GrammarNode text(Schema *s, const char *t) {
    return grammar_text(s->g, text_of(t));
}

static GrammarNode seq3(Schema *s, GrammarNode a, GrammarNode b, GrammarNode c) {
    return grammar_seq(s->g, (GrammarNode[]){a, b, c}, 3);
}

static GrammarNode repeat(Grammar *g, GrammarNode child, int64_t least, int64_t most) {
    GrammarNode out;
    Error ignored;
    CHECK(grammar_repeat(g, child, least, most, &out, &ignored));
    return out;
}

GrammarNode json_schema_space(Grammar *g) {
    GrammarNode blank = grammar_byte_range(g, ' ', ' '), line = grammar_byte_range(g, '\n', '\n');
    return grammar_alt(g, (GrammarNode[]){grammar_seq(g, NULL, 0), blank, grammar_seq(g, (GrammarNode[]){line, repeat(g, blank, 0, 32)}, 2)}, 3);
}

static GrammarNode string_of(Schema *s, int64_t least, int64_t most) {
    return seq3(s, text(s, "\""), repeat(s->g, pattern_json_character(s->g), least, most), text(s, "\""));
}

static GrammarNode literal(Schema *s, const json_t *value) {
    char *dumped = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    GrammarNode node = text(s, dumped ? dumped : "null");
    free(dumped);
    return node;
}

// ---- any value

static GrammarNode list_of(Schema *s, const char *open, GrammarNode entry, const char *close, int64_t least, int64_t most) {
    Grammar *g = s->g;
    GrammarNode space = json_schema_space(g), more, comma = seq3(s, text(s, ","), space, entry), end = seq3(s, space, text(s, close), grammar_seq(g, NULL, 0));
    if (most == 0) return seq3(s, text(s, open), space, text(s, close));
    more = repeat(g, comma, least > 1 ? least - 1 : 0, most == GRAMMAR_FOREVER ? GRAMMAR_FOREVER : most - 1);
    GrammarNode some = seq3(s, entry, more, end);
    if (least == 0) some = grammar_alt(g, (GrammarNode[]){text(s, close), some}, 2);
    return seq3(s, text(s, open), space, some);
}

static GrammarNode member(Schema *s, GrammarNode name, GrammarNode value) {
    return grammar_seq(s->g, (GrammarNode[]){name, text(s, ":"), json_schema_space(s->g), value}, 4);
}

static GrammarNode number_any(Schema *s, bool is_integer) {
    GrammarNode out;
    Error ignored;
    NumberBounds none = {.least = -INFINITY, .most = INFINITY, .is_integer = is_integer};
    CHECK(json_number_node(s->g, &none, &out, &ignored));
    return out;
}

static GrammarNode any_value(Schema *s) {
    Grammar *g = s->g;
    if (s->any >= 0) return s->any;
    s->any = grammar_rule(g);
    GrammarNode string = string_of(s, 0, GRAMMAR_FOREVER);
    GrammarNode values[] = {string, number_any(s, false), text(s, "true"), text(s, "false"), text(s, "null"),
                            list_of(s, "[", s->any, "]", 0, GRAMMAR_FOREVER),
                            list_of(s, "{", member(s, string, s->any), "}", 0, GRAMMAR_FOREVER)};
    grammar_set(g, s->any, grammar_alt(g, values, 7));
    return s->any;
}

static GrammarNode any_object(Schema *s) {
    return list_of(s, "{", member(s, string_of(s, 0, GRAMMAR_FOREVER), any_value(s)), "}", 0, GRAMMAR_FOREVER);
}

GrammarNode json_schema_any(Grammar *g) {
    Schema s = {.g = g, .any = -1};
    return any_value(&s);
}

GrammarNode json_schema_any_object(Grammar *g) {
    Schema s = {.g = g, .any = -1};
    return any_object(&s);
}

// ---- bounds

static bool bound_get(Schema *s, Place at, const char *key, int64_t otherwise, int64_t *out) {
    const json_t *value = get(at, key);
    double number = json_number_value(value);
    *out = otherwise;
    if (!value) return true;
    if (!json_is_number(value) || number < 0 || number != floor(number) || number > INT32_MAX)
        return refuse(s, below(s, at, NULL, key).path, "must be a whole number of at least 0");
    *out = (int64_t)number;
    return true;
}

static bool bounds_get(Schema *s, Place at, const char *least_key, const char *most_key, int64_t *least, int64_t *most) {
    TRY(bound_get(s, at, least_key, 0, least));
    TRY(bound_get(s, at, most_key, GRAMMAR_FOREVER, most));
    return *most == GRAMMAR_FOREVER || *least <= *most || refuse(s, below(s, at, NULL, most_key).path, "is less than the least");
}

// ---- strings and numbers

static bool string_node(Schema *s, Place at, GrammarNode *out) {
    static const struct { const char *format, *pattern; } formats[] = {
        {"date", "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"},
        {"time", "^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"},
        {"date-time", "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"},
        {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"}};
    int64_t least, most;
    GrammarNode inside;
    const json_t *given = get(at, "pattern");
    Text pattern = {json_string_value(given), json_string_length(given)};
    const char *from = "pattern";
    if (given && !json_is_string(given)) return refuse(s, below(s, at, NULL, "pattern").path, "must be a string");
    TRY(bounds_get(s, at, "minLength", "maxLength", &least, &most));
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (!json_is_word(get(at, "format"), formats[i].format)) continue;
        if (given) return refuse(s, below(s, at, NULL, "format").path, "cannot be held to beside a pattern");
        pattern = text_of(formats[i].pattern);
        from = "format";
    }
    if (!pattern.at) {
        *out = string_of(s, least, most);
        return true;
    }
    if (get(at, "minLength") || get(at, "maxLength"))
        return refuse(s, below(s, at, NULL, from).path, "cannot be held to beside minLength or maxLength: write the length into the pattern");
    TRY(placed(s, below(s, at, NULL, from).path, pattern_parse(s->g, pattern, true, &inside, s->err)));
    *out = seq3(s, text(s, "\""), inside, text(s, "\""));
    return true;
}

static bool limit_get(Schema *s, Place at, const char *key, const char *exclusive_key, double *limit, bool *is_outside, double sign) {
    const json_t *plain = get(at, key), *exclusive = get(at, exclusive_key);
    if ((plain && !json_is_number(plain)) || (exclusive && !json_is_number(exclusive) && !json_is_boolean(exclusive)))
        return refuse(s, below(s, at, NULL, plain && !json_is_number(plain) ? key : exclusive_key).path, "must be a number");
    if (plain) *limit = json_number_value(plain), *is_outside = json_is_true(exclusive);
    if (json_is_number(exclusive) && (!plain || sign * json_number_value(exclusive) >= sign * *limit))
        *limit = json_number_value(exclusive), *is_outside = true;
    return true;
}

static bool number_node(Schema *s, Place at, bool is_integer, GrammarNode *out) {
    NumberBounds b = {.least = -INFINITY, .most = INFINITY, .is_integer = is_integer};
    TRY(limit_get(s, at, "minimum", "exclusiveMinimum", &b.least, &b.is_above, 1));
    TRY(limit_get(s, at, "maximum", "exclusiveMaximum", &b.most, &b.is_below, -1));
    return placed(s, at.path, json_number_node(s->g, &b, out, s->err));
}

// ---- arrays

static bool array_node(Schema *s, Place at, GrammarNode *out) {
    const json_t *items = get(at, "items"), *prefix = get(at, "prefixItems");
    if (json_is_array(items)) prefix = items, items = get(at, "additionalItems");
    int64_t least, most, n_prefix = (int64_t)json_array_size(prefix);
    GrammarNode entry = any_value(s), parts[4], *first = arena_new(s->g->arena, ((size_t)n_prefix * 2 + 1) * sizeof *first);
    TRY(bounds_get(s, at, "minItems", "maxItems", &least, &most));
    if (most != GRAMMAR_FOREVER && n_prefix > most) n_prefix = most;
    bool has_more = items && !json_is_false(items);
    if (has_more) TRY(schema_node(s, below(s, at, items, "items"), &entry));
    if (n_prefix == 0) {
        if (json_is_false(items)) most = 0;
        if (most != GRAMMAR_FOREVER && least > most) return refuse(s, below(s, at, NULL, "minItems").path, "asks for items, and none may be there");
        *out = list_of(s, "[", entry, "]", least, most);
        return true;
    }
    GrammarNode space = json_schema_space(s->g), comma = grammar_seq(s->g, (GrammarNode[]){text(s, ","), space}, 2);
    int n = 0;
    for (int64_t i = 0; i < n_prefix; i++) {
        char step[48];
        snprintf(step, sizeof step, "prefixItems[%lld]", (long long)i);
        if (i) first[n++] = comma;
        TRY(schema_node(s, below(s, at, json_array_get(prefix, (size_t)i), step), &first[n++]));
    }
    if (json_is_false(items) && least > n_prefix) return refuse(s, below(s, at, NULL, "minItems").path, "asks for more items than may be there");
    // Items behind the described ones are written where they are described too, or needed.
    int64_t most_more = most == GRAMMAR_FOREVER ? GRAMMAR_FOREVER : most - n_prefix, least_more = least > n_prefix ? least - n_prefix : 0;
    if (!has_more) most_more = least_more;
    parts[0] = seq3(s, text(s, "["), space, grammar_seq(s->g, first, n));
    parts[1] = repeat(s->g, grammar_seq(s->g, (GrammarNode[]){comma, entry}, 2), least_more, most_more);
    parts[2] = space;
    parts[3] = text(s, "]");
    *out = grammar_seq(s->g, parts, 4);
    return true;
}

// ---- objects

typedef struct Property { GrammarNode member; bool is_required; } Property;
typedef VEC(Property) Properties;

static bool property_add(Schema *s, Place at, const char *name, const json_t *schema, Properties *all) {
    GrammarNode value;
    json_t *key = json_string(name);
    Place own = below(s, at, schema, arena_printf(s->g->arena, "properties.%.80s", name));
    bool is_needed = json_has_word(get(at, "required"), name), ok = true;
    if (json_is_false(schema)) ok = !is_needed || refuse(s, own.path, "is required, and nothing may stand there");
    else if ((ok = schema_node(s, own, &value)))
        vec_push(s->g->arena, all, ((Property){member(s, literal(s, key), value), is_needed}));
    json_decref(key);
    return ok;
}

static bool properties_get(Schema *s, Place at, Properties *all) {
    const json_t *given = get(at, "properties"), *required = get(at, "required"), *others = get(at, "additionalProperties");
    const char *name;
    json_t *value;
    size_t i;
    if (given && !json_is_object(given)) return refuse(s, below(s, at, NULL, "properties").path, "must be an object");
    if (required && !json_is_array(required)) return refuse(s, below(s, at, NULL, "required").path, "must be an array of names");
    json_object_foreach((json_t *)(uintptr_t)given, name, value) TRY(property_add(s, at, name, value, all));
    json_array_foreach(required, i, value) {
        if (!json_is_string(value)) return refuse(s, below(s, at, NULL, "required").path, "must be an array of names");
        if (json_object_get(given, json_string_value(value))) continue;
        if (json_is_false(others)) return refuse(s, below(s, at, NULL, "required").path, "names a property that may not be there");
        json_t *anything = others ? json_incref((json_t *)(uintptr_t)others) : json_true();
        json_array_append_new(s->made, anything);
        TRY(property_add(s, at, json_string_value(value), anything, all));
    }
    return true;
}

// Members from the i-th on, with or without one before them: two nodes a property.
static GrammarNode properties_node(Schema *s, const Properties *all) {
    GrammarNode space = json_schema_space(s->g), end = grammar_seq(s->g, (GrammarNode[]){space, text(s, "}")}, 2);
    GrammarNode comma = grammar_seq(s->g, (GrammarNode[]){text(s, ","), space}, 2);
    GrammarNode behind_some = end, behind_none = text(s, "}");
    for (size_t i = all->len; i-- > 0;) {
        const Property *p = &all->at[i];
        GrammarNode with = seq3(s, comma, p->member, behind_some), first = grammar_seq(s->g, (GrammarNode[]){p->member, behind_some}, 2);
        behind_none = p->is_required ? first : grammar_alt(s->g, (GrammarNode[]){first, behind_none}, 2);
        behind_some = p->is_required ? with : grammar_alt(s->g, (GrammarNode[]){with, behind_some}, 2);
    }
    return seq3(s, text(s, "{"), space, behind_none);
}

static bool object_node(Schema *s, Place at, GrammarNode *out) {
    Properties all = {0};
    const json_t *others = get(at, "additionalProperties");
    int64_t least, most, n_required = 0;
    GrammarNode value = any_value(s);
    TRY(bounds_get(s, at, "minProperties", "maxProperties", &least, &most));
    TRY(properties_get(s, at, &all));
    for (size_t i = 0; i < all.len; i++) n_required += all.at[i].is_required;
    bool is_free = all.len == 0 && !get(at, "properties") && !json_is_false(others);
    if (!is_free && least > n_required) return refuse(s, below(s, at, NULL, "minProperties").path, "cannot be held to: require as many properties");
    if (!is_free && most != GRAMMAR_FOREVER && most < (int64_t)all.len) return refuse(s, below(s, at, NULL, "maxProperties").path, "cannot be held to: describe as few properties");
    if (!is_free) {
        *out = properties_node(s, &all);
        return true;
    }
    if (json_is_object(others)) TRY(schema_node(s, below(s, at, others, "additionalProperties"), &value));
    *out = list_of(s, "{", member(s, string_of(s, 0, GRAMMAR_FOREVER), value), "}", least, most);
    return true;
}

// ---- types

static bool type_node(Schema *s, Place at, const char *type, GrammarNode *out) {
    if (strcmp(type, "object") == 0) return object_node(s, at, out);
    if (strcmp(type, "array") == 0) return array_node(s, at, out);
    if (strcmp(type, "string") == 0) return string_node(s, at, out);
    if (strcmp(type, "number") == 0) return number_node(s, at, false, out);
    if (strcmp(type, "integer") == 0) return number_node(s, at, true, out);
    bool is_boolean = strcmp(type, "boolean") == 0;
    if (!is_boolean && strcmp(type, "null") != 0) return refuse(s, below(s, at, NULL, "type").path, "names no type of JSON");
    *out = is_boolean ? grammar_alt(s->g, (GrammarNode[]){text(s, "true"), text(s, "false")}, 2) : text(s, "null");
    return true;
}

const char *json_schema_type_guess(const json_t *schema) {
    for (int i = 0; i < N_KEYWORDS; i++)
        if (keywords[i].type && json_object_get(schema, keywords[i].name)) return keywords[i].type;
    return NULL;
}

static bool types_node(Schema *s, Place at, GrammarNode *out) {
    const json_t *type = get(at, "type");
    VEC(GrammarNode) nodes = {0};
    GrammarNode node;
    size_t n = json_is_array(type) ? json_array_size(type) : 1;
    if (type && !json_is_string(type) && (!json_is_array(type) || n == 0)) return refuse(s, below(s, at, NULL, "type").path, "must be a type or a list of types");
    const char *guess = type ? NULL : json_schema_type_guess(at.schema);
    if (!type && !guess) {
        *out = any_value(s);
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(type) ? json_array_get(type, i) : type;
        if (type && !json_is_string(one)) return refuse(s, below(s, at, NULL, "type").path, "must be a type or a list of types");
        TRY(type_node(s, at, type ? json_string_value(one) : guess, &node));
        vec_push(s->g->arena, &nodes, node);
    }
    if (json_is_true(get(at, "nullable"))) vec_push(s->g->arena, &nodes, text(s, "null"));
    *out = grammar_alt(s->g, nodes.at, (int)nodes.len);
    return true;
}

// ---- combinations

static const struct Keyword *keyword_find(const char *name) {
    for (int i = 0; i < N_KEYWORDS; i++)
        if (strcmp(keywords[i].name, name) == 0) return &keywords[i];
    return NULL;
}

// Copies the keywords of `from` into `to`; what both say must be the same, but for properties and required names.
static bool merge(Schema *s, json_t *to, const json_t *from, const char *path) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)from, key, value) {
        json_t *have = json_object_get(to, key);
        if (!have || !keyword_find(key)) json_object_set_new(to, key, json_deep_copy(value));
        else if (strcmp(key, "required") == 0 && json_is_array(have) && json_is_array(value)) json_array_extend(have, value);
        else if (strcmp(key, "properties") == 0 && json_is_object(have)) TRY(merge(s, have, value, path));
        else if (!json_equal(have, value)) return refuse(s, path, arena_printf(s->g->arena, "schemas that both say \"%.40s\" cannot be combined", key));
    }
    return true;
}

static bool pointer_resolve(Schema *s, Place at, const json_t **target) {
    const char *pointer = json_string_value(get(at, "$ref"));
    if (!pointer || pointer[0] != '#') return refuse(s, below(s, at, NULL, "$ref").path, "must be a path within the schema: #/$defs/…");
    *target = json_at_pointer(s->root, pointer);
    return *target || refuse(s, below(s, at, NULL, "$ref").path, "leads nowhere");
}

static bool has_others(Place at, const char *name) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)at.schema, key, value)
        if (keyword_find(key) && strcmp(key, name) != 0) return true;
    return false;
}

static bool reference_node(Schema *s, Place at, GrammarNode *out) {
    const json_t *target;
    GrammarNode meaning;
    const char *pointer = json_string_value(get(at, "$ref"));
    TRY(pointer_resolve(s, at, &target));
    if (has_others(at, "$ref")) return refuse(s, below(s, at, NULL, "$ref").path, "cannot be held to beside other keywords: use allOf");
    uintptr_t known = (uintptr_t)map_get_text(&s->rules, pointer);
    if (known) {
        *out = (GrammarNode)known - 1;
        return true;
    }
    *out = grammar_rule(s->g);
    map_put_text(&s->rules, pointer, (void *)(uintptr_t)(*out + 1));
    TRY(schema_node(s, below(s, at, target, "$ref"), &meaning));
    if (meaning == *out) return refuse(s, below(s, at, NULL, "$ref").path, "says nothing but itself");
    grammar_set(s->g, *out, meaning);
    return true;
}

// The schema with its allOf folded in.
static bool all_of(Schema *s, Place at, GrammarNode *out) {
    json_t *merged = json_deep_copy(at.schema);
    const json_t *list = get(at, "allOf");
    json_array_append_new(s->made, merged);
    json_object_del(merged, "allOf");
    for (size_t i = 0; i < json_array_size(list); i++) {
        char step[32];
        snprintf(step, sizeof step, "allOf[%zu]", i);
        Place own = below(s, at, json_array_get(list, i), step);
        for (int hops = 0; json_object_get(own.schema, "$ref") && hops < SCHEMA_DEPTH_MAX; hops++) TRY(pointer_resolve(s, own, &own.schema));
        if (json_object_get(own.schema, "$ref")) return refuse(s, own.path, "leads in circles");
        if (!json_is_object(own.schema)) return refuse(s, own.path, "must be a schema");
        TRY(merge(s, merged, own.schema, own.path));
    }
    return schema_node(s, (Place){merged, at.path, at.depth + 1}, out);
}

// The alternatives, each with what stands beside the list folded in; those that let nothing through are left out.
static bool alternatives_get(Schema *s, Place at, const char *key, Places *out) {
    const json_t *list = get(at, key);
    if (!json_is_array(list) || json_array_size(list) == 0) return refuse(s, below(s, at, NULL, key).path, "must be an array of schemas");
    bool is_alone = !has_others(at, key);
    for (size_t i = 0; i < json_array_size(list); i++) {
        char step[32];
        snprintf(step, sizeof step, "%s[%zu]", key, i);
        Place own = below(s, at, json_array_get(list, i), step);
        if (json_is_false(own.schema)) continue;
        if (!is_alone) {
            json_t *merged = json_deep_copy(at.schema);
            json_array_append_new(s->made, merged);
            json_object_del(merged, key);
            if (json_object_get(own.schema, "$ref")) TRY(pointer_resolve(s, own, &own.schema));
            if (json_is_object(own.schema)) TRY(merge(s, merged, own.schema, own.path));
            own.schema = merged;
        }
        vec_push(s->g->arena, out, own);
    }
    return out->len > 0 || refuse(s, below(s, at, NULL, key).path, "lets nothing through");
}

// Exactly one must fit, so no two may fit the same value.
static bool alternatives_differ(Schema *s, Place at, const Places *all) {
    if (all->len > ONE_OF_MAX) return refuse(s, below(s, at, NULL, "oneOf").path, arena_printf(s->g->arena, "has more than %d schemas to tell apart: use anyOf", ONE_OF_MAX));
    for (size_t i = 1; i < all->len; i++)
        for (size_t k = 0; k < i; k++)
            if (!schemas_are_disjoint(s->root, all->at[i].schema, all->at[k].schema, &s->comparisons))
                return refuse(s, all->at[i].path, arena_printf(s->g->arena, "what fits here may fit %.200s too, and exactly one must: give them different types or consts, or use anyOf",
                                                              all->at[k].path));
    return true;
}

static bool any_of(Schema *s, Place at, const char *key, GrammarNode *out) {
    Places all = {0};
    TRY(alternatives_get(s, at, key, &all));
    if (strcmp(key, "oneOf") == 0) TRY(alternatives_differ(s, at, &all));
    GrammarNode *nodes = arena_new(s->g->arena, all.len * sizeof *nodes);
    for (size_t i = 0; i < all.len; i++) TRY(schema_node(s, all.at[i], &nodes[i]));
    *out = grammar_alt(s->g, nodes, (int)all.len);
    return true;
}

static bool type_fits(const json_t *type, const json_t *value) {
    if (json_is_array(type)) {
        for (size_t i = 0; i < json_array_size(type); i++)
            if (type_fits(json_array_get(type, i), value)) return true;
        return false;
    }
    if (!type) return true;
    return (json_is_word(type, "string") && json_is_string(value)) || (json_is_word(type, "integer") && json_is_integer(value)) ||
           (json_is_word(type, "number") && json_is_number(value)) || (json_is_word(type, "boolean") && json_is_boolean(value)) ||
           (json_is_word(type, "null") && json_is_null(value)) || (json_is_word(type, "object") && json_is_object(value)) ||
           (json_is_word(type, "array") && json_is_array(value));
}

static bool values_node(Schema *s, Place at, const char *key, GrammarNode *out) {
    const json_t *given = get(at, key);
    VEC(GrammarNode) nodes = {0};
    size_t n = strcmp(key, "enum") == 0 ? json_array_size(given) : 1;
    for (size_t i = 0; i < n; i++) {
        const json_t *value = strcmp(key, "enum") == 0 ? json_array_get(given, i) : given;
        if (type_fits(get(at, "type"), value)) vec_push(s->g->arena, &nodes, literal(s, value));
    }
    if (nodes.len == 0) return refuse(s, below(s, at, NULL, key).path, "has no value that the type lets through");
    *out = grammar_alt(s->g, nodes.at, (int)nodes.len);
    return true;
}

static bool says_nothing(const json_t *value) {
    return json_is_false(value) || json_is_null(value) || (json_is_object(value) && json_object_size(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0);
}

static bool keywords_check(Schema *s, Place at) {
    for (int i = 0; i < N_KEYWORDS; i++) {
        const json_t *value = get(at, keywords[i].name);
        if (keywords[i].kind == REFUSED && value && !says_nothing(value)) return refuse(s, below(s, at, NULL, keywords[i].name).path, "this keyword cannot be held to");
    }
    return true;
}

static bool schema_node(Schema *s, Place at, GrammarNode *out) {
    static const char *const combinations[] = {"anyOf", "oneOf"};
    if (at.depth > SCHEMA_DEPTH_MAX) return refuse(s, at.path, arena_printf(s->g->arena, "is nested deeper than %d levels", SCHEMA_DEPTH_MAX));
    if (grammar_is_full(s->g)) return refuse(s, at.path, "the schema is too large");
    if (json_is_true(at.schema)) {
        *out = any_value(s);
        return true;
    }
    if (!json_is_object(at.schema)) return refuse(s, at.path, json_is_false(at.schema) ? "lets nothing through" : "must be a schema, an object");
    TRY(keywords_check(s, at));
    if (get(at, "$ref")) return reference_node(s, at, out);
    if (get(at, "const")) return values_node(s, at, "const", out);
    if (get(at, "enum")) return values_node(s, at, "enum", out);
    if (get(at, "allOf")) return all_of(s, at, out);
    for (size_t i = 0; i < 2; i++)
        if (get(at, combinations[i])) return any_of(s, at, combinations[i], out);
    return types_node(s, at, out);
}

bool json_schema_parse(Grammar *g, const json_t *schema, const char *name, GrammarNode *out, const char **path, Error *err) {
    Schema s = {.g = g, .root = schema, .path = path, .err = err, .made = json_array(), .any = -1,
                .comparisons = COMPARISONS_MAX};
    *path = name;
    map_init(&s.rules, g->arena);
    bool ok = schema_node(&s, (Place){schema, name, 0}, out) && (!grammar_is_full(g) || refuse(&s, name, "the schema is too large"));
    json_decref(s.made);
    return ok;
}
