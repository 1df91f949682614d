// jinja_value: what a template computes with, and the state of one rendering (inside the engine
// only).
// In: JSON or constants. Out: values that compare, print and hash as Python's do.
// Invariant: strings never change, so slices share bytes; each byte of a string has an origin
// (template or data) that survives slicing and joining. A failure is sticky: the first message
// stays and every later step fails.
// Example: the string "<|" + role: marks are 0 0 1 1 1 1 where role came from a message.
#pragma once
#include <stdarg.h>
#include "base/map.h"
#include "text/jinja.h"

// KIND(name, what Python calls the type)
#define JINJA_KINDS(KIND) \
    KIND(ABSENT, "absent")         /* an argument that was not given; templates never see it */ \
    KIND(UNDEFINED, "Undefined") \
    KIND(NONE, "NoneType") \
    KIND(BOOL, "bool") \
    KIND(INT, "int") \
    KIND(FLOAT, "float") \
    KIND(STRING, "str") \
    KIND(LIST, "list")             /* list.. GENERATOR hold a JinjaList */ \
    KIND(TUPLE, "tuple") \
    KIND(RANGE, "range") \
    KIND(VIEW, "dict_items")       /* .items() .keys() .values() */ \
    KIND(GENERATOR, "generator")   /* read once: position moves to the end */ \
    KIND(DICT, "dict") \
    KIND(NAMESPACE, "Namespace") \
    KIND(MACRO, "Macro") \
    KIND(BUILTIN, "function") \
    KIND(METHOD, "builtin_function_or_method") \
    KIND(LOOP, "LoopContext") \
    KIND(CYCLER, "Cycler") \
    KIND(JOINER, "Joiner")

typedef enum JinjaKind {
#define KIND(name, type_name) JINJA_##name,
    JINJA_KINDS(KIND)
#undef KIND
    JINJA_KIND_COUNT
} JinjaKind;

typedef struct JinjaRun JinjaRun;
typedef struct JinjaValue JinjaValue;
typedef struct JinjaNode JinjaNode;

// Storage that the last string in it may grow into, so that `s = s + x` in a loop costs what it
// adds.
typedef struct JinjaBuffer {
    char *at;
    uint8_t *marks;
    JinjaOrigin origin;
    size_t len, cap;
} JinjaBuffer;

typedef struct JinjaString {
    const char *at;
    size_t len;
    const uint8_t *marks;      // an origin a byte; NULL where all bytes have `origin`
    JinjaOrigin origin;
    bool is_safe;              // markup: `+` escapes its other side
    JinjaBuffer *buffer;       // NULL, or where the bytes lie
} JinjaString;

typedef struct JinjaList {
    JinjaValue *at;
    size_t len, cap;
    size_t position;               // GENERATOR: items taken so far
    const char *type_name;         // VIEW: dict_items, dict_keys or dict_values
    int64_t start, stop, step;     // RANGE
    // content parts: their joined text, where the template wants a string
    JinjaString *as_text;
} JinjaList;

typedef struct JinjaEntry JinjaEntry;
typedef struct JinjaDict {
    JinjaEntry *at;                // in order of insertion
    size_t len, cap;
    uint32_t *slots;               // open addressing, index + 1; NULL while small
    size_t n_slots;
    JinjaString *as_text;          // a content part: its text
} JinjaDict;

// Why a value is undefined: `name` is unknown, or `of` has no attribute or element `name`.
typedef struct JinjaMissing JinjaMissing;
typedef struct JinjaBound JinjaBound;
typedef struct JinjaMacro JinjaMacro;
typedef struct JinjaLoop JinjaLoop;
typedef struct JinjaCycler { JinjaValue *at; size_t len, position; } JinjaCycler;
typedef struct JinjaBuiltinRow JinjaBuiltinRow;

struct JinjaValue {
    JinjaKind kind;
    bool is_soft;                  // NONE that stands for an empty text (a message's null content)
    union {
        bool boolean;
        int64_t integer;
        double real;
        JinjaString *string;
        JinjaList *list;
        JinjaDict *dict;
        JinjaMissing *missing;
        JinjaBound *bound;
        const JinjaMacro *macro;
        const JinjaBuiltinRow *builtin;
        JinjaLoop *loop;
        JinjaCycler *cycler;       // JOINER: at[0] is the separator, position counts calls
    };
};

struct JinjaEntry { JinjaValue key, value; uint64_t hash; };
struct JinjaMissing { JinjaValue of, name; bool is_element; const char *message; };
struct JinjaBound { const JinjaBuiltinRow *row; JinjaValue self; };

typedef struct JinjaKeyword { JinjaString *name; JinjaValue value; } JinjaKeyword;
typedef struct JinjaArgs {
    JinjaValue *at;
    size_t n;
    JinjaKeyword *keywords;
    size_t n_keywords;
} JinjaArgs;

enum { JINJA_MAX_PARAMS = 10 };
// A call to a builtin: arg[] in the order of the row's parameters (ABSENT where not given), all
// holds what came.
typedef struct JinjaCall {
    const char *name;
    JinjaValue self;               // filters, tests and methods: what they are applied to
    JinjaValue arg[JINJA_MAX_PARAMS];
    const JinjaArgs *all;
} JinjaCall;
typedef bool JinjaFunction(JinjaRun *run, const JinjaCall *call, JinjaValue *out);

// A filter, test, method or global. params: names by blanks; "?" before the first that may be left
// out; "*" alone: anything (the function reads call->all).
struct JinjaBuiltinRow { const char *name, *params; JinjaFunction *function; };

typedef struct JinjaScope JinjaScope;

struct JinjaRun {
    Arena *arena;
    Error *err;
    bool has_failed;
    int line;                      // of the statement or expression being evaluated
    int depth, max_depth;
    size_t steps_left, bytes_left;
    size_t used_before;            // of the arena, when the rendering began
    JinjaLimits limits;
    int64_t now;
    const Map *names;              // the template's names, interned
    JinjaScope *scope;
    struct JinjaBuilder *out;      // where text goes now
    JinjaValue captured;           // what a filter block or set block hands to its filters
};

// ---- failing and limits ----
// A message as it may be shown: valid UTF-8, short enough for an Error.
const char *jinja_message(Arena *arena, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));
// All return false, so that `return jinja_fail(...)` reads well. The text names the line.
bool jinja_fail(JinjaRun *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool jinja_fail_limit(JinjaRun *run, const char *what, size_t limit);
// n more steps; false where too many or already failed
bool jinja_step(JinjaRun *run, size_t n);
bool jinja_charge(JinjaRun *run, size_t nbytes);     // nbytes more of text or storage
// one level deeper; pair with jinja_leave where true
bool jinja_enter(JinjaRun *run);
void jinja_leave(JinjaRun *run);

// ---- making values ----
// of ABSENT: a name
JinjaValue jinja_undefined(JinjaRun *run, JinjaValue of, JinjaValue name, bool is_element);
JinjaValue jinja_none(void);
JinjaValue jinja_bool(bool b);
JinjaValue jinja_int(int64_t i);
JinjaValue jinja_float(double f);
JinjaValue jinja_string(JinjaString *string);
// copies nothing
JinjaValue jinja_text(JinjaRun *run, const char *at, size_t len, JinjaOrigin origin);
JinjaValue jinja_cstring(JinjaRun *run, const char *cstr);
JinjaValue jinja_slice(JinjaRun *run, const JinjaString *from, size_t start, size_t len); // bytes
JinjaList *jinja_list_new(JinjaRun *run, size_t cap);
void jinja_list_push(JinjaRun *run, JinjaList *list, JinjaValue item);
JinjaValue jinja_sequence(JinjaKind kind, JinjaList *list);
JinjaValue jinja_pair(JinjaRun *run, JinjaValue a, JinjaValue b);
JinjaDict *jinja_dict_new(JinjaRun *run);
JinjaValue jinja_dict_value(JinjaDict *dict);
// fails: unhashable key
bool jinja_dict_set(JinjaRun *run, JinjaDict *dict, JinjaValue key, JinjaValue value);
// fails where it is not
bool jinja_require_hashable(JinjaRun *run, JinjaValue key);
void jinja_dict_remove(JinjaDict *dict, JinjaEntry *entry);
// NULL where absent
JinjaEntry *jinja_dict_find(JinjaRun *run, const JinjaDict *dict, JinjaValue key);
JinjaEntry *jinja_dict_find_text(JinjaRun *run, const JinjaDict *dict, const char *key);
// "items" "keys" "values"
JinjaList *jinja_dict_list(JinjaRun *run, const JinjaDict *dict, const char *view);
JinjaValue jinja_of_json(Arena *arena, const json_t *json, JinjaOrigin origin);
// A variable that is no JSON (see jinja_set_json).
void jinja_set_value(JinjaContext *context, const char *name, JinjaValue value);

// ---- asking values ----
const char *jinja_type_name(JinjaValue v);                   // as Python says it: "str", "NoneType"
bool jinja_is_true(JinjaValue v);
bool jinja_is_list(JinjaValue v);                            // LIST TUPLE RANGE VIEW GENERATOR
bool jinja_is_integer(JinjaValue v, int64_t *out);           // INT or BOOL
bool jinja_is_number(JinjaValue v, double *out);
bool jinja_equal(JinjaRun *run, JinjaValue a, JinjaValue b);
// fails: no order
bool jinja_compare(JinjaRun *run, JinjaValue a, JinjaValue b, const char *op, int *order);
bool jinja_contains(JinjaRun *run, JinjaValue container, JinjaValue item, bool *out);
bool jinja_length(JinjaRun *run, JinjaValue v, int64_t *out);
// The items a loop would visit (a string's characters, a dict's keys); reads a generator to its
// end.
bool jinja_iterate(JinjaRun *run, JinjaValue v, JinjaList **out);
// v is UNDEFINED: says which name or attribute
bool jinja_fail_undefined(JinjaRun *run, JinjaValue v);
// A message's null content as "", its list of parts as their text; anything else stays as it is.
JinjaValue jinja_soften(JinjaRun *run, JinjaValue v);

// ---- text of values ----
// Bytes with origins. Appending never fails visibly; jinja_finish says whether it all went well.
typedef struct JinjaBuilder { JinjaRun *run; JinjaBuffer *buffer; } JinjaBuilder;
JinjaBuilder jinja_builder(JinjaRun *run);
void jinja_append(JinjaBuilder *b, const char *at, size_t len, JinjaOrigin origin);
void jinja_append_cstring(JinjaBuilder *b, const char *cstr);
void jinja_append_string(JinjaBuilder *b, const JinjaString *s);
void jinja_append_part(JinjaBuilder *b, const JinjaString *s, size_t start, size_t len);
void jinja_append_code_point(JinjaBuilder *b, int32_t code_point, JinjaOrigin origin);
void jinja_append_value(JinjaBuilder *b, JinjaValue v);      // as Python's str()
void jinja_append_repr(JinjaBuilder *b, JinjaValue v);       // as Python's repr()
bool jinja_finish(JinjaBuilder *b, JinjaValue *out);
bool jinja_to_string(JinjaRun *run, JinjaValue v, JinjaString **out);   // str()
bool jinja_concat(JinjaRun *run, const JinjaString *a, const JinjaString *b, JinjaValue *out);
JinjaOrigin jinja_origin(const JinjaString *s);              // DATA where any byte is
// DATA anywhere inside (a few levels deep)
bool jinja_has_data(JinjaValue v);

// Strings by characters (code points; a byte that is no UTF-8 is one character).
size_t jinja_char_count(const JinjaString *s);
// bytes before character index
size_t jinja_char_offset(const JinjaString *s, size_t index);
// the code point, −1 where invalid
int32_t jinja_char_at(const JinjaString *s, size_t offset, size_t *used);
bool jinja_is_space(int32_t code_point);                     // as str.isspace()
// First place of part at or after byte `from`, SIZE_MAX where there is none.
size_t jinja_find(const JinjaString *s, const char *part, size_t part_len, size_t from);
