// gguf: reads the header of a model file into tables of values and of tensors, over a memory map.
// In: a path (of the first part, where a model is split) or bytes. Out: a Gguf that points into it.
// Invariant: every length, count and offset is compared with the bytes left before it is used or
// anything is allocated for it: a hostile file costs at most a small multiple of its own size.
// Layout: magic, version, n_tensors, n_kv, n_kv × {key, type, value}, n_tensors × {name, n_dims,
// ne[], type, offset}, padding to general.alignment, data. Strings: a 64-bit length, then bytes.
// Example: "x-00001-of-00003.gguf" opens the parts 2 and 3 beside it as well.
#include "nn/gguf.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEFAULT_ALIGNMENT = 32,
    HEADER_BYTES = 24,
    KEY_BYTES_MIN = 8 + 4 + 1,        // length of an (empty) key, type, smallest value
    TENSOR_BYTES_MIN = 8 + 4 + 4 + 8, // length of an (empty) name, n_dims, type, offset
    DIMS_MAX = 4,
    SHOWN_MAX = 80, // bytes of a name from the file that a message repeats
};

// One part while it is being read.
typedef struct Reader {
    Gguf *g;
    Error *err;
    const char *path;
    const uint8_t *data;
    size_t nbytes, at;
    int file;
    const char *stage; // what is being read, for messages: "the key", "the tensor"
    Text subject;      // and its name
    uint64_t n_tensors, n_keys;
    Map keys; // this part's own
} Reader;

static const uint8_t scalar_bytes[GGUF_TYPE_COUNT] = {
    [GGUF_U8] = 1,  [GGUF_I8] = 1,   [GGUF_U16] = 2, [GGUF_I16] = 2, [GGUF_U32] = 4, [GGUF_I32] = 4,
    [GGUF_F32] = 4, [GGUF_BOOL] = 1, [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8,
};

// A name from the file as a message may show it: short, and nothing a terminal would act on.
static const char *shown(const Reader *r, Text name) {
    size_t len = name.len < SHOWN_MAX ? name.len : SHOWN_MAX;
    if (len < name.len) len -= utf8_incomplete_tail((Text){name.at, len});
    char *out = arena_new(r->g->arena, len + 4);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)name.at[i];
        out[i] = (char)(c < 0x20 || c == 0x7f ? '?' : c);
    }
    Text cut = {out, len};
    if (!utf8_is_valid(cut))
        for (size_t i = 0; i < len; i++)
            if ((unsigned char)out[i] >= 0x80) out[i] = '?';
    memcpy(out + len, name.len > len ? "..." : "", name.len > len ? 4 : 1);
    return out;
}

#define refuse(r, code, format, ...) fail((r)->err, (code), "%s: " format, (r)->path, __VA_ARGS__)

// ---- bytes

static bool take(Reader *r, uint64_t nbytes, const uint8_t **out) {
    size_t left = r->nbytes - r->at;
    if (nbytes > left)
        return refuse(
            r, LATHE_BAD_FILE,
            "%s '%s' needs %llu more bytes at byte %zu, but the file ends at byte %zu: damaged "
            "file or incomplete download? Fetch it again",
            r->stage, shown(r, r->subject), (unsigned long long)nbytes, r->at, r->nbytes);
    *out = r->data + r->at;
    r->at += (size_t)nbytes;
    return true;
}

static bool take_u32(Reader *r, uint32_t *out) {
    const uint8_t *at = NULL;
    TRY(take(r, sizeof *out, &at));
    memcpy(out, at, sizeof *out);
    return true;
}

static bool take_u64(Reader *r, uint64_t *out) {
    const uint8_t *at = NULL;
    TRY(take(r, sizeof *out, &at));
    memcpy(out, at, sizeof *out);
    return true;
}

static bool take_text(Reader *r, Text *out) {
    uint64_t len = 0;
    const uint8_t *at = NULL;
    TRY(take_u64(r, &len));
    TRY(take(r, len, &at));
    *out = (Text){(const char *)at, (size_t)len};
    return true;
}

// Room for count items; count has been bounded by the bytes of the file before.
static bool allocate(Reader *r, uint64_t count, size_t item_bytes, void *out) {
    void *at = count > SIZE_MAX / item_bytes ? NULL
                                             : arena_alloc(r->g->arena, (size_t)count * item_bytes);
    if (!at)
        return refuse(r, LATHE_NO_MEMORY, "no memory for %llu entries of %s '%s'",
                      (unsigned long long)count, r->stage, shown(r, r->subject));
    memcpy(out, &at, sizeof at);
    return true;
}

// ---- metadata

static bool read_texts(Reader *r, GgufValue *v) {
    if (v->count > (r->nbytes - r->at) / sizeof(uint64_t))
        return refuse(
            r, LATHE_BAD_FILE,
            "%s '%s' claims %llu strings, more than the %zu bytes left can hold: damaged file or "
            "incomplete download?",
            r->stage, shown(r, r->subject), (unsigned long long)v->count, r->nbytes - r->at);
    Text *texts = NULL;
    TRY(allocate(r, v->count, sizeof *texts, &texts));
    for (uint64_t i = 0; i < v->count; i++) TRY(take_text(r, &texts[i]));
    v->texts = texts;
    return true;
}

static bool read_array(Reader *r, GgufValue *v) {
    uint32_t item_type;
    TRY(take_u32(r, &item_type));
    TRY(take_u64(r, &v->count));
    if (item_type == GGUF_ARRAY)
        return refuse(r, LATHE_UNSUPPORTED,
                      "key '%s' is an array of arrays, which no model's metadata needs",
                      shown(r, r->subject));
    if (item_type >= GGUF_TYPE_COUNT)
        return refuse(r, LATHE_BAD_FILE,
                      "key '%s' is an array of the unknown type %u: damaged file?",
                      shown(r, r->subject), item_type);
    v->item_type = (GgufType)item_type;
    v->data = r->data + r->at;
    if (v->item_type == GGUF_TEXT) return read_texts(r, v);
    uint64_t nbytes;
    if (__builtin_mul_overflow(v->count, (uint64_t)scalar_bytes[item_type], &nbytes))
        nbytes = UINT64_MAX;
    return take(r, nbytes, &v->data);
}

static bool read_key(Reader *r) {
    Text key;
    uint32_t type;
    r->stage = "the metadata key after",
    r->subject = r->subject.at ? r->subject : text_of("(start)");
    TRY(take_text(r, &key));
    if (key.len == 0)
        return refuse(r, LATHE_BAD_FILE,
                      "a metadata key after '%s' has an empty name: damaged file?",
                      shown(r, r->subject));
    r->stage = "the metadata key", r->subject = key;
    if (map_has(&r->keys, key.at, key.len))
        return refuse(r, LATHE_BAD_FILE, "metadata key '%s' stands twice in the file",
                      shown(r, key));
    TRY(take_u32(r, &type));
    if (type >= GGUF_TYPE_COUNT)
        return refuse(r, LATHE_BAD_FILE, "metadata key '%s' has the unknown type %u: damaged file?",
                      shown(r, key), type);
    GgufValue *v = NULL;
    TRY(allocate(r, 1, sizeof *v, &v));
    *v = (GgufValue){.type = (GgufType)type};
    if (type == GGUF_TEXT) TRY(take_text(r, &v->text));
    else if (type == GGUF_ARRAY) TRY(read_array(r, v));
    else TRY(take(r, scalar_bytes[type], &v->data));
    map_put(&r->keys, key.at, key.len, v);
    return true;
}

// A value of this part; the other parts of a split model say little, and only about themselves.
static bool part_i64(const Reader *r, const char *key, int64_t *out) {
    Gguf view = {.keys = r->keys};
    return gguf_i64(&view, key, out);
}

static bool read_alignment(Reader *r, uint64_t *out) {
    int64_t alignment = DEFAULT_ALIGNMENT;
    bool is_given = map_get_text(&r->keys, "general.alignment") != NULL;
    if (is_given && !part_i64(r, "general.alignment", &alignment)) alignment = 0;
    if (alignment < 8 || alignment > UINT32_MAX || (alignment & (alignment - 1)) != 0)
        return refuse(r, LATHE_BAD_FILE,
                      "general.alignment is %lld; it must be a power of two and at least 8",
                      (long long)alignment);
    *out = (uint64_t)alignment;
    return true;
}

// ---- tensors

static bool check_dims(Reader *r, GgufTensor *t, uint64_t *count) {
    *count = 1;
    for (int d = 0; d < t->n_dims; d++) {
        if (t->ne[d] == 0)
            return refuse(r, LATHE_BAD_FILE, "tensor '%s' has dimension 0: damaged file?",
                          shown(r, t->name));
        if (__builtin_mul_overflow(*count, t->ne[d], count) || *count > INT64_MAX)
            return refuse(r, LATHE_BAD_FILE,
                          "tensor '%s' has more elements than 63 bits can count: damaged file?",
                          shown(r, t->name));
    }
    return true;
}

static bool tensor_size(Reader *r, GgufTensor *t) {
    uint64_t count;
    TRY(check_dims(r, t, &count));
    const GgmlType *type = ggml_type(t->type);
    if (!type)
        return refuse(
            r, LATHE_UNSUPPORTED,
            "tensor '%s' has the unknown storage type %u, so its size cannot be checked. The "
            "file may be newer than this lathe: take another quantisation of the model",
            shown(r, t->name), t->type);
    if (t->ne[0] % type->block_elements != 0)
        return refuse(r, LATHE_BAD_FILE,
                      "tensor '%s' has rows of %llu weights, which %s cannot store in blocks of %u",
                      shown(r, t->name), (unsigned long long)t->ne[0], type->name,
                      type->block_elements);
    if (__builtin_mul_overflow(count / type->block_elements, (uint64_t)type->block_bytes,
                               &t->nbytes))
        return refuse(r, LATHE_BAD_FILE,
                      "tensor '%s' has more bytes than 64 bits can count: damaged file?",
                      shown(r, t->name));
    return true;
}

// Reads one entry; its offset, from the start of the data section, is not yet an address.
static bool read_tensor(Reader *r, GgufTensor *t, uint64_t *offset) {
    uint32_t n_dims;
    r->stage = "the tensor entry after";
    TRY(take_text(r, &t->name));
    r->stage = "the tensor entry", r->subject = t->name;
    TRY(take_u32(r, &n_dims));
    if (n_dims > DIMS_MAX)
        return refuse(r, LATHE_BAD_FILE,
                      "tensor '%s' has %u dimensions; at most %d are possible: damaged file?",
                      shown(r, t->name), n_dims, DIMS_MAX);
    for (int d = 0; d < DIMS_MAX; d++) t->ne[d] = 1;
    for (uint32_t d = 0; d < n_dims; d++) TRY(take_u64(r, &t->ne[d]));
    t->n_dims = n_dims ? (int)n_dims : 1; // a scalar is a row of one
    TRY(take_u32(r, &t->type));
    TRY(take_u64(r, offset));
    TRY(tensor_size(r, t));
    t->file = r->file;
    if (map_has(&r->g->tensors, t->name.at, t->name.len))
        return refuse(r, LATHE_BAD_FILE, "tensor '%s' stands twice in the model",
                      shown(r, t->name));
    map_put(&r->g->tensors, t->name.at, t->name.len, t);
    return true;
}

static bool place_tensor(Reader *r, GgufTensor *t, uint64_t offset, uint64_t start,
                         uint64_t alignment) {
    uint64_t begin, end;
    if (offset % alignment != 0)
        return refuse(
            r, LATHE_BAD_FILE,
            "tensor '%s' begins at offset %llu, which is no multiple of the alignment %llu",
            shown(r, t->name), (unsigned long long)offset, (unsigned long long)alignment);
    bool wraps = __builtin_add_overflow(start, offset, &begin) ||
                 __builtin_add_overflow(begin, t->nbytes, &end);
    if (wraps || end > r->nbytes)
        return refuse(r, LATHE_BAD_FILE,
                      "the file ends at byte %zu, but tensor '%s' needs %llu: incomplete download? "
                      "Fetch it again",
                      r->nbytes, shown(r, t->name), (unsigned long long)(wraps ? UINT64_MAX : end));
    t->data = r->data + begin;
    return true;
}

static bool read_tensors(Reader *r) {
    uint64_t alignment = 0, *offsets = NULL;
    GgufTensor *tensors = NULL;
    TRY(read_alignment(r, &alignment));
    r->stage = "the list of tensors after", r->subject = text_of("(metadata)");
    TRY(allocate(r, r->n_tensors, sizeof *tensors, &tensors));
    TRY(allocate(r, r->n_tensors, sizeof *offsets, &offsets));
    for (uint64_t i = 0; i < r->n_tensors; i++) TRY(read_tensor(r, &tensors[i], &offsets[i]));
    uint64_t start = (r->at + alignment - 1) & ~(alignment - 1);
    for (uint64_t i = 0; i < r->n_tensors; i++)
        TRY(place_tensor(r, &tensors[i], offsets[i], start, alignment));
    return true;
}

// ---- a part

// Other things that are found under a model's name, told by their first bytes.
static const struct KnownMagic {
    const char *bytes, *meaning;
} known_magics[] = {
    {"lmgg", "a GGML file from before GGUF; convert the model again"},
    {"fmgg", "a GGML file from before GGUF; convert the model again"},
    {"tjgg", "a GGML file from before GGUF; convert the model again"},
    {"vers", "a Git LFS pointer, not the file itself; run git lfs pull"},
    {"<!DO", "a web page, not a model; the download link was wrong"},
    {"<htm", "a web page, not a model; the download link was wrong"},
    {"PK\3\4", "a zip archive (a PyTorch model?); lathe reads GGUF files"},
};

static bool check_magic(Reader *r) {
    if (r->nbytes >= 4 && memcmp(r->data, "GGUF", 4) == 0) return true;
    for (size_t i = 0; i < sizeof known_magics / sizeof *known_magics; i++)
        if (r->nbytes >= 4 && memcmp(r->data, known_magics[i].bytes, 4) == 0)
            return refuse(r, LATHE_BAD_FILE, "not a GGUF file: it is %s", known_magics[i].meaning);
    return refuse(r, LATHE_BAD_FILE, "not a GGUF file: it %s",
                  r->nbytes ? "does not begin with the bytes GGUF" : "is empty");
}

static bool check_version(Reader *r, uint32_t version) {
    if (version == 2 || version == 3) return true;
    if (version == 1)
        return refuse(r, LATHE_UNSUPPORTED,
                      "GGUF version 1, a format of %s; convert the model again", "August 2023");
    if (version != 0 && (version & 0xffff) == 0)
        return refuse(r, LATHE_UNSUPPORTED,
                      "a big-endian GGUF (version field 0x%08x); lathe reads little-endian "
                      "files, gguf_convert_endian.py of the gguf package converts",
                      version);
    return refuse(r, LATHE_UNSUPPORTED, "GGUF version %u; lathe reads versions 2 and 3", version);
}

static bool read_header(Reader *r) {
    uint32_t version;
    TRY(check_magic(r));
    r->stage = "the header of", r->subject = text_of(r->path), r->at = 4;
    if (r->nbytes < HEADER_BYTES)
        return refuse(
            r, LATHE_BAD_FILE,
            "too short for GGUF: %zu bytes, the header alone has %d: incomplete download?",
            r->nbytes, HEADER_BYTES);
    TRY(take_u32(r, &version));
    TRY(check_version(r, version));
    TRY(take_u64(r, &r->n_tensors));
    TRY(take_u64(r, &r->n_keys));
    size_t left = r->nbytes - r->at;
    if (r->n_keys > left / KEY_BYTES_MIN || r->n_tensors > left / TENSOR_BYTES_MIN)
        return refuse(r, LATHE_BAD_FILE,
                      "the header counts %llu metadata keys and %llu tensors, more than %zu bytes "
                      "can hold: damaged file or incomplete download?",
                      (unsigned long long)r->n_keys, (unsigned long long)r->n_tensors, left);
    r->g->version = version;
    r->subject = (Text){0};
    return true;
}

static bool read_metadata(Reader *r) {
    map_init(&r->keys, r->g->arena);
    TRY(read_header(r));
    for (uint64_t i = 0; i < r->n_keys; i++) TRY(read_key(r));
    return true;
}

// ---- split models

typedef struct Split {
    int64_t no, count, n_tensors; // of the key split.*; n_tensors -1 where not stated
} Split;

static bool read_split(Reader *r, Split *split) {
    *split = (Split){.no = 0, .count = 1, .n_tensors = -1};
    part_i64(r, "split.no", &split->no);
    part_i64(r, "split.count", &split->count);
    part_i64(r, "split.tensors.count", &split->n_tensors);
    if (split->count == 0) split->count = 1;
    if (split->count < 0 || split->count > UINT16_MAX || split->no < 0 || split->no >= split->count)
        return refuse(r, LATHE_BAD_FILE,
                      "split.no is %lld of split.count %lld, which cannot be: damaged file?",
                      (long long)split->no, (long long)split->count);
    return true;
}

// "PREFIX-00001-of-00003.gguf" → the name of part no (from 0), or NULL where path does not end that
// way.
static const char *part_path(Arena *arena, const char *path, int64_t no, int64_t count) {
    static const char shape[] = "-00000-of-00000.gguf";
    size_t len = strlen(path), tail = sizeof shape - 1;
    if (len < tail) return NULL;
    for (size_t i = 0; i < tail; i++) {
        char c = path[len - tail + i];
        if (shape[i] == '0' ? c < '0' || c > '9' : c != shape[i]) return NULL;
    }
    if (atoi(path + len - tail + 10) != count) return NULL;
    return arena_printf(arena, "%.*s-%05d-of-%05d.gguf", (int)(len - tail), path, (int)no + 1,
                        (int)count);
}

static bool check_first_part(Reader *r, const Split *split) {
    if (split->count == 1) return true;
    const char *first = part_path(r->g->arena, r->path, 0, split->count);
    if (split->no != 0 && first && strcmp(first, r->path) == 0)
        return refuse(r, LATHE_BAD_FILE, "says that it is part %lld of %lld, but its name says part 1: renamed?",
                      (long long)split->no + 1, (long long)split->count);
    if (split->no != 0)
        return refuse(r, LATHE_BAD_REQUEST,
                      "this is part %lld of a model in %lld parts; open the first: %s",
                      (long long)split->no + 1, (long long)split->count,
                      first ? first : "the file whose name ends in -00001-of-….gguf");
    if (!first || strcmp(first, r->path) != 0)
        return refuse(
            r, LATHE_BAD_FILE,
            "the model has %lld parts (split.count), which are found by name only: rename "
            "this file to end in -00001-of-%05lld.gguf",
            (long long)split->count, (long long)split->count);
    return true;
}

static bool open_part(Gguf *g, Reader *r, int no, Error *err) {
    *r = (Reader){.g = g, .err = err, .path = r->path, .file = no};
    TRY(file_map(&g->files[no], r->path, err));
    g->n_files = no + 1;
    g->file_bytes += g->files[no].nbytes;
    r->data = g->files[no].data;
    r->nbytes = g->files[no].nbytes;
    return read_metadata(r);
}

static bool open_rest(Gguf *g, const char *path, const Split *split, Error *err) {
    FileMap first = g->files[0];
    g->files = arena_new(g->arena, (size_t)split->count * sizeof *g->files);
    g->files[0] = first;
    for (int no = 1; no < split->count; no++) {
        Reader r = {.path = part_path(g->arena, path, no, split->count)};
        Split other;
        if (!file_exists(r.path))
            return fail(err, LATHE_BAD_FILE,
                        "%s: the model has %lld parts, and part %d is missing: %s. All parts must "
                        "lie in one folder",
                        path, (long long)split->count, no + 1, r.path);
        TRY(open_part(g, &r, no, err));
        TRY(read_split(&r, &other));
        if (other.no != no || other.count != split->count)
            return fail(
                err, LATHE_BAD_FILE,
                "%s: says that it is part %lld of %lld, but its name says %d of %lld: renamed?",
                r.path, (long long)other.no + 1, (long long)other.count, no + 1,
                (long long)split->count);
        TRY(read_tensors(&r));
    }
    if (split->n_tensors >= 0 && (uint64_t)split->n_tensors != g->tensors.len)
        return fail(
            err, LATHE_BAD_FILE,
            "%s: split.tensors.count is %lld, but the %lld parts hold %zu tensors: parts of "
            "different models?",
            path, (long long)split->n_tensors, (long long)split->count, g->tensors.len);
    return true;
}

// ---- open and close

static void gguf_begin(Gguf *g) {
    *g = (Gguf){.arena = arena_create()};
    map_init(&g->tensors, g->arena);
    g->files = arena_new(g->arena, sizeof *g->files);
}

static bool gguf_read_path(Gguf *g, const char *path, Error *err) {
    Reader r = {.path = path};
    Split split;
    TRY(open_part(g, &r, 0, err));
    g->keys = r.keys;
    TRY(read_split(&r, &split));
    TRY(check_first_part(&r, &split));
    TRY(read_tensors(&r));
    return split.count == 1 || open_rest(g, path, &split, err);
}

static bool gguf_read_memory(Gguf *g, const char *name, const uint8_t *data, size_t nbytes,
                             Error *err) {
    Reader r = {.g = g, .err = err, .path = name, .data = data, .nbytes = nbytes};
    Split split;
    g->file_bytes = nbytes;
    TRY(read_metadata(&r));
    g->keys = r.keys;
    TRY(read_split(&r, &split));
    if (split.count != 1)
        return fail(err, LATHE_UNSUPPORTED,
                    "%s: a split model cannot be read from memory; merge its parts", name);
    return read_tensors(&r);
}

bool gguf_open(Gguf *g, const char *path, Error *err) {
    gguf_begin(g);
    if (gguf_read_path(g, path, err)) return true;
    gguf_close(g);
    return false;
}

bool gguf_open_memory(Gguf *g, const char *name, const uint8_t *data, size_t nbytes, Error *err) {
    gguf_begin(g);
    if (gguf_read_memory(g, name, data, nbytes, err)) return true;
    gguf_close(g);
    return false;
}

void gguf_close(Gguf *g) {
    for (int i = 0; i < g->n_files; i++) file_unmap(&g->files[i]);
    arena_destroy(g->arena);
    *g = (Gguf){0};
}
