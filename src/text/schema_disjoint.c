// schema_disjoint: see schema_disjoint.h. First where a value is given (const, enum): does the other schema refuse it? Else
// type by type: is there something that no value of the type can have both ways?
// Example: {"type": "integer"} and {"type": ["string", "null"]}: no type in common
#include "text/schema_disjoint.h"

#include <math.h>
#include <string.h>

#include "text/json_schema.h"
#include "text/json_values.h"

enum { DEPTH_MAX = 24 };               // of $refs and properties; beyond that nothing is certain
enum { T_OBJECT = 1, T_ARRAY = 2, T_STRING = 4, T_INTEGER = 8, T_FRACTION = 16, T_BOOLEAN = 32, T_NULL = 64, T_ALL = 127 };

static const struct { const char *name; unsigned bits; } type_rows[] = {
    {"object", T_OBJECT}, {"array", T_ARRAY}, {"string", T_STRING}, {"integer", T_INTEGER}, {"number", T_INTEGER | T_FRACTION},
    {"boolean", T_BOOLEAN}, {"null", T_NULL}};

typedef struct Look {
    const json_t *root;
    int *steps;                        // that are left
} Look;

static const json_t *get(const json_t *schema, const char *key) {
    return json_object_get(schema, key);
}

static unsigned bits_of_name(const char *name) {   // NULL: it is no text
    for (size_t i = 0; name && i < sizeof type_rows / sizeof *type_rows; i++)
        if (strcmp(name, type_rows[i].name) == 0) return type_rows[i].bits;
    return 0;
}

static unsigned bits_of_value(const json_t *value) {
    double number = json_number_value(value);
    if (json_is_number(value)) return number == floor(number) ? T_INTEGER : T_FRACTION;
    return json_is_object(value) ? T_OBJECT : json_is_array(value) ? T_ARRAY : json_is_string(value) ? T_STRING
           : json_is_boolean(value) ? T_BOOLEAN : T_NULL;
}

// Types of the values that fit; written: of those that are written for the schema.
static unsigned types_of(const json_t *schema, bool is_written) {
    const json_t *type = get(schema, "type"), *entry;
    unsigned bits = json_is_true(get(schema, "nullable")) ? T_NULL : 0;
    const char *guess = is_written && !type ? json_schema_type_guess(schema) : NULL;
    size_t i;
    if (guess) return bits | bits_of_name(guess);
    if (!type) return T_ALL;
    json_array_foreach(type, i, entry) bits |= bits_of_name(json_string_value(entry));
    return bits | bits_of_name(json_string_value(type));
}

static const json_t *resolved(Look *look, const json_t *schema) {
    for (int hops = 0; hops < DEPTH_MAX && json_is_string(get(schema, "$ref")); hops++) schema = json_at_pointer(look->root, json_string_value(get(schema, "$ref")));
    return schema;
}

// ---- one value

static bool are_equal(const json_t *a, const json_t *b) {
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    // 1 and 1.0 are equal inside of lists and objects too, which json_equal does not know.
    if (json_typeof(a) == json_typeof(b) && (json_is_object(a) || json_is_array(a))) return true;
    return json_equal(a, b);
}

typedef struct Bounds { double least, most; bool is_above, is_below; } Bounds;

static Bounds bounds_of(const json_t *schema) {
    const json_t *least = get(schema, "minimum"), *most = get(schema, "maximum"), *above = get(schema, "exclusiveMinimum"), *below = get(schema, "exclusiveMaximum");
    Bounds b = {-INFINITY, INFINITY, false, false};
    if (json_is_number(least)) b.least = json_number_value(least), b.is_above = json_is_true(above);
    if (json_is_number(most)) b.most = json_number_value(most), b.is_below = json_is_true(below);
    if (json_is_number(above) && json_number_value(above) >= b.least) b.least = json_number_value(above), b.is_above = true;
    if (json_is_number(below) && json_number_value(below) <= b.most) b.most = json_number_value(below), b.is_below = true;
    return b;
}

static bool bounds_meet(Bounds a, Bounds b) {
    double least = a.least > b.least ? a.least : b.least, most = a.most < b.most ? a.most : b.most;
    bool is_open = (least == a.least && a.is_above) || (least == b.least && b.is_above) || (most == a.most && a.is_below) || (most == b.most && b.is_below);
    return least < most || (least == most && !is_open);
}

// Is a property of this name never there? schema is one of objects.
static bool forbids(const json_t *schema, const char *name) {
    const json_t *own = get(get(schema, "properties"), name);
    return own ? json_is_false(own) : json_is_false(get(schema, "additionalProperties"));
}

static bool refuses(Look *look, const json_t *schema, const json_t *value, int depth);

static bool refuses_object(Look *look, const json_t *schema, const json_t *value, int depth) {
    const char *name;
    json_t *entry;
    size_t i;
    json_array_foreach(get(schema, "required"), i, entry)
        if (json_is_string(entry) && !json_object_get(value, json_string_value(entry))) return true;
    json_object_foreach((json_t *)(uintptr_t)value, name, entry) {
        const json_t *own = get(get(schema, "properties"), name);
        if (forbids(schema, name) || (own && refuses(look, own, entry, depth))) return true;
    }
    return false;
}

// A list of schemas of which one, or each, must fit.
static bool list_refuses(Look *look, const json_t *list, const json_t *value, bool is_each, int depth) {
    json_t *entry;
    size_t i;
    json_array_foreach(list, i, entry)
        if (refuses(look, entry, value, depth) == is_each) return is_each;
    return !is_each && json_array_size(list) > 0;
}

// Is it certain that the value does not fit?
static bool refuses(Look *look, const json_t *schema, const json_t *value, int depth) {
    schema = resolved(look, schema);
    if (depth > DEPTH_MAX || --*look->steps < 0 || !json_is_object(schema)) return json_is_false(schema);
    const json_t *constant = get(schema, "const"), *entry;
    bool is_listed = !get(schema, "enum");
    size_t i;
    json_array_foreach(get(schema, "enum"), i, entry) is_listed = is_listed || are_equal(entry, value);
    if (!is_listed || (constant && !are_equal(constant, value)) || !(types_of(schema, false) & bits_of_value(value))) return true;
    Bounds here = {json_number_value(value), json_number_value(value), false, false};
    if (json_is_number(value) && !bounds_meet(bounds_of(schema), here)) return true;
    if (json_is_object(value) && refuses_object(look, schema, value, depth + 1)) return true;
    return list_refuses(look, get(schema, "allOf"), value, true, depth + 1) || list_refuses(look, get(schema, "anyOf"), value, false, depth + 1) ||
           list_refuses(look, get(schema, "oneOf"), value, false, depth + 1);
}

// Are a's values listed, and does b refuse each?
static bool values_are_refused(Look *look, const json_t *a, const json_t *b, int depth) {
    const json_t *constant = get(a, "const"), *list = get(a, "enum"), *entry;
    size_t i;
    if (constant) return refuses(look, b, constant, depth);
    if (!json_is_array(list)) return false;
    json_array_foreach(list, i, entry)
        if (!refuses(look, b, entry, depth)) return false;
    return true;
}

// ---- two schemas

static bool disjoint(Look *look, const json_t *a, const json_t *b, bool are_written, int depth);

// A property that a's objects have, and b's objects never have so.
static bool objects_differ(Look *look, const json_t *a, const json_t *b, int depth) {
    json_t *entry;
    size_t i;
    json_array_foreach(get(a, "required"), i, entry) {
        const char *name = json_string_value(entry);
        if (!name) continue;
        const json_t *own = get(get(a, "properties"), name), *other = get(get(b, "properties"), name);
        if (forbids(b, name) || (own && other && disjoint(look, own, other, false, depth))) return true;
    }
    return false;
}

static double number_at(const json_t *schema, const char *key, double otherwise) {
    return json_is_number(get(schema, key)) ? json_number_value(get(schema, key)) : otherwise;
}

static bool lengths_differ(const json_t *a, const json_t *b, const char *least, const char *most) {
    return number_at(a, least, 0) > number_at(b, most, INFINITY) || number_at(b, least, 0) > number_at(a, most, INFINITY);
}

static bool type_differs(Look *look, const json_t *a, const json_t *b, unsigned type, int depth) {
    switch (type) {
    case T_OBJECT: return objects_differ(look, a, b, depth) || objects_differ(look, b, a, depth) || lengths_differ(a, b, "minProperties", "maxProperties");
    case T_ARRAY: return lengths_differ(a, b, "minItems", "maxItems");
    case T_STRING: return lengths_differ(a, b, "minLength", "maxLength");
    case T_INTEGER: case T_FRACTION: return !bounds_meet(bounds_of(a), bounds_of(b));
    default: return false;
    }
}

// What fits a fits each entry of its allOf, and one of its anyOf or oneOf.
static bool parts_differ(Look *look, const json_t *a, const json_t *b, int depth) {
    static const char *const names[] = {"anyOf", "oneOf"};
    json_t *entry;
    size_t i;
    json_array_foreach(get(a, "allOf"), i, entry)
        if (disjoint(look, entry, b, false, depth)) return true;
    for (size_t k = 0; k < 2; k++) {
        bool all = json_array_size(get(a, names[k])) > 0;
        json_array_foreach(get(a, names[k]), i, entry) all = all && disjoint(look, entry, b, false, depth);
        if (all) return true;
    }
    return false;
}

static bool disjoint(Look *look, const json_t *a, const json_t *b, bool are_written, int depth) {
    a = resolved(look, a), b = resolved(look, b);
    if (json_is_false(a) || json_is_false(b)) return true;
    if (++depth > DEPTH_MAX || --*look->steps < 0 || !json_is_object(a) || !json_is_object(b)) return false;
    if (values_are_refused(look, a, b, depth) || values_are_refused(look, b, a, depth)) return true;
    if (parts_differ(look, a, b, depth) || parts_differ(look, b, a, depth)) return true;
    unsigned a_fits = types_of(a, false), b_fits = types_of(b, false), a_has = types_of(a, are_written), b_has = types_of(b, are_written);
    unsigned common = (a_has & b_fits) | (b_has & a_fits);
    for (unsigned type = 1; type < T_ALL; type <<= 1)
        if (common & type && !type_differs(look, a, b, type, depth)) return false;
    return true;
}

bool schemas_are_disjoint(const json_t *root, const json_t *a, const json_t *b, int *steps) {
    return disjoint(&(Look){root, steps}, a, b, true, 0);
}
