// jinja_value: making values, dicts in order of insertion, JSON in, and the limits of a rendering.
// In: constants, JSON, other values. Out: JinjaValues on the rendering's arena.
// Invariant: 1, 1.0 and True are one dict key, as in Python; a dict keeps the order in which keys
// came.
// Example: {"a": 1, "b": 2.0} → DICT with entries a, b; b prints as 2.0.
#include "text/jinja_value.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const JinjaLimits jinja_default_limits = {20 * 1000 * 1000, (size_t)256 << 20, 1000};

const char *jinja_message(Arena *arena, const char *format, va_list args) {
    char bytes[900];
    vsnprintf(bytes, sizeof bytes, format, args);
    Text text = text_of(bytes);
    text.len -= utf8_incomplete_tail(text);
    text = utf8_clean(arena, text);
    if (text.len >= sizeof bytes) text.len = sizeof bytes - 1; // each bad byte became three
    text.len -= utf8_incomplete_tail(text);
    return text_cstr(arena, text);
}

bool jinja_fail(JinjaRun *run, const char *format, ...) {
    if (run->has_failed) return false;
    run->has_failed = true;
    va_list args;
    va_start(args, format);
    const char *text = jinja_message(run->arena, format, args);
    va_end(args);
    return fail(run->err, LATHE_BAD_REQUEST, "chat template, line %d: %s", run->line, text);
}

bool jinja_fail_limit(JinjaRun *run, const char *what, size_t limit) {
    return jinja_fail(
        run,
        "the template needs more than %zu %s; is it endless? Shorten the messages or give "
        "another template with --template-file",
        limit, what);
}

enum { STEPS_A_CHECK = 4096 };

bool jinja_step(JinjaRun *run, size_t n) {
    if (run->has_failed) return false;
    if (n > run->steps_left) {
        run->steps_left = 0;
        return jinja_fail_limit(run, "steps", run->limits.max_steps);
    }
    size_t period = run->steps_left / STEPS_A_CHECK;
    run->steps_left -= n;
    // Small things (scopes, string heads) are not charged one by one, but their sum is.
    if (run->steps_left / STEPS_A_CHECK != period &&
        arena_used(run->arena) - run->used_before > run->limits.max_bytes)
        return jinja_fail_limit(run, "bytes of memory", run->limits.max_bytes);
    return true;
}

bool jinja_charge(JinjaRun *run, size_t nbytes) {
    if (run->has_failed) return false;
    if (nbytes > run->bytes_left)
        return jinja_fail_limit(run, "bytes of text", run->limits.max_bytes);
    run->bytes_left -= nbytes;
    return true;
}

bool jinja_enter(JinjaRun *run) {
    if (run->depth >= run->max_depth)
        return jinja_fail_limit(run, "nested calls or containers", (size_t)run->max_depth);
    run->depth++;
    return true;
}

void jinja_leave(JinjaRun *run) { run->depth--; }

JinjaValue jinja_undefined(JinjaRun *run, JinjaValue of, JinjaValue name, bool is_element) {
    JinjaMissing *missing = arena_new(run->arena, sizeof *missing);
    missing->of = of;
    missing->name = name;
    missing->is_element = is_element;
    return (JinjaValue){.kind = JINJA_UNDEFINED, .missing = missing};
}

JinjaValue jinja_none(void) { return (JinjaValue){.kind = JINJA_NONE}; }
JinjaValue jinja_bool(bool b) { return (JinjaValue){.kind = JINJA_BOOL, .boolean = b}; }
JinjaValue jinja_int(int64_t i) { return (JinjaValue){.kind = JINJA_INT, .integer = i}; }
JinjaValue jinja_float(double f) { return (JinjaValue){.kind = JINJA_FLOAT, .real = f}; }
JinjaValue jinja_string(JinjaString *s) { return (JinjaValue){.kind = JINJA_STRING, .string = s}; }

static JinjaValue string_on(Arena *arena, const char *at, size_t len, JinjaOrigin origin) {
    JinjaString *s = arena_new(arena, sizeof *s);
    *s = (JinjaString){.at = at, .len = len, .origin = origin};
    return jinja_string(s);
}

JinjaValue jinja_text(JinjaRun *run, const char *at, size_t len, JinjaOrigin origin) {
    return string_on(run->arena, at, len, origin);
}

JinjaValue jinja_cstring(JinjaRun *run, const char *cstr) {
    return jinja_text(run, cstr, strlen(cstr), JINJA_TEMPLATE);
}

JinjaValue jinja_slice(JinjaRun *run, const JinjaString *from, size_t start, size_t len) {
    JinjaString *s = arena_new(run->arena, sizeof *s);
    *s = *from;
    s->at = from->at + start;
    s->len = len;
    s->marks = from->marks ? from->marks + start : NULL;
    return jinja_string(s);
}

// ---- lists ----

JinjaList *jinja_list_new(JinjaRun *run, size_t cap) {
    JinjaList *list = arena_new(run->arena, sizeof *list);
    if (cap > 0 && jinja_charge(run, cap * sizeof *list->at)) {
        list->at = arena_new(run->arena, cap * sizeof *list->at);
        list->cap = cap;
    }
    return list;
}

void jinja_list_push(JinjaRun *run, JinjaList *list, JinjaValue item) {
    if (list->len == list->cap) {
        size_t cap = list->cap < 4 ? 4 : list->cap * 2;
        if (!jinja_charge(run, cap * sizeof item)) return;
        JinjaValue *at = arena_new(run->arena, cap * sizeof item);
        if (list->len > 0) memcpy(at, list->at, list->len * sizeof item);
        list->at = at;
        list->cap = cap;
    }
    list->at[list->len++] = item;
}

JinjaValue jinja_sequence(JinjaKind kind, JinjaList *list) {
    return (JinjaValue){.kind = kind, .list = list};
}

JinjaValue jinja_pair(JinjaRun *run, JinjaValue a, JinjaValue b) {
    JinjaList *pair = jinja_list_new(run, 2);
    jinja_list_push(run, pair, a);
    jinja_list_push(run, pair, b);
    return jinja_sequence(JINJA_TUPLE, pair);
}

// ---- dicts ----

JinjaDict *jinja_dict_new(JinjaRun *run) { return arena_new(run->arena, sizeof(JinjaDict)); }
JinjaValue jinja_dict_value(JinjaDict *dict) {
    return (JinjaValue){.kind = JINJA_DICT, .dict = dict};
}

// False where Python would say "unhashable". Numbers that are equal hash alike.
static bool value_hash(JinjaValue v, uint64_t *out) {
    double real;
    if (v.kind == JINJA_STRING) {
        *out = hash_bytes(v.string->at, v.string->len, 1);
    } else if (v.kind == JINJA_NONE) {
        *out = 7;
    } else if (jinja_is_number(v, &real)) {
        if (real == 0) real = 0; // −0 equals 0
        *out = hash_bytes(&real, sizeof real, 2);
    } else if (v.kind == JINJA_TUPLE) {
        uint64_t hash = v.list->len;
        for (size_t i = 0; i < v.list->len; i++) {
            uint64_t item;
            if (v.list->at[i].kind == JINJA_TUPLE || !value_hash(v.list->at[i], &item))
                return false;
            hash = hash_bytes(&item, sizeof item, hash);
        }
        *out = hash;
    } else if (v.kind == JINJA_UNDEFINED) {
        *out = 9;
    } else if (v.kind == JINJA_LIST || v.kind == JINJA_DICT) {
        return false;
    } else {
        *out = hash_bytes(&v.list, sizeof v.list, 3); // the object itself, whatever it is
    }
    return true;
}

enum { DICT_SMALL = 8 }; // up to here a scan is as fast as a table

static void dict_index(Arena *arena, JinjaDict *dict) {
    if (dict->len <= DICT_SMALL) {
        dict->slots = NULL;
        return;
    }
    if (!dict->slots || dict->n_slots < dict->cap * 2) {
        dict->n_slots = 32;
        while (dict->n_slots < dict->cap * 2) dict->n_slots *= 2;
        dict->slots = arena_new(arena, dict->n_slots * sizeof *dict->slots);
    }
    memset(dict->slots, 0, dict->n_slots * sizeof *dict->slots);
    for (size_t i = 0; i < dict->len; i++) {
        size_t slot = dict->at[i].hash & (dict->n_slots - 1);
        while (dict->slots[slot]) slot = (slot + 1) & (dict->n_slots - 1);
        dict->slots[slot] = (uint32_t)(i + 1);
    }
}

static JinjaEntry *dict_lookup(JinjaRun *run, const JinjaDict *dict, JinjaValue key,
                               uint64_t hash) {
    if (!dict->slots) {
        for (size_t i = 0; i < dict->len; i++)
            if (dict->at[i].hash == hash && jinja_equal(run, dict->at[i].key, key))
                return &dict->at[i];
        return NULL;
    }
    for (size_t slot = hash & (dict->n_slots - 1); dict->slots[slot];
         slot = (slot + 1) & (dict->n_slots - 1)) {
        JinjaEntry *entry = &dict->at[dict->slots[slot] - 1];
        if (entry->hash == hash && jinja_equal(run, entry->key, key)) return entry;
    }
    return NULL;
}

static void dict_append(Arena *arena, JinjaDict *dict, JinjaEntry entry) {
    if (dict->len == dict->cap) {
        size_t cap = dict->cap < 4 ? 4 : dict->cap * 2;
        JinjaEntry *at = arena_new(arena, cap * sizeof *at);
        if (dict->len > 0) memcpy(at, dict->at, dict->len * sizeof *at);
        dict->at = at;
        dict->cap = cap;
        dict->at[dict->len++] = entry;
        dict_index(arena, dict);
        return;
    }
    dict->at[dict->len++] = entry;
    if (!dict->slots) {
        dict_index(arena, dict);
        return;
    }
    size_t slot = entry.hash & (dict->n_slots - 1);
    while (dict->slots[slot]) slot = (slot + 1) & (dict->n_slots - 1);
    dict->slots[slot] = (uint32_t)dict->len;
}

bool jinja_require_hashable(JinjaRun *run, JinjaValue key) {
    uint64_t hash;
    return value_hash(key, &hash) || jinja_fail(run, "unhashable type: '%s'", jinja_type_name(key));
}

bool jinja_dict_set(JinjaRun *run, JinjaDict *dict, JinjaValue key, JinjaValue value) {
    uint64_t hash;
    TRY(jinja_require_hashable(run, key));
    value_hash(key, &hash);
    JinjaEntry *entry = dict_lookup(run, dict, key, hash);
    if (entry) {
        entry->value = value;
        return true;
    }
    TRY(jinja_charge(run, 2 * sizeof *entry));
    dict_append(run->arena, dict, (JinjaEntry){key, value, hash});
    return true;
}

void jinja_dict_remove(JinjaDict *dict, JinjaEntry *entry) {
    size_t index = (size_t)(entry - dict->at);
    memmove(entry, entry + 1, (dict->len - index - 1) * sizeof *entry);
    dict->len--;
    if (!dict->slots) return;
    memset(dict->slots, 0, dict->n_slots * sizeof *dict->slots);
    for (size_t i = 0; i < dict->len; i++) {
        size_t slot = dict->at[i].hash & (dict->n_slots - 1);
        while (dict->slots[slot]) slot = (slot + 1) & (dict->n_slots - 1);
        dict->slots[slot] = (uint32_t)(i + 1);
    }
}

JinjaEntry *jinja_dict_find(JinjaRun *run, const JinjaDict *dict, JinjaValue key) {
    uint64_t hash;
    return value_hash(key, &hash) ? dict_lookup(run, dict, key, hash) : NULL;
}

JinjaEntry *jinja_dict_find_text(JinjaRun *run, const JinjaDict *dict, const char *key) {
    JinjaString s = {.at = key, .len = strlen(key)};
    return jinja_dict_find(run, dict, jinja_string(&s));
}

JinjaList *jinja_dict_list(JinjaRun *run, const JinjaDict *dict, const char *view) {
    JinjaList *list = jinja_list_new(run, dict->len);
    for (size_t i = 0; i < dict->len && !run->has_failed; i++) {
        const JinjaEntry *e = &dict->at[i];
        bool is_pair = strcmp(view, "items") == 0;
        jinja_list_push(run, list,
                        is_pair                     ? jinja_pair(run, e->key, e->value)
                        : strcmp(view, "keys") == 0 ? e->key
                                                    : e->value);
    }
    return list;
}

// ---- JSON in ----

static JinjaValue json_string_value_on(Arena *arena, const char *at, size_t len,
                                       JinjaOrigin origin) {
    return string_on(arena, arena_copy(arena, at, len), len, origin);
}

static JinjaValue json_array_value(Arena *arena, const json_t *json, JinjaOrigin origin) {
    JinjaList *list = arena_new(arena, sizeof *list);
    list->len = list->cap = json_array_size(json);
    list->at = arena_new(arena, list->len * sizeof *list->at);
    for (size_t i = 0; i < list->len; i++)
        list->at[i] = jinja_of_json(arena, json_array_get(json, i), origin);
    return jinja_sequence(JINJA_LIST, list);
}

static JinjaValue json_object_value(Arena *arena, const json_t *json, JinjaOrigin origin) {
    JinjaDict *dict = arena_new(arena, sizeof *dict);
    void *at = json_object_iter((json_t *)(uintptr_t)json);
    for (; at; at = json_object_iter_next((json_t *)(uintptr_t)json, at)) {
        const char *name = json_object_iter_key(at);
        JinjaEntry e = {.key = json_string_value_on(arena, name, strlen(name), origin)};
        e.value = jinja_of_json(arena, json_object_iter_value(at), origin);
        value_hash(e.key, &e.hash);
        dict_append(arena, dict, e);
    }
    return jinja_dict_value(dict);
}

JinjaValue jinja_of_json(Arena *arena, const json_t *json, JinjaOrigin origin) {
    switch (json ? json_typeof(json) : JSON_NULL) {
    case JSON_OBJECT: return json_object_value(arena, json, origin);
    case JSON_ARRAY: return json_array_value(arena, json, origin);
    case JSON_STRING:
        return json_string_value_on(arena, json_string_value(json), json_string_length(json),
                                    origin);
    case JSON_INTEGER: return jinja_int(json_integer_value(json));
    case JSON_REAL: return jinja_float(json_real_value(json));
    case JSON_TRUE: return jinja_bool(true);
    case JSON_FALSE: return jinja_bool(false);
    case JSON_NULL: break;
    }
    return jinja_none();
}

// ---- asking ----

const char *jinja_type_name(JinjaValue v) {
    static const char *const names[JINJA_KIND_COUNT] = {
#define KIND(name, type_name) type_name,
        JINJA_KINDS(KIND)
#undef KIND
    };
    if (v.kind == JINJA_VIEW) return v.list->type_name;
    return names[v.kind];
}

bool jinja_is_list(JinjaValue v) { return v.kind >= JINJA_LIST && v.kind <= JINJA_GENERATOR; }

bool jinja_is_integer(JinjaValue v, int64_t *out) {
    if (v.kind != JINJA_INT && v.kind != JINJA_BOOL) return false;
    *out = v.kind == JINJA_INT ? v.integer : v.boolean;
    return true;
}

bool jinja_is_number(JinjaValue v, double *out) {
    int64_t integer;
    if (v.kind == JINJA_FLOAT) *out = v.real;
    else if (jinja_is_integer(v, &integer)) *out = (double)integer;
    else return false;
    return true;
}

bool jinja_is_true(JinjaValue v) {
    switch (v.kind) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NONE: return false;
    case JINJA_BOOL: return v.boolean;
    case JINJA_INT: return v.integer != 0;
    case JINJA_FLOAT: return v.real != 0;
    case JINJA_STRING: return v.string->len > 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_RANGE:
    case JINJA_VIEW: return v.list->len > 0;
    case JINJA_DICT: return v.dict->len > 0;
    default: return true;
    }
}

JinjaValue jinja_soften(JinjaRun *run, JinjaValue v) {
    if (v.kind == JINJA_NONE && v.is_soft) return jinja_cstring(run, "");
    if (v.kind == JINJA_LIST && v.list->as_text) return jinja_string(v.list->as_text);
    if (v.kind == JINJA_DICT && v.dict->as_text) return jinja_string(v.dict->as_text);
    return v;
}

bool jinja_fail_undefined(JinjaRun *run, JinjaValue v) {
    const JinjaMissing *missing = v.missing;
    JinjaBuilder b = jinja_builder(run);
    if (missing->message) {
        jinja_append_cstring(&b, missing->message);
    } else if (missing->of.kind == JINJA_ABSENT) {
        jinja_append_repr(&b, missing->name);
        jinja_append_cstring(&b, " is undefined");
    } else {
        bool is_none = missing->of.kind == JINJA_NONE;
        jinja_append_cstring(&b, missing->is_element ? "" : "'");
        jinja_append_cstring(&b, is_none ? "None" : jinja_type_name(missing->of));
        jinja_append_cstring(&b, is_none ? "" : " object");
        jinja_append_cstring(&b, missing->is_element ? " has no element " : "' has no attribute ");
        jinja_append_repr(&b, missing->name);
    }
    JinjaValue text;
    TRY(jinja_finish(&b, &text));
    return jinja_fail(run, "%.*s", (int)(text.string->len > 500 ? 500 : text.string->len),
                      text.string->at);
}
