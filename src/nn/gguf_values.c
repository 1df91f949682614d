// gguf_values: what a file's metadata says, read as the type that the caller wants; overrides.
// In: an opened Gguf and a key. Out: a value, converted where it fits, or false.
// Invariant: gguf_open has checked all lengths, so bytes are read without looking at them again.
// Example: uint32_t n; if (!gguf_u32(g, "llama.block_count", &n)) n = 0;
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "nn/gguf.h"

// A number as read from the file: integers keep all 64 bits, floats are doubles.
typedef struct Number {
    enum { NUMBER_NONE, NUMBER_SIGNED, NUMBER_UNSIGNED, NUMBER_FLOAT } kind;
    int64_t i;
    uint64_t u;
    double f;
} Number;

#define READ_AS(T, at)                                                                             \
    ({                                                                                             \
        T value_;                                                                                  \
        memcpy(&value_, (at), sizeof value_);                                                      \
        value_;                                                                                    \
    })

static Number number_signed(int64_t i) { return (Number){.kind = NUMBER_SIGNED, .i = i}; }

static Number number_unsigned(uint64_t u) { return (Number){.kind = NUMBER_UNSIGNED, .u = u}; }

static Number number_float(double f) { return (Number){.kind = NUMBER_FLOAT, .f = f}; }

static Number number_read(GgufType type, const uint8_t *items, uint64_t i) {
    switch (type) {
    case GGUF_U8: return number_unsigned(items[i]);
    case GGUF_BOOL: return number_unsigned(items[i] != 0);
    case GGUF_I8: return number_signed((int8_t)items[i]);
    case GGUF_U16: return number_unsigned(READ_AS(uint16_t, items + 2 * i));
    case GGUF_I16: return number_signed(READ_AS(int16_t, items + 2 * i));
    case GGUF_U32: return number_unsigned(READ_AS(uint32_t, items + 4 * i));
    case GGUF_I32: return number_signed(READ_AS(int32_t, items + 4 * i));
    case GGUF_U64: return number_unsigned(READ_AS(uint64_t, items + 8 * i));
    case GGUF_I64: return number_signed(READ_AS(int64_t, items + 8 * i));
    case GGUF_F32: return number_float((double)READ_AS(float, items + 4 * i));
    case GGUF_F64: return number_float(READ_AS(double, items + 8 * i));
    case GGUF_TEXT:
    case GGUF_ARRAY:
    case GGUF_TYPE_COUNT: break;
    }
    return (Number){.kind = NUMBER_NONE};
}

static Number number_of(const Gguf *g, const char *key) {
    const GgufValue *v = gguf_value(g, key);
    return v ? number_read(v->type, v->data, 0) : (Number){.kind = NUMBER_NONE};
}

static Number number_item(const GgufValue *v, uint64_t i) {
    bool is_item = v && v->type == GGUF_ARRAY && i < v->count;
    return is_item ? number_read(v->item_type, v->data, i) : (Number){.kind = NUMBER_NONE};
}

static bool number_to_i64(Number n, int64_t *out) {
    const double limit = 9223372036854775808.0; // 2^63, the first double that does not fit
    switch (n.kind) {
    case NUMBER_SIGNED: *out = n.i; return true;
    case NUMBER_UNSIGNED:
        if (n.u > INT64_MAX) return false;
        *out = (int64_t)n.u;
        return true;
    case NUMBER_FLOAT:
        if (!(n.f >= -limit && n.f < limit) || n.f != trunc(n.f)) return false;
        *out = (int64_t)n.f;
        return true;
    case NUMBER_NONE: break;
    }
    return false;
}

static bool number_to_f32(Number n, float *out) {
    switch (n.kind) {
    case NUMBER_SIGNED: *out = (float)n.i; return true;
    case NUMBER_UNSIGNED: *out = (float)n.u; return true;
    case NUMBER_FLOAT:
        if (isfinite(n.f) && fabs(n.f) > (double)FLT_MAX) return false;
        *out = (float)n.f;
        return true;
    case NUMBER_NONE: break;
    }
    return false;
}

const GgufValue *gguf_value(const Gguf *g, const char *key) { return map_get_text(&g->keys, key); }

const GgufTensor *gguf_tensor(const Gguf *g, const char *name) {
    return map_get_text(&g->tensors, name);
}

bool gguf_i64(const Gguf *g, const char *key, int64_t *out) {
    return number_to_i64(number_of(g, key), out);
}

bool gguf_u32(const Gguf *g, const char *key, uint32_t *out) {
    int64_t wide;
    if (!gguf_i64(g, key, &wide) || wide < 0 || wide > UINT32_MAX) return false;
    *out = (uint32_t)wide;
    return true;
}

bool gguf_f32(const Gguf *g, const char *key, float *out) {
    return number_to_f32(number_of(g, key), out);
}

bool gguf_bool(const Gguf *g, const char *key, bool *out) {
    int64_t wide;
    if (!gguf_i64(g, key, &wide) || (wide != 0 && wide != 1)) return false;
    *out = wide == 1;
    return true;
}

bool gguf_text(const Gguf *g, const char *key, Text *out) {
    const GgufValue *v = gguf_value(g, key);
    if (!v || v->type != GGUF_TEXT) return false;
    *out = v->text;
    return true;
}

static bool optional(const Gguf *g, const char *key, bool is_read, const char *what, Error *err) {
    if (is_read || !gguf_value(g, key)) return true;
    return fail(err, LATHE_BAD_FILE,
                "the key '%s' is not %s: damaged file? (--override-kv can replace it)", key, what);
}

bool gguf_optional_i64(const Gguf *g, const char *key, int64_t *out, Error *err) {
    return optional(g, key, gguf_i64(g, key, out), "a whole number", err);
}

bool gguf_optional_bool(const Gguf *g, const char *key, bool *out, Error *err) {
    return optional(g, key, gguf_bool(g, key, out), "true or false", err);
}

bool gguf_optional_text(const Gguf *g, const char *key, Text *out, Error *err) {
    return optional(g, key, gguf_text(g, key, out), "a text", err);
}

int64_t gguf_array_i64(const GgufValue *v, uint64_t i) {
    int64_t out = 0;
    return number_to_i64(number_item(v, i), &out) ? out : 0;
}

float gguf_array_f32(const GgufValue *v, uint64_t i) {
    float out = 0;
    return number_to_f32(number_item(v, i), &out) ? out : 0;
}

// ---- overrides

static bool override_int(Gguf *g, GgufValue *v, const char *text) {
    char *end;
    errno = 0;
    int64_t value = strtoll(text, &end, 0);
    if (errno || end == text || *end) return false;
    *v = (GgufValue){.type = GGUF_I64, .data = arena_copy(g->arena, &value, sizeof value)};
    return true;
}

static bool override_float(Gguf *g, GgufValue *v, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value)) return false;
    *v = (GgufValue){.type = GGUF_F64, .data = arena_copy(g->arena, &value, sizeof value)};
    return true;
}

static bool override_bool(Gguf *g, GgufValue *v, const char *text) {
    uint8_t value = strcmp(text, "true") == 0;
    if (!value && strcmp(text, "false") != 0) return false;
    *v = (GgufValue){.type = GGUF_BOOL, .data = arena_copy(g->arena, &value, sizeof value)};
    return true;
}

static bool override_str(Gguf *g, GgufValue *v, const char *text) {
    *v = (GgufValue){.type = GGUF_TEXT, .text = text_copy(g->arena, text_of(text))};
    return true;
}

static const struct OverrideKind {
    const char *prefix;
    bool (*parse)(Gguf *g, GgufValue *v, const char *text);
} override_kinds[] = {
    {"int:", override_int},
    {"float:", override_float},
    {"bool:", override_bool},
    {"str:", override_str},
};

bool gguf_override(Gguf *g, const char *assignment, Error *err) {
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment)
        return fail(
            err, LATHE_BAD_REQUEST,
            "override \"%.200s\": write it as key=type:value with type int, float, bool or str, "
            "for example deepseek2.expert_gating_func=int:2",
            assignment);
    for (size_t i = 0; i < sizeof override_kinds / sizeof *override_kinds; i++) {
        const char *prefix = override_kinds[i].prefix;
        if (strncmp(equals + 1, prefix, strlen(prefix)) != 0) continue;
        GgufValue *v = arena_new(g->arena, sizeof *v);
        const char *text = equals + 1 + strlen(prefix);
        if (!override_kinds[i].parse(g, v, text))
            return fail(err, LATHE_BAD_REQUEST,
                        "override \"%.200s\": \"%.100s\" is not a value of type %.*s", assignment,
                        text, (int)strlen(prefix) - 1, prefix);
        map_put(&g->keys, assignment, (size_t)(equals - assignment), v);
        return true;
    }
    return fail(err, LATHE_BAD_REQUEST,
                "override \"%.200s\": the type before ':' must be int, float, bool or str",
                assignment);
}

// ---- storage types

static const GgmlType ggml_types[] = {
#define GGML_TYPE(number, name, elements, bytes) {number, #name, elements, bytes},
#include "nn/ggml_types.def"
#undef GGML_TYPE
};

const GgmlType *ggml_type(uint32_t number) {
    for (size_t i = 0; i < sizeof ggml_types / sizeof *ggml_types; i++)
        if (ggml_types[i].number == number) return &ggml_types[i];
    return NULL;
}
