// gguf: open a model file (GGUF v2 or v3, split files too) and find its metadata and tensors by name.
// In: a path, or bytes in memory (the embedded model). Out: a Gguf whose texts and arrays point into the mapped file.
// Invariant: after gguf_open succeeded every offset, length and count has been checked against the file's size,
// so readers need no checks of their own. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
// Example: Gguf g; TRY(gguf_open(&g, "m.gguf", err)); uint32_t n; gguf_u32(&g, "llama.block_count", &n);
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/error.h"
#include "base/map.h"
#include "base/os.h"
#include "base/text.h"

typedef enum GgufType {          // numbers of the format
    GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_TEXT, GGUF_ARRAY,
    GGUF_U64, GGUF_I64, GGUF_F64, GGUF_TYPE_COUNT
} GgufType;

typedef struct GgufValue {
    GgufType type;               // GGUF_ARRAY: item_type, count and data are set
    GgufType item_type;
    uint64_t count;
    const uint8_t *data;         // little-endian bytes of the scalar or of the items (arrays of text: see texts)
    Text text;                   // GGUF_TEXT
    const Text *texts;           // array of text: count views
} GgufValue;

typedef struct GgufTensor {
    Text name;
    int n_dims;                  // 1..4
    uint64_t ne[4];              // fastest first, as in the file; unused ones are 1
    uint32_t type;               // ggml type number, a row of nn/ggml_types.def
    const uint8_t *data;
    uint64_t nbytes;
    int file;                    // which part of a split model
} GgufTensor;

typedef struct Gguf {
    Arena *arena;
    int n_files;
    FileMap *files;
    uint32_t version;
    Map keys;                    // name → GgufValue *
    Map tensors;                 // name → GgufTensor *
    uint64_t file_bytes;
} Gguf;

// path: a file, or the first part (…-00001-of-00003.gguf) of a split model, whose other parts lie beside it.
bool gguf_open(Gguf *g, const char *path, Error *err) MUST_CHECK;
// data must stay valid and be readable for 4,096 bytes behind its end. name is used in messages.
bool gguf_open_memory(Gguf *g, const char *name, const uint8_t *data, size_t nbytes, Error *err) MUST_CHECK;
void gguf_close(Gguf *g);
// "key=type:value" as in --override-kv (type: int float bool str); wins over the file.
bool gguf_override(Gguf *g, const char *assignment, Error *err) MUST_CHECK;

const GgufValue *gguf_value(const Gguf *g, const char *key);   // NULL where absent
const GgufTensor *gguf_tensor(const Gguf *g, const char *name);// NULL where absent
// Scalars, converted where the value fits; false where absent or not convertible.
bool gguf_i64(const Gguf *g, const char *key, int64_t *out);
bool gguf_u32(const Gguf *g, const char *key, uint32_t *out);
bool gguf_f32(const Gguf *g, const char *key, float *out);
bool gguf_bool(const Gguf *g, const char *key, bool *out);
bool gguf_text(const Gguf *g, const char *key, Text *out);
// Keys that a file may leave out: *out stays as it is then. False where the key is there and says something else than
// such a value: taking the default would compute another model than the file means.
bool gguf_optional_i64(const Gguf *g, const char *key, int64_t *out, Error *err) MUST_CHECK;
bool gguf_optional_bool(const Gguf *g, const char *key, bool *out, Error *err) MUST_CHECK;
bool gguf_optional_text(const Gguf *g, const char *key, Text *out, Error *err) MUST_CHECK;
// An item of an array of numbers or bools; 0 where v is no such array, i lies behind its end, or the item does
// not fit.
int64_t gguf_array_i64(const GgufValue *v, uint64_t i);
float gguf_array_f32(const GgufValue *v, uint64_t i);

// A storage type of tensors: a row is made of whole blocks of block_elements weights in block_bytes bytes.
// Numbers and sizes are those of ggml (enum ggml_type), as in GGML_QUANT_SIZES of the gguf package on PyPI.
typedef struct GgmlType {
    uint32_t number;
    const char *name;
    uint32_t block_elements, block_bytes;
} GgmlType;
const GgmlType *ggml_type(uint32_t number);                     // NULL where unknown
